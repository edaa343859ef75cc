"""`truedraft trace diff`: its text, its JSON, and files that are no traces."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from truedraft.cli import main

TRACES = Path(__file__).parents[1] / "data" / "engines" / "traces"
DOC = Path(__file__).parents[2] / "docs" / "trace.md"
SHIPPED = TRACES / "dflash-full.safetensors"


def test_the_report_names_the_first_difference(capsys):
    assert main(["trace", "diff", str(SHIPPED), "tiny/dflash-full"]) == 1
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("vllm 0.32.0 (v1), TRUEDRAFT=off, dflash, 6 rounds of 2 requests; served src/")
    assert out[1].startswith("contract ")
    assert out[2].startswith("first difference: context keys, layer 1: ")
    assert out[2].endswith("; all are equal with layer 0's k_norm")
    assert out[3].startswith(
        "next: one layer's k_norm for others is a known defect (truedraft explain TD426)"
    )
    assert out[4] == ""
    shown = [line for line in DOC.read_text().splitlines() if line and line in out]
    assert shown[:3] == out[:3], "docs/trace.md shows another report"
    assert out[-1] in shown


def test_one_convention_at_several_steps_is_one_line(capsys):
    fixed = str(TRACES / "dflash-full-fixed.safetensors")
    assert main(["trace", "diff", fixed, "tiny/dflash-full", "--set", "rope.theta=1000000"]) == 1
    out = capsys.readouterr().out.splitlines()
    assert out[2].startswith("first difference: context keys, layer 0: ")
    assert out[3] == "  the same at context keys, layer 1; query and key, layer 0; query and key, layer 1"
    assert out[4] == "next: TRUEDRAFT=fix:rope.theta, and record again; or correct what the engine reads"
    assert not any("also" in line for line in out)


def test_numbers_are_their_own_explanation(capsys):
    fixed = str(TRACES / "dflash-full-fixed.safetensors")
    assert main(["trace", "diff", fixed, "tiny/dflash-full", "--set", "block.mask_token_id=2"]) == 1
    out = capsys.readouterr().out
    assert "(found 1, expected 2" in out
    assert "none of the candidates" not in out
    assert "next: TRUEDRAFT=fix:block.mask_token_id" in out


def test_trace_alone_says_what_is_missing(capsys):
    assert main(["trace"]) == 2
    assert capsys.readouterr().err == "truedraft: error: Missing command.\n"


def test_json_and_exit_code_of_a_healthy_trace(capsys):
    assert main(["trace", "diff", str(TRACES / "eagle3.safetensors"), "tiny/eagle3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["schema"], found["first"], found["steps_not_seen"]) == (1, None, [])
    assert found["turns_with_equal_drafts"] == found["turns"] > 5
    assert {stage["unequal"] for stage in found["stages"]} == {0}


def copied(
    path: Path, drop: str = "", replace: dict[str, torch.Tensor] | None = None, **about: object
) -> None:
    """The shipped trace without tensors whose name holds `drop`, with others replaced."""
    with safe_open(SHIPPED, framework="pt") as file:
        metadata = json.loads(file.metadata()["truedraft_trace"]) | about
        tensors = {key: file.get_tensor(key) for key in file.keys() if not drop or drop not in key}  # noqa: SIM118
    save_file(tensors | (replace or {}), path, {"truedraft_trace": json.dumps(metadata)})


def test_a_trace_of_a_compiled_drafter_says_what_it_lacks(tmp_path, capsys):
    path = tmp_path / "t.safetensors"
    copied(path, drop=".calls.")
    assert main(["trace", "diff", str(path), "tiny/dflash-full"]) == 1
    out = capsys.readouterr().out
    assert "not compared: block width, block tokens" in out
    assert "first difference: context keys, layer 1" in out
    assert "eagerly" in out


def test_nothing_to_recompute_is_undecided(tmp_path, capsys):
    path = tmp_path / "t.safetensors"
    kept = ("requests", "starts", "rejected", "tokens", "positions")
    with safe_open(SHIPPED, framework="pt") as file:
        tensors = {key: file.get_tensor(key) for key in file.keys() if key.endswith(kept)}  # noqa: SIM118
        metadata = file.metadata()
    tensors = {key: tensor for key, tensor in tensors.items() if key.count(".") == 2}
    save_file(tensors, path, metadata)
    assert main(["trace", "diff", str(path), "tiny/dflash-full"]) == 3
    assert "no step that can be recomputed" in capsys.readouterr().err


BAD = {
    "schema": ({"schema": 2}, {}, "schema: found 2, expected 1"),
    "rounds": ({"rounds": "x"}, {}, "rounds: found 'x', expected a number from 1"),
    "more rounds": ({"rounds": 99}, {}, "rounds.6.requests: found nothing, expected a list of integers"),
    "no rounds": ({"rounds": 0}, {}, "rounds: found 0"),
    "requests": ({"requests": 3}, {}, "requests: expected a list"),
    "prompt": ({"requests": [{"prompt": ["a"]}, {}]}, {}, "a prompt that is no list of token ids"),
    "unlisted": ({"requests": []}, {}, "a request that is not listed"),
    "token": (
        {"requests": [{}, {}]},
        {"rounds.0.tokens": torch.full((60,), 10**6)},
        "found token 1000000, expected ids below 1024",
    ),
    "starts": ({}, {"rounds.0.starts": torch.tensor([0, 50, 20])}, "rounds.0.starts: found [0, 50, 20]"),
    "rows": ({}, {"rounds.0.features": torch.zeros(2, 128)}, "rounds.0.features: found [2, 128], expected"),
    "scalar": ({}, {"rounds.0.taps": torch.tensor(1.0)}, "rounds.0.taps: found []"),
    "positions": ({}, {"rounds.0.positions": torch.full((60,), -4)}, "rounds.0.positions: found a negative"),
    "width": (
        {},
        {"rounds.0.taps": torch.zeros(60, 100)},
        "rounds.0.taps: found [60, 100], expected rows of 384",
    ),
    "ids": ({}, {"rounds.0.calls.0.ids": torch.full((16,), 10**6)}, "embedding: the tensors do not fit"),
    "hidden": ({}, {"rounds.0.heads.0.hidden": torch.zeros(14, 3)}, "the tensors do not fit this pair"),
    "logit ids": ({}, {"rounds.0.heads.0.ids": torch.full((14, 64), -5)}, "head: the tensors do not fit"),
    "keys": ({}, {"rounds.0.context.keys.0": torch.zeros(60, 9, 32)}, "the tensors do not fit this pair"),
    "method": ({"method": "eagle3"}, {}, "found a trace of eagle3 ("),
    "no method": ({"method": "medusa"}, {}, "method: found 'medusa', expected dflash, dspark, eagle3"),
    "ranks": ({"ranks": 0}, {}, "ranks: found 0, expected a number from 1"),
    "truth as number": ({"rounds": True}, {}, "rounds: found True, expected a number from 1"),
    "block of none": ({"width": None}, {}, "width: found None, expected the rows of a block"),
    "block too wide": (
        {"width": 10**6},
        {},
        "found 16 rows, expected 2 blocks of 1000000",
    ),
    "logit_ids": ({"logit_ids": ["x"]}, {}, "logit_ids: found ['x'], expected target or draft"),
    "dtype": ({}, {"rounds.2.taps": torch.zeros(16, 384).bool()}, "rounds.2.taps: found [16, 384] of bool"),
    "real tokens": (
        {},
        {"rounds.2.tokens": torch.ones(16)},
        "rounds.2.tokens: found [16] of float32, expected",
    ),
    "rank": ({}, {"rounds.2.features": torch.zeros(16, 128, 1)}, "expected real numbers in 2 dimensions"),
    "rejected": ({}, {"rounds.3.rejected": torch.tensor([9, 0])}, "found [9, 0], expected at most [8, 8]"),
    "rejected of one": ({}, {"rounds.3.rejected": torch.tensor([1])}, "rounds.3.rejected: found [1]"),
    "negative rejected": (
        {},
        {"rounds.3.rejected": torch.tensor([-1, 0])},
        "rounds.3.rejected: found [-1, 0]",
    ),
    "twice": ({}, {"rounds.2.requests": torch.tensor([0, 0])}, "requests: found [0, 0], expected each once"),
    "far": (
        {},
        {"rounds.2.positions": torch.arange(16) + 2**40},
        "rounds.2.positions: found position 1099511627791, expected one below",
    ),
    "far call": (
        {},
        {"rounds.2.calls.0.positions": torch.full((16,), 2**29)},
        "rounds.2.calls.0.positions: found position 536870912",
    ),
    "gap": (
        {},
        {"rounds.0.positions": torch.cat([torch.arange(10), torch.arange(50, 60), torch.arange(23)])},
        "rounds.0.positions: found 50 in row 10, expected 10",
    ),
    "prompt and tokens": (
        {"requests": [{"prompt": [7] * 20}, {}]},
        {},
        "rounds.0.tokens: found 273 at position 0, expected 7 as the prompt or an earlier round has it",
    ),
    "no drafts": ({}, {"rounds.0.drafts": torch.zeros(2, 0).long()}, "rounds.0.drafts: found [2, 0]"),
    "head rows": ({}, {"rounds.0.heads.0.hidden": torch.zeros(1, 128)}, "heads.0.hidden: found 1 rows"),
    "call rows": (
        {},
        {"rounds.2.calls.0.embedded": torch.zeros(15, 128)},
        "rounds.2.calls.0.embedded: found 15 rows, expected 2 blocks of 8",
    ),
    "context rows": (
        {},
        {"rounds.2.context.positions": torch.arange(15)},
        "rounds.2.context.positions: found [15], expected 16 rows",
    ),
    "later taps": (
        {},
        {"rounds.2.taps": torch.zeros(16, 256)},
        "rounds.2.taps: found [16, 256], expected rows",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_damaged_traces_are_one_line(case, tmp_path, capsys):
    about, tensors, said = BAD[case]
    path = tmp_path / "t.safetensors"
    copied(path, replace=tensors, **about)
    assert main(["trace", "diff", str(path), "tiny/dflash-full"]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1
    assert "t.safetensors" in err


def test_missing_tokens_are_named(tmp_path, capsys):
    path = tmp_path / "t.safetensors"
    copied(path, drop="rounds.2.tokens")
    assert main(["trace", "diff", str(path), "tiny/dflash-full"]) == 2
    assert "rounds.2.tokens: found nothing, expected token ids" in capsys.readouterr().err


def test_calls_that_are_not_there_cost_nothing(tmp_path, capsys):
    """`proposals` of a damaged file is no number of passes to make."""
    path = tmp_path / "t.safetensors"
    with safe_open(TRACES / "eagle3.safetensors", framework="pt") as file:
        metadata = json.loads(file.metadata()["truedraft_trace"]) | {"proposals": 10**6}
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    save_file(tensors, path, {"truedraft_trace": json.dumps(metadata)})
    assert main(["trace", "diff", str(path), "tiny/eagle3"]) == 0
    assert "every step" in capsys.readouterr().out


def test_other_files_are_refused(tmp_path, capsys):
    cut = tmp_path / "cut.safetensors"
    cut.write_bytes(SHIPPED.read_bytes()[:5000])
    plain = tmp_path / "plain.safetensors"
    save_file({"a": torch.ones(1)}, plain)
    other = tmp_path / "text"
    other.write_text("no tensors")
    for path in (cut, plain, other, tmp_path / "none", tmp_path):
        assert main(["trace", "diff", str(path), "tiny/dflash-full"]) == 2
        err = capsys.readouterr().err
        assert err.startswith("truedraft: error: ")
        assert err.count("\n") == 1
        assert path.name in err


def test_without_a_pair_the_engines_own_is_taken(tmp_path, capsys, monkeypatch):
    path = tmp_path / "t.safetensors"
    copied(path, target="nowhere/target", draft="nowhere/draft")
    assert main(["trace", "diff", str(path)]) == 2
    assert "nowhere/target" in capsys.readouterr().err
    shutil.copy(SHIPPED, path)
    monkeypatch.chdir(Path(__file__).parents[2])
    assert main(["trace", "diff", str(path), "--max-rows", "10"]) == 1


def test_rows_beyond_max_rows_are_not_compared_with_the_target(capsys):
    command = ["trace", "diff", str(SHIPPED), "tiny/dflash-full", "--json", "--max-rows", "10"]
    assert main(command) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["stages"][0]["rows"] == 20
    assert found["turns"] == 0
