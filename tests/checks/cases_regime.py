"""Cases of TD3xx: target and prompts for which the drafter was trained."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from case import Build, Case, pair
from checkpoints import DEEPSPEC

from truedraft.checks import Subject, Usage
from truedraft.contract import override

Files = Mapping[str, Any]
Change = Mapping[str, Any] | None

WORDS = {text: i for i, text in enumerate(("a", "b", "c", "d"))}
SWITCH = "{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}"
NVFP4 = {"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}}
FP8 = {"quantization_config": {"quant_method": "fp8"}}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512}


def tokenizer(vocabulary: Any, *added: tuple[int, str]) -> dict[str, Any]:
    """A `tokenizer.json` with this vocabulary and these added tokens."""
    tokens = [{"id": id_, "content": text} for id_, text in added]
    return {"model": {"type": "BPE", "vocab": vocabulary}, "added_tokens": tokens}


def put(directory: Path, files: Files) -> None:
    """Write texts as they are, everything else as JSON."""
    for name, content in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")


def beside(target: Files | None = None, draft: Files | None = None, **more: Any) -> Build:
    """A pair with these files in its directories."""

    def build(directory: Path) -> Subject:
        put(directory / "target", target or {})
        put(directory / "draft", draft or {})
        return pair(directory, **more)

    return build


def tokenizers(target: Any, draft: Any) -> Build:
    """A pair with these two `tokenizer.json`."""
    return beside({"tokenizer.json": target}, {"tokenizer.json": draft})


def using(draft: Change = None, target: Change = None, **usage: Any) -> Build:
    """A pair with changed configs that is served in this way."""
    return lambda directory: pair(directory, draft, target, usage=Usage(**usage))


def templates(target: str, draft: str) -> Build:
    """A pair with these chat templates, in two of the places that hold one."""
    return beside({"chat_template.jinja": target}, {"tokenizer_config.json": {"chat_template": draft}})


def trained(axis: str, value: object, **usage: Any) -> Build:
    """A pair whose contract has a value for an axis that no file states."""

    def build(directory: Path) -> Subject:
        subject = pair(directory, usage=Usage(**usage))
        contract = subject.contract
        assert contract is not None
        known = replace(contract, axes={**contract.axes, axis: override(value)})  # type: ignore[arg-type]
        return replace(subject, pair=replace(subject.pair, contract=known))

    return build


def quantised(**config: Any) -> Build:
    """A target with this `quantization_config`."""
    return lambda directory: pair(directory, target={"quantization_config": config})


PLAIN = tokenizer(WORDS)

CASES = [
    Case(
        "TD301",
        tokenizers(PLAIN, tokenizer({"a": 0, "b": 2, "c": 1, "d": 3})),
        tokenizers(PLAIN, PLAIN),
        ("2 of 4", "1: 'c' and 'b'"),
    ),
    Case(
        "TD301",
        tokenizers(tokenizer([["a", -1.0], ["b", -2.0]]), tokenizer([["a", -1.0], ["c", -2.0]])),
        tokenizers(tokenizer([["a", -1.0], ["b", -2.0]]), tokenizer({"a": 0, "b": 1})),
        ("1 of 2",),
        name="unigram",
    ),
    Case(
        "TD301",
        tokenizers(PLAIN, tokenizer(WORDS, (4, "<mask>"))),
        tokenizers(PLAIN, {**PLAIN, "version": "1.0"}),
        ("1 token ids", "'<mask>' of the drafter"),
        severity="note",
        name="added",
    ),
    Case(
        "TD301",
        tokenizers(tokenizer(WORDS, (4, "<|reserved_0|>")), tokenizer(WORDS, (4, "<|MASK|>"))),
        tokenizers(tokenizer(WORDS, (4, "<|x|>")), {**tokenizer(WORDS, (4, "<|x|>")), "version": "1.0"}),
        ("reserved",),
        severity="note",
        name="renamed",
    ),
    Case(
        "TD301",
        beside(
            {"tokenizer.json": PLAIN, "tokenizer_config.json": {"eos_token": "a"}},
            {
                "tokenizer.json": {**PLAIN, "version": "2"},
                "special_tokens_map.json": {"eos_token": {"content": "b"}},
            },
        ),
        beside(
            {"tokenizer.json": PLAIN, "tokenizer_config.json": {"eos_token": "a"}},
            {"tokenizer.json": {**PLAIN, "version": "2"}, "tokenizer_config.json": {"eos_token": "a"}},
        ),
        ("eos_token",),
        severity="note",
        name="special",
    ),
    Case(
        "TD302",
        templates("{{ system }}\n{{ messages }}", "{{ system }}\n<think></think>\n{{ messages }}"),
        templates("{{ system }}\n{{ messages }}", "  {{ system }}\r\n\n{{ messages }}\n"),
        ("line 2", "<think>"),
        severity="warning",
    ),
    Case(
        "TD303",
        using(thinking=True),
        using(thinking=False),
        ("with thinking", "without it"),
        severity="warning",
        name="published",
    ),
    Case(
        "TD303",
        lambda d: pair(d, base=DEEPSPEC, usage=Usage(thinking=True)),
        lambda d: pair(d, base=DEEPSPEC, target={"model_type": "llama"}, usage=Usage(thinking=True)),
        severity="warning",
        name="deepspec",
    ),
    Case(
        "TD303",
        using(target={"model_type": "qwen3_5_text"}, thinking=True),
        using(target={"model_type": "llama"}, thinking=True),
        ("perhaps",),
        severity="note",
        name="later",
    ),
    Case(
        "TD303",
        trained("regime.thinking", True, thinking=False),
        trained("regime.thinking", True, thinking=True),
        ("without thinking", "with it"),
        severity="warning",
        name="stated",
    ),
    Case(
        "TD303",
        beside({"chat_template.jinja": SWITCH}),
        beside({"chat_template.jinja": SWITCH}, usage=Usage(thinking=False)),
        ("--no-thinking",),
        severity="note",
        name="unsaid",
    ),
    Case(
        "TD304",
        trained("regime.context_length", 4096, context=4097),
        trained("regime.context_length", 4096, context=4096),
        ("4097", "4096"),
        severity="warning",
        name="trained",
    ),
    Case(
        "TD304",
        using({"max_position_embeddings": 512}, context=513),
        using({"max_position_embeddings": 512}, context=512),
        ("513", "max_position_embeddings"),
        severity="warning",
        name="positions",
    ),
    Case(
        "TD304",
        using(
            {
                "max_position_embeddings": 512,
                "rope_scaling": YARN,
            },
            context=2049,
        ),
        using(
            {
                "max_position_embeddings": 512,
                "rope_scaling": YARN,
            },
            context=2048,
        ),
        ("2048",),
        severity="warning",
        name="yarn",
    ),
    Case(
        "TD304",
        using({"max_position_embeddings": 512}),
        using({"max_position_embeddings": 1024}),
        ("512", "1024"),
        severity="note",
        name="unsaid",
    ),
    Case(
        "TD304",
        using({"max_position_embeddings": 1 << 18}, context=4097),
        using({"max_position_embeddings": 1 << 18}, context=4096),
        ("published",),
        severity="note",
        name="published",
    ),
    Case(
        "TD305",
        beside({"quant_model_description.json": {"is_rot_used": True, "a.weight": "W8A8"}}),
        beside({"quant_model_description.json": {"is_rot_used": False, "a.weight": "W8A8"}}),
        ("is_rot_used",),
        severity="warning",
    ),
    Case(
        "TD305",
        beside({"optional/quarot.safetensors": ""}),
        beside({"optional/quarot.safetensors": ""}, {"optional/quarot.safetensors": ""}),
        ("quarot.safetensors",),
        severity="warning",
        name="matrix",
    ),
    Case(
        "TD305",
        quantised(quant_method="x", transform_config={"config_groups": {"R1": {}, "R2": {}}}),
        quantised(quant_method="x", transform_config={"config_groups": {"R2": {}, "R4": {}}}),
        ("R1",),
        severity="warning",
        name="R1",
    ),
    Case(
        "TD305",
        quantised(quant_method="x", online_hadamard_rotation=True),
        quantised(quant_method="x", online_hadamard_rotation=False, ignore=["rotary_emb"]),
        ("perhaps",),
        severity="note",
        name="hint",
    ),
    Case(
        "TD306",
        quantised(quant_method="awq", bits=4),
        lambda d: pair(d, {"max_position_embeddings": 1024}),
        ("awq 4",),
        severity="note",
    ),
    Case(
        "TD306",
        beside({"hf_quant_config.json": NVFP4}),
        beside({"hf_quant_config.json": {"quantization": {"quant_algo": None}}}),
        ("NVFP4", "KV cache FP8"),
        severity="note",
        name="modelopt",
    ),
    Case(
        "TD306",
        lambda d: pair(d, target=FP8),
        lambda d: pair(d, target={**FP8, "model_type": "deepseek_v4"}),
        ("fp8",),
        severity="note",
        name="native",
    ),
    Case(
        "TD306",
        lambda d: pair(d, {"base_model": "org/target-FP8"}, {"quantization_config": {"quant_method": "awq"}}),
        lambda d: pair(d, {"base_model": "org/target-FP8"}, FP8),
        ("awq",),
        severity="note",
        name="trained-on-it",
    ),
    Case(
        "TD306",
        beside({"quant_model_description.json": {"a.weight": "W8A8_DYNAMIC", "b.weight": "FLOAT"}}),
        beside({"quant_model_description.json": {"a.weight": "FLOAT"}}),
        ("W8A8_DYNAMIC",),
        severity="note",
        name="modelslim",
    ),
    Case(
        "TD307",
        lambda d: pair(d, {"speculators_config/verifier": {"architectures": ["LlamaForCausalLM"]}}),
        lambda d: pair(
            d,
            {"speculators_config/verifier": {"architectures": ["Qwen3VLForConditionalGeneration"]}},
        ),
        ("LlamaForCausalLM", "Qwen3ForCausalLM"),
        severity="warning",
        name="architecture",
    ),
    Case(
        "TD307",
        lambda d: pair(d, {"num_target_layers": 9}),
        lambda d: pair(d, {"num_target_layers": 8}),
        ("9 layers", "num_target_layers"),
        severity="warning",
        name="layers",
    ),
    Case(
        "TD307",
        lambda d: pair(d, {"speculators_config/verifier/name_or_path": "org/other"}),
        lambda d: pair(d, {"speculators_config/verifier/name_or_path": "../Target/"}),
        ("org/other",),
        severity="note",
        name="name",
    ),
    Case(
        "TD308",
        lambda d: pair(d, {"dtype": "float16"}, {"torch_dtype": "bfloat16"}),
        lambda d: pair(d, {"dtype": "float16"}, {"torch_dtype": "float16"}),
        ("overflow",),
        severity="warning",
    ),
    Case(
        "TD308",
        lambda d: pair(d, {"torch_dtype": "torch.float16"}, {"text_config": {"dtype": "bfloat16"}}),
        lambda d: pair(d, {"torch_dtype": "bfloat16"}, {"text_config": {"dtype": "bfloat16"}}),
        severity="warning",
        name="nested",
    ),
    Case(
        "TD309",
        lambda d: pair(d, {}, {"eos_token_id": [7, 10**6]}),
        lambda d: pair(d, {}, {"eos_token_id": [7]}),
        ("1000000", "no output ends with it"),
        severity="warning",
    ),
]
