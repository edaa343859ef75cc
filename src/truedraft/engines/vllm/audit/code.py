"""A definition of a release as code that the audit can run: known decorators only, rounds counted."""

from __future__ import annotations
import __future__ as future

import ast
from collections.abc import Callable
from types import CodeType
from typing import Any

from truedraft.engines.vllm.audit.stand_ins import Gap

MAX_ROUNDS = 200_000
"""Calls and rounds of loops of the release's code in one step."""

COUNT = "__truedraft_round__"
"""Name of the function that definitions call to be counted."""

_DECORATORS = (
    "staticmethod",
    "classmethod",
    "property",
    "cached_property",
    "dataclass",
    "register_speculator",
    "runtime_checkable",
    "setter",
)


def compiled(node: ast.stmt, path: str) -> CodeType:
    """A definition as code, without decorators that no stand-in has, counting its rounds."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            inner.decorator_list = [entry for entry in inner.decorator_list if _kept(entry)]
        if isinstance(inner, ast.FunctionDef | ast.For | ast.While):
            count = ast.Expr(ast.Call(ast.Name(COUNT, ast.Load()), [], []))
            inner.body.insert(0, ast.fix_missing_locations(ast.copy_location(count, inner.body[0])))
    flags = future.annotations.compiler_flag
    code: CodeType = compile(ast.Module([node], []), path, "exec", flags, dont_inherit=True)
    return code


def early(node: ast.AST) -> list[str]:
    """Names that a definition looks up while it is made, not when it is called."""
    names: list[str] = []
    for field, value in ast.iter_fields(node):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and field in (
            "body",
            "returns",
        ):
            continue
        if field == "annotation":
            continue
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, ast.Name):
                names.append(inner.id)
            elif isinstance(inner, ast.AST):
                names += early(inner)
    return names


def _kept(decorator: ast.expr) -> bool:
    return _name(decorator) in _DECORATORS


def decorators(node: ast.FunctionDef) -> list[str]:
    """Bare names of its decorators."""
    return [_name(decorator) for decorator in node.decorator_list]


def _name(decorator: ast.expr) -> str:
    call = decorator.func if isinstance(decorator, ast.Call) else decorator
    return call.attr if isinstance(call, ast.Attribute) else call.id if isinstance(call, ast.Name) else ""


_rounds = 0


def count_round() -> None:
    """Called at the begin of every function and loop body of a release."""
    global _rounds
    _rounds += 1
    if _rounds > MAX_ROUNDS:
        raise Gap(f"runs more than {MAX_ROUNDS} rounds of loops and calls")


def limited(call: Callable[[], Any]) -> Any:
    """Run `call`, and end it with `Gap` once it has run `MAX_ROUNDS` rounds of a release's code."""
    global _rounds
    _rounds = 0
    return call()
