"""Sampled output with draft trees has the target's law, exactly, whatever the trees hold."""

from __future__ import annotations

import itertools
import math
import random
from collections import defaultdict
from fractions import Fraction

import pytest
import torch
from enumeration import Paths, distance, every_path, law_of
from hypothesis import given, settings
from hypothesis import strategies as st
from table_pair import TableTarget, TreeTableDrafter, table, targets_law
from test_law import EXACT, World, continued, world
from test_law import targets_law as worlds_law

from truedraft.contract import InputError
from truedraft.decode import GREEDY, Decoder, Sampling, Tree, loop, walk

WARM = Sampling(1.0)

# One round.


def random_tree(seed: int, size: int, depth: int) -> Tree:
    """Any tree: siblings of the same token, branches that the drafter would never take."""
    rng = random.Random(seed)
    tokens: list[int] = []
    parents: list[int] = []
    for node in range(rng.randint(0, 9)):
        deeper = [-1, *(n for n in range(node) if Tree(tuple(tokens), tuple(parents)).depths[n] < depth)]
        parents.append(rng.choice(deeper))
        tokens.append(rng.randrange(size))
    return Tree(tuple(tokens), tuple(parents))


def prefixes(tree: Tree) -> list[tuple[int, ...]]:
    """The drafts on the path to each node."""
    out: list[tuple[int, ...]] = []
    for token, parent in zip(tree.tokens, tree.parents, strict=True):
        out.append((*out[parent], token) if parent >= 0 else (token,))
    return out


def one_round(here: World, tree: Tree, rule=walk):
    """A program: verify the tree; returns what is output and the accepted count."""

    def program(chance: Paths) -> tuple[tuple[int, ...], int]:
        known = [(), *prefixes(tree)]

        def draw(row: int) -> int:
            return chance.draw(torch.tensor([float(x) for x in here.p[known[row]]], dtype=torch.float64))

        nodes, token = rule(tree, draw)
        drafts = tuple(tree.tokens[node] for node in nodes)
        assert drafts == (prefixes(tree)[nodes[-1]] if nodes else ())
        return (*drafts, token), len(nodes)

    return program


def bias(here: World, program) -> float:
    """How far the output's law is from the target's."""
    return distance(continued(here, law_of(lambda chance: program(chance)[0])), worlds_law(here))


@st.composite
def cases(draw: st.DrawFn) -> tuple[World, Tree]:
    seed, size, depth = draw(st.integers(0, 2**32)), draw(st.integers(2, 4)), draw(st.integers(0, 3))
    return world(seed, size, depth), random_tree(seed, size, depth) if depth else Tree((), ())


@settings(max_examples=60)
@given(cases())
def test_output_has_the_targets_law(case):
    here, tree = case
    assert bias(here, one_round(here, tree)) < EXACT


@settings(max_examples=60)
@given(cases())
def test_a_node_is_reached_with_the_targets_probability_of_its_prefix(case):
    """Expected accepted depth = Σ p(prefix) over the distinct prefixes of the tree, in exact rationals."""
    here, tree = case
    found = math.fsum(
        probability * accepted for probability, (_, accepted) in every_path(one_round(here, tree))
    )
    # of siblings with the same token the first is taken, so that what hangs on the others is never reached
    first = {}
    reached = set()
    for node, place in enumerate(zip(tree.parents, tree.tokens, strict=True)):
        if first.setdefault(place, node) == node and (place[0] < 0 or place[0] in reached):
            reached.add(node)
    wanted = Fraction(0)
    for node in reached:
        prefix = prefixes(tree)[node]
        wanted += math.prod((here.p[prefix[:n]][token] for n, token in enumerate(prefix)), start=Fraction(1))
    assert found == pytest.approx(float(wanted), abs=EXACT)


# Controls: rules that the enumeration must see.


def draws_again_when_no_child_has_the_token(tree, choose):
    """A second chance for the drafts: biased towards the children."""
    asked = set()

    def twice(row):
        token = choose(row)
        children = {t for t, p in zip(tree.tokens, tree.parents, strict=True) if p == row - 1}
        if children and token not in children and row not in asked:
            asked.add(row)
            token = choose(row)
        return token

    return walk(tree, twice)


def stays_on_the_first_path_and_draws_behind_it(tree, choose):
    """Takes the first child whatever the target drew there."""
    if not tree.tokens:
        return (), choose(0)
    return (0,), choose(1)


SOFT = [world(seed, 3, 3, "full") for seed in range(6)]
SOFT_TREE = Tree((0, 1, 0, 2, 1), (-1, -1, 0, 0, 1))


def test_output_has_the_targets_law_where_the_controls_fail():
    assert max(bias(here, one_round(here, SOFT_TREE)) for here in SOFT) < EXACT


@pytest.mark.parametrize(
    "rule", [draws_again_when_no_child_has_the_token, stays_on_the_first_path_and_draws_behind_it]
)
def test_control_rules_that_favour_the_drafts(rule):
    found = [bias(here, one_round(here, SOFT_TREE, rule)) for here in SOFT]
    assert min(found) > 1e-3, found


# Whole outputs of the decoder.


def tables(seed: int, size: int, proposals: int, stop: frozenset[int] = frozenset()):
    rng = random.Random(seed)
    zeros = 0.1 if size > 2 else 0.0
    target = TableTarget(table(rng, size, zeros=zeros), stop)
    return target, TreeTableDrafter(table(rng, size, zeros=zeros), proposals)


def outputs(decoder: Decoder, prompts, count) -> tuple:
    return tuple((tuple(run.tokens), run.finish) for run in decoder.generate(prompts, count))


def law_of_decoder(target, drafter, prompts, count, **options):
    return law_of(
        lambda paths: outputs(
            Decoder(target, drafter, chances=lambda index, use: paths, **options), prompts, count
        )
    )


SETTINGS = [WARM, Sampling(0.7, top_k=2), Sampling(1.2, top_p=0.8), Sampling(1.5, top_k=2, top_p=0.9)]
SIZES = [(3, 2, 4), (2, 3, 5), (4, 1, 3)]  # vocabulary, depth, tokens


@pytest.mark.parametrize("sampling", SETTINGS, ids=str)
@pytest.mark.parametrize("budget", [1, 3, 6])
@pytest.mark.parametrize("sizes", SIZES)
def test_outputs_have_the_targets_law(sampling, budget, sizes):
    size, depth, count = sizes
    target, drafter = tables(sum(sizes), size, depth, frozenset({size - 1} if size > 2 else ()))
    found = law_of_decoder(target, drafter, [[0, 1]], count, sampling=sampling, tree_budget=budget)
    wanted = targets_law(target, sampling, [0, 1], count)
    assert len(wanted) > 2
    assert distance(found, {(output,): p for output, p in wanted.items()}) < EXACT


@pytest.mark.parametrize("seed", range(4))
def test_any_tree_keeps_the_law_to_the_context_limit(seed):
    target, drafter = tables(seed, 3, 3, frozenset({2}))
    target.max_positions = 5
    drafter.tree = random_tree(seed + 100, 3, 3)
    found = law_of_decoder(target, drafter, [[1]], 9, sampling=WARM, tree_budget=9)
    wanted = targets_law(target, WARM, [1], 9)
    assert {finish for _, finish in wanted} == {"stop", "context"}
    assert distance(found, {(output,): p for output, p in wanted.items()}) < EXACT


def test_sequences_of_a_batch_are_independent():
    target, drafter = tables(21, 2, 2, frozenset({1}))
    prompts = [[0], [1, 1]]
    found = law_of_decoder(target, drafter, prompts, 3, sampling=WARM, tree_budget=4)
    one, other = (targets_law(target, WARM, prompt, 3) for prompt in prompts)
    product = {(a, b): p * q for (a, p), (b, q) in itertools.product(one.items(), other.items())}
    assert distance(found, product) < EXACT


def test_control_the_decoder_with_a_biased_rule(monkeypatch):
    monkeypatch.setattr(loop, "walk", draws_again_when_no_child_has_the_token)
    target, drafter = tables(9, 3, 2)
    found = law_of_decoder(target, drafter, [[0, 1]], 4, sampling=WARM, tree_budget=3)
    wanted = targets_law(target, WARM, [0, 1], 4)
    assert distance(found, {(output,): p for output, p in wanted.items()}) > 1e-3


def test_sampled_trees_are_plain_sampling_token_for_token():
    accepted: dict[int, int] = defaultdict(int)
    for seed in range(30):
        rng = random.Random(seed)
        target = TableTarget(table(rng, 5), frozenset({4}))
        drafter = TreeTableDrafter(table(rng, 5), 3)
        prompts = [[0], [1, 2], [3]]
        plain = outputs(Decoder(target, sampling=WARM, seed=seed), prompts, 12)
        for budget in (1, 4, 12, 60):
            decoder = Decoder(target, drafter, sampling=WARM, tree_budget=budget, seed=seed)
            assert outputs(decoder, prompts, 12) == plain
            assert outputs(decoder, prompts[:1], 12) == plain[:1]
            accepted[budget] += sum(sum(run.accepted) for run in decoder.generate(prompts, 12))
    assert accepted[1] < accepted[4] < accepted[12] < accepted[60]


@pytest.mark.parametrize(("sampling", "message"), [(WARM, "found no law"), (GREEDY, "found NaN or infinite")])
def test_a_path_without_a_law_is_refused(sampling, message):
    target, drafter = tables(3, 3, 2)
    target.logits |= {pair: [math.nan] * 3 for pair in target.logits if pair != (0, 1)}
    with pytest.raises(InputError, match=message):
        Decoder(target, drafter, sampling=sampling, tree_budget=4).generate([[0, 1]], 4)


def test_rows_off_the_path_decide_nothing():
    """A wrong node's row may hold anything."""
    rng = random.Random(4)
    target = TableTarget(table(rng, 8, zeros=0.0))
    drafter = TreeTableDrafter(table(rng, 8), 2)
    plain = Decoder(target).generate([[0, 1]], 3)[0].tokens
    wrong = next(token for token in range(2, 8) if token not in plain)
    drafter.tree = Tree((wrong, wrong), (-1, 0))
    target.logits |= {pair: [math.nan] * 8 for pair in target.logits if wrong in pair}
    assert Decoder(target, drafter, tree_budget=4).generate([[0, 1]], 3)[0].tokens == plain
