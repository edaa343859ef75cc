"""Acceptance records of observations that have counts; others make none."""

from __future__ import annotations

from truedraft.contract import AcceptanceRecord
from truedraft.measure.sources.observation import Observation


def record_of(seen: Observation) -> AcceptanceRecord | None:
    """A record if it is known what every round proposed and accepted; `None` otherwise.

    What the source does not tell is empty: prompt id, output hash, contract, how drafts were proposed and
    verified. Token counts that it does not tell are 0.
    """
    if seen.record is not None:
        return seen.record
    if not seen.table or seen.contradiction:
        return None
    asked = seen.request
    return AcceptanceRecord(
        request_id=asked.request_id or seen.where,
        prompt_id=asked.prompt_id,
        arm="",
        proposed=(),
        accepted=(),
        histogram=seen.table,
        prompt_tokens=asked.prompt_tokens or 0,
        cached_tokens=asked.cached_tokens or 0,
        output_tokens=asked.output_tokens or 0,
        output_hash="",
        K=seen.width or max(most for most, _, _ in seen.table),
        contract_hash="",
        batch_size=0,
        started=asked.started,
        engine=seen.engine or seen.source,
        runner="",
        truncated="engine",
        proposal="",
        verification="",
        category=asked.category,
    )
