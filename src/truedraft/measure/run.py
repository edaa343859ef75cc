"""The main job: decode prompts plainly and speculatively, check that both agree, count what was accepted."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from truedraft.contract import SCHEMA, Acceptance, AcceptanceRecord, Contract, Deployment, acceptance
from truedraft.decode import Decoder, Drafter, Generation, Target
from truedraft.measure.ties import is_tie


@dataclass(frozen=True)
class Prompt:
    """A prompt as token ids of the target."""

    id: str
    tokens: tuple[int, ...]


@dataclass(frozen=True)
class Divergence:
    """Where a speculative output left the plain one. `gap`, `epsilon` in logits; a tie if gap <= 2ε.

    Both are `None` where one output merely ends earlier, which is never a tie.
    """

    prompt_id: str
    position: int
    gap: float | None
    epsilon: float | None
    tie: bool


@dataclass(frozen=True)
class Lossless:
    """How losslessness was established: `identical` of `of` outputs equal plain greedy decoding.

    `ties`: outputs that differ only from a tie on. `ok`: every output is identical or a tie.
    """

    identical: int
    of: int
    divergences: tuple[Divergence, ...] = ()
    method: str = "greedy_identity"

    @property
    def ties(self) -> int:
        """Outputs that are identical up to a tie."""
        return sum(d.tie for d in self.divergences)

    @property
    def ok(self) -> bool:
        """Whether no output differs otherwise than by a tie."""
        return self.identical + self.ties == self.of

    def to_json(self) -> dict[str, Any]:
        """The `lossless` object of `truedraft run --json`."""
        return {
            "method": self.method,
            "identical": self.identical,
            "of": self.of,
            "ties": self.ties,
            "divergences": [asdict(d) for d in self.divergences],
        }


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

    def to_json(self) -> dict[str, Any]:
        """The object that `truedraft run --json` prints."""
        return {
            "schema": SCHEMA,
            "contract_hash": self.contract.hash,
            "deployment": self.deployment.to_json(),
            "lossless": self.lossless.to_json(),
            "acceptance": self.acceptance.to_json(),
            "speed": self.speed.to_json(),
            "outputs": [asdict(output) for output in self.outputs],
            "records": [record.to_json() for record in self.records],
        }


@dataclass
class _Timed:
    generations: list[Generation]
    seconds: float


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

    `on_progress` is called with the number of prompts done. The first prompt is decoded once beforehand,
    untimed, so that neither side pays for warming up.
    """
    plain = Decoder(target)
    deployment = deployment or Deployment()
    batch_size = deployment.batch_size
    speculative = Decoder(
        target,
        drafter,
        speculative_tokens=deployment.speculative_tokens,
        confidence_threshold=deployment.confidence_threshold,
    )
    if prompts:
        plain.generate([prompts[0].tokens], min(max_new_tokens, 8))
        speculative.generate([prompts[0].tokens], min(max_new_tokens, 8))
    plain_runs, spec_runs, plain_s, spec_s = [], [], 0.0, 0.0
    for number, start in enumerate(range(0, len(prompts), batch_size)):
        tokens = [prompt.tokens for prompt in prompts[start : start + batch_size]]
        first, second = (plain, speculative) if number % 2 == 0 else (speculative, plain)
        timed = {id(decoder): _timed(decoder, tokens, max_new_tokens) for decoder in (first, second)}
        plain_runs += timed[id(plain)].generations
        spec_runs += timed[id(speculative)].generations
        plain_s += timed[id(plain)].seconds
        spec_s += timed[id(speculative)].seconds
        if on_progress is not None:
            on_progress(min(start + batch_size, len(prompts)))
    records = tuple(
        _record(contract, prompt, run, speculative.speculative_tokens, batch_size)
        for prompt, run in zip(prompts, spec_runs, strict=True)
    )
    return RunReport(
        contract=contract,
        deployment=replace(deployment, speculative_tokens=speculative.speculative_tokens),
        lossless=_compare(target, prompts, plain_runs, spec_runs, speculative.speculative_tokens + 1),
        acceptance=acceptance(records),
        speed=Speed(
            sum(len(run.tokens) for run in plain_runs) / plain_s,
            sum(len(run.tokens) for run in spec_runs) / spec_s,
        ),
        outputs=tuple(
            Output(prompt.id, tuple(run.tokens), run.finish, decode_text(run.tokens) if decode_text else None)
            for prompt, run in zip(prompts, spec_runs, strict=True)
        ),
        records=records,
    )


def _timed(decoder: Decoder, tokens: Sequence[Sequence[int]], max_new_tokens: int) -> _Timed:
    begin = time.perf_counter()
    generations = decoder.generate(tokens, max_new_tokens)
    return _Timed(generations, time.perf_counter() - begin)


def _record(
    contract: Contract, prompt: Prompt, run: Generation, speculative_tokens: int, batch_size: int
) -> AcceptanceRecord:
    from truedraft import __version__

    return AcceptanceRecord(
        request_id=prompt.id,
        prompt_id=prompt.id,
        arm="speculative",
        proposed=tuple(run.proposed),
        accepted=tuple(run.accepted),
        prompt_tokens=len(prompt.tokens),
        output_tokens=len(run.tokens),
        output_hash=hashlib.sha256(" ".join(map(str, run.tokens)).encode()).hexdigest()[:16],
        K=speculative_tokens,
        contract_hash=contract.hash,
        batch_size=batch_size,
        started=run.started,
        version=__version__,
    )


def _compare(
    target: Target[Any],
    prompts: Sequence[Prompt],
    plain_runs: Sequence[Generation],
    spec_runs: Sequence[Generation],
    rows: int,
) -> Lossless:
    identical, divergences = 0, []
    for prompt, plain, spec in zip(prompts, plain_runs, spec_runs, strict=True):
        if plain.tokens == spec.tokens:
            identical += 1
            continue
        pairs = zip(plain.tokens, spec.tokens, strict=False)
        position = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
        if position is None:  # one is a prefix of the other: no logit explains that
            shorter = min(len(plain.tokens), len(spec.tokens))
            divergences.append(Divergence(prompt.id, shorter, None, None, False))
            continue
        tie, gap, epsilon = is_tie(target, prompt.tokens, plain.tokens, position, rows)
        divergences.append(Divergence(prompt.id, position, gap, epsilon, tie))
    return Lossless(identical, len(prompts), tuple(divergences))
