"""The target is quantised in a form that its producer does not publish, or its KV cache is.

What it finds
    Quantisation that config.json, hf_quant_config.json or quant_model_description.json state. Silent for
    native forms (DeepSeek's fp8 and fp4, gpt-oss's mxfp4) and where the drafter names a verifier of the same
    form. Always a note.
Why it matters
    The features of quantised weights differ a little from those in training, and a quantised KV cache from
    both. It is a small loss, but larger than what many comparisons look for.
In acceptance
    3 to 5 % in reports. More than that has another cause.
Example
    An NVFP4 target with a drafter that was trained on the bfloat16 one.
Fix
    None needed. For a comparison, run both arms on the same weights; to know the cost, measure on the
    unquantised target once.
References
    ninfer#298, speculators#613 (F01: a large loss on a quantised target that had two other causes)
"""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject
from truedraft.formats.regime_files import quantisations
from truedraft.formats.regime_keys import target_names

CODE = "TD306"
NAME = "quantised-target"

_FORMS = ("fp8", "nvfp4", "mxfp4", "fp4", "awq", "gptq", "int4", "int8", "w4a16", "w8a8", "w4a8")


def check(subject: Subject) -> Iterator[Finding]:
    """The first statement about weights, and the first about the KV cache."""
    contract = subject.contract
    trained = "" if contract is None else str(contract.get("regime.target_dtype") or "")
    names = " ".join([trained, *(claim.value for claim in target_names(subject.pair.draft))]).lower()
    stated = quantisations(subject.pair.target)
    weights = next((q for q in stated if not q.cache), None)
    cache = next((q for q in stated if q.cache), None)
    known = weights is not None and any(f in names and f in weights.scheme.lower() for f in _FORMS)
    if weights is not None and not weights.native and not known:
        yield _note(f"the target's weights are quantised ({weights.scheme})", weights.where, weights.scheme)
    if cache is not None:
        yield _note("the target's KV cache is quantised", cache.where, cache.scheme)


def _note(message: str, where: str, scheme: str) -> Finding:
    return Finding(
        code=CODE,
        severity="note",
        confidence="possible",
        message=f"{message}, which costs a few per cent if the drafter was trained on others",
        where=where,
        axis="regime.target_dtype",
        found=scheme,
        fix="compare arms on the same weights only",
        references=("ninfer#298",),
    )
