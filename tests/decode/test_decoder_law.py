"""Whole outputs of the decoder have the target's law: exactly on tables, by chi-square on the pair `tiny`."""

from __future__ import annotations

import itertools
import math
import random
from functools import cache

import pytest
import torch
from enumeration import Paths, distance, law_of
from table_pair import TableDrafter, TableTarget, table, targets_law

from truedraft import Pair, load_pair, resolve
from truedraft.contract import InputError
from truedraft.decode import GREEDY, Decoder, Sampling, Seeded, verify
from truedraft.formats import evaluation_prompts

EXACT = 1e-12
METHODS = ["standard", "block", "exact_match"]
WARM = Sampling(1.0)

# Tables, every path walked.


def tables(seed: int, size: int, proposals: int, stop: frozenset[int] | None = None) -> tuple:
    """A target and a drafter; by default the last of three or more tokens is a stop token."""
    rng = random.Random(seed)
    zeros = 0.1 if size > 2 else 0.0
    stop = frozenset({size - 1} if size > 2 else ()) if stop is None else stop
    return TableTarget(table(rng, size, zeros=zeros), stop), TableDrafter(
        table(rng, size, zeros=zeros), proposals
    )


def outputs(decoder: Decoder, prompts: list[list[int]], count: int) -> tuple:
    runs = decoder.generate(prompts, count)
    return tuple((tuple(run.tokens), run.finish) for run in runs)


def law_of_decoder(target, drafter, prompts, count, only=None, **options) -> dict:
    """The law of what is output; with `only`, that prompt's alone is random, the others' is seeded."""

    def program(paths: Paths):
        def chances(index: int, use: str):
            return paths if only in (None, index) else Seeded(options.get("seed", 0), index, use)

        found = outputs(Decoder(target, drafter, chances=chances, **options), prompts, count)
        return found if only is None else found[only]

    return law_of(program)


SETTINGS = {
    "1/1": (WARM, WARM),
    "1/greedy": (WARM, GREEDY),
    "k/1": (Sampling(0.7, top_k=2), Sampling(1.3)),
    "p/k": (Sampling(1.2, top_p=0.8), Sampling(0.6, top_k=2)),
    "kp/p": (Sampling(1.5, top_k=2, top_p=0.9), Sampling(1.0, top_p=0.7)),
}
SIZES = [(3, 2, 3), (3, 1, 4), (2, 2, 4)]  # vocabulary, drafts per round, tokens
COMBINATIONS = [
    *itertools.product(["standard", "block"], SETTINGS, SIZES),
    *itertools.product(["exact_match"], SETTINGS, SIZES[1:2]),
    *itertools.product(["exact_match"], ["1/greedy", "kp/p"], SIZES[::2]),
]


@pytest.mark.parametrize(("method", "setting", "sizes"), COMBINATIONS)
def test_outputs_have_the_targets_law(method, setting, sizes):
    size, proposals, count = sizes
    sampling, drafting = SETTINGS[setting]
    target, drafter = tables(sum(sizes), size, proposals)
    prompt = [0, size - 1]
    found = law_of_decoder(
        target, drafter, [prompt], count, sampling=sampling, draft_sampling=drafting, verification=method
    )
    wanted = targets_law(target, sampling, prompt, count)
    assert len(wanted) > 2
    assert distance(found, {(output,): p for output, p in wanted.items()}) < EXACT


CUTS = [{"confidence_threshold": 0.5}, {"speculative_tokens": 1}, {"speculative_tokens": 0}, {"positions": 4}]


@pytest.mark.parametrize("drafting", [WARM, GREEDY], ids=["sampled", "greedy"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("options", CUTS, ids=lambda options: next(iter(options)))
def test_cut_blocks(options, method, drafting):
    options = dict(options)
    target, drafter = tables(11, 2, 2)
    target.max_positions = options.pop("positions", 99)
    count = 3 if drafting == WARM and "positions" not in options and target.max_positions > 4 else 4
    found = law_of_decoder(
        target, drafter, [[1]], count, sampling=WARM, draft_sampling=drafting, verification=method, **options
    )
    wanted = targets_law(target, WARM, [1], count)
    assert {finish for _, finish in wanted} == {"context" if count > target.max_positions - 1 else "length"}
    assert distance(found, {(output,): p for output, p in wanted.items()}) < EXACT


@pytest.mark.parametrize("method", METHODS)
def test_reduced_draft_vocabulary(method):
    rng = random.Random(12)
    target = TableTarget(table(rng, 4), frozenset({3}))
    drafter = TableDrafter(table(rng, 4, width=2), 2, target_ids=[2, 0])
    found = law_of_decoder(target, drafter, [[1]], 3, sampling=WARM, draft_sampling=WARM, verification=method)
    wanted = targets_law(target, WARM, [1], 3)
    assert distance(found, {(output,): p for output, p in wanted.items()}) < EXACT


@pytest.mark.parametrize("drafting", [WARM, GREEDY], ids=["sampled", "greedy"])
@pytest.mark.parametrize("method", METHODS)
def test_sequences_of_a_batch_are_independent(method, drafting):
    """The joint law is the product: walked in full where short."""
    target, drafter = tables(21, 2, 2, frozenset({1}))
    prompts = [[0], [1, 1]]
    options = {"sampling": WARM, "draft_sampling": drafting, "verification": method}
    found = law_of_decoder(target, drafter, prompts, 2, **options)
    one, other = (targets_law(target, WARM, prompt, 2) for prompt in prompts)
    product = {(a, b): p * q for (a, p), (b, q) in itertools.product(one.items(), other.items())}
    assert distance(found, product) < EXACT


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", range(2))
def test_a_sequence_keeps_its_law_whatever_its_neighbour_does(method, seed):
    target, drafter = tables(22, 2, 2, frozenset({1}))
    prompts = [[0], [1, 1]]
    options = {"sampling": WARM, "draft_sampling": WARM, "verification": method, "seed": seed}
    for only, prompt in enumerate(prompts):
        found = law_of_decoder(target, drafter, prompts, 4, only=only, **options)
        assert distance(found, targets_law(target, WARM, prompt, 4)) < EXACT


@pytest.mark.parametrize("seed", range(2))
def test_greedy_output_whatever_is_drafted(seed):
    target, drafter = tables(seed, 3, 2, frozenset())
    found = law_of_decoder(target, drafter, [[1]], 4, sampling=GREEDY, draft_sampling=WARM)
    assert list(found) == [(output,) for output in targets_law(target, GREEDY, [1], 4)]


def test_exact_match_is_plain_sampling_token_for_token():
    for seed in range(30):
        rng = random.Random(seed)
        target, drafter = TableTarget(table(rng, 5), frozenset({4})), TableDrafter(table(rng, 5), 3)
        prompts = [[0], [1, 2], [3]]
        plain = outputs(Decoder(target, sampling=WARM, seed=seed), prompts, 12)
        for drafting in (WARM, GREEDY):
            decoder = Decoder(
                target, drafter, sampling=WARM, draft_sampling=drafting, verification="exact_match", seed=seed
            )
            assert outputs(decoder, prompts, 12) == plain
        alone = Decoder(target, drafter, sampling=WARM, verification="exact_match", seed=seed)
        assert outputs(alone, prompts[:1], 12) == plain[:1]


@pytest.mark.parametrize("method", METHODS)
def test_a_seeds_output_depends_neither_on_the_batch_nor_on_the_call(method):
    target, drafter = tables(23, 2, 2)
    decoder = Decoder(target, drafter, sampling=WARM, draft_sampling=WARM, verification=method, seed=3)
    together = outputs(decoder, [[0], [1], [0, 1]], 20)
    assert outputs(decoder, [[0], [1], [0, 1]], 20) == together
    assert outputs(decoder, [[0]], 20) == together[:1]
    assert outputs(decoder, [[0], [1]], 20) == together[:2]
    same = outputs(decoder, [[0], [0]], 20)
    assert same[0] != same[1]


@pytest.mark.parametrize("method", METHODS)
def test_target_and_drafter_have_settings_and_randomness_of_their_own(method):
    target, drafter = tables(24, 3, 2, frozenset())
    used: list[tuple[int, str]] = []

    class Noting(Seeded):
        def __init__(self, index: int, use: str) -> None:
            super().__init__(0, index, use)
            self.name = (index, use)

        def draw(self, weights: torch.Tensor) -> int:
            used.append(self.name)
            return super().draw(weights)

    for drafting, users in ((GREEDY, {"target"}), (Sampling(0.3), {"target", "drafter"})):
        seen: list[Sampling] = []
        original = drafter.propose
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(drafter, "propose", lambda r, c, s: seen.append(s) or original(r, c, s))  # noqa: B023
            used.clear()
            Decoder(
                target, drafter, sampling=WARM, draft_sampling=drafting, verification=method, chances=Noting
            ).generate([[0], [1]], 9)
        assert set(seen) == {drafting}
        assert set(used) == set(itertools.product(range(2), users))


@pytest.mark.parametrize("method", METHODS)
def test_greedy_rule_and_sampling_exclude_each_other(method):
    target, _ = tables(0, 2, 2)
    for sampling, rule in ((GREEDY, method), (WARM, "greedy")):
        with pytest.raises(InputError, match="verification"):
            Decoder(target, sampling=sampling, verification=rule)


# The pair `tiny`.


@cache
def pair() -> Pair:
    return load_pair(resolve("tiny/dspark"))


@cache
def prompts() -> list[list[int]]:
    entries, _ = evaluation_prompts("tiny")
    return [pair().tokenizer(entry["text"]).input_ids for entry in entries]


@pytest.mark.parametrize("drafting", [WARM, GREEDY], ids=["sampled", "greedy"])
def test_tiny_exact_match_is_plain_sampling_token_for_token(drafting):
    sampling = Sampling(1.5, top_p=0.95)
    plain = Decoder(pair().target, sampling=sampling, seed=5).generate(prompts()[:3], 30)
    runs = Decoder(
        pair().target,
        pair().drafter,
        sampling=sampling,
        draft_sampling=drafting,
        verification="exact_match",
        seed=5,
    ).generate(prompts()[:3], 30)
    assert [run.tokens for run in runs] == [run.tokens for run in plain]
    assert sum(sum(run.accepted) for run in runs) > 10
    greedy = Decoder(pair().target).generate(prompts()[:3], 30)
    assert [run.tokens for run in runs] != [run.tokens for run in greedy]


@pytest.mark.parametrize("method", METHODS)
def test_tiny_cold_sampling_is_greedy(method):
    cold = Sampling(1e-3)
    runs = Decoder(
        pair().target, pair().drafter, sampling=cold, draft_sampling=cold, verification=method
    ).generate(prompts()[:3], 30)
    greedy = Decoder(pair().target, pair().drafter).generate(prompts()[:3], 30)
    assert [run.tokens for run in runs] == [run.tokens for run in greedy]


FLAT = Sampling(1.5, top_k=4)
TOKENS = 3
SAMPLES = 300
"""The controls below have p-values under 1e-7 with so many, against the threshold of 1e-3."""


@cache
def exact_law() -> dict[tuple[int, ...], float]:
    """The law of the first tokens behind a prompt, by `transformers` on every prefix."""
    from transformers import AutoModelForCausalLM

    path, out = resolve("tiny/dspark").target.directory, {(): 1.0}
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, local_files_only=True)
    for _ in range(TOKENS):
        texts = list(out)
        ids = torch.tensor([[*flat_prompt(), *text] for text in texts])
        with torch.inference_mode():
            logits = model(ids, logits_to_keep=1).logits[:, -1].double() / FLAT.temperature
        best, token_ids = logits.topk(FLAT.top_k)
        laws = best.softmax(-1).tolist()
        out = {
            (*text, token): out[text] * p
            for text, tokens, law in zip(texts, token_ids.tolist(), laws, strict=True)
            for token, p in zip(tokens, law, strict=True)
        }
    return out


def flat_prompt() -> list[int]:
    return prompts()[0][-8:]


def chi_square(counts: dict, law: dict) -> float:
    """p-value of counts under a law; outcomes with fewer than 5 expected are pooled, rarest first."""
    total = sum(counts.values())
    assert set(counts) <= set(law)
    bins: list[list[float]] = [[0.0, 0.0]]
    for outcome in sorted(law, key=law.__getitem__):
        if bins[-1][0] >= 5:
            bins.append([0.0, 0.0])
        bins[-1][0] += total * law[outcome]
        bins[-1][1] += counts.get(outcome, 0)
    if bins[-1][0] < 5:
        rest = bins.pop()
        bins[-1] = [a + b for a, b in zip(bins[-1], rest, strict=True)]
    assert len(bins) >= 10
    statistic = sum((found - expected) ** 2 / expected for expected, found in bins)
    degrees = torch.tensor((len(bins) - 1) / 2, dtype=torch.float64)
    return float(torch.special.gammaincc(degrees, torch.tensor(statistic / 2, dtype=torch.float64)))


def first_tokens(method: str | None, drafting: Sampling) -> dict[tuple[int, ...], int]:
    decoder = Decoder(
        pair().target,
        pair().drafter if method else None,
        sampling=FLAT,
        draft_sampling=drafting,
        verification=method,
        ignore_stop=True,
        seed=17,
    )
    counts: dict[tuple[int, ...], int] = {}
    for run in decoder.generate([flat_prompt()] * SAMPLES, TOKENS):
        counts[tuple(run.tokens)] = counts.get(tuple(run.tokens), 0) + 1
    return counts


@pytest.mark.parametrize(
    ("method", "drafting"),
    [(None, GREEDY), ("standard", FLAT), ("block", FLAT)],
)
def test_tiny_first_tokens_have_the_targets_law(method, drafting):
    law = exact_law()
    assert math.fsum(law.values()) == pytest.approx(1)
    assert chi_square(first_tokens(method, drafting), law) > 1e-3


@pytest.mark.parametrize("method", ["standard", "block"])
def test_control_tiny_shows_a_wrong_residual(method, monkeypatch):
    """So many samples tell the fault that is hardest to see: a rejection that draws from p."""
    monkeypatch.setattr(verify, "_residual", lambda p, q, chance: chance.draw(p))
    assert chi_square(first_tokens(method, FLAT), exact_law()) < 1e-3
