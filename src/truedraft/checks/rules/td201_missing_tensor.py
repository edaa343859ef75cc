"""A tensor that the drafter needs is not in its files.

What it finds
    Tensors that the contract implies (a norm, a projection, a head, the map d2t) and that no file holds. An
    EAGLE-3 checkpoint that declares draft_vocab_size but leaves the head of the whole vocabulary out is a
    warning: the target's head would fit, if the engine thinks of borrowing it.
Why it matters
    Loaders complain about tensors that they do not expect, rarely about those that never come. What is
    missing stays at its initial value: random for a projection or a head, zeros for d2t, which then maps
    draft id i to target id i.
In acceptance
    A random head: length 1.00, rate 0.00, with a clean start-up and right text. Without d2t only ids that
    happen to be mapped to themselves can be accepted. A missing norm or bias: all positions lower.
Example
    draft_vocab_size 32000 beside 151936 target ids, lm_head of 32000 rows, no d2t: the trainer left the map
    in a side file (eagle_meta.pt).
Fix
    Save the tensor with the checkpoint, or take it from the trainer's files.
    vLLM 0.32: EAGLE-3 and DFlash load without d2t silently (identity), an absent head or embedding becomes
    the target's whatever its rows mean; DSpark refuses a reduced vocabulary without head or d2t.
    SGLang: before #27908 an absent EAGLE-3 head stays random; missing tensors are not reported.
    llama.cpp: the converter or the loader refuses by name or count.
References
    sglang#27908, sglang#27829 (F06), NeMo/Automodel#2447 (F08), verl-SpeCo#66 (S10), vllm
    model_executor/models/llama_eagle3.py and qwen3_dspark.py `load_weights` (0.32.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject
from truedraft.checks.rules._tensors import (
    TABLES,
    count_of,
    layer_numbers,
    layer_of,
    listed,
    misnamed,
    needed,
    shown,
    stand_in,
    weights_file,
)
from truedraft.contract import CHAIN_FAMILIES, Contract
from truedraft.formats import Checkpoint

CODE = "TD201"
NAME = "missing-tensor"

_HEAD = "lm_head.weight"
_SAVE = "save the tensor with the checkpoint"


def check(subject: Subject) -> Iterator[Finding]:
    """Needed tensors against those of the files; whole layers are TD209's, packed ones TD205's."""
    contract, draft = subject.contract, subject.pair.draft
    if contract is None:
        return
    layers, shapes = layer_numbers(contract, draft), needed(subject)
    missing = [
        name
        for name in shapes
        if name not in draft.tensors
        and stand_in(draft, name) is None
        and (layer_of(name) in (None, *layers) or not layers)
    ]
    for name in missing:
        if name in TABLES:
            what = f"no tensor {name}, which this drafter needs: {_consequence(contract, name)}"
            yield _finding(draft, what, name, f"{name} of shape {shown(shapes[name])}")
    others = [name for name in missing if name not in TABLES]
    if others:
        own = next((name for name in map(misnamed(subject).get, others) if name), None)
        elsewhere = f" (the files have {own})" if own else ""
        what = f"{count_of(others)} missing: {listed(others)}{elsewhere}; "
        what += "an engine that does not refuse runs with initial values in their place"
        first = f"{others[0]} of shape {shown(shapes[others[0]])}"
        fix = "rename the tensors of the file" if own else _SAVE
        yield _finding(draft, what, listed(others), first if len(others) == 1 else listed(others), fix)
    if _HEAD not in missing:
        yield from _borrowable_head(contract, draft)


def _consequence(contract: Contract, name: str) -> str:
    if name == "d2t":
        return (
            f"{contract.get('head.vocabulary')} draft ids of {contract.target.vocab_size} mean nothing "
            "without it; vLLM's EAGLE-3 and DFlash then take draft id i for target id i, silently"
        )
    if name == _HEAD and contract.get("head.vocabulary") not in (None, contract.target.vocab_size):
        return "an engine leaves it at random values, or takes the target's, whose rows are other ids"
    if name == _HEAD:
        return "an engine leaves it at random values or takes the target's"
    return "engines take the target's table, which need not be the trained one"


def _borrowable_head(contract: Contract, draft: Checkpoint) -> Iterator[Finding]:
    size = contract.axes["head.vocabulary"].source
    head = contract.axes["head.source"]
    seen = head.value == "target" and head.source is not None and head.source.kind == "shape"
    stated = size is not None and size.where.endswith("#/draft_vocab_size")
    if contract.family in CHAIN_FAMILIES and seen and stated:
        yield Finding(
            code=CODE,
            severity="warning",
            confidence="likely",
            message=(
                "no tensor lm_head.weight while draft_vocab_size is declared: an engine that builds a head "
                "of its own for this key leaves it at random values (length 1.00)"
            ),
            where=weights_file(draft),
            axis="head.source",
            found="no lm_head.weight",
            expected="a head of its own, or an engine that borrows the target's",
            fix="copy the target's lm_head.weight into the checkpoint, or SGLang with #27908",
            references=("sglang#27908",),
        )


def _finding(draft: Checkpoint, message: str, names: str, expected: str, fix: str = _SAVE) -> Finding:
    return Finding(
        code=CODE,
        severity="error",
        confidence="certain",
        message=message,
        where=weights_file(draft),
        found=f"no {names}",
        expected=expected,
        fix=fix,
        references=("sglang#27908", "NVIDIA-NeMo/Automodel#2447"),
    )
