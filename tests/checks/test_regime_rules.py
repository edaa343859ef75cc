"""Rules about the regime: what must stay quiet, and files that nobody vouches for."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from case import found, pair
from cases_regime import beside, put, tokenizer, tokenizers
from checkpoints import CONFIGS, TARGET, refused_in_one_line, write
from targets import PAIRS, TARGETS

from truedraft.checks import Subject, Usage, all_rules, run_checks
from truedraft.formats import Checkpoint, bundled_pairs, inspect, locate
from truedraft.formats import tokenizer_files as files
from truedraft.formats.regime_keys import longest_position, same_family, stored_dtype, target_names

CODES = [rule.code for rule in all_rules() if rule.code.startswith("TD3")]
TINY = [path.parent.name for path in sorted(Path(str(locate("tiny")[0])).parent.glob("*/config.json"))]


def checkpoint(directory: Path, config: Any = None, **more: Any) -> Checkpoint:
    put(directory, more)
    return Checkpoint("draft", directory, config or {}, {})


def loud(subject: Subject) -> list[str]:
    """Findings that a user sees without asking for notes."""
    return [f"{f.code} {f.message}" for f in run_checks(subject, select=["TD3"]).findings]


@pytest.mark.parametrize("name", [name for name in TINY if name != "target"])
def test_bundled_pairs_are_quiet(name: str) -> None:
    assert "tiny" in bundled_pairs()
    subject = Subject(inspect(f"tiny/{name}"))
    report = run_checks(subject, select=["TD3"], pedantic=True)
    assert [f"{f.code} {f.message}" for f in report.findings] == []
    assert loud(replace(subject, usage=Usage(7, thinking=False, context=1024, temperature=1.0))) == []


def test_seven_bundled_pairs_were_seen() -> None:
    assert len(TINY) == 8


@pytest.mark.parametrize("name", PAIRS)
def test_published_configs_are_quiet(name: str, tmp_path: Path) -> None:
    target = write(tmp_path / PAIRS[name], TARGETS[PAIRS[name]])
    draft = write(tmp_path / "draft", (CONFIGS / f"{name}.json").read_text())
    subject = Subject(inspect(target, draft))
    assert loud(subject) == []
    assert loud(replace(subject, usage=Usage(thinking=False, context=32768))) == []


def test_a_drafter_inside_the_target_is_quiet(tmp_path: Path) -> None:
    config = json.loads((CONFIGS / "deepseek-ai__DeepSeek-V4-Flash-DSpark.partial.json").read_text())
    directory = write(tmp_path / "both", config)
    put(directory, {"tokenizer.json": "{", "quant_model_description.json": {"is_rot_used": True}})
    assert loud(Subject(inspect(directory))) == []


def test_rules_say_nothing_of_refused_pairs_but_what_files_show(tmp_path: Path) -> None:
    subject = pair(tmp_path, {"architectures": ["Nobody"]}, base={"num_target_layers": 9})
    assert subject.contract is None
    assert [f.code for f in run_checks(subject, select=["TD3"], pedantic=True).findings] == ["TD307"]


def test_equal_tokenizers_are_not_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "load_object", lambda *_, **__: pytest.fail("parsed"))
    content = json.dumps(tokenizer({"a": 0})) + " " * 1000
    assert found(tokenizers(content, content)(tmp_path), "TD301") == []


def test_large_tokenizers_are_compared_in_seconds(tmp_path: Path) -> None:
    ours = {f"token{i}": i for i in range(100_000)}
    theirs = {f"token{i}" if i != 77 else "x": i for i in range(100_000)}
    (finding,) = found(tokenizers(tokenizer(ours), tokenizer(theirs))(tmp_path), "TD301")
    assert "1 of 100000" in finding.message
    assert "77" in str(finding.found)


@pytest.mark.parametrize("name", [f.name for f in (Path(str(locate("tiny")[0]))).glob("tokenizer*.json")])
def test_a_copied_tokenizer_is_quiet_and_a_shifted_one_is_not(name: str, tmp_path: Path) -> None:
    target, draft = (Path(str(path)) for path in locate("tiny/dflash"))
    copy = shutil.copytree(draft, tmp_path / "draft")
    shutil.copy(target / name, copy)
    assert found(Subject(inspect("tiny", str(copy))), "TD301") == []
    if name == "tokenizer.json":
        content = json.loads((target / name).read_text())
        content["model"]["vocab"] = {text: (i + 1) % 1024 for text, i in content["model"]["vocab"].items()}
        put(copy, {name: content})
        finding = found(Subject(inspect("tiny", str(copy))), "TD301")[0]
        assert (finding.severity, finding.where) == ("error", "draft/tokenizer.json")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not JSON"),
        ("[]", "expected a JSON object"),
        ("{}", "expected an object or a list"),
        ('{"model": {"vocab": {"a": -1}}}', "expected ids >= 0"),
        ('{"model": {"vocab": {"a": true}}}', "expected ids >= 0"),
        ('{"model": {"vocab": {"a": 0, "a": 1}}}', "twice"),
        ('{"model": {"vocab": [[1, 2]]}}', "expected ids >= 0"),
        ('{"model": {"vocab": {"a": 0}}, "added_tokens": {}}', ""),
        ('{"model": {"vocab": {"a": 0}}, "added_tokens": 7}', "expected a list"),
        ('{"model": {"vocab": {"a": 0}}, "added_tokens": [{"id": "1"}]}', "added_tokens/0"),
        ('{"model": {"vocab": {"a": 0}}, "added_tokens": [{"id": 1}]}', "added_tokens/0"),
    ],
)
def test_broken_tokenizers_are_one_line(content: str, message: str, tmp_path: Path) -> None:
    subject = tokenizers(tokenizer({"a": 0}), content)(tmp_path)
    if message:
        refused_in_one_line(lambda: found(subject, "TD301"), message)
    else:
        assert found(subject, "TD301") == []


def test_a_huge_tokenizer_is_not_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "PARSED_BYTES", 100)
    subject = tokenizers(tokenizer({"a": 0}), tokenizer({str(i): i for i in range(100)}))(tmp_path)
    (finding,) = found(subject, "TD301")
    assert (finding.severity, finding.where) == ("note", "draft/tokenizer.json")
    assert "too large to be compared" in finding.message


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("quant_model_description.json", "{", "TD305"),
        ("quant_model_description.json", "[]", "TD306"),
        ("hf_quant_config.json", "nothing", "TD306"),
        ("tokenizer_config.json", "[", "TD303"),
    ],
)
def test_broken_side_files_are_one_line(name: str, content: str, code: str, tmp_path: Path) -> None:
    subject = beside({name: content})(tmp_path)
    refused_in_one_line(lambda: found(subject, code), name)


def test_a_template_that_is_no_text_is_one_line(tmp_path: Path) -> None:
    subject = pair(tmp_path)
    (tmp_path / "target" / "chat_template.jinja").write_bytes(b"\xff")
    refused_in_one_line(lambda: found(subject, "TD303"), "not UTF-8")


@pytest.mark.parametrize(
    "config",
    [
        {"quantization_config": "none"},
        {"quantization_config": []},
        {"quantization_config": {}},
        {"quantization_config": {"transform_config": 3, "kv_cache_scheme": None}},
        {"quantization_config": {"quant_method": {"a": 1}, "bits": [4]}},
        {"text_config": {"quantization_config": 7, "dtype": 8}, "compression_config": None},
        {"dtype": ["float16"], "torch_dtype": None},
    ],
)
def test_odd_keys_of_the_target_break_no_rule(config: dict[str, Any], tmp_path: Path) -> None:
    run_checks(pair(tmp_path, {"dtype": "float16"}, config), select=["TD3"], pedantic=True)


@pytest.mark.parametrize(
    "config",
    [
        {"speculators_config": 7},
        {"speculators_config": {"verifier": None}},
        {"speculators_config/verifier": {"architectures": "A", "name_or_path": 3}},
        {"speculators_config/verifier": {"architectures": [1], "name_or_path": "/"}},
        {"base_model": ["a"], "transformer_layer_config": {"max_position_embeddings": "many"}},
        {"max_position_embeddings": True},
        {"max_position_embeddings": 0},
    ],
)
def test_odd_keys_of_the_drafter_break_no_rule(config: dict[str, Any], tmp_path: Path) -> None:
    run_checks(pair(tmp_path, config), select=["TD3"], pedantic=True)


def test_templates_are_found_where_transformers_finds_them(tmp_path: Path) -> None:
    named = {"chat_template": [{"name": "tool", "template": "T"}, {"name": "default", "template": "D"}]}
    assert files.chat_template(checkpoint(tmp_path / "none")) is None
    for order, content in enumerate((named, {"chat_template": "J"})):
        name = ("tokenizer_config.json", "chat_template.json")[order]
        template = files.chat_template(checkpoint(tmp_path, **{name: content}))
        assert template is not None
        assert (template.text, template.where) == ("DJ"[order], f"draft/{name}#/chat_template")
    template = files.chat_template(checkpoint(tmp_path, **{"chat_template.jinja": "F"}))
    assert template == files.ChatTemplate("F", "draft/chat_template.jinja")


@pytest.mark.parametrize(
    ("text", "switch"),
    [
        ("{% if enable_thinking %}", True),
        ("{% if thinking is not defined %}", True),
        ("<think>{{ content }}</think>", False),
        ("", False),
    ],
)
def test_thinking_switch(text: str, switch: bool) -> None:
    assert files.ChatTemplate(text, "").thinking_switch is switch


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("Qwen3_5MoeForCausalLM", "Qwen3_5MoeForConditionalGeneration", True),
        ("Qwen3VLMoeForConditionalGeneration", "Qwen3MoeForCausalLM", False),
        ("Qwen3VLForConditionalGeneration", "Qwen3ForCausalLM", True),
        ("Gemma4TextForCausalLM", "Gemma4ForConditionalGeneration", True),
        ("Qwen3ForCausalLM", "Qwen3MoeForCausalLM", False),
        ("LlamaForCausalLM", "Llama4ForCausalLM", False),
    ],
)
def test_same_family(first: str, second: str, same: bool) -> None:
    assert same_family(first, second) is same


def test_a_hub_cache_still_has_the_name_of_the_target(tmp_path: Path) -> None:
    directory = write(tmp_path / "models--Qwen--Qwen3-8B" / "snapshots" / "0123abc", TARGET)
    base = {"speculators_config": {"verifier": {"name_or_path": "Qwen/Qwen3-8B"}}}
    for name, notes in (("Qwen/Qwen3-8B", 0), ("Qwen/Qwen3-4B", 1)):
        base["speculators_config"]["verifier"]["name_or_path"] = name
        draft = write(tmp_path / "draft", base)
        assert len(found(Subject(inspect(directory, draft)), "TD307")) == notes


def test_the_dtype_of_tensors_precedes_that_of_the_config(tmp_path: Path) -> None:
    tensors = {"a.weight": (2, 2), "b.weight": (2, 2)}
    subject = pair(tmp_path, {"dtype": "float16"}, {"dtype": "bfloat16"}, tensors=tensors)
    claim = stored_dtype(subject.pair.draft)
    assert claim is not None
    assert claim.value == "float32"
    assert found(subject, "TD308") == []


def test_nested_positions_and_names(tmp_path: Path) -> None:
    config = {"transformer_layer_config": {"max_position_embeddings": 7}, "base_model": "b"}
    claim = longest_position(checkpoint(tmp_path, config))
    assert claim is not None
    assert claim.value == 7
    assert claim.where == "draft/config.json#/transformer_layer_config/max_position_embeddings"
    assert [name.value for name in target_names(checkpoint(tmp_path, config))] == ["b"]
