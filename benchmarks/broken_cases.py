"""Deployments that go wrong in vLLM: what is broken in a copy of a tiny pair, and the truth beside it."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from safetensors import safe_open
from safetensors.torch import save_file

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/engines"))
from broken_configs import Config, all_full, hide_ids, norm_after, other_slot

TINY = Path(__file__).resolve().parent.parent / "src/truedraft/pairs/tiny"


@dataclass(frozen=True)
class Broken:
    """A deployment. `breaks`: the config; `drops`: a tensor that the copy lacks; `k`: drafts asked for, if
    fewer than trained. `truth`: overrides, where the broken files state something else than the truth.
    """

    what: str
    drafter: str
    method: str
    runner: str
    breaks: Callable[[Config], None] | None = None
    drops: str = ""
    k: int | None = None
    truth: str = ""

    @property
    def asked(self) -> int:
        """K."""
        return self.k or (5 if self.method == "eagle3" else 7)


def _low_ids(config: Config) -> None:
    config["dflash_config"]["target_layer_ids"] = [0, 3, 5]


def _mask(config: Config) -> None:
    config["dflash_config"]["mask_token_id"] = 2


def _theta_of_target(config: Config) -> None:
    config["rope_parameters"] = {"rope_type": "default", "rope_theta": 1e6}


def _half_window(config: Config) -> None:
    config["sliding_window"] = 16


def _no_window(config: Config) -> None:
    config["layer_types"] = ["full_attention"] * config["num_hidden_layers"]
    config |= {"use_sliding_window": False, "sliding_window": None}


HEALTHY = (
    Broken("as trained", "dflash-full", "dflash", "v1"),
    Broken("as trained", "eagle3", "eagle3", "v1"),
    Broken("as trained", "dflash", "dflash", "v2"),
    Broken("as trained", "dspark-bonus", "dspark", "v2"),
)
CASES = (
    Broken("an empty `eagle_config` hides the layer ids", "dflash-full", "dflash", "v1", hide_ids),
    Broken("layer ids one too low", "dflash-full", "dflash", "v1", _low_ids, truth="taps.layers=1,4,6"),
    Broken("mask id 2 for 1", "dflash-full", "dflash", "v1", _mask, truth="block.mask_token_id=1"),
    Broken(
        "the target's `rope_parameters` beside the drafter's `rope_theta`",
        "dflash-full",
        "dflash",
        "v1",
        _theta_of_target,
        truth="rope.theta=10000",
    ),
    Broken("K 4 for a block of 7", "dflash-full", "dflash", "v1", k=4),
    Broken(
        "the second layer's `k_norm` is not in the file",
        "dflash-full",
        "dflash",
        "v1",
        drops="layers.1.self_attn.k_norm.weight",
    ),
    Broken("no `d2t`", "eagle3", "eagle3", "v1", drops="d2t"),
    Broken(
        "`norm_before_residual` false for true",
        "eagle3",
        "eagle3",
        "v1",
        norm_after,
        truth="chain.norm_before_residual=true",
    ),
    Broken("speculators' default causal flag, full layers", "dflash-speculators", "dflash", "v1", all_full),
    Broken("speculators' windows as shipped", "dflash-speculators", "dflash", "v2"),
    Broken("window 16 for 32", "dflash", "dflash", "v2", _half_window, truth="attention.window=32,none,32"),
    Broken(
        "no `layer_types`, no window",
        "dflash",
        "dflash",
        "v2",
        _no_window,
        truth="attention.window=32,none,32",
    ),
    Broken(
        "`sample_from_anchor` true for false",
        "dspark-bonus",
        "dspark",
        "v2",
        other_slot,
        truth="block.first_slot=unused block.width=8",
    ),
)


def broken_copy(case: Broken, folder: Path) -> Path:
    """The drafter as it is, or a copy in `folder` with the fault."""
    bundled = TINY / case.drafter
    if case.breaks is None and not case.drops:
        return bundled
    copy = folder / "draft"
    shutil.copytree(bundled, copy)
    if case.breaks is not None:
        config = json.loads((bundled / "config.json").read_text())
        case.breaks(config)
        (copy / "config.json").write_text(json.dumps(config))
    if case.drops:
        path = copy / "model.safetensors"
        with safe_open(path, framework="pt") as file:
            names = [name for name in file.keys() if not name.endswith(case.drops)]  # noqa: SIM118
            kept = {name: file.get_tensor(name) for name in names}
            assert len(kept) < len(list(file.keys())), case.drops
        save_file(kept, path, {"format": "pt"})
    return copy
