"""A tensor has another shape than the contract implies.

What it finds
    Needed tensors whose shape does not follow from width, heads, head size, intermediate size, taps and rank.
    Wrong row counts of tables are TD204, packed weights TD205, layers that all contradict the config TD101.
Why it matters
    The best case is a loader that refuses. Others broadcast, slice or reshape: a transposed projection or an
    fc for another number of taps can be made to fit and means nothing then.
In acceptance
    Collapse (length near 1.0) where it loads at all.
Example
    fc.weight [2560, 10240] for five taps of a target of width 2560: the drafter was trained on four taps, or
    on another target.
Fix
    Take the drafter of this target and revision; export a transposed or sliced tensor again.
    vLLM: a size assertion at load, or at the first draft "DFlash drafter expects N concatenated aux hidden
    features" (0.32), before that "mat1 and mat2 shapes cannot be multiplied". llama.cpp: "wrong shape" at
    load.
References
    vllm#48113 (S95), elizaOS/llama.cpp#32 (S08 in the field log)
"""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject
from truedraft.checks.rules._tensors import Shape, count_of, is_table, misshapen, pattern, shown

CODE = "TD203"
NAME = "tensor-shape"


def check(subject: Subject) -> Iterator[Finding]:
    """Shapes of needed tensors, one finding per kind of tensor."""
    draft = subject.pair.draft
    groups: dict[tuple[str, Shape, Shape], list[str]] = {}
    for name, wanted in misshapen(subject).items():
        found = draft.tensors[name].shape
        if not (is_table(name) and wanted and found[:1] != wanted[:1] and wanted[0] is not None):
            groups.setdefault((pattern(name), found, wanted), []).append(name)
    for (kind, stored, wanted), names in groups.items():
        label = names[0] if len(names) == 1 else f"{kind} ({count_of(names)})"
        yield Finding(
            code=CODE,
            severity="error",
            confidence="certain",
            message=f"{label} has shape {shown(stored)}, the contract implies {shown(wanted)}"
            + _reason(subject, kind, stored, wanted),
            where=draft.where_tensor(names[0]),
            axis="taps.layers" if kind == "fc.weight" else None,
            found=shown(stored),
            expected=shown(wanted),
            fix="take the drafter that was trained for this target, or export the tensor again",
            references=("vllm#48113",),
        )


def _reason(subject: Subject, kind: str, found: Shape, wanted: Shape) -> str:
    contract = subject.contract
    if contract is not None and kind == "fc.weight" and len(found) == 2 and wanted[1] is not None:
        width, taps = contract.target.hidden_size, len(contract.tuple_of("taps.layers"))
        columns, rest = divmod(found[1] or 0, width)
        reads = f"it reads {columns} of them" if not rest else "its width is no multiple of that"
        return f": {taps} taps of a target of width {width}, {reads}"
    if len(found) == 2 and found[::-1] == wanted:
        return ": it is transposed"
    return ""
