"""Trees from a block's law: every prefix's probability by brute force, and the heads' formulas by hand."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace

import pytest
import torch

from truedraft.decode import Tree, grow
from truedraft.models.branching import branchings
from truedraft.models.readout import Readout

HIDDEN, RANK, DEPTH, TARGET, DRAFT = 6, 3, 3, 7, 5
TARGET_IDS = [6, 0, 3, 1, 5]


class Axes(dict):
    """As much of a contract as a readout asks for."""

    target = SimpleNamespace(vocab_size=TARGET)


def axes(kind, previous="previous_token", *, reduced=False, softcap=None, order="before_sequence_head"):
    return Axes(
        {
            "markov.kind": kind,
            "markov.previous": previous,
            "head.source": "own",
            "head.vocabulary_map": "absolute" if reduced else "none",
            "head.multiplier": 1.0,
            "head.softcap": softcap,
            "head.softcap_order": order,
            "block.proposals": DEPTH,
            "block.first_slot": "unused",
        }
    )


def weights(reduced, seed=0):
    generator = torch.Generator().manual_seed(seed)

    def make(*shape):
        return torch.randn(*shape, generator=generator)

    scored = DRAFT if reduced else TARGET
    return {
        "lm_head.weight": make(scored, HIDDEN),
        "markov_head.markov_w1.weight": make(TARGET, RANK),
        "markov_head.markov_w2.weight": 1.5 * make(scored, RANK),
        "markov_head.gate_proj.weight": make(RANK, HIDDEN + RANK),
        "markov_head.gate_proj.bias": make(RANK),
        "markov_head.joint_proj.weight": make(3 * RANK, 2 * RANK + HIDDEN),
        "markov_head.joint_proj.bias": make(3 * RANK),
        "d2t": torch.tensor(TARGET_IDS),
    }


def by_hand(contract, w, hidden, anchor, path):
    """The drafter's law [draft ids] behind `path`, fp64, by the formulas of arXiv 2607.05147."""
    w = {name: value.double() for name, value in w.items()}
    kind, state, law = contract["markov.kind"], torch.zeros(RANK, dtype=torch.float64), None
    for slot in range(len(path) + 1):
        h = hidden[slot + 1].double()  # slot 0 of the block is unused
        logits = w["lm_head.weight"] @ h
        previous = anchor if slot == 0 or contract["markov.previous"] == "anchor" else path[slot - 1]
        e = w["markov_head.markov_w1.weight"][previous]
        if kind == "gated":
            gate = w["markov_head.gate_proj.weight"] @ torch.cat([h, e]) + w["markov_head.gate_proj.bias"]
            e = torch.sigmoid(gate) * e
        elif kind == "rnn":
            joint = w["markov_head.joint_proj.weight"] @ torch.cat([state, e, h])
            gate, candidate, out = (joint + w["markov_head.joint_proj.bias"]).split(RANK)
            state = torch.sigmoid(gate) * state + (1 - torch.sigmoid(gate)) * torch.tanh(candidate)
            e = torch.tanh(out)
        cap, late = contract["head.softcap"], contract["head.softcap_order"] == "after_sequence_head"
        if cap and not late:
            logits = cap * torch.tanh(logits / cap)
        if kind != "none":
            logits = logits + w["markov_head.markov_w2.weight"] @ e
        if cap and late:
            logits = cap * torch.tanh(logits / cap)
        law = logits.softmax(-1)
    return law


CASES = [
    *itertools.product(["none", "vanilla", "gated", "rnn"], ["previous_token"], [False, True], [{}]),
    ("vanilla", "anchor", False, {}),
    ("rnn", "anchor", True, {}),
    ("vanilla", "previous_token", False, {"softcap": 2.0}),
    ("vanilla", "previous_token", False, {"softcap": 2.0, "order": "after_sequence_head"}),
]


@pytest.mark.parametrize(("kind", "previous", "reduced", "softcap"), CASES)
@pytest.mark.parametrize("budget", [1, 8, 30, 1000])
def test_trees_hold_the_most_probable_prefixes(kind, previous, reduced, softcap, budget):
    contract, tensors = axes(kind, previous, reduced=reduced, **softcap), weights(reduced)
    readout = Readout(contract, tensors, torch.empty(0))
    generator = torch.Generator().manual_seed(1)
    hidden = torch.randn(2, DEPTH + 1, HIDDEN, generator=generator)
    anchors = torch.tensor([2, 4])
    laws = branchings(readout, hidden, anchors, budget, DEPTH)
    ids = TARGET_IDS if reduced else list(range(TARGET))
    for index, law in enumerate(laws):
        probability = {(): 1.0}
        for length in range(DEPTH):
            for path in itertools.product(ids, repeat=length):
                row = by_hand(contract, tensors, hidden[index], int(anchors[index]), path)
                for draft, token in enumerate(ids):
                    probability[(*path, token)] = probability[path] * float(row[draft])
        del probability[()]
        best = sorted(probability, key=lambda path: -probability[path])
        tree = grow(law, budget, DEPTH)
        found = paths(tree)
        assert found == best[:budget]  # random weights: no ties
        for path in found[:20]:
            listed = dict((token, weight) for weight, token in law.children(path[:-1]))
            given_prefix = probability[path] / probability.get(path[:-1], 1.0)
            assert listed[path[-1]] == pytest.approx(math.log(given_prefix), abs=1e-5)


def paths(tree: Tree) -> list[tuple[int, ...]]:
    out: list[tuple[int, ...]] = []
    for token, parent in zip(tree.tokens, tree.parents, strict=True):
        out.append((*out[parent], token) if parent >= 0 else (token,))
    return out


@pytest.mark.parametrize(
    ("kind", "most"), [("vanilla", 1 + 2 * TARGET), ("gated", 1 + 2 * TARGET), ("rnn", 57)]
)
def test_the_markov_head_runs_once_per_law(kind, most, monkeypatch):
    """One product per depth and last token; a recurrent head needs one per expanded path."""
    readout = Readout(axes(kind), weights(False), torch.empty(0))
    calls = []
    original = readout.corrected
    monkeypatch.setattr(readout, "corrected", lambda *given: calls.append(1) or original(*given))
    law = branchings(readout, torch.randn(1, DEPTH + 1, HIDDEN), torch.tensor([2]), 1000, DEPTH)[0]
    grow(law, 1000, DEPTH)  # the whole tree: 7 + 49 + 343 nodes
    assert len(calls) == most
    calls.clear()
    law = branchings(readout, torch.randn(1, DEPTH + 1, HIDDEN), torch.tensor([2]), 5, DEPTH)[0]
    grow(law, 5, DEPTH)
    assert len(calls) <= 5
