"""What `truedraft collect` says of a pair: configs, tensors, checksums, contract, engines' readings."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from truedraft.cli._check_input import pair_of
from truedraft.cli._collect_revision import revision_of, revision_on_hub
from truedraft.cli._diagnose_given import Given
from truedraft.cli._progress import Step, bar
from truedraft.contract import Contract, InputError, diff, to_json
from truedraft.diagnose.case import Case
from truedraft.formats import Checkpoint, Inspection, TensorRef, find_tensors
from truedraft.formats.engines import Reading, find_engines, read_engine
from truedraft.formats.tokenizer_files import TOKENIZER, chat_template

MOST_TENSORS = 20_000
CHUNK = 2**22
SLOW_BYTES = 2**28
"""Bytes from which a progress bar is worth its flicker."""

NOTHING: dict[str, Any] = {"target": None, "draft": None, "contract": None, "readings": [], "template": None}


def pair_json(typed: Given, given: Given, case: Case, *, hashed: bool) -> dict[str, Any]:
    """The keys of `NOTHING`, and `refusal` where the files make no contract.

    `typed`: names as the user gave them; `given`: the same as local directories.
    """
    if given.target is None:
        return dict(NOTHING)
    fetched = (given.draft or given.target) != (typed.draft or typed.target)
    width = given.width or (case.measured.k if case.measured else None)
    releases = dict.fromkeys(engine for text in given.engines for engine in find_engines(text))
    with pair_of(
        given.target, given.draft, given.overrides, network=given.network, weights=False, quiet=given.quiet
    ) as pair:
        known = pair.contract is not None
        template = chat_template(pair.target)
        out = {
            "target": {
                "name": typed.target,
                **_checkpoint(pair.target, typed.target, fetched=given.target != typed.target),
            },
            "draft": {
                "name": typed.draft,
                **_checkpoint(pair.draft, typed.draft or typed.target, fetched=fetched),
                "tensors": _tensors(pair),
                "weights": list(_weights(pair, hashed and not fetched, given.quiet)),
            },
            "contract": None if pair.contract is None else pair.contract.to_json(),
            "readings": [_reading(read_engine(e, pair, width), pair.contract) for e in releases if known],
            "template": None
            if template is None
            else {
                "where": template.where,
                "sha256": hashlib.sha256(template.text.encode("utf-8", "surrogatepass")).hexdigest(),
                "thinking_switch": template.thinking_switch,
            },
        }
        return out if pair.refusal is None else out | {"refusal": str(pair.refusal)}


def _checkpoint(checkpoint: Checkpoint, name: str | None, *, fetched: bool) -> dict[str, Any]:
    """`fetched`: the directory holds what a hub has of the repository `name`."""
    tokenizer = checkpoint.directory / TOKENIZER
    return {
        "config": dict(checkpoint.config),
        "config_file": {"sha256": digest(checkpoint.directory / "config.json")},
        "tokenizer_file": {"sha256": digest(tokenizer)} if tokenizer.is_file() else None,
        "revision": revision_on_hub(checkpoint.directory, name or "")
        if fetched
        else revision_of(checkpoint.directory),
    }


def _files(pair: Inspection) -> Mapping[str, TensorRef]:
    """Tensors by their names in the files; of a drafter inside a target only its own."""
    if pair.draft.directory != pair.target.directory:
        return find_tensors(pair.draft.directory)
    return {ref.name: ref for ref in pair.draft.tensors.values()}


def _tensors(pair: Inspection) -> list[dict[str, Any]]:
    found = sorted(_files(pair).values(), key=lambda ref: ref.name)
    if len(found) > MOST_TENSORS:
        raise InputError(
            f"{pair.draft.directory}: found {len(found)} tensors, expected at most {MOST_TENSORS}"
        )
    return [{"name": ref.name, "dtype": ref.dtype, "shape": list(ref.shape)} for ref in found]


def _weights(pair: Inspection, hashed: bool, quiet: bool) -> Iterator[dict[str, Any]]:
    paths = sorted({ref.path for ref in _files(pair).values()})
    sizes = {path: path.stat().st_size for path in paths}
    total, done = sum(sizes.values()), 0
    with bar("checksums", quiet or not hashed or total < SLOW_BYTES) as step:
        for path in paths:
            entry: dict[str, Any] = {"file": path.name, "bytes": sizes[path]}
            if hashed:
                entry["sha256"] = digest(path, step, done, total)
                done += sizes[path]
            yield entry


def digest(path: Path, step: Step | None = None, done: int = 0, total: int = 0) -> str:
    """SHA-256 of a file in hex; `InputError` if it cannot be read."""
    state = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while part := file.read(CHUNK):
                state.update(part)
                done += len(part)
                if step is not None:
                    step(done, total)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    return state.hexdigest()


def _reading(reading: Reading, native: Contract | None) -> dict[str, Any]:
    """What one release makes of the pair, where it differs from the contract."""
    assert native is not None
    return {
        "engine": str(reading.engine.id),
        "known_from": reading.engine.state,
        "differences": [
            {
                "axis": entry.axis,
                "contract": to_json(entry.left.value) if entry.left.state == "value" else entry.left.state,
                "engine": to_json(entry.right.value) if entry.right.state == "value" else entry.right.state,
                "why": reading.facts[entry.axis].why if entry.axis in reading.facts else "",
                "reference": reading.facts[entry.axis].reference if entry.axis in reading.facts else "",
            }
            for entry in diff(native, reading.contract)
        ],
        "refusals": [refusal.why for refusal in reading.refusals],
        "hazards": [{"topic": hazard.topic, "why": hazard.why} for hazard in reading.hazards],
        "deployment": reading.deployment.to_json(),
    }
