"""The options of `diagnose` and `collect`, as one value."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from truedraft.contract import InputError


@dataclass(frozen=True)
class Given:
    """The options of `case_options`, as click gives them."""

    target: str | None = None
    draft: str | None = None
    engines: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    width: int | None = None
    thinking: bool | None = None
    context: int | None = None
    temperature: float | None = None
    draft_sampling: bool | None = None
    weights: bool = False
    prompts: Path | None = None
    logs: tuple[Path, ...] = ()
    references: tuple[str, ...] = ()
    expect: float | None = None
    probe_file: Path | None = None
    arms: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    network: bool = False
    quiet: bool = False

    @property
    def named_arms(self) -> dict[str, str]:
        """Arm -> file. Raises `InputError` for what is not `NAME=FILE`, and for a name twice."""
        out: dict[str, str] = {}
        for text in self.arms:
            name, equals, file = text.partition("=")
            if not equals or not file or not name.strip() or len(name) > 60 or not name.isprintable():
                raise InputError(f"--arm: found {text!r:.80}, expected NAME=FILE such as eager=eager.log")
            if name.strip() in out:
                raise InputError(f"--arm: found {name.strip()!r:.60} twice, expected different names")
            out[name.strip()] = file
        return out
