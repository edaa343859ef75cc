"""Runs single functions and classes of a release, taken out of its source by their syntax tree.

A name that such a function looks up is found in this order: what the audit puts in its place, a definition
in the same file, an import. Imports from vLLM lead to that release's own file, definition by definition and
only when used; a few modules of the standard library are the real ones; anything else is a `Blank`.

THIS RUNS THE RELEASE'S CODE. Files, `eval`, imports and endless loops are out of its reach, which guards
against accidents; it is no sandbox against a wheel that means harm.
"""

from __future__ import annotations

import ast
import builtins
import importlib
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from truedraft.engines.vllm.audit.code import COUNT, compiled, count_round, decorators, early
from truedraft.engines.vllm.audit.source import Source
from truedraft.engines.vllm.audit.stand_ins import Blank, Gap

REAL = frozenset(
    (
        "abc",
        "ast",
        "bisect",
        "collections",
        "collections.abc",
        "contextlib",
        "copy",
        "dataclasses",
        "enum",
        "functools",
        "itertools",
        "math",
        "numbers",
        "operator",
        "re",
        "string",
        "types",
        "typing",
        "typing_extensions",
    )
)
"""Modules that the release gets as they are."""

_DENIED = ("open", "eval", "exec", "compile", "input", "breakpoint", "exit", "quit", "help", "__loader__")


class Missing(Exception):
    """The release has no such file or definition."""


class Program:
    """One release, run with `places`.

    Stand-ins by the bare name of what is imported, by the dotted name of a third party's, or as `def NAME`
    for a definition wherever it stands.
    """

    def __init__(self, source: Source, places: Mapping[str, Any]) -> None:
        self.source = source
        self.places = places
        self.modules: dict[str, Module] = {}
        self.used: list[str] = []

    def module(self, path: str) -> Module:
        """The module of a file (`vllm/config/vllm.py`). Raises `Missing`."""
        if path not in self.modules:
            if not self.source.has(path):
                raise Missing(f"no file {path}")
            self.modules[path] = Module(self, path)
        return self.modules[path]

    def find(self, path: str, name: str) -> Any:
        """A definition (`GPUModelRunner.method`) of a file. Raises `Missing` and `Gap`."""
        first, *rest = name.split(".")
        module = self.module(path)
        if first not in module.definitions and first not in module.imports:
            raise Missing(f"no {first} in {path}")
        found = module[first]
        for part in rest:
            if part not in vars(found):
                raise Missing(f"no {name} in {path}")
            found = vars(found)[part]
        self.used.append(f"{path.removeprefix('vllm/')}:{name}")
        return getattr(found, "__func__", found) if rest else found

    def has(self, path: str, name: str) -> bool:
        """Whether `find` would find it."""
        try:
            self.find(path, name)
        except Missing:
            return False
        self.used.pop()
        return True

    def lead(self, package: str, name: str) -> Any:
        """What an import of `name` from `package` gives; `name` is empty for the package itself."""
        dotted = f"{package}.{name}" if name else package
        for key in (dotted, name or package.rpartition(".")[2]):
            if key in self.places:
                return self.places[key]
        if package.split(".")[0] != "vllm":
            if package in REAL:
                real = importlib.import_module(package)
                return (
                    getattr(real, name) if name and hasattr(real, name) else Blank(dotted) if name else real
                )
            return _Foreign(dotted, self.places)
        for path in _files(package) if name else ():
            if self.source.has(path):
                module = self.module(path)
                if name in module.definitions or name in module.imports:
                    return module[name]
        for path in _files(dotted):
            if self.source.has(path):
                return _Proxy(self.module(path))
        return _Foreign(dotted, self.places)


class Module(dict[str, Any]):
    """The global names of one file, evaluated when they are looked up."""

    def __init__(self, program: Program, path: str) -> None:
        package = path.removesuffix(".py").replace("/", ".")
        self.program, self.path = program, path
        self.package = (
            package.removesuffix(".__init__") if path.endswith("__init__.py") else package.rpartition(".")[0]
        )
        self.definitions: dict[str, ast.stmt] = {}
        self.imports: dict[str, tuple[str, str]] = {}
        super().__init__(__name__=__name__, __builtins__=self._builtins())
        self[COUNT] = count_round
        self._index(program.source.tree(path).body)

    def _index(self, body: list[ast.stmt]) -> None:
        for node in body:
            match node:
                case ast.FunctionDef() | ast.ClassDef() | ast.AsyncFunctionDef():
                    self.definitions[node.name] = node  # the last of several overloads is the one that runs
                case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                    self.definitions.setdefault(name, node)
                case ast.Import(names=names):
                    for alias in names:
                        whole = (alias.name, "") if alias.asname else (alias.name.split(".")[0], "")
                        self.imports.setdefault(alias.asname or whole[0], whole)
                case ast.ImportFrom(module=module, names=names, level=level):
                    origin = self._origin(module, level)
                    for alias in names:
                        self.imports.setdefault(alias.asname or alias.name, (origin, alias.name))
                case ast.If(test=test, body=inner, orelse=other):
                    taken = self._holds(test)
                    self._index(inner if taken is not False else [])
                    self._index(other if taken is not True else [])
                case ast.Try(body=inner):
                    self._index(inner)

    def _holds(self, test: ast.expr) -> bool | None:
        """Whether a condition between definitions holds (`TYPE_CHECKING`, the platform), if that is known."""
        try:
            code = compile(ast.Expression(test), self.path, "eval", dont_inherit=True)
            return bool(eval(code, self, self))
        except (Exception, Gap):
            return None

    def _origin(self, module: str | None, level: int) -> str:
        if not level:
            return module or ""
        parent = self.package.split(".")
        parent = parent[: len(parent) - level + 1]
        return ".".join([*parent, module] if module else parent)

    def __missing__(self, name: str) -> Any:
        if f"def {name}" in self.program.places:
            self[name] = self.program.places[f"def {name}"]
            return self[name]
        if name in self.definitions:
            node = self.definitions[name]
            if isinstance(node, ast.FunctionDef) and any(
                "kernel" in d or "jit" in d for d in decorators(node)
            ):
                self[name] = Blank(name)  # a kernel for a GPU
                return self[name]
            for other in early(node):  # a class body looks names up in a way that knows no __missing__
                if other == name:  # a class on top of an imported one of the same name
                    if name in self.imports:
                        self[name] = self.program.lead(*self.imports[name])
                elif other in self.definitions or other in self.imports:
                    self[other]
            codes = self.program.source.codes
            if (self.path, name) not in codes:
                codes[self.path, name] = compiled(node, self.path)
            exec(codes[self.path, name], self, self)  # a release's code comes to life here
            if name not in dict.keys(self):
                raise Gap(f"{self.path}: {name} is declared without a value")
            return self[name]
        if name in self.imports:
            self[name] = self.program.lead(*self.imports[name])
            return self[name]
        raise KeyError(name)

    def all(self) -> None:
        """Evaluate every definition, for files whose definitions register themselves."""
        for name in self.definitions:
            self[name]

    def _builtins(self) -> dict[str, Any]:
        allowed = {name: value for name, value in vars(builtins).items() if name not in _DENIED}
        return allowed | {"__import__": self._import, "print": _silent}

    def _import(
        self, name: str, globals: object = None, locals: object = None, fromlist: Any = (), level: int = 0
    ) -> Any:
        origin = self._origin(name or None, level)
        if not fromlist:
            return self.program.lead(name.split(".")[0], "")
        return SimpleNamespace(**{entry: self.program.lead(origin, entry) for entry in fromlist})


class _Proxy:
    """A module as an object with attributes."""

    def __init__(self, module: Module) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        module = self._module
        if name in module.definitions or name in module.imports:
            return module[name]
        return module.program.lead(
            module.path.removesuffix(".py").removesuffix("/__init__").replace("/", "."), name
        )


class _Foreign(Blank):
    """A third party's module: blank, except what the audit puts in its place."""

    def __init__(self, name: str, places: Mapping[str, Any]) -> None:
        super().__init__(name)
        object.__setattr__(self, "_places", places)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        dotted = f"{self._name}.{name}"
        return self._places[dotted] if dotted in self._places else _Foreign(dotted, self._places)


def _files(dotted: str) -> tuple[str, str]:
    path = dotted.replace(".", "/")
    return f"{path}.py", f"{path}/__init__.py"


def _silent(*args: object, **keywords: object) -> None:
    pass
