"""Sampled verification keeps the target's law, exactly: every path of drafting and verifying is walked.

Laws are dyadic rationals (sixteenths), so that what is expected is exact. What is found comes from float64
products of at most a dozen factors and is compared to 1e-12.
"""

from __future__ import annotations

import itertools
import json
import math
import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import pytest
import torch
from enumeration import Paths, distance, every_path, law_of
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

from conftest import GOLDENS
from truedraft.contract import InputError
from truedraft.decode import DraftLaw, Drafts, Proposal, Sampling, Seeded, drafts, verify, verify_sampled

EXACT = 1e-12
METHODS = ["standard", "block", "exact_match"]
DRAFTING = ["sampled", "greedy"]
KINDS = ["free", "full", "equal", "near", "disjoint", "one-hot q", "one-hot p", "both one-hot"]

Prefix = tuple[int, ...]
Row = tuple[Fraction, ...]


@dataclass(repr=False)
class World:
    """A target and a drafter whose laws depend on all drafted tokens.

    `p`: over target ids. `q`: over draft ids, which stand for `target_ids`. `halts`: prefixes behind which
    no further draft counts.
    """

    size: int
    depth: int
    p: dict[Prefix, Row]
    q: dict[Prefix, Row]
    target_ids: tuple[int, ...] | None = None
    halts: frozenset[Prefix] = frozenset()
    made_by: str = ""

    def __repr__(self) -> str:
        return self.made_by

    def drafter_law(self, prefix: Prefix, drafting: str) -> Row:
        """What the next draft is drawn from, over target ids."""
        law = [Fraction(0)] * self.size
        row = self.q[prefix]
        if drafting == "greedy":
            best = row.index(max(row))
            row = tuple(Fraction(i == best) for i in range(len(row)))
        for index, value in enumerate(row):
            law[self.target_ids[index] if self.target_ids else index] += value
        return tuple(law)

    def counted(self, prefix: Prefix) -> bool:
        """Whether all drafts of this prefix count."""
        return not any(prefix[:i] in self.halts for i in range(len(prefix)))


def sixteenths(rng: random.Random, ids: list[int], size: int, *, full: bool = False) -> Row:
    """A random law; its support is `ids`, or random among them."""
    support = rng.sample(ids, len(ids) if full else rng.randint(1, len(ids)))
    cuts = [0, *sorted(rng.sample(range(1, 16), len(support) - 1)), 16]
    row = [Fraction(0)] * size
    for index, low, high in zip(support, cuts, cuts[1:], strict=False):
        row[index] = Fraction(high - low, 16)
    return tuple(row)


def pair_of_laws(rng: random.Random, size: int, kind: str) -> tuple[Row, Row]:
    """p and q of one prefix."""
    everything = list(range(size))
    p, q = (sixteenths(rng, everything, size, full=kind in ("full", "equal", "near")) for _ in range(2))
    one_hot = sixteenths(rng, [rng.randrange(size)], size)
    if kind == "equal":
        q = p
    elif kind == "near":
        source = p.index(max(p))
        moved = list(p)
        moved[source] -= Fraction(1, 64)
        moved[(source + 1) % size] += Fraction(1, 64)
        q = tuple(moved)
    elif kind == "disjoint":
        share = rng.randint(1, size - 1)
        rng.shuffle(everything)
        p, q = (sixteenths(rng, ids, size) for ids in (everything[:share], everything[share:]))
    elif kind == "one-hot q":
        q = one_hot
    elif kind == "one-hot p":
        p = one_hot
    elif kind == "both one-hot":
        p, q = one_hot, sixteenths(rng, [rng.randrange(size)], size)
    return p, q


def world(
    seed: int, size: int, depth: int, kind: str = "mixed", *, reduced: bool = False, cut: bool = False
) -> World:
    rng = random.Random(seed)
    prefixes = [x for n in range(depth + 1) for x in itertools.product(range(size), repeat=n)]
    made = World(size, depth, {}, {})
    made.made_by = f"world({seed}, {size}, {depth}, {kind!r}, {reduced=}, {cut=})"
    for prefix in prefixes:
        own = rng.choice([*KINDS, "full", "full", "full"]) if kind == "mixed" else kind
        made.p[prefix], made.q[prefix] = pair_of_laws(rng, size, own)
    if reduced:
        made.target_ids = tuple(rng.sample(range(size), rng.randint(1, size - 1)))
        count = len(made.target_ids)
        made.q = {prefix: sixteenths(rng, list(range(count)), count) for prefix in prefixes}
    if cut:
        made.halts = frozenset(x for x in prefixes if rng.random() < 0.35)
    return made


@st.composite
def worlds(draw: st.DrawFn) -> World:
    seed, size, depth = draw(st.integers(0, 2**32)), draw(st.integers(2, 4)), draw(st.integers(0, 3))
    kind = draw(st.sampled_from(["mixed", *KINDS]))
    return world(seed, size, depth, kind, reduced=draw(st.booleans()), cut=draw(st.booleans()))


def logits(row: Row) -> torch.Tensor:
    return torch.tensor([[math.log(x) if x else -math.inf for x in row]], dtype=torch.float64)


def propose(world: World, chance: Paths, drafting: str) -> Proposal:
    """Drafts made by the real class; slot by slot, each law depending on the drafts before it."""
    sampling = Sampling(1.0) if drafting == "sampled" else Sampling()
    ids = torch.tensor(world.target_ids) if world.target_ids else None
    chooser = Drafts(sampling, [chance], ids)
    prefix: Prefix = ()
    for _ in range(world.depth):
        prefix = (*prefix, int(chooser.choose(logits(world.q[prefix]))))
    proposal = chooser.proposal()
    return proposal.shortened([next((n for n in range(world.depth) if prefix[:n] in world.halts), 99)])


def one_round(
    world: World, method: str, drafting: str, propose: Callable[[World, Paths, str], Proposal] = propose
) -> Callable[[Paths], tuple[Prefix, int]]:
    """A program: draft, verify; returns what is output and the accepted count."""

    def program(chance: Paths) -> tuple[Prefix, int]:
        tokens: Prefix = ()
        law = None
        if world.depth:
            proposal = propose(world, chance, drafting)
            tokens, law = tuple(proposal.tokens[0, : proposal.lengths[0]].tolist()), proposal.law(0)
            if drafting == "sampled":
                assert law is not None
        rows = [[float(x) for x in world.p[tokens[:n]]] for n in range(len(tokens) + 1)]
        p_target = torch.tensor(rows, dtype=torch.float64)
        accepted, token = verify_sampled(tokens, p_target, law, chance, method)
        return (*tokens[:accepted], token), accepted

    return program


def continued(world: World, emitted: dict[Prefix, float]) -> dict[Prefix, float]:
    """The law of the first K + 1 tokens when the target alone goes on behind a round."""
    reached: dict[Prefix, float] = defaultdict(float, emitted)
    for n in range(1, world.depth + 1):
        for prefix in itertools.product(range(world.size), repeat=n):
            for token, p in enumerate(world.p[prefix]):
                reached[(*prefix, token)] += reached[prefix] * float(p)
    return {x: v for x, v in reached.items() if len(x) == world.depth + 1}


def targets_law(world: World) -> dict[Prefix, float]:
    law = {}
    for tokens in itertools.product(range(world.size), repeat=world.depth + 1):
        law[tokens] = float(math.prod(world.p[tokens[:n]][token] for n, token in enumerate(tokens)))
    return law


def bias(world: World, program: Callable[[Paths], tuple[Prefix, int]]) -> float:
    """How far the output's law is from the target's."""
    emitted = law_of(lambda chance: program(chance)[0])
    return distance(continued(world, emitted), targets_law(world))


def accepted_at_least(program: Callable[[Paths], tuple[Prefix, int]], depth: int) -> list[float]:
    """P(accepted >= i) for i = 1 … K."""
    counts = [0.0] * (depth + 1)
    for probability, (_, accepted) in every_path(program):
        counts[accepted] += probability
    return [math.fsum(counts[i:]) for i in range(1, depth + 1)]


def expected_at_least(world: World, drafting: str, method: str) -> list[Fraction]:
    """P(accepted >= i), from the definition of each rule, in exact rationals.

    A prefix x of i drafts is drafted with Π q and stays with: standard Π min(1, p/q); block w_i, where
    w_i = min(1, w_{i-1} p/q); exact match Π p.
    """
    out = []
    for i in range(1, world.depth + 1):
        total = Fraction(0)
        for prefix in itertools.product(range(world.size), repeat=i):
            if not world.counted(prefix):
                continue
            drafted = stays = Fraction(1)
            for n, token in enumerate(prefix):
                p, q = world.p[prefix[:n]][token], world.drafter_law(prefix[:n], drafting)[token]
                drafted *= q
                if not drafted:
                    break
                if method == "standard":
                    stays *= min(Fraction(1), p / q)
                elif method == "block":
                    stays = min(Fraction(1), stays * p / q)
                else:
                    stays *= p
            total += drafted * stays
        out.append(total)
    return out


@pytest.mark.parametrize("drafting", DRAFTING)
@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=20)
@given(worlds())
def test_output_has_the_targets_law(method, drafting, world):
    assert bias(world, one_round(world, method, drafting)) < EXACT


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("drafting", DRAFTING)
@pytest.mark.parametrize("method", METHODS)
def test_output_has_the_targets_law_in_hard_cases(method, drafting, kind):
    for size, depth in ((2, 3), (3, 2), (4, 2)):
        for cut in (False, True):
            here = world(size, size, depth, kind, cut=cut)
            assert bias(here, one_round(here, method, drafting)) < EXACT


SOFT = [world(seed, 3, 3, "full") for seed in range(6)]
"""No zeros, three drafts: the controls below are seen in these."""


@pytest.mark.parametrize("method", METHODS)
def test_output_has_the_targets_law_where_the_controls_fail(method):
    for here in SOFT:
        assert bias(here, one_round(here, method, "sampled")) < EXACT


@pytest.mark.parametrize("drafting", DRAFTING)
@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=20)
@given(worlds())
def test_accepted_counts_are_those_of_the_rule(method, drafting, world):
    found = accepted_at_least(one_round(world, method, drafting), world.depth)
    wanted = [float(x) for x in expected_at_least(world, drafting, method)]
    assert found == pytest.approx(wanted, abs=EXACT)


@settings(max_examples=20)
@given(worlds())
def test_block_accepts_most_and_exact_match_least(world):
    for drafting in DRAFTING:
        block, standard, exact = (
            sum(accepted_at_least(one_round(world, method, drafting), world.depth))
            for method in ("block", "standard", "exact_match")
        )
        assert exact - EXACT <= standard <= block + EXACT
        if world.depth == 1 or drafting == "greedy":  # min(1, p/q) is all that matters, or never exceeds 1
            assert block == pytest.approx(standard, abs=EXACT)
        if drafting == "greedy":  # q is one-hot: agreeing with the target's own draw is all there is
            assert exact == pytest.approx(standard, abs=EXACT)


def test_block_gains_where_a_ratio_above_one_follows_one_below():
    half, low = (Fraction(1, 2), Fraction(1, 2)), (Fraction(1, 4), Fraction(3, 4))
    prefixes = [x for n in range(3) for x in itertools.product(range(2), repeat=n)]
    here = World(2, 2, dict.fromkeys(prefixes, half), dict.fromkeys(prefixes, half))
    here.q[()], here.p[1,], here.q[1,] = low, low, low[::-1]
    standard, block = (
        sum(accepted_at_least(one_round(here, method, "sampled"), 2)) for method in ("standard", "block")
    )
    # drafts (1, 1): 3/4 * 1/4 likely, ratios 2/3 and 3: kept with 2/3 and with min(1, 2)
    assert block - standard == pytest.approx(3 / 16 * (1 - 2 / 3), abs=EXACT)


# Controls: faults that the enumeration must see.


def argmax_scored_as_sampled(world: World, chance: Paths, drafting: str) -> Proposal:
    """The fault that `Drafts` makes impossible, by its private marker."""
    chooser, laws, prefix = Drafts(), [], ()
    for _ in range(world.depth):
        laws.append(logits(world.q[prefix])[0].exp())
        prefix = (*prefix, int(chooser.choose(logits(world.q[prefix]))))
    proposal = chooser.proposal()
    law = DraftLaw(proposal.tokens[0].tolist(), torch.stack(laws), None, drafts._MAKER)
    object.__setattr__(proposal, "laws", (law,))
    return proposal


def cut_by_the_draft_itself(world: World, chance: Paths, drafting: str) -> Proposal:
    """An anticipating rule: whether a draft counts depends on that draft."""
    proposal = propose(world, chance, drafting)
    tokens = proposal.tokens[0].tolist()
    return proposal.shortened([next((n for n, token in enumerate(tokens) if token == 0), 99)])


@pytest.mark.parametrize("fault", [argmax_scored_as_sampled, cut_by_the_draft_itself])
@pytest.mark.parametrize("method", ["standard", "block"])
def test_control_drafts_that_are_not_from_their_law(method, fault):
    found = [bias(here, one_round(here, method, "sampled", fault)) for here in SOFT]
    assert max(found) > 1e-2
    assert sum(x > 1e-3 for x in found) >= 4, found


@pytest.mark.parametrize("method", ["standard", "block"])
def test_control_residual_of_p(method, monkeypatch):
    monkeypatch.setattr(verify, "_residual", lambda p, q, chance: chance.draw(p))
    found = [bias(here, one_round(here, method, "sampled")) for here in SOFT]
    assert sum(x > 1e-3 for x in found) >= 4, found


def test_control_block_residual_without_its_weight(monkeypatch):
    """What a block rule would do that takes the residual of p - q and not of w p - q."""
    original = verify._residual
    monkeypatch.setattr(verify, "_residual", lambda p, q, chance: original(p / p.sum(), q, chance))
    found = [bias(here, one_round(here, "block", "sampled")) for here in SOFT]
    assert max(found) > 1e-3, found


# DeepSpec's own numbers.


class Script:
    """A `Chance` with fixed answers that keeps what it was asked."""

    def __init__(self, draws: list[int], coins: list[bool]) -> None:
        self._draws, self._coins = iter(draws), iter(coins)
        self.probabilities: list[float] = []
        self.weights: list[torch.Tensor] = []

    def coin(self, probability: float) -> bool:
        self.probabilities.append(probability)
        return next(self._coins)

    def draw(self, weights: torch.Tensor) -> int:
        self.weights.append(weights / weights.sum())
        return next(self._draws)


GOLDEN = GOLDENS / "verify_rejection"
CASES = json.loads((GOLDEN / "expect.json").read_text())["cases"]


@pytest.mark.parametrize("case", CASES, ids=[case["kind"] for case in CASES])
def test_golden_acceptance_and_residuals(case):
    io = load_file(GOLDEN / "io.safetensors")
    tolerance = json.loads((GOLDEN / "case.json").read_text())["tolerance"]["prob_abs"]
    data = {name: io[f"{name}{case['index']}"].double() for name in ("accept_prob", "residual", "bonus")}
    sampling, depth = Sampling(case["temperature"]), case["K"]
    p_target = sampling.law(io[f"target_logits{case['index']}"])
    q_logits = io[f"draft_logits{case['index']}"]
    drafting = Sampling() if case["kind"] == "onehot_q" else sampling
    q = drafting.law(q_logits)
    torch.testing.assert_close(p_target.float(), io[f"target_probs{case['index']}"], atol=tolerance, rtol=0)
    torch.testing.assert_close(q.float(), io[f"draft_probs{case['index']}"], atol=tolerance, rtol=0)
    likely, compared = q.argmax(-1).tolist(), 0
    for slot in range(depth):
        for token in range(8):
            if q[slot, token] == 0:  # DeepSpec clamps q at 1e-8 and has a number here; it cannot be drafted
                continue
            chosen = [*likely[:slot], token, *likely[slot + 1 :]]
            chooser = Drafts(drafting, [Script(chosen, [])])
            chooser.choose_all(q_logits[None])
            proposal = chooser.proposal()
            assert proposal.tokens[0].tolist() == chosen
            chance = Script([0], [True] * slot + [False])
            accepted, _ = verify_sampled(chosen, p_target, proposal.law(0), chance, "standard")
            assert accepted == slot
            assert chance.probabilities[slot] == pytest.approx(
                float(data["accept_prob"][slot, token]), abs=tolerance
            )
            if not torch.equal(p_target[slot], q[slot]):  # else nothing is ever rejected
                torch.testing.assert_close(chance.weights[0], data["residual"][slot], atol=tolerance, rtol=0)
            compared += 1
    chance = Script([0], [True] * depth)
    assert verify_sampled(likely, p_target, None, chance, "standard") == (depth, 0)
    torch.testing.assert_close(chance.weights[0], data["bonus"], atol=tolerance, rtol=0)
    assert compared >= depth


@pytest.mark.parametrize(
    ("method", "rows", "drafts"),
    [
        ("standard", [[math.nan, math.nan], [0.5, 0.5]], [1]),
        ("block", [[math.nan, math.nan], [0.5, 0.5]], [1]),
        ("block", [[0.5, 0.5], [math.nan, math.nan], [0.5, 0.5]], [1, 1]),
        ("exact_match", [[math.nan, math.nan], [0.5, 0.5]], [1]),
    ],
)
def test_no_law_accepts_nothing(method, rows, drafts):
    p_target = torch.tensor(rows, dtype=torch.float64)
    with pytest.raises(InputError, match="found no law"):
        verify_sampled(drafts, p_target, None, Seeded(0), method)


@pytest.mark.parametrize("method", ["standard", "block"])
def test_rows_behind_an_impossible_draft_decide_nothing(method):
    """The first draft has p = 0: whatever the row behind it holds, the target's own token comes out."""
    p_target = torch.tensor([[1.0, 0.0], [math.nan, math.nan], [0.5, 0.5]], dtype=torch.float64)
    assert verify_sampled([1, 1], p_target, None, Seeded(0), method) == (0, 0)


def test_an_unknown_rule_is_refused():
    with pytest.raises(ValueError, match="found 'exact-match'"):
        verify_sampled([0], torch.full((2, 2), 0.5, dtype=torch.float64), None, Seeded(0), "exact-match")
