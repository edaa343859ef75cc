"""The drafter says that it was made for another target.

What it finds
    The verifier's architecture in a speculators config, or num_target_layers, against the target. As a note:
    a name (name_or_path, base_model) that is not the target's; paths differ all the time.
Why it matters
    Features of another model mean nothing to the drafter, even where all shapes fit: taps of a shallower or
    deeper model lie at other depths.
In acceptance
    Between 1.0 and mediocre, depending on how close the models are (a base model and its fine-tune are
    close). Loud only where a tap lies beyond the last layer.
Example
    Qwen3-4B-DFlash (num_target_layers 36) with Qwen3.5-4B, which has 32 layers.
Fix
    Pass the target that the drafter names. Published configs can be wrong: one for Qwen3.5-35B-A3B says 41
    layers of 40.
References
    vllm#48113 (S95), llama.cpp#18039 (S07), GLM-5.3-Flash-NVFP4-DFlash2#7 (S84)
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject
from truedraft.formats import Checkpoint
from truedraft.formats.regime_keys import (
    Claim,
    architectures,
    own_name,
    same_family,
    target_layers,
    target_names,
    verifier_architectures,
)

CODE = "TD307"
NAME = "other-verifier"


def check(subject: Subject) -> Iterator[Finding]:
    """Architecture, layers and name, in this order."""
    target, draft = subject.pair.target, subject.pair.draft
    claim, own = verifier_architectures(draft), architectures(target)
    if claim is not None and own and not any(same_family(a, b) for a in claim.value for b in own):
        named = ", ".join(claim.value)
        yield _finding(claim, f"the drafter's verifier is a {named:.80}", named, ", ".join(own))
    layers, count = target_layers(draft), subject.pair.spec.layers
    if layers is not None and layers.value != count:
        message = f"the drafter was made for a target of {layers.value} layers, this one has {count}"
        yield _finding(layers, message, layers.value, count)
    for name in target_names(draft):
        if not _is_named(target, name.value):
            yield Finding(
                code=CODE,
                severity="note",
                confidence="possible",
                message=f"the drafter names {name.value!r:.100} as its target",
                where=name.where,
                found=f"{name.value:.100}",
                expected=own_name(target) or target.directory.name,
                fix="none if this is the same model under another name",
            )


def _finding(claim: Claim, message: str, found: str | int, expected: str | int) -> Finding:
    return Finding(
        code=CODE,
        severity="warning",
        confidence="likely",
        message=message,
        where=claim.where,
        found=found,
        expected=expected,
        fix="pass the target that the drafter was trained for",
        references=("vllm#48113",),
    )


def _is_named(target: Checkpoint, name: str) -> bool:
    """Whether the target's path or own name ends like `name`; hub caches have it in a parent directory."""
    wanted = _plain(re.split(r"[/\\]", name.rstrip("/\\"))[-1])
    places = (*target.directory.resolve().parts, *re.split(r"[/\\]", own_name(target)))
    return any(_plain(place).endswith(wanted) for place in places)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
