"""Manual pages as Markdown: `docs/checks/` is made from them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from truedraft.checks._rule import SECTIONS, Rule, all_rules

_GROUPS = {
    "TD1": "The contract: what the files say of the conventions",
    "TD2": "Tensors",
    "TD3": "The regime: target, prompts and lengths that the drafter was trained for",
    "TD4": "Engines: what a release would do with the pair",
    "TD5": "Measurements",
}


def markdown_page(rule: Rule) -> str:
    """One rule's page."""
    lines = rule.manual.split("\n")
    out = [f"# {rule.code} {rule.name}", "", lines[0], ""]
    for line in lines[1:]:
        if line in SECTIONS:
            out += ["", f"## {line}", ""]
        else:
            out.append(line.removeprefix("    "))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out)).rstrip() + "\n"


def markdown_index() -> str:
    """The list of all rules, by group."""
    return "\n".join(_index())


def _index() -> Iterator[str]:
    yield "# Checks"
    yield ""
    yield "What `truedraft check` can find. `truedraft explain CODE` prints the same pages."
    yield ""
    yield from (
        "An *error* is a convention that is, or will be, broken; a *warning* is likely or possible; a *note*",
        "is legal but unusual and is printed with `--pedantic` only. The exit code is 1 for errors, or for",
        "what `--fail-on` says.",
    )
    for prefix, title in _GROUPS.items():
        yield from ("", f"## {title}", "", "| code | name | |", "|---|---|---|")
        for rule in all_rules():
            if rule.code.startswith(prefix):
                yield f"| [{rule.code}]({rule.code}.md) | {rule.name} | {rule.title} |"
    yield ""
