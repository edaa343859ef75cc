"""One drafter in front of one runner of one release: the configs that its functions get to see.

The release's own `SpeculativeConfig.__post_init__` resolves the method, the architecture and the number of
drafts, its own converters rewrite speculators' and EAGLE's configs. Only transformers' part and `ModelConfig`
are stood in for.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Literal

from truedraft.engines.vllm.audit.configs import HfConfig, Noted, config_class, raw_config
from truedraft.engines.vllm.audit.places import (
    DraftModel,
    constant,
    parallel_config,
    places,
    target_model,
)
from truedraft.engines.vllm.audit.program import Missing, Program
from truedraft.engines.vllm.audit.seen import NotSupported
from truedraft.engines.vllm.audit.source import Source
from truedraft.engines.vllm.audit.stand_ins import Blank, Shell

SPECULATIVE = "vllm/config/speculative.py"
_REGISTRY = "vllm/model_executor/models/registry.py"
_CONFIG = "vllm/transformers_utils/config.py"
_CONFIGS = "vllm/transformers_utils/configs/__init__.py"
_CONVERTER = "vllm/transformers_utils/configs/speculators/base.py"
_ALGORITHMS = "vllm/transformers_utils/configs/speculators/algos.py"

Runner = Literal["v1", "v2"]


class Scene:
    """A release with one of its runners; `pair` sets the drafter."""

    def __init__(self, source: Source, runner: Runner) -> None:
        self.source, self.runner = source, runner
        self.reads: set[str] = set()
        self.base = config_class(self.reads)
        self.program = Program(
            source, places(self.base, lambda: self.vllm_config, self._model_config, self.model_class)
        )
        self.draft: Mapping[str, Any] = {}
        self.vllm_config: Any = Shell("vllm_config")

    def pair(
        self, target: Mapping[str, Any], draft: Mapping[str, Any] | None, method: str, asked: int | None
    ) -> None:
        """Resolve a pair as the release does. Raises what the release raises, `Missing` and `Gap`."""
        self.reads.clear()
        self.draft = copy.deepcopy(dict(target if draft is None else draft))
        model = target_model(target, self._config(copy.deepcopy(dict(target)), draft is None))
        self.vllm_config = Shell(
            "vllm_config",
            model_config=model,
            parallel_config=parallel_config(),
            speculative_config=None,
            quant_config=None,
            cache_config=Shell(
                "cache_config",
                kv_sharing_fast_prefill=False,
                block_size=16,
                cache_dtype="fp8" if draft is None else "auto",
                mamba_cache_mode="none",
            ),
            compilation_config=Shell(
                "compilation_config",
                mode=3,
                pass_config=Shell("pass_config", enable_sp=False),
                static_forward_context={},
                max_cudagraph_capture_size=0,
            ),
            scheduler_config=Shell(
                "scheduler_config", async_scheduling=False, max_num_seqs=4, max_num_batched_tokens=64
            ),
            attention_config=Shell("attention_config", backend=None),
            kernel_config=Shell("kernel_config", moe_backend="auto", enable_jit_warmup=False),
            watermark_config=None,
            lora_config=None,
            ec_transfer_config=None,
            kv_transfer_config=None,
            use_v2_model_runner=self.runner == "v2",
        )
        self.vllm_config.speculative_config = self._speculative(
            model, None if draft is None else "drafter", method, asked
        )

    @property
    def config(self) -> HfConfig:
        """The drafter's config as the release's functions see it."""
        found: HfConfig = self.vllm_config.speculative_config.draft_model_config.hf_config
        return found

    def model_class(self, architecture: str) -> Any:
        """The class that the release's registry names for an architecture.

        Raises `NotSupported` in the words of vLLM's `ModelConfig` if there is none.
        """
        for table in ("_SPECULATIVE_DECODING_MODELS", "_TEXT_GENERATION_MODELS", "_MULTIMODAL_MODELS"):
            known = self.program.find(_REGISTRY, table)
            if architecture in known:
                module, name = known[architecture]
                dotted = module if module.startswith("vllm.") else f"vllm.model_executor.models.{module}"
                self.program.used.append(f"{dotted.removeprefix('vllm.').replace('.', '/')}.py:{name}")
                return self.program.lead(dotted, name)
        raise NotSupported(f"Model architectures ['{architecture}'] are not supported for now.")

    def _speculative(self, model: Shell, name: str | None, method: str, asked: int | None) -> Any:
        kind = self.program.find(SPECULATIVE, "SpeculativeConfig")
        made = object.__new__(kind)
        given: dict[str, Any] = {
            name: entry.default_factory() if callable(entry.default_factory) else entry.default
            for name, entry in vars(kind).items()
            if isinstance(entry, dataclasses.Field)
        } | {
            "method": method,
            "model": name,
            "num_speculative_tokens": asked,
            "target_model_config": model,
            "target_parallel_config": self.vllm_config.parallel_config,
            "update_arch_": constant(None),
            "parallel_drafting": False,
            "enable_adaptive_verification": False,
        }
        for key, value in given.items():
            object.__setattr__(made, key, value)
        self.program.find(SPECULATIVE, "SpeculativeConfig.__post_init__")(made)
        return made

    def _model_config(self, *args: object, hf_overrides: Any = None, **keywords: Any) -> DraftModel:
        """Stands for `ModelConfig(…)` of a drafter: reads its config and applies the release's override."""
        found = self._config(self.draft, False)
        if callable(hf_overrides) and not isinstance(hf_overrides, Blank):
            found = hf_overrides(found)
        return DraftModel(found)

    def _config(self, config: Mapping[str, Any], target: bool) -> HfConfig:
        """As `get_config`: the class for the model type, then the release's patch of rope keys."""
        if config.get("speculators_model_type") is not None:
            self.program.module(_ALGORITHMS).all()
            kind = self.program.find(_CONVERTER, "SpeculatorsConfig")
            convert = self.program.find(
                _CONVERTER, "SpeculatorsConfig.extract_transformers_pre_trained_config"
            )
            noted = Noted(config, self.reads, "")
            found: HfConfig = kind(**convert(kind, noted))
        else:
            found = self._own(config)
        with suppress(Missing):
            self.program.find(_CONFIG, "patch_rope_parameters")(found)
        return found

    def _own(self, config: Mapping[str, Any]) -> HfConfig:
        """A class of the release's own for this model type, else transformers'."""
        registry = self.program.find(_CONFIG, "_CONFIG_REGISTRY")
        name = dict.get(registry, str(config.get("model_type")))
        if isinstance(name, str):
            homes = self.program.find(_CONFIGS, "_CLASS_TO_MODULE")
            kind = self.program.lead(homes.get(name, "vllm.transformers_utils.configs"), name)
            if isinstance(kind, type) and issubclass(kind, HfConfig):
                made: HfConfig = kind(**{k: v for k, v in config.items() if k != "model_type"})
                return made
        return raw_config(config, self.base)
