"""docs/support.md is current, and every test that it names exists.

TRUEDRAFT_UPDATE_SUPPORT=1 pytest tests/test_support.py
"""

from __future__ import annotations

import ast
import os
from pathlib import Path

from support_table import DIALECTS, PAIRS, TARGETS, page, target_types
from truedraft.formats._registry import READERS

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs" / "support.md"


def test_page_is_current() -> None:
    if os.environ.get("TRUEDRAFT_UPDATE_SUPPORT") == "1":
        PAGE.write_text(page(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page()


def test_every_named_test_exists() -> None:
    named = [row[-1] for row in (*PAIRS, *TARGETS, *DIALECTS)]
    for name in named:
        file, _, function = name.partition("::")
        tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
        defined = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert not function or function in defined, name


def test_every_reader_and_every_target_type_has_a_row() -> None:
    modules = {reader.__name__.rpartition(".")[2] for reader in READERS}
    assert {name for name, _ in DIALECTS} == modules
    listed = {word for types, _, _ in TARGETS for word in types.split(", ")}
    assert listed == target_types()
