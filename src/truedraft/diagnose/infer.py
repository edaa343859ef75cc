"""From evidence to ranked causes: Bayes' rule over the catalogue, with a cause for what it does not have.

P(cause | evidence) ∝ prior x Π P(evidence | cause). The prior is the number of public reports with that
cause; the likelihoods are words of the catalogue and curves of injected faults. The shares are degrees of
belief within this catalogue, no frequencies: docs/diagnose.md says how far they can be trusted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from truedraft.diagnose.catalogue import Catalogue, Cause, Question

Floats = NDArray[np.float64]

SAME = 1.6
"""Likelihood ratio up to which one piece of evidence does not tell two causes apart."""

SAME_ALL = 3.0
"""The same for all evidence together (Kass and Raftery 1995: below 3 not worth more than a bare mention)."""

NOTICEABLE = 1.5
"""Likelihood ratio from which evidence is shown as speaking for or against a cause."""

SPOKEN_FOR = 1.0
"""Posterior / prior from which a cause is listed."""

FILES, PROBE, READING = "files", "probe", "reading"


@dataclass(frozen=True)
class Evidence:
    """One observation. `question`: of the catalogue, or `files`, `probe`, `line`. `answers`: weight of each
    answer. `text`: what was seen. `where`: file, option or computation. `remedy`: what it says to do about
    the cause that it names. `likelihood`: cause -> P(seen | cause).
    """

    question: str
    text: str
    where: str
    likelihood: Mapping[str, float]
    answers: Mapping[str, float]
    remedy: str = ""

    @property
    def answer(self) -> str:
        """The likeliest answer; empty for findings and lines."""
        return max(self.answers, key=lambda value: self.answers[value]) if self.answers else ""


def answered(
    catalogue: Catalogue, question: Question, answers: Mapping[str, float], text: str, where: str
) -> Evidence:
    """Evidence from an answer that is known up to weights ∝ P(data | answer)."""
    total = sum(answers.values())
    weights = {value: weight / total for value, weight in answers.items()}
    likelihood = {}
    for name, cause in catalogue.causes.items():
        table = catalogue.likelihood(cause, question)
        likelihood[name] = sum(weight * table[value] for value, weight in weights.items())
    return Evidence(question.name, text, where, likelihood, weights)


@dataclass(frozen=True)
class Experiment:
    """What to do next. `bits`: expected information about the cause; `separates`: causes it is about."""

    name: str
    ask: str
    minutes: float
    bits: float
    separates: tuple[str, ...]


@dataclass(frozen=True)
class Ranked:
    """Causes that the evidence does not tell apart, the likeliest first. `share`: of all of them together."""

    causes: tuple[Cause, ...]
    shares: tuple[float, ...]
    evidence_for: tuple[tuple[str, float], ...]
    evidence_against: tuple[tuple[str, float], ...]

    @property
    def share(self) -> float:
        """Posterior probability of the group."""
        return sum(self.shares)


class Inference:
    """The posterior of one set of evidence."""

    def __init__(self, catalogue: Catalogue, evidence: Sequence[Evidence]) -> None:
        self.catalogue, self.evidence = catalogue, tuple(evidence)
        self.names = tuple(catalogue.causes)
        prior = np.array([cause.weight for cause in catalogue.causes.values()])
        self.prior: Floats = prior / prior.sum()
        # [evidence, causes]
        rows = [[item.likelihood[name] for name in self.names] for item in self.evidence]
        self._logs: Floats = np.log(np.array(rows).reshape(len(rows), len(self.names)))
        self.posterior = self._posterior(np.log(self.prior) + self._logs.sum(0))

    @staticmethod
    def _posterior(logs: Floats) -> Floats:
        raised = np.exp(logs - logs.max())
        out: Floats = raised / raised.sum()
        return out

    def share(self, name: str) -> float:
        """Posterior of one cause."""
        return float(self.posterior[self.names.index(name)])

    def order(self) -> list[str]:
        """All causes, the likeliest first."""
        return [self.names[i] for i in np.argsort(-self.posterior, kind="stable")]

    def groups(self) -> list[Ranked]:
        """The causes that the evidence speaks for, in groups; the group of the likeliest cause first.

        A cause is spoken for if it is likelier than before. The unknown cause is always among them.
        """
        found: list[list[int]] = []
        for name in self.order():
            at = self.names.index(name)
            unknown = self.catalogue.causes[name].kind == "unknown"
            if not unknown and self.posterior[at] <= self.prior[at] * SPOKEN_FOR:
                continue
            home = next((group for group in found if self._same(group[0], at)), None)
            if home is None:
                found.append([at])
            else:
                home.append(at)
        return [self._ranked(group) for group in found]

    def _same(self, one: int, other: int) -> bool:
        """Whether the evidence leaves two causes as they were to each other. The unknown stands alone."""
        if self.catalogue.causes[self.names[one]].kind == "unknown":
            return False
        if self.catalogue.causes[self.names[other]].kind == "unknown" or not len(self._logs):
            return False
        apart = self._logs[:, one] - self._logs[:, other]
        return bool((np.abs(apart) <= math.log(SAME)).all() and abs(apart.sum()) <= math.log(SAME_ALL))

    def _ranked(self, group: list[int]) -> Ranked:
        odds = [(item.text, self._odds(row, group)) for row, item in enumerate(self.evidence)]
        speaking = [(text, ratio) for text, ratio in odds if ratio >= NOTICEABLE]
        against = [(text, ratio) for text, ratio in odds if ratio <= 1 / NOTICEABLE]
        return Ranked(
            tuple(self.catalogue.causes[self.names[at]] for at in group),
            tuple(float(self.posterior[at]) for at in group),
            tuple(sorted(speaking, key=lambda entry: -entry[1])),
            tuple(sorted(against, key=lambda entry: entry[1])),
        )

    def _odds(self, row: int, group: list[int]) -> float:
        """How much likelier this evidence is under the group than under the other causes, by their priors."""
        likely = np.exp(self._logs[row])
        inside = np.zeros(len(self.names), dtype=bool)
        inside[group] = True
        within = float(np.average(likely[inside], weights=self.prior[inside]))
        beyond = (
            float(np.average(likely[~inside], weights=self.prior[~inside])) if (~inside).any() else within
        )
        return within / beyond

    def experiments(
        self, more: Iterable[tuple[str, str, float, Mapping[str, Sequence[float]]]]
    ) -> list[Experiment]:
        """What could still be found out, the best value for its effort first.

        `more`: beside the catalogue's questions, (name, how, minutes, cause -> P(outcome | cause)).
        """
        seen = {item.question for item in self.evidence}
        tables = [(n, h, m, np.array([t[c] for c in self.names])) for n, h, m, t in more if n not in seen]
        for question in self.catalogue.questions.values():
            if question.name not in seen:
                rows = [
                    list(self.catalogue.likelihood(cause, question).values())
                    for cause in self.catalogue.causes.values()
                ]
                tables.append((question.name, question.ask, question.minutes, np.array(rows)))
        found = [self._experiment(name, how, minutes, table) for name, how, minutes, table in tables]
        worth = max((entry.bits for entry in found), default=0.0) / 4
        useful = [entry for entry in found if entry.bits >= worth and entry.bits > 0.01]
        return sorted(useful, key=lambda entry: -entry.bits / (entry.minutes + 2))

    def _experiment(self, name: str, how: str, minutes: float, table: Floats) -> Experiment:
        """`table`: P(outcome | cause), [causes, outcomes]."""
        outcome = self.posterior @ table
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(table > 0, table * np.log2(table / outcome), 0.0)
        gain = self.posterior * ratio.sum(1)
        order = [self.names[i] for i in np.argsort(-gain, kind="stable")[:3] if gain[i] > 0.01]
        return Experiment(name, how, minutes, float(gain.sum()), tuple(order))
