"""`Record` of acceptance: one per request, from which every figure is derived.

The field's definitions differ; these are ours (`docs/acceptance.md` compares them):
τ counts the bonus token and is pooled: τ = 1 + Σ accepted / rounds. Positions count from 0 as vLLM prints
them: `survival[i]` = share of rounds that accepted at least i+1 drafts; `conditional[i]` = share of the
rounds that proposed i+1 drafts and accepted the first i, which also accepted the next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

DEFINITION = (
    "tau = 1 + accepted drafts / rounds: bonus token included, pooled over rounds; "
    "drafts behind a stop or length cut count as neither proposed nor accepted"
)
TREE_DEFINITION = (
    "tau = 1 + accepted drafts / rounds: bonus token included, pooled over rounds; "
    "accepted: drafts on the path that the target took through the round's tree, proposed: the tree's depth; "
    "drafts behind a stop or length cut count as neither proposed nor accepted"
)


UNTOLD = ("temperature", "top_p", "top_k", "thinking")
"""Settings that many sources do not tell: absent from a record's JSON if they are unknown."""


@dataclass(frozen=True)
class AcceptanceRecord:
    """What one request proposed and what the target accepted, round by round.

    `proposed[r]`, `accepted[r]`: drafts of round r. `truncated`: how the last round was counted when a stop
    token or the length limit ended it: `kept` (only drafts that reached the output count).

    With draft trees (`tree_budget` > 0) `proposed[r]` is the depth of round r's tree, `accepted[r]` the
    length of the path that the target took, K the largest depth, and `nodes[r]` how many drafts were
    verified.

    A source that has no rounds in order but counts them gives `histogram` instead: (proposed, accepted,
    number of such rounds). `category`: the kind of prompt, where the source tells.

    `temperature`, `top_p`, `top_k`, and whether the prompts asked for `thinking`: `None` where the source
    does not tell; they are then left out of the JSON.
    """

    request_id: str
    prompt_id: str
    arm: str
    proposed: tuple[int, ...]
    accepted: tuple[int, ...]
    prompt_tokens: int
    output_tokens: int
    output_hash: str
    K: int
    contract_hash: str
    batch_size: int
    started: float
    boot: str = ""
    engine: str = "truedraft"
    version: str = ""
    runner: str = "truedraft"
    truncated: str = "kept"
    cached_tokens: int = 0
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    proposal: str = "greedy"
    verification: str = "greedy"
    confidence_threshold: float = 0.0
    tree_budget: int = 0
    nodes: tuple[int, ...] = ()
    histogram: tuple[tuple[int, int, int], ...] = ()
    category: str = ""
    thinking: bool | None = None
    schema: int = 1

    def __post_init__(self) -> None:
        if self.histogram and self.proposed:
            raise ValueError("a record has rounds or a histogram of them, not both")
        if any(not 0 <= a <= p or n < 0 for p, a, n in self.histogram):
            raise ValueError("accepted must lie between 0 and proposed in every row of the histogram")
        if len(self.proposed) != len(self.accepted):
            raise ValueError("proposed and accepted need one entry per round")
        if any(not 0 <= a <= p for a, p in zip(self.accepted, self.proposed, strict=True)):
            raise ValueError("accepted must lie between 0 and proposed in every round")
        if self.nodes and len(self.nodes) != len(self.proposed):
            raise ValueError("nodes needs one entry per round, or none")

    @property
    def table(self) -> Mapping[tuple[int, int], int]:
        """(proposed, accepted) -> number of rounds, whichever way the source gave them."""
        if not self.histogram:
            return Counter(zip(self.proposed, self.accepted, strict=True))
        counts: Counter[tuple[int, int]] = Counter()
        for proposed, accepted, rounds in self.histogram:
            counts[proposed, accepted] += rounds
        return counts

    def to_json(self) -> dict[str, Any]:
        """One JSONL line's object."""
        # Not `asdict`: it copies every number, half a minute for a million rounds.
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        return {name: value for name, value in values.items() if value is not None or name not in UNTOLD}


@dataclass(frozen=True)
class Acceptance:
    """Acceptance over one or more requests. `tau` is `None` when there was no round.

    `nodes`: drafts verified in trees, all rounds together; 0 for chains. `survival[i]` of trees: the share of
    rounds whose accepted path is at least i + 1 deep.
    """

    tau: float | None
    rounds: int
    proposed: int
    accepted: int
    survival: tuple[float, ...]
    conditional: tuple[float | None, ...]
    nodes: int = 0

    @property
    def definition(self) -> str:
        """What τ, `proposed` and `accepted` mean."""
        return TREE_DEFINITION if self.nodes else DEFINITION

    def to_json(self) -> dict[str, Any]:
        """The `acceptance` object of `truedraft run --json`."""
        return {
            "tau": self.tau,
            "definition": self.definition,
            "rounds": self.rounds,
            "proposed": self.proposed,
            "accepted": self.accepted,
            "nodes": self.nodes,
            "survival": list(self.survival),
            "conditional": list(self.conditional),
        }


def acceptance(records: Iterable[AcceptanceRecord]) -> Acceptance:
    """Pooled acceptance of the given records."""
    pooled: Counter[tuple[int, int]] = Counter()
    nodes = 0
    for record in records:
        pooled.update(record.table)
        nodes += sum(record.nodes)
    return acceptance_of(pooled, nodes)


def acceptance_of(table: Mapping[tuple[int, int], int], nodes: int = 0) -> Acceptance:
    """Acceptance of (proposed, accepted) -> number of rounds. `nodes`: drafts verified in trees."""
    rounds = sum(table.values())
    accepted = sum(a * n for (_, a), n in table.items())
    width = max((p for p, _ in table), default=0)
    reached = [sum(n for (_, a), n in table.items() if a > i) for i in range(width)]
    offered = [sum(n for (p, a), n in table.items() if p > i and a >= i) for i in range(width)]
    return Acceptance(
        tau=1 + accepted / rounds if rounds else None,
        rounds=rounds,
        proposed=sum(p * n for (p, _), n in table.items()),
        accepted=accepted,
        survival=tuple(r / rounds for r in reached),
        conditional=tuple(r / o if o else None for r, o in zip(reached, offered, strict=True)),
        nodes=nodes,
    )
