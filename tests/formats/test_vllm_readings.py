"""vLLM's readings against what the releases' own functions return (`tests/data/engines`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from checkpoints import DATA, SPECULATORS_DSPARK, TARGET, ZLAB, changed, write

from truedraft.contract import Contract, diff
from truedraft.formats import Checkpoint, Inspection, inspect
from truedraft.formats.engines import Fact, PairFiles, find_engines, read_engine
from truedraft.formats.engines.vllm._release import Release
from truedraft.formats.engines.vllm.attention import attention
from truedraft.formats.engines.vllm.refusals import refusals
from truedraft.formats.engines.vllm.taps import taps

RESOLVERS = json.loads((DATA / "engines" / "vllm-resolvers.json").read_text())
LAYERS = 64


def release(version: str, runner: str) -> Release:
    major, minor, _ = version.split(".")
    return Release((int(major), int(minor)), runner)  # type: ignore[arg-type]


def files(directory: Path, config: dict[str, Any], layers: int = 3) -> PairFiles:
    """A pair whose draft config has, beside the keys under test, only what a contract cannot do without."""
    base = {k: v for k, v in ZLAB.items() if k not in ("dflash_config", "layer_types", "sliding_window")}
    target = write(directory / "target", changed(TARGET, {"num_hidden_layers": LAYERS}))
    native = inspect(target, write(directory / "draft", changed(base, {"num_hidden_layers": layers})))
    assert native.contract is not None
    draft = Checkpoint("draft", directory / "draft", base | {"num_hidden_layers": layers} | config, {})
    return PairFiles(native.spec, native.target, draft, native.contract)


def value(facts: list[Fact], axis: str) -> Any:
    (found,) = [fact.value for fact in facts if fact.axis == axis]
    return found


def label(row: dict[str, Any]) -> str:
    return f"{row['release']}-{json.dumps(row['config'])}"


@pytest.mark.parametrize("row", RESOLVERS["taps"], ids=label)
@pytest.mark.parametrize("runner", ["v1", "v2"])
def test_taps(row: dict[str, Any], runner: str, tmp_path: Path) -> None:
    entries = row[runner]
    if entries is None:
        entries = [2, LAYERS // 2, LAYERS - 3]
    captured = tuple(sorted({entry - 1 for entry in entries if entry >= 0}))
    found = list(taps(release(row["release"], runner), files(tmp_path, row["config"])))
    assert value(found, "taps.layers") == captured


@pytest.mark.parametrize("row", RESOLVERS["attention"], ids=label)
def test_windows_and_causality(row: dict[str, Any], tmp_path: Path) -> None:
    pair = files(tmp_path, {**row["config"], "use_sliding_window": True}, layers=2)
    for runner in ("v1", "v2"):
        at = release(row["release"], runner)
        refused = [refusal.why for refusal in refusals(at, pair)]
        if isinstance(row[runner], str):
            assert refused, row[runner]
            continue
        assert refused == []
        found = list(attention(at, pair))
        assert value(found, "attention.window") == tuple(window for window, _ in row[runner])
        causal = tuple(causal for _, causal in row[runner])
        if runner == "v1":
            causal = (row["v1_causal"],) * 2
        assert value(found, "attention.causal") == causal


def converted(directory: Path, row: dict[str, Any]) -> Inspection:
    """The synthetic config as a pair that has a contract."""
    chain = row["algorithm"] == "eagle3"
    config = changed(
        SPECULATORS_DSPARK,
        {
            "speculators_model_type": row["algorithm"],
            "speculators_config/algorithm": row["algorithm"],
            "eagle_aux_hidden_state_layer_ids": [2, 4, 6],
            "transformer_layer_config/num_hidden_layers": 1 if chain else 3,
            "transformer_layer_config/layer_types": ["full_attention"] * (1 if chain else 3),
        },
    )
    for key in ("sample_from_anchor", "sliding_window_non_causal", "norm_before_residual"):
        config.pop(key, None)
    config |= {**row["config"], "fc_norm": False} if chain else row["config"]
    target = write(directory / "target", TARGET)
    return inspect(target, write(directory / "draft", config))


@pytest.mark.parametrize("row", RESOLVERS["speculators"], ids=lambda r: f"{r['algorithm']}-{label(r)}")
def test_speculators_format(row: dict[str, Any], tmp_path: Path) -> None:
    pair = converted(tmp_path, row)
    assert pair.contract is not None
    runner = "v2" if row["algorithm"] == "dspark" else "v1"
    (engine,) = find_engines(f"vllm:{row['release']}:{runner}")
    reading = read_engine(engine, pair)
    if not row["known"]:
        assert any("no DSpark" in refusal.why for refusal in reading.refusals)
        return
    compare(reading.contract, row["written"], row)


def compare(contract: Contract, written: dict[str, Any], row: dict[str, Any]) -> None:
    entries = written["eagle_aux_hidden_state_layer_ids"]
    assert contract["taps.layers"] == tuple(entry - 1 for entry in entries)
    if row["algorithm"] == "dflash":
        causal = written["dflash_config"].get("causal", False)
        assert contract["attention.causal"] == (causal,) * 3
    if row["algorithm"] == "dspark":
        fill_in = written.get("dspark_bonus_anchor", not written.get("sample_from_anchor", True))
        assert contract["block.first_slot"] == ("unused" if fill_in else "predicts_next")
    if row["algorithm"] == "eagle3":
        assert contract["chain.norm_before_residual"] == written["norm_before_residual"]
        output = written.get("norm_output", False)
        assert contract["chain.feedback"] == ("post_norm" if output else "residual")


# What live runs of vLLM 0.32.0 found on the bundled pairs (tests/engines/RESULTS.md): its drafts equal ours
# under overrides of these axes, and under no others.
LIVE = [
    ("tiny/dflash", "v2", None, set()),
    ("tiny/dflash-full", "v1", None, set()),
    ("tiny/dspark", "v2", None, set()),
    ("tiny/dspark-bonus", "v2", 7, set()),
    ("tiny/dspark-anchor", "v2", None, set()),
    ("tiny/eagle3", "v1", None, set()),
    ("tiny/dflash-speculators", "v2", None, {"attention.causal", "attention.window_rule"}),
]


@pytest.mark.parametrize(("name", "runner", "asked", "axes"), LIVE)
def test_live_results(name: str, runner: str, asked: int | None, axes: set[str]) -> None:
    pair = inspect(name)
    assert pair.contract is not None
    (engine,) = find_engines(f"vllm:0.32.0:{runner}")
    reading = read_engine(engine, pair, asked)
    assert reading.refusals == ()
    assert {entry.axis for entry in diff(pair.contract, reading.contract)} == axes
