"""The bundled pair `tiny`: loads everywhere, drafts as its producer's code does, decodes losslessly."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from hf_assistant import load_assistant
from truedraft import Decoder, Pair, load_pair, replay, resolve
from truedraft.decode import ScriptedDrafter
from truedraft.formats import evaluation_prompts, locate
from truedraft.measure import accepted_along
from truedraft.measure.teacher_forced import features

SPECULATORS = ["dflash-speculators", "dspark-bonus", "dspark-anchor", "eagle3"]
DRAFTERS = ["dflash", "dflash-full", "dspark", *SPECULATORS]
BLOCKS = [drafter for drafter in DRAFTERS if drafter != "eagle3"]

INFERRED = {"dspark-bonus": ("block.first_slot",)}
"""Axes that a checkpoint leaves to inference, on purpose: published files lack the key too."""


@cache
def pair(drafter: str, *overrides: str) -> Pair:
    return load_pair(resolve(f"tiny/{drafter}", overrides=overrides))


def folder() -> Path:
    target, _ = locate("tiny")
    assert target is not None
    return target.parent


@cache
def texts() -> tuple[tuple[int, ...], ...]:
    """Token ids of the stated evaluation prompts."""
    entries, _ = evaluation_prompts("tiny")
    tokenizer = pair("dflash").tokenizer
    return tuple(tuple(tokenizer(entry["text"]).input_ids) for entry in entries)


@cache
def plain(prompt: tuple[int, ...], count: int) -> tuple[int, ...]:
    """Plain greedy decoding by `transformers.generate`."""
    model = reference_model()
    ids = torch.tensor([prompt])
    out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=count, do_sample=False)
    return tuple(out[0, len(prompt) :].tolist())


@cache
def reference_model() -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(
        folder() / "target", dtype=torch.float32, local_files_only=True
    )


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_contract_is_settled_and_every_key_is_read(drafter):
    contract = resolve(f"tiny/{drafter}").contract
    assert contract.unsettled == contract.conflicts == contract.unread_keys == ()
    assert contract.inferred == INFERRED.get(drafter, ())


def golden_proposals(drafter: str) -> list[dict[str, Any]]:
    """Recorded proposals: by the recipe's own forward, or by the speculators library for its layout."""
    where = folder() / drafter if drafter in SPECULATORS else folder()
    recorded = json.loads((where / "golden" / "proposals.json").read_text())
    entries: list[dict[str, Any]] = recorded["drafters"][drafter]
    return entries


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_golden_proposals_on_unseen_text(drafter):
    """The training code's own forward drafted these; it shares no line with the product."""
    golden = golden_proposals(drafter)
    assert len(golden) >= 20
    here = pair(drafter)
    for entry in golden:
        assert len(entry["tokens"]) == entry["anchor_position"] + 1
        proposal = replay(here.target, here.drafter, entry["tokens"], [entry["anchor_position"]])[0]
        assert proposal.tokens[0].tolist() == entry["proposal"]
        if "confidence" in entry:
            assert proposal.confidence is not None
            wanted = torch.tensor([entry["confidence"]])
            torch.testing.assert_close(proposal.confidence, wanted, atol=1e-3, rtol=0)


@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("length", [1, 17, 300])
def test_greedy_output_is_that_of_transformers(drafter, length):
    longest = max(texts(), key=len)
    prompt = (longest + plain(longest, 96))[-length:]
    run = Decoder(pair(drafter).target, pair(drafter).drafter).generate([prompt], 60)[0]
    assert tuple(run.tokens) == plain(prompt, 60)


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_a_batch_of_five_of_different_lengths(drafter):
    prompts = [texts()[i][-n:] for i, n in enumerate((1, 17, 140, 60, 3))]
    runs = Decoder(pair(drafter).target, pair(drafter).drafter).generate(prompts, 48)
    assert [tuple(run.tokens) for run in runs] == [plain(prompt, 48) for prompt in prompts]


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_the_context_limit(drafter):
    here = pair(drafter)
    limit = here.target.max_positions
    prompt = tuple((list(texts()[0]) * (limit // len(texts()[0]) + 1))[: limit - 10])
    run = Decoder(here.target, here.drafter).generate([prompt], 50)[0]
    wanted = plain(prompt, 10)
    assert tuple(run.tokens) == wanted
    assert run.finish == ("stop" if wanted[-1] in here.target.stop_token_ids else "context")


def test_outputs_that_end_by_themselves():
    """Some stated prompts run into the end of a document: the stop token falls inside blocks."""
    here = pair("dflash")
    ends = [p for p in texts()[:6] if plain(p, 96)[-1] in here.target.stop_token_ids]
    assert len(ends) >= 3, "the recipe promises prompts whose output ends before 96 tokens"
    for drafter in DRAFTERS:
        runs = Decoder(pair(drafter).target, pair(drafter).drafter).generate(ends, 96)
        assert [(tuple(run.tokens), run.finish) for run in runs] == [(plain(p, 96), "stop") for p in ends]


@pytest.mark.parametrize("slot", [0, 3, 6, None])
def test_scripted_drafter_reaches_each_length(slot):
    here, prompts = pair("dflash"), [texts()[0], texts()[1][-17:], texts()[2][:1]]
    known = [list(p + plain(p, 40)) for p in prompts]
    drafter = ScriptedDrafter(known, 7, 1024, lambda _: slot)
    runs = Decoder(here.target, drafter).generate(prompts, 40)
    assert [tuple(run.tokens) for run in runs] == [plain(p, 40) for p in prompts]
    assert set(runs[0].accepted[:-1]) == {7 if slot is None else slot}


def test_transformers_dflash_generator_drafts_the_same(tmp_path, monkeypatch):
    """Independent oracle: transformers, `generate(speculation_type="dflash")`, on `dflash-full`."""
    from transformers.generation import candidate_generator

    resolution = resolve("tiny/dflash-full")
    assistant = load_assistant(resolution.contract, resolution.draft.directory, tmp_path)
    rounds: list[tuple[int, list[int]]] = []
    original = candidate_generator.DFlashTokenCandidateGenerator.get_candidates

    def recording(self, input_ids, *args, **kwargs):
        out = original(self, input_ids, *args, **kwargs)
        drafted = out[0][0, input_ids.shape[1] :].tolist()
        rounds.append((input_ids.shape[1] - 1, drafted))
        return out

    monkeypatch.setattr(candidate_generator.DFlashTokenCandidateGenerator, "get_candidates", recording)
    here, compared = pair("dflash-full"), 0
    for prompt in texts()[:6]:
        rounds.clear()
        ids = torch.tensor([prompt])
        out = reference_model().generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=96,
            do_sample=False,
            assistant_model=assistant,
            speculation_type="dflash",
        )
        text = out[0].tolist()
        assert tuple(text[len(prompt) :]) == plain(prompt, 96)
        whole = [(anchor, drafts) for anchor, drafts in rounds if len(drafts) == here.drafter.proposals]
        proposals = replay(here.target, here.drafter, text, [anchor for anchor, _ in whole])
        assert [drafts for _, drafts in whole] == [p.tokens[0].tolist() for p in proposals]
        compared += len(whole)
    assert compared >= 60


@cache
def tau(drafter: str, *overrides: str) -> list[float]:
    """Accepted drafts per round, by prompt, over six stated prompts."""
    here, out = pair(drafter, *overrides), []
    for prompt in texts()[:6]:
        text = [*prompt, *plain(prompt, 96)[:48]]
        with torch.inference_mode():
            taps = features(here.target, text)
        _, accepted = accepted_along(here.drafter, text, len(prompt), taps)
        out.append(sum(accepted) / len(accepted))
    return out


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_acceptance_length_is_as_recorded(drafter):
    rates = tau(drafter)
    assert 1 + sum(rates) / len(rates) >= (3 if drafter == "eagle3" else 4)


def shifted(drafter: str, step: int) -> str:
    taps = resolve(f"tiny/{drafter}").contract["taps.layers"]
    return "taps.layers=" + ",".join(str(k + step) for k in taps)


FAULTS = [
    *[(d, lambda d=d: (shifted(d, 1),)) for d in BLOCKS],
    ("eagle3", lambda: ("taps.layers=7,4,1",)),  # one layer less costs an EAGLE-3 drafter little
    *[(d, lambda: ("rope.theta=1e6",)) for d in DRAFTERS],
    *[(d, lambda: ("fusion.output_norm=false",)) for d in BLOCKS],
    ("dflash", lambda: ("block.first_slot=predicts_next",)),
    ("dflash-full", lambda: ("block.first_slot=predicts_next",)),
    ("dspark", lambda: ("block.first_slot=unused",)),
    ("dflash-speculators", lambda: ("block.first_slot=predicts_next",)),
    ("dspark-bonus", lambda: ("block.first_slot=predicts_next",)),
    ("dspark-anchor", lambda: ("block.first_slot=unused",)),
    ("eagle3", lambda: ("chain.token=same",)),
    ("eagle3", lambda: ("head.vocabulary_map=absolute",)),
    ("dflash", lambda: ("attention.window=none",)),
    ("dflash-speculators", lambda: ("attention.window=none",)),
    ("dspark", lambda: ("markov.previous=anchor",)),
    ("dflash-full", lambda: ("block.position_offset=1",)),
]


@pytest.mark.parametrize(("drafter", "fault"), FAULTS)
def test_a_broken_convention_costs_acceptance(drafter, fault):
    healthy, broken = tau(drafter), tau(drafter, *fault())
    lower = sum(b < h for b, h in zip(broken, healthy, strict=True))
    assert lower >= 5, (healthy, broken)
    assert sum(broken) < 0.85 * sum(healthy)
