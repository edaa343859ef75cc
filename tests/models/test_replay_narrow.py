"""Replay over some ids: the laws given those ids, and the acceptance of the whole vocabulary all the same."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from test_block_axes import Make, Tiny, tiny_pairs
from test_replay import task
from torch import Tensor

from probe_material import features, probed, texts, wired
from truedraft.decode import Round
from truedraft.probe import narrow
from truedraft.probe.narrow import NarrowDrafter, few_ids
from truedraft.probe.replay import FLOOR, TEMPERATURES, Scores, Task, Text, score

TRAINED = [
    ("dflash",),
    ("dspark",),
    ("dspark", "head.softcap=3", "head.softcap_order=after_sequence_head"),
    ("dspark", "head.softcap=3", "head.multiplier=0.5"),
    ("dspark-bonus", "context.end=through_anchor"),
    ("eagle3",),
]


def own_ids(tasks: Sequence[Task]) -> Tensor:
    """No more than the ids of the texts, which must be among them."""
    return torch.tensor(sorted({token for given in tasks for token in given.text.tokens}))


@pytest.mark.parametrize("memory", [2**28, 1])
@pytest.mark.parametrize("names", TRAINED, ids=" ".join)
def test_acceptance_is_that_of_the_whole_vocabulary(names: tuple[str, ...], memory: int) -> None:
    tasks = [task(index, *names) for index in (0, 5, 1)]
    drafter = wired(*names).drafter
    ids = own_ids(tasks)
    assert len(ids) < 500
    for whole, few in zip(score(drafter, tasks), score(drafter, tasks, memory, ids), strict=True):
        for slots in range(1, drafter.proposals + 1):
            assert few.accepted(slots).tolist() == whole.accepted(slots).tolist()
        assert (few.log_q >= whole.log_q - 1e-4).all()  # given more, a token is no less likely
    together = score(drafter, tasks, ids=ids)
    alone = [score(drafter, [one], ids=ids)[0] for one in tasks]
    for one, other in zip(together, alone, strict=True):
        np.testing.assert_allclose(one.log_q, other.log_q, atol=2e-4)


@pytest.mark.parametrize("names", TRAINED, ids=" ".join)
def test_laws_are_those_given_the_ids(names: tuple[str, ...]) -> None:
    """The whole head's laws at 1, restricted and divided by what is left of them."""
    given = task(2, *names)
    drafter, ids = wired(*names).drafter, own_ids([given])
    laws = forced_laws(drafter, given)
    own = torch.arange(laws.shape[-1]) if drafter.target_ids is None else drafter.target_ids
    mass = laws[..., torch.isin(own, ids).numpy()].sum(-1)
    place = TEMPERATURES.index(1.0)
    whole = score(drafter, [given])[0].log_q[..., place]
    few = score(drafter, [given], ids=ids)[0].log_q[..., place]
    likely = (whole > FLOOR + 1) & (few > FLOOR + 1)
    assert likely.mean() > 0.8
    np.testing.assert_allclose(few[likely], (whole - np.log(mass))[likely], atol=2e-3)


def forced_laws(drafter: Any, given: Task) -> Any:
    """Laws [A, γ, draft ids] of the whole drafter behind the true tokens."""

    class Keeping:
        def __init__(self, truth: Tensor) -> None:
            self.truth, self.kept = truth, []

        def choose(self, logits: Tensor) -> Tensor:
            self.kept.append(logits.double().softmax(-1))
            return self.truth[:, len(self.kept) - 1]

        def choose_all(self, logits: Tensor) -> Tensor:
            for slot in range(logits.shape[1]):
                self.choose(logits[:, slot])
            return self.truth

        def proposal(self, confidence: Tensor | None = None) -> None:
            return None

    ids, out = torch.tensor(given.text.tokens), []
    with torch.inference_mode():
        for anchor in given.anchors:
            end = anchor + int(drafter.needs_anchor_features)
            cache = drafter.new_cache()
            turn = Round(cache.open(), given.taps[:end], ids[:end], ids[1 : end + 1], 0, ids[anchor], anchor)
            keeping = Keeping(ids[None, anchor + 1 : anchor + 1 + drafter.proposals])
            drafter.draft([turn], cache, keeping)
            out.append(torch.cat(keeping.kept))
    return torch.stack(out).numpy()


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Make:
    return tiny_pairs(tmp_path_factory.mktemp("tiny"))


@pytest.mark.parametrize(
    ("variant", "overrides"),
    [
        ("zlab", ()),
        ("deepspec", ("attention.window=8",)),
        ("deepspec-gated", ("block.first_slot=unused",)),
        ("deepspec-gated", ("head.softcap=1", "head.softcap_order=after_sequence_head")),
        ("deepspec-rnn", ()),
        ("deepspec-rnn", ("markov.previous=anchor", "head.softcap=1.5")),
        ("dspark-rnn", ()),
    ],
    ids=str,
)
def test_kinds_of_heads(tiny: Make, variant: str, overrides: tuple[str, ...]) -> None:
    """Texts that follow the drafter's own drafts for some slots: whatever they are, the lengths agree."""
    pair = tiny(variant)
    _, _, drafter = pair.drafter(overrides)
    tasks = [followed(pair, drafter, anchor, length) for anchor in (9, 23, 40) for length in (0, 1, 3)]
    ids = own_ids(tasks)
    lengths = []
    for whole, few in zip(score(drafter, tasks), score(drafter, tasks, ids=ids), strict=True):
        assert few.accepted(drafter.proposals).tolist() == whole.accepted(drafter.proposals).tolist()
        lengths += few.accepted(drafter.proposals).tolist()
    assert max(lengths) >= 3 or drafter.proposals < 3
    assert min(lengths) == 0


def followed(pair: Tiny, drafter: Any, anchor: int, length: int) -> Task:
    """A text that goes on with the first `length` drafts, and then otherwise."""
    tokens = pair.tokens.tolist()
    cache, last = drafter.new_cache(), bool(drafter.needs_anchor_features)
    with torch.inference_mode():
        drafts = drafter.propose([pair.round(cache.open(), 0, anchor + last, last)], cache).tokens[0].tolist()
    tokens[anchor + 1 : anchor + 1 + length] = drafts[:length]
    if length < len(drafts) and tokens[anchor + 1 + length] == drafts[length]:
        tokens[anchor + 1 + length] = (drafts[length] + 1) % 30 + 2
    return Task(Text(tuple(tokens[:60]), 1), [anchor], pair.taps)


def test_a_hit_among_the_ids_that_another_id_beats_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block's own true tokens alone are a contest that many of them win and lose against the rest."""
    drafter, whole = wired("dspark").drafter, task(5, "dspark")
    given = [Task(whole.text, [anchor], whole.taps) for anchor in whole.anchors]
    truths = [
        torch.tensor(sorted(set(one.text.tokens[one.anchors[0] + 1 :][: drafter.proposals]))) for one in given
    ]

    def found() -> int:
        return total([score(drafter, [one], ids=ids)[0] for one, ids in zip(given, truths, strict=True)])

    strict = found()
    monkeypatch.setattr(NarrowDrafter, "checked", lambda self, hits, *_: hits)
    assert found() > strict == total(score(drafter, given))


def total(scores: Sequence[Scores]) -> int:
    return sum(int(one.accepted(one.hits.shape[1]).sum()) for one in scores)


def test_the_given_drafter_stays_as_it_is() -> None:
    here = wired("dspark")
    before = here.drafter.head.weight, here.drafter.head.product.kernel, here.drafter.target_ids
    assert here.drafter.head.markov is not None
    bias = here.drafter.head.markov.output.kernel
    score(here.drafter, [task(0, "dspark")], ids=own_ids([task(0, "dspark")]))
    head = here.drafter.head
    assert head.weight is before[0]
    assert (head.product.kernel, head.target_ids, head.markov.output.kernel) == (None, None, None)
    assert (before[1], before[2], bias) == (None, None, None)


def test_ids_are_those_of_the_texts_and_others_from_everywhere() -> None:
    found = few_ids([[5, 7, 9], [99_998, 7]], 100_000)
    assert found is not None
    ids = found.tolist()
    assert {5, 7, 9, 99_998} <= set(ids)
    assert narrow.FEWEST <= len(ids) <= narrow.FEWEST + 4
    assert ids == sorted(set(ids))
    assert (ids[0], ids[-1]) == (0, 99_999)
    assert max(b - a for a, b in itertools.pairwise(ids)) <= 25
    assert few_ids([[5, 7, 9]], narrow.FEWEST * narrow.GAIN - 1) is None
    assert few_ids([range(30_000)], 100_000) is None


@pytest.mark.parametrize("draft", ["dflash", "dspark", "eagle3"])
def test_verdicts_are_those_of_the_whole_vocabulary(draft: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = ("taps.layers=2,4,6",) if draft == "dflash" else ()
    whole = probed(draft, *broken, axes=("taps.layers", "rope"))
    monkeypatch.setattr(narrow, "FEWEST", 64)
    monkeypatch.setattr(narrow, "GAIN", 1)
    ids = few_ids([text.tokens for text in texts()], 1024)
    assert ids is not None
    assert len(ids) < 900
    few = probed(draft, *broken, axes=("taps.layers", "rope"))
    assert [(v.axis, v.verdict, v.best) for v in few.axes] == [
        (v.axis, v.verdict, v.best) for v in whole.axes
    ]
    assert few.best_tau == whole.best_tau
    assert features(0, wired(draft)).shape[0] == len(texts()[0].tokens)
