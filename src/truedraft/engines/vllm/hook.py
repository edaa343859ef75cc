"""Patching without importing: an action runs when the host itself has imported a module.

The plugin is loaded in every process of vLLM, before most of vLLM is imported, and must neither cost time
nor change the order of imports.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

Action = Callable[[ModuleType], None]


def when_imported(name: str, action: Action) -> None:
    """Call `action(module)` once `name` is imported: now, if it is already.

    `action` must not raise: it would fail the host's import.
    """
    if name in sys.modules:
        action(sys.modules[name])
    else:
        sys.meta_path.insert(0, _Finder(name, action))


class _Finder(MetaPathFinder):
    """Finds one module as the other finders do, and has its loader call the action afterwards."""

    def __init__(self, name: str, action: Action) -> None:
        self.name = name
        self.action = action

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self.name:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self.action)
        return spec


class _Loader(Loader):
    """Another loader, followed by an action."""

    def __init__(self, inner: Loader, action: Action) -> None:
        self.inner = inner
        self.action = action

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self.inner
        module.__loader__ = self.inner
        self.inner.exec_module(module)
        self.action(module)
