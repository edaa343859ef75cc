"""The prefix cache drops a block for a drafter that needs none.

What it finds
    A release that drops the last matched block of every prefix-cache hit, as EAGLE needs it, for a DFlash or
    DSpark drafter, which never writes the target's blocks.
Why it matters
    EAGLE needs the hidden state before the first new token. On hybrid targets one block is thousands of
    tokens, so a whole hit can be lost.
In acceptance
    Not in acceptance: in prefix hits (97.5 % to 87-92 %, on hybrid targets to 0) and time to first token.
Example
    Qwen3.8-27B with DFlash 2: 1648 or 2144 tokens are computed again per request.
Fix
    `"disable_eagle_block_drop": true` in vLLM's speculative config, in releases that have it.
References
    vllm#53670, vllm#51769, vllm#54360, vllm#53388 (F19, S26, S27 in the field log), the founding report on
    DFlash
"""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject
from truedraft.checks.rules._hazards import hazards

CODE = "TD422"
NAME = "block-drop"


def check(subject: Subject) -> Iterator[Finding]:
    """Hazards of this topic."""
    yield from hazards(subject, CODE, "block_drop")
