"""Laws from logits (oracle: transformers' logits warpers), seeded randomness, drafts that know their law."""

from __future__ import annotations

import copy
import dataclasses
import math
import random
from pathlib import Path

import pytest
import torch
from enumeration import every_path, law_of
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

import truedraft
from truedraft.contract import InputError
from truedraft.decode import GREEDY, DraftLaw, Drafts, Proposal, Sampling, Seeded, sampling, verify_sampled

rows = st.lists(
    st.one_of(st.integers(-4, 4).map(float), st.floats(-30, 30, width=32)), min_size=1, max_size=12
).map(torch.tensor)
temperatures = st.sampled_from([0.05, 0.3, 1.0, 1.7, 20.0])
top_ps = st.one_of(st.just(1.0), st.floats(0.001, 0.999))


def warped(logits: torch.Tensor, settings: Sampling) -> torch.Tensor:
    scores = TemperatureLogitsWarper(settings.temperature)(None, logits.double()[None])
    if settings.top_k:
        scores = TopKLogitsWarper(settings.top_k)(None, scores)
    if settings.top_p < 1:
        scores = TopPLogitsWarper(settings.top_p)(None, scores)
    return scores.softmax(-1)[0]


def on_an_edge(logits: torch.Tensor, settings: Sampling) -> bool:
    """Whether rounding decides what top-p keeps."""
    mass = warped(logits, dataclasses.replace(settings, top_p=1.0)).sort(descending=True).values.cumsum(-1)
    return bool(((mass - settings.top_p).abs() < 1e-9).any())


@given(rows, temperatures, st.integers(0, 14), top_ps)
def test_law_is_that_of_the_transformers_warpers(logits, temperature, top_k, top_p):
    own = Sampling(temperature, top_k, top_p)
    assume(not on_an_edge(logits, own))
    law, wanted = own.law(logits), warped(logits, own)
    # among tokens of equal probability at top-p's edge either may stay: torch's sort there is not stable
    torch.testing.assert_close(law.sort().values, wanted.sort().values, atol=1e-12, rtol=0)
    if len(set(logits.tolist())) == len(logits):
        torch.testing.assert_close(law, wanted, atol=1e-12, rtol=0)


def test_law_of_ties_at_top_k_keeps_them_all_and_at_top_p_the_first():
    logits = torch.tensor([1.0, 2.0, 2.0, 2.0, 0.0])
    assert Sampling(1.0, top_k=2).law(logits).tolist() == pytest.approx([0, 1 / 3, 1 / 3, 1 / 3, 0])
    torch.testing.assert_close(Sampling(1.0, top_k=2).law(logits), warped(logits, Sampling(1.0, 2)))
    assert Sampling(1.0, top_p=0.4).law(logits).tolist() == pytest.approx([0, 1 / 2, 1 / 2, 0, 0])


@given(rows, temperatures, st.integers(0, 14), top_ps)
def test_law_properties(logits, temperature, top_k, top_p):
    law = Sampling(temperature, top_k, top_p).law(logits)
    assert law.dtype == torch.float64
    assert (law >= 0).all()
    assert float(law.sum()) == pytest.approx(1, abs=1e-12)
    assert float(law[logits.argmax()]) == float(law.max()) > 0
    kept = law > 0
    if kept.any() and not kept.all():
        assert law[kept].min() > 0
        assert logits[kept].min() >= logits[~kept].max()
    if top_k:
        assert (logits[kept] > logits.sort(descending=True).values[min(top_k, len(logits)) - 1]).sum() < top_k


@given(rows, temperatures, st.integers(0, 14))
def test_tiny_top_p_keeps_exactly_the_top_token(logits, temperature, top_k):
    law = Sampling(temperature, top_k, 1e-9).law(logits)
    assert sorted(law.tolist()) == [0.0] * (len(logits) - 1) + [1.0]
    everything = Sampling(temperature).law(logits)  # the argmax, or one that cannot be told from it
    assert float(everything[law.argmax()]) == float(everything.max())


@given(rows)
def test_cold_laws_tend_to_the_argmax(logits):
    one_hot = GREEDY.law(logits)
    assert one_hot.tolist() == [float(i == logits.argmax()) for i in range(len(logits))]
    assert Sampling(9.9e-6).greedy
    assert Sampling(9.9e-6, 3, 0.5).law(logits).equal(one_hot)
    assert not Sampling(1e-5).greedy
    shares = [float(Sampling(t).law(logits).max()) for t in (10.0, 1.0, 0.1, 0.01)]
    assert shares == sorted(shares) or shares == pytest.approx(sorted(shares))
    best = logits.topk(min(2, len(logits))).values
    if len(best) == 1 or best[0] - best[1] > 0.01:
        torch.testing.assert_close(Sampling(1e-4).law(logits), one_hot, atol=1e-12, rtol=0)


def test_laws_of_a_block_are_the_laws_of_its_rows():
    logits = torch.randn(3, 4, 9, generator=torch.Generator().manual_seed(0))
    for own in (GREEDY, Sampling(0.8, 4, 0.7)):
        law = own.law(logits)
        for index in [(0, 0), (2, 3), (1, 2)]:
            torch.testing.assert_close(law[index], own.law(logits[index]), atol=1e-15, rtol=0)


@pytest.mark.parametrize(
    "bad",
    [
        {"temperature": -0.1},
        {"temperature": math.nan},
        {"temperature": math.inf},
        {"top_k": -1},
        {"top_p": 0.0},
        {"top_p": 1.01},
        {"top_p": -1.0},
        {"top_p": math.nan},
    ],
)
def test_bad_values_are_refused_in_one_line(bad):
    with pytest.raises(InputError, match=next(iter(bad)).replace("_", "-")) as caught:
        Sampling(**bad)
    assert "\n" not in str(caught.value)
    assert "expected" in str(caught.value)


# Seeded randomness.


def uniform(size: int) -> torch.Tensor:
    return torch.ones(size, dtype=torch.float64)


def test_a_seed_gives_the_same_draws_and_streams_differ():
    def draws(*key):
        chance = Seeded(*key)
        return [chance.draw(uniform(1000)) for _ in range(8)] + [chance.coin(0.5) for _ in range(8)]

    assert draws(3, 0, "target") == draws(3, 0, "target")
    keys = [(3, 0, "target"), (3, 0, "drafter"), (3, 1, "target"), (4, 0, "target"), (31, 0), (3, 10)]
    assert len({tuple(draws(*key)) for key in keys}) == len(keys)
    chance = Seeded(0, 0, "target")  # recorded once: the same on every machine
    assert [chance.draw(uniform(1000)) for _ in range(4)] == RECORDED


RECORDED = [509, 285, 582, 765]
TINY = 5e-324
EDGES = [
    [1.0],
    [0.0, 1.0],
    [1.0, 0.0],
    [0.0, 0.0, 0.3, 0.0, 0.7, 0.0, 0.0],
    [0.0, TINY, 0.0],
    [TINY, 0.0, TINY, 0.0],
    [0.0, TINY, 1.0, TINY, 0.0],
    [1.0, 1e-17, 0.0],
    [1e-300, 0.0, 1e300, 0.0],
    [0.1] * 10 + [0.0],
]


@pytest.mark.parametrize("point", [0.0, 2.0**-53, 0.1, 0.5, 0.999, 1 - 2.0**-53])
@pytest.mark.parametrize("weights", EDGES)
def test_a_draw_has_weight(weights, point, monkeypatch):
    class Fixed(random.Random):
        def random(self):
            return point

    monkeypatch.setattr(sampling.random, "Random", Fixed)
    assert weights[Seeded(0).draw(torch.tensor(weights, dtype=torch.float64))] > 0


def test_draws_from_a_large_vocabulary_have_weight():
    generator = torch.Generator().manual_seed(1)
    weights = torch.rand(150_000, generator=generator, dtype=torch.float64) ** 30
    weights[torch.rand(150_000, generator=generator) < 0.9] = 0
    sums, chance = weights.cumsum(-1), Seeded(2)
    assert (sums[1:] >= sums[:-1]).all()
    assert (sums[1:] == sums[:-1])[weights[1:] == 0].all()
    assert all(weights[chance.draw(weights)] > 0 for _ in range(300))


def p_value(counts: list[int], law: list[float]) -> float:
    total = sum(counts)
    pairs = [(n, total * p) for n, p in zip(counts, law, strict=True) if p]
    statistic = sum((n - expected) ** 2 / expected for n, expected in pairs)
    degrees = torch.tensor([(len(pairs) - 1) / 2, statistic / 2], dtype=torch.float64)
    return float(torch.special.gammaincc(degrees[0], degrees[1]))


def test_frequencies_are_right():
    weights = torch.tensor([0.0, 3.0, 0.5, 0.0, 1.0, 1.5, 0.0], dtype=torch.float64)
    chance, counts, heads = Seeded(7), [0] * 7, 0
    for _ in range(6000):
        counts[chance.draw(weights)] += 1
        heads += chance.coin(0.3)
    assert p_value(counts, (weights / 6).tolist()) > 1e-3
    assert p_value([heads, 6000 - heads], [0.3, 0.7]) > 1e-3
    assert not any(Seeded(i).coin(0.0) for i in range(50))
    assert all(Seeded(i).coin(1.0) for i in range(50))


# Drafts and the law that they were drawn from.


class Recorder:
    """Seeded draws whose weights are kept."""

    def __init__(self, seed: int) -> None:
        self._chance, self.weights, self.drawn = Seeded(seed), [], []

    def draw(self, weights: torch.Tensor) -> int:
        self.weights.append(weights.clone())
        self.drawn.append(self._chance.draw(weights))
        return self.drawn[-1]


def test_a_law_cannot_be_made_outside_drafts():
    for maker in (None, object(), Drafts, "Drafts"):
        with pytest.raises(TypeError, match="Drafts"):
            DraftLaw([0], torch.ones(1, 2, dtype=torch.float64), None, maker)


def test_a_proposal_cannot_be_given_laws():
    tokens = torch.zeros(1, 2, dtype=torch.int64)
    with pytest.raises(TypeError, match="laws"):
        Proposal(tokens, (2,), laws=())
    with pytest.raises(TypeError):
        Proposal(tokens, (2,), None, None, ())
    drawn = sampled(torch.zeros(1, 2, 4), 0)[0]
    with pytest.raises(dataclasses.FrozenInstanceError):
        drawn.laws = ()
    with pytest.raises((TypeError, ValueError), match="laws"):
        dataclasses.replace(Proposal(tokens, (2,)), laws=drawn.laws)
    assert dataclasses.replace(drawn, tokens=tokens).law(0) is None, "other tokens keep no law"
    assert copy.copy(drawn).law(0) is drawn.law(0)


@pytest.mark.parametrize("method", ["standard", "block"])
def test_a_law_answers_for_no_other_drafts(method):
    """Tokens changed after they were drawn, or taken from another round, are refused: no backdoor needed."""
    proposal, _ = sampled(torch.zeros(2, 2, 4), 0)
    law, drawn = proposal.law(0), proposal.tokens[0].tolist()
    p_target = torch.full((3, 4), 0.25, dtype=torch.float64)
    verify_sampled(drawn, p_target, law, Seeded(1), method)
    verify_sampled(drawn[:1], p_target[:2], law, Seeded(1), method)
    proposal.tokens.copy_((proposal.tokens + 1) % 4)
    with pytest.raises(ValueError, match="were not drawn from this law"):
        verify_sampled(proposal.tokens[0].tolist(), p_target, law, Seeded(1), method)


def test_no_other_module_makes_laws():
    source = Path(truedraft.__file__).parent
    for path in source.rglob("*.py"):
        text = path.read_text()
        if path.name != "drafts.py":
            assert "_MAKER" not in text, path
            assert "DraftLaw(" not in text, path
            assert '"laws"' not in text, path


def sampled(
    logits: torch.Tensor, seed: int, own: Sampling | None = None, target_ids: torch.Tensor | None = None
) -> tuple[Proposal, list[Recorder]]:
    chances = [Recorder(seed + i) for i in range(len(logits))]
    drafts = Drafts(own or Sampling(1.0), chances, target_ids)
    drafts.choose_all(logits)
    return drafts.proposal(), chances


@pytest.mark.parametrize("target_ids", [None, torch.tensor([5, 0, 9, 2])])
@settings(max_examples=30)
@given(st.integers(0, 2**30), temperatures, st.integers(0, 4), top_ps)
def test_every_law_is_the_one_drawn_from_and_allows_its_token(target_ids, seed, temperature, top_k, top_p):
    logits = 3 * torch.randn(3, 2, 4, generator=torch.Generator().manual_seed(seed))
    own = Sampling(temperature, top_k, top_p)
    proposal, chances = sampled(logits, seed, own, target_ids)
    vocabulary = 4 if target_ids is None else 11
    shorter = proposal.shortened([1, 2, 0])
    assert shorter.lengths == (1, 2, 0)
    for b, chance in enumerate(chances):
        law = proposal.law(b)
        assert law is not None
        assert shorter.law(b) is law
        for slot in range(2):
            dense = law.dense(slot, vocabulary)
            assert dense.shape == (vocabulary,)
            token, index = int(proposal.tokens[b, slot]), chance.drawn[slot]
            assert token == (index if target_ids is None else int(target_ids[index]))
            assert dense[token] > 0
            places = torch.arange(4) if target_ids is None else target_ids
            assert dense[places].equal(chance.weights[slot])
            assert float(dense.sum()) == pytest.approx(1, abs=1e-12)
            torch.testing.assert_close(chance.weights[slot], own.law(logits[b, slot]), atol=1e-15, rtol=0)


def test_drafts_are_distributed_as_their_law():
    """Every path of two slots, the second's logits depending on the first's token."""
    table = torch.randn(5, 4, generator=torch.Generator().manual_seed(3))

    def program(chance):
        drafts = Drafts(Sampling(1.3, top_p=0.9), [chance])
        first = int(drafts.choose(table[4:])[0])
        drafts.choose(table[first : first + 1])
        proposal = drafts.proposal()
        law = proposal.law(0)
        return tuple(proposal.tokens[0].tolist()), float(
            law.dense(0, 4)[proposal.tokens[0, 0]] * law.dense(1, 4)[proposal.tokens[0, 1]]
        )

    total = 0.0
    for probability, (_, told) in every_path(program):
        assert told == pytest.approx(probability, abs=1e-15)
        total += probability
    assert total == pytest.approx(1, abs=1e-12)
    assert len(law_of(program)) > 4


def test_seeded_drafts_are_distributed_as_their_law():
    logits = torch.randn(1, 1, 6, generator=torch.Generator().manual_seed(4))
    chance, counts = Seeded(9), [0] * 6
    for _ in range(3000):
        drafts = Drafts(Sampling(1.0), [chance])
        counts[int(drafts.choose_all(logits))] += 1
    law = drafts.proposal().law(0)
    assert law is not None
    assert p_value(counts, law.dense(0, 6).tolist()) > 1e-3


@pytest.mark.parametrize("own", [GREEDY, Sampling(1e-6)])
def test_greedy_drafts_are_the_argmax_and_have_no_law(own):
    logits = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(5))
    together, one_by_one = Drafts(own, [None, None]), Drafts(own)
    together.choose_all(logits)
    for slot in range(3):
        one_by_one.choose(logits[:, slot])
    for drafts in (together, one_by_one):
        proposal = drafts.proposal()
        assert proposal.tokens.equal(logits.argmax(-1))
        assert [proposal.law(b) for b in range(2)] == [None, None]


@pytest.mark.parametrize("chances", [[], [None], [Seeded(0), None]])
def test_sampled_drafts_need_randomness(chances):
    with pytest.raises(ValueError, match="randomness"):
        Drafts(Sampling(1.0), chances)


def test_a_batch_needs_one_source_each():
    with pytest.raises(ValueError, match="zip"):
        Drafts(Sampling(1.0), [Seeded(0)]).choose(torch.zeros(2, 3))


@pytest.mark.parametrize("weights", [[0.0, 0.0], [math.nan, 1.0], [1.0, math.inf]])
def test_no_law_no_draw(weights):
    with pytest.raises(InputError, match="found no law to draw from"):
        Seeded(0).draw(torch.tensor(weights, dtype=torch.float64))
