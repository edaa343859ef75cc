"""Greedy output with draft trees equals plain greedy decoding, whichever path the target takes."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from test_lossless import prompt, reference, target

from conftest import random_model
from truedraft.contract import InputError
from truedraft.decode import (
    Decoder,
    KVCache,
    Sampling,
    ScriptedDrafter,
    ScriptedTreeDrafter,
    Tree,
    feed,
    loop,
)
from truedraft.decode.pack import pack_trees, row_positions
from truedraft.models import HFTarget, packed_attention

SHAPE = (-1, -1, 0, 0, 1, 2, 2, 5, -1, 4)
"""Branches at the anchor and below; leaves at depths 1 to 4; paths whose rows are not consecutive."""
NODES = range(-1, len(SHAPE))
DEPTHS = (*Tree(SHAPE, SHAPE).depths, 0)  # NODES index it, -1 from behind
OTHER_SHAPES = [(), (-1,), (-1, 0, 1, 2, 3), (-1, -1, -1, -1), (-1, -1, 1, 1, 0, 4)]


def known(kind, lengths, count, seeds):
    return [prompt(n, s) + list(reference(kind, n, s, count)) for n, s in zip(lengths, seeds, strict=True)]


def scripted(kind, lengths, count, goal, shape=lambda s, n: SHAPE, seeds=None):
    seeds = seeds or [0] * len(lengths)
    return ScriptedTreeDrafter(known(kind, lengths, count, seeds), 5, 256, shape, goal)


def decoder(target_, drafter, **options):
    return Decoder(target_, drafter, tree_budget=16, **options)


def decoded(kind, length, count, node, room=40, **options):
    """One prompt's run in which every round's path ends at `node`."""
    drafter = scripted(kind, [length], room, lambda s, n: node)
    return decoder(target(kind), drafter, **options).generate([prompt(length)], count)[0]


@pytest.mark.parametrize("length", [1, 300])
@pytest.mark.parametrize("node", NODES)
def test_every_path_of_a_tree(kind, length, node):
    run = decoded(kind, length, 24, node)
    assert tuple(run.tokens) == reference(kind, length, 0, 40)[:24]
    assert set(run.accepted[:-1]) == {DEPTHS[node]}
    assert set(run.proposed[:-1]) == {4}
    assert set(run.nodes) == {len(SHAPE)}


@pytest.mark.parametrize("fused", [True, False])
def test_a_batch_of_three_ragged_trees(kind, fused):
    shapes = [SHAPE, *OTHER_SHAPES]

    def shape(sequence, number):
        return shapes[(2 * sequence + number) % len(shapes)]

    def goal(sequence, number):
        return (7 * number + 3 * sequence) % (len(shape(sequence, number)) + 1) - 1

    lengths, seeds = [1, 17, 300], [0, 3, 4]
    drafter = scripted(kind, lengths, 40, goal, shape, seeds)
    prompts = [prompt(n, s) for n, s in zip(lengths, seeds, strict=True)]
    runs = decoder(target(kind, fused), drafter, keep_drafts=True).generate(prompts, 40)
    for run, n, s in zip(runs, lengths, seeds, strict=True):
        assert tuple(run.tokens) == reference(kind, n, s, 40)
        assert run.nodes == [len(parents) for parents in run.parents]
        assert run.nodes == [len(drafts) for _, drafts in run.drafts]
    assert len({nodes for run in runs for nodes in run.nodes}) == len({len(own) for own in shapes})
    assert {a for run in runs for a in run.accepted} >= {0, 1, 2, 3, 4}


@pytest.mark.parametrize("at", range(1, 7))
@pytest.mark.parametrize("node", [7, 9, 6, -1])
def test_stop_token_at_every_place_of_a_path(at, node):
    tokens = reference("qwen3", 17, 0, 40)
    stop, first = tokens[at], tokens.index(tokens[at])
    stopping = HFTarget(copy.deepcopy(random_model("qwen3")), (1,), stop_token_ids=frozenset({stop}))
    run = decoder(stopping, scripted("qwen3", [17], 40, lambda s, n: node)).generate([prompt(17)], 40)[0]
    assert (tuple(run.tokens), run.finish) == (tokens[: first + 1], "stop")
    assert len(run.nodes) == len(run.accepted)
    assert 1 + len(run.accepted) + sum(run.accepted) - len(run.tokens) in (0, 1)  # 1: the stop was a draft


@pytest.mark.parametrize("count", range(1, 12))
def test_length_limit_is_exact(count):
    run = decoded("qwen3", 17, count, 7)
    assert (tuple(run.tokens), run.finish) == (reference("qwen3", 17, 0, 40)[:count], "length")
    assert all(a <= p for a, p in zip(run.accepted, run.proposed, strict=True))


@pytest.mark.parametrize("room", [1, 2, 3, 5, 9])
@pytest.mark.parametrize("node", [7, 9, -1])
def test_context_limit_is_exact(kind, room, node):
    """Nodes beyond the last position are cut off the tree."""
    length = 512 - room
    run = decoded(kind, length, 40, node, room)
    assert (tuple(run.tokens), run.finish) == (reference(kind, length, 0, room), "context")


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_a_smaller_depth_cuts_the_tree(depth):
    run = decoded("llama", 17, 40, 7, speculative_tokens=depth)
    assert tuple(run.tokens) == reference("llama", 17, 0, 40)
    assert set(run.accepted[:-1]) == {depth}


def test_a_path_of_consecutive_rows_is_the_chain():
    chain = ScriptedDrafter(known("qwen3", [17], 40, [0]), 5, 256, lambda _: 3)
    wanted = Decoder(target("qwen3"), chain).generate([prompt(17)], 40)[0]
    drafter = scripted("qwen3", [17], 40, lambda s, n: 2, lambda s, n: (-1, 0, 1, 2, 3))
    run = decoder(target("qwen3"), drafter).generate([prompt(17)], 40)[0]
    assert (run.tokens, run.proposed, run.accepted) == (wanted.tokens, wanted.proposed, wanted.accepted)


def test_stream_yields_what_generate_returns():
    drafter = scripted("qwen3", [17], 40, lambda s, n: n % len(SHAPE))
    chunks = list(decoder(target("qwen3"), drafter).stream(prompt(17), 40))
    assert [token for chunk in chunks for token in chunk] == list(reference("qwen3", 17, 0, 40))
    assert max(map(len, chunks)) == 5


def test_features_of_the_next_round_are_those_of_the_accepted_path(kind):
    """Each context row holds the taps that plain decoding has at its position."""
    ours, seen = target(kind), {}
    drafter = scripted(kind, [17], 40, lambda s, n: (5 * n) % len(SHAPE))
    original = drafter.propose_tree

    def propose_tree(rounds, *rest):
        for turn in rounds:
            rows = zip(turn.taps, turn.tokens.tolist(), turn.next_tokens.tolist(), strict=True)
            for i, row in enumerate(rows):
                assert turn.first_position + i not in seen
                seen[turn.first_position + i] = row
            assert turn.anchor_position == turn.first_position + len(turn.tokens)
        return original(rounds, *rest)

    drafter.propose_tree = propose_tree
    decoder(ours, drafter).generate([prompt(17)], 40)
    text = [*prompt(17), *reference(kind, 17, 0, 40)]
    cache = ours.new_cache()
    with torch.inference_mode():
        pieces = feed(ours, cache, cache.open(), torch.tensor(text), rows=1)
        taps = torch.cat([own for _, own in pieces])
    assert sorted(seen) == list(range(len(seen)))
    assert len(seen) > 40
    for position, (features, token, following) in seen.items():
        assert (token, following) == (text[position], text[position + 1])
        torch.testing.assert_close(features, taps[position], atol=1e-3, rtol=1e-3)


class ChainState(HFTarget):
    """A target whose state follows one chain of rows."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.supports_trees = False


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tree_budget": 0}, "tree budget: found 0, expected 1 to 4096 nodes"),
        ({"tree_budget": 4097}, "tree budget: found 4097"),
        ({"tree_budget": True}, "tree budget: found True"),
        ({"speculative_tokens": 0}, r"tree depth \(--tree-depth\): found 0, expected 1 to 5"),
        (
            {"sampling": Sampling(1.0), "verification": "block"},
            "found 16, expected none with block verification",
        ),
        ({"sampling": Sampling(1.0), "verification": "standard"}, "expected none with standard verification"),
        ({"draft_sampling": Sampling(1.0)}, "expected none with sampled drafts"),
    ],
)
def test_settings_that_exclude_trees(options, message):
    with pytest.raises(InputError, match=message):
        Decoder(target("qwen3"), scripted("qwen3", [17], 40, lambda s, n: 0), **{"tree_budget": 16} | options)


def test_confidence_thresholds_are_refused():
    drafter = scripted("qwen3", [17], 40, lambda s, n: 0)
    drafter.has_confidence = True
    with pytest.raises(InputError, match="expected none with a confidence threshold"):
        decoder(target("qwen3"), drafter, confidence_threshold=0.5)


def test_drafters_and_targets_without_trees_are_refused_by_name():
    chain = ScriptedDrafter(known("qwen3", [17], 40, [0]), 5, 256, lambda _: None)
    with pytest.raises(InputError, match="expected none: ScriptedDrafter drafts no trees"):
        decoder(target("qwen3"), chain)
    with pytest.raises(InputError, match="expected none without a drafter"):
        decoder(target("qwen3"), None)
    stateful = ChainState(copy.deepcopy(random_model("qwen3")), (1,))
    with pytest.raises(InputError, match="expected none: qwen3 targets keep state that follows one chain"):
        decoder(stateful, scripted("qwen3", [17], 40, lambda s, n: 0))


def test_sampled_trees_take_the_exact_rule_by_default():
    drafter = scripted("qwen3", [17], 40, lambda s, n: 0)
    assert decoder(target("qwen3"), drafter, sampling=Sampling(1.0)).verification == "exact_match"
    assert decoder(target("qwen3"), drafter).verification == "greedy"


# Controls: faults that these tests must see.


def kept_without_compaction(monkeypatch):
    original = KVCache.commit
    monkeypatch.setattr(KVCache, "commit", lambda self, s, rows: original(self, s, range(len(rows))))


def seen_by_everything_behind(monkeypatch):
    monkeypatch.setattr(
        packed_attention, "ancestry", lambda parents: torch.ones(len(parents), len(parents)).tril().bool()
    )


def positions_in_order_of_rows(monkeypatch):
    def in_order(rounds, ids, trees):
        batch = pack_trees(rounds, ids, trees)
        starts = [row_positions(t, len(tree.tokens) + 1) for t, tree in zip(rounds, trees, strict=True)]
        return replace(batch, positions=torch.cat(starts))

    monkeypatch.setattr(loop, "pack_trees", in_order)


@pytest.mark.parametrize(
    "fault", [kept_without_compaction, seen_by_everything_behind, positions_in_order_of_rows]
)
@pytest.mark.parametrize("node", [7, 9])
def test_control_faults_of_tree_rows_change_the_output(fault, node, monkeypatch):
    wanted = reference("qwen3", 17, 0, 40)
    assert tuple(decoded("qwen3", 17, 40, node).tokens) == wanted
    fault(monkeypatch)
    assert tuple(decoded("qwen3", 17, 40, node).tokens) != wanted


def test_a_path_of_consecutive_rows_does_not_show_them(monkeypatch):
    """Why the tests above need paths that branch off: node 0's rows are 0 and 1."""
    kept_without_compaction(monkeypatch)
    assert tuple(decoded("qwen3", 17, 40, 0).tokens) == reference("qwen3", 17, 0, 40)
