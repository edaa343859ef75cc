"""Targets of the published drafters: what a reader needs of their configs.

Sizes: the drafters' own `num_target_layers`, `hidden_size` and `vocab_size` where they state them, else
`facts/dflash.md` and `facts/dspark.md`; the comments say which are neither.
"""

from __future__ import annotations

from typing import Any


def _target(model_type: str, layers: int, hidden: int, vocabulary: int) -> dict[str, Any]:
    return {
        "model_type": model_type,
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "vocab_size": vocabulary,
        "max_position_embeddings": 262144,
        "tie_word_embeddings": False,
    }


TARGETS = {
    "DeepSeek-V4-Flash": _target("deepseek_v4", 43, 4096, 129280),
    "DeepSeek-V4-Pro": _target("deepseek_v4", 61, 7168, 129280),
    "GLM-5.2": _target("glm_moe_dsa", 78, 6144, 154880),
    "GLM-5.3-Flash": _target("glm5_next", 45, 4096, 154880),
    "Kimi-K2.5": _target("kimi_k25", 61, 7168, 163840),
    "LLaMA3.1-8B": _target("llama", 32, 4096, 128256),
    "Laguna-XS-2.1": _target("laguna", 40, 2048, 100352),
    "LongCat-Flash": _target("longcat_flash", 28, 6144, 131072),
    "MiMo-V2.5-Pro": _target("mimo_v2", 70, 6144, 152576),  # width and vocabulary are placeholders
    "MiniCPM5-2B": _target("minicpm", 42, 2048, 73448),  # placeholder: no source read states its sizes
    "Muse-Glimmer-30B": _target("muse_glimmer_text", 52, 6656, 202048),
    "Qwen2.5-0.5B": _target("qwen2", 24, 896, 151936),
    "Qwen3-14B": _target("qwen3", 40, 5120, 151936),
    "Qwen3-4B": _target("qwen3", 36, 2560, 151936),
    "Qwen3-8B": _target("qwen3", 36, 4096, 151936),
    "Qwen3-Coder-30B-A3B": _target("qwen3_moe", 48, 2048, 151936),
    "Qwen3-Coder-Next": _target("qwen3_next", 48, 2048, 151936),
    "Qwen3.5-122B-A10B": _target("qwen3_5_moe_text", 48, 3072, 248320),
    "Qwen3.5-27B": _target("qwen3_5_text", 64, 5120, 248320),
    "Qwen3.5-35B-A3B": _target("qwen3_5_moe_text", 40, 2048, 248320),
    "Qwen3.5-397B-A17B": _target("qwen3_5_moe_text", 60, 4096, 248320),
    "Qwen3.5-4B": _target("qwen3_5_text", 32, 2560, 248320),
    "Qwen3.5-9B": _target("qwen3_5_text", 32, 4096, 248320),
    "gemma-4-12B": _target("gemma4_unified_text", 48, 3840, 262144),
    "gemma-4-26B-A4B": _target("gemma4_text", 30, 2816, 262144),
    "gemma-4-31B": _target("gemma4_text", 60, 5376, 262144),
    "gpt-oss-120b": _target("gpt_oss", 36, 2880, 201088),
}
"""By name. The 3.6 releases of Qwen have the sizes of 3.5."""

PAIRS = {
    "RedHatAI__GLM-5.2-or-5.3-speculator.dspark.3layer.partial": "GLM-5.2",
    "RedHatAI__GLM-5.2-speculator.dspark.2026-07.partial": "GLM-5.2",
    "RedHatAI__GLM-5.3-Flash-speculator.dspark.partial": "GLM-5.3-Flash",
    "RedHatAI__Qwen3.6-35B-A3B-speculator.dspark": "Qwen3.5-35B-A3B",
    "XiaomiMiMo__MiMo-V2.5-Pro-FP4-DFlash.partial": "MiMo-V2.5-Pro",
    "deepseek-ai__DeepSeek-V4-Flash-DSpark.partial": "DeepSeek-V4-Flash",
    "deepseek-ai__DeepSeek-V4-Flash.partial": "DeepSeek-V4-Flash",
    "deepseek-ai__DeepSeek-V4-Pro-DSpark.partial": "DeepSeek-V4-Pro",
    "deepseek-ai__dspark_gemma4_12b_block7": "gemma-4-12B",
    "deepseek-ai__dspark_qwen3_14b_block7.derived": "Qwen3-14B",
    "deepseek-ai__dspark_qwen3_4b_block7": "Qwen3-4B",
    "deepseek-ai__dspark_qwen3_8b_block7.derived": "Qwen3-8B",
    "incoai__GLM-5.3-Flash-DFlash2.partial": "GLM-5.3-Flash",
    "openbmb__MiniCPM5-2B-DSpark.partial": "MiniCPM5-2B",
    "poolside__Laguna-XS-2.1-DFlash.partial": "Laguna-XS-2.1",
    "sgl-project-SpecForge__longcat-flash-dflash.training-config": "LongCat-Flash",
    "sgl-project-SpecForge__qwen2.5-0.5b-dflash.training-config": "Qwen2.5-0.5B",
    "sgl-project-SpecForge__qwen3-4b-dflash.training-config": "Qwen3-4B",
    "sgl-project-SpecForge__qwen3-8b-dflash.training-config": "Qwen3-8B",
    "sgl-project-SpecForge__qwen3.5-35b-a3b-dflash.training-config": "Qwen3.5-35B-A3B",
    "sgl-project-SpecForge__qwen3.5-4b-dflash.training-config": "Qwen3.5-4B",
    "sgl-project-SpecForge__qwen3.6-27b-dflash.training-config": "Qwen3.5-27B",
    "z-lab__Kimi-K2.5-DFlash.partial": "Kimi-K2.5",
    "z-lab__LLaMA3.1-8B-Instruct-DFlash-UltraChat.partial": "LLaMA3.1-8B",
    "z-lab__Qwen3-4B-DFlash-b16.partial": "Qwen3-4B",
    "z-lab__Qwen3-8B-DFlash-b16.partial": "Qwen3-8B",
    "z-lab__Qwen3-Coder-30B-A3B-DFlash.partial": "Qwen3-Coder-30B-A3B",
    "z-lab__Qwen3-Coder-Next-DFlash.partial": "Qwen3-Coder-Next",
    "z-lab__Qwen3.5-122B-A10B-DFlash.rev-2274357": "Qwen3.5-122B-A10B",
    "z-lab__Qwen3.5-122B-A10B-DFlash.rev-6c7242c-april.partial": "Qwen3.5-122B-A10B",
    "z-lab__Qwen3.5-27B-DFlash.september.partial": "Qwen3.5-27B",
    "z-lab__Qwen3.5-397B-A17B-DFlash.partial": "Qwen3.5-397B-A17B",
    "z-lab__Qwen3.5-4B-DFlash.partial": "Qwen3.5-4B",
    "z-lab__Qwen3.5-9B-DFlash.legacy": "Qwen3.5-9B",
    "z-lab__Qwen3.5_or_3.6-35B-A3B-DFlash.legacy": "Qwen3.5-35B-A3B",
    "z-lab__Qwen3.5_or_3.6-35B-A3B-DFlash.rev-c69b185": "Qwen3.5-35B-A3B",
    "z-lab__Qwen3.6-27B-DFlash": "Qwen3.5-27B",
    "z-lab__gemma-4-26B-A4B-it-DFlash.partial": "gemma-4-26B-A4B",
    "z-lab__gemma-4-31B-it-DFlash.partial": "gemma-4-31B",
    "z-lab__gpt-oss-120b-DFlash.partial": "gpt-oss-120b",
    "zlab-dflash-fixture__Muse-Glimmer-30B-DFlash2": "Muse-Glimmer-30B",
    "zlab-dflash-fixture__Muse-Glimmer-30B-assistant": "Muse-Glimmer-30B",
}
"""Config in `tests/data/configs` -> target."""
