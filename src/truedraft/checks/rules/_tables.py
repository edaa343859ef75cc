"""A drafter's table against the target's, by a sample of rows."""

from __future__ import annotations

from collections.abc import Sequence

from truedraft.checks._subject import Subject
from truedraft.formats import TensorRef
from truedraft.formats.layouts import INDEX_DTYPES
from truedraft.formats.tensor_values import FLOATS, integers, rows

_SAMPLE = 512
_ROUNDING = 2.0**-7
"""What a cast to BF16 may change of a value, relatively."""


def compare_with_target(subject: Subject, name: str) -> float | None:
    """The share of rows (of up to 512, evenly spread) that equal the target's; `None` if undecidable.

    Row i of a reduced head is compared with the target's row i + d2t[i]. Rows of zeros are not counted.
    """
    own, other = subject.pair.draft.tensors[name], _target_table(subject, name)
    if other is None or own.dtype not in FLOATS or len(own.shape) != 2 or own.shape[1:] != other.shape[1:]:
        return None
    step = max(1, own.shape[0] // _SAMPLE)
    chosen = list(range(0, own.shape[0], step))[:_SAMPLE]
    ids = _target_ids(subject, own.shape[0], chosen)
    if ids is None or not chosen or max(ids) >= other.shape[0] or min(ids) < 0:
        return None
    mine, theirs = rows(own, chosen), rows(other, ids)
    import numpy  # not before `rows` has said what is missing without it

    near = 0.0 if own.dtype == other.dtype else _ROUNDING
    equal = numpy.isclose(mine, theirs, rtol=near, atol=0).all(axis=1)
    filled = numpy.any(mine != 0, axis=1) | numpy.any(theirs != 0, axis=1)
    return float(equal[filled].mean()) if filled.any() else None


def _target_ids(subject: Subject, count: int, chosen: Sequence[int]) -> Sequence[int] | None:
    """The target ids of these draft ids; `None` if a reduced vocabulary has no map."""
    if count == subject.pair.spec.vocab_size:
        return chosen
    table = subject.pair.draft.tensors.get("d2t")
    if table is None or table.dtype not in INDEX_DTYPES or table.shape != (count,):
        return None
    offsets = integers(table)
    return [i + offsets[i] for i in chosen]


def _target_table(subject: Subject, name: str) -> TensorRef | None:
    """The target's table of that kind: the only one of the right shape whose name ends so."""
    spec, tensors = subject.pair.spec, subject.pair.target.tensors
    wanted = ["embed_tokens.weight"] if name.startswith("embed") else ["lm_head.weight"]
    wanted += ["embed_tokens.weight"] if spec.tied_head else []
    for ending in wanted:
        found = [
            ref
            for own, ref in tensors.items()
            if own.endswith(ending)
            and ref.shape == (spec.vocab_size, spec.hidden_size)
            and ref.dtype in FLOATS
        ]
        if len(found) == 1:
            return found[0]
    return None
