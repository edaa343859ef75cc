"""Targets with more state than keys and values: rollback, taps, logits. Oracle: transformers, no cache."""

from __future__ import annotations

import random
from functools import cache
from itertools import chain

import pytest
import torch
from founding_models import FAMILIES, VOCABULARY, small_config, small_model, text

from truedraft.contract import InputError
from truedraft.decode import Batch, Decoder, ScriptedDrafter, ScriptedTreeDrafter
from truedraft.models import HFTarget, StatefulTarget
from truedraft.models.stateful_cache import StatefulCache

GAMMA = 5
COUNT = 24
LENGTHS = (1, 17, 61)
"""Prompts: of one row, past the window of 16, and past several windows and chunks of 4 and 16."""
PROMPTS = [text(length) for length in LENGTHS]
TOLERANCE = 1e-3
"""Largest change of a logit between forwards of other sizes: 2e-4 was seen, wrong state gives over 1e-2."""


@pytest.fixture(params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    """Every architecture."""
    return str(request.param)


@cache
def target(family: str) -> StatefulTarget:
    layers = len(small_model(family).model.layers)
    return StatefulTarget(small_model(family), (layers - 1, -1, 1))


@cache
def whole(family: str, tokens: tuple[int, ...]) -> torch.Tensor:
    """Logits [len(tokens), V] of transformers in one forward without a cache."""
    with torch.inference_mode():
        return small_model(family)(input_ids=torch.tensor([tokens]), use_cache=False).logits[0]


@cache
def known(family: str) -> tuple[tuple[int, ...], ...]:
    """Plain greedy continuations, each token held against the cache-less forward."""
    runs = Decoder(target(family)).generate(PROMPTS, COUNT)
    for prompt, run in zip(PROMPTS, runs, strict=True):
        choices = whole(family, (*prompt, *run.tokens)).argmax(-1)
        assert run.tokens == choices[len(prompt) - 1 : -1].tolist()
    return tuple(tuple(run.tokens) for run in runs)


def scripted(family, error_slot, indices=(0, 1, 2)):
    texts = [PROMPTS[i] + list(known(family)[i]) for i in indices]
    return ScriptedDrafter(texts, GAMMA, VOCABULARY, error_slot)


def rows(made, cache_, sequence, tokens, start):
    """Logits of one sequence's rows."""
    batch = Batch(
        torch.tensor(tokens), torch.arange(start, start + len(tokens)), (0, len(tokens)), (sequence,)
    )
    with torch.inference_mode():
        return made.forward(batch, cache_)[0]


def drift(family, rounds, seed=1):
    """Largest error of any logit over rounds that keep 0 to 9 of 9 rows, the rest being wrong tokens."""
    rng, tokens = random.Random(seed), text(9 * rounds + 9, seed=4)
    wanted = whole(family, tuple(tokens))
    made = target(family)
    cache_ = made.new_cache()
    sequence = cache_.open()
    rows(made, cache_, sequence, tokens[:1], 0)
    cache_.commit(sequence, range(1))
    at, worst = 1, 0.0
    for _ in range(rounds):
        kept = rng.randint(0, 9)
        wrong = [rng.randrange(2, VOCABULARY) for _ in range(9 - kept)]
        logits = rows(made, cache_, sequence, tokens[at : at + kept] + wrong, at)
        cache_.commit(sequence, range(kept))
        if kept:
            worst = max(worst, float((logits[:kept] - wanted[at : at + kept]).abs().max()))
        at += kept
    assert cache_.length(sequence) == at
    return worst


def test_plain_decoding_equals_transformers_without_a_cache(family):
    assert [len(tokens) for tokens in known(family)] == [COUNT] * 3


def test_every_accepted_length_in_a_ragged_batch(family):
    slots = [0, 1, 2, 3, 4, None]
    runs = Decoder(target(family), scripted(family, lambda n: slots[n % 6])).generate(PROMPTS, COUNT)
    for run, tokens in zip(runs, known(family), strict=True):
        assert tuple(run.tokens) == tokens
        assert set(run.accepted) >= set(range(GAMMA + 1))


def test_a_batch_of_one_gives_the_same(family):
    slots = [None, 2, 0, 4, 1, 3]
    drafter = scripted(family, lambda n: slots[n % 6], (2,))
    run = Decoder(target(family), drafter).generate([PROMPTS[2]], COUNT)[0]
    assert tuple(run.tokens) == known(family)[2]


def test_stops_at_every_place_of_a_block(family):
    made = target(family)
    tokens = known(family)[1]
    try:
        for at in range(1, GAMMA + 2):
            made.stop_token_ids = frozenset({tokens[at]})
            drafter = scripted(family, lambda _: None, (1,))
            run = Decoder(made, drafter).generate([PROMPTS[1]], COUNT)[0]
            assert tuple(run.tokens) == tokens[: tokens.index(tokens[at]) + 1]
            assert run.finish == "stop"
    finally:
        made.stop_token_ids = frozenset()


def test_sequences_that_leave_a_batch_at_different_times(family):
    made, texts = target(family), known(family)
    made.stop_token_ids = frozenset({texts[0][7], texts[1][2]})
    try:
        slots = [1, None, 0, 3]
        runs = Decoder(made, scripted(family, lambda n: slots[n % 4])).generate(PROMPTS, COUNT)
    finally:
        made.stop_token_ids = frozenset()
    for run, tokens in zip(runs, texts, strict=True):
        ends = [i for i, token in enumerate(tokens) if token in (texts[0][7], texts[1][2])]
        assert tuple(run.tokens) == (tokens[: ends[0] + 1] if ends else tokens)


def test_streaming_gives_the_same():
    drafter = scripted("qwen3_5", lambda n: n % 4, (1,))
    chunks = list(Decoder(target("qwen3_5"), drafter).stream(PROMPTS[1], COUNT))
    assert tuple(chain(*chunks)) == known("qwen3_5")[1]
    assert len(chunks) > 5


def test_many_rounds_without_drift(family):
    assert drift(family, 14) < TOLERANCE


def test_rows_that_are_never_committed_leave_nothing_behind(family):
    made, tokens = target(family), text(60, seed=2)
    cache_ = made.new_cache()
    sequence = cache_.open()
    rows(made, cache_, sequence, tokens[:9], 0)
    rows(made, cache_, sequence, tokens[:40], 0)
    cache_.commit(sequence, range(33))
    wanted = rows(made, cache_, sequence, tokens[33:42], 33)
    rows(made, cache_, sequence, text(25, seed=3), 33)
    cache_.commit(sequence, ())
    assert torch.equal(rows(made, cache_, sequence, tokens[33:42], 33), wanted)
    assert float((wanted - whole(family, tuple(tokens))[33:42]).abs().max()) < TOLERANCE


def plain_states(family, tokens):
    """Embedding, and every layer's output, of transformers' own forward, by its input to the next module."""
    inner, seen = small_model(family).model, []

    def keep(_module, inputs, options):
        seen.append(inputs[0] if inputs else options["hidden_states"])

    after = inner.hc_head if hasattr(inner, "hc_head") else inner.norm
    hooks = [m.register_forward_pre_hook(keep, with_kwargs=True) for m in (*inner.layers, after)]
    with torch.inference_mode():
        small_model(family)(input_ids=torch.tensor([tokens]), use_cache=False)
    for hook in hooks:
        hook.remove()
    return [state[0].mean(1) if state.ndim == 4 else state[0] for state in seen]


def test_taps_and_chosen_logits_of_a_batch(family):
    """Taps are the next module's inputs, in the asked order; logits come in the order of `logit_rows`."""
    made = target(family)
    cache_ = made.new_cache()
    texts, ids = [text(n, seed=5) for n in (3, 40, 20)], [cache_.open() for _ in range(3)]
    batch = Batch(
        torch.tensor(list(chain(*texts))),
        torch.cat([torch.arange(len(t)) for t in texts]),
        (0, 3, 43, 63),
        tuple(ids),
        logit_rows=torch.tensor([50, 2, 42, 0, 62]),
    )
    with torch.inference_mode():
        logits, taps = made.forward(batch, cache_)
    single = torch.cat([whole(family, tuple(t)) for t in texts])
    torch.testing.assert_close(logits, single[batch.logit_rows], atol=TOLERANCE, rtol=0)
    for piece, tokens in zip(taps.split([3, 40, 20]), texts, strict=True):
        states = plain_states(family, tokens)
        wanted = torch.cat([states[-1], states[0], states[2]], -1)
        torch.testing.assert_close(piece, wanted, atol=TOLERANCE, rtol=1e-4)


def test_a_sequence_does_not_depend_on_its_batch(family):
    made, texts = target(family), [text(n, seed=6) for n in (7, 30)]
    alone = []
    for tokens in texts:
        cache_ = made.new_cache()
        alone.append(rows(made, cache_, cache_.open(), tokens, 0))
    cache_ = made.new_cache()
    positions = torch.cat([torch.arange(7), torch.arange(30)])
    batch = Batch(torch.tensor(list(chain(*texts))), positions, (0, 7, 37), (cache_.open(), cache_.open()))
    with torch.inference_mode():
        assert torch.equal(made.forward(batch, cache_)[0], torch.cat(alone))


def test_taps_at_the_entry_of_a_layer():
    """DeepSeek-V4.1's rule: what enters layer k, which is what leaves layer k - 1."""
    tokens = text(20)
    for family, usual in (("deepseek_v4", "stream_mean"), ("qwen3_5", "residual")):
        made = StatefulTarget(
            small_model(family), (2, 1, 0, -1), ("layer_input", usual, "layer_input", usual)
        )
        cache_ = made.new_cache()
        batch = Batch(torch.tensor(tokens), torch.arange(20), (0, 20), (cache_.open(),))
        with torch.inference_mode():
            before_two, after_one, before_zero, embedded = made.forward(batch, cache_)[1].chunk(4, -1)
        assert torch.equal(before_two, after_one)
        torch.testing.assert_close(before_zero, embedded)  # a mean over four equal streams


def test_qwen3_moe_runs_packed_too():
    """Its cache is keys and values, so that the packed adapter serves it; same outputs as one by one."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_config(small_config("qwen3_moe"))
    model.load_state_dict(small_model("qwen3_moe").state_dict())
    packed = HFTarget(model, (1,), stop_token_ids=frozenset())
    slots = [0, 1, 2, 3, 4, None]
    drafter = scripted("qwen3_moe", lambda n: slots[n % 6])
    runs = Decoder(packed, drafter).generate(PROMPTS, COUNT)
    assert [tuple(run.tokens) for run in runs] == list(known("qwen3_moe"))
    shape = (-1, -1, 0, 0, 1, 2)  # a tree whose paths are not consecutive rows
    texts = [[*prompt, *tokens] for prompt, tokens in zip(PROMPTS, known("qwen3_moe"), strict=True)]
    for node in range(-1, len(shape)):
        tree = ScriptedTreeDrafter(texts, 4, VOCABULARY, lambda s, n: shape, lambda s, n, node=node: node)
        runs = Decoder(packed, tree, tree_budget=8).generate(PROMPTS, COUNT)
        assert [tuple(run.tokens) for run in runs] == list(known("qwen3_moe"))


@pytest.mark.parametrize(
    ("family", "state", "message"),
    [
        (
            "deepseek_v4",
            "residual",
            "taps.state=residual: the target has residual streams, expected layer_input",
        ),
        ("qwen3_5", "stream_mean", "taps.state=stream_mean: the target has one residual stream"),
        ("qwen3_5", "post_norm", "taps.state=post_norm"),
    ],
)
def test_refuses_states_that_the_model_lacks(family, state, message):
    with pytest.raises(InputError, match=message):
        StatefulTarget(small_model(family), (1,), (state,))


def test_refuses_unknown_types_and_layers(monkeypatch):
    from conftest import random_model
    from truedraft.models import rewind

    with pytest.raises(InputError, match="target model_type: found 'llama', expected one of deepseek_v4"):
        StatefulTarget(random_model("llama"), ())
    monkeypatch.setattr(rewind, "PER_ROW", ())
    with pytest.raises(
        InputError, match="target cache layer 0: found DynamicIndexedLayer, expected one whose"
    ):
        StatefulCache(small_model("glm_moe_dsa").config).open()


def test_refuses_another_recurrence(monkeypatch):
    """A kernel that replaces transformers' own would leave the rollback without its inputs."""
    from transformers.models.qwen3_5 import modeling_qwen3_5

    target("qwen3_5")  # listens by now
    heard = modeling_qwen3_5.torch_chunk_gated_delta_rule
    monkeypatch.setattr(modeling_qwen3_5, "torch_chunk_gated_delta_rule", heard.__wrapped__)
    with monkeypatch.context() as patch:
        patch.setattr(heard.__wrapped__, "truedraft_heard", True, raising=False)
        with pytest.raises(InputError, match="heard 0 recurrences, expected 3"):
            StatefulTarget(small_model("qwen3_5"), ())


def test_a_chain_keeps_its_first_rows_only():
    made = target("glm_moe_dsa")
    cache_ = made.new_cache()
    sequence = cache_.open()
    rows(made, cache_, sequence, [5, 6, 7], 0)
    for bad in ([1], [0, 2], [0, 0], [3]):
        with pytest.raises(ValueError, match="commit"):
            cache_.commit(sequence, bad)
