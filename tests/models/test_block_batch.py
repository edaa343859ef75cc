"""Block drafters with several sequences at once, and what they leave in the cache."""

from __future__ import annotations

import pytest
import torch
from test_block_axes import Make, Tiny, close, same, tiny_pairs, wanted_round

from conftest import greedy_read
from truedraft.contract import Contract
from truedraft.decode import KVCache, Proposal, Round
from truedraft.models import BlockDrafter

LENGTHS = (5, 12, 19, 33)

SETTINGS: dict[str, tuple[str, tuple[str, ...]]] = {
    "no windows": ("zlab", ("attention.window=none", "attention.causal=false")),
    "window and full": ("zlab", ()),
    "windows both ways": ("zlab", ("attention.window=3,10", "attention.causal=false")),
    "anchor rule": ("zlab", ("attention.window=6", "attention.window_rule=anchor", "attention.causal=false")),
    "through the anchor": ("zlab", ("context.end=through_anchor", "attention.window=4,12")),
    "scaled rope": (
        "zlab",
        ("rope.scaling=yarn:factor=4:original_max_position_embeddings=16", "block.position_offset=1"),
    ),
    "vanilla": ("deepspec", ("attention.window=8",)),
    "gated": ("deepspec-gated", ("block.first_slot=unused",)),
    "rnn": ("deepspec-rnn", ()),
    "rnn, anchor": ("deepspec-rnn", ("markov.previous=anchor", "attention.causal=true")),
    "biases": ("zlab-bias", ("attention.window=9",)),
    "gates, norms of taps": ("laguna-fused", ("fusion.concat_norm=true",)),
    "speculators": ("speculators", ("attention.window=6",)),
    "reduced vocabulary": ("dspark", ("attention.window=6,none",)),
    "reduced vocabulary, rnn": ("dspark-rnn", ("head.vocabulary_map=absolute",)),
}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Make:
    return tiny_pairs(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(params=SETTINGS)
def setting(request: pytest.FixtureRequest, tiny: Make) -> tuple[Tiny, Contract, dict, BlockDrafter]:
    """A pair with the drafter of one of `SETTINGS`."""
    variant, overrides = SETTINGS[request.param]
    pair = tiny(variant)
    return pair, *pair.drafter(overrides)


def turn(pair: Tiny, contract: Contract, sequence: int, first: int, rows: int, shift: int = 0) -> Round:
    """The turn of a sequence whose features and tokens are the pair's, rotated by `shift`."""
    last = contract["context.end"] == "through_anchor"
    whole = pair.round(sequence, first, rows, last)
    if shift == 0:
        return whole
    taps = pair.taps.roll(shift, 0)[first:rows]
    tokens = pair.tokens.roll(shift, 0)
    return Round(
        sequence,
        taps,
        tokens[first:rows],
        tokens[first + 1 : rows + 1],
        first,
        tokens[whole.anchor_position],
        whole.anchor_position,
    )


@torch.inference_mode()
def draft(drafter: BlockDrafter, turns: list[Round], cache: KVCache) -> tuple[Proposal, torch.Tensor]:
    """The proposal, and the hidden states behind it (a second block: it leaves no trace)."""
    proposal = drafter.propose(turns, cache)
    assert proposal.lengths == (drafter.proposals,) * len(turns)
    assert proposal.parents is None
    return proposal, drafter.block(turns, cache)


def test_together_as_alone(setting):
    """Four sequences of different lengths in one propose, over three rounds, in changing order."""
    pair, contract, _, drafter = setting
    together = drafter.new_cache()
    alone = [drafter.new_cache() for _ in LENGTHS]
    ids = [together.open() for _ in LENGTHS]
    single = [cache.open() for cache in alone]
    fed = [0] * len(LENGTHS)
    for order, grow in (((0, 1, 2, 3), (0, 0, 0, 0)), ((2, 0, 3, 1), (1, 4, 2, 0)), ((3, 1), (0, 2, 0, 5))):
        goal = [max(n, done) + more for n, done, more in zip(LENGTHS, fed, grow, strict=True)]
        turns = [turn(pair, contract, ids[b], fed[b], goal[b], shift=11 * b) for b in order]
        proposal, hidden = draft(drafter, turns, together)
        for row, b in enumerate(order):
            own, own_hidden = draft(
                drafter, [turn(pair, contract, single[b], fed[b], goal[b], shift=11 * b)], alone[b]
            )
            assert proposal.tokens[row].tolist() == own.tokens[0].tolist()
            close(hidden[row], own_hidden[0], 1e-5)
            if own.confidence is None:
                assert proposal.confidence is None
            else:
                close(proposal.confidence[row], own.confidence[0], 1e-5)
            assert together.length(ids[b]) == goal[b]
            fed[b] = goal[b]
    # not vacuous: the sequences differ
    assert float((hidden[0] - hidden[1]).abs().max()) > 1e-2


def test_cache_holds_the_context_and_nothing_else(setting):
    """Afterwards the cache is as long as the context; proposing again without rows changes nothing."""
    pair, contract, _, drafter = setting
    cache = drafter.new_cache()
    ids = [cache.open() for _ in LENGTHS]
    turns = [turn(pair, contract, s, 0, n) for s, n in zip(ids, LENGTHS, strict=True)]
    first, first_hidden = draft(drafter, turns, cache)
    assert [cache.length(s) for s in ids] == list(LENGTHS)
    rows = list(zip(ids, LENGTHS, strict=True))
    kept = [(cache.keys(s)[:, :, :n].clone(), cache.values(s)[:, :, :n].clone()) for s, n in rows]
    again = [turn(pair, contract, s, n, n) for s, n in rows]
    second, second_hidden = draft(drafter, again, cache)
    assert torch.equal(first.tokens, second.tokens)
    assert torch.equal(first_hidden, second_hidden)
    for (s, n), (keys, values) in zip(rows, kept, strict=True):
        assert cache.length(s) == n
        assert cache.validity(s) is None
        assert torch.equal(cache.keys(s)[:, :, :n], keys)
        assert torch.equal(cache.values(s)[:, :, :n], values)


@pytest.mark.parametrize("holes", [slice(0, 4), slice(10, 13), slice(0, 14)], ids=str)
def test_invalid_rows_are_not_seen(setting, holes):
    """Rows marked unwritten, in one sequence of two, are those the reference is told not to see."""
    pair, contract, weights, drafter = setting
    rows, more = 14, 2
    cache = drafter.new_cache()
    whole, torn = cache.open(), cache.open()
    turns = [turn(pair, contract, s, 0, rows) for s in (whole, torn)]
    _, before = draft(drafter, turns, cache)
    with torch.inference_mode():
        cache.invalidate(torn, holes)
    valid = torch.ones(rows + more, dtype=torch.bool)
    valid[holes] = False
    for first, end in ((rows, rows), (rows, rows + more)):
        turns = [turn(pair, contract, s, first, end) for s in (whole, torn)]
        proposal, hidden = draft(drafter, turns, cache)
        with torch.inference_mode():
            anchors = torch.stack([t.anchor_token for t in turns])
            tokens, logits, confidence = greedy_read(drafter, hidden, anchors)
        assert torch.equal(tokens, proposal.tokens)
        for row, mask in enumerate((None, valid[:end])):
            found = {
                "hidden": hidden[row],
                "logits": logits[row],
                "tokens": tokens[row],
                "confidence": None if confidence is None else confidence[row],
            }
            same(found, wanted_round(pair, contract, weights, end, mask))
        if first == end:
            close(hidden[0], before[0], 1e-5)
            # Rows behind every layer's window are not seen anyway.
            reach = [w for w in contract["attention.window"]]
            hidden_rows = None not in reach and holes.stop <= rows - max(reach)
            changed = float((hidden[1] - before[1]).abs().max())
            assert changed < 1e-5 if hidden_rows else changed > 1e-3


def test_rows_must_be_in_order(tiny):
    """A gap between the cache and the new rows is an error, not a shift of positions."""
    pair = tiny("zlab")
    contract, _, drafter = pair.drafter()
    cache = drafter.new_cache()
    sequence = cache.open()
    draft(drafter, [turn(pair, contract, sequence, 0, 6)], cache)
    with torch.inference_mode(), pytest.raises(ValueError, match="position 7"):
        drafter.propose([turn(pair, contract, sequence, 7, 9)], cache)
    assert cache.length(sequence) == 6
