"""The main job's report: acceptance from counts, losslessness with the tie rule."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

import pytest
import torch

from conftest import GOLDENS
from truedraft import Decoder, Deployment, Pair, Prompt, acceptance, load_pair, replay, resolve, run_pair
from truedraft.contract import AcceptanceRecord, InputError
from truedraft.decode import KVCache, Proposal, Sampling
from truedraft.measure import accepted_along
from truedraft.measure.teacher_forced import features
from truedraft.measure.ties import is_sampling_tie, is_tie, logits_by_rows


@cache
def trained() -> Pair:
    case = GOLDENS / "dflash_trained"
    return load_pair(resolve(case / "target", case / "draft"))


@cache
def prompts() -> list[Prompt]:
    expect = json.loads((GOLDENS / "dflash_trained" / "expect.json").read_text())
    return [Prompt(f"p{i}", tuple(entry["prompt"])) for i, entry in enumerate(expect["generate"][:3])]


@pytest.mark.parametrize("batch_size", [1, 2])
def test_report_of_a_trained_pair(batch_size):
    pair, done = trained(), []
    report = run_pair(
        pair.contract,
        pair.target,
        pair.drafter,
        prompts(),
        30,
        deployment=Deployment(batch_size=batch_size),
        decode_text=lambda ids: f"{len(ids)} tokens",
        on_progress=done.append,
    )
    assert (report.lossless.identical, report.lossless.of, report.lossless.ok) == (3, 3, True)
    assert done[-1] == 3
    out = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert set(out) >= {"schema", "contract_hash", "lossless", "acceptance", "speed", "outputs"}
    assert out["lossless"]["method"] == "greedy_identity"
    assert out["speed"]["ratio"] > 0
    assert [o["text"] for o in out["outputs"]] == ["30 tokens"] * 3
    accepted = sum(sum(r["accepted"]) for r in out["records"])
    rounds = sum(len(r["accepted"]) for r in out["records"])
    assert out["acceptance"]["tau"] == pytest.approx(1 + accepted / rounds)
    assert accepted + rounds + 3 >= 90  # every output token is an accepted draft, a bonus token, or the first


def test_rounds_along_a_known_output_are_those_of_the_real_loop():
    pair = trained()
    for prompt in prompts():
        run = Decoder(pair.target, pair.drafter).generate([prompt.tokens], 40)[0]
        text = [*prompt.tokens, *run.tokens]
        with torch.inference_mode():
            taps = features(pair.target, text)
        assert accepted_along(pair.drafter, text, len(prompt.tokens), taps) == (
            tuple(run.proposed),
            tuple(run.accepted),
        )


def test_replay_does_not_depend_on_which_anchors_came_before():
    pair, tokens = trained(), list(range(40, 90))
    together = replay(pair.target, pair.drafter, tokens, [5, 6, 20, 49])
    alone = [replay(pair.target, pair.drafter, tokens, [a])[0] for a in (5, 6, 20, 49)]
    assert [p.tokens.tolist() for p in together] == [p.tokens.tolist() for p in alone]


def test_proposing_twice_without_new_rows_gives_the_same_drafts():
    pair = trained()
    decoder = Decoder(pair.target, pair.drafter, keep_drafts=True)
    first = decoder.generate([prompts()[0].tokens], 20)[0]
    cache_, again = pair.drafter.new_cache(), []
    sequence = cache_.open()
    from truedraft.decode import Round

    text = torch.tensor([*prompts()[0].tokens, *first.tokens])
    with torch.inference_mode():
        taps = features(pair.target, text.tolist())
        anchor = len(prompts()[0].tokens)
        turn = Round(sequence, taps[:anchor], text[:anchor], text[1 : anchor + 1], 0, text[anchor], anchor)
        again.append(pair.drafter.propose([turn], cache_).tokens.tolist())
        empty = Round(sequence, taps[:0], text[:0], text[:0], anchor, text[anchor], anchor)
        again.append(pair.drafter.propose([empty], cache_).tokens.tolist())
    assert again[0] == again[1] == [list(first.drafts[0][1])]


class TableTarget:
    """A target whose logits depend on the last token alone, and slightly on the number of rows."""

    max_positions = 1000
    stop_token_ids: frozenset[int] = frozenset()
    device = torch.device("cpu")
    dtype = torch.float32

    def __init__(self, gap: float, noise: float) -> None:
        self.gap, self.noise = gap, noise

    def new_cache(self) -> KVCache:
        return KVCache(0, 0, 0)

    def forward(self, batch, cache):
        for i, sequence in enumerate(batch.sequence_ids):
            rows = batch.rows_of(i)
            cache.reserve(sequence, rows.stop - rows.start)
        logits = torch.nn.functional.one_hot((batch.tokens + 1) % 8, 8).float() * 5
        near = batch.tokens == 4  # after token 4 two tokens are close
        logits[near, 6] = 5 - self.gap + (self.noise if len(batch.tokens) > 1 else 0.0)
        rows = slice(None) if batch.logit_rows is None else batch.logit_rows
        return logits[rows], torch.zeros(len(batch.tokens), 0)


class CountingDrafter:
    """Proposes the next three numbers."""

    proposals, has_confidence, needs_anchor_features = 3, False, False

    def new_cache(self) -> KVCache:
        return KVCache(0, 0, 0)

    def propose(self, rounds, cache, sampling=None):
        start = torch.stack([turn.anchor_token for turn in rounds])
        return Proposal((start[:, None] + torch.arange(1, 4)) % 8, (3,) * len(rounds))


def run_table(gap, noise):
    return run_pair(trained().contract, TableTarget(gap, noise), CountingDrafter(), [Prompt("p", (1,))], 12)


def test_no_noise_no_divergence():
    report = run_table(gap=1e-3, noise=0.0)
    assert (report.lossless.identical, report.lossless.ties) == (1, 0)


def test_a_divergence_within_two_epsilon_is_a_tie():
    report = run_table(gap=1e-3, noise=1.5e-3)
    (divergence,) = report.lossless.divergences
    assert divergence.tie
    assert report.lossless.ok
    assert divergence.gap == pytest.approx(1e-3, rel=1e-2)
    assert divergence.epsilon == pytest.approx(1.5e-3, rel=1e-2)
    assert divergence.position == 3


def test_a_forward_that_is_wrong_for_many_rows_does_not_excuse_itself():
    """The gap lies within 2ε, but rounding cannot explain such an ε."""
    report = run_table(gap=1.0, noise=4.0)
    (divergence,) = report.lossless.divergences
    assert divergence.gap < 2 * divergence.epsilon
    assert not divergence.tie
    assert not report.lossless.ok


def test_a_gap_beyond_two_epsilon_is_a_fault():
    assert is_tie(TableTarget(gap=1e-2, noise=1e-3), (1,), (2, 3, 4, 5), 3, 4)[0] is False


def record(proposed, accepted):
    return AcceptanceRecord(
        request_id="r", prompt_id="p", arm="a", proposed=proposed, accepted=accepted, prompt_tokens=1,
        output_tokens=1, output_hash="", K=3, contract_hash="", batch_size=1, started=0.0,
    )  # fmt: skip


def test_figures_follow_their_definitions():
    figures = acceptance([record((3, 3, 2), (3, 0, 1)), record((3,), (2,))])
    assert figures.tau == 1 + 6 / 4
    assert figures.survival == (3 / 4, 2 / 4, 1 / 4)
    assert figures.conditional == (3 / 4, 2 / 3, 1 / 2)


def test_no_round_no_tau():
    assert acceptance([record((), ())]).tau is None


@pytest.mark.parametrize(("proposed", "accepted"), [((3,), (4,)), ((3,), (-1,)), ((3, 3), (1,))])
def test_impossible_counts_are_refused(proposed, accepted):
    with pytest.raises(ValueError, match="accepted"):
        record(proposed, accepted)


def test_a_confidence_threshold_verifies_fewer_drafts_and_changes_no_output():
    case = GOLDENS / "dspark_deepspec_vanilla"
    pair = load_pair(resolve(case / "target", case / "draft"))
    prompts_ = [Prompt("p", tuple(range(20, 40)))]
    runs = [
        run_pair(pair.contract, pair.target, pair.drafter, prompts_, 24, deployment=Deployment(None, t))
        for t in (0.0, 0.5, 1.0)
    ]
    proposed = [run.acceptance.proposed for run in runs]
    assert proposed[0] > proposed[1] > proposed[2] == 0
    assert runs[0].outputs == runs[1].outputs == runs[2].outputs
    assert all(run.lossless.ok for run in runs)


def test_a_threshold_without_a_confidence_head_is_refused():
    with pytest.raises(InputError, match="the drafter has no confidence head"):
        Decoder(trained().target, trained().drafter, confidence_threshold=0.5)


HOT = Deployment(temperature=0.8, top_k=40, top_p=0.98, seed=3)


@pytest.mark.parametrize("proposal", ["greedy", "sampled"])
@pytest.mark.parametrize("verification", ["standard", "block", "exact_match"])
def test_report_of_a_sampled_run(proposal, verification):
    """How losslessness is known depends on the rule; the settings go into report and records."""
    pair = trained()
    drafting = {"draft_temperature": 0.7, "draft_top_k": 50, "draft_top_p": 0.9}
    how = replace(HOT, verification=verification, proposal=proposal, batch_size=2)
    how = replace(how, **drafting) if proposal == "sampled" else how
    report = run_pair(pair.contract, pair.target, pair.drafter, prompts(), 24, deployment=how)
    method = "sampled_identity" if verification == "exact_match" else "greedy_on_same_prompts"
    assert (report.lossless.method, report.lossless.identical, report.lossless.of) == (method, 3, 3)
    assert report.deployment == replace(how, speculative_tokens=pair.drafter.proposals)
    for record_ in report.records:
        settings = (record_.temperature, record_.top_k, record_.top_p, record_.seed)
        assert settings == (0.8, 40, 0.98, 3)


def test_a_sampled_prompt_does_not_depend_on_its_batch():
    pair = trained()
    how = replace(HOT, verification="standard", proposal="sampled", draft_temperature=0.8)
    outputs = [
        run_pair(
            pair.contract, pair.target, pair.drafter, prompts(), 24, deployment=replace(how, batch_size=n)
        )
        for n in (1, 3)
    ]
    assert [o.tokens for o in outputs[0].outputs] == [o.tokens for o in outputs[1].outputs]
    assert len({o.tokens for o in outputs[0].outputs}) == 3


def sampling_tie(noise, point):
    """Plain output 2, 3, 4, 5 of the table target; at position 3 tokens 5 and 6 share nearly all mass."""
    target = TableTarget(gap=1e-3, noise=noise)
    return is_sampling_tie(target, (1,), (2, 3, 4, 5), 6, 3, 4, Sampling(0.2), point)


def test_a_draw_that_falls_between_two_laws_is_a_tie():
    law = Sampling(0.2).law(logits_by_rows(TableTarget(1e-3, 0.0), (1, 2, 3, 4), 3, 1)[-1])
    edge = float(law[:6].sum())  # beyond it the one-row law draws token 6
    tie, gap, epsilon = sampling_tie(1e-3, edge - 1e-6)
    assert tie
    assert gap == pytest.approx(1e-3, rel=1e-2)
    assert epsilon == pytest.approx(1e-3, rel=1e-2)
    assert not sampling_tie(1e-3, edge / 2)[0]
    assert not sampling_tie(0.0, edge - 1e-6)[0]
    assert not sampling_tie(4.0, edge - 1e-6)[0]  # rounding cannot explain such an epsilon


def test_a_faulty_cache_is_seen_in_a_sampled_run_too():
    """Losslessness of a sampled run rests on the greedy one: a target that errs on many rows fails it."""
    report = run_pair(
        trained().contract,
        TableTarget(gap=1.0, noise=4.0),
        CountingDrafter(),
        [Prompt("p", (1,))],
        12,
        deployment=Deployment(temperature=0.5, verification="standard"),
    )
    assert report.lossless.method == "greedy_on_same_prompts"
    assert not report.lossless.ok
