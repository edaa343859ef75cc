"""What a runner makes of a drafter: whether it takes it at all, rows of a block, mask token, causality."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from truedraft.engines.vllm.audit.drafter import layers_of
from truedraft.engines.vllm.audit.program import Missing
from truedraft.engines.vllm.audit.scene import Scene
from truedraft.engines.vllm.audit.seen import NotSupported, Seen
from truedraft.engines.vllm.audit.stand_ins import Blank, Gap, Shell

_CONFIG = "vllm/config/vllm.py"
_V1 = "vllm/v1/spec_decode/dflash.py"
_V2 = "vllm/v1/worker/gpu/spec_decode/{}/speculator.py"
_V2_CLASSES = {"dflash": "DFlashSpeculator", "dspark": "DSparkSpeculator"}


def check_runner(scene: Scene) -> Iterator[Seen]:
    """Raises `ValueError` as the release does if its runner does not support the method."""
    validate = "VllmConfig._validate_v2_model_runner"
    features = f"VllmConfig._get_{scene.runner}_model_runner_unsupported_features"
    program = scene.program
    config = _method_holder(scene)
    if program.has(_CONFIG, features):
        unsupported = program.find(_CONFIG, features)(config)
        if unsupported:
            name = f"Model Runner {scene.runner.upper()}"
            raise NotSupported(f"{name} does not support: {', '.join(unsupported)}")
    elif scene.runner == "v2" and program.has(_CONFIG, validate):
        program.find(_CONFIG, validate)(config)
    yield from ()


def default_runner(scene: Scene) -> str:
    """The runner that the release takes for a pair unless `VLLM_USE_V2_MODEL_RUNNER` says otherwise.

    Raises `Missing` where a release has no such choice: V1 it is then.
    """
    kind = scene.program.find(_CONFIG, "VllmConfig")
    choice = vars(kind).get("use_v2_model_runner")
    if choice is None:
        raise Missing("VllmConfig has no use_v2_model_runner")
    decide: Any = choice.fget if isinstance(choice, property) else choice.func
    chosen = decide(_method_holder(scene))
    if not isinstance(chosen, bool):
        raise Gap("use_v2_model_runner was not computed")
    return "v2" if chosen else "v1"


def _method_holder(scene: Scene) -> Any:
    """An instance of the release's `VllmConfig` with the scene's parts, made without its constructor."""
    kind = scene.program.find(_CONFIG, "VllmConfig")

    class Holder(kind):  # type: ignore[misc, valid-type]
        def __getattr__(self, name: str) -> Any:
            return getattr(scene.vllm_config, name)

    made: Any = object.__new__(Holder)
    kept = vars(scene.vllm_config)
    for name in ("speculative_config", "model_config", "parallel_config", "scheduler_config", "cache_config"):
        made.__dict__[name] = kept[name]
    for name in ("lora_config", "ec_transfer_config", "kv_transfer_config", "compilation_config"):
        made.__dict__[name] = kept[name]
    return made


def see_block(scene: Scene, model: Any, method: str) -> Iterator[Seen]:
    """Rows, mask token and causality of a block drafter, by whichever runner."""
    if scene.runner == "v2":
        return see_v2(scene, model)
    if method != "dflash":
        raise Missing(f"the V1 runner has no proposer of its own for {method}")
    return see_v1(scene)


def see_v1(scene: Scene) -> Iterator[Seen]:
    """The V1 proposer of DFlash: its first pass says how many rows a block has, and whether it is causal."""
    proposer = scene.program.find(_V1, "DFlashProposer")(scene.vllm_config, Blank("device"))
    metadata = Shell("metadata", batch_size=lambda: 1, max_query_len=9, num_reqs=1, max_seq_len=9)
    first_pass = proposer.set_inputs_first_pass
    args = (
        Shell("ids", shape=(9,)),
        Blank("next"),
        Blank("positions"),
        Blank("states"),
        None,
        metadata,
        None,
    )
    rows, _, made = first_pass(*args)
    by = f"{_V1.removeprefix('vllm/')}:DFlashProposer.set_inputs_first_pass"
    yield from _slots(scene, int(rows), by)
    yield Seen("block.mask_token_id", _known(proposer, "parallel_drafting_token_id"), by)
    causal = made.keywords["causal"]
    if isinstance(causal, Blank):
        raise Gap("causal was not computed")
    yield Seen("attention.causal", (bool(causal),) * _layers(scene), by)


def see_v2(scene: Scene, model: Any) -> Iterator[Seen]:
    """The V2 speculator: rows of a block, and causality per group of layers that share a KV layout."""
    method = scene.vllm_config.speculative_config.method
    path, name = _V2.format(method), _V2_CLASSES[method]
    speculator = scene.program.find(path, name)(scene.vllm_config, Blank("device"))
    by = f"{path.removeprefix('vllm/')}:{name}"
    yield from _slots(scene, int(_known(speculator, "num_query_per_req")), by)
    yield Seen("block.mask_token_id", _known(speculator, "parallel_drafting_token_id"), by)
    if "dflash_causal" in vars(speculator):
        causal = (bool(_known(speculator, "dflash_causal")),) * _layers(scene)
    elif model is None:
        raise Gap("causality is asked of the model, which was not built")
    else:
        causal = _grouped(scene, speculator, model)
    yield Seen("attention.causal", causal, f"{by}.set_attn")


def _grouped(scene: Scene, speculator: Any, model: Any) -> tuple[bool, ...]:
    """As its `set_attn` decides: layers of one window share a KV group, and a group has one flag."""
    kinds: tuple[Any, ...] = type(speculator).__mro__
    base = next(kind for kind in kinds if kind.__name__ == "DraftModelSpeculator")
    base.set_attn = lambda self, *args: None
    names = model.get_draft_kv_cache_layer_names()
    groups: dict[Any, list[str]] = {}
    for name, layer in zip(names, layers_of(model), strict=True):
        groups.setdefault(
            vars(layer.self_attn).get("sliding_window") if "self_attn" in vars(layer) else 0, []
        ).append(name)
    speculator.model = model
    builder = Shell("builder", aot_schedule=False)
    speculator.attn_groups = [[Shell("group", get_metadata_builder=lambda *a: builder)] for _ in groups]
    shells = [Shell("kv_group", layer_names=entries) for entries in groups.values()]
    config = Shell("kv_cache_config", kv_cache_groups=shells)
    speculator.set_attn(Blank("state"), config, Blank("tables"), Blank("buffers"), [])
    flags = speculator._group_causal
    if isinstance(flags, Blank):
        raise Gap("_group_causal was not computed")
    where = {name: number for number, entries in enumerate(groups.values()) for name in entries}
    return tuple(bool(flags[where[name]] if isinstance(flags, dict) else flags) for name in names)


def _slots(scene: Scene, rows: int, by: str) -> Iterator[Seen]:
    """Rows against drafts: as many mean that every slot is a prediction, one more that slot 0 is none."""
    drafts = int(scene.vllm_config.speculative_config.num_speculative_tokens)
    if rows - drafts not in (0, 1):
        raise Gap(f"{rows} rows for {drafts} drafts")
    yield Seen("block.width", rows, by)
    yield Seen("block.proposals", drafts, "config/speculative.py:SpeculativeConfig.__post_init__")
    yield Seen("block.first_slot", "unused" if rows > drafts else "predicts_next", by)


def _layers(scene: Scene) -> int:
    return int(scene.config.num_hidden_layers)


def _known(holder: Any, name: str) -> Any:
    value = vars(holder).get(name)
    if value is None or isinstance(value, Blank):
        raise Missing(f"{type(holder).__name__} has no {name}")
    return value
