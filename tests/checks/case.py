"""For each rule a minimal broken pair and a healthy sibling: what a case is, and how it is run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checkpoints import TARGET, ZLAB, changed, write

from truedraft.checks import Finding, Subject, run_checks
from truedraft.formats import inspect

Change = Mapping[str, Any]
Build = Callable[[Path], Subject]


@dataclass(frozen=True)
class Case:
    """One rule: `broken` must give findings of `code` that say all of `says`; `healthy`, the same but for one
    thing, none of that code, at any severity. `severity`: of the finding.
    """

    code: str
    broken: Build
    healthy: Build
    says: tuple[str, ...] = ()
    severity: str = "error"
    name: str = ""


def pair(
    directory: Path,
    draft: Change | None = None,
    target: Change | None = None,
    *,
    base: Mapping[str, Any] = ZLAB,
    target_base: Mapping[str, Any] = TARGET,
    tensors: Mapping[str, tuple[int, ...]] | None = None,
    **more: Any,
) -> Subject:
    """A subject of two small directories; `draft` and `target` are changes by slash-separated pointer."""
    target_at = write(directory / "target", changed(target_base, target or {}))
    draft_at = write(directory / "draft", changed(base, draft or {}), tensors)
    return Subject(inspect(target_at, draft_at), **more)


def found(subject: Subject, code: str) -> list[Finding]:
    """All findings of one code, notes too."""
    return [f for f in run_checks(subject, pedantic=True).findings if f.code == code]


def told(findings: list[Finding]) -> str:
    """All that findings say, for a look-up."""
    return " | ".join(f"{f.message} {f.where} {f.found} {f.expected} {f.fix}" for f in findings)
