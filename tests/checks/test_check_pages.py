"""docs/checks/ is what the docstrings say (`scripts/write-check-pages`)."""

from __future__ import annotations

from pathlib import Path

from truedraft.checks import all_rules, markdown_index, markdown_page

PAGES = Path(__file__).parents[2] / "docs" / "checks"


def test_pages_are_current() -> None:
    wanted = {f"{rule.code}.md": markdown_page(rule) for rule in all_rules()}
    wanted["README.md"] = markdown_index()
    assert {page.name: page.read_text(encoding="utf-8") for page in PAGES.glob("*.md")} == wanted
