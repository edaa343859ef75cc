"""A tensor holds NaN or infinity, or nothing but one number.

What it finds
    With --weights: NaN and infinities in any needed tensor; projections, fc, head or embedding that are all
    zero or constant; norms that are all zero. A Markov or confidence head of zeros is a warning: it adds
    nothing. Norms of constant 1 and biases of zero are how layers begin and are not told.
Why it matters
    A tensor of zeros is one that was saved before it was loaded or gathered (a sharded optimiser, a lazy
    initialisation), or that training never reached. NaN in the drafter stays in its cache.
In acceptance
    A constant head or fc: length 1.00. NaN logits: exactly 1 or exactly the maximum, with '!!!!' as text
    where the engine lets them through.
Example
    lm_head.weight all zero, because the trainer tied it and saved the untied copy.
Fix
    Save the checkpoint again from gathered weights. The files are at fault, so no engine's setting helps:
    vLLM and SGLang load such tensors silently, llama.cpp looks for NaN and infinities with --check-tensors.
References
    TensorRT-LLM#5146 (S23), SpecForge#455, SpecForge#473 (S59), vllm-ascend#10833 (S39)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from truedraft.checks._finding import Finding, Severity
from truedraft.checks._subject import Subject
from truedraft.checks.rules._tensors import label, needed
from truedraft.formats import TensorRef
from truedraft.formats.tensor_values import FLOATS, floats

CODE = "TD206"
NAME = "tensor-values"

_NOT_FINITE = "not finite"


@dataclass(frozen=True)
class _Summary:
    """A tensor's values in short. `low`, `high`: of the finite ones."""

    count: int
    nan: int
    infinite: int
    low: float
    high: float

    @property
    def constant(self) -> bool:
        """Whether all values are one and the same finite number."""
        return not self.nan and not self.infinite and self.low == self.high


def check(subject: Subject) -> Iterator[Finding]:
    """One pass over every needed float tensor, if values may be read; a finding per kind of fault."""
    if not subject.weights:
        return
    draft = subject.pair.draft
    groups: dict[tuple[str, Severity], list[tuple[str, _Summary]]] = {}
    for name in needed(subject):
        if name in draft.tensors and draft.tensors[name].dtype in FLOATS:
            summary = _summarise(draft.tensors[name])
            fault = _fault(name, len(draft.tensors[name].shape), summary)
            if fault is not None:
                groups.setdefault(fault, []).append((name, summary))
    for (kind, severity), tensors in groups.items():
        names = [name for name, _ in tensors]
        yield Finding(
            code=CODE,
            severity=severity,
            confidence="certain",
            message=f"{label(names)}: {_words(kind, tensors[0][1])}",
            where=draft.where_tensor(names[0]),
            found=kind,
            expected="finite numbers that differ",
            fix="save the checkpoint again from gathered weights",
            references=("TensorRT-LLM#5146", "SpecForge#473"),
        )


def _summarise(ref: TensorRef) -> _Summary:
    """One pass over the tensor, in chunks."""
    count = finite = nan = 0
    low, high = math.inf, -math.inf
    for values in floats(ref):
        smallest, largest = float(values.min()), float(values.max())  # NaN if there is one
        count += values.size
        if not math.isfinite(smallest) or not math.isfinite(largest):
            nan += int((values != values).sum())
            values = values[abs(values) < math.inf]
        finite += values.size
        if values.size:
            low, high = min(low, float(values.min())), max(high, float(values.max()))
    return _Summary(count, nan, count - finite - nan, low, high)


def _fault(name: str, rank: int, summary: _Summary) -> tuple[str, Severity] | None:
    if summary.nan or summary.infinite:
        return _NOT_FINITE, "error"
    if not summary.constant or summary.count < 2 or name.endswith(".bias"):
        return None
    fault = "all zero" if summary.low == 0 else "constant"
    if rank < 2:
        return (fault, "error") if summary.low == 0 else None
    added = "markov_head." in name or "confidence_head." in name
    return fault, "warning" if added else "error"


def _words(fault: str, first: _Summary) -> str:
    if fault == _NOT_FINITE:
        return f"{first.nan} NaN and {first.infinite} infinite of {first.count} values"
    if fault == "all zero":
        return f"all {first.count} values are zero"
    return f"all {first.count} values are {first.low:g}"
