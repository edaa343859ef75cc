"""`truedraft run` with draft trees: options, records, text."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import truedraft.decode as decode
from conftest import GOLDENS
from truedraft.cli import main
from truedraft.cli._check_input import records_of
from truedraft.cli._tree_options import MOST_NODES

CASE = GOLDENS / "dflash_trained"


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    expect = json.loads((CASE / "expect.json").read_text())
    lines = [json.dumps({"tokens": entry["prompt"]}) for entry in expect["generate"][:3]]
    path = tmp_path / "prompts.jsonl"
    path.write_text("\n".join([*lines, ""]))
    return path


def call(capsys, prompts, *more, draft=CASE / "draft"):
    words = [str(CASE / "target"), str(draft), "--prompt-file", str(prompts), "--max-new-tokens", "24"]
    code = main(["run", *words, "--quiet", *map(str, more)])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.parametrize("more", [[], ["--temperature", 1]], ids=["greedy", "sampled"])
@pytest.mark.parametrize("batch_size", [1, 3])
def test_json_and_records(capsys, prompts, tmp_path, more, batch_size):
    path = tmp_path / "records.jsonl"
    options = ["--tree-budget", 9, "--tree-depth", 3, "--batch-size", batch_size, "--records", path, *more]
    code, out, _ = call(capsys, prompts, "--json", *options)
    report = json.loads(out)
    assert code == 0
    wanted = {"tree_budget": 9, "tree_depth": 3, "speculative_tokens": 3}
    assert report["deployment"] | wanted == report["deployment"]
    sampled = bool(more)
    assert report["deployment"]["verification"] == ("exact_match" if sampled else "greedy")
    assert report["lossless"]["method"] == ("sampled_identity" if sampled else "greedy_identity")
    assert (report["lossless"]["identical"], report["lossless"]["of"]) == (3, 3)
    figures, records = report["acceptance"], report["records"]
    assert "path that the target took through the round's tree" in figures["definition"]
    assert figures["nodes"] == sum(sum(record["nodes"]) for record in records)
    assert len(figures["survival"]) == 3
    for record in records:
        assert (record["K"], record["tree_budget"]) == (3, 9)
        assert len(record["nodes"]) == len(record["proposed"]) == len(record["accepted"])
        assert set(record["nodes"]) == {9}
        assert max(record["proposed"]) <= 3  # an unsure drafter's tree is broad instead
    assert [record.to_json() for record in records_of(path)] == [
        {name: tuple(value) if isinstance(value, list) else value for name, value in record.items()}
        for record in records
    ]


def test_text(capsys, prompts):
    code, out, _ = call(capsys, prompts, "--tree-budget", 16)
    assert code == 0
    for words in (
        "tree         up to 16 nodes per round, 16.0 on average; up to 5 deep",
        "accepted: drafts on the path that the target took through the round's tree",
        "depth            1     2     3     4     5\nsurvival",
        "3 of 3 outputs identical to plain greedy decoding",
    ):
        assert words in out
    assert "position" not in out


def test_chains_say_nothing_of_trees(capsys, prompts):
    out = call(capsys, prompts)[1]
    assert "tree" not in out
    assert "position" in out
    report = json.loads(call(capsys, prompts, "--json")[1])
    assert report["deployment"]["tree_budget"] is report["deployment"]["tree_depth"] is None
    assert report["acceptance"]["nodes"] == 0
    assert [(r["tree_budget"], r["nodes"]) for r in report["records"]] == [(0, [])] * 3


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--tree-budget", 0], "tree-budget"),
        (["--tree-budget", 5000], "--tree-budget: found 5000, expected 1 to 4096 nodes"),
        (["--tree-budget", 8, "--tree-depth", 0], "tree-depth"),
        (["--tree-budget", 8, "--tree-depth", 6], "(--tree-depth): found 6, expected 1 to 5"),
        (["--tree-depth", 3], "--tree-depth: found 3, expected --tree-budget with it"),
        (["--tree-budget", 8, "--k", 3], "--k: found 3 with --tree-budget, expected --tree-depth instead"),
        (
            ["--tree-budget", 8, "--temperature", 1, "--proposal", "sampled"],
            "--proposal: found sampled with --tree-budget, expected greedy",
        ),
        (["--tree-budget", 8, "--confidence-threshold", 0.5], "--confidence-threshold: found 0.5 with"),
        (
            ["--tree-budget", 8, "--temperature", 1, "--verification", "block"],
            "--verification: found block with --tree-budget, expected exact-match",
        ),
        (
            ["--tree-budget", 8, "--temperature", 1, "--verification", "standard"],
            "--verification: found standard with --tree-budget, expected exact-match",
        ),
        (["--tree-budget", 8, "--verification", "exact-match"], "expected greedy at temperature 0"),
    ],
)
def test_bad_tree_options_are_one_line_and_exit_2(capsys, prompts, more, message):
    code, out, err = call(capsys, prompts, *more)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_too_large_a_budget_is_refused_before_the_pair_is_looked_at(capsys):
    code = main(["run", "nowhere/at-all", "--prompt", "x", "--tree-budget", "1000000000"])
    assert code == 2
    assert "--tree-budget: found 1000000000, expected 1 to 4096 nodes" in capsys.readouterr().err
    assert MOST_NODES == decode.tree_options.MOST_NODES


def test_a_target_without_trees_is_named_before_their_depth(capsys, prompts, monkeypatch):
    monkeypatch.setattr("truedraft.models.target.TREE_MODEL_TYPES", frozenset())
    code, out, err = call(capsys, prompts, "--tree-budget", 8, "--tree-depth", 999)
    assert (code, out) == (2, "")
    assert "expected none: qwen3 targets keep state that follows one chain of rows" in err


def test_chain_drafters_are_refused_by_family(capsys):
    code = main(["run", "tiny/eagle3", "--prompt", "x", "--quiet", "--tree-budget", "8"])
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert "found 8 with family eagle3, which drafts chains only" in err
    assert err.count("\n") == 1


def test_drafts_from_nowhere_are_refused(capsys, prompts, tmp_path):
    """A broken drafter is one line with trees too."""
    shutil.copytree(CASE / "draft", tmp_path / "draft")
    options = ["--set", "embedding.scale=1e300", "--tree-budget", 8]
    code, out, err = call(capsys, prompts, *options, draft=tmp_path / "draft")
    assert (code, out) == (2, "")
    assert "the drafter's logits: found NaN or infinite values" in err
