"""Drafters against outputs of the public reference implementations, from the checkpoint on disk.

Oracles (data only, see each case.json): z-lab/dflash, DeepSpec, transformers' DFlash generator, vLLM.
"""

from __future__ import annotations

import pytest
import torch
from goldens import close, golden, pair

from conftest import GOLDENS, greedy_read
from truedraft import Decoder, Pair, load_pair, replay, resolve
from truedraft.decode import Round
from truedraft.measure.teacher_forced import features

ROUNDS = ["dflash_zlab_full", "dflash_zlab_swa_causal", "dspark_deepspec_vanilla", "dspark_deepspec_rnn"]


@pytest.mark.parametrize("case", ROUNDS)
def test_rounds(case):
    """Hidden states, logits, drafts and confidence of every round, from the reference's own features."""
    io, expect = golden(case)
    drafter = pair(case).drafter
    cache_, sequence = drafter.new_cache(), 0
    sequence = cache_.open()
    tokens, done = io["sequence"][0], 0
    with torch.inference_mode():
        for r, anchor in enumerate(expect["anchor_positions"]):
            taps = io[f"round{r}.new_features"][0]
            turn = Round(
                sequence,
                taps,
                tokens[done : done + len(taps)],
                tokens[done + 1 : done + len(taps) + 1],
                done,
                torch.tensor(expect["anchor_tokens"][r]),
                anchor,
            )
            done += len(taps)
            assert done == anchor
            drafter.extend([turn], cache_)
            hidden = drafter.block([turn], cache_)
            drafts, logits, confidence = greedy_read(drafter, hidden, turn.anchor_token[None])
            close(hidden, io[f"round{r}.hidden"])
            assert drafts[0].tolist() == expect["drafts"][r]
            if drafter.readout.markov is None:
                wanted = io[f"round{r}.logits"]
                close(logits, wanted[:, -logits.shape[1] :])
                continue
            close(drafter.readout.logits(hidden), io[f"round{r}.base_logits"])
            close(logits, io[f"round{r}.corrected_logits"])
            close(torch.logit(confidence), io[f"round{r}.confidence_logits"])
            assert expect["threshold_counts"][r] == {
                threshold: int((confidence >= float(threshold)).long().cumprod(-1).sum())
                for threshold in expect["threshold_counts"][r]
            }
            for k, previous in enumerate(io[f"round{r}.teacher_prev"][0]):
                state = drafter.readout.markov.start(1) if k == 0 else state  # noqa: F821
                corrected, state = drafter.readout.corrected(
                    drafter.readout.logits(hidden[:, k]), previous[None], hidden[:, k], state
                )
                close(corrected, io[f"round{r}.teacher_logits"][:, k])


@pytest.mark.parametrize("case", ROUNDS)
def test_features(case):
    """The target adapter's taps equal the reference's features."""
    io, _ = golden(case)
    wanted = io["all_features"][0]
    with torch.inference_mode():
        taps = features(pair(case).target, io["sequence"][0].tolist())
    close(taps[: len(wanted)], wanted)


@pytest.mark.parametrize("case", ["dflash_zlab_full", "dspark_deepspec_vanilla", "dspark_deepspec_rnn"])
def test_generate(case):
    """Whole generations of the reference's own loop: output, every round's drafts, acceptance lengths."""
    _, expect = golden(case)
    decoder = Decoder(pair(case).target, pair(case).drafter, keep_drafts=True)
    for entry in expect["generate"]:
        run = decoder.generate([entry["prompt"]], len(entry["output"]))[0]
        assert run.tokens == entry["output"]
        lengths = [a + 1 for a in run.accepted]
        common = min(len(lengths), len(entry["acceptance_lengths"])) - 1
        assert lengths[:common] == entry["acceptance_lengths"][:common]
        verified = entry.get("drafts") or [inputs[1:] for inputs in entry["verify_inputs"]]
        assert [list(drafts) for _, drafts in run.drafts][:common] == verified[:common]
        assert common >= 10


def check_trace(here: Pair, case: str, key: str) -> tuple[int, int]:
    """Hold every round of a trace against ours; returns how many there were, and how many our loop met."""
    _, expect = golden(case)
    decoder = Decoder(here.target, here.drafter, keep_drafts=True)
    compared = total = 0
    for entry in expect["generate"]:
        run = decoder.generate([entry["prompt"]], len(entry["output"]))[0]
        assert run.tokens == entry["output"]
        text, drafts = [*entry["prompt"], *entry["output"]], dict(run.drafts)
        anchors = [turn["anchor_position"] for turn in entry[key]]
        proposals = replay(here.target, here.drafter, text, anchors)
        for turn, proposal in zip(entry[key], proposals, strict=True):
            assert proposal.tokens[0].tolist() == turn["draft"]
            at = turn["anchor_position"]
            total += 1
            # near the token limit loops differ in how many rounds they run and how much they verify
            if at in drafts and len(drafts[at]) == len(turn["draft"]):
                assert list(drafts[at]) == turn["draft"]
                compared += 1
    return total, compared


@pytest.mark.parametrize(
    ("case", "weights", "key"),
    [
        ("dflash_trained", "dflash_trained", "transformers_rounds"),
        ("dflash_trained", "dflash_trained", "vllm_rounds"),
        ("vllm_dspark_v2", "vllm_dspark_v2", "rounds"),
        ("dflash_hf523", "dflash_zlab_full", "rounds"),
        ("dflash_hf523", "dflash_hf523", "rounds"),  # the same weights in transformers' own layout
    ],
)
def test_traces(case, weights, key):
    """Every round that transformers and vLLM drafted: drafts, outputs, and where rounds begin."""
    total, compared = check_trace(pair(weights), case, key)
    assert total >= 40
    assert compared >= 0.9 * total


def test_an_override_reproduces_a_misreading_engine():
    """vLLM 0.32 runs this bidirectional drafter causally: the override drafts what vLLM drafted.

    Held for the checkpoint that vLLM was given (speculators layout), and for the same weights in z-lab's.
    """
    case = "vllm_dflash_v1_speculators"
    target = GOLDENS / case / "target"
    for draft in ("dflash_trained", case):
        native = load_pair(resolve(target, GOLDENS / draft / "draft"))
        misread = load_pair(resolve(target, GOLDENS / draft / "draft", ["attention.causal=true"]))
        total, compared = check_trace(misread, case, "rounds")
        assert total > 100
        assert compared >= 0.9 * total
        with pytest.raises(AssertionError):
            check_trace(native, case, "rounds")


def features_of(here: Pair, text: list[int]) -> torch.Tensor:
    """Features [T, ΣH] of a text, which all its rounds share."""
    with torch.inference_mode():
        return features(here.target, text)


def block_at(
    here: Pair, text: list[int], taps: torch.Tensor, anchor: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Drafts, logits and confidence at one anchor of a text, context fed at once."""
    ids = torch.tensor(text)
    with torch.inference_mode():
        cache_ = here.drafter.new_cache()
        turn = Round(cache_.open(), taps[:anchor], ids[:anchor], ids[1 : anchor + 1], 0, ids[anchor], anchor)
        here.drafter.extend([turn], cache_)
        return greedy_read(here.drafter, here.drafter.block([turn], cache_), turn.anchor_token[None])


@pytest.mark.parametrize(
    ("case", "weights", "overrides"),
    [
        ("dflash_hf523", "dflash_zlab_full", ()),
        ("vllm_dflash_v1_speculators", "vllm_dflash_v1_speculators", ("attention.causal=true",)),
    ],
)
def test_draft_logits_of_engines(case, weights, overrides):
    """Logits that transformers' generator and vLLM's V1 runner drafted from."""
    io, expect = golden(case)
    directory = GOLDENS / weights
    here, compared = load_pair(resolve(directory / "target", directory / "draft", overrides)), 0
    for p, entry in enumerate(expect["generate"]):
        text = [*entry["prompt"], *entry["output"]]
        taps = features_of(here, text)
        for r, turn in enumerate(entry["rounds"]):
            if (wanted := io.get(f"prompt{p}.round{r}.draft_logits")) is not None:
                close(block_at(here, text, taps, turn["anchor_position"])[1], wanted)
                compared += 1
    assert compared >= 4


@pytest.mark.parametrize(("case", "reference"), [("dflash_trained", "zlab"), ("vllm_dspark_v2", "deepspec")])
def test_the_references_own_loop_on_trained_weights(case, reference):
    """Drafts of every round, with z-lab's logits and DeepSpec's confidence where they are recorded."""
    io, expect = golden(case)
    here = pair(case)
    for p, entry in enumerate(expect["generate"]):
        text = [*entry["prompt"], *entry["output"]]
        taps, lengths = features_of(here, text), entry[f"{reference}_acceptance_lengths"]
        anchors = [len(entry["prompt"]) + sum(lengths[:r]) for r in range(len(lengths))]
        for r, (anchor, drafts) in enumerate(zip(anchors, entry[f"{reference}_drafts"], strict=True)):
            if anchor >= len(text):
                continue
            tokens, logits, confidence = block_at(here, text, taps, anchor)
            assert tokens[0, : len(drafts)].tolist() == drafts
            if f"prompt{p}.round{r}.draft_logits" in io:
                close(logits, io[f"prompt{p}.round{r}.draft_logits"])
            if confidence is not None:
                close(torch.logit(confidence[0]), io[f"prompt{p}.confidence_logits"][r])
