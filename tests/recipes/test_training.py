"""Shards, losses, checkpoints and exports of the SmolLM2 recipe, on a small model."""

from __future__ import annotations

import dataclasses

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file

HIDDEN, VOCABULARY = 24, 90
TAPS = (0, 2)


@pytest.fixture(scope="module")
def shapes(recipe):
    return recipe("drafters.shapes")


def spec(shapes, family="dspark"):
    shape = shapes.Shape(HIDDEN, 2, 3, 1, 8, 40, 1e-6, 10_000.0)
    dspark = family == "dspark"
    return shapes.DrafterSpec(
        family, family, shape, TAPS, (shapes.FULL,) * 2, None, 4 if dspark else 5, int(not dspark),
        cycle=60, cycles=1, rate=0.01, seed=3, markov_rank=4 if dspark else 0, mask_id=7,
    )  # fmt: skip


def drafter_of(recipe, shapes, family="dspark"):
    torch.manual_seed(1)
    drafter = recipe("drafters.stack").Drafter(spec(shapes, family), VOCABULARY, HIDDEN)
    for parameter in drafter.parameters():
        parameter.data = torch.randn_like(parameter) * (0.3 if parameter.dim() == 2 else 1.0)
    return drafter


@pytest.fixture
def stored(recipe, tmp_path):
    """Two answers in a shard: prompts of 5 and 3 tokens, answers of 6 and 9."""
    torch.manual_seed(2)
    decoding, shards = recipe("decoding"), recipe("shards")
    responses = []
    for name, prompt, count in (("t00007", 5, 6), ("t00001", 3, 9)):
        response = decoding.Response(name, torch.randint(VOCABULARY, (prompt,)).tolist())
        response.tokens = torch.randint(VOCABULARY, (count,)).tolist()
        response.rows = [torch.randn(prompt + count - 1, HIDDEN * (len(TAPS) + 1)).half()]
        responses.append(response)
    shards.write_shard(tmp_path / "responses", responses)
    return tmp_path / "responses", responses


def tables(recipe, answers):
    torch.manual_seed(4)
    found = recipe("data").Statistics(torch.rand(HIDDEN * len(TAPS)) + 0.5, torch.arange(0, VOCABULARY, 3))
    return recipe("losses").Tables(torch.randn(VOCABULARY, HIDDEN), torch.rand(HIDDEN), 1e-5, found)


def test_shards_give_back_what_was_written(recipe, stored):
    folder, responses = stored
    assert list(recipe("shards").shard_names(folder)) == ["t00007", "t00001"]
    found = recipe("data").answers(folder)
    assert [answer.name for answer in found] == ["t00001", "t00007"]
    for answer, response in zip(found, reversed(responses), strict=True):
        assert answer.ids.tolist() == response.prompt + response.tokens
        assert answer.prompt == len(response.prompt)
        torch.testing.assert_close(answer.features(), response.features.float())
        assert answer.anchors.tolist() == list(range(answer.prompt, len(answer.ids) - 1))
    assert [answer.held_out for answer in found] == [False, True]


def test_an_interrupted_shard_is_not_seen(recipe, stored, monkeypatch):
    folder, responses = stored
    module = recipe("shards")

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module.os, "replace", stop)
    with pytest.raises(KeyboardInterrupt):
        module.write_shard(folder, responses[:1])
    assert len(list(module.shard_names(folder))) == 2


def test_every_sequence_is_picked_once_per_epoch(recipe):
    picked = recipe("data").picked
    seen = [number for step in range(10) for number in picked(20, step, 4, seed=5)]
    assert sorted(seen[:20]) == sorted(seen[20:]) == list(range(20))
    assert seen[:20] != seen[20:]


def slow_hidden(drafter, tables, answer, anchor, proposals):
    """One block's proposing rows, one query and one key at a time."""
    spec_, shape = drafter.spec, drafter.spec.shape
    features = answer.features()[:, : HIDDEN * len(TAPS)] / tables.statistics.scale
    context = drafter.hidden_norm(drafter.fc(features[:anchor]))
    tokens = [int(answer.ids[anchor])] + [spec_.mask_id] * (spec_.width - 1)
    rows = tables.embedding[torch.tensor(tokens)]

    def rotate(x, position):
        half = shape.head_dim // 2
        angle = position * shape.theta ** (-torch.arange(half) / half)
        a, b = x[..., :half], x[..., half:]
        return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)

    for layer in drafter.layers:
        attention, normed = layer.self_attn, layer.input_layernorm(rows)
        both, places = torch.cat([context, normed]), [*range(anchor), *range(anchor, anchor + len(rows))]
        keys = [
            rotate(attention.k_norm(attention.k_proj(r).view(1, -1)), p)
            for r, p in zip(both, places, strict=True)
        ]
        values = [attention.v_proj(r).view(1, -1) for r in both]
        outputs = []
        for index, row in enumerate(normed):
            query = rotate(attention.q_norm(attention.q_proj(row).view(shape.heads, -1)), anchor + index)
            scores = torch.stack([(query * key).sum(-1) for key in keys]) / shape.head_dim**0.5
            share = scores.softmax(0)
            outputs.append(sum(s[:, None] * v for s, v in zip(share, values, strict=True)).flatten())
        rows = rows + attention.o_proj(torch.stack(outputs))
        rows = rows + layer.mlp(layer.post_attention_layernorm(rows))
    return drafter.norm(rows)[spec_.first_slot :]


@pytest.mark.parametrize("family", ["dflash", "dspark"])
def test_loss_by_hand(recipe, shapes, stored, family):
    losses = recipe("losses")
    answer = recipe("data").answers(stored[0])[0]
    frozen, drafter = tables(recipe, [answer]), drafter_of(recipe, shapes, family)
    anchors = torch.tensor([4, 8, 10])
    blocks = losses.blocks_at(answer, anchors, 4)
    ids = losses.active_ids(frozen.statistics, [blocks], torch.tensor([5, 5, 89]))
    assert set(range(0, VOCABULARY, 3)) | {5, 89} <= set(ids.tolist())
    for mixed in (False, True):
        found = losses.block_loss(drafter, frozen, blocks, ids, mixed)
        expected = torch.zeros(())
        for anchor in anchors.tolist():
            hidden = slow_hidden(drafter, frozen, answer, anchor, 4)
            for slot in range(4):
                if anchor + slot + 1 >= len(answer.ids):
                    continue
                logits = frozen.embedding @ hidden[slot]
                previous, label = int(answer.ids[anchor + slot]), int(answer.ids[anchor + slot + 1])
                if family == "dspark":
                    head = drafter.markov_head
                    logits = logits + head.markov_w2.weight @ head.markov_w1.weight[previous]
                scored = logits[ids]
                hard = scored.logsumexp(0) - logits[label]
                last = answer.features()[anchor + slot, HIDDEN * len(TAPS) :]
                normed = last / (last.pow(2).mean() + 1e-5).sqrt() * frozen.norm
                wanted = (frozen.embedding[ids] @ normed).softmax(0)
                loss = 0.5 * hard + 0.5 * (wanted * (scored.logsumexp(0) - scored)).sum()
                if family == "dspark":
                    distance = (scored.softmax(0) - wanted).abs().sum()
                    joined = torch.cat([hidden[slot], head.markov_w1.weight[previous]])
                    guess = drafter.confidence_head.proj(joined)[0]
                    aim = (1 - distance / 2).clamp(0, 1).detach()
                    sure = F.binary_cross_entropy_with_logits(guess, aim)
                    loss = sure + (0.1 * hard + 0.9 * distance if mixed else loss)
                expected = expected + loss * torch.exp(torch.tensor(-slot / 4.0))
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_tokens_per_round_count_the_leading_matches(recipe, shapes, stored, monkeypatch):
    losses = recipe("losses")
    answer = recipe("data").answers(stored[0])[0]
    frozen, drafter = tables(recipe, [answer]), drafter_of(recipe, shapes)
    blocks = losses.blocks_at(answer, torch.tensor([3, 5, 9]), 4)
    drafts = blocks.following.clone()
    drafts[1, 1] = (drafts[1, 1] + 1) % VOCABULARY  # the first of the second block stays right
    monkeypatch.setattr(losses, "propose", lambda *_: (drafts[None], None, None))
    # The last block has two tokens behind its anchor: right drafts past the end do not count.
    assert losses.tokens_per_round(drafter, frozen, blocks).tolist() == [5.0, 2.0, 3.0]


@pytest.mark.parametrize("family", ["dflash", "dspark"])
def test_a_continued_training_equals_an_uninterrupted_one(recipe, shapes, family, tmp_path):
    training = recipe("drafters.training")

    def steps(path, count):
        drafter = drafter_of(recipe, shapes, family)
        optimizers = training.muon_and_adam(drafter, 0.01)
        trainer = training.Trainer(drafter, 60, 0.3, path, optimizers)
        while trainer.step < count:
            generator = torch.Generator().manual_seed(trainer.step)
            x = torch.randn(8, HIDDEN * len(TAPS), generator=generator)
            loss = sum(p.square().mean() for p in drafter.parameters()) + drafter.fc(x).square().mean()
            trainer.update(loss)
        return drafter.state_dict()

    whole = steps(tmp_path / "whole.safetensors", 55)
    steps(tmp_path / "parts.safetensors", 50)
    assert int(load_file(tmp_path / "parts.safetensors")["optimizer.1.0.step"]) == 50
    parts = steps(tmp_path / "parts.safetensors", 55)
    for name, weight in whole.items():
        assert torch.equal(weight, parts[name]), name


@pytest.mark.parametrize("family", ["dflash", "dspark"])
def test_an_exported_drafter_drafts_in_truedraft_as_in_training(
    recipe, shapes, stored, family, tmp_path, monkeypatch
):
    from transformers import LlamaConfig, LlamaForCausalLM

    from truedraft import load_pair, resolve
    from truedraft.decode.protocols import Round

    torch.manual_seed(6)
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=HIDDEN, intermediate_size=32, num_hidden_layers=4,
        num_attention_heads=3, num_key_value_heads=1, max_position_embeddings=128, tie_word_embeddings=True,
        eos_token_id=1, bos_token_id=None, pad_token_id=None, initializer_range=0.5,
    )  # fmt: skip
    model = LlamaForCausalLM(config).half().float()
    model.save_pretrained(tmp_path / "target")
    export = recipe("export")
    monkeypatch.setattr(export, "VOCAB_SIZE", VOCABULARY)
    monkeypatch.setattr(export, "TARGET_LAYERS", 4)
    monkeypatch.setattr(export, "EOS_ID", 1)
    answer = recipe("data").answers(stored[0])[0]
    table = model.get_input_embeddings().weight.detach()
    frozen = dataclasses.replace(tables(recipe, [answer]), embedding=table)
    drafter = drafter_of(recipe, shapes, family).half().float()
    export.write_drafter(drafter, frozen.statistics.scale, tmp_path / family)
    pair = load_pair(resolve(tmp_path / "target", tmp_path / family))
    assert pair.contract.unread_keys == ()
    assert pair.contract.family == family
    assert pair.contract["taps.layers"] == TAPS

    anchor = 7
    features = answer.features()[:, : HIDDEN * len(TAPS)]
    drafter.requires_grad_(False)
    expected, gap, _ = recipe("drafters.drafting").propose(
        drafter,
        table,
        features[None] / frozen.statistics.scale,
        torch.tensor([[anchor]]),
        answer.ids[None, anchor : anchor + 1],
    )
    assert gap.item() > 0.01  # fp16 of fc must not decide
    cache = pair.drafter.new_cache()
    turn = Round(
        cache.open(), features[:anchor], answer.ids[:anchor], answer.ids[1 : anchor + 1], 0,
        answer.ids[anchor], anchor,
    )  # fmt: skip
    with torch.inference_mode():
        found = pair.drafter.propose([turn], cache)
    assert found.tokens[0].tolist() == expected[0, 0].tolist()
    assert len(found.tokens[0]) == 4


def test_a_training_starts_from_the_targets_last_layers(recipe, shapes, monkeypatch):
    from transformers import LlamaConfig, LlamaForCausalLM

    start = recipe("start")
    torch.manual_seed(8)
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=HIDDEN, intermediate_size=56, num_hidden_layers=4,
        num_attention_heads=3, num_key_value_heads=1, rms_norm_eps=1e-6, eos_token_id=1, bos_token_id=None,
        pad_token_id=None,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    for name, parameter in model.named_parameters():
        if "norm" in name:
            parameter.data.uniform_(0.5, 1.5)
    monkeypatch.setattr(start, "VOCAB_SIZE", VOCABULARY)
    monkeypatch.setattr(start, "TARGET_LAYERS", 4)
    monkeypatch.setattr(start, "OTHER_TAPS", 0.0)
    scale = torch.rand(HIDDEN * len(TAPS)) + 0.5
    drafter = start.fresh_drafter(spec(shapes), model, scale)
    state = torch.randn(5, HIDDEN * len(TAPS))
    last, block = state[:, HIDDEN:], model.model.layers[2]
    context = drafter.hidden_norm(drafter.fc(state / scale))
    torch.testing.assert_close(context, block.input_layernorm(last), rtol=1e-4, atol=1e-4)
    attention = drafter.layers[0].self_attn
    torch.testing.assert_close(
        attention.v_proj(context), block.self_attn.v_proj(block.input_layernorm(last)), rtol=1e-4, atol=1e-4
    )
    mlp, theirs = drafter.layers[1].mlp, model.model.layers[3].mlp
    rows = [theirs.gate_proj.weight.tolist().index(row) for row in mlp.gate_proj.weight.tolist()]
    assert len(set(rows)) == 40
    assert torch.equal(mlp.down_proj.weight, theirs.down_proj.weight[:, rows])
    assert torch.equal(mlp.up_proj.weight, theirs.up_proj.weight[rows])
