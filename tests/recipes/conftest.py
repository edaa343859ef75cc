"""Modules of `recipes/smollm2`, imported as its scripts import them, and forgotten after each test file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

RECIPES = Path(__file__).parents[2] / "recipes"


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], ModuleType]]:
    """Imports a module of the recipe by name; its files go to a temporary folder."""
    before = set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SMOLLM2_WORK", str(tmp_path_factory.mktemp("work")))
        patch.syspath_prepend(str(RECIPES))
        patch.syspath_prepend(str(RECIPES / "smollm2"))
        yield import_module
    for name in set(sys.modules) - before:
        if str(RECIPES) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]
