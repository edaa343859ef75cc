"""The map from draft ids to target ids cannot be what it should be.

What it finds
    d2t is a table of offsets: target id = i + d2t[i]. Errors: ids out of range, two draft ids for one target
    id, a table that holds target ids instead of offsets. Warnings: zeros only (draft id i is target id i),
    ids that do not rise, a t2d mask that names other ids.
Why it matters
    Every draft goes through this table. Read as offsets, absolute ids point to about twice the id, and the
    upper half out of range. Zeros are what a trainer writes that never built the table.
In acceptance
    Near 1.0: only tokens that the wrong table happens to hit can be accepted. Training metrics do not see it,
    they compare draft ids.
Example
    d2t = 0, 1, 2, … for 32000 ids: draft id i becomes target id 2i.
Fix
    offsets = target_ids - arange(len(target_ids)). vLLM (`base + draft_id_to_target_id`), SGLang (d2t plus
    arange) and speculators all read offsets; convert a table of target ids before using any of them.
References
    verl-SpeCo#67 (F09), NeMo/Automodel#2447 (F08), verl-SpeCo#66 (S10), vllm llama_eagle3.py `compute_logits`
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from truedraft.checks._finding import Finding, Severity
from truedraft.checks._subject import Subject
from truedraft.contract import Contract
from truedraft.formats.layouts import INDEX_DTYPES
from truedraft.formats.tensor_values import integers, is_stored

CODE = "TD207"
NAME = "vocabulary-map"

MOST_IDS = 2**20
_FEW = 16
"""Below this many entries, offsets that all differ may be chance."""

_ARANGE = "subtract arange(len(d2t)) from the table"


def check(subject: Subject) -> Iterator[Finding]:
    """Reads d2t, and t2d where it is there; both are small, so --weights is not asked for."""
    contract, ref = subject.contract, subject.pair.draft.tensors.get("d2t")
    if contract is None or ref is None or ref.dtype not in INDEX_DTYPES or len(ref.shape) != 1:
        return  # TD204 and TD205
    kind = contract.get("head.vocabulary_map")
    if kind not in ("offset", "absolute") or not 0 < ref.shape[0] <= MOST_IDS:
        return
    if not is_stored(ref):
        return  # a hub id: zeros would be no statement
    table = integers(ref)
    ids = table if kind == "absolute" else [i + entry for i, entry in enumerate(table)]
    faults = list(_faults(contract, table, ids, offsets=kind == "offset"))
    for severity, message, fix in faults:
        yield _finding(subject, severity, message, fix)
    if not faults:
        yield from _mask(subject, ids)


def _faults(
    contract: Contract, table: Sequence[int], ids: Sequence[int], *, offsets: bool
) -> Iterator[tuple[Severity, str, str]]:
    size, count = contract.target.vocab_size, len(ids)
    outside = [i for i, entry in enumerate(ids) if not 0 <= entry < size]
    repeated = count - len(set(ids))
    if offsets and count > 1 and _holds_ids(table, size):
        wrong = len(outside) or repeated
        if wrong or list(table) == list(range(count)):
            told = f": read as offsets, {len(outside)} of {count} are out of range" if outside else ""
            yield "error", f"d2t holds target ids where offsets belong{told}", _ARANGE
            return
        if count >= _FEW:
            yield "warning", "all entries of d2t differ, as target ids do and offsets hardly ever", _ARANGE
            return
    if outside:
        first = outside[0]
        yield (
            "error",
            f"{len(outside)} of {count} draft ids map outside the target's {size} ids, "
            f"the first of them {first} to {ids[first]}",
            "take the d2t that was made for this target's vocabulary",
        )
    if repeated:
        yield "error", f"{repeated} of {count} draft ids map to an id that an earlier one has", "rebuild d2t"
    if offsets and count < size and not any(table):
        told = f"d2t is all zero: the {count} draft ids are the target's first {count}"
        yield "warning", told, "save the trainer's own map (F08)"
    elif not outside and not repeated and any(a > b for a, b in pairwise(ids)):
        yield "warning", "the target ids of d2t do not rise; trainers write them sorted", "compare with t2d"


def _holds_ids(table: Sequence[int], size: int) -> bool:
    """Whether the entries themselves are distinct ids of the target."""
    return min(table) >= 0 and max(table) < size and len(set(table)) == len(table)


def _mask(subject: Subject, ids: Sequence[int]) -> Iterator[Finding]:
    """t2d is true at exactly the ids that d2t reaches."""
    ref, size = subject.pair.draft.tensors.get("t2d"), subject.pair.spec.vocab_size
    if ref is None or ref.dtype not in ("BOOL", "U8") or len(ref.shape) != 1 or ref.shape[0] > MOST_IDS:
        return
    if ref.shape[0] != size:
        told = f"t2d has {ref.shape[0]} entries, the target {size} ids"
        yield _finding(subject, "warning", told, "rebuild both maps from one vocabulary", "t2d")
        return
    marked = {i for i, entry in enumerate(integers(ref)) if entry}
    other = len(marked ^ set(ids))
    if other:
        told = f"t2d and d2t disagree about {other} target ids ({len(marked)} marked, {len(ids)} mapped)"
        yield _finding(subject, "warning", told, "rebuild both maps from one vocabulary", "t2d")


def _first(subject: Subject, name: str) -> str:
    """The first entries of a table: `0, 1, 2, 3, …`."""
    entries = integers(subject.pair.draft.tensors[name])[:4]
    return f"{name} = {', '.join(map(str, entries))}, …"


def _finding(subject: Subject, severity: Severity, message: str, fix: str, name: str = "d2t") -> Finding:
    return Finding(
        code=CODE,
        severity=severity,
        confidence="certain" if severity == "error" else "likely",
        message=message,
        where=subject.pair.draft.where_tensor(name),
        axis="head.vocabulary_map",
        found=_first(subject, name),
        expected="target id = i + d2t[i], rising, each once",
        fix=fix,
        references=("verl-SpeCo#67", "NVIDIA-NeMo/Automodel#2447"),
    )
