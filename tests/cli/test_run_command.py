"""`truedraft run` on a trained golden pair (which has no tokenizer), and all ways to call it wrongly."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from conftest import GOLDENS
from truedraft.cli import main
from truedraft.cli._prompts import gather
from truedraft.contract import InputError
from truedraft.formats import evaluation_prompts

CASE = GOLDENS / "dflash_trained"


@pytest.fixture
def pair(tmp_path: Path) -> Path:
    """A copy of the trained pair that a test may spoil."""
    shutil.copytree(CASE / "target", tmp_path / "target")
    shutil.copytree(CASE / "draft", tmp_path / "draft")
    return tmp_path


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    expect = json.loads((CASE / "expect.json").read_text())
    lines = [json.dumps({"tokens": entry["prompt"]}) for entry in expect["generate"][:2]]
    path = tmp_path / "prompts.jsonl"
    path.write_text("\n".join([*lines, ""]))
    return path


def call(capsys, pair, *more):
    code = main(["run", str(pair / "target"), str(pair / "draft"), *map(str, more)])
    out, err = capsys.readouterr()
    return code, out, err


def refused(result, message):
    """Exit 2, nothing on stdout, one line on stderr that says `message`."""
    code, out, err = result
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_json(capsys, pair, prompts):
    code, out, err = call(capsys, pair, "--prompt-file", prompts, "--max-new-tokens", 24, "--json")
    report = json.loads(out)
    assert (code, err) == (0, "")
    assert report["schema"] == 1
    assert len(report["contract_hash"]) == 16
    lossless = report["lossless"]
    assert {k: lossless[k] for k in ("method", "identical", "of", "ties")} == {
        "method": "greedy_identity",
        "identical": 2,
        "of": 2,
        "ties": 0,
    }
    assert set(report["acceptance"]) >= {"tau", "definition", "rounds", "survival", "conditional"}
    assert report["overrides"] == []
    assert set(report["versions"]) == {"truedraft", "torch", "transformers", "threads", "kernels"}
    assert set(report["speed"]) == {"plain_tokens_per_s", "spec_tokens_per_s", "ratio"}
    expect = json.loads((CASE / "expect.json").read_text())
    assert [o["tokens"] for o in report["outputs"]] == [e["output"][:24] for e in expect["generate"][:2]]


def test_kernels(capsys, pair, prompts):
    runs = {}
    for kernels in ("torch", "onnxruntime", "auto"):
        code, out, _ = call(
            capsys, pair, "--prompt-file", prompts, "--max-new-tokens", 24, "--threads", 1, "--json",
            "--kernels", kernels,
        )  # fmt: skip
        assert code == 0
        runs[kernels] = json.loads(out)
    assert runs["torch"]["outputs"] == runs["onnxruntime"]["outputs"]
    named = {kernels: run["versions"]["kernels"] for kernels, run in runs.items()}
    assert named == {"torch": "torch", "onnxruntime": "onnxruntime", "auto": "torch"}
    assert runs["onnxruntime"]["versions"]["onnxruntime"]
    assert "onnxruntime" not in runs["torch"]["versions"]


def test_text(capsys, pair, prompts):
    code, out, _ = call(capsys, pair, "--prompt-file", prompts, "--max-new-tokens", 12)
    assert code == 0
    for words in (
        "taps.layers          1,2,4",
        "acceptance   tau",
        "survival",
        "conditional",
        "speed",
        "cost",
        "lossless",
    ):
        assert words in out
    assert "2 of 2 outputs identical" in out


def test_an_override_changes_acceptance_but_not_the_output(capsys, pair, prompts):
    runs = []
    for override in ([], ["--set", "taps.layers=4,2,1"]):
        _, out, _ = call(capsys, pair, "--prompt-file", prompts, "--max-new-tokens", 48, "--json", *override)
        runs.append(json.loads(out))
    assert runs[0]["outputs"] == runs[1]["outputs"]
    assert runs[0]["contract_hash"] != runs[1]["contract_hash"]
    assert runs[0]["acceptance"]["tau"] > runs[1]["acceptance"]["tau"]


def test_records(capsys, pair, prompts, tmp_path):
    path = tmp_path / "records.jsonl"
    code, _, _ = call(capsys, pair, "--prompt-file", prompts, "--max-new-tokens", 12, "--records", path)
    assert code == 0
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["output_tokens"] for line in lines] == [12, 12]
    assert {line["schema"] for line in lines} == {1}
    assert not list(tmp_path.glob("*.partial"))


def test_categories_of_prompts_go_into_the_records(capsys, pair, tmp_path):
    source, path = tmp_path / "kinds.jsonl", tmp_path / "records.jsonl"
    kinds = ("code", "chat")
    source.write_text("".join(json.dumps({"tokens": [5, 6, 7], "category": k}) + "\n" for k in kinds))
    code, _, _ = call(capsys, pair, "--prompts", source, "--max-new-tokens", 4, "--records", path)
    assert code == 0
    assert [json.loads(line)["category"] for line in path.read_text().splitlines()] == ["code", "chat"]
    source.write_text('{"tokens": [5], "category": 3}\n')
    code, _, err = call(capsys, pair, "--prompts", source)
    assert code == 2
    assert "kinds.jsonl:1#/category: found 3, expected text" in err


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ([], "found no prompt, expected --prompt TEXT or --prompt-file FILE"),
        (["--prompt", "x"], "the target has no tokenizer"),
        (["--prompt-file", "missing.jsonl"], "missing.jsonl: No such file"),
        (["--prompt-file", "PROMPTS", "--set", "taps.layer=1"], "taps.layer"),
        (["--prompt-file", "PROMPTS", "--set", "block.width=wide"], "block.width"),
        (
            ["--prompt-file", "PROMPTS", "--set", "taps.layers=1,2,9"],
            "a tap beyond the target, found 9, expected -1 to 5",
        ),
        (["--prompt-file", "PROMPTS", "--set", "block.mask_token_id=256"], "256"),
        (["--prompt-file", "PROMPTS", "--set", "attention.sinks=true"], "cannot run this yet"),
        (["--prompt-file", "PROMPTS", "--k", "9"], "found 9, expected 0 to 5"),
        (["--prompt-file", "PROMPTS", "--max-new-tokens", "0"], "max-new-tokens"),
        (["--prompt-file", "PROMPTS", "--records", "no/such/folder/x"], "existing directory"),
        (["--prompt-file", "PROMPTS", "--records", "PROMPTS"], "found the prompt file"),
        (["--prompt-file", "PROMPTS", "--records", "."], "expected a new or a regular file"),
        (["--prompt-file", "PROMPTS", "--records", "/dev/null"], "expected a new or a regular file"),
        (["--prompt-file", "PROMPTS", "--confidence-threshold", "nan"], "found nan, expected 0 to 1"),
        (["--prompt-file", "PROMPTS", "--threads", "100000"], "threads"),
        (["--prompt-file", "/dev/zero"], "more than"),
        (["--prompt-file", "PROMPTS", "--set", "rope.rotary_dims=3"], "even number up to head_dim 32"),
        (["--prompt-file", "PROMPTS", "--set", "rope.rotary_dims=64"], "even number up to head_dim 32"),
        (["--prompt-file", "PROMPTS", "--set", "block.position_offset=99999999"], "expected -4096 to 4096"),
        (
            [
                "--prompt-file",
                "PROMPTS",
                "--set",
                "rope.scaling=yarn:factor=2:original_max_position_embeddings=64:beta_fast=-1",
            ],
            "found no rotary frequencies",
        ),
    ],
)
def test_bad_arguments_are_one_line_and_exit_2(capsys, pair, prompts, more, message):
    more = [str(prompts) if word == "PROMPTS" else word for word in more]
    code, out, err = call(capsys, pair, *more)
    assert (code, out) == (2, "")
    assert message in err
    assert err.startswith("truedraft: error: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"tokens": []}', "found no tokens"),
        ('{"tokens": [1, 256]}', "found token 256, expected 0 to 255"),
        ('{"tokens": [1, -1]}', "found token -1"),
        ('{"tokens": [true]}', "list of whole numbers"),
        ('{"tokens": "abc"}', "list of whole numbers"),
        ('{"tokens": [1], "text": "x"}', 'either "text" or "tokens"'),
        ("[1, 2]", 'either "text" or "tokens"'),
        ("{", "not JSON"),
        ("", "found no prompt"),
        (json.dumps({"tokens": [1] * 1024}), "found 1024 tokens, expected fewer than the target's 1024"),
        ('{"id": "mine", "tokens": []}', ":1#/tokens: found no tokens"),
    ],
)
def test_bad_prompt_files(capsys, pair, prompts, line, message):
    prompts.write_text(line + "\n")
    code, out, err = call(capsys, pair, "--prompt-file", prompts)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def spoil_tensor(directory, name, change):
    weights = load_file(directory / "model.safetensors")
    change(weights, name)
    save_file(weights, directory / "model.safetensors")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda p: (p / "draft/model.safetensors").unlink(), "expected the drafter's weights"),
        (lambda p: (p / "target/model.safetensors").unlink(), "expected the target's weights"),
        (lambda p: (p / "target/config.json").write_text("{"), "target/config.json"),
        (lambda p: shutil.rmtree(p / "draft"), "no such directory"),
        (
            lambda p: (p / "target/model.safetensors").write_bytes(
                (p / "target/model.safetensors").read_bytes()[:5000]
            ),
            "target",
        ),
        (
            lambda p: (p / "draft/model.safetensors").write_bytes(
                (p / "draft/model.safetensors").read_bytes()[:5000]
            ),
            "draft/model.safetensors",
        ),
        (
            lambda p: spoil_tensor(p / "draft", "norm.weight", lambda w, n: w[n].fill_(float("nan"))),
            "norm.weight: found NaN",
        ),
        (
            lambda p: spoil_tensor(p / "draft", "norm.weight", lambda w, n: w.update({n: torch.ones(5)})),
            "norm.weight",
        ),
        (
            lambda p: spoil_tensor(p / "draft", "norm.weight", lambda w, n: w.pop(n)),
            "norm.weight",
        ),
        (
            lambda p: spoil_tensor(p / "target", "model.norm.weight", lambda w, n: w.pop(n)),
            "model.norm.weight",
        ),
        (
            lambda p: spoil_tensor(
                p / "target", "model.norm.weight", lambda w, n: w.update({n: torch.ones(5)})
            ),
            "model.norm.weight",
        ),
    ],
)
def test_spoilt_files_are_one_line_and_exit_2(capsys, pair, prompts, spoil, message):
    spoil(pair)
    refused(call(capsys, pair, "--prompt-file", prompts, "--max-new-tokens", 4), message)


def edit_config(directory, **changes):
    path = directory / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 1e4,
    "factor": 2.0,
    "short_factor": [1.0] * 16,
    "long_factor": [4.0] * 16,
    "original_max_position_embeddings": 24,
}


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            lambda p: spoil_tensor(p / "target", "model.norm.weight", lambda w, n: w[n].fill_(float("nan"))),
            "target#model.norm.weight: found NaN",
        ),
        (
            lambda p: spoil_tensor(
                p / "target", "model.norm.weight", lambda w, n: w.update({n: w[n].char()})
            ),
            "found dtype I8, expected unquantised weights",
        ),
        (
            lambda p: spoil_tensor(p / "draft", "norm.weight", lambda w, n: w.update({n: w[n].bool()})),
            "found dtype BOOL, expected F32, F16, BF16, F64",
        ),
        (lambda p: edit_config(p / "target", rope_parameters=LONGROPE), "found rope_type 'longrope'"),
        (
            lambda p: edit_config(p / "target", rope_parameters={"rope_type": "default", "rope_theta": -5.0}),
            "found NaN or infinite logits",
        ),
        (lambda p: edit_config(p / "target", num_attention_heads=0), "transformers cannot use it"),
        (lambda p: edit_config(p / "target", hidden_act="foo"), "transformers cannot use it"),
        (
            lambda p: edit_config(p / "target", layer_types=["sliding_attention"] * 6, sliding_window=None),
            "transformers cannot use it",
        ),
    ],
)
def test_targets_that_cannot_be_trusted(capsys, pair, prompts, spoil, message):
    spoil(pair)
    refused(call(capsys, pair, "--prompt-file", prompts, "--max-new-tokens", 4), message)


def test_a_place_that_takes_no_records_is_refused_before_decoding(capsys, pair, prompts, monkeypatch):
    """Some file systems refuse new files although permissions allow them, as /proc does."""

    def full(*_args, **_options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("truedraft.cli._records.tempfile.NamedTemporaryFile", full)
    monkeypatch.setattr("truedraft.cli.run._load", lambda *_: pytest.fail("the pair was loaded"))
    path = pair / "records.jsonl"
    message = f"{path}: No space left on device, expected a writable file"
    refused(call(capsys, pair, "--prompt-file", prompts, "--records", path), message)


def test_records_go_through_a_link_and_leave_other_files_alone(capsys, pair, prompts, tmp_path):
    real, link, other = tmp_path / "real.jsonl", tmp_path / "link.jsonl", tmp_path / "link.jsonl.partial"
    real.write_text("old")
    other.write_text("mine")
    link.symlink_to(real)
    code, _, _ = call(capsys, pair, "--prompt-file", prompts, "--max-new-tokens", 4, "--records", link)
    assert code == 0
    assert link.is_symlink()
    assert len(real.read_text().splitlines()) == 2
    assert other.read_text() == "mine"


def test_a_prompt_file_may_begin_with_a_byte_order_mark(capsys, pair, prompts):
    prompts.write_bytes(b"\xef\xbb\xbf" + prompts.read_bytes())
    assert call(capsys, pair, "--prompt-file", prompts, "--max-new-tokens", 4)[0] == 0


@pytest.mark.parametrize("text", [chr(0xDCFF), chr(0xD800)])
def test_text_that_is_no_unicode(capsys, text):
    code = main(["run", "tiny", "--prompt", text, "--max-new-tokens", "4"])
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert "expected Unicode text" in err


def test_a_prompt_beyond_the_context_is_one_line(capsys):
    code = main(["run", "tiny", "--prompt", "word " * 2000])
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert "expected fewer than the target's 1024 positions" in err
    assert err.count("\n") == 1


def test_a_closed_stdout_is_no_traceback():
    command = f"{sys.executable} -m truedraft contract tiny >&-"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_unsettled_contract_exits_3_and_names_the_override(capsys, pair, prompts):
    config = json.loads((pair / "draft/config.json").read_text())
    del config["dflash_config"]["mask_token_id"]
    (pair / "draft/config.json").write_text(json.dumps(config))
    code, out, err = call(capsys, pair, "--prompt-file", prompts)
    assert (code, out) == (3, "")
    assert "settle with --set block.mask_token_id=VALUE, a whole number >= 0" in err
    assert err.count("\n") == 1
    more = ["--set", "block.mask_token_id=1", "--max-new-tokens", 4]
    assert call(capsys, pair, "--prompt-file", prompts, *more)[0] == 0


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--temperature", "-1"], "temperature"),
        (["--temperature", "nan"], "--temperature: found nan, expected a number >= 0"),
        (["--temperature", "inf"], "--temperature: found inf"),
        (["--temperature", "1", "--top-p", "0"], "--top-p: found 0.0, expected more than 0 and at most 1"),
        (["--temperature", "1", "--top-p", "1.5"], "--top-p: found 1.5"),
        (["--temperature", "1", "--top-p", "nan"], "--top-p: found nan"),
        (["--temperature", "1", "--top-k", "-3"], "top-k"),
        (["--temperature", "1", "--verification", "greedy"], "found greedy, expected standard, block"),
        (["--verification", "block"], "found block, expected greedy at temperature 0"),
        (["--verification", "typical"], "verification"),
        (["--proposal", "sampled"], "--proposal sampled: found a temperature of 0"),
        (["--draft-temperature", "1"], "need --proposal sampled"),
        (["--proposal", "sampled", "--draft-temperature", "inf"], "--draft-temperature: found inf"),
        (["--temperature", "1", "--proposal", "sampled", "--draft-top-p", "2"], "--draft-top-p: found 2.0"),
    ],
)
def test_bad_sampling_options(capsys, pair, prompts, more, message):
    refused(call(capsys, pair, "--prompt-file", prompts, *more), message)


def test_sampled_run_in_json(capsys, pair, prompts):
    """Settings are reported as they took effect: drafts inherit what is not given for them."""
    options = ["--temperature", 0.9, "--top-k", 30, "--proposal", "sampled", "--draft-temperature", 0.5]
    options += ["--verification", "block", "--seed", 5, "--max-new-tokens", 16, "--json"]
    code, out, _ = call(capsys, pair, "--prompt-file", prompts, *options)
    report = json.loads(out)
    assert code == 0
    wanted = {
        "temperature": 0.9,
        "top_k": 30,
        "top_p": 1.0,
        "seed": 5,
        "proposal": "sampled",
        "draft_temperature": 0.5,
        "draft_top_k": 30,
        "draft_top_p": 1.0,
        "verification": "block",
    }
    assert report["deployment"] | wanted == report["deployment"]
    assert report["lossless"]["method"] == "greedy_on_same_prompts"
    again = json.loads(call(capsys, pair, "--prompt-file", prompts, *options)[1])
    assert again["outputs"] == report["outputs"]


def test_sampled_run_in_text(capsys, pair, prompts):
    options = ["--temperature", 1, "--top-p", 0.9, "--verification", "exact-match", "--max-new-tokens", 12]
    code, out, _ = call(capsys, pair, "--prompt-file", prompts, *options)
    assert code == 0
    assert "target temperature 1, top-k off, top-p 0.9; drafts greedy; exact-match verification" in out
    assert "identical to plain sampled decoding with the same seed" in out


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--k", 10**9], "drafts per round: found 1000000000"),
        (["--set", "chain.steps=5000"], "drafts per round: found 5000"),
        (["--set", "embedding.scale=1e300"], "the drafter's logits: found NaN or infinite values"),
        (["--set", "head.source=target"], "head.source=target: found head.vocabulary=640"),
    ],
)
def test_chains_that_cannot_be_run(capsys, more, message):
    refused(bundled(capsys, "tiny/eagle3", "--prompt", "x", "--max-new-tokens", 4, "--quiet", *more), message)


def test_a_reduced_vocabulary_without_its_map_still_decodes(capsys):
    """The wrong reading costs acceptance, not the output, and not a traceback."""
    options = ["--set", "head.vocabulary_map=none", "--temperature", 1, "--proposal", "sampled"]
    code, out, _ = bundled(capsys, "tiny/eagle3", "--prompt", "x", "--max-new-tokens", 6, "--quiet", *options)
    assert code == 0
    assert "1 of 1 outputs identical" in out


def test_sampled_drafts_are_said_at_temperature_0_too(capsys):
    options = ["--proposal", "sampled", "--draft-temperature", 1, "--max-new-tokens", 6, "--quiet"]
    code, out, _ = bundled(capsys, "tiny/eagle3", "--prompt", "x", *options)
    assert code == 0
    assert "drafts temperature 1, top-k off, top-p 1; greedy verification" in out


def test_a_loop_of_links_for_records(capsys, pair, prompts, tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    refused(call(capsys, pair, "--prompt-file", prompts, "--records", tmp_path / "loop"), "loop")


def bundled(capsys, name, *more):
    code = main(["run", name, *map(str, more)])
    out, err = capsys.readouterr()
    return code, out, err


def test_a_bundled_drafter_brings_its_prompts_to_another_copy_of_the_target():
    expected = evaluation_prompts("tiny")
    for target, draft in (("tiny", None), ("copy/of/target", "tiny/dspark"), ("tiny/dflash", "own/drafter")):
        assert gather((), None, target, draft) == expected
    assert gather(("x",), None, "tiny", "tiny/dspark")[0] == [{"id": "prompt0", "text": "x"}]
    with pytest.raises(InputError, match="found no prompt"):
        gather((), None, "copy/of/target", "own/drafter")
