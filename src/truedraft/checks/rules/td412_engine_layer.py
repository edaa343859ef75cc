"""An engine builds the draft layers themselves otherwise.

What it finds
    Sizes, norms, gates, sinks or scale of the draft layers, or their number, differ from the contract.
Why it matters
    A drafter read as its nearest kin loads without a word and computes something else.
In acceptance
    From mediocre (a norm or gate left out) to dead (a backbone of another family).
Example
    A Mistral drafter recognised as Qwen.
Fix
    A release that knows the architecture.
References
    speculators#796, ROCmFPX#44 (S62, F04 in the field log)
"""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject
from truedraft.checks.rules._engine import differences

CODE = "TD412"
NAME = "engine-layer"
AXES = frozenset(
    {
        "attention.scale",
        "attention.sinks",
        "attention.gate",
        "attention.value_norm",
        "attention.kv_shared",
        "stages.layers",
        "stages.compress_ratio",
        "stages.streams",
        "stages.mix_eps",
        "stages.sinkhorn_iterations",
        "stages.collapse",
        "stages.query_rank",
        "stages.query_head_norm",
        "stages.output_groups",
        "stages.output_rank",
        "stages.experts",
        "stages.experts_per_token",
        "stages.shared_experts",
        "stages.scoring",
        "stages.router_bias",
        "stages.normalised_weights",
        "stages.routed_scaling",
        "stages.swiglu_limit",
        "backbone.layers",
        "backbone.hidden_size",
        "backbone.intermediate_size",
        "backbone.heads",
        "backbone.kv_heads",
        "backbone.head_dim",
        "backbone.norm_eps",
        "backbone.activation",
        "backbone.attention_bias",
        "backbone.qk_norm",
        "regime.context_length",
        "regime.chat_template",
        "regime.thinking",
        "regime.target_dtype",
    }
)


def check(subject: Subject) -> Iterator[Finding]:
    """Entries of `diff(native, engine)` on these axes."""
    yield from differences(subject, CODE, AXES, "runs")
