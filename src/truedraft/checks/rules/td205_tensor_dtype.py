"""A tensor is stored in a dtype that cannot be used as it is.

What it finds
    Integers, 8-bit floats and packed weights where plain floats are needed. With a tensor of scales beside
    them a warning: an engine must know this format, and truedraft does not run it. Without scales an error:
    cast to floats they are noise. Mixed float dtypes are a note. The 8-bit and 4-bit weights of DeepSeek-V4's
    own stages, with their .scale tensors, are its normal form.
Why it matters
    Quantisers treat a drafter like any model; the engine's drafter class often was written for plain weights
    and reads bytes, or drops the scales.
In acceptance
    0 of 24 accepted for a head of packed nibbles read as BF16, 48 % after the fix; 0 % without the scales of
    two projections, 60 % with them; 1.8 % for a re-quantised V4 drafter, 80 % and more byte for byte.
Example
    fc.weight U8 of half the width, beside nothing: two 4-bit numbers in every byte.
Fix
    Keep the drafter unquantised; it is small. Otherwise a release that knows the format.
    vLLM: fused context keys and values of block drafters need plain weights (0.27 to 0.29, vllm#51581);
    `.scale` suffixes of V4 need vllm#43319. SGLang: #32440 for the assistants' projections.
    llama.cpp: quantise the GGUF, not the source.
References
    imp#1428 (F22), vllm#43455, vllm#43319 (F23), sglang#32440 (S40), club-3090#1272 (S44), colibri (S43)
"""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject
from truedraft.checks.rules._tensors import (
    is_plain,
    label,
    listed,
    needed,
    scale_of,
    stand_in,
    weights_file,
)
from truedraft.formats.layouts import INDEX_DTYPES
from truedraft.formats.stage_layout import is_staged

CODE = "TD205"
NAME = "tensor-dtype"

_V4_FORMS = ("F8_E4M3", "F4", "I8", "U8")
"""8-bit floats, and the experts' 4-bit ones, as such or two in each byte."""


def check(subject: Subject) -> Iterator[Finding]:
    """Dtypes of the needed tensors, one finding per dtype and per presence of scales."""
    draft, shapes, contract = subject.pair.draft, needed(subject), subject.contract
    if contract is None:
        return
    embedded = is_staged(contract)
    groups: dict[tuple[str, bool], list[str]] = {}
    plain: dict[str, list[str]] = {}
    for name in shapes:
        own = name if name in draft.tensors else stand_in(draft, name)
        if own is None:
            continue
        dtype, scaled = draft.tensors[own].dtype, scale_of(draft, name) is not None
        if own == name and is_plain(draft, name):
            if name != "d2t":
                plain.setdefault(dtype, []).append(name)
        elif name == "d2t":
            yield _map(subject, dtype)
        elif not (embedded and scaled and dtype in _V4_FORMS):
            groups.setdefault((dtype, scaled), []).append(own)
    for (dtype, scaled), names in groups.items():
        yield _quantised(subject, dtype, scaled, names)
    if len(plain) > 1 and not embedded:
        counts = ", ".join(f"{len(names)} {dtype}" for dtype, names in sorted(plain.items()))
        rarest = min(plain.values(), key=len)
        yield Finding(
            code=CODE,
            severity="note",
            confidence="certain",
            message=f"the drafter's tensors have several float dtypes: {counts} ({listed(rarest)})",
            where=weights_file(draft),
            found=counts,
            expected="one dtype",
        )


def _quantised(subject: Subject, dtype: str, scaled: bool, names: list[str]) -> Finding:
    draft = subject.pair.draft
    what = f"{label(names)}: stored as {dtype}{_packing(subject, names[0])}"
    return Finding(
        code=CODE,
        severity="warning" if scaled else "error",
        confidence="certain",
        message=f"{what}, with scales: only an engine that knows this format can run it"
        if scaled
        else f"{what}, and no tensor of scales beside it: cast to floats it is noise",
        where=draft.where_tensor(names[0]),
        found=dtype,
        expected="BF16, F16 or F32",
        fix="keep the drafter unquantised" if scaled else "export the drafter unquantised, or with scales",
        references=("kekzl/imp#1428", "vllm#43455", "sglang#32440"),
    )


def _packing(subject: Subject, name: str) -> str:
    """How many numbers one stored one holds, by the width that the contract implies."""
    wanted, found = needed(subject).get(name, ()), subject.pair.draft.tensors[name].shape
    if len(wanted) != 2 or len(found) != 2 or not wanted[1] or not found[1]:
        return ""
    held, rest = divmod(wanted[1], found[1])
    return f", {held} numbers packed in each" if held in (2, 4, 8) and not rest else ""


def _map(subject: Subject, dtype: str) -> Finding:
    return Finding(
        code=CODE,
        severity="error",
        confidence="certain",
        message=f"d2t is stored as {dtype}, but its entries are added to ids",
        where=subject.pair.draft.where_tensor("d2t"),
        axis="head.vocabulary_map",
        found=dtype,
        expected=" or ".join(INDEX_DTYPES),
        fix="save d2t as I64",
    )
