"""Rules are modules: `rules/tdNNN_name.py` has code, name, and a docstring that is its manual page."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module

from truedraft.checks import rules
from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject
from truedraft.contract import InputError

SECTIONS = ("What it finds", "Why it matters", "In acceptance", "Example", "Fix", "References")
"""Headings that every manual page has, in this order, after its title line."""


@dataclass(frozen=True)
class Rule:
    """One rule. `name`: a few words with hyphens. `manual`: its page, a title line and `SECTIONS`.

    `asked`: it answers a question that the user puts, so its notes are always printed.
    """

    code: str
    name: str
    manual: str
    check: Callable[[Subject], Iterator[Finding]]
    asked: bool = False

    @property
    def title(self) -> str:
        """The page's first line, without the full stop."""
        return self.manual.partition("\n")[0].rstrip(".")


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule, by code."""
    found = []
    for entry in pkgutil.iter_modules(rules.__path__):
        if not entry.name.startswith("_"):
            module = import_module(f"{rules.__name__}.{entry.name}")
            manual = inspect.cleandoc(module.__doc__ or "")
            asked = getattr(module, "ASKED", False)
            found.append(Rule(module.CODE, module.NAME, manual, module.check, asked))
    return tuple(sorted(found, key=lambda rule: rule.code))


def find_rule(code: str) -> Rule:
    """The rule of that code or name; `InputError` if there is none."""
    for rule in all_rules():
        if code.upper() in (rule.code, rule.code.removeprefix("TD")) or code.lower() == rule.name:
            return rule
    known = ", ".join(rule.code for rule in all_rules())
    raise InputError(f"no rule {code!r:.40}, expected one of {known}")
