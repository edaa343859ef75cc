"""The draft config carries rope keys of the target that its trainer ignored.

What it finds
    A partial_rotary_factor below 1 where the trainer rotated whole heads (speculators, EAGLE-3 trainers), or
    the mrope_section of a multimodal target.
Why it matters
    Trainers copy the target's rope block into the draft config and build their own rope; engines honour the
    copied keys. Validation figures are made with the trainer's rope and look fine.
In acceptance
    Very low even on training prompts, with a healthy validation accuracy.
Example
    "partial_rotary_factor": 0.25 in a speculators config of a Qwen3.6 drafter: trained on 256 dimensions,
    served on 64.
Fix
    Remove the keys from the draft config.
References
    speculators#613, speculators#570 (F01, S14 in the field log)
"""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject
from truedraft.formats.traps import ignored_rotary_share, multimodal_rope

CODE = "TD113"
NAME = "inherited-rope"


def check(subject: Subject) -> Iterator[Finding]:
    """Rope keys that only engines honour."""
    contract, draft = subject.contract, subject.pair.draft
    share = None if contract is None else ignored_rotary_share(draft, contract)
    if contract is not None and share is not None:
        where, factor = share
        head_dim = contract["backbone.head_dim"]
        yield Finding(
            code=CODE,
            severity="warning",
            confidence="certain",
            message=(
                f"the trainer rotated all {head_dim} dimensions; engines that honour "
                f"partial_rotary_factor {factor:g} rotate {int(head_dim * factor)}"
            ),
            where=where,
            axis="rope.rotary_dims",
            found=int(head_dim * factor),
            expected=head_dim,
            fix="remove partial_rotary_factor from the draft config",
            references=("speculators#613",),
        )
    sections = None if contract is None else multimodal_rope(draft)
    if sections is not None:
        yield Finding(
            code=CODE,
            severity="warning",
            confidence="likely",
            message="the drafter has plain positions, but its rope has the sections of a multimodal one",
            where=sections,
            axis="rope.positions",
            fix="remove mrope_section from the draft config (vLLM's V1 runner refuses it)",
            references=("speculators#570",),
        )
