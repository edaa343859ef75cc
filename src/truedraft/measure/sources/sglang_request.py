"""SGLang's per-request `meta_info`, and the lifetime average of `/get_server_info`.

Format: sglang#11144, #18332, #33518. `spec_accept_length` is completion tokens / verify steps (theta), not
tau; tau follows from the counts of correct drafts, which changed their names twice, or from the histogram.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from truedraft.measure.sources.agree import no_length
from truedraft.measure.sources.definitions import LENGTH, RATE, TAU_GAUGE, THETA
from truedraft.measure.sources.observation import Figure, Item, Observation, Request
from truedraft.measure.sources.per_request import exact, from_histogram
from truedraft.measure.sources.values import MOST_WIDTH, count, histogram, number, text

NAME = "sglang-request"
SERVER = "sglang-server-info"


def is_meta_info(found: Mapping[str, Any]) -> bool:
    """Whether this object is a `meta_info` of a request that was decoded speculatively."""
    return "spec_verify_ct" in found


def is_server_info(found: Mapping[str, Any]) -> bool:
    """Whether this object holds the server's lifetime average."""
    return number(found, "avg_spec_accept_length") is not None


def read_meta_info(found: Mapping[str, Any], where: str) -> Iterator[Item]:
    """The counts of one request, and theta as it is stated."""
    rounds = count(found, "spec_verify_ct")
    proposed = count(found, "spec_num_proposed_drafts", "spec_proposed_drafts", "spec_draft_token_num")
    accepted = count(found, "spec_num_correct_drafts", "spec_accepted_drafts", "spec_accept_token_num")
    tokens = count(found, "completion_tokens")
    counted = histogram(
        found.get("spec_correct_drafts_histogram") or found.get("spec_accept_histogram") or None
    )
    width = proposed // rounds if rounds and proposed and proposed % rounds == 0 else None
    seen = Observation(
        source=NAME,
        where=where,
        scope="request",
        rounds=rounds,
        proposed=proposed,
        accepted=accepted,
        width=width if width and width <= MOST_WIDTH else None,
        stated=(
            *exact("spec_accept_length", number(found, "spec_accept_length"), THETA),
            *(
                exact("spec_accept_rate", number(found, "spec_accept_rate"), RATE)
                if proposed and accepted is not None
                else ()
            ),
        ),
        request=Request(
            request_id=text(found, "id"),
            prompt_tokens=count(found, "prompt_tokens"),
            cached_tokens=count(found, "cached_tokens"),
            output_tokens=tokens,
            started=number(found, "request_received_ts") or 0.0,
        ),
        engine="sglang",
    )
    for item in from_histogram(seen, counted):
        if isinstance(item, Observation) and not item.contradiction:
            item = replace(item, contradiction=_against_tokens(item, tokens))
        yield item


def _against_tokens(seen: Observation, tokens: int | None) -> str:
    """Completion tokens: 1 of the prompt's pass, 1 per round, the accepted drafts, less what a stop cut."""
    if tokens is None or seen.rounds is None or seen.accepted is None or not seen.rounds:
        return ""
    most = 1 + seen.rounds + seen.accepted
    least = most - 1 - max(seen.width or 0, len(seen.reached), 1)
    if least <= tokens <= most:
        return ""
    return (
        f"{tokens} completion tokens, but {seen.rounds} rounds with {seen.accepted} accepted drafts make "
        f"{least} to {most}: the counts may include the bonus token"
    )


def read_server_info(found: Mapping[str, Any], where: str) -> Iterator[Item]:
    """The average since the server's start."""
    value = number(found, "avg_spec_accept_length")
    if value:  # 0: no round yet
        length = Figure("avg_spec_accept_length", value, 0.0, LENGTH)
        yield Observation(
            source=SERVER,
            where=where,
            scope="lifetime",
            series=where,
            definition=TAU_GAUGE,
            length=length,
            stated=(length,),
            contradiction=no_length(length),
            engine="sglang",
        )
