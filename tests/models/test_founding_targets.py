"""`truedraft run` on founding pairs, from directories: published configs shrunk in size, random weights."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from founding_models import FAMILIES, VOCABULARY, text
from founding_pairs import (
    MULTIMODAL,
    SMALL,
    published,
    write_draft,
    write_multimodal_target,
    write_prompts,
    write_target,
)
from safetensors.torch import load_file, save_file

from conftest import GOLDENS
from truedraft import Decoder, load_pair, resolve
from truedraft.cli import main
from truedraft.contract import InputError
from truedraft.decode import ScriptedDrafter
from truedraft.models import StatefulTarget
from truedraft.models.load_target import load_target_model

PROMPTS = [text(length, seed=9) for length in (1, 30, 61)]
COUNT = 16


def run(capsys, root: Path, overrides: tuple[str, ...], *more: str) -> dict:
    """The JSON report of `truedraft run` on the pair below `root`."""
    prompts = write_prompts(root / "prompts.jsonl", PROMPTS)
    capsys.readouterr()
    options = [part for override in overrides for part in ("--set", override)]
    command = ["run", str(root / "target"), str(root / "draft"), "--prompt-file", str(prompts)]
    limits = ["--max-new-tokens", str(COUNT), "--batch-size", "3", *more]
    code = main([*command, *limits, "--json", "--quiet", *options])
    out, err = capsys.readouterr()
    assert (code, err) == (0, "")
    return json.loads(out)


def check(capsys, root: Path, overrides: tuple[str, ...] = ()) -> None:
    """Lossless with the random drafter, and with a drafter of every accepted length on the loaded target."""
    report = run(capsys, root, overrides)
    assert report["lossless"] | {"divergences": None} == {
        "method": "greedy_identity",
        "identical": 3,
        "of": 3,
        "ties": 0,
        "divergences": None,
    }
    pair = load_pair(resolve(root / "target", root / "draft", overrides))
    assert not pair.contract.unsettled
    assert isinstance(pair.target, StatefulTarget)
    plain = [output["tokens"] for output in report["outputs"]]  # `run` has compared them with plain decoding
    slots = [0, 1, 2, 3, None]
    known = [prompt + tokens for prompt, tokens in zip(PROMPTS, plain, strict=True)]
    drafter = ScriptedDrafter(known, 4, VOCABULARY, lambda n: slots[n % 5])
    runs = Decoder(pair.target, drafter).generate(PROMPTS, COUNT)
    assert [generation.tokens for generation in runs] == plain
    assert set(runs[0].accepted) >= set(range(5))


QWEN = ("rope.theta=10000000", "backbone.norm_eps=1e-6", "backbone.activation=silu")
"""What z-lab's Qwen3.6 config does not state: as the target has it."""


@pytest.mark.parametrize("family", ["qwen3_5", "qwen3_5_moe"])
def test_qwen_hybrid_with_the_mixed_dflash_drafter(capsys, tmp_path, family):
    """Three recurrent layers before each full one, taps on both kinds; sliding and full draft layers."""
    write_multimodal_target(
        tmp_path / "target",
        family,
        num_hidden_layers=8,
        layer_types=(["linear_attention"] * 3 + ["full_attention"]) * 2,
    )
    config = published(
        "z-lab__Qwen3.6-27B-DFlash",
        SMALL
        | {
            "num_hidden_layers": 3,
            "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
            "sliding_window": 12,
            "dflash_config": {"mask_token_id": VOCABULARY - 1, "target_layer_ids": [1, 2, 3, 5, 6]},
        },
    )
    write_draft(tmp_path / "draft", tmp_path / "target", config, QWEN)
    contract = resolve(tmp_path / "target", tmp_path / "draft", QWEN).contract
    assert contract.target.layer_kinds == (("linear_attention",) * 3 + ("full_attention",)) * 2
    assert contract["attention.window"] == (12, 12, None)
    assert contract["block.width"] == 16
    check(capsys, tmp_path, QWEN)


def test_deepseek_v4_with_a_drafter_beside_it(capsys, tmp_path):
    """No such drafter is published; V4's own lies in its files (`mtp.*`). Taps are means over the streams."""
    means = (*QWEN, "taps.state=stream_mean")
    write_target(tmp_path / "target", "deepseek_v4")
    config = published(
        "z-lab__Qwen3.6-27B-DFlash",
        SMALL
        | {
            "num_hidden_layers": 2,
            "layer_types": ["sliding_attention", "full_attention"],
            "sliding_window": 12,
            "block_size": 6,
            "dflash_config": {"mask_token_id": VOCABULARY - 1, "target_layer_ids": [2, 3, 4]},
        },
    )
    write_draft(tmp_path / "draft", tmp_path / "target", config, means)
    check(capsys, tmp_path, means)
    with pytest.raises(InputError, match=r"taps.state=residual: the target has residual streams"):
        load_pair(resolve(tmp_path / "target", tmp_path / "draft", QWEN))


@pytest.mark.parametrize("state", ["stream_mean", "post_norm", "layer_input"])
def test_packed_targets_give_the_residual_only(state):
    """The target refuses a state that it does not catch; which one it is makes no difference to a drafter."""
    case = GOLDENS / "dflash_trained"
    with pytest.raises(InputError, match=f"taps.state={state}: qwen3 targets cannot give this"):
        load_pair(resolve(case / "target", case / "draft", (f"taps.state={state}",)))


@pytest.mark.parametrize("family", FAMILIES)
def test_loading_a_target_from_disk(tmp_path, family):
    """Same logits as the saved model, whatever names and nesting the file has."""
    text_only = write_target(tmp_path / "text", family)
    saved = {tmp_path / "text": text_only}
    if family in MULTIMODAL:
        saved[tmp_path / "multimodal"] = write_multimodal_target(tmp_path / "multimodal", family)
    if family == "deepseek_v4":  # the stages of a drafter lie in the target's own files
        file = tmp_path / "text" / "model.safetensors"
        stages = {"mtp.0.main_norm.weight": torch.ones(128)}
        save_file(load_file(file) | stages, file, metadata={"format": "pt"})
    tokens = torch.tensor([text(20)])
    for directory, model in saved.items():
        loaded = load_target_model(directory, dtype=torch.float32, device="cpu")
        made = StatefulTarget(loaded, (0,))
        assert made.embedding.shape == made.head.shape == (VOCABULARY, 128)
        with torch.inference_mode():
            wanted = model(input_ids=tokens).logits
            torch.testing.assert_close(loaded(input_ids=tokens).logits, wanted, atol=1e-5, rtol=1e-5)
