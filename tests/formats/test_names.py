"""Names of pairs: bundled ones, directories, and what is neither."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from checkpoints import DEEPSPEC, TARGET, ZLAB, write

from truedraft.contract import InputError
from truedraft.formats import _bundled, evaluation_prompts, locate, resolve

MANIFEST = {"schema": 1, "default": "dflash", "drafters": ["dflash", "dspark"], "prompts": "prompts.json"}
PROMPTS = {"schema": 1, "max_new_tokens": 96, "prompts": [{"id": "p0", "text": "import os"}]}


@pytest.fixture
def pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package directory with one bundled pair, `small`."""
    root = tmp_path / "package"
    write(root / "small" / "target", TARGET)
    write(root / "small" / "dflash", ZLAB)
    write(root / "small" / "dspark", DEEPSPEC)
    (root / "small" / "pair.json").write_text(json.dumps(MANIFEST))
    (root / "small" / "prompts.json").write_text(json.dumps(PROMPTS))
    monkeypatch.setattr(_bundled, "PAIRS", root)
    monkeypatch.chdir(tmp_path)
    return root / "small"


def test_bundled_names(pairs: Path) -> None:
    assert locate("small") == (pairs / "target", pairs / "dflash")
    assert locate("small/dspark") == (pairs / "target", pairs / "dspark")
    assert resolve("small").contract.family == "dflash"
    assert resolve("small/dspark").contract.family == "dspark"
    assert resolve("small", "small/dspark").contract.family == "dspark"
    assert resolve("small/dspark", "small").contract.family == "dflash"
    assert resolve("small", pairs / "dspark").contract.family == "dspark"


def test_directory_of_a_bundled_name_needs_a_separator(pairs: Path) -> None:
    write(pairs.parent.parent / "small", ZLAB)
    assert locate("small")[0] == pairs / "target"
    assert locate("./small") == (Path("small"), None)
    assert locate(Path("small")) == (Path("small"), None)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere", "'nowhere': no such directory and no bundled pair (bundled: small); a hub id must be"),
        ("Qwen/Qwen3-8B", "'Qwen/Qwen3-8B': no such directory"),
        ("small/eagle", "pair small has no drafter 'eagle', expected one of dflash, dspark"),
        ("small/../../secret", "has no drafter"),
    ],
)
def test_neither(name: str, message: str, pairs: Path) -> None:
    with pytest.raises(InputError) as caught:
        locate(name)
    assert message in str(caught.value)


def test_a_file_or_a_target_without_drafter(pairs: Path) -> None:
    with pytest.raises(InputError, match="a file, expected the directory"):
        locate(pairs / "pair.json")
    with pytest.raises(InputError, match="no drafter inside this target"):
        resolve(pairs / "target")


def test_evaluation_prompts(pairs: Path) -> None:
    assert evaluation_prompts("small") == ([{"id": "p0", "text": "import os"}], 96)
    assert evaluation_prompts("small/dspark")[1] == 96
    with pytest.raises(InputError, match="not a bundled pair"):
        evaluation_prompts("elsewhere")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prompts": []}, "expected a list of prompts"),
        ({"prompts": [{"id": "a"}]}, "strings id and text"),
        ({"max_new_tokens": 0}, "found 0"),
        ({"max_new_tokens": True}, "found True"),
    ],
)
def test_bad_prompt_file(change: dict[str, Any], message: str, pairs: Path) -> None:
    (pairs / "prompts.json").write_text(json.dumps(PROMPTS | change))
    with pytest.raises(InputError, match=message):
        evaluation_prompts("small")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"drafters": "dflash"}, "expected a list of names"),
        ({"default": None}, "found None, expected a string"),
    ],
)
def test_bad_manifest(change: dict[str, Any], message: str, pairs: Path) -> None:
    (pairs / "pair.json").write_text(json.dumps(MANIFEST | change))
    with pytest.raises(InputError, match=message):
        locate("small")
