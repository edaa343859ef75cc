"""The target thinks and the drafter was trained on answers without thinking, or the other way round.

What it finds
    What the user says of serving (`--thinking`, `--no-thinking`) against `regime.thinking`. No file states
    that axis; DeepSpec's and z-lab's drafters for Qwen3 are known to be trained on answers without thinking.
    As a note: a target whose template can switch thinking, where nobody says which way it is served.
Why it matters
    Thinking text is another distribution. Qwen3's template thinks unless told otherwise, so a client that
    says nothing serves the mode that the drafter never saw.
In acceptance
    Qwen3-8B with z-lab's drafter: 25 % of drafts accepted with thinking, 60 % without.
Example
    --thinking with Qwen3-8B and z-lab/Qwen3-8B-DFlash-b16.
Fix
    `"chat_template_kwargs": {"enable_thinking": false}` in requests (vLLM, SGLang); `--reasoning-budget 0` in
    llama.cpp; or a drafter trained on thinking text.
References
    z-lab/dflash#133 (F28), DeepSpec paper, table 1 (non-thinking)
"""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.checks._finding import Confidence, Finding, Severity
from truedraft.checks._subject import Subject
from truedraft.contract import Contract, format_value
from truedraft.formats.tokenizer_files import chat_template

CODE = "TD303"
NAME = "thinking-mode"

# The papers' own targets. What z-lab's later drafters (Qwen3.5 and on) were trained on is not published.
_KNOWN = ("qwen3", "qwen3_moe")


def check(subject: Subject) -> Iterator[Finding]:
    """What is served against how the drafter was trained, as far as either is known."""
    contract, served = subject.contract, subject.usage.thinking
    if contract is None:
        return
    trained = contract.get("regime.thinking")
    if trained is None and contract.dialect in ("deepspec", "zlab"):
        kind = contract.target.model_type
        if kind in _KNOWN and served:
            yield _mismatch(
                contract, "warning", "likely", served=True, who="this producer's drafters for Qwen3 are"
            )
            return
        if kind.startswith("qwen3") and served:
            yield _mismatch(contract, "note", "possible", served=True, who="the drafter was perhaps")
            return
    if served is None:
        yield from _switch(subject)
    elif trained is not None and trained != served:
        yield _mismatch(contract, "warning", "likely", served=served, who="the drafter was")


def _mismatch(
    contract: Contract, severity: Severity, confidence: Confidence, *, served: bool, who: str
) -> Finding:
    source = contract.axes["regime.thinking"].source
    with_, without = ("with", "without") if served else ("without", "with")
    return Finding(
        code=CODE,
        severity=severity,
        confidence=confidence,
        message=f"served {with_} thinking, but {who} trained on answers {without} it",
        where="draft/config.json" if source is None else source.where,
        axis="regime.thinking",
        found=format_value(served),
        expected=format_value(not served),
        fix=f"measure {without} thinking: enable_thinking {format_value(not served)} in chat_template_kwargs",
        references=("z-lab/dflash#133",),
    )


def _switch(subject: Subject) -> Iterator[Finding]:
    template = chat_template(subject.pair.target)
    if template is not None and template.thinking_switch:
        yield Finding(
            code=CODE,
            severity="note",
            confidence="possible",
            message="the target's chat template can switch thinking, and acceptance depends on it",
            where=template.where,
            axis="regime.thinking",
            fix="say --thinking or --no-thinking, and record the mode with every measurement",
            references=("z-lab/dflash#133",),
        )
