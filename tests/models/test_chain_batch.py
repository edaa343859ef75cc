"""Chain drafters with several sequences at once, sampled, in a decoder, and what they leave in the cache."""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache

import pytest
import torch
from safetensors.torch import save_file
from test_chain_axes import (
    STEPS,
    TAPS,
    TOLERANCE,
    VOCABULARY,
    Make,
    Tiny,
    Watched,
    close,
    difference,
    random_tensor,
    run,
    shapes,
    speculators,
    tiny_pairs,
)

from conftest import random_model
from truedraft import Contract, resolve
from truedraft.decode import GREEDY, Decoder, Proposal, Round, Sampling, Seeded
from truedraft.measure.teacher_forced import features
from truedraft.models import ChainDrafter, HFTarget
from truedraft.models.chain import ChainCache

LENGTHS = (3, 9, 14, 26)

SETTINGS: dict[str, tuple[str, tuple[str, ...]]] = {
    "window and full": ("speculators", ()),
    "narrow windows": ("speculators", ("attention.window=2,4", "attention.window_rule=query")),
    "three layers": ("three layers", ("attention.window_rule=query", "chain.feedback=post_norm")),
    "same token": ("speculators", ("chain.token=same", "head.vocabulary_map=absolute")),
    "tap norms": ("tap norms", ("chain.norm_before_residual=true",)),
    "llama": ("llama", ("rope.scaling=yarn:factor=4:original_max_position_embeddings=16",)),
    "deepspec": ("deepspec", ()),
    "one draft": ("one layer", ("chain.steps=1",)),
    "longer than the context": ("speculators", ("chain.steps=12", "attention.window=4,none")),
}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Make:
    return tiny_pairs(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(params=SETTINGS)
def setting(request: pytest.FixtureRequest, tiny: Make) -> tuple[Tiny, Contract, dict, Watched]:
    """A pair with the drafter of one of `SETTINGS`."""
    variant, overrides = SETTINGS[request.param]
    pair = tiny(variant)
    return pair, *pair.drafter(overrides)


def draft(
    drafter: Watched, turns: Sequence[Round], cache_: ChainCache, *options: Sampling
) -> tuple[Proposal, torch.Tensor]:
    """The proposal and the hidden states behind it [B, steps, H]."""
    proposal, hidden, _ = drafter.watched(turns, cache_, *options)
    assert proposal.tokens.shape == (len(turns), drafter.proposals)
    assert proposal.lengths == (drafter.proposals,) * len(turns)
    assert proposal.parents is None
    assert proposal.confidence is None
    return proposal, hidden


def test_together_as_alone(setting):
    """Four sequences of different lengths in one propose, over three rounds, in changing order."""
    pair, _, _, drafter = setting
    together = drafter.new_cache()
    alone = [drafter.new_cache() for _ in LENGTHS]
    ids = [together.open() for _ in LENGTHS]
    single = [cache_.open() for cache_ in alone]
    fed = [0] * len(LENGTHS)
    for order, grow in (((0, 1, 2, 3), (0, 0, 0, 0)), ((2, 0, 3, 1), (1, 4, 2, 0)), ((3, 1), (0, 2, 0, 5))):
        goal = [max(n, done) + more for n, done, more in zip(LENGTHS, fed, grow, strict=True)]
        turns = [pair.round(ids[b], fed[b], goal[b], 11 * b) for b in order]
        proposal, hidden = draft(drafter, turns, together)
        for row, b in enumerate(order):
            own, own_hidden = draft(drafter, [pair.round(single[b], fed[b], goal[b], 11 * b)], alone[b])
            assert proposal.tokens[row].tolist() == own.tokens[0].tolist()
            close(hidden[row], own_hidden[0], TOLERANCE)
            assert together.length(ids[b]) == goal[b]
            fed[b] = goal[b]
    # not vacuous: the sequences differ
    assert float((hidden[0] - hidden[1]).abs().max()) > 1e-2


@pytest.mark.parametrize("cuts", [(1, 2, 12), (6, 7, 11, 12), tuple(range(1, 13))], ids=str)
def test_context_in_pieces(setting, cuts):
    """The last of several pieces leaves what the whole context leaves; between them chains come and go."""
    pair, _, _, drafter = setting
    results = []
    for steps in ((12,), cuts):
        cache_ = drafter.new_cache()
        sequence, fed = cache_.open(), 0
        for rows in steps:
            turn = pair.round(sequence, fed, rows)
            if rows % 2 == 0:
                proposal, hidden = draft(drafter, [turn], cache_)
            else:
                with torch.inference_mode():
                    drafter.extend([turn], cache_)
            fed = rows
        results.append((proposal.tokens, hidden, cache_.keys(sequence)[:, :, :12]))
    (tokens, hidden, keys), (other_tokens, other_hidden, other_keys) = results
    assert torch.equal(tokens, other_tokens)
    close(hidden, other_hidden, 1e-5)
    close(keys, other_keys, 1e-5)


def test_cache_holds_the_context_and_nothing_else(setting):
    """Afterwards the cache is as long as the context; proposing again without rows changes nothing."""
    pair, _, _, drafter = setting
    cache_ = drafter.new_cache()
    ids = [cache_.open() for _ in LENGTHS]
    rows = list(zip(ids, LENGTHS, strict=True))
    first, first_hidden = draft(drafter, [pair.round(s, 0, n) for s, n in rows], cache_)
    assert [cache_.length(s) for s in ids] == list(LENGTHS)
    kept = [(cache_.keys(s)[:, :, :n].clone(), cache_.values(s)[:, :, :n].clone()) for s, n in rows]
    again = [pair.round(s, n, n) for s, n in rows]
    for turns in (again, again[:1], again[::-1]):
        second, second_hidden = draft(drafter, turns, cache_)
        pick = [ids.index(turn.sequence) for turn in turns]
        assert torch.equal(first.tokens[pick], second.tokens)
        close(first_hidden[pick], second_hidden, 1e-5)
    for (s, n), (keys, values) in zip(rows, kept, strict=True):
        assert cache_.length(s) == n
        assert cache_.validity(s) is None
        assert torch.equal(cache_.keys(s)[:, :, :n], keys)
        assert torch.equal(cache_.values(s)[:, :, :n], values)


def test_closed_and_reopened(setting):
    """Closing frees a sequence and its last output; the others and later ones do not notice."""
    pair, _, _, drafter = setting
    cache_ = drafter.new_cache()
    staying, going = cache_.open(), cache_.open()
    turns = [pair.round(staying, 0, 6), pair.round(going, 0, 10, 11)]
    first, _ = draft(drafter, turns, cache_)
    cache_.close(going)
    assert set(cache_.recent) == {staying}
    coming = cache_.open()
    assert cache_.length(coming) == 0
    second, _ = draft(drafter, [pair.round(coming, 0, 10, 11), pair.round(staying, 6, 6)], cache_)
    assert second.tokens.tolist() == first.tokens.flip(0).tolist()
    third, _ = draft(drafter, [pair.round(staying, 6, 8)], cache_)
    fresh = drafter.new_cache()
    wanted, _ = draft(drafter, [pair.round(fresh.open(), 0, 8)], fresh)
    assert torch.equal(third.tokens, wanted.tokens)


def test_buffers_that_grow_at_every_turn(setting):
    """Also between the context's rows and the chain's."""
    pair, _, _, drafter = setting
    roomy, tight = drafter.new_cache(), drafter.new_cache()
    tight._initial_rows = 1
    ids, fed = (roomy.open(), tight.open()), 0
    for rows in (1, 2, 3, 5, 8):
        results = []
        for sequence, cache_ in zip(ids, (roomy, tight), strict=True):
            results.append(draft(drafter, [pair.round(sequence, fed, rows)], cache_))
        assert torch.equal(results[0][0].tokens, results[1][0].tokens)
        close(results[0][1], results[1][1], 1e-5)
        fed = rows


def test_rows_must_be_in_order(tiny):
    """A gap between the cache and the new rows is an error, not a shift of positions."""
    pair = tiny("speculators")
    _, _, drafter = pair.drafter()
    cache_ = drafter.new_cache()
    sequence = cache_.open()
    draft(drafter, [pair.round(sequence, 0, 6)], cache_)
    with torch.inference_mode(), pytest.raises(ValueError, match="position 7"):
        drafter.propose([pair.round(sequence, 7, 9)], cache_)
    assert cache_.length(sequence) == 6


@pytest.mark.parametrize(
    ("overrides", "rows"),
    [(("chain.steps=1",), 7), (("chain.steps=15",), 2), (("chain.steps=9",), 1)],
    ids=str,
)
def test_shortest_and_longest_chains(tiny, overrides, rows):
    """Against the reference: one draft, and chains that are longer than what they stand on."""
    long = run(tiny("speculators"), overrides, (rows,))
    usual = run(tiny("speculators"), (), (rows,))
    assert difference(long, usual) < 1e-5


# ------------------------------------------------------------------------------------------- sampling

SAMPLINGS = [Sampling(1.0), Sampling(0.6, top_k=7), Sampling(1.5, top_p=0.8)]


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
@pytest.mark.parametrize("name", ["window and full", "same token", "deepspec", "one draft"])
def test_laws_of_sampled_drafts(tiny, name, sampling):
    """Each draft's recorded law is that of the reference's logits behind the drafts drawn before it."""
    variant, overrides = SETTINGS[name]
    pair = tiny(variant)
    contract, weights, drafter = pair.drafter(overrides)
    cache_ = drafter.new_cache()
    lengths, greedy = (4, 10, 7), []
    turns = [
        replace(pair.round(cache_.open(), 0, n, 11 * b), chance=Seeded(3, b)) for b, n in enumerate(lengths)
    ]
    proposal, _ = draft(drafter, turns, cache_, sampling)
    for b, n in enumerate(lengths):
        tokens = proposal.tokens[b].tolist()
        wanted = pair.wanted(contract, weights, n, drafter.proposals, 11 * b, forced=tokens)
        law, chance = proposal.law(b), Seeded(3, b)
        ids = target_ids(contract, weights)
        for k, token in enumerate(tokens):
            narrow = sampling.law(wanted["logits"][k])
            spread = torch.zeros(VOCABULARY, dtype=torch.float64)
            for target_id, mass in zip(ids, narrow.tolist(), strict=True):
                spread[target_id] += mass
            found = law.dense(k, VOCABULARY)
            close(found, spread, TOLERANCE)
            assert float(found.sum()) == pytest.approx(1)
            assert float(found[token]) > 0
            assert ids[chance.draw(narrow)] == token
        alone = drafter.new_cache()
        turn = replace(pair.round(alone.open(), 0, n, 11 * b), chance=Seeded(3, b))
        assert draft(drafter, [turn], alone, sampling)[0].tokens[0].tolist() == tokens
        greedy.append(pair.wanted(contract, weights, n, drafter.proposals, 11 * b)["tokens"].tolist())
    assert drafter.proposals == 1 or proposal.tokens.tolist() != greedy


def target_ids(contract: Contract, weights: dict[str, torch.Tensor]) -> list[int]:
    """The target's id of every draft id."""
    kind = contract["head.vocabulary_map"]
    table = weights["d2t"].tolist() if kind != "none" else [0] * contract["head.vocabulary"]
    return [entry + (0 if kind == "absolute" else i) for i, entry in enumerate(table)]


def test_sampled_drafts_need_randomness(tiny):
    pair = tiny("speculators")
    _, _, drafter = pair.drafter()
    cache_ = drafter.new_cache()
    with pytest.raises(ValueError, match="randomness"):
        draft(drafter, [pair.round(cache_.open(), 0, 3)], cache_, Sampling(1.0))


# ------------------------------------------------------------------------------------------- decoding

COUNT = 24


@cache
def target(kind: str) -> HFTarget:
    return HFTarget(copy.deepcopy(random_model(kind)), (0, 2, 1), stop_token_ids=frozenset())


@cache
def prompts(batch: int) -> tuple[tuple[int, ...], ...]:
    generator = torch.Generator().manual_seed(12)
    lengths = (17, 1, 40)[:batch]
    return tuple(tuple(torch.randint(1, 256, (n,), generator=generator).tolist()) for n in lengths)


@cache
def plain(kind: str, batch: int) -> list[list[int]]:
    """The target's own greedy continuations."""
    return [one.tokens for one in Decoder(target(kind)).generate(prompts(batch), COUNT)]


class Helped(ChainDrafter):
    """Replaces some of the first drafts by the true ones, so that rounds of every length occur.

    `known`: prompt and continuation of the s-th opened sequence.
    """

    known: Sequence[Sequence[int]] = ()
    counts: Iterator[int] = iter(())

    def propose(self, rounds: Sequence[Round], cache: ChainCache, sampling: Sampling = GREEDY) -> Proposal:
        proposal = super().propose(rounds, cache, sampling)
        if not self.known:
            return proposal
        tokens = proposal.tokens.clone()
        for b, turn in enumerate(rounds):
            after = turn.anchor_position + 1
            right = self.known[turn.sequence][after : after + next(self.counts)]
            tokens[b, : len(right)] = torch.tensor(right, dtype=torch.int64)
        return Proposal(tokens, proposal.lengths)


@pytest.fixture(scope="module")
def drafter_for(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Helped]:
    """A random drafter with a reduced vocabulary for a random target, whose embedding it reads."""

    @cache
    def make(kind: str) -> Helped:
        root, model = tmp_path_factory.mktemp(kind), random_model(kind)
        width = model.config.hidden_size
        config = speculators({"draft_vocab_size": 48}, hidden_size=width, vocab_size=256)
        tensors = {}
        for name, shape in shapes(config).items():
            tensors[name] = random_tensor(name, (width, TAPS * width) if name == "fc.weight" else shape)
        del tensors["embed_tokens.weight"]
        tensors["d2t"] = 4 * torch.arange(48)  # every fifth id
        for directory, written in (("target", model.config.to_dict()), ("draft", config)):
            (root / directory).mkdir()
            (root / directory / "config.json").write_text(json.dumps(written, default=str))
        save_file(tensors, root / "draft/model.safetensors")
        resolution = resolve(root / "target", root / "draft", ["taps.layers=0,2,1"])
        assert not resolution.contract.unsettled
        assert resolution.contract["embedding.source"] == "target"
        with torch.inference_mode():
            return Helped(resolution.contract, tensors, target(kind).embedding, target(kind).head)

    return make


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("kind", ["qwen3", "llama"])
def test_greedy_decoding_is_lossless(drafter_for, kind, batch):
    """Whatever is accepted; and every round's own drafts are those of a drafter that is fed all at once."""
    drafter = drafter_for(kind)
    decoder = Decoder(target(kind), drafter, keep_drafts=True)
    generations = decoder.generate(prompts(batch), COUNT)
    assert [generation.tokens for generation in generations] == plain(kind, batch)
    for prompt, generation in zip(prompts(batch), generations, strict=True):
        text = torch.tensor([*prompt, *generation.tokens])
        with torch.inference_mode():
            taps = features(target(kind), text.tolist())
            for position, drafts in generation.drafts[::5]:
                cache_ = drafter.new_cache()
                rows = slice(0, position)
                turn = Round(
                    cache_.open(),
                    taps[rows],
                    text[rows],
                    text[1 : position + 1],
                    0,
                    text[position],
                    position,
                )
                found = drafter.propose([turn], cache_).tokens[0].tolist()
                assert found == list(drafts)


@pytest.mark.parametrize("tokens", [None, 2], ids=str)
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("kind", ["qwen3", "llama"])
def test_lossless_with_every_accepted_length(drafter_for, kind, batch, tokens):
    """The context then grows by one to K + 1 rows a round, after chains that were partly right."""
    drafter = copy.copy(drafter_for(kind))
    drafter.known = [
        [*prompt, *known] for prompt, known in zip(prompts(batch), plain(kind, batch), strict=True)
    ]
    drafter.counts = itertools.cycle((0, STEPS, 1, 3, 2))
    found = Decoder(target(kind), drafter, speculative_tokens=tokens).generate(prompts(batch), COUNT)
    assert [one.tokens for one in found] == plain(kind, batch)
    assert {n for one in found for n in one.accepted[:-1]} == set(range((tokens or STEPS) + 1))


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("kind", ["qwen3", "llama"])
def test_sampled_decoding_goes_with_the_targets_randomness(drafter_for, kind, batch):
    """`exact_match`: the same tokens as plain sampling, though the drafts are sampled as well."""
    options = {"sampling": Sampling(0.7), "verification": "exact_match", "seed": 4}
    wanted = Decoder(target(kind), **options).generate(prompts(batch), COUNT)
    decoder = Decoder(target(kind), drafter_for(kind), draft_sampling=Sampling(1.0), **options)
    found = decoder.generate(prompts(batch), COUNT)
    assert [one.tokens for one in found] == [one.tokens for one in wanted]
