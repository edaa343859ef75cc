"""The probe's replay: leading hits are the free loop's accepted lengths, laws those of the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from reference_block import reference_round
from reference_chain import reference_chain

from probe_material import everything, features, prompts, texts, wired, wiring
from truedraft import replay
from truedraft.probe import replay as replaying
from truedraft.probe.replay import FLOOR, TEMPERATURES, Task, Text, score

WIRINGS = [
    ("dflash",),
    ("dflash", "attention.window=none"),
    ("dflash", "attention.window=16,none,8"),
    ("dflash", "context.end=through_anchor"),
    ("dflash-full", "attention.window_rule=anchor", "attention.window=24"),
    ("dspark",),
    ("dspark", "context.end=through_anchor"),
    ("eagle3",),
    ("eagle3", "attention.window=20"),
    ("eagle3", "rope.theta=30000"),
]


def task(index: int, *names: str) -> Task:
    """Anchors in the prompt too, where the text is not the target's own and drafts are wrong more often."""
    here, text = wired(*names), Text(texts()[index].tokens, 1)
    return Task(text, tuple(text.anchors(here.drafter.proposals))[::17], features(index, here))


def free_running(given: Task, *names: str) -> list[list[int]]:
    """What the drafter proposes by itself at each anchor."""
    drafter = wired(*names).drafter
    proposals = replay(everything().target, drafter, given.text.tokens, given.anchors, given.taps)
    return [proposal.tokens[0].tolist() for proposal in proposals]


def agreeing(drafts: list[int], truth: tuple[int, ...]) -> int:
    return next((i for i, (a, b) in enumerate(zip(drafts, truth, strict=True)) if a != b), len(drafts))


@pytest.mark.parametrize("names", WIRINGS, ids=" ".join)
def test_leading_hits_are_the_accepted_lengths_of_the_free_loop(names: tuple[str, ...]) -> None:
    tasks = [task(index, *names) for index in (0, 5, 1)]
    drafter = wired(*names).drafter
    lengths = []
    for given, found in zip(tasks, score(drafter, tasks), strict=True):
        drafts, tokens = free_running(given, *names), given.text.tokens
        truth = [tokens[anchor + 1 : anchor + 1 + drafter.proposals] for anchor in given.anchors]
        lengths += [agreeing(own, true) for own, true in zip(drafts, truth, strict=True)]
        assert found.accepted(drafter.proposals).tolist() == lengths[-len(drafts) :]
        assert found.accepted(2).tolist() == [min(length, 2) for length in lengths[-len(drafts) :]]
        if wired(*names).contract.get("markov.kind") is None and names[0] != "eagle3":  # no slot sees another
            assert found.hits.tolist() == [
                [a == b for a, b in zip(own, true, strict=True)]
                for own, true in zip(drafts, truth, strict=True)
            ]
    assert len(set(lengths)) > 1  # else the lengths would compare little


@pytest.mark.parametrize("names", WIRINGS, ids=" ".join)
def test_scores_do_not_depend_on_the_pass(names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """All anchors of several texts at once, one by one, and in passes that split texts and groups."""
    drafter = wired(*names).drafter
    tasks = [task(index, *names) for index in (2, 0, 3)]
    together = score(drafter, tasks)
    monkeypatch.setattr(replaying, "ANCHORS_TOGETHER", 3)
    monkeypatch.setattr(replaying, "ROWS_TOGETHER", 500)
    apart = score(drafter, tasks)
    alone = [
        replaying.joined([score(drafter, [Task(t.text, [anchor], t.taps)])[0] for anchor in t.anchors])
        for t in tasks
    ]
    for found in (apart, alone, score(drafter, tasks, memory=1)):
        for one, other in zip(together, found, strict=True):
            assert np.array_equal(one.hits, other.hits)
            np.testing.assert_allclose(one.log_q, other.log_q, atol=2e-4)


def known_law(name: str, overrides: tuple[str, ...], text: Text, anchor: int) -> torch.Tensor:
    """Logits [γ, draft ids] by the plain second implementations, teacher-forced."""
    here = wiring(name, *overrides)
    found = here.resolve({})
    axes: dict[str, Any] = {axis: sourced.value for axis, sourced in found.contract.axes.items()}
    weights = here._weights(found.tensors)
    taps = features_of(text, name, overrides)
    proposals = wired(name, *overrides).drafter.proposals
    truth = text.tokens[anchor + 1 : anchor + 1 + proposals]
    tables = everything().tables
    if name == "eagle3":
        out: dict[str, Any] = reference_chain(
            axes, weights, *tables, taps[:anchor], text.tokens, proposals, forced=truth
        )
    else:
        end = anchor + int(axes["context.end"] == "through_anchor")
        before = (text.tokens[anchor], *truth[:-1])
        out = reference_round(axes, weights, *tables, taps[:end], text.tokens[anchor], anchor, forced=before)
    logits: torch.Tensor = out["logits"].detach()
    return logits


def features_of(text: Text, name: str, overrides: tuple[str, ...]) -> torch.Tensor:
    index = next(i for i, known in enumerate(texts()) if known.tokens[: len(text.tokens)] == text.tokens)
    rows: torch.Tensor = features(index, wired(name, *overrides))[: len(text.tokens)]
    return rows


@pytest.mark.parametrize(
    ("name", "overrides"),
    [
        ("dflash", ("attention.window=6,none,6",)),
        ("dspark", ()),
        ("dspark-bonus", ("context.end=through_anchor",)),
        ("eagle3", ()),
        ("eagle3", ("chain.feedback=post_norm", "chain.token=same")),
    ],
)
def test_log_probabilities_are_those_of_the_reference(name: str, overrides: tuple[str, ...]) -> None:
    whole = texts()[2]
    text, anchors = Text(whole.tokens[:40], 20), (9, 22)
    drafter = wired(name, *overrides).drafter
    found = score(drafter, [Task(text, anchors, features_of(text, name, overrides))])[0]
    d2t = None
    if name == "eagle3":
        d2t = wiring(name)._weights(wiring(name).resolve({}).tensors)["d2t"]
    for row, anchor in enumerate(anchors):
        logits = known_law(name, overrides, text, anchor)
        for slot in range(drafter.proposals):
            truth = text.tokens[anchor + 1 + slot]
            place = truth
            if d2t is not None:
                ids = (d2t + torch.arange(len(d2t))).tolist()
                place = ids.index(truth) if truth in ids else -1
            for number, temperature in enumerate(TEMPERATURES):
                law = (logits[slot].double() / temperature).log_softmax(-1)
                wanted = FLOOR if place < 0 else max(float(law[place]), FLOOR)
                assert found.log_q[row, slot, number] == pytest.approx(wanted, abs=2e-3)
            assert bool(found.hits[row, slot]) == (int(logits[slot].argmax()) == place)


def test_a_token_that_the_draft_vocabulary_lacks_is_a_miss() -> None:
    here = wired("eagle3")
    assert here.drafter.target_ids is not None
    lacking = sorted(set(range(1024)) - set(here.drafter.target_ids.tolist()))
    text = texts()[0]
    anchor = text.start + 3
    # the draft vocabulary's row 0 stands for another token: a careless map would look there
    changed = (*text.tokens[: anchor + 2], lacking[0], *text.tokens[anchor + 3 :])
    found = score(here.drafter, [Task(Text(changed, text.start), [anchor], features(0, here))])[0]
    assert found.log_q[0, 1].tolist() == [FLOOR] * len(TEMPERATURES)
    assert not found.hits[0, 1]
    assert (found.log_q[0, 0] > FLOOR).all()


def test_slots_behind_the_end_of_a_text_are_misses() -> None:
    """Token 0 ends texts: a drafter may well draft more of it there, which nothing would have accepted."""
    for names in (("dflash", "block.proposals=15"), ("eagle3",), ("dspark",)):
        here = wired(*names)
        for index, text in enumerate(texts()):
            count = len(text.tokens)
            anchors = range(count - here.drafter.proposals, count - 1)
            found = score(here.drafter, [Task(text, anchors, features(index, here))])[0]
            for anchor, hits, log_q in zip(anchors, found.hits, found.log_q, strict=True):
                assert not hits[count - 1 - anchor :].any()
                assert (log_q[count - 1 - anchor :] == FLOOR).all()


def test_anchors_leave_room_for_a_whole_draft() -> None:
    text = Text(tuple(range(2, 14)), 4)
    assert list(text.anchors(7)) == [4]
    assert list(text.anchors(5)) == [4, 5, 6]
    assert not text.anchors(8)
    assert list(Text((5, 6, 7), 0).anchors(1)) == [1]  # behind one row of context at least


def test_the_texts_are_the_target_s_own_greedy_words() -> None:
    from probe_material import model

    for prompt, text in list(zip(prompts(), texts_in_order(), strict=True))[:3]:
        ids = torch.tensor([text.tokens])
        with torch.inference_mode():
            said = model_logits(model(), ids).argmax(-1)[0].tolist()
        assert text.tokens[: len(prompt)] == prompt
        assert list(text.tokens[len(prompt) :]) == said[len(prompt) - 1 : -1]


def texts_in_order() -> list[Text]:
    """In the order of the prompts, not in the sample's random one."""
    known = {text.tokens[: text.start]: text for text in texts()}
    return [known[prompt] for prompt in prompts()]


def model_logits(of: Any, ids: torch.Tensor) -> torch.Tensor:
    """By plain transformers in one forward: an instance of its own, whose attention nobody replaced."""
    from transformers import AutoModelForCausalLM

    plain = AutoModelForCausalLM.from_pretrained(of.config._name_or_path, dtype=torch.float32)
    logits: torch.Tensor = plain(ids, use_cache=False).logits
    return logits
