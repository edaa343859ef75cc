"""A whole small DeepSeek-V4 checkpoint, target and DSpark stages in one directory, through `run`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from founding_models import _COMMON as COMMON
from founding_models import _DEEPSEEK_V4 as DEEPSEEK_V4
from founding_models import VOCABULARY, text
from founding_pairs import write_prompts, write_target
from reference_deepseek_v4 import draft, random_weights, stream_mean
from safetensors.torch import load_file, save_file

from truedraft import Decoder, load_pair, resolve
from truedraft.cli import main
from truedraft.decode import ScriptedDrafter, feed
from truedraft.models import Pair, StatefulTarget

STAGES, WIDTH = 3, 5
PROMPTS = [text(length, seed=9) for length in (1, 30, 300)]
"""One row; past the window of 16; past 18 windows, 18 blocks of 16 and 75 of 4, and rope's first length."""
COUNT = 16


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One directory: the target as transformers saves it, and stages under their published names."""
    directory = tmp_path_factory.mktemp("v4")
    write_target(directory, "deepseek_v4")
    published: dict[str, Any] = COMMON | DEEPSEEK_V4
    saved = json.loads((directory / "config.json").read_text())
    layers = published["num_hidden_layers"]
    config = published | {
        "architectures": ["DeepseekV4ForCausalLM"],
        "model_type": "deepseek_v4",
        "eos_token_id": saved["eos_token_id"],
        "rms_norm_eps": saved["rms_norm_eps"],
        "scoring_func": "sqrtsoftplus",
        "norm_topk_prob": True,
        "hc_eps": saved["hc_eps"],
        "compress_ratios": [*published["compress_ratios"], *[0] * STAGES],
        "dspark_block_size": WIDTH,
        "dspark_noise_token_id": VOCABULARY - 1,
        "dspark_target_layer_ids": [layers - 3, layers - 2, layers - 1],
        "dspark_markov_rank": 8,
    }
    (directory / "config.json").write_text(json.dumps(config))
    weights = random_weights(config, VOCABULARY, STAGES, 3)
    save_file(load_file(directory / "model.safetensors") | weights, directory / "model.safetensors")
    return directory


@pytest.fixture(scope="module")
def pair(checkpoint: Path) -> Pair:
    return load_pair(resolve(checkpoint))


@pytest.fixture(scope="module")
def plain(pair: Pair) -> list[list[int]]:
    """Plain greedy continuations on the loaded target."""
    return [generation.tokens for generation in Decoder(pair.target).generate(PROMPTS, COUNT)]


def test_run_is_lossless_with_a_full_contract(
    checkpoint: Path, pair: Pair, plain: list[list[int]], tmp_path: Path, capsys: Any
) -> None:
    prompts = write_prompts(tmp_path / "prompts.jsonl", PROMPTS)
    command = ["run", str(checkpoint), "--prompt-file", str(prompts), "--max-new-tokens", str(COUNT)]
    assert main([*command, "--batch-size", "3", "--json", "--quiet"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["lossless"]["identical"], report["lossless"]["of"]) == (3, 3)
    assert isinstance(pair.target, StatefulTarget)
    assert not pair.contract.unsettled
    assert not pair.contract.unread_keys
    layers = pair.contract.target.layers
    assert pair.contract["stages.layers"] == tuple(range(layers, layers + STAGES))
    assert pair.contract["taps.state"] == ("stream_mean",) * 3
    assert [output["tokens"] for output in report["outputs"]] == plain


def test_every_accepted_length_on_the_loaded_target(pair: Pair, plain: list[list[int]]) -> None:
    slots = [*range(WIDTH), None]
    known = [prompt + tokens for prompt, tokens in zip(PROMPTS, plain, strict=True)]
    drafter = ScriptedDrafter(known, WIDTH, VOCABULARY, lambda n: slots[n % len(slots)])
    runs = Decoder(pair.target, drafter).generate(PROMPTS, COUNT)
    assert [generation.tokens for generation in runs] == plain
    assert {count for generation in runs for count in generation.accepted} >= set(range(WIDTH))


def test_first_drafts_are_the_reference_s_on_features_of_transformers(checkpoint: Path, pair: Pair) -> None:
    """The reference, fed with stream means that plain transformers computes, drafts what the pair drafts."""
    from transformers import AutoModelForCausalLM

    config = json.loads((checkpoint / "config.json").read_text())
    model = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32).eval()
    weights = {n: t for n, t in load_file(checkpoint / "model.safetensors").items() if n.startswith("mtp.")}
    embedding = model.get_input_embeddings().weight.detach()
    head = model.get_output_embeddings().weight.detach()
    for prompt in PROMPTS:
        taps, logits = features(model, config["dspark_target_layer_ids"], prompt)
        anchor = int(logits.argmax())
        wanted = draft(config, weights, embedding, head, taps, anchor, len(prompt))
        seen: list[list[int]] = []
        decoder = Decoder(pair.target, Spy(pair.drafter, seen))
        decoder.generate([prompt], WIDTH + 2)
        assert seen[0] == wanted.tokens.tolist()


@pytest.mark.parametrize(("taps", "layers"), [((), (2, 3, 4)), (("taps.layers=1,2,3",), (1, 2, 3))])
def test_taps_are_those_of_the_contract(
    checkpoint: Path, taps: tuple[str, ...], layers: tuple[int, ...]
) -> None:
    """The founding fault by override: the features are exactly those of the layers one early."""
    from transformers import AutoModelForCausalLM

    pair = load_pair(resolve(checkpoint, overrides=taps))
    cache = pair.target.new_cache()
    with torch.inference_mode():
        pieces = list(feed(pair.target, cache, cache.open(), torch.tensor(PROMPTS[1])))
    found = torch.cat([piece[1] for piece in pieces])
    model = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32).eval()
    wanted, _ = features(model, list(layers), PROMPTS[1])
    torch.testing.assert_close(found, wanted, rtol=0, atol=2e-5)
    other, _ = features(model, [layer + 1 if taps else layer - 1 for layer in layers], PROMPTS[1])
    assert (found - other).abs().max() > 0.01


@pytest.mark.parametrize("name", ["mtp.0.main_proj.weight", "mtp.2.ffn.experts.1.w2.weight"])
def test_quantised_stages_are_refused_in_one_line(
    checkpoint: Path, tmp_path: Path, capsys: Any, name: str
) -> None:
    """As published: FP8 stages with `.scale` companions. Contract and checks need no weights."""
    spoilt = str(store(checkpoint, tmp_path / "fp8", name))
    prompts = write_prompts(tmp_path / "prompts.jsonl", PROMPTS[:1])
    assert main(["run", spoilt, "--prompt-file", str(prompts), "--max-new-tokens", "4"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert f"model.safetensors#{name}: found dtype F8_E4M3, expected unquantised weights (BF16, F16 or" in err
    assert "`contract` and `check` read them" in err
    assert main(["contract", spoilt]) == 0
    assert main(["check", spoilt]) == 0


def features(model: Any, layers: list[int], prompt: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Stream means after the layers, concatenated [rows, layers x H], and the last row's logits [V]."""
    streams: dict[int, torch.Tensor] = {}

    def keep(layer: int) -> Any:
        return lambda _module, _inputs, out: streams.__setitem__(layer, out)

    hooks = [model.model.layers[layer].register_forward_hook(keep(layer)) for layer in layers]
    with torch.inference_mode():
        logits = model(torch.tensor([prompt])).logits[0, -1]
    for hook in hooks:
        hook.remove()
    return torch.cat([stream_mean(streams[layer][0]) for layer in layers], dim=-1), logits


def store(checkpoint: Path, directory: Path, name: str) -> Path:
    """A copy of the checkpoint with one matrix in FP8, its scales beside it."""
    shutil.copytree(checkpoint, directory)
    file = directory / "model.safetensors"
    tensors = load_file(file)
    tensors[name] = tensors[name].to(torch.float8_e4m3fn)
    tensors[name.replace("weight", "scale")] = torch.ones(1, 1).to(torch.float8_e8m0fnu)
    save_file(tensors, file)
    return directory


class Spy:
    """A drafter that remembers what it proposed."""

    def __init__(self, drafter: Any, seen: list[list[int]]) -> None:
        self._drafter = drafter
        self._seen = seen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._drafter, name)

    def propose(self, *arguments: Any, **options: Any) -> Any:
        proposal = self._drafter.propose(*arguments, **options)
        self._seen.append([int(token) for token in proposal.tokens[0]])
        return proposal
