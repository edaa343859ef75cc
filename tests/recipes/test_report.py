"""Prompt lookup beside a drafter: the rounds of the real loop, and repetition."""

from __future__ import annotations

import json

import pytest
import torch

from truedraft import Decoder
from truedraft.decode import KVCache, Proposal

DRAFTS = 4


class Lookup:
    """Prompt lookup written anew: the first earlier place of the longest n-gram of up to 3 tokens."""

    proposals, has_confidence, needs_anchor_features = DRAFTS, False, False

    def __init__(self, prompt: list[int]) -> None:
        self.text = list(prompt)

    def new_cache(self) -> KVCache:
        return KVCache(0, 0, 0)

    def propose(self, rounds, cache, sampling=None) -> Proposal:
        (turn,) = rounds
        self.text[turn.first_position :] = [*turn.tokens.tolist(), int(turn.anchor_token)]
        found: list[int] = []
        for size in (3, 2, 1):
            key = self.text[-size:]
            starts = [i for i in range(len(self.text) - size) if self.text[i : i + size] == key]
            if starts:
                found = self.text[starts[0] + size :][:DRAFTS]
                break
        return Proposal(torch.tensor([found + [0] * (DRAFTS - len(found))]), (len(found),))


class Looping:
    """A target whose text runs in a loop of 9 tokens, but for every 7th position, where it jumps."""

    max_positions, stop_token_ids = 1000, frozenset({3})
    device, dtype, supports_trees = torch.device("cpu"), torch.float32, False

    def new_cache(self) -> KVCache:
        return KVCache(0, 0, 0)

    def forward(self, batch, cache):
        for i, sequence in enumerate(batch.sequence_ids):
            rows = batch.rows_of(i)
            cache.reserve(sequence, rows.stop - rows.start)
        jump = torch.where(batch.positions % 7 == 0, 4, 1)
        logits = torch.nn.functional.one_hot(10 + (batch.tokens + jump) % 9, 20).float()
        logits[batch.positions == 50, 3] = 2.0
        rows = slice(None) if batch.logit_rows is None else batch.logit_rows
        return logits[rows], torch.zeros(len(batch.tokens), 0)


@pytest.mark.parametrize("length", [1, 2, 13, 40, 41, 42, 43, 44, 60])
@pytest.mark.parametrize("ignore_stop", [False, True])
def test_lookup_along_an_output_has_the_rounds_of_the_real_loop(recipe, length, ignore_stop):
    for start in range(10, 19):
        prompt = [1, 2, start]
        out = Decoder(Looping(), Lookup(prompt), ignore_stop=ignore_stop).generate([prompt], length)[0]
        assert len(out.tokens) == length if ignore_stop else min(length, 48)
        proposed, accepted = recipe("report").lookup_rounds(prompt, out.tokens, DRAFTS)
        assert accepted == out.accepted
        assert proposed == out.proposed
        if length >= 40:
            assert set(accepted) >= {0, DRAFTS}
            assert set(proposed) >= {0, DRAFTS}


def test_repetition(recipe):
    repetition = recipe("drafters.repetition").repetition
    assert repetition([1, 2, 3]) == 0
    assert repetition([1, 2, 3, 4, 5]) == 0
    assert repetition([1, 2, 3, 4] * 3) == pytest.approx(1 - 4 / 9)


def test_a_row_of_the_table(recipe, tmp_path, monkeypatch):
    report = recipe("report")
    prompts = {"a": [5, 6, 7, 8, 5, 6], "b": [9, 9, 2]}
    outputs = {"a": [7, 8, 5, 6, 1], "b": [4, 4]}
    record = {
        "request_id": "r", "arm": "speculative", "category": "gsm8k", "K": 4, "prompt_tokens": 3,
        "output_tokens": 5, "output_hash": "x", "contract_hash": "c", "batch_size": 1, "started": 0.0,
    }  # fmt: skip
    monkeypatch.setattr(report, "EVALUATION", tmp_path)
    lines = [json.dumps({"id": name, "tokens": tokens}) for name, tokens in prompts.items()]
    (tmp_path / "gsm8k.jsonl").write_text("\n".join(lines))
    run = {
        "lossless": {"identical": 2, "ties": 0},
        "outputs": [{"prompt_id": name, "tokens": tokens} for name, tokens in outputs.items()],
        "records": [
            {**record, "prompt_id": "a", "proposed": [4, 4], "accepted": [0, 2]},
            {**record, "prompt_id": "b", "proposed": [4], "accepted": [0]},
        ],
    }
    path = tmp_path / "some.json"
    path.write_text(json.dumps(run))
    cells = [cell.strip() for cell in report.row(path).strip("|").split("|")]
    assert cells[:3] == ["some", "2", "2 + 0 ties"]
    assert cells[3].startswith("1.67 [")  # 3 rounds, 2 accepted
    # lookup: behind "... 5 6 7" it copies 8 5 6 and errs; behind "9 9 2 4" it finds nothing
    assert cells[4].startswith("2.50 [")
    assert cells[5].startswith("-0.83 [")
    assert cells[6] == "0.00"

    run["records"] = run["records"][:1]
    path.write_text(json.dumps(run))
    with pytest.raises(SystemExit, match="found 1 prompts with a round, expected at least 2"):
        report.row(path)
    run["records"] = [{**record, "prompt_id": "a", "proposed": [4], "accepted": [0], "verification": "block"}]
    path.write_text(json.dumps(run))
    with pytest.raises(SystemExit, match="expected a greedy run of chains"):
        report.row(path)
