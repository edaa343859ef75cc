"""docs/field-log.md: each code that the table claims is printed for a pair as in the report."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import cases_measurement
import cases_regime
import cases_tensors
import pytest
from case import found, pair
from cases_contract import V4, speculators
from cases_engines import EAGLE3, SGLANG, read
from checkpoints import CONFIGS, DELETE, ZLAB, changed, write
from targets import TARGETS

from truedraft.checks import Subject, Usage, find_rule
from truedraft.formats import expected, inspect

PAGE = Path(__file__).parents[2] / "docs" / "field-log.md"

Build = Callable[[Path], Subject]


def rows() -> dict[str, set[str]]:
    """Case -> the codes that the page claims."""
    table = re.findall(
        r"^\| (F\d\d) [^|]*\|[^|]*\| ([^|]*) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE
    )
    return {case: set(re.findall(r"TD\d{3}", codes)) for case, codes in table}


def shapes(config: dict[str, Any], directory: Path) -> dict[str, tuple[int, ...]]:
    """The tensors that a drafter of this config needs."""
    contract = pair(directory / "plain", base=config).contract
    assert contract is not None
    return {name: tuple(int(n or 1) for n in dims) for name, dims in expected(contract).items()}


def with_tensors(directory: Path, config: dict[str, Any], change: dict[str, Any]) -> Subject:
    """A pair whose drafter has its tensors, some changed or (`DELETE`) left out."""
    tensors = changed(shapes(config, directory), change)
    return pair(directory, base=config, tensors={k: tuple(v) for k, v in tensors.items()})


def partial_rotary(directory: Path) -> Subject:
    key = "transformer_layer_config/rope_parameters/partial_rotary_factor"
    dflash = {"speculators_model_type": "dflash", "speculators_config/algorithm": "dflash"}
    subject = speculators(directory, {key: 0.25, "sample_from_anchor": False, **dflash})
    return read(subject, "vllm:0.22.1:v1")


def reduced(directory: Path, **more: Any) -> Subject:
    """A DFlash drafter with a head of its own for half the vocabulary, in a flattened speculators config."""
    changes = {
        **SGLANG,
        "speculators_model_type": "dflash",
        "speculators_config/algorithm": "dflash",
        "draft_vocab_size": 128,
    }
    return read(speculators(directory, changes), "sglang:0.5.23")


def nested_ids(directory: Path) -> Subject:
    config = changed(EAGLE3, {"eagle_aux_hidden_state_layer_ids": DELETE})
    config["eagle_config"] = {"eagle_aux_hidden_state_layer_ids": [3, 4, 6]}
    return read(pair(directory, {"aux_hidden_states_layer_ids": [3, 4, 6]}, base=config), "vllm:0.32.0:v2")


def headless(directory: Path) -> Subject:
    config = changed(EAGLE3, {"draft_vocab_size": 256})
    without = {"fc.weight": (64, 192), "embed_tokens.weight": (256, 64)}
    return read(pair(directory, base=config, tensors=without), "sglang:0.5.23")


def hybrid_target(directory: Path, engine: str) -> Subject:
    kinds = (["linear_attention"] * 3 + ["full_attention"]) * 2
    return read(pair(directory, target={"layer_types": kinds}), engine)


def qwen36(directory: Path, engine: str) -> Subject:
    config = (CONFIGS / "sgl-project-SpecForge__qwen3.6-27b-dflash.training-config.json").read_text()
    target = write(directory / "target", TARGETS["Qwen3.5-27B"])
    return read(Subject(inspect(target, write(directory / "draft", config))), engine)


def case(code: str, name: str = "") -> Build:
    """The broken pair of a case of that rule."""
    everything = (*cases_tensors.CASES, *cases_regime.CASES, *cases_measurement.CASES)
    (found,) = [c for c in everything if (c.code, c.name) == (code, name)]
    return found.broken


TOLD: dict[str, dict[str, Build]] = {
    "F01": {"TD113": partial_rotary, "TD408": partial_rotary},
    "F02": {"TD401": lambda d: read(pair(d), "vllm:0.20.1:v1")},
    "F03": {"TD401": nested_ids},
    "F04": {"TD202": lambda d: with_tensors(d, ZLAB, {"aux_norm.weight": [64]})},
    "F05": {"TD409": reduced},
    "F06": {"TD409": headless},
    "F11": {"TD304": lambda d: pair(d, usage=Usage(context=16384))},
    "F09": {"TD207": case("TD207", "arange")},
    "F08": {"TD201": lambda d: with_tensors(d, EAGLE3, {"d2t": DELETE})},
    "F14": {"TD423": lambda d: replace(Subject(inspect(write(d, V4))), usage=Usage(speculative_tokens=7))},
    "F15": {"TD403": lambda d: read(speculators(d, SGLANG), "sglang:0.5.18", asked=7)},
    "F17": {"TD405": lambda d: qwen36(d, "vllm:0.20.1:v1")},
    "F18": {
        "TD425": lambda d: read(pair(d), "vllm:0.28.0:v2"),
        "TD506": case("TD506"),
    },
    "F19": {"TD422": lambda d: hybrid_target(d, "vllm:0.28.0:v2")},
    "F21": {"TD508": case("TD508", "full")},
    "F22": {"TD205": case("TD205", "bare")},
    "F23": {"TD205": case("TD205", "scaled")},
    "F24": {"TD305": case("TD305")},
    "F26": {"TD424": lambda d: pair(d, usage=Usage(temperature=1.0, draft_sampling=True))},
    "F28": {"TD303": case("TD303", "published")},
    "F29": {"TD503": case("TD503")},
    "F30": {"TD301": case("TD301")},
}
"""Case -> code -> a pair as in the report."""


@pytest.mark.parametrize("case", sorted(TOLD))
def test_codes_are_printed(case: str, tmp_path: Path) -> None:
    for code, build in TOLD[case].items():
        assert found(build(tmp_path / code), code), f"{case}: {code} is not printed"


def test_page_claims_what_is_tested_and_nothing_else() -> None:
    page = rows()
    assert sorted(page) == [f"F{i:02}" for i in range(1, 31)]
    assert {case: codes for case, codes in page.items() if codes} == {
        case: set(builds) for case, builds in TOLD.items()
    }
    for codes in page.values():
        for code in codes:
            assert find_rule(code).code == code
