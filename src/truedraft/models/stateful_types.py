"""Which targets run sequence by sequence; apart from the adapter, which needs a recent transformers."""

from __future__ import annotations

STATEFUL_TYPES = frozenset(
    {
        "deepseek_v4",
        "gemma4_text",
        "glm_moe_dsa",
        "gpt_oss",
        "qwen3_5_moe_text",
        "qwen3_5_text",
        "qwen3_moe",
        "qwen3_next",
    }
)
"""Text model types whose rollback is proved by `tests/models/test_stateful_targets.py`."""
