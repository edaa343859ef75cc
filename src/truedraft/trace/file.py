"""Reads a trace (`formats/trace_schema.py`), checked as far as the comparison relies on it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from torch import Tensor

from truedraft.contract import InputError
from truedraft.formats import read_header
from truedraft.formats.trace_schema import METADATA, SCHEMA, name
from truedraft.trace.check import check_kinds

_WORDS = ("engine", "version", "runner", "method", "target", "draft")
_NUMBERS = ("proposals", "rounds", "ranks")
METHODS = ("dflash", "dspark", "eagle3")
_MOST = 10**6
_CALL = re.compile(r"rounds\.(\d{1,7})\.calls\.\d+\.(?!sampled)\w")

FINE, COARSE = 2e-3, 0.06
"""Largest relative error of a row that counts as equal: fp32, and 16-bit formats with their own kernels."""


@dataclass(frozen=True)
class About:
    """The metadata of a trace. `width`: query rows of a block, `None` for chains. `prompts`: of each request,
    `None` where the engine did not show it. `draft_ids`: whether logits are over draft ids.
    `mode`: `TRUEDRAFT` while it was recorded.
    """

    engine: str
    version: str
    runner: str
    method: str
    target: str
    draft: str
    proposals: int
    rounds: int
    ranks: int
    width: int | None
    prompts: tuple[tuple[int, ...] | None, ...]
    draft_ids: bool
    mode: str


class Trace:
    """A trace in memory. `layers`: draft layers of which anything was seen. `calls`: calls of the draft model
    and uses of its head in a round, at most.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        read_header(path)
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, framework="pt") as file:
                self.about = _about(path, (file.metadata() or {}).get(METADATA))
                self._tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        except (SafetensorError, AttributeError, TypeError, RuntimeError) as error:
            raise InputError(f"{path}: cannot be read ({' '.join(str(error).split()):.160})") from None
        check_kinds(path, self._tensors)
        known = {key.split(".")[-1] for key in self._tensors if ".calls.0.layer." in key}
        self.layers = len(known)
        uses = (re.match(r"rounds\.\d+\.(?:calls|heads)\.(\d{1,6})\.", key) for key in self._tensors)
        self.calls = 1 + max((int(use[1]) for use in uses if use), default=-1)
        for number in range(self.about.rounds):
            self._check(number)
        self._check_calls()

    def get(self, number: int, *parts: object) -> Tensor | None:
        """A tensor of a round, floating-point ones as fp32; `None` where the engine did not show it."""
        found = self._tensors.get(name(number, *parts))
        return found.float() if found is not None and found.is_floating_point() else found

    def shape(self, number: int, *parts: object) -> tuple[int, ...] | None:
        """The shape of a tensor of a round; `None` where the engine did not show it."""
        found = self._tensors.get(name(number, *parts))
        return None if found is None else tuple(found.shape)

    def integers(self, number: int, *parts: object) -> list[int]:
        """A tensor of a round that must be there, as a list of integers."""
        found = self.get(number, *parts)
        if found is None or found.is_floating_point() or found.ndim != 1:
            what = "nothing" if found is None else f"{found.dtype} {list(found.shape)}"
            raise InputError(f"{self.path}#{name(number, *parts)}: found {what}, expected a list of integers")
        return [int(value) for value in found]

    @property
    def coarse(self) -> bool:
        """Whether the engine computed in less than fp32, as far as any tensor shows."""
        return any(t.is_floating_point() and t.element_size() < 4 for t in self._tensors.values())

    @property
    def tolerance(self) -> float:
        """Relative error of a row up to which it counts as equal."""
        return COARSE if self.coarse else FINE

    def _check(self, number: int) -> None:
        requests, starts = self.integers(number, "requests"), self.integers(number, "starts")
        where = f"{self.path}#{name(number, 'starts')}"
        if len(starts) != len(requests) + 1 or starts[0] != 0 or starts != sorted(set(starts)):
            raise InputError(f"{where}: found {starts}, expected increasing rows of {len(requests)} requests")
        if any(not 0 <= request < len(self.about.prompts) for request in requests):
            raise InputError(f"{self.path}#{name(number, 'requests')}: found a request that is not listed")
        if len(set(requests)) < len(requests):
            raise InputError(f"{self.path}#{name(number, 'requests')}: found {requests}, expected each once")
        if self.get(number, "tokens") is None:
            raise InputError(f"{self.path}#{name(number, 'tokens')}: found nothing, expected token ids")
        self._check_rejected(number, starts)
        for part in ("tokens", "positions", "taps", "features"):
            self._check_rows(starts[-1], number, part)
        for part in ("keys", "values", "written"):
            for layer in range(self.layers):
                self._check_rows(starts[-1], number, "context", part, layer)
        self._check_rows(starts[-1], number, "context", "positions")
        self._check_rows(len(requests), number, "drafts")
        drafts = self.get(number, "drafts")
        if drafts is not None and not 1 <= drafts.shape[1] <= self.about.proposals:
            where, most = f"{self.path}#{name(number, 'drafts')}", self.about.proposals
            raise InputError(f"{where}: found {list(drafts.shape)}, expected 1 to {most} for each request")
        for call in range(self.calls):
            hidden = self._tensors.get(name(number, "heads", call, "hidden"))
            if hidden is not None and requests and len(hidden) % len(requests):
                where = f"{self.path}#{name(number, 'heads', call, 'hidden')}"
                raise InputError(f"{where}: found {len(hidden)} rows, expected as many of each request")
        if any(value < 0 for value in self.integers(number, "positions")):
            raise InputError(f"{self.path}#{name(number, 'positions')}: found a negative position")

    def _check_calls(self) -> None:
        """A call of the draft model has a block of each request; of a chain, at least a row."""
        for key, tensor in self._tensors.items():
            match = _CALL.match(key)
            if match is None or int(match[1]) >= self.about.rounds:
                continue
            batch, block = len(self.integers(int(match[1]), "requests")), self.about.method != "eagle3"
            rows = batch * (self.about.width or 0) if block else batch
            if len(tensor) < rows:
                asked = (
                    f"{batch} blocks of {self.about.width}" if block else f"one of each of {batch} requests"
                )
                raise InputError(f"{self.path}#{key}: found {len(tensor)} rows, expected {asked}")

    def _check_rejected(self, number: int, starts: list[int]) -> None:
        if self.get(number, "rejected") is None:
            return
        rejected, where = self.integers(number, "rejected"), f"{self.path}#{name(number, 'rejected')}"
        rows = [end - start for start, end in pairwise(starts)]
        if len(rejected) != len(rows) or any(
            not 0 <= lost <= most for lost, most in zip(rejected, rows, strict=False)
        ):
            raise InputError(f"{where}: found {rejected!s:.60}, expected at most {rows!s:.60}")

    def _check_rows(self, rows: int, number: int, *parts: object) -> None:
        found = self._tensors.get(name(number, *parts))
        if found is not None and (not found.ndim or len(found) < rows):
            shown = list(found.shape)
            raise InputError(f"{self.path}#{name(number, *parts)}: found {shown}, expected {rows} rows")


def _about(path: Path, text: str | None) -> About:
    if text is None:
        raise InputError(f"{path}: found no {METADATA} in its metadata, expected a file of TRUEDRAFT_TRACE")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or found.get("schema") != SCHEMA or found["schema"] is True:
        shown = found.get("schema") if isinstance(found, dict) else "no JSON object"
        raise InputError(f"{path}#{METADATA}/schema: found {shown!r:.40}, expected {SCHEMA}")
    for key, kind in (*((key, str) for key in _WORDS), *((key, int) for key in _NUMBERS)):
        if kind is str and not isinstance(found.get(key), str):
            raise InputError(f"{path}#{METADATA}/{key}: found {found.get(key)!r:.40}, expected a text")
        if kind is int and not _counts(found.get(key)):
            raise InputError(
                f"{path}#{METADATA}/{key}: found {found.get(key)!r:.40}, expected a number from 1 to {_MOST}"
            )
    if found["method"] not in METHODS:
        raise InputError(
            f"{path}#{METADATA}/method: found {found['method']!r:.40}, expected {', '.join(METHODS)}"
        )
    width, ids = found.get("width"), found.get("logit_ids", "target")
    if not (_counts(width) or (width is None and found["method"] == "eagle3")):
        raise InputError(f"{path}#{METADATA}/width: found {width!r:.40}, expected the rows of a block")
    if ids not in ("target", "draft"):
        raise InputError(f"{path}#{METADATA}/logit_ids: found {ids!r:.40}, expected target or draft")
    return About(
        **{key: found[key] for key in (*_WORDS, *_NUMBERS)},
        width=width,
        prompts=tuple(_prompt(path, entry) for entry in _requests(path, found)),
        draft_ids=ids == "draft",
        mode=str(found.get("mode", "off")),
    )


def _counts(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _MOST


def _requests(path: Path, found: dict[str, Any]) -> list[Any]:
    requests = found.get("requests")
    if not isinstance(requests, list) or not all(isinstance(entry, dict) for entry in requests):
        raise InputError(f"{path}#{METADATA}/requests: expected a list of objects")
    return requests


def _prompt(path: Path, entry: dict[str, Any]) -> tuple[int, ...] | None:
    prompt = entry.get("prompt")
    if prompt is None:
        return None
    if not isinstance(prompt, list) or not all(isinstance(t, int) and 0 <= t < 2**31 for t in prompt):
        raise InputError(f"{path}#{METADATA}/requests: found a prompt that is no list of token ids")
    return tuple(prompt)
