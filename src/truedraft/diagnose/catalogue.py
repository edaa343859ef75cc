"""`Catalogue`: questions, causes and log lines of `catalogue.toml`, and the curves of injected faults.

The likelihood of an answer under a cause: what `signs` say in words; answers that they do not name keep their
background share of what is left. Of `curve` the measured curves of injected faults and the
published ones count as further observations (a Dirichlet prior of strength `PSEUDO`).
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from truedraft.diagnose.curve import shape_weights

OTHER = "other"
"""The cause that stands for everything that the catalogue does not have."""

OTHER_CASES = 8
"""Reports of the field log whose cause nobody found."""

PSEUDO, MOST_INJECTED = 4.0, 3.0
"""Weight of the words, and the most that injected curves may weigh: their pairs are few and small."""

LEAST = 0.003
"""Added to every likelihood: reports are wrong now and then."""

PUBLISHED_ROUNDS = 80
"""Rounds that a printed curve is taken to rest on, where nothing says how many."""

KINDS = ("convention", "state", "verifier", "training", "not-a-bug", "unknown")


@dataclass(frozen=True)
class Question:
    """What may be observed. `values`: answer -> background share; `minutes`: the effort of finding out."""

    name: str
    title: str
    values: Mapping[str, float]
    means: Mapping[str, str]
    ask: str
    minutes: float


@dataclass(frozen=True)
class Cause:
    """What may be the matter; the fields are explained in `catalogue.toml`. `loss`: of injected faults, the
    share of accepted drafts that they cost, least and most; `None` if none is injected. `unlisted`: reports
    that count for it beside `cases`.
    """

    name: str
    title: str
    kind: str
    axes: tuple[str, ...]
    codes: tuple[str, ...]
    tensors: tuple[str, ...]
    cases: tuple[str, ...]
    suspected: tuple[str, ...]
    signs: Mapping[str, Mapping[str, float]]
    curve: Mapping[str, float]
    expect: str
    remedy: str
    loss: tuple[float, float] | None = None
    unlisted: int = 0

    @property
    def weight(self) -> float:
        """Prior, not normalised: public reports with this cause, half of those suspected, and a half."""
        return len(self.cases) + self.unlisted + 0.5 * len(self.suspected) + 0.5


@dataclass(frozen=True)
class LineSign:
    """A line of an engine's log. `differs`: it speaks only where it is not the same on all ranks.

    `words`: one of them, in lower case, is in every line that `pattern` matches.
    """

    name: str
    pattern: re.Pattern[str]
    words: tuple[str, ...]
    says: str
    causes: Mapping[str, float]
    background: float
    differs: bool
    sources: tuple[str, ...]


@dataclass(frozen=True)
class Catalogue:
    """Everything by name, in the file's order; `causes` ends with `OTHER`."""

    questions: Mapping[str, Question]
    causes: Mapping[str, Cause]
    lines: Mapping[str, LineSign]

    def likelihood(self, cause: Cause, question: Question) -> dict[str, float]:
        """P(answer | cause) of every answer."""
        if question.name == "curve" and cause.curve:
            return dict(cause.curve)
        return _spread(cause.signs.get(question.name, {}), question.values)


def _spread(stated: Mapping[str, float], background: Mapping[str, float]) -> dict[str, float]:
    """A distribution over the answers: those `stated`; the others their background share of what is left.

    Words may add up to more than 1 and background shares to less: it is scaled. Nothing is impossible.
    """
    left = max(0.0, 1 - sum(stated.values()))
    out = {v: stated.get(v, left * share) + LEAST for v, share in background.items()}
    total = sum(out.values())
    return {value: p / total for value, p in out.items()}


_weights = cache(shape_weights)
"""The same measured curves are weighed again for every set of reports left out."""


@cache
def _injected() -> dict[str, list[dict[str, Any]]]:
    """Fault -> its measured entries; the contract itself is ''."""
    text = files("truedraft.diagnose").joinpath("injected.json").read_text(encoding="utf-8")
    out: dict[str, list[dict[str, Any]]] = {}
    for entry in json.loads(text)["entries"]:
        out.setdefault(entry["fault"], []).append(entry)
    return out


def _pooled(entry: Mapping[str, Any]) -> tuple[int, list[int]]:
    near, far = entry["near"], entry["far"]
    return near["rounds"] + far["rounds"], [
        a + b for a, b in zip(near["reached"], far["reached"], strict=True)
    ]


def _loss(entry: Mapping[str, Any], healthy: Mapping[str, Any]) -> float:
    (rounds, reached), (base_rounds, base) = _pooled(entry), _pooled(healthy)
    return 1 - (sum(reached) / rounds) / (sum(base) / base_rounds)


@cache
def catalogue(without: frozenset[str] = frozenset()) -> Catalogue:
    """The catalogue; raises `ValueError` for a name in it that does not exist.

    `without`: public reports that count for nothing, neither in a prior nor as a curve.
    """
    text = files("truedraft.diagnose").joinpath("catalogue.toml").read_text(encoding="utf-8")
    data = tomllib.loads(text)
    words: dict[str, float] = data["likelihood"]
    questions = {name: _question(name, entry) for name, entry in data["questions"].items()}
    published = _published(data["curves"], without)
    causes = {
        name: _cause(name, entry, words, questions, published.pop(name, ()), without)
        for name, entry in data["causes"].items()
    }
    if published:
        raise ValueError(f"curves: no cause {', '.join(sorted(published))}")
    causes[OTHER] = _OTHER
    lines = {name: _line_sign(name, entry, words, causes) for name, entry in data["lines"].items()}
    return Catalogue(questions, causes, lines)


_OTHER = Cause(
    OTHER,
    "something that this catalogue does not have",
    "unknown",
    axes=(),
    codes=(),
    tensors=(),
    cases=(),
    suspected=(),
    signs={},
    curve={},
    expect="none of the above",
    remedy="`truedraft collect`, and a report to the engine with that file",
    unlisted=OTHER_CASES,
)


def _question(name: str, entry: Mapping[str, Any]) -> Question:
    total = sum(entry["values"].values())
    values = {value: share / total for value, share in entry["values"].items()}
    if set(values) != set(entry["means"]):
        raise ValueError(f"questions.{name}: values and means have other answers")
    return Question(name, entry["title"], values, entry["means"], entry["ask"], entry["minutes"])


def _published(curves: Mapping[str, Any], without: frozenset[str]) -> dict[str, list[list[float]]]:
    """Cause -> survival of the curves that reports print."""
    out: dict[str, list[list[float]]] = {}
    for name, entry in curves.items():
        if name[:3] not in without:
            out.setdefault(entry["cause"], []).append(entry["survival"])
    return out


def _cause(
    name: str,
    entry: Mapping[str, Any],
    words: Mapping[str, float],
    questions: Mapping[str, Question],
    published: Iterable[Sequence[float]],
    without: frozenset[str],
) -> Cause:
    signs = {
        question: {answer: words[word] for answer, word in answers.items()}
        for question, answers in entry["signs"].items()
    }
    _check_signs(name, signs, questions)
    measured = _injected()
    healthy = {(found["pair"], found["text"]): found for found in measured[""]}
    entries = [found for fault in entry.get("injected", ()) for found in measured.get(fault, ())]
    losses = sorted(_loss(found, healthy[found["pair"], found["text"]]) for found in entries)
    return Cause(
        name,
        entry["title"],
        entry["kind"],
        axes=tuple(entry["axes"]),
        codes=tuple(entry["codes"]),
        tensors=tuple(entry.get("tensors", ())),
        cases=tuple(case for case in entry["cases"] if case not in without),
        suspected=tuple(case for case in entry.get("suspected", ()) if case not in without),
        signs=signs,
        curve=_curve(_spread(signs.get("curve", {}), questions["curve"].values), entries, published),
        expect=entry["expect"],
        remedy=entry["remedy"],
        loss=(losses[0], losses[-1]) if losses else None,
    )


def _curve(
    words: Mapping[str, float], entries: Sequence[Mapping[str, Any]], published: Iterable[Sequence[float]]
) -> dict[str, float]:
    """P(shape | cause): its words, the measured curves of its faults (`entries`), the published ones."""
    curves = Counter[str]()
    for found in entries:
        rounds, reached = _pooled(found)
        curves.update(_weights(rounds, tuple(reached)))
    scale = min(1.0, MOST_INJECTED / curves.total()) if entries else 0.0
    counts = {value: PSEUDO * p + scale * curves[value] for value, p in words.items()}
    for survival in published:
        reached = [round(share * PUBLISHED_ROUNDS) for share in survival]
        for value, share in _weights(PUBLISHED_ROUNDS, tuple(reached)).items():
            counts[value] += share
    total = sum(counts.values())
    return {value: count / total for value, count in counts.items()}


def _line_sign(
    name: str, entry: Mapping[str, Any], words: Mapping[str, float], causes: Mapping[str, Cause]
) -> LineSign:
    likely = {cause: words[word] for cause, word in entry["causes"].items()}
    if unknown := set(likely) - set(causes):
        raise ValueError(f"lines.{name}: no cause {', '.join(sorted(unknown))}")
    return LineSign(
        name,
        re.compile(entry["pattern"]),
        tuple(entry["words"]),
        entry["says"],
        likely,
        entry["background"],
        entry.get("differs", False),
        tuple(entry["sources"]),
    )


def _check_signs(
    cause: str, signs: Mapping[str, Mapping[str, float]], questions: Mapping[str, Question]
) -> None:
    for question, answers in signs.items():
        if question not in questions:
            raise ValueError(f"causes.{cause}: no question {question}")
        for answer in answers:
            if answer not in questions[question].values:
                raise ValueError(f"causes.{cause}: {question} has no answer {answer}")
