"""Draft trees on the bundled pairs: lossless, and what they accept next to chains."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from test_tiny import BLOCKS, pair, plain, texts

from truedraft import Decoder, Generation
from truedraft.decode import Round, Sampling, grow, proposed_trees
from truedraft.measure.teacher_forced import features
from truedraft.models.branching import branchings

PROMPTS, TOKENS = 6, 48
BUDGETS = [8, 16, 32]


@cache
def runs(drafter: str, budget: int | None, temperature: float = 0.0) -> tuple[Generation, ...]:
    here = pair(drafter)
    sampling = Sampling(temperature)
    rule = None if sampling.greedy else "exact_match"
    decoder = Decoder(
        here.target, here.drafter, tree_budget=budget, sampling=sampling, verification=rule, seed=3
    )
    return tuple(decoder.generate(texts()[:PROMPTS], TOKENS))


@cache
def sampled(temperature: float) -> list[list[int]]:
    decoder = Decoder(pair("dflash").target, sampling=Sampling(temperature), seed=3)
    return [run.tokens for run in decoder.generate(texts()[:PROMPTS], TOKENS)]


def tau(found: tuple[Generation, ...]) -> float:
    return 1 + sum(sum(run.accepted) for run in found) / sum(len(run.accepted) for run in found)


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("drafter", BLOCKS)
def test_greedy_output_is_that_of_transformers(drafter, budget):
    found = runs(drafter, budget)
    assert [tuple(run.tokens) for run in found] == [plain(prompt, TOKENS) for prompt in texts()[:PROMPTS]]
    assert all(set(run.nodes) == {budget} for run in found)


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("drafter", ["dflash", "dspark"])
def test_sampled_output_is_that_of_plain_sampling(drafter, budget):
    assert [run.tokens for run in runs(drafter, budget, 1.0)] == sampled(1.0)
    assert tau(runs(drafter, budget, 1.0)) > 3


@pytest.mark.parametrize("drafter", BLOCKS)
@pytest.mark.parametrize("length", [1, 17, 300])
def test_prompts_of_every_length(drafter, length):
    here, longest = pair(drafter), max(texts(), key=len)
    prompt = (longest + plain(longest, 96))[-length:]
    run = Decoder(here.target, here.drafter, tree_budget=16).generate([prompt], 40)[0]
    assert tuple(run.tokens) == plain(prompt, 40)


@pytest.mark.parametrize("drafter", ["dflash", "dspark"])
def test_a_context_that_includes_the_anchor(drafter):
    """The target runs the anchor alone first; those rows are not kept twice."""
    here = pair(drafter, "context.end=through_anchor")
    assert here.drafter.needs_anchor_features
    found = Decoder(here.target, here.drafter, tree_budget=16).generate(texts()[:3], 32)
    assert [tuple(run.tokens) for run in found] == [plain(prompt, 32) for prompt in texts()[:3]]


@pytest.mark.parametrize("drafter", ["dflash", "dflash-full", "dspark"])
def test_larger_trees_accept_more_and_more_than_chains(drafter):
    chain, *trees = [tau(runs(drafter, budget)) for budget in (None, *BUDGETS)]
    assert trees == sorted(trees)
    # eight nodes are one more than the chain has: breadth is paid for with the chain's end, and may not pay
    assert trees[0] > 0.97 * chain
    assert trees[1] >= chain
    assert trees[2] > chain


@pytest.mark.parametrize("drafter", ["dflash", "dflash-full", "dspark"])
def test_a_tree_that_holds_the_chain_accepts_at_least_as_much(drafter):
    """Round by round on one text. A small tree may give up the chain's end for breadth, and lose by it."""
    here, prompt = pair(drafter), texts()[0]
    text = [*prompt, *plain(prompt, TOKENS)]
    with torch.inference_mode():
        taps, ids = features(here.target, text), torch.tensor(text)
        holding = 0
        for anchor in range(len(prompt), len(text) - 8):
            cache_ = here.drafter.new_cache()
            rows = (taps[:anchor], ids[:anchor], ids[1 : anchor + 1], 0, ids[anchor], anchor)
            turn = Round(cache_.open(), *rows)
            chain = here.drafter.propose([turn], cache_).tokens[0].tolist()
            empty = Round(turn.sequence, taps[:0], ids[:0], ids[:0], anchor, ids[anchor], anchor)
            tree = proposed_trees(here.drafter.propose_tree([empty], cache_, 32, 7))[0]
            paths: list[list[int]] = []
            for token, parent in zip(tree.tokens, tree.parents, strict=True):
                paths.append([*(paths[parent] if parent >= 0 else []), token])
            assert chain[0] == tree.tokens[0]
            if chain in paths:
                holding += 1
                truth = text[anchor + 1 : anchor + 8]
                assert max(map(lambda path: agreeing(path, truth), paths)) >= agreeing(chain, truth)
        assert holding > 20


def agreeing(drafts: list[int], truth: list[int]) -> int:
    return next((i for i, (a, b) in enumerate(zip(drafts, truth, strict=False)) if a != b), len(drafts))


@pytest.mark.parametrize("drafter", BLOCKS)
def test_a_peaked_drafter_and_one_node_per_slot_make_the_chain(drafter):
    here, prompt = pair(drafter), texts()[0]
    text = torch.tensor([*prompt, *plain(prompt, 4)])
    with torch.inference_mode():
        taps = features(here.target, text.tolist())
        anchor, cache_ = len(prompt), here.drafter.new_cache()
        rows = (taps[:anchor], text[:anchor], text[1 : anchor + 1], 0, text[anchor], anchor)
        turn = Round(cache_.open(), *rows)
        here.drafter.extend([turn], cache_)
        hidden = here.drafter.block([turn], cache_)
        depth = here.drafter.proposals
        law = branchings(here.drafter.readout, hidden, text[anchor : anchor + 1], 4, depth)[0]

        class Peaked:
            def children(self, path):
                return [
                    (100 * (value - law.children(path)[0][0]), token) for value, token in law.children(path)
                ]

        tree = grow(Peaked(), depth, depth)
        again = Round(turn.sequence, taps[:0], text[:0], text[:0], anchor, text[anchor], anchor)
        chain = here.drafter.propose([again], cache_).tokens[0].tolist()
    assert list(tree.tokens) == chain
    assert tree.parents == tuple(range(-1, depth - 1))
