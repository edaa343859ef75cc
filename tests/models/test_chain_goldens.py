"""The chain drafter against DeepSpec's and speculators' EAGLE-3, from the checkpoints on disk."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from goldens import close, golden, pair

from truedraft import Decoder
from truedraft.decode import Round
from truedraft.measure.teacher_forced import features

SPECULATORS = ["eagle3_speculators_nbr_false", "eagle3_speculators_nbr_true"]


def context(taps: torch.Tensor, tokens: torch.Tensor, start: int, end: int, sequence: int = 0) -> Round:
    """Rows `start` … `end` - 1 of a text, whose last next token is the anchor."""
    following = tokens[start + 1 : end + 1]
    return Round(sequence, taps[start:end], tokens[start:end], following, start, tokens[end], end)


@pytest.mark.parametrize("case", [*SPECULATORS, "eagle3_deepspec"])
def test_features(case):
    io, _ = golden(case)
    ids = io["input_ids"][0] if "input_ids" in io else io["sequence"][0]
    wanted = io["hidden_states"][0] if "hidden_states" in io else io["all_features"][0]
    with torch.inference_mode():
        close(features(pair(case).target, ids.tolist())[: len(wanted)], wanted)


@pytest.mark.parametrize("case", SPECULATORS)
def test_context_rows(case):
    """All rows of one pass: layer outputs, and the first drafts' logits."""
    io, expect = golden(case)
    drafter, tokens, taps = pair(case).drafter, io["input_ids"][0], io["hidden_states"][0]
    with torch.inference_mode():
        for end in range(1, len(tokens)):
            cache_ = drafter.new_cache()
            drafter.extend([context(taps, tokens, 0, end, cache_.open())], cache_)
            logits = drafter.logits(cache_.recent[0][-1])
            close(cache_.recent[0][-1], io["ttt0.hidden"][0, end - 1])
            close(logits, io["ttt0.logits"][0, end - 1])
            assert int(logits.argmax()) == expect["ttt_argmax_draft_vocab"][0][end - 1]


@pytest.mark.parametrize("case", SPECULATORS)
@pytest.mark.parametrize("pieces", [1, 3])
def test_chains(case, pieces):
    """The autoregressive chain behind a prefix, its context fed at once or in pieces."""
    io, expect = golden(case)
    drafter, tokens, taps = pair(case).drafter, io["input_ids"][0], io["hidden_states"][0]
    for pair_index, entry in expect["autoregressive"].items():
        end = int(pair_index) + 1
        cache_ = drafter.new_cache()
        sequence = cache_.open()
        cuts = [end * i // pieces for i in range(pieces + 1)]
        with torch.inference_mode():
            for start, stop in pairwise(cuts):
                turn = context(taps, tokens, start, stop, sequence)
                drafter.extend([turn], cache_)
            hidden = cache_.recent[sequence][-1][None]
            drafted = []
            for k, token in enumerate(entry["drafted"]):
                close(hidden[0], io[f"ar{pair_index}.step{k}.hidden"])
                close(drafter.logits(hidden)[0], io[f"ar{pair_index}.step{k}.logits"])
                drafted.append(token)
                hidden = drafter.step([turn], cache_, k, torch.tensor([token]), hidden)
            empty = context(taps, tokens, end, end, sequence)
            assert drafter.propose([empty], cache_).tokens[0].tolist() == drafted == entry["drafted"]
            assert cache_.length(sequence) == end


def test_deepspec_rounds():
    """Hidden states, logits and drafts of every round along DeepSpec's schedule."""
    io, expect = golden("eagle3_deepspec")
    drafter = pair("eagle3_deepspec").drafter
    tokens = io["sequence"][0]
    cache_ = drafter.new_cache()
    sequence, done = cache_.open(), 0
    with torch.inference_mode():
        for r, anchor in enumerate(expect["anchor_positions"]):
            taps = io[f"round{r}.new_features"][0]
            end = done + len(taps)
            assert end == anchor
            rows = io[f"round{r}.ext_input_ids"][0]
            assert torch.equal(rows, tokens[done + 1 : end + 1])
            turn = Round(sequence, taps, tokens[done:end], rows, done, tokens[end], end)
            drafter.extend([turn], cache_)
            hidden = cache_.recent[sequence][-1][None]
            for k, token in enumerate(expect["drafts"][r]):
                close(hidden, io[f"round{r}.step{k}.hidden"][0])
                close(drafter.logits(hidden), io[f"round{r}.step{k}.logits"][0])
                hidden = drafter.step([turn], cache_, k, torch.tensor([token]), hidden)
            again = Round(sequence, taps[:0], tokens[:0], tokens[:0], end, tokens[end], end)
            assert drafter.propose([again], cache_).tokens[0].tolist() == expect["drafts"][r]
            done = end


def test_deepspec_generations():
    """Outputs, acceptance lengths and every round's verified rows of DeepSpec's own loop."""
    _, expect = golden("eagle3_deepspec")
    here = pair("eagle3_deepspec")
    decoder = Decoder(here.target, here.drafter, keep_drafts=True)
    for entry in expect["generate"]:
        run = decoder.generate([entry["prompt"]], len(entry["output"]))[0]
        assert run.tokens == entry["output"]
        lengths = [accepted + 1 for accepted in run.accepted]
        assert lengths[:-1] == entry["acceptance_lengths"][: len(lengths) - 1]
        rounds = min(len(run.drafts), len(entry["verify_inputs"])) - 1
        assert rounds > 1
        for (position, drafts), verified in zip(run.drafts[:rounds], entry["verify_inputs"], strict=False):
            text = [*entry["prompt"], *run.tokens]
            assert [text[position], *drafts] == verified
