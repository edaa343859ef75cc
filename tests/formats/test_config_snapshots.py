"""Every published config against its target: the whole contract, or the refusal, as reviewed by hand.

`tests/data/snapshots/README.md` has the review. After a change that is meant, regenerate and review again:

    TRUEDRAFT_UPDATE_SNAPSHOTS=1 pytest tests/formats/test_config_snapshots.py
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from checkpoints import CONFIGS, DATA, write
from targets import PAIRS, TARGETS

from truedraft.contract import InputError
from truedraft.formats import resolve

SNAPSHOTS = DATA / "snapshots"
UPDATE = os.environ.get("TRUEDRAFT_UPDATE_SNAPSHOTS") == "1"


def snapshot(name: str, directory: Path) -> dict[str, Any]:
    """What `truedraft contract --json` prints, without hash and schema; or the refusal."""
    target = write(directory / "target", TARGETS[PAIRS[name]])
    draft = write(directory / "draft", (CONFIGS / f"{name}.json").read_text())
    found: dict[str, Any] = {"target": PAIRS[name]}
    try:
        printed = resolve(target, draft).contract.to_json()
    except InputError as error:
        reason = str(error).replace(f"{directory}/", "").split("; known: ")[0]
        return found | {"refused": reason}
    return found | {k: v for k, v in printed.items() if k not in ("schema", "contract_hash")}


def text(value: dict[str, Any]) -> str:
    """JSON with one line per axis, so that a change is one line of a diff."""
    lines = []
    for key, entry in value.items():
        shown = json.dumps(entry, ensure_ascii=False)
        if key == "axes":
            axes = [f"    {json.dumps(a)}: {json.dumps(s, ensure_ascii=False)}" for a, s in entry.items()]
            shown = "{\n" + ",\n".join(axes) + "\n  }"
        lines.append(f"  {json.dumps(key)}: {shown}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


@pytest.mark.parametrize("name", PAIRS)
def test_snapshot(name: str, tmp_path: Path) -> None:
    found, file = text(snapshot(name, tmp_path)), SNAPSHOTS / f"{name}.json"
    if UPDATE:
        SNAPSHOTS.mkdir(exist_ok=True)
        file.write_text(found, encoding="utf-8")
    assert json.loads(found) == json.loads(file.read_text(encoding="utf-8"))


def test_every_config_has_a_snapshot_and_a_line_of_review() -> None:
    names = {file.stem for file in CONFIGS.glob("*.json")}
    assert set(PAIRS) == names
    assert {file.stem for file in SNAPSHOTS.glob("*.json")} == names
    review = (SNAPSHOTS / "README.md").read_text(encoding="utf-8")
    assert [name for name in names if f"| `{name}` |" not in review] == []


def test_refusals_are_one_line_with_a_reason() -> None:
    for file in SNAPSHOTS.glob("*.json"):
        refused = json.loads(file.read_text(encoding="utf-8")).get("refused")
        if refused is not None:
            assert "\n" not in refused
            assert "not supported" in refused or "unknown family" in refused, file.name
