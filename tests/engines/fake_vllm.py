"""Objects with the attributes that vLLM 0.32's have after `load_model`, built from a bundled pair's contract.

Class names count (`DFlashQwen3ForCausalLM`, `EagleModelMixin`), and so does a runner's module.
"""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

from truedraft import resolve
from truedraft.engines.vllm.tensors import vllm_name
from truedraft.formats import find_tensors, locate

VERSION = "0.32.0"


class EagleModelMixin:
    """Stands for the mixin that captures states."""


class Decoder(EagleModelMixin, nn.Module):
    """The target's decoder."""


class Weight(nn.Module):
    """A table or a norm: something with a `weight`."""

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(*shape), requires_grad=False)


class Rotary:
    """A rotary module as `get_rope` makes it without scaling."""

    def __init__(self, dims: int, theta: float, dtype: torch.dtype = torch.float32) -> None:
        self.rotary_dim = self.head_size = dims
        self.is_neox_style = True
        self.base = theta
        angles = torch.arange(1024.0)[:, None] * theta ** -(torch.arange(0, dims, 2) / dims)
        self.cos_sin_cache = torch.cat([angles.cos(), angles.sin()], -1).to(dtype)


class Inner(nn.Module):
    """The drafter below its head."""

    def _normalize_context_k(self, keys: torch.Tensor) -> torch.Tensor:
        """As the kernel should: each layer with its own weight."""
        return _normed(keys, self._k_norm_weights[:, None, None], self._rms_norm_eps)


def first_layers_norm(self: Any, keys: torch.Tensor) -> torch.Tensor:
    """As the CPU kernel of 0.32.0 does: all layers with the first one's weight."""
    return _normed(keys, self._k_norm_weights[0], self._rms_norm_eps)


def _normed(keys: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return keys * torch.rsqrt(keys.pow(2).mean(-1, keepdim=True) + eps) * weight


class DFlashQwen3ForCausalLM(nn.Module):
    """The generic block drafter."""

    def get_draft_attn_causal(self) -> list[bool]:
        return [layer.self_attn.causal for layer in self.model.layers]


class Qwen3DSparkForCausalLM(DFlashQwen3ForCausalLM):
    """The generic DSpark drafter."""


class Eagle3LlamaForCausalLM(nn.Module):
    """The generic chain drafter."""


class RunnerV1:
    """`v1/worker/gpu_model_runner.py`."""


class RunnerV2:
    """`v1/worker/gpu/model_runner.py`."""


RunnerV1.__module__ = "vllm.v1.worker.gpu_model_runner"
RunnerV2.__module__ = "vllm.v1.worker.gpu.model_runner"
_CLASSES = {
    "dflash": DFlashQwen3ForCausalLM,
    "dspark": Qwen3DSparkForCausalLM,
    "eagle3": Eagle3LlamaForCausalLM,
}


class Engine:
    """`config` (a `VllmConfig`), `runner`, and shortcuts into them."""

    def __init__(self, name: str, runner: str = "v1") -> None:
        directories = locate(name)
        assert directories[0] is not None
        assert directories[1] is not None
        self.target_directory, self.draft_directory = directories
        self.contract = resolve(name).contract
        self.method = self.contract.family
        self.v2 = runner == "v2"
        self.target = self._target()
        self.model = self._model()
        self.drafter = self._drafter()
        self.config = self._config()
        self.runner = self._runner()
        self._name_parameters()

    @property
    def layers(self) -> list[Any]:
        """Attention of the draft layers."""
        return [layer.self_attn for layer in self.model.model.layers]

    def own(self, name: str) -> None:
        """Give the drafter a table of its own."""
        owner = self.model if name == "lm_head" else self.model.model
        setattr(owner, name, Weight(*getattr(owner, name).weight.shape))

    def _target(self) -> nn.Module:
        spec = self.contract.target
        target = nn.Module()
        target.model = Decoder()
        target.model.embed_tokens = Weight(spec.vocab_size, spec.hidden_size)
        target.lm_head = Weight(spec.vocab_size, spec.hidden_size)
        target.model.aux_hidden_state_layers = tuple(k + 1 for k in self.contract["taps.layers"])
        return target

    def _model(self) -> nn.Module:
        contract = self.contract
        model, inner = _CLASSES[self.method](), Inner()
        size, width = contract["backbone.head_dim"], contract["backbone.hidden_size"]
        inner.layers = nn.ModuleList()
        rotary = Rotary(contract["rope.rotary_dims"][0], contract["rope.theta"][0])
        for index in range(contract["backbone.layers"]):
            layer = nn.Module()
            layer.self_attn = self._attention(index, size, rotary)
            inner.layers.append(layer)
        inner.fc = nn.Module()
        inner.fc.input_size = len(contract["taps.layers"]) * contract.target.hidden_size
        inner.norm = Weight(width)
        for name, owner in (("embed_tokens", inner), ("lm_head", model)):
            shared = contract[f"{'head' if name == 'lm_head' else 'embedding'}.source"] == "target"
            theirs = getattr(self.target.model if owner is inner else self.target, name)
            rows = contract["head.vocabulary"] if name == "lm_head" else contract.target.vocab_size
            setattr(owner, name, theirs if shared else Weight(rows, width))
            setattr(model, f"has_own_{name}", not shared)
        model.model = inner
        model.logits_processor = SimpleNamespace(scale=1.0, soft_cap=None)
        mapped = contract["head.vocabulary_map"] != "none"
        rows = torch.zeros(contract["head.vocabulary"], dtype=torch.long)
        model.draft_id_to_target_id = nn.Parameter(rows, requires_grad=False) if mapped else None
        if self.method == "eagle3":
            self._chain(inner)
        else:
            inner.has_separate_mask_embedding = False
            inner._k_norm_weights = 1 + torch.rand(len(inner.layers), size)
            inner._rms_norm_eps = contract["backbone.norm_eps"]
            inner._num_kv_heads = contract["backbone.kv_heads"]
            inner._rope_cos_sin_cache = rotary.cos_sin_cache
        if self.method == "dspark":
            inner.markov_head = SimpleNamespace(
                markov_w1=SimpleNamespace(weight=torch.zeros(2, contract["markov.rank"]))
            )
            inner.confidence_head = SimpleNamespace(
                with_markov=contract["confidence.with_markov"], proj=nn.Linear(1, 1)
            )
        return model

    def _chain(self, inner: Any) -> None:
        def _norm_before_residual() -> None: ...

        def _norm_after_residual() -> None: ...

        before = self.contract["chain.norm_before_residual"]
        inner.layers[0]._residual_norm = _norm_before_residual if before else _norm_after_residual
        inner.norm_before_fc, inner.fc_norm, inner.norm_output = False, None, False

    def _attention(self, index: int, size: int, rotary: Rotary) -> nn.Module:
        contract, attention = self.contract, nn.Module()
        attention.attn = SimpleNamespace(sliding_window=contract["attention.window"][index])
        attention.scaling = size**-0.5
        attention.total_num_heads = contract["backbone.heads"]
        attention.total_num_kv_heads = contract["backbone.kv_heads"]
        attention.head_dim = size
        attention.rotary_emb = rotary
        if self.method != "eagle3":
            attention.causal = contract["attention.causal"][index]
            attention.q_norm = SimpleNamespace(variance_epsilon=contract["backbone.norm_eps"])
        return attention

    def _drafter(self) -> SimpleNamespace:
        contract, block = self.contract, self.method != "eagle3"
        k = contract["block.proposals"] if block else contract["chain.steps"]
        drafter = SimpleNamespace(model=self.model)
        if self.v2:
            drafter.num_speculative_steps = k
        else:
            drafter.num_speculative_tokens = k
            drafter.parallel_drafting = block
            drafter.parallel_drafting_token_id = 0
        if block:
            drafter.parallel_drafting_token_id = contract["block.mask_token_id"]
            anchor = contract["block.first_slot"] == "predicts_next"
            if self.v2:
                drafter.num_query_per_req = k + (not anchor)
                drafter.sample_from_anchor = anchor
            else:
                drafter.dflash_causal = all(contract["attention.causal"])
        return drafter

    def _config(self) -> SimpleNamespace:
        spec = self.contract.target
        k = getattr(self.drafter, "num_speculative_tokens", None) or self.drafter.num_speculative_steps
        draft = SimpleNamespace(
            model=str(self.draft_directory), revision=None, hf_config=SimpleNamespace(model_type="eagle")
        )
        return SimpleNamespace(
            model_config=SimpleNamespace(
                model=str(self.target_directory),
                revision=None,
                get_total_num_hidden_layers=lambda: spec.layers,
                get_hidden_size=lambda: spec.hidden_size,
            ),
            speculative_config=SimpleNamespace(
                method=self.method,
                num_speculative_tokens=k,
                draft_model_config=draft,
                use_eagle_block_drop=lambda: True,
            ),
            cache_config=SimpleNamespace(enable_prefix_caching=True),
        )

    def _runner(self) -> Any:
        runner: Any = (RunnerV2 if self.v2 else RunnerV1)()
        runner.model = self.target
        setattr(runner, "speculator" if self.v2 else "drafter", self.drafter)
        return runner

    def _name_parameters(self) -> None:
        """Replace what `named_parameters` says by vLLM's names for the checkpoint's tensors."""
        own = {name: Weight(1).weight for name in self._names(self.draft_directory)}
        shared = dict(self.target.named_parameters())
        self.parameters = {**own, **{f"shared.{name}": weight for name, weight in shared.items()}}
        self.model.named_parameters = lambda: iter(self.parameters.items())  # type: ignore[method-assign]

    @staticmethod
    def _names(directory: Path) -> list[str]:
        heads = ("lm_head", "draft_id")
        names = dict.fromkeys(vllm_name(name) for name in find_tensors(directory) if name != "t2d")
        return [name if name.startswith(heads) else f"model.{name}" for name in names]


def yarn_factor(scale: float) -> float:
    """YaRN's factor on cosines and sines."""
    return 0.1 * math.log(scale) + 1
