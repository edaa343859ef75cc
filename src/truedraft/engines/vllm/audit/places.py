"""What the audit puts in the place of names that a release imports, and the objects that it is run with."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping
from typing import Any

from truedraft.engines.vllm.audit.configs import HfConfig
from truedraft.engines.vllm.audit.stand_ins import Blank, Part, Parts, Shell, Tensor, part
from truedraft.engines.vllm.audit.states import put_together

TRANSFORMERS = "5.19.0"
"""The version of transformers that a release is told of; `configs.py` stands in for it."""

LAYER_TYPES = ("full_attention", "sliding_attention", "chunked_attention", "linear_attention")
"""Kinds of layers that transformers knows (`configuration_utils.py`), as far as drafters have them."""

MAX_LENGTH = 2**20
"""Longest sequence that is served, in tokens."""

_PARTS = (
    "CustomOp",
    "PluggableLayer",
    "MLAAttention",
    "RMSNorm",
    "GemmaRMSNorm",
    "QKVParallelLinear",
    "RowParallelLinear",
    "ReplicatedLinear",
    "ColumnParallelLinear",
    "MergedColumnParallelLinear",
    "MergedReplicatedLinear",
    "VocabParallelEmbedding",
    "ParallelLMHead",
    "LogitsProcessor",
    "Qwen2MLP",
    "Qwen3MLP",
    "LlamaMLP",
    "GateLinear",
    "FusedMoE",
    "SharedFusedMoE",
)
"""Layers whose weights and kernels are no convention: kept as they were made, not run."""

_DTYPES = (
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float8_e4m3fn",
)
_PLATFORM = {"is_cuda": True, "is_cuda_alike": True, "is_rocm": False, "is_xpu": False, "is_cpu": False}


def constant(value: Any) -> Callable[..., Any]:
    """A function that returns `value`."""
    return lambda *args, **keywords: value


class AttentionPart(Part):
    """Stands for vLLM's `Attention`."""

    @property
    def layer_name(self) -> Any:
        """Its name in the KV cache."""
        return self.keywords.get("prefix")


class BlankPart(Part):
    """Stands for a layer that is no matter of conventions, whatever it is asked for."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Blank(name)


def places(
    config: type[HfConfig], current: Callable[[], Any], model_config: Any, find_class: Callable[[str], Any]
) -> dict[str, Any]:
    """Stand-ins by name: one GPU, no parallelism, no kernels.

    `config`: the base class of configs. `current`: the release's current `VllmConfig`. `model_config`: makes
    a drafter's `ModelConfig`.
    """
    one = Shell("pp_group", is_first_rank=True, is_last_rank=True, world_size=1, rank_in_group=0)
    return (
        {name: part(name) for name in _PARTS}
        | {f"torch.{name}": name for name in _DTYPES}
        | {
            "def DeepseekV4MoE": BlankPart,
            "Attention": AttentionPart,
            "get_model_cls": lambda model: find_class(model.architectures[0]),
            "torch.nn.Module": Part,
            "torch.nn.ModuleList": Parts,
            "torch.nn.Embedding": part("Embedding"),
            "torch.Tensor": Tensor,
            "torch.tensor": lambda data, **keywords: data,
            "torch.get_default_dtype": constant("bfloat16"),
            "get_tensor_model_parallel_world_size": constant(1),
            "get_tensor_model_parallel_rank": constant(0),
            "get_pp_group": constant(one),
            "model_parallel_is_initialized": constant(False),
            "init_logger": constant(Blank("logger")),
            "current_platform": _platform(),
            "get_current_vllm_config": current,
            "get_draft_quant_config": constant(None),
            "ModelConfig": model_config,
            "CudagraphDispatcher": Part,
            "CpuGpuBuffer": Part,
            "CommonAttentionMetadata": part("CommonAttentionMetadata"),
            "is_pin_memory_available": constant(False),
            "MULTIMODAL_REGISTRY": Blank("MULTIMODAL_REGISTRY"),
            "triton": Shell(
                "triton", next_power_of_2=lambda n: 1 << (n - 1).bit_length(), cdiv=lambda a, b: -(-a // b)
            ),
            "tl": Blank("tl"),
            "replace": _replace,
            "mhc_post_tilelang": put_together,
            "hc_head_fused_kernel_tilelang": constant(Blank("hc_head")),
            "entry_points": constant(()),
            "ParallelConfig": lambda *args, **keywords: parallel_config(),
            "pydantic.dataclasses.dataclass": _same,
            "Field": _field,
            "PreTrainedConfig": config,
            "PretrainedConfig": config,
            "Version": _version,
            "version": constant(TRANSFORMERS),
            "ALLOWED_LAYER_TYPES": LAYER_TYPES,
            "ALLOWED_ATTENTION_LAYER_TYPES": LAYER_TYPES,
            "vllm.envs": Shell("envs", VLLM_USE_V2_MODEL_RUNNER=None, VLLM_BATCH_INVARIANT=False),
            "HAS_TRITON": True,
        }
    )


def _platform() -> Shell:
    """A GPU of NVIDIA's Hopper generation."""
    capability = Shell("capability", major=9, minor=0, to_int=constant(90))
    return Shell(
        "current_platform",
        get_device_capability=constant(capability),
        is_device_capability=lambda number, *args, **keywords: number in (90, (9, 0)),
        is_device_capability_family=lambda number, *args, **keywords: number == 90,
        has_device_capability=lambda number, *args, **keywords: number in ((9, 0), 90) or number < 90,
        **{name: constant(value) for name, value in _PLATFORM.items()},
    )


def _field(default: Any = None, *args: object, default_factory: Any = None, **keywords: object) -> Any:
    """Pydantic's `Field` in a class body: its default."""
    if default_factory is None:
        return default
    return default_factory() if default_factory in (list, dict, set) else Blank("default")


def _same(kind: Any = None, **keywords: object) -> Any:
    """A decorator that changes nothing, with or without arguments."""
    return _same if kind is None else kind


def _replace(kept: Any, /, **changes: Any) -> Any:
    """`dataclasses.replace`, also of shells."""
    made = copy.copy(kept)
    made.__dict__.update(changes)
    return made


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in re.findall(r"\d+", text)[:3])


class DraftModel(Shell):
    """Stands for `ModelConfig` of a drafter."""

    def __init__(self, hf_config: HfConfig, **attributes: Any) -> None:
        super().__init__("draft_model_config", **attributes)
        self.hf_config = self.hf_text_config = hf_config
        self.model = "drafter"
        self.max_model_len = MAX_LENGTH
        self.quantization = None
        self.uses_mrope = self.uses_xdrope_dim = False
        self.use_mla = False
        self.registry = Shell("registry", inspect_model_cls=lambda names, config: (Blank("info"), names[0]))

    @property
    def architectures(self) -> list[str]:
        """Those of its config."""
        return self.hf_config.architectures or []

    def get_hidden_size(self) -> int:
        """Width of its residual stream."""
        return int(self.hf_config.hidden_size)

    get_inputs_embeds_size = get_hidden_size

    def get_vocab_size(self) -> int:
        """Its vocabulary."""
        return int(self.hf_config.vocab_size)


def target_model(config: Mapping[str, Any], hf_config: HfConfig) -> Shell:
    """Stands for `ModelConfig` of the target."""
    layers, vocabulary = config["num_hidden_layers"], config["vocab_size"]
    return Shell(
        "model_config",
        hf_config=hf_config,
        hf_text_config=hf_config,
        architectures=config["architectures"],
        model="target",
        model_weights="",
        quantization=None,
        hf_overrides=None,
        trust_remote_code=False,
        max_model_len=MAX_LENGTH,
        get_num_layers=constant(layers),
        get_total_num_hidden_layers=constant(layers),
        get_vocab_size=constant(vocabulary),
        get_hidden_size=constant(config["hidden_size"]),
        has_inner_state=False,
        is_hybrid=False,
        is_quantized=False,
        is_attention_free=False,
        is_diffusion=False,
        is_encoder_decoder=False,
        is_moe=False,
        enable_return_routed_experts=False,
        enable_prompt_embeds=False,
        logits_processors=None,
        logprobs_mode="raw_logprobs",
        runner_type="generate",
        use_mla=False,
        uses_mrope=False,
        uses_xdrope_dim=0,
        dtype="bfloat16",
    )


def parallel_config() -> Shell:
    """One GPU."""
    return Shell(
        "parallel_config",
        tensor_parallel_size=1,
        pipeline_parallel_size=1,
        data_parallel_size=1,
        data_parallel_rank=0,
        prefill_context_parallel_size=1,
        decode_context_parallel_size=1,
        enable_dbo=False,
        use_ubatching=False,
        enable_elastic_ep=False,
        enable_expert_parallel=False,
        enable_batch_sharded_sampling=False,
        distributed_executor_backend="uni",
        rank=0,
    )
