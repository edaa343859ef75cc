"""`truedraft probe`: its JSON and exit codes, all ways to call it wrongly, and what `--measured` takes."""

from __future__ import annotations

import errno
import io
import json
import tempfile
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from probe_material import TARGET, copied, probed, prompts, texts
from truedraft.cli import main
from truedraft.formats import locate, resolve
from truedraft.probe.replay import FLOOR, Scores
from truedraft.probe.verdicts import DEAD, idleness

SHORT = ("--max-new-tokens", "14", "--quiet")
NUMBERS = {"type": ["array", "null"], "items": {"type": "number"}, "minItems": 2, "maxItems": 2}
CANDIDATE = {
    "type": "object",
    "required": ["value", "standing", "tau", "interval", "log_prob_difference", "log_prob_interval"],
    "properties": {
        "tau": {"type": ["number", "null"]},
        "interval": NUMBERS,
        "log_prob_difference": {"type": ["number", "null"]},
        "log_prob_interval": NUMBERS,
        "accepted_difference": {"type": ["number", "null"]},
        "accepted_interval": NUMBERS,
    },
}
AXIS = {
    "type": "object",
    "required": ["verdict", "value", "known", "best", "reason", "candidates"],
    "properties": {
        "verdict": {"enum": ["supported", "contradicted", "undecided", "not exercised"]},
        "known": {"type": "boolean"},
        "reason": {"type": "string", "minLength": 5, "pattern": "^[^\n]*$"},
        "candidates": {"type": "array", "items": CANDIDATE, "minItems": 2},
    },
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": [
        "schema",
        "contract_hash",
        "contract",
        "axes",
        "tau",
        "best_tau",
        "prompts",
        "anchors",
        "seconds",
    ],
    "properties": {
        "schema": {"const": 1},
        "contract_hash": {"type": "string", "pattern": "^[0-9a-f]{16}$"},
        "axes": {"type": "object", "additionalProperties": AXIS},
        "prompts": {"type": "integer", "minimum": 1},
        "anchors": {"type": "integer", "minimum": 1},
        "first_draft": {"type": "object", "required": ["mean", "interval"]},
        "idle": {"type": ["string", "null"]},
        "given": {"type": "boolean"},
        "repeated_prompts": {"type": "integer", "minimum": 0},
        "out_of_time": {"type": "boolean"},
    },
}


@pytest.fixture(scope="module")
def prompt_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six prompts of 40 tokens."""
    path = tmp_path_factory.mktemp("prompts") / "prompts.jsonl"
    path.write_text("".join(json.dumps({"tokens": prompt[-72:]}) + "\n" for prompt in prompts()[:6]))
    return path


@pytest.fixture(scope="module")
def text_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten prompts with what the target makes of them."""
    path = tmp_path_factory.mktemp("texts") / "texts.jsonl"
    path.write_text("".join(json.dumps({"tokens": text.tokens[-80:]}) + "\n" for text in texts()[:10]))
    return path


def call(capsys: Any, *arguments: object) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main(["probe", *map(str, arguments)])
    out, err = capsys.readouterr()
    return code, out, err


def asked(capsys: Any, *arguments: object) -> tuple[int, dict[str, Any]]:
    """Exit code and JSON, which is as documented."""
    code, out, err = call(capsys, *arguments, "--json")
    assert err == ""
    report: dict[str, Any] = json.loads(out)
    jsonschema.validate(report, SCHEMA)
    return code, report


def refused(result: tuple[int, str, str], message: str, code: int = 2) -> None:
    """Nothing on stdout, one line on stderr that says `message`."""
    found, out, err = result
    assert message in err
    assert (found, out, err.count("\n")) == (code, "", 1)
    assert "Traceback" not in err


def without_seconds(report: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in report.items() if key != "seconds"}


def test_a_healthy_pair_and_the_memory_bound(capsys: Any, prompt_file: Path) -> None:
    options = ("tiny/dflash", "--prompts", prompt_file, *SHORT, "--axes", "block.first_slot")
    code, report = asked(capsys, *options)
    assert code == 0
    assert set(report["axes"]) == {"block.first_slot"}
    axis = report["axes"]["block.first_slot"]
    assert (axis["verdict"], axis["value"], axis["best"]) == ("supported", "unused", "unused")
    assert [c["value"] for c in axis["candidates"]] == ["unused", "predicts_next"]
    value, other = axis["candidates"]
    assert value["log_prob_difference"] is None
    assert other["log_prob_interval"][0] < other["log_prob_difference"] < other["log_prob_interval"][1] < 0
    assert other["accepted_difference"] == pytest.approx(other["tau"] - value["tau"])
    assert report["contract_hash"] == contract(capsys, "tiny/dflash")["contract_hash"]
    again = asked(capsys, *options, "--memory-mb", 0)
    assert (again[0], without_seconds(again[1])) == (0, without_seconds(report))


def test_a_broken_pair_and_texts_that_are_given(capsys: Any, text_file: Path) -> None:
    broken = ("tiny/dspark", "--set", "block.first_slot=unused", "--axes", "block.first_slot,rope.layout")
    code, report = asked(capsys, *broken, "--prompts", text_file, "--given", "--quiet")
    assert code == 1
    axis = report["axes"]["block.first_slot"]
    assert (axis["verdict"], axis["value"], axis["best"]) == ("contradicted", "unused", "predicts_next")
    assert report["axes"]["rope.layout"]["verdict"] == "supported"
    assert report["seconds"]["generation"] < report["seconds"]["features"]  # nothing was generated
    assert report["longest_context"] <= 80 - 8
    code, out, err = call(capsys, *broken, "--prompts", text_file, "--given", "--table")
    assert (code, err) == (1, "")
    line = next(line for line in out.splitlines() if line.startswith("block.first_slot"))
    assert "contradicted" in line
    assert "predicts_next is better: +" in line
    assert "with block.first_slot=predicts_next" in out
    assert out.count("interleaved") == 2  # the closest rival, and its line in the table


def test_one_prompt_decides_nothing(capsys: Any) -> None:
    arguments = ("tiny/eagle3", "--prompt", "def f(x):\n    return", "--axes", "chain.token", *SHORT)
    code, report = asked(capsys, *arguments)
    assert code == 3
    assert report["axes"]["chain.token"]["verdict"] == "undecided"
    assert "one prompt has no spread" in report["axes"]["chain.token"]["reason"]


def test_without_time_nothing_is_decided(capsys: Any, prompt_file: Path) -> None:
    arguments = ("tiny", "--prompts", prompt_file, "--axes", "block.first_slot", "--budget-s", 0, *SHORT)
    code, out, err = call(capsys, *arguments)
    assert (code, err) == (3, "")
    assert "the time ran out" in out
    assert "--budget-s gives it more" in out


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--max-new-tokens", 1), "found no continuation of more than 7 tokens (longest: 1)"),
        (("--given", "--prompt", "a b"), "found no text of more than 8 tokens (longest: 2), expected longer"),
        (("--prompt", ""), "prompt prompt0: found no tokens, expected at least 1"),
        (("--axes", "taps.layer"), "--axes taps.layer: no such axis; `truedraft contract` lists all axes"),
        (("--axes", "attention.scale"), "--axes attention.scale: nothing to try for this pair"),
        (("--axes", "confidence.bias"), "--axes confidence.bias: no draft depends on it"),
        (("--axes", "regime"), "--axes regime: no draft depends on it"),
        (
            ("--axes", "rope,chain"),
            "--axes chain: nothing to try for this pair: dflash drafters do not have it",
        ),
        (("--axes", ""), "--axes: found no name, expected axes or groups"),
        (("--axes", " ,"), "--axes: found no name"),
        (("--try", "chain.token=same"), "--try chain.token: nothing to try for this pair: dflash drafters"),
        (("--try", "confidence.bias=true"), "--try confidence.bias: no draft depends on it"),
        (("--try", "rope.theta=7", "--axes", "block"), "--try rope.theta: not among the axes of --axes"),
        (("--try", "head.multiplier=1"), "--try head.multiplier: found the value that the contract has"),
        (("--set", "head.vocabulary=5"), "error: head.source=target: found head.vocabulary=5, expected"),
        (("--k", 3), "--k 3: a dflash drafter makes its whole block, expected no --k"),
        (("--try", "taps.layers"), "--try taps.layers: expected AXIS=VALUE"),
        (("--try", "taps=1"), "--try taps=1: expected AXIS=VALUE"),
        (("--try", "rope.theta=-3"), "--try rope.theta: found '-3', expected a positive number"),
        (("--try", "attention.window=1,2"), "found 2 entries, expected 1 or 3 (one per layer)"),
        (("--set", "rope.theta=x"), "rope.theta: found 'x', expected a positive number"),
        (("--budget-s", -1), "--budget-s"),
        (("--budget-s", "nan"), "--budget-s"),
        (("--memory-mb", -1), "--memory-mb"),
        (("--seed", "x"), "--seed"),
        (("--prompts", "absent.jsonl"), "absent.jsonl: No such file or directory, expected a prompt file"),
    ],
)
def test_bad_arguments(capsys: Any, more: tuple[object, ...], message: str) -> None:
    given = () if "--prompt" in more else ("--prompt", "def f(x):", "--prompt", "class A:")
    defaults = () if "--max-new-tokens" in more else SHORT
    refused(call(capsys, "tiny", *given, *defaults, *more), message)


def test_bad_files(capsys: Any, tmp_path: Path) -> None:
    draft = copied("dflash", tmp_path / "draft")
    options = ("--axes", "block.first_slot", *SHORT)
    refused(call(capsys, TARGET, draft, *options), "found no prompt, expected --prompt TEXT or --prompt-file")
    (tmp_path / "empty.jsonl").write_text("\n")
    refused(call(capsys, TARGET, draft, "--prompts", tmp_path / "empty.jsonl", *options), "found no prompt")
    (draft / "model.safetensors").unlink()
    missing = call(capsys, TARGET, draft, "--prompt", "x", *options)
    refused(missing, "found no safetensors, expected the drafter's weights")
    bare = tmp_path / "target"
    bare.mkdir()
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        (bare / name).write_bytes((TARGET / name).read_bytes())
    whole = locate("tiny/dflash")[1]
    refused(call(capsys, bare, whole, "--prompt", "x", *options), "safetensors")
    refused(call(capsys, tmp_path / "nowhere", whole, "--prompt", "x", *options), "nowhere")


def test_an_open_axis_without_anything_to_try(capsys: Any, tmp_path: Path) -> None:
    draft = copied(
        "dflash", tmp_path / "draft", lambda config: config["dflash_config"].pop("target_layer_ids")
    )
    result = call(capsys, TARGET, draft, "--prompt", "x", *SHORT)
    refused(result, "taps.layers is unknown and there is nothing to try", code=3)
    assert "--try taps.layers=VALUE" in result[2]


# ------------------------------------------------------------------------------------ open axes, `--measured`


def contract(capsys: Any, *arguments: object) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["contract", *map(str, arguments), "--json"]) == 0
    out: dict[str, Any] = json.loads(capsys.readouterr().out)
    return out


def sourced(capsys: Any, draft: Path, file: Path, axis: str) -> dict[str, Any]:
    """The axis of the contract that the report in `file` completes; nothing is open any more."""
    found = contract(capsys, TARGET, draft, "--measured", file)
    assert found["conflicts"] == []
    entry: dict[str, Any] = found["axes"][axis]
    return entry


def run(capsys: Any, draft: Path, *more: object) -> tuple[int, str, str]:
    capsys.readouterr()
    arguments = ("--prompt", "def f(x):", "--max-new-tokens", 12, "--quiet", "--json")
    code = main(["run", str(TARGET), str(draft), *map(str, (*arguments, *more))])
    out, err = capsys.readouterr()
    return code, out, err


OPEN = {
    "eagle3": (
        "chain.norm_before_residual",
        lambda config: config.pop("norm_before_residual"),
        lambda best: best is True,
    ),
    "dflash-full": (
        "rope.theta",
        lambda config: config.pop("rope_theta"),
        lambda best: best == [10000.0, 10000.0],
    ),
    "dflash": (  # use_sliding_window beside sliding layers: two claims
        "attention.window",
        lambda config: config.update(use_sliding_window=False),
        lambda best: best == [32, None, 32],
    ),
}


@pytest.mark.parametrize("name", OPEN)
def test_an_open_axis_is_measured_and_the_contract_takes_it(capsys: Any, tmp_path: Path, name: str) -> None:
    axis, change, is_right = OPEN[name]
    draft = copied(name, tmp_path / "draft", change)
    assert run(capsys, draft)[0] == 3
    report = probed(draft, axes=(axis,), count=14)
    verdict = next(v for v in report.axes if v.axis == axis)
    file = tmp_path / "report.json"
    file.write_text(json.dumps(report.to_json()))
    found = report.to_json()["axes"][axis]
    if name == "dflash":  # a conflict is kept as its first claim, but is no more known for it
        assert axis in [conflict["axis"] for conflict in contract(capsys, TARGET, draft)["conflicts"]]
    assert (found["known"], found["value"], report.tau) == (False, None, None)
    assert is_right(found["best"]), found
    assert verdict.verdict == "supported", verdict.reason
    entry = sourced(capsys, draft, file, axis)
    assert (entry["state"], entry["value"]) == ("value", found["best"])
    assert entry["source"]["kind"] == "measured"
    assert entry["source"]["where"].startswith("report.json: ")
    code, out, err = run(capsys, draft, "--measured", file)
    assert (code, err) == (0, "")
    assert json.loads(out)["lossless"]["identical"] == 1


def test_an_open_axis_that_stays_undecided_is_not_taken(capsys: Any, tmp_path: Path) -> None:
    """Whether sliding layers are causal costs this pair too little for so few texts."""
    axis, few = "attention.causal", 6
    draft = copied("dflash-speculators", tmp_path / "draft", lambda c: c.pop("sliding_window_non_causal"))
    report = probed(draft, axes=(axis,), count=few)
    found = report.to_json()["axes"][axis]
    assert (found["verdict"], found["known"]) == ("undecided", False)
    file = tmp_path / "report.json"
    file.write_text(json.dumps(report.to_json()))
    assert sourced(capsys, draft, file, axis)["state"] == "unknown"
    code, out, err = run(capsys, draft, "--measured", file)
    assert (code, out, err.count("\n")) == (3, "", 1)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A drafter that leaves an axis open, and a report of it, made by hand."""
    draft = copied("eagle3", tmp_path_factory.mktemp("open") / "draft", OPEN["eagle3"][1])
    entry = {"verdict": "supported", "value": None, "best": True, "reason": "because", "candidates": []}
    axes = {"chain.norm_before_residual": entry}
    return draft, {"schema": 1, "contract_hash": resolve(TARGET, draft).contract.hash, "axes": axes}


def test_what_is_undecided_or_known_already_is_not_taken(
    capsys: Any, tmp_path: Path, measured: tuple[Path, dict[str, Any]]
) -> None:
    draft, report = measured
    file = tmp_path / "report.json"
    own = report["axes"]["chain.norm_before_residual"]
    for verdict in ("undecided", "not exercised"):
        axes = {"chain.norm_before_residual": {**own, "verdict": verdict}}
        file.write_text(json.dumps({**report, "axes": axes}))
        found = contract(capsys, TARGET, draft, "--measured", file)
        assert found["axes"]["chain.norm_before_residual"]["state"] == "unknown"
    # support adds nothing to a file that states the value; a contradiction replaces it
    for verdict, kind in (("supported", "stated"), ("contradicted", "measured")):
        taps = {**own, "verdict": verdict, "best": [1, 4, 7]}
        file.write_text(json.dumps({**report, "axes": {"taps.layers": taps}}))
        found = contract(capsys, TARGET, draft, "--measured", file)
        assert found["axes"]["taps.layers"]["source"]["kind"] == kind


WRONG_COUNT = {"verdict": "contradicted", "best": [1e6, 1e6, 1e6]}
"""Three entries for one layer."""


def spoilt(report: dict[str, Any], **changes: Any) -> str:
    axes = {"chain.norm_before_residual": {**report["axes"]["chain.norm_before_residual"], **changes}}
    return json.dumps({**report, "axes": axes})


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            lambda r: json.dumps({**r, "contract_hash": "0" * 16}),
            "contract_hash: found '0000000000000000', expected",
        ),
        (lambda r: json.dumps({"schema": 1, "axes": r["axes"]}), "contract_hash: found None, expected"),
        (lambda r: json.dumps({"axes": r["axes"]}), "report.json#/schema: found None, expected 1"),
        (lambda r: json.dumps({**r, "schema": 2}), "report.json#/schema: found 2, expected 1"),
        (lambda r: json.dumps({**r, "schema": True}), "report.json#/schema: found True, expected 1"),
        (lambda r: json.dumps({"schema": 1, "probe": r}), "report.json: found a report of doctor"),
        (
            lambda r: spoilt(r, verdict="bogus"),
            "norm_before_residual/verdict: found 'bogus', expected one of",
        ),
        (lambda r: spoilt(r, verdict=["supported"]), "norm_before_residual/verdict: found ['supported']"),
        (lambda r: json.dumps({**r, "axes": []}), "#/axes: expected the object of `truedraft probe --json`"),
        (
            lambda r: json.dumps({**r, "axes": {"foo.bar": {}}}),
            "#/axes/foo.bar: expected the result of an axis",
        ),
        (lambda r: json.dumps({**r, "axes": {"rope.theta": 3}}), "#/axes/rope.theta: expected the result of"),
        (lambda r: spoilt(r, best="yes"), "norm_before_residual/best: found 'yes', expected true or false"),
        (lambda r: spoilt(r, best=None), "norm_before_residual/best: found None, expected true or false"),
        (lambda r: spoilt(r, best=[True]), "norm_before_residual/best: "),
        (lambda r: spoilt(r, best={"a": {"b": 1}}), "norm_before_residual/best: "),
        (lambda r: json.dumps({**r, "axes": {"rope.theta": WRONG_COUNT}}), "#/axes/rope.theta"),
        (lambda r: json.dumps(r)[:-9], "report.json"),
        (lambda r: "[]", "report.json"),
        (lambda r: "", "report.json"),
    ],
)
@pytest.mark.parametrize("command", ["contract", "run"])
def test_reports_that_are_no_such(
    capsys: Any, tmp_path: Path, measured: tuple[Path, dict[str, Any]], command: str, spoil: Any, message: str
) -> None:
    draft, report = measured
    file = tmp_path / "report.json"
    file.write_text(spoil(report))
    capsys.readouterr()
    more = ["--prompt", "x"] if command == "run" else []
    code = main([command, str(TARGET), str(draft), "--measured", str(file), *more])
    refused((code, *capsys.readouterr()), message)


def report_of(file: Path, *overrides: str, pair: str = "tiny", **axes: Any) -> Path:
    """A report of the probe, made by hand; `axes`: verdict and best value."""
    contract = resolve(pair, None, overrides).contract
    results = {name.replace("__", "."): {"verdict": v, "best": best} for name, (v, best) in axes.items()}
    report = {"schema": 1, "contract_hash": contract.hash, "contract": contract.to_json(), "axes": results}
    file.write_text(json.dumps(report))
    return file


WRONG_TAPS = ("taps.layers=1,4,7",)


def test_further_overrides_lie_on_top_of_what_was_measured(capsys: Any, tmp_path: Path) -> None:
    file = report_of(tmp_path / "report.json", taps__layers=("contradicted", [1, 4, 7]))
    for override, theta in (("rope.theta=1e6", 1e6), ("block.width=6", 1e4)):
        found = contract(capsys, "tiny", "--measured", file, "--set", override)["axes"]
        assert found["taps.layers"]["value"] == [1, 4, 7]
        assert found["rope.theta"]["value"] == [theta] * 3
    found = contract(capsys, "tiny", "--measured", file, "--set", "taps.layers=0,1,2")["axes"]
    assert found["taps.layers"]["value"] == [0, 1, 2]


def test_an_override_of_the_probe_must_hold_or_be_replaced(capsys: Any, tmp_path: Path) -> None:
    file = report_of(tmp_path / "report.json", *WRONG_TAPS, rope__theta=("contradicted", [5.0] * 3))
    refused(
        call_contract(capsys, "tiny", "--measured", file),
        "report.json#/contract/axes/taps.layers: the probe ran with --set taps.layers=1,4,7, which is not",
    )
    found = contract(capsys, "tiny", "--measured", file, "--set", "taps.layers=1,4,7")["axes"]
    assert found["rope.theta"]["value"] == [5.0] * 3
    # what the probe itself took back need not be given; its neighbour, which it moved, goes with it
    slot = report_of(
        tmp_path / "s.json", "block.first_slot=predicts_next", block__first_slot=("contradicted", "unused")
    )
    found = contract(capsys, "tiny", "--measured", slot)["axes"]
    assert (found["block.first_slot"]["value"], found["block.width"]["value"]) == ("unused", 8)


def test_a_report_of_another_pair_is_told_from_other_overrides(capsys: Any, tmp_path: Path) -> None:
    file = report_of(tmp_path / "report.json")
    other = call_contract(capsys, "tiny/dflash-full", "--measured", file)
    refused(other, "report.json#/contract/axes/taps.layers: found 0,3,6, expected 1,4,6 as in this pair")
    family = call_contract(capsys, "tiny/dspark", "--measured", file)
    refused(family, "report.json#/contract/family: found 'dflash', expected dspark, this pair's")
    report = json.loads(file.read_text())
    del report["contract"]["axes"]["rope.theta"]
    file.write_text(json.dumps({**report, "contract_hash": "0"}))
    refused(call_contract(capsys, "tiny", "--measured", file), "#/contract/axes/rope.theta: expected an axis")


def call_contract(capsys: Any, *arguments: object) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main(["contract", *map(str, arguments)])
    out, err = capsys.readouterr()
    return code, out, err


def test_a_report_may_be_a_link_or_a_pipe(capsys: Any, tmp_path: Path) -> None:
    file = report_of(tmp_path / "report.json", rope__theta=("contradicted", [5.0] * 3))
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "link.json"
    link.symlink_to(file)
    assert contract(capsys, "tiny", "--measured", link)["axes"]["rope.theta"]["value"] == [5.0] * 3
    for path, message in ((tmp_path, "Is a directory, expected a report"), ("/dev/null", "not JSON")):
        refused(call_contract(capsys, "tiny", "--measured", path), message)
    with Path("/dev/zero").open("rb"):
        refused(call_contract(capsys, "tiny", "--measured", "/dev/zero"), "found more than")


# ------------------------------------------------------------------------------------ what spoils a probe


def test_taps_that_do_not_exist_are_impossible(capsys: Any, prompt_file: Path) -> None:
    options = ("--axes", "taps.layers", "--try", "taps.layers=99,100,101", "--prompts", prompt_file, *SHORT)
    _, report = asked(capsys, "tiny", *options)
    last = report["axes"]["taps.layers"]["candidates"][-1]
    assert (last["value"], last["standing"]) == ([99, 100, 101], "impossible")
    assert "a tap beyond the target, found 99" in last["why"]


def test_weights_that_are_not_finite(capsys: Any, tmp_path: Path, prompt_file: Path) -> None:
    """Bad input whether or not an axis is open: no other value would mend it."""
    for name, change in (("settled", lambda config: None), ("open", OPEN["dflash-full"][1])):
        draft = copied("dflash-full", tmp_path / name, change)
        file = draft / "model.safetensors"
        weights = load_file(file)
        weights["fc.weight"][0, 0] = float("nan")
        save_file(weights, file)
        result = call(capsys, TARGET, draft, "--prompts", prompt_file, *SHORT)
        refused(result, "model.safetensors#fc.weight: found NaN or infinite values, expected finite weights")
        assert "no combination" not in result[2]


def test_no_room_for_features(capsys: Any, prompt_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.BytesIO):
        def write(self, _data: Any) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    options = ("tiny", "--prompts", prompt_file, "--axes", "block.first_slot", "--memory-mb", 0, *SHORT)
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda prefix: Full())
    refused(call(capsys, *options), "No space left on device, expected room for")

    def nowhere(prefix: str) -> Any:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/x']")

    monkeypatch.setattr(tempfile, "TemporaryFile", nowhere)
    refused(call(capsys, *options), "TMPDIR: No usable temporary directory found")


def test_what_a_reader_is_told_of_the_texts(capsys: Any, text_file: Path, tmp_path: Path) -> None:
    same = tmp_path / "same.jsonl"
    same.write_text(text_file.read_text().splitlines(keepends=True)[0] * 5)
    code, out, _ = call(capsys, "tiny", "--prompts", same, "--axes", "block.first_slot", *SHORT)
    assert code == 3
    assert "one prompt has no spread to judge by: give at least 2, better 8, that differ" in out
    assert "4 prompts are the same as others and were left out" in out
    code, out, _ = call(capsys, "tiny", "--prompts", text_file, "--given", "--axes", "block.first_slot")
    assert (code, "of the tokens in the given texts: what the target would accept is not known" in out) == (
        0,
        True,
    )
    assert "target: 0 tokens generated" in out


def test_too_few_anchors_are_not_called_an_untrained_drafter() -> None:
    def scores(*shares: float) -> list[Scores]:
        return [
            Scores(
                np.arange(10)[:, None] < 10 * share,
                np.linspace(-9, -1, 70, dtype=np.float32).reshape(10, 1, 7),
            )
            for share in shares
        ]

    few = idleness(scores(0.0, 0.0, 1.0))
    assert few.startswith("30 anchors in 3 prompts are too few to see that the drafter works at all (33%")
    assert "untrained" in idleness(scores(0.0, 0.0, 0.1))
    assert idleness(scores(0.5, 0.6, 0.7)) == ""
    dead = [Scores(s.hits, np.full_like(s.log_q, FLOOR)) for s in scores(0.5, 0.6)]
    assert idleness(dead) == DEAD
