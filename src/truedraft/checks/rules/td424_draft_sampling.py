"""Drafts are made by a policy that does not suit the drafter at this temperature.

What it finds
    With a temperature above 0: independent sampling of every slot of a plain block drafter, whose marginals
    do not make a coherent block; and, as a note, argmax drafts of a drafter with a sequence head, which
    could be sampled.
Why it matters
    Output stays right under both; acceptance does not. What is drawn must be scored by the law that it was
    drawn from.
In acceptance
    A plain DFlash block sampled at T=1: 1.16, with argmax drafts 2.96-3.49. Argmax where sampling was
    trained: 2.66 instead of 3.19.
Example
    --temperature 1 --draft-sampling with a z-lab DFlash drafter.
Fix
    Argmax drafts (vLLM `draft_sample_method: greedy`) for plain blocks; `probabilistic` for DSpark.
References
    z-lab/dflash#169, z-lab/dflash#74, syv-ai#73 (F26, S54, S55 in the field log)
"""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject

CODE = "TD424"
NAME = "draft-sampling"


def check(subject: Subject) -> Iterator[Finding]:
    """The draft policy against the family, where the user says both."""
    contract, usage = subject.contract, subject.usage
    if contract is None or not usage.temperature or usage.draft_sampling is None:
        return
    headless = contract.family == "dflash"
    if usage.draft_sampling == headless and contract.family in ("dflash", "dspark"):
        what = "slots are sampled independently" if headless else "drafts are the drafter's argmax"
        yield Finding(
            code=CODE,
            severity="warning" if headless else "note",
            confidence="likely",
            message=f"at temperature {usage.temperature:g} {what}, which does not suit {contract.family}",
            where="draft/config.json",
            found="sampled" if usage.draft_sampling else "argmax",
            expected="argmax" if headless else "sampled",
            fix="argmax drafts" if headless else "sample the drafts and verify with their law",
            references=("z-lab/dflash#169",) if headless else ("syv-ai/qwen38#73",),
        )
