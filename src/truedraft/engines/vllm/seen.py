"""One axis as a live engine has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from truedraft.contract import Value

Severity: TypeAlias = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Seen:
    """`why`: the mechanism, as a clause. `where`: file and function of vLLM. `severity`: of the finding if it
    differs; `None` takes what is known of the release, or error.
    """

    axis: str
    value: Value
    why: str
    where: str
    severity: Severity | None = None
