"""A stop token of the target lies beyond its vocabulary.

What it finds
    eos_token_id in generation_config.json, or where that has none in config.json, that is no row of the
    target's embedding table.
Why it matters
    The target cannot produce such a token, so that nothing ends an answer but the length limit. What follows
    the true end is text of no interest, which is often easy to draft.
In acceptance
    Longer outputs of repeated text: acceptance too high, with and without faults of the drafter.
Example
    eos_token_id 151645 of the full model in a copy whose vocabulary was cut to 32000 rows.
Fix
    Write the end-of-turn id of the target's own tokenizer.
References
    transformers, GenerationConfig: eos_token_id there replaces that of config.json
"""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject
from truedraft.formats.regime_stops import stop_tokens_where

CODE = "TD309"
NAME = "stop-token"


def check(subject: Subject) -> Iterator[Finding]:
    """Stop ids against the number of rows of the target's embedding table."""
    spec = subject.pair.spec
    beyond = sorted(token for token in spec.stop_token_ids if token >= spec.vocab_size)
    if not beyond:
        return
    listed = ", ".join(map(str, beyond[:4])) + (f" and {len(beyond) - 4} more" if len(beyond) > 4 else "")
    yield Finding(
        code=CODE,
        severity="warning",
        confidence="certain",
        message=(
            f"stop token {listed} is none of the target's {spec.vocab_size} tokens: no output ends with it"
        ),
        where=stop_tokens_where(subject.pair.target),
        found=listed,
        expected=f"0 to {spec.vocab_size - 1}",
        fix="write the end-of-turn id of the target's tokenizer",
    )
