"""TensorRT-LLM's iteration statistics: `GET /metrics` of `trtllm-serve`, `LLM.get_stats()`.

Format: `SpecDecodingStats` of cpp/include/tensorrt_llm/executor/types.h. One object per iteration; reading
takes them away, so that no iteration comes twice. A request with a draft token in an iteration is one round.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from truedraft.measure.sources.agree import settled
from truedraft.measure.sources.definitions import LENGTH
from truedraft.measure.sources.observation import Figure, Item, Notice, Observation
from truedraft.measure.sources.values import count, number

NAME = "trtllm-iterations"

_STATS = "specDecodingStats"


def is_iteration(found: Mapping[str, Any]) -> bool:
    """Whether this object tells of one iteration with speculative decoding."""
    return isinstance(found.get(_STATS), dict)


def read_iteration(found: Mapping[str, Any], where: str) -> Iterator[Item]:
    """The counts of one iteration. Other ranks of attention data parallelism repeat those of rank 0."""
    stats = found[_STATS]
    if count(found, "attentionDpRank"):
        return
    rounds = count(stats, "numRequestsWithDraftTokens")
    proposed, accepted = count(stats, "numDraftTokens"), count(stats, "numAcceptedTokens")
    if rounds is None or proposed is None or accepted is None:
        yield Notice(where, "partial", f"{_STATS} without its counts: not used")
        return
    if not rounds and not proposed:
        return
    value = number(stats, "acceptanceLength")
    length = None if value is None else Figure("acceptance length", value, 1e-4, LENGTH)
    yield settled(
        Observation(
            source=NAME,
            where=where,
            scope="interval",
            rounds=rounds,
            proposed=proposed,
            accepted=accepted,
            length=length,
            stated=() if length is None else (length,),
            engine="tensorrt_llm",
        )
    )
