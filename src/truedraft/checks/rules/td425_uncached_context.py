"""Rows from the prefix cache have no draft context.

What it finds
    A release in which tokens restored from a prefix cache, a KV connector or after preemption never pass the
    target, so that their draft context rows are not written while attention still spans them.
Why it matters
    Block drafters read the target's features of the whole prefix as keys and values. Unwritten rows are
    noise.
In acceptance
    Good on the first request, about 1.0 on its exact repeat; in aggregate merely mediocre (1.70 over 16 M
    steps).
Example
    Kimi-K3 by prompt length: 2.98, 2.66, 2.45, 1.58, 1.46, 1.25.
Fix
    `--no-enable-prefix-caching`, or a release that rewrites or masks these rows. Measure cold prompts
    against their exact repeats: nothing but the two reports says which releases are concerned.
References
    vllm#47930, vllm#47926, llama.cpp#27342, sglang#30393 (F18, S25, S29 in the field log)
"""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject
from truedraft.checks.rules._hazards import hazards

CODE = "TD425"
NAME = "uncached-context"


def check(subject: Subject) -> Iterator[Finding]:
    """Hazards of this topic."""
    yield from hazards(subject, CODE, "prefix_cache")
