"""DSpark inside DeepSeek-V4 against an independent reference (`reference_deepseek_v4`): rounds and caches.

Checkpoints are small and random, but have every tensor of a published one under its published name. The
product reads them from disk by contract. Axis by axis: `test_deepseek_v4_axes`.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import torch
from checkpoints import CONFIGS
from reference_deepseek_v4 import (
    drafter_shapes,
    inverse_frequencies,
    random_weights,
    stage_as_decoder_layer,
    transformers_layer_output,
)
from safetensors.torch import load_file, save_file
from stage_pairs import (
    CONFIG,
    EMBEDDING,
    HEAD,
    TAPS,
    TOKENS,
    WINDOW,
    Staged,
    close,
    drafted,
    product,
    same,
    turn,
    write_stages,
)

from truedraft import resolve
from truedraft.contract import InputError
from truedraft.decode import Decoder, Sampling, Seeded
from truedraft.formats import expected
from truedraft.models import HFTarget
from truedraft.models.load import load_tensors, make_drafter

YARN = "yarn:factor=16:original_max_position_embeddings=64:beta_fast=32:beta_slow=1"


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> Staged:
    return write_stages(tmp_path_factory.mktemp("staged"))


@pytest.mark.parametrize(
    "variant", [{}, {"hc_mult": 2, "o_groups": 2}, {"swiglu_limit": 10.0, "hc_eps": 1e-2}]
)
def test_reference_equals_the_layer_of_transformers(variant: dict[str, Any]) -> None:
    """A stage taken for a sliding layer of the target; nothing of truedraft takes part."""
    config = {**CONFIG, **variant}
    weights = random_weights(config, CONFIG["vocab_size"], 2, seed=1)
    streams = torch.randn(
        14, config["hc_mult"], CONFIG["hidden_size"], generator=torch.Generator().manual_seed(2)
    )
    for stage in (0, 1):
        own = stage_as_decoder_layer(config, weights, stage, streams)
        close(own, transformers_layer_output(config, weights, stage, streams))


@pytest.mark.parametrize("name", ["Flash", "Pro"])
def test_published_stages_have_the_tensors_that_the_reference_names(name: str, tmp_path: Any) -> None:
    config = json.loads((CONFIGS / f"deepseek-ai__DeepSeek-V4-{name}-DSpark.partial.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config))
    needed = expected(resolve(tmp_path).contract)
    assert needed == drafter_shapes(config, config["vocab_size"], 3)
    assert len(needed) == {"Flash": 2376, "Pro": 3528}[name]


@pytest.mark.parametrize("rows", [0, 1, 4, WINDOW - 1, WINDOW, WINDOW + 1, 2 * WINDOW + 3, 40])
def test_first_rounds(staged: Staged, rows: int) -> None:
    """Anchors at the beginning, inside the window, at its edge and beyond."""
    _, drafter = staged.drafter()
    same(drafted(drafter, rows), staged.wanted(rows))


@pytest.mark.parametrize("accepted", [(0, 5, 2, 0, 3, 5, 1), (5, 5, 5, 5), (0, 0, 0, 0, 0)])
def test_rounds_of_ragged_acceptance(staged: Staged, accepted: tuple[int, ...]) -> None:
    """Every round adds the anchor's row and those of the accepted drafts; earlier blocks leave nothing."""
    _, drafter = staged.drafter()
    cache = drafter.new_cache()
    sequence, fed, rows = cache.open(), 0, 6
    for count in accepted:
        same(product(drafter, turn(sequence, fed, rows), cache), staged.wanted(rows))
        assert cache.length(sequence) == rows
        fed, rows = rows, rows + count + 1
    same(product(drafter, turn(sequence, fed, rows), cache), staged.wanted(rows))


@torch.inference_mode()
def test_three_sequences_at_once(staged: Staged) -> None:
    """Packed, of different lengths, growing differently, in changing order, each as the reference has it."""
    _, drafter = staged.drafter()
    cache = drafter.new_cache()
    ids, fed, goals = [cache.open() for _ in range(3)], [0, 0, 0], [0, 7, 22]
    for order, grow in (((0, 1, 2), (1, 6, 3)), ((2, 0, 1), (4, 1, 2)), ((1, 2), (0, 5, 5))):
        turns = [turn(ids[b], fed[b], goals[b], shift=5 * b) for b in order]
        proposal = drafter.propose(turns, cache)
        again = [turn(ids[b], goals[b], goals[b], shift=5 * b) for b in order]
        hidden = drafter.block(again, cache)
        assert proposal.confidence is not None
        for row, b in enumerate(order):
            taps, tokens = TAPS.roll(5 * b, 0)[: goals[b]], TOKENS.roll(5 * b)
            wanted = staged.wanted(goals[b], taps=taps, anchor=int(tokens[goals[b]]))
            assert proposal.tokens[row].tolist() == wanted.tokens.tolist()
            close(hidden[row], wanted.hidden_pre_norm)
            close(proposal.confidence[row], wanted.confidence)
            assert cache.length(ids[b]) == goals[b]
            fed[b] = goals[b]
        goals = [goal + more for goal, more in zip(goals, grow, strict=True)]


@torch.inference_mode()
def test_proposing_again_gives_the_same_law(staged: Staged) -> None:
    """Without new rows q is the same; sampled drafts may differ, and each belongs to the law it came with."""
    _, drafter = staged.drafter()
    cache = drafter.new_cache()
    sequence, sampling = cache.open(), Sampling(temperature=1.0)
    one, none = turn(sequence, 0, 12), turn(sequence, 12, 12)
    laws = []
    for now in (one, none, none):
        proposal = drafter.propose([replace(now, chance=Seeded(3))], cache, sampling)
        law = proposal.law(0)
        assert law is not None
        laws.append((proposal.tokens.tolist(), law.dense(0, CONFIG["vocab_size"])))
    base = staged.wanted(12).logits[0].double().softmax(-1)
    for tokens, law in laws:
        assert tokens == laws[0][0]
        assert torch.equal(law, laws[0][1])
        torch.testing.assert_close(law, base, rtol=1e-4, atol=1e-6)
    before = cache.keys(sequence)[:, :, :12].clone()
    drafter.propose([none], cache)
    assert torch.equal(before, cache.keys(sequence)[:, :, :12])


def test_context_rows_are_the_reference_s_latents(staged: Staged) -> None:
    """One row per stage is key and value; nothing but the committed rows counts as context."""
    from reference_deepseek_v4 import Sizes, key_values, rms_norm, stage_weights

    _, drafter = staged.drafter()
    cache = drafter.new_cache()
    sequence = cache.open()
    product(drafter, turn(sequence, 0, 14), cache)
    sizes, first = Sizes.read(CONFIG), staged.weights
    features = rms_norm(TAPS[:14] @ first["mtp.0.main_proj.weight"].T, 1e-5, first["mtp.0.main_norm.weight"])
    for stage in range(3):
        own = stage_weights(staged.weights, stage)
        rows = key_values(sizes, own, features, range(14), inverse_frequencies(1e4, 8))
        close(cache.keys(sequence)[stage, 0, :14], rows)
        assert torch.equal(cache.keys(sequence)[stage, 0, :14], cache.values(sequence)[stage, 0, :14])


@pytest.mark.parametrize("holes", [slice(0, 6), slice(8, 9), slice(3, 12)])
def test_rows_that_were_never_written_are_not_seen(staged: Staged, holes: slice) -> None:
    _, drafter = staged.drafter()
    cache = drafter.new_cache()
    sequence = cache.open()
    product(drafter, turn(sequence, 0, 12), cache)
    with torch.inference_mode():
        cache.invalidate(sequence, holes)
    valid = torch.ones(12, dtype=torch.bool)
    valid[holes] = False
    found = product(drafter, turn(sequence, 12, 12), cache)
    same(found, staged.wanted(12, valid=valid.tolist()))
    assert float((found["hidden"] - staged.wanted(12).hidden_pre_norm).abs().max()) > 1e-3


def dense_target() -> HFTarget:
    """Any target of the drafter's width: what the loop does with stages needs no DeepSeek-V4."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(3)
    sizes = {"vocab_size": CONFIG["vocab_size"], "hidden_size": CONFIG["hidden_size"], "head_dim": 8}
    layers = {"num_hidden_layers": 6, "num_attention_heads": 4, "num_key_value_heads": 2}
    more = {"intermediate_size": 40, "max_position_embeddings": 256, "initializer_range": 0.3}
    model = Qwen3ForCausalLM(Qwen3Config(**sizes, **layers, **more)).eval()
    return HFTarget(model, (3, 4, 5), stop_token_ids=frozenset())


def test_three_prompts_through_the_decoding_loop(staged: Staged) -> None:
    """Greedy output is plain decoding's, and every third round's drafts are the reference's."""
    target = dense_target()
    found = resolve(staged.directory)
    stored = load_tensors(found.tensors, dtype=torch.float32, device="cpu")
    drafter = make_drafter(found.contract, stored, target.embedding, target.head)
    prompts = [[5], TOKENS[:7].tolist(), TOKENS[3:17].tolist()]
    plain = Decoder(target).generate(prompts, 8)
    runs = Decoder(target, drafter, keep_drafts=True).generate(prompts, 8)
    assert [run.tokens for run in runs] == [run.tokens for run in plain]
    for run, prompt in zip(runs, prompts, strict=True):
        text, at = prompt + run.tokens, len(prompt)
        taps = taps_of(target, text)
        tables = {"embedding": target.embedding, "head": target.head}
        assert len(run.drafts) == len(run.accepted) > 1
        for accepted, (anchor, drafts) in zip(run.accepted[:-1], run.drafts[:-1], strict=True):
            assert anchor == at
            if at % 3 == 0:  # the reference is slow
                wanted = staged.wanted(at, taps=taps[:at], anchor=text[at], **tables)
                assert drafts == tuple(wanted.tokens.tolist())
            at += accepted + 1


@torch.inference_mode()
def taps_of(target: HFTarget, text: list[int]) -> torch.Tensor:
    """Features of a whole text in one forward."""
    from truedraft.decode import Batch

    cache, count = target.new_cache(), len(text)
    batch = Batch(torch.tensor(text), torch.arange(count), (0, count), (cache.open(),))
    return target.forward(batch, cache)[1].clone()


VARIANTS: dict[str, dict[str, Any]] = {
    "two streams": {"hc_mult": 2},
    "one stream": {"hc_mult": 1},
    "published iterations": {"hc_sinkhorn_iters": 20, "hc_eps": 1e-6},
    "one iteration": {"hc_sinkhorn_iters": 1},
    "one group": {"o_groups": 1},
    "a group per head": {"o_groups": 6},
    "one expert": {"num_experts_per_tok": 1},
    "all experts": {"num_experts_per_tok": 7},
    "no shared expert": {"n_shared_experts": 0},
    "a shared expert of two": {"n_shared_experts": 2},
    "published clamp": {"swiglu_limit": 10.0},
    "no clamp": {"swiglu_limit": None},
    "experts of its own": {"dspark_n_routed_experts": 5, "dspark_num_experts_per_tok": 2},
    "published scale": {"routed_scaling_factor": 2.5},
    "whole head rotated": {"qk_rope_head_dim": 16},
    "another base": {"rope_theta": 500.0},
    "two taps": {"dspark_target_layer_ids": [1, 5]},
    "wide block": {"dspark_block_size": 8},
    "large epsilon": {"rms_norm_eps": 0.05},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_configs(name: str, tmp_path: Any) -> None:
    pair = write_stages(tmp_path, VARIANTS[name])
    contract, drafter = pair.drafter()
    assert contract.unread_keys == ()
    wide = len(pair.config["dspark_target_layer_ids"]) * CONFIG["hidden_size"]
    cache = drafter.new_cache()
    one = turn(cache.open(), 0, 13)
    narrow = replace(one, taps=TAPS[:13, :wide])
    same(product(drafter, narrow, cache), pair.wanted(13, taps=TAPS[:13, :wide]))


@pytest.mark.parametrize("stages", [1, 2])
def test_as_many_stages_as_there_are_tensors(stages: int, tmp_path: Any) -> None:
    pair = write_stages(tmp_path, stages=stages)
    contract, drafter = pair.drafter()
    assert contract["stages.layers"] == tuple(range(6, 6 + stages))
    same(drafted(drafter, 13), pair.wanted(13))


# ------------------------------------------------------------------------------- files that differ


def test_v41_names_of_the_markov_tables(staged: Staged, tmp_path: Any) -> None:
    names = {"markov_head.markov_w1": "markov_head.embed", "markov_head.markov_w2": "markov_head.head"}
    pair = write_stages(tmp_path, renames=names)
    assert "mtp.2.markov_head.embed.weight" in load_file(tmp_path / "model.safetensors")
    contract, drafter = pair.drafter()
    assert contract.unread_keys == ()
    same(drafted(drafter, 13), staged.wanted(13))


def test_v41_is_refused_by_name(tmp_path: Any) -> None:
    """Its stages collapse and normalise otherwise: no arithmetic here would be theirs."""
    pair = write_stages(tmp_path, {"model_type": "deepseek_v41"})
    config = pair.config
    names = {n: v for n, v in pair.weights.items() if "hc_head" not in n}
    save_file(names, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "deepseek_v41", "text_config": config}))
    found = resolve(tmp_path)
    assert found.contract.conflicts == ()
    stored = load_tensors(found.tensors, dtype=torch.float32, device="cpu")
    with pytest.raises(InputError, match=r"stages\.collapse=last_mix: the dspark drafter cannot run this"):
        make_drafter(found.contract, stored, EMBEDDING, HEAD)


def hybrid(directory: Any) -> Any:
    """A target's config without a drafter: one entry behind its layers, as a base checkpoint has."""
    base = {key: value for key, value in CONFIG.items() if not key.startswith("dspark_")}
    base["compress_ratios"] = [*CONFIG["compress_ratios"][:6], 0]
    directory.mkdir()
    (directory / "config.json").write_text(json.dumps(base))
    return directory


def test_stages_on_the_target_of_another_checkpoint(staged: Staged, tmp_path: Any) -> None:
    """Rope and window are the drafter's own, whatever the target's list of ratios leaves out."""
    contract, drafter = staged.drafter(target=hybrid(tmp_path / "target"))
    assert contract["rope.scaling"] == (None, None, None)
    assert contract["stages.layers"] == (6, 7, 8)
    same(drafted(drafter, 13), staged.wanted(13))


def yarn_table(theta: float = 1e4) -> torch.Tensor:
    """transformers' own YaRN, without its factor on cosine and sine."""
    from transformers import Qwen3Config
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    parameters = {**CONFIG["rope_scaling"], "rope_type": "yarn", "rope_theta": theta, "attention_factor": 1.0}
    parameters.pop("type")
    sizes = {"head_dim": 8, "max_position_embeddings": 1024}
    table, factor = ROPE_INIT_FUNCTIONS["yarn"](Qwen3Config(**sizes, rope_parameters=parameters), "cpu")
    assert factor == 1.0
    return table


def test_yarn_on_the_stages_beyond_the_list(staged: Staged, tmp_path: Any) -> None:
    """The founding fault: stages 1 and 2 lie behind the target's ratios and get the compressed layers' rope.

    The fault arm has exactly those frequencies and the logits that follow, the default has neither.
    """
    target = hybrid(tmp_path / "target")
    contract, broken = staged.drafter((f"rope.scaling[1]={YARN}", f"rope.scaling[2]={YARN}"), target=target)
    assert contract["rope.attention_factor"] == (1.0, 1.0, 1.0)
    plain, scaled = inverse_frequencies(1e4, 8), yarn_table()
    assert float((plain / scaled).max()) > 15
    tables = broken._backbone._rope._frequencies  # type: ignore[attr-defined]
    torch.testing.assert_close(tables, torch.stack([plain, scaled, scaled]), rtol=1e-6, atol=0)
    found = drafted(broken, 40)
    same(found, staged.wanted(40, rope_tables=[plain, scaled, scaled]))
    _, right = staged.drafter(target=target)
    tables = right._backbone._rope._frequencies  # type: ignore[attr-defined]
    torch.testing.assert_close(tables, torch.stack([plain] * 3), rtol=1e-6, atol=0)
    assert float((found["logits"] - drafted(right, 40)["logits"]).abs().max()) > 1e-3


def test_yarn_on_stages_44_and_45_of_the_published_drafter(tmp_path: Any) -> None:
    """The same fault at published sizes: 64 rotated dimensions, the tables that an engine would have made."""
    from transformers import Qwen3Config
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    from truedraft.models.rope import RotaryTable

    target, draft = tmp_path / "target", tmp_path / "draft"
    for directory, name in ((target, "Flash"), (draft, "Flash-DSpark")):
        directory.mkdir()
        text = (CONFIGS / f"deepseek-ai__DeepSeek-V4-{name}.partial.json").read_text()
        (directory / "config.json").write_text(text)
    record = "yarn:factor=16:original_max_position_embeddings=65536:beta_fast=32:beta_slow=1"
    overrides = (f"rope.scaling[1]={record}", f"rope.scaling[2]={record}")
    parameters = {"rope_type": "yarn", "rope_theta": 1e4, "attention_factor": 1.0, "factor": 16.0}
    parameters |= {"original_max_position_embeddings": 65536, "beta_fast": 32.0, "beta_slow": 1.0}
    sizes = {"head_dim": 64, "max_position_embeddings": 1048576}
    scaled, _ = ROPE_INIT_FUNCTIONS["yarn"](Qwen3Config(**sizes, rope_parameters=parameters), "cpu")
    plain = inverse_frequencies(1e4, 64)
    for arm, wanted in (((), [plain] * 3), (overrides, [plain, scaled, scaled])):
        contract = resolve(target, draft, arm).contract
        assert contract["stages.layers"] == (43, 44, 45)
        tables = RotaryTable(contract, torch.device("cpu"))._frequencies
        torch.testing.assert_close(tables, torch.stack(wanted), rtol=1e-6, atol=0)


def test_each_stage_has_the_rope_of_its_own_entry(tmp_path: Any) -> None:
    """An entry that is not 0 means base and scaling of the compressed layers, at that stage only."""
    pair = write_stages(tmp_path, ratios=[0, 4, 128])
    with pytest.raises(InputError, match=r"stages.compress_ratio=4: the dspark drafter cannot run this yet"):
        pair.drafter()  # there is no compressor: rope alone would be half of it
    contract, drafter = pair.drafter(["stages.compress_ratio=0"])
    assert contract["rope.theta"] == (1e4, 160000.0, 160000.0)
    compressed = yarn_table(160000.0)
    tables = [inverse_frequencies(1e4, 8), compressed, compressed]
    same(drafted(drafter, 30), pair.wanted(30, rope_tables=tables))


# ----------------------------------------------------------------------------------- quantised weights


@pytest.mark.parametrize("part", ["main_proj", "attn.wkv", "ffn.experts.3.w2"])
def test_quantised_stages_have_a_contract_and_do_not_run(part: str, tmp_path: Any) -> None:
    pair = write_stages(tmp_path)
    name = f"mtp.0.{part}.weight"
    stored = dict(pair.weights)
    stored[name] = stored[name].to(torch.float8_e4m3fn)
    stored[f"mtp.0.{part}.scale"] = torch.ones(1, 1).to(torch.float8_e8m0fnu)
    save_file(stored, tmp_path / "model.safetensors")
    found = resolve(tmp_path)
    assert found.contract.unread_keys == ()
    with pytest.raises(InputError, match="found dtype F8_E4M3, expected unquantised weights") as error:
        load_tensors(found.tensors, dtype=torch.float32, device="cpu")
    assert name in str(error.value)
    assert "\n" not in str(error.value)


def test_packed_experts_have_a_contract_and_do_not_run(tmp_path: Any) -> None:
    """FP4 as in the published files: two numbers in each byte."""
    pair = write_stages(tmp_path)
    stored = dict(pair.weights)
    for name, value in pair.weights.items():
        if ".ffn.experts." in name:
            stored[name] = torch.zeros(value.shape[0], value.shape[1] // 2, dtype=torch.int8)
            stored[name.replace("weight", "scale")] = torch.ones(value.shape[0], 1)
    save_file(stored, tmp_path / "model.safetensors")
    found = resolve(tmp_path)
    assert found.contract.unread_keys == ()
    with pytest.raises(InputError, match="found dtype I8, expected unquantised weights"):
        load_tensors(found.tensors, dtype=torch.float32, device="cpu")
