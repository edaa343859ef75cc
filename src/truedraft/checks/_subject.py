"""What the rules look at: a pair as read from its files, engines' readings of it, and how it is to be run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from truedraft.contract import AcceptanceRecord, Contract
from truedraft.formats import Inspection
from truedraft.formats.engines import BootLine, KvLayout, Reading


@dataclass(frozen=True)
class Usage:
    """How the pair is to be run, as far as the user says; `None` where nothing is said.

    `speculative_tokens`: K. `context`: longest prompt plus output, in tokens. `draft_sampling`: whether
    drafts are sampled (true) or the drafter's argmax (false).
    """

    speculative_tokens: int | None = None
    thinking: bool | None = None
    context: int | None = None
    temperature: float | None = None
    draft_sampling: bool | None = None


@dataclass(frozen=True)
class Subject:
    """One thing to check.

    `pair.contract` is `None` if the files make none (`pair.refusal` says why). `readings`: of the engines
    asked about; `siblings`: of the other runners of the same releases. `weights`: tensor values may be read.
    `boot_log`, `kv_layout`, `prompts` (texts) and `records`: what else the user hands over; empty otherwise.
    """

    pair: Inspection
    readings: tuple[Reading, ...] = ()
    siblings: tuple[Reading, ...] = ()
    usage: Usage = field(default_factory=Usage)
    weights: bool = False
    boot_log: tuple[BootLine, ...] = ()
    kv_layout: KvLayout | None = None
    prompts: Sequence[str] = ()
    records: Sequence[AcceptanceRecord] = ()

    @property
    def contract(self) -> Contract | None:
        """The pair's contract, if its files make one."""
        return self.pair.contract
