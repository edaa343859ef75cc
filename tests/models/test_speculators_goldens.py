"""DFlash and DSpark drafters in speculators layout against the library's own forward (speculators 0.9.0).

The goldens are teacher-forced training forwards at given anchors: same features, same blocks.
"""

from __future__ import annotations

import pytest
import torch
from goldens import close, golden, pair

from conftest import greedy_read
from truedraft.decode import Round
from truedraft.measure.teacher_forced import features
from truedraft.models.visibility import block_visibility

CASES = [
    "dflash_speculators_full",
    "dflash_speculators_swa_causal",
    "dspark_speculators_anchor_first",
    "dspark_speculators_bonus_anchor",
]


def block(case: str, index: int) -> tuple[torch.Tensor, Round]:
    """Hidden states of the block at one anchor, from the library's own features."""
    io, _ = golden(case)
    drafter = pair(case).drafter
    ids, anchor = io["input_ids"][0], int(io["anchors"][index])
    cache_ = drafter.new_cache()
    taps = io["hidden_states"][0, :anchor]
    turn = Round(cache_.open(), taps, ids[:anchor], ids[1 : anchor + 1], 0, ids[anchor], anchor)
    with torch.inference_mode():
        drafter.extend([turn], cache_)
        return drafter.block([turn], cache_), turn


@pytest.mark.parametrize("case", CASES)
def test_features(case):
    """The target adapter's taps equal the states that the library was given."""
    io, _ = golden(case)
    with torch.inference_mode():
        close(features(pair(case).target, io["input_ids"][0].tolist()), io["hidden_states"][0])


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("index", range(5))
def test_blocks(case, index):
    """Hidden states and base logits of every slot that is used, and the drafts read off them."""
    io, expect = golden(case)
    drafter, first = pair(case).drafter, pair(case).drafter.readout.first_slot
    hidden, turn = block(case, index)
    close(hidden[0, first:], io["hidden"][index, first:])
    with torch.inference_mode():
        close(drafter.readout.logits(hidden)[0, first:], io["base_logits"][index, first:])
        tokens, _, _ = greedy_read(drafter, hidden, turn.anchor_token[None])
    assert first == expect.get("first_predicting_slot", 1)
    key = "argmax_base_target_vocab" if "d2t" in io else "argmax_base_draft_vocab"
    wanted = expect["greedy_chain_tokens"] if drafter.readout.markov else expect[key]
    assert tokens[0].tolist() == wanted[index]


@pytest.mark.parametrize("case", [case for case in CASES if case.startswith("dspark")])
@pytest.mark.parametrize("index", range(5))
def test_markov_and_confidence(case, index):
    """Teacher-forced logits and confidence, and the logits along the greedy chain."""
    io, _ = golden(case)
    readout = pair(case).drafter.readout
    hidden, turn = block(case, index)
    first = readout.first_slot
    slots = hidden[0, first:]
    with torch.inference_mode():
        previous = io["prev_token_ids"][index, first:]
        corrected, _ = readout.corrected(
            readout.logits(slots), previous, slots, readout.markov.start(len(slots))
        )
        close(corrected, io["logits"][index, first:])
        confidence = readout.confidence_logits(slots[None], previous[None])[0]
        close(confidence, io["confidence_logits"][index, first:])
        _, logits, _ = greedy_read(pair(case).drafter, hidden, turn.anchor_token[None])
    close(logits[0], io[f"chain{index}.logits"])


@pytest.mark.parametrize("case", [case for case in CASES if case.startswith("dflash")])
@pytest.mark.parametrize("index", range(5))
def test_visibility(case, index):
    """Every layer's mask equals the library's, key by key."""
    io, _ = golden(case)
    contract, anchor = pair(case).contract, int(io["anchors"][index])
    width, length = contract["block.width"], io["input_ids"].shape[1]
    layers = [contract[f"attention.{name}"] for name in ("window", "window_rule", "causal")]
    for window, rule, causal in zip(*layers, strict=True):
        kind = "full" if window is None else "sliding"
        own = slice(index * width, (index + 1) * width)
        whole = io[f"attention_mask_{kind}"][own]
        wanted = torch.cat([whole[:, :anchor], whole[:, length:][:, own]], 1)
        assert not whole[:, anchor:length].any()
        first, mask = block_visibility(anchor, anchor, width, window, rule, causal)
        visible = torch.zeros_like(wanted)
        visible[:, first:] = True if mask is None else mask
        assert torch.equal(visible, wanted)
