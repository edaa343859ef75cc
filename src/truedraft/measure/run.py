"""The main job: decode prompts plainly and speculatively, check that both agree, count what was accepted."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from truedraft.contract import (
    COLDEST,
    SCHEMA,
    Acceptance,
    AcceptanceRecord,
    Contract,
    Deployment,
    acceptance,
)
from truedraft.decode import GREEDY, Decoder, Drafter, Generation, PassTimes, Sampling, Seeded, Target
from truedraft.measure.cost import Cost, cost
from truedraft.measure.lossless import Lossless, Method, Tie, compare
from truedraft.measure.ties import is_sampling_tie, is_tie
from truedraft.measure.trees import require_possible_trees


@dataclass(frozen=True)
class Prompt:
    """A prompt as token ids of the target. `category`: its kind, for comparisons by category."""

    id: str
    tokens: tuple[int, ...]
    category: str = ""


@dataclass(frozen=True)
class Speed:
    """Output tokens per second of wall time, prefill included, same prompts, same process."""

    plain_tokens_per_s: float
    spec_tokens_per_s: float

    @property
    def ratio(self) -> float:
        """Speculative over plain."""
        return self.spec_tokens_per_s / self.plain_tokens_per_s

    def to_json(self) -> dict[str, Any]:
        """The `speed` object of `truedraft run --json`."""
        return {**asdict(self), "ratio": self.ratio}


@dataclass(frozen=True)
class Output:
    """One prompt's speculative output. `text` is `None` without a tokenizer."""

    prompt_id: str
    tokens: tuple[int, ...]
    finish: str
    text: str | None = None


@dataclass(frozen=True)
class RunReport:
    """All that `truedraft run` reports."""

    contract: Contract
    deployment: Deployment
    lossless: Lossless
    acceptance: Acceptance
    speed: Speed
    outputs: tuple[Output, ...]
    records: tuple[AcceptanceRecord, ...]
    cost: Cost | None = None

    def to_json(self) -> dict[str, Any]:
        """The object that `truedraft run --json` prints."""
        return {
            "schema": SCHEMA,
            "contract_hash": self.contract.hash,
            "deployment": self.deployment.to_json(),
            "lossless": self.lossless.to_json(),
            "acceptance": self.acceptance.to_json(),
            "speed": self.speed.to_json(),
            "cost": None if self.cost is None else self.cost.to_json(self.acceptance.tau),
            "outputs": [asdict(output) for output in self.outputs],
            "records": [record.to_json() for record in self.records],
        }


def run_pair(
    contract: Contract,
    target: Target[Any],
    drafter: Drafter[Any],
    prompts: Sequence[Prompt],
    max_new_tokens: int,
    *,
    deployment: Deployment | None = None,
    decode_text: Callable[[Sequence[int]], str] | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> RunReport:
    """Decode every prompt twice, plainly and speculatively, alternating which goes first.

    Sampled runs by `standard` or `block` verification have no plain run to be identical to: the same prompts
    are decoded greedily as well, and those outputs are compared. `on_progress` is called with the number of
    prompts done. The first prompt is decoded once beforehand, untimed, so that neither side pays for
    warming up.
    """
    given = deployment or Deployment()
    require_possible_trees(contract, given)
    plain, speculative = _decoders(target, drafter, given)
    depth = speculative.speculative_tokens
    deployment = replace(given, speculative_tokens=depth, tree_depth=depth if given.tree_budget else None)
    sides = _Sides(plain, speculative, given.batch_size, max_new_tokens)
    if prompts:
        for decoder in (plain, speculative):
            decoder.generate([prompts[0].tokens], min(max_new_tokens, 8))
            decoder.times = PassTimes()
    plain_runs, spec_runs = sides.decode(prompts, on_progress)
    if given.verification in ("greedy", "exact_match"):
        lossless = _lossless(target, prompts, plain_runs, spec_runs, deployment)
    else:
        cold = replace(deployment, temperature=0.0, proposal="greedy", verification="greedy")
        greedy = _Sides(*_decoders(target, drafter, cold), given.batch_size, max_new_tokens)
        lossless = replace(
            _lossless(target, prompts, *greedy.decode(prompts), cold), method="greedy_on_same_prompts"
        )
    records = tuple(
        _record(contract, prompt, run, deployment) for prompt, run in zip(prompts, spec_runs, strict=True)
    )
    return RunReport(
        contract=contract,
        deployment=deployment,
        lossless=lossless,
        acceptance=acceptance(records),
        speed=Speed(
            sum(len(run.tokens) for run in plain_runs) / sides.seconds[0],
            sum(len(run.tokens) for run in spec_runs) / sides.seconds[1],
        ),
        outputs=tuple(
            Output(prompt.id, tuple(run.tokens), run.finish, decode_text(run.tokens) if decode_text else None)
            for prompt, run in zip(prompts, spec_runs, strict=True)
        ),
        records=records,
        cost=cost(plain.times, speculative.times),
    )


def _decoders(target: Target[Any], drafter: Drafter[Any], run: Deployment) -> tuple[Decoder, Decoder]:
    """The plain and the speculative decoder of a deployment."""
    sampling = Sampling(run.temperature, run.top_k, run.top_p)
    draft_sampling = GREEDY
    if run.proposal == "sampled":
        draft_sampling = Sampling(run.draft_temperature, run.draft_top_k, run.draft_top_p)
    speculative = Decoder(
        target,
        drafter,
        speculative_tokens=run.tree_depth if run.tree_budget else run.speculative_tokens,
        tree_budget=run.tree_budget,
        confidence_threshold=run.confidence_threshold,
        sampling=sampling,
        draft_sampling=draft_sampling,
        verification=run.verification,
        seed=run.seed,
    )
    return Decoder(target, sampling=sampling, seed=run.seed), speculative


@dataclass
class _Sides:
    """Both decoders, and the seconds that each has taken."""

    plain: Decoder
    speculative: Decoder
    batch_size: int
    max_new_tokens: int

    def __post_init__(self) -> None:
        self.seconds = [0.0, 0.0]

    def decode(
        self, prompts: Sequence[Prompt], on_progress: Callable[[int], None] | None = None
    ) -> tuple[list[Generation], list[Generation]]:
        """Plain and speculative outputs of all prompts, batch by batch, taking turns at going first."""
        runs: tuple[list[Generation], list[Generation]] = ([], [])
        for number, start in enumerate(range(0, len(prompts), self.batch_size)):
            tokens = [prompt.tokens for prompt in prompts[start : start + self.batch_size]]
            for side in (0, 1) if number % 2 == 0 else (1, 0):
                begin = time.perf_counter()
                decoder = (self.plain, self.speculative)[side]
                runs[side].extend(decoder.generate(tokens, self.max_new_tokens, first_index=start))
                self.seconds[side] += time.perf_counter() - begin
            if on_progress is not None:
                on_progress(min(start + self.batch_size, len(prompts)))
        return runs


def _lossless(
    target: Target[Any],
    prompts: Sequence[Prompt],
    plain_runs: Sequence[Generation],
    spec_runs: Sequence[Generation],
    run: Deployment,
) -> Lossless:
    rows = (run.tree_budget or run.speculative_tokens or 0) + 1
    sampling = Sampling(run.temperature, run.top_k, run.top_p)

    def tie_at(number: int, position: int) -> Tie:
        prompt, plain = prompts[number].tokens, plain_runs[number].tokens
        if sampling.greedy:
            return is_tie(target, prompt, plain, position, rows)
        other = spec_runs[number].tokens[position]
        point = Seeded(run.seed, number, "target").uniforms(position + 1)[-1]
        return is_sampling_tie(target, prompt, plain, other, position, rows, sampling, point)

    ids = [prompt.id for prompt in prompts]
    method: Method = "greedy_identity" if sampling.greedy else "sampled_identity"
    return compare(ids, plain_runs, spec_runs, tie_at, method)


def _record(contract: Contract, prompt: Prompt, run: Generation, how: Deployment) -> AcceptanceRecord:
    from truedraft import __version__

    return AcceptanceRecord(
        request_id=prompt.id,
        prompt_id=prompt.id,
        arm="speculative",
        proposed=tuple(run.proposed),
        accepted=tuple(run.accepted),
        category=prompt.category,
        prompt_tokens=len(prompt.tokens),
        output_tokens=len(run.tokens),
        output_hash=hashlib.sha256(" ".join(map(str, run.tokens)).encode()).hexdigest()[:16],
        K=how.speculative_tokens or 0,
        contract_hash=contract.hash,
        batch_size=how.batch_size,
        started=run.started,
        version=__version__,
        temperature=how.temperature,
        top_p=how.top_p,
        top_k=how.top_k,
        seed=how.seed if how.temperature >= COLDEST else None,
        proposal=how.proposal,
        verification=how.verification,
        confidence_threshold=how.confidence_threshold,
        tree_budget=how.tree_budget or 0,
        nodes=tuple(run.nodes),
    )
