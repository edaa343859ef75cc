"""What a release does to every pair besides conventions: to freed KV blocks, to prefix hits."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from truedraft.contract import InputError
from truedraft.engines.vllm.audit.code import limited
from truedraft.engines.vllm.audit.probes import PROBES
from truedraft.engines.vllm.audit.program import Missing
from truedraft.engines.vllm.audit.scene import Scene
from truedraft.engines.vllm.audit.stand_ins import Blank, Gap, Shell, Tensor
from truedraft.formats.engines import KvLayout, KvView, without

_ZEROER = "vllm/v1/worker/utils.py"
_MANAGER = "vllm/v1/core/single_type_kv_cache_manager.py"
BLOCKS, ROWS, WIDTH, SPACING, PACKED = 100, 64, 584, 37440, 149760
"""The packed layout of vllm#50276: four layers of 64 rows of 584 bytes in one block, padded to 37440 each."""

HITS = 4
"""Cached blocks that a prompt matches."""


@dataclass(frozen=True)
class Finding:
    """`topic`: `kv_zeroing` or `block_drop`; `verdict` as for an axis; `text`: what the release does."""

    topic: str
    verdict: str
    text: str

    def to_json(self) -> dict[str, Any]:
        """As an object."""
        return {"topic": self.topic, "verdict": self.verdict, "text": self.text}


def beyond(scene: Scene) -> Iterator[Finding]:
    """All findings of a release."""
    yield _attempt("kv_zeroing", lambda: zeroing(scene))
    yield _attempt("block_drop", lambda: block_drop(scene))


def _attempt(topic: str, run: Callable[[], Finding]) -> Finding:
    try:
        found: Finding = limited(run)
    except (Missing, Gap) as missing:
        return Finding(topic, "not callable", str(missing))
    except InputError:
        raise
    except Exception as error:  # a release may ask anything of the stand-ins
        return Finding(topic, "not callable", f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")
    return found


def zeroing(scene: Scene) -> Finding:
    """What `KVBlockZeroer` makes of a packed layout, against the rows that a freed block has."""
    kind = scene.program.find(_ZEROER, "KVBlockZeroer")
    views = tuple(KvView((BLOCKS, ROWS, WIDTH), i * SPACING, PACKED) for i in range(4))
    spans = _cleared(scene, kind, views)
    layout = KvLayout(views, BLOCKS * PACKED, *spans)
    block = BLOCKS // 2
    cleared = layout.zeroed(block)
    lost = _overlap(cleared, layout.live(block))
    left = sum(end - begin for begin, end in without(layout.freed(block), cleared))
    over = max(end for _, end in layout.zeroed(BLOCKS - 1)) - layout.allocation
    text = f"four packed layers: {spans[0]} bytes per layer at stride {spans[1]}"
    faults = []
    if lost:
        faults.append(f"{lost} bytes of live rows of other blocks are cleared")
    if left:
        faults.append(f"{left} bytes of the freed block are left")
    if over > 0:
        faults.append(f"the last block's clearing runs {over} bytes past the allocation")
    return Finding("kv_zeroing", "misread" if faults else "honoured", "; ".join([text, *faults]))


def _cleared(scene: Scene, kind: Any, views: tuple[KvView, ...]) -> tuple[int, int]:
    """Bytes per layer and stride that the zeroer takes; it is the same for all layers of one layout."""
    spec_kind = scene.program.lead("vllm.v1.kv_cache_interface", "FullAttentionSpec")
    spec = object.__new__(spec_kind)
    for name, value in {"block_size": ROWS, "num_kv_heads": 1, "head_size": WIDTH, "dtype": "uint8"}.items():
        object.__setattr__(spec, name, value)
    tensors = {
        str(i): Shell("layer", kv_cache=Tensor(2**20 + view.offset, view.shape, (view.stride, WIDTH, 1)))
        for i, view in enumerate(views)
    }
    group = Shell(
        "group",
        kv_cache_spec=spec,
        kv_cache_group_id=0,
        backend=Shell("backend", get_kv_cache_block_dim=lambda *args, **keywords: 0),
        layer_names=list(tensors),
        kernel_block_stride=None,
    )
    given = {
        "device": Shell("device", type="cuda"),
        "pin_memory": False,
        "attn_groups_iter": [group],
        "kernel_block_sizes": [ROWS],
        "cache_dtype": "auto",
        "static_forward_context": tensors,
        "runner_only_attn_layers": set(),
        "num_blocks": BLOCKS,
        "max_concurrency": 1,
    }
    made = kind(**_fitting(kind.__init__, given))
    if "init_meta" in vars(kind):
        made.init_meta(**_fitting(kind.init_meta, given))
    meta = made._meta
    if not isinstance(meta, tuple) or any(isinstance(entry, Blank) for entry in meta[:3]):
        raise Gap("_meta of KVBlockZeroer was not computed")
    if isinstance(meta[1], list):  # segments with strides and sizes of their own
        return meta[2][0] * 4, meta[1][0] * 4
    return meta[1] * 4, meta[1] * 4  # one number for both, in words of four bytes


def _fitting(call: Any, given: dict[str, Any]) -> dict[str, Any]:
    names = [name for name in inspect.signature(call).parameters if name != "self"]
    missing = [name for name in names if name not in given]
    if missing:
        raise Gap(f"{call.__qualname__} wants {', '.join(missing)}")
    return {name: given[name] for name in names}


def _overlap(spans: tuple[tuple[int, int], ...], others: tuple[tuple[int, int], ...]) -> int:
    total = sum(end - begin for begin, end in spans)
    return total - sum(end - begin for begin, end in without(spans, others))


def block_drop(scene: Scene) -> Finding:
    """How many of the matched blocks a DFlash pair gets back from the prefix cache."""
    probe = PROBES[0]
    scene.pair(probe.target, probe.draft, probe.method, 7)
    speculative = scene.vllm_config.speculative_config
    kind = type(speculative)
    asks = "use_eagle_block_drop" if hasattr(kind, "use_eagle_block_drop") else "use_eagle"
    drops = bool(getattr(speculative, asks)())
    kept = _hits(scene, drops)
    text = f"of {HITS} matched blocks {kept} are reused (SpeculativeConfig.{asks} is {str(drops).lower()})"
    if asks == "use_eagle_block_drop":
        speculative.disable_eagle_block_drop = True
        freed = _hits(scene, bool(speculative.use_eagle_block_drop()))
        text += f"; {freed} with disable_eagle_block_drop"
    else:
        text += "; no setting changes it"
    return Finding("block_drop", "honoured" if kept == HITS else "misread", text)


def _hits(scene: Scene, drops: bool) -> int:
    """The release's own search of the prefix cache, over blocks that are all cached."""
    manager = scene.program.find(_MANAGER, "FullAttentionManager")
    spec = object.__new__(scene.program.lead("vllm.v1.kv_cache_interface", "FullAttentionSpec"))
    object.__setattr__(spec, "block_size", 16)
    pool = Shell("block_pool", get_cached_block=lambda *args: [object()], hash_block_size=16)
    given = {
        "block_hashes": list(range(HITS)),
        "max_length": HITS * 16,
        "kv_cache_group_ids": [0],
        "block_pool": pool,
        "kv_cache_spec": spec,
        "use_eagle": drops,
        "drop_eagle_block": drops,
        "alignment_tokens": 16,
        "dcp_world_size": 1,
        "pcp_world_size": 1,
    }
    search = manager.find_longest_cache_hit
    found = search(**_fitting(search, given))
    blocks = found[0]
    while blocks and isinstance(blocks[0], list | tuple):
        blocks = blocks[0]
    return len(blocks)
