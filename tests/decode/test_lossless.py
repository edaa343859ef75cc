"""Greedy output equals plain greedy decoding, whatever the drafter does. Oracle: transformers' generate."""

from __future__ import annotations

import copy
from functools import cache

import pytest
import torch

from conftest import random_model
from truedraft.contract import InputError
from truedraft.decode import Batch, Decoder, ScriptedDrafter
from truedraft.models import HFTarget

GAMMA = 5


def prompt(length: int, seed: int = 0) -> list[int]:
    generator = torch.Generator().manual_seed(seed + length)
    return torch.randint(1, 256, (length,), generator=generator).tolist()


@cache
def reference(kind: str, length: int, seed: int, count: int, stop: int | None = None) -> tuple[int, ...]:
    """New tokens by `transformers.generate`, without a drafter."""
    ids = torch.tensor([prompt(length, seed)])
    out = random_model(kind).generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=count,
        do_sample=False,
        eos_token_id=stop if stop is not None else -1,
        pad_token_id=0,
    )
    return tuple(out[0, length:].tolist())


@cache
def target(kind: str, fused: bool = True) -> HFTarget:
    made = HFTarget(copy.deepcopy(random_model(kind)), (0, 2), stop_token_ids=frozenset(), fused=fused)
    assert made.fused is fused
    return made


def scripted(kind, lengths, count, error_slot, seeds=None):
    seeds = seeds or [0] * len(lengths)
    known = [prompt(n, s) + list(reference(kind, n, s, count)) for n, s in zip(lengths, seeds, strict=True)]
    return ScriptedDrafter(known, GAMMA, 256, error_slot)


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("length", [1, 17, 300])
def test_plain_decoding_equals_transformers(kind, length, fused):
    run = Decoder(target(kind, fused)).generate([prompt(length)], 40)[0]
    assert tuple(run.tokens) == reference(kind, length, 0, 40)


@pytest.mark.parametrize("length", [1, 17, 300])
@pytest.mark.parametrize("slot", [*range(GAMMA), None])
def test_every_accepted_length(kind, length, slot):
    drafter = scripted(kind, [length], 40, lambda _: slot)
    run = Decoder(target(kind), drafter).generate([prompt(length)], 40)[0]
    assert tuple(run.tokens) == reference(kind, length, 0, 40)
    assert set(run.accepted[:-1]) == {GAMMA if slot is None else slot}


@pytest.mark.parametrize("fused", [True, False])
def test_batch_of_five_with_ragged_acceptance(kind, fused):
    lengths, seeds = [1, 17, 300, 17, 5], [0, 0, 0, 3, 4]
    slots = [0, 3, None, 1, 4, 2, None]
    drafter = scripted(kind, lengths, 40, lambda n: slots[n % len(slots)], seeds)
    prompts = [prompt(n, s) for n, s in zip(lengths, seeds, strict=True)]
    runs = Decoder(target(kind, fused), drafter).generate(prompts, 40)
    for run, n, s in zip(runs, lengths, seeds, strict=True):
        assert tuple(run.tokens) == reference(kind, n, s, 40)


def test_sequences_of_a_batch_that_end_at_different_times():
    lengths, seeds = [3, 9, 4], [1, 2, 3]
    known = [reference("qwen3", n, s, 40) for n, s in zip(lengths, seeds, strict=True)]
    stopping = HFTarget(
        copy.deepcopy(random_model("qwen3")), (1,), stop_token_ids=frozenset({known[0][6], known[1][19]})
    )
    drafter = scripted("qwen3", lengths, 40, lambda n: n % GAMMA, seeds)
    prompts = [prompt(n, s) for n, s in zip(lengths, seeds, strict=True)]
    runs = Decoder(stopping, drafter).generate(prompts, 40)
    for run, tokens in zip(runs, known, strict=True):
        ends = [i for i, token in enumerate(tokens) if token in stopping.stop_token_ids]
        assert run.tokens == list(tokens[: ends[0] + 1] if ends else tokens)
        assert run.finish == ("stop" if ends else "length")


@pytest.mark.parametrize("at", range(1, GAMMA + 2))
def test_stop_token_at_every_place_of_a_block(at):
    known = reference("qwen3", 17, 0, 40)
    stop = known[at]
    first = known.index(stop)
    stopping = HFTarget(copy.deepcopy(random_model("qwen3")), (1,), stop_token_ids=frozenset({stop}))
    run = Decoder(stopping, scripted("qwen3", [17], 40, lambda _: None)).generate([prompt(17)], 40)[0]
    assert (tuple(run.tokens), run.finish) == (known[: first + 1], "stop")


@pytest.mark.parametrize("count", range(1, 2 * GAMMA + 3))
def test_length_limit_is_exact(count):
    drafter = scripted("qwen3", [17], 40, lambda _: None)
    run = Decoder(target("qwen3"), drafter).generate([prompt(17)], count)[0]
    assert (tuple(run.tokens), run.finish) == (reference("qwen3", 17, 0, 40)[:count], "length")


@pytest.mark.parametrize("room", [1, 2, 4, 9])
def test_context_limit_is_exact(kind, room):
    length = 512 - room
    drafter = scripted(kind, [length], room, lambda _: None)
    run = Decoder(target(kind), drafter).generate([prompt(length)], 40)[0]
    assert (tuple(run.tokens), run.finish) == (reference(kind, length, 0, room), "context")


@pytest.mark.parametrize("k", range(GAMMA + 1))
def test_fewer_drafts_than_the_block_has(k):
    drafter = scripted("llama", [17], 40, lambda _: None)
    run = Decoder(target("llama"), drafter, speculative_tokens=k).generate([prompt(17)], 40)[0]
    assert tuple(run.tokens) == reference("llama", 17, 0, 40)
    assert set(run.accepted[:-1]) == {k}


def test_stream_yields_what_generate_returns():
    drafter = scripted("qwen3", [17], 40, lambda n: n % 3)
    chunks = []
    for chunk in Decoder(target("qwen3"), drafter).stream(prompt(17), 40):
        assert not torch.is_inference_mode_enabled(), "the caller's code must not run in our mode"
        chunks.append(chunk)
    assert [token for chunk in chunks for token in chunk] == list(reference("qwen3", 17, 0, 40))
    assert len(chunks) > 5


@pytest.mark.parametrize("fused", [True, False])
def test_taps_and_logits_equal_transformers(kind, fused):
    tokens = prompt(40)
    model = random_model(kind)
    seen = {}
    hooks = [
        model.model.layers[3].register_forward_hook(lambda m, i, o: seen.update(last=o)),
    ]
    with torch.inference_mode():
        plain = model(torch.tensor([tokens]), output_hidden_states=True)
    hooks[0].remove()
    ours = HFTarget(copy.deepcopy(model), (2, -1, 3, 0), fused=fused)
    cache = ours.new_cache()
    batch = Batch(torch.tensor(tokens), torch.arange(40), (0, 40), (cache.open(),))
    with torch.inference_mode():
        logits, taps = ours.forward(batch, cache)
    wanted = [plain.hidden_states[3], plain.hidden_states[0], seen["last"], plain.hidden_states[1]]
    torch.testing.assert_close(taps, torch.cat(wanted, -1)[0], atol=2e-5, rtol=1e-4)
    torch.testing.assert_close(logits, plain.logits[0], atol=2e-4, rtol=1e-4)
    assert not torch.allclose(seen["last"], plain.hidden_states[4]), (
        "the last tap must precede the final norm"
    )


def test_the_fused_forward_steps_back_where_the_module_does_something_else():
    model = copy.deepcopy(random_model("qwen3"))
    model.model.layers[1].mlp.register_forward_hook(lambda module, inputs, output: output * 1.01)
    assert not HFTarget(model, (1,)).fused
    assert HFTarget(copy.deepcopy(random_model("qwen3")), (1,)).fused


@pytest.mark.parametrize("fused", [True, False])
def test_a_tree_of_rows_equals_its_branches_one_by_one(kind, fused):
    ours = target(kind, fused)
    context, rows = prompt(30), [11, 12, 13, 14, 15, 16]
    parents = (-1, 0, 0, 1, 2, 3)
    with torch.inference_mode():
        cache = ours.new_cache()
        sequence = cache.open()
        first = Batch(torch.tensor(context), torch.arange(30), (0, 30), (sequence,))
        ours.forward(first, cache)
        cache.commit(sequence, range(30))
        positions = torch.tensor([30, 31, 31, 32, 32, 33])
        tree, _ = ours.forward(Batch(torch.tensor(rows), positions, (0, 6), (sequence,), parents), cache)
        cache.commit(sequence, [0, 1, 3, 5])
        after, _ = ours.forward(Batch(torch.tensor([17]), torch.tensor([34]), (0, 1), (sequence,)), cache)

        def chain(tokens):
            fresh = ours.new_cache()
            ids = torch.tensor([*context, *tokens])
            batch = Batch(ids, torch.arange(len(ids)), (0, len(ids)), (fresh.open(),))
            return ours.forward(batch, fresh)[0]

        torch.testing.assert_close(tree[[0, 1, 3, 5]], chain([11, 12, 14, 16])[30:], atol=3e-4, rtol=1e-3)
        torch.testing.assert_close(tree[[0, 2, 4]], chain([11, 13, 15])[30:], atol=3e-4, rtol=1e-3)
        torch.testing.assert_close(after[0], chain([11, 12, 14, 16, 17])[-1], atol=3e-4, rtol=1e-3)


@pytest.mark.parametrize(
    ("tokens", "count", "message"),
    [
        ([], 5, "prompt 0: found no tokens"),
        ([1] * 512, 5, "found 512 tokens, expected fewer than the target's 512"),
        ([1], 0, "max_new_tokens: found 0"),
    ],
)
def test_unusable_prompts_are_refused(tokens, count, message):
    with pytest.raises(InputError, match=message):
        Decoder(target("qwen3")).generate([tokens], count)


def test_more_drafts_than_proposed_are_refused():
    with pytest.raises(InputError, match="found 6, expected 0 to 5"):
        Decoder(target("qwen3"), scripted("qwen3", [17], 40, lambda _: None), speculative_tokens=6)


@pytest.mark.parametrize("fused", [True, False])
def test_rows_that_are_not_valid_are_not_seen(kind, fused):
    """Attention over a cache with a hole equals attention with those rows masked by hand."""
    ours, tokens = target(kind, fused), prompt(20)

    def last_logits(spoil):
        cache_ = ours.new_cache()
        sequence = cache_.open()
        first = Batch(torch.tensor(tokens), torch.arange(20), (0, 20), (sequence,))
        with torch.inference_mode():
            ours.forward(first, cache_)
            cache_.commit(sequence, range(20))
            spoil(cache_, sequence)
            cache_.invalidate(sequence, slice(5, 12))
            row = Batch(torch.tensor([9]), torch.tensor([20]), (0, 1), (sequence,))
            return ours.forward(row, cache_)[0]

    def overwrite(cache_, sequence):
        cache_.keys(sequence)[:, :, 5:12] = 100.0
        cache_.values(sequence)[:, :, 5:12] = -100.0

    assert torch.equal(last_logits(lambda cache_, sequence: None), last_logits(overwrite))


def test_a_script_starts_anew_with_each_cache():
    drafter = scripted("qwen3", [17], 40, lambda n: n % GAMMA)
    decoder = Decoder(target("qwen3"), drafter)
    runs = [decoder.generate([prompt(17)], 40)[0].accepted for _ in range(2)]
    assert runs[0] == runs[1]
    assert runs[0][:3] == [0, 1, 2]
