"""`Diagnosis`: what `truedraft diagnose` prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from truedraft.contract import SCHEMA
from truedraft.diagnose import findings
from truedraft.diagnose.catalogue import Catalogue, Cause
from truedraft.diagnose.figures import STATED
from truedraft.diagnose.infer import Evidence, Experiment, Inference, Ranked

State = Literal["leading", "undecided", "changed output"]

NOT_COMPARED = "not compared"

LEADING, LEADING_TOGETHER = 0.5, 0.7
"""Share from which a cause is called the likely one; from which a few that are not told apart are."""

MOST_TOGETHER = 3
"""Causes beyond which a group is no answer, however likely."""

TELLING = 0.1
"""Share below which no group is worth naming in the verdict."""

LISTED = 0.03
"""Share from which a group is listed."""


@dataclass(frozen=True)
class Diagnosis:
    """Evidence, ranked groups of causes, the next experiment.

    `output`: an answer of the question `text`, or `not compared`, which is asked first. `groups`: all, also
    those too unlikely to be listed. `experiments`: the best first.
    """

    catalogue: Catalogue
    evidence: tuple[Evidence, ...]
    output: str
    groups: tuple[Ranked, ...]
    experiments: tuple[Experiment, ...]
    warnings: tuple[str, ...]

    @property
    def state(self) -> State:
        """Whether acceptance may be looked at at all, and whether one group leads."""
        if self.output not in ("equal", NOT_COMPARED):
            return "changed output"
        return "leading" if self.leader is not None else "undecided"

    @property
    def leader(self) -> Ranked | None:
        """The group that has at least half of the belief; never the unknown."""
        first = self.groups[0]
        if first.causes[0].kind == "unknown":
            return None
        together = first.share >= LEADING_TOGETHER and len(first.causes) <= MOST_TOGETHER
        return first if first.shares[0] >= LEADING or together else None

    @property
    def listed(self) -> tuple[Ranked, ...]:
        """The groups worth printing."""
        return tuple(group for group in self.groups if group.share >= LISTED)

    @property
    def verdict(self) -> str:
        """One sentence."""
        if self.state == "changed output":
            return (
                "the output changed: no acceptance figure of this run means anything until that is mended; "
                f"likeliest: {_named(self.groups[0])}"
            )
        if (leader := self.leader) is not None:
            return f"likely ({leader.share:.0%}): {_titles(leader.causes)}{self._unless}"
        first = [group for group in self.groups if group.causes[0].kind != "unknown"][:3]
        if not first:
            return "undecided: nothing that was said makes any cause likelier"
        if max(group.share for group in first) < TELLING:
            return "undecided: what is known sets no cause apart"
        return "undecided between: " + "; ".join(_named(group) for group in first)

    @property
    def too_good(self) -> bool:
        """Whether more is accepted than can be, or than was expected, and nobody compared the output."""
        answers = {item.answer for item in self.evidence}
        return self.output == NOT_COMPARED and bool(answers & {"above", "saturated"})

    @property
    def _unless(self) -> str:
        """What is still open about a leading cause that changes the output."""
        leader = self.leader
        verifier = leader is not None and any(cause.kind == "verifier" for cause in leader.causes)
        return "; nobody compared the output yet" if verifier and self.output == NOT_COMPARED else ""

    @property
    def first(self) -> str:
        """What to do first: compare an output that may have changed, the remedy of a leading cause, or the
        best experiment.
        """
        leader = self.leader
        if self.state == "changed output":
            likeliest = self.groups[0]
            sure = len(likeliest.causes) == 1 or not self.experiments
            return likeliest.causes[0].remedy if sure else self.experiments[0].ask
        if self._unless or self.too_good:
            return f"compare the output: {self.catalogue.questions['text'].ask}"
        if leader is not None and (said := self._remedy_said(leader)):
            return said
        if leader is not None and len(leader.causes) == 1:
            return leader.causes[0].remedy
        return self.experiments[0].ask if self.experiments else self.groups[0].causes[0].remedy

    def _remedy_said(self, leader: Ranked) -> str:
        """What evidence that names the leader says to do."""
        for item in self.evidence:
            likely = max(item.likelihood.values())
            if item.remedy and any(item.likelihood[cause.name] == likely for cause in leader.causes):
                return item.remedy
        return ""

    def to_json(self) -> dict[str, Any]:
        """The object of `truedraft diagnose --json`."""
        return {
            "schema": SCHEMA,
            "verdict": {"state": self.state, "text": self.verdict, "first": self.first},
            "output": self.output,
            "observations": [
                {
                    "question": item.question,
                    "answers": {k: round(v, 4) for k, v in item.answers.items() if v >= 5e-5},
                    "text": item.text,
                    "where": item.where,
                }
                for item in self.evidence
            ],
            "causes": [_group_json(group) for group in self.groups if group.share >= 0.001],
            "next": [
                {
                    "experiment": entry.name,
                    "how": entry.ask,
                    "minutes": entry.minutes,
                    "bits": round(entry.bits, 3),
                    "separates": list(entry.separates),
                }
                for entry in self.experiments[:5]
            ],
            "warnings": list(self.warnings),
        }


def _titles(causes: Sequence[Cause]) -> str:
    shown = " or ".join(cause.title for cause in causes[:3])
    return shown + (f" or {len(causes) - 3} more" if len(causes) > 3 else "")


def _named(group: Ranked) -> str:
    """A group in a sentence: the title of one cause, the names of several."""
    if len(group.causes) == 1:
        return f"{group.causes[0].title} ({group.share:.0%})"
    names = [cause.name for cause in group.causes]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{', '.join(names[:3])}{more} (not told apart, {group.share:.0%} together)"


def _group_json(group: Ranked) -> dict[str, Any]:
    return {
        "share": round(group.share, 4),
        "causes": [
            {
                "name": cause.name,
                "title": cause.title,
                "kind": cause.kind,
                "share": round(share, 4),
                "axes": list(cause.axes),
                "codes": list(cause.codes),
                "expected": cause.expect,
                "injected_loss": None if cause.loss is None else [round(x, 3) for x in cause.loss],
                "remedy": cause.remedy,
                "cases": list(cause.cases),
                "suspected_cases": list(cause.suspected),
            }
            for cause, share in zip(group.causes, group.shares, strict=True)
        ],
        "for": [{"text": text, "ratio": round(ratio, 2)} for text, ratio in group.evidence_for],
        "against": [{"text": text, "ratio": round(ratio, 2)} for text, ratio in group.evidence_against],
    }


def diagnose(
    catalogue: Catalogue,
    evidence: Sequence[Evidence],
    *,
    files: bool,
    engine: bool,
    own: bool = False,
    warnings: Sequence[str] = (),
) -> Diagnosis:
    """Rank the causes. `files`: the pair's files were checked, `engine`: with an engine's reading of them;
    `own`: the engine is truedraft's, which has no reading of its own.

    One answer per question. What was computed from data wins over facts as stated if it excludes them, and a
    warning says so; else the fact, which is the sharper one, stands. That the output changed always stands.
    """
    kept, said = _settled(evidence)
    inference = Inference(catalogue, kept)
    output = next((item.answer for item in kept if item.question == "text"), NOT_COMPARED)
    return Diagnosis(
        catalogue=catalogue,
        evidence=tuple(kept),
        output=output,
        groups=tuple(inference.groups()),
        experiments=tuple(
            inference.experiments(findings.experiments(catalogue, files=files, engine=engine, own=own))
        ),
        warnings=(*warnings, *said),
    )


EXCLUDED = 0.05
"""Weight of an answer below which the data speak against it."""


def _settled(evidence: Sequence[Evidence]) -> tuple[list[Evidence], list[str]]:
    """One piece of evidence per question, and a warning where several disagree."""
    kept: dict[str, int] = {}
    out: list[Evidence] = []
    warnings = []
    for item in sorted(evidence, key=lambda entry: entry.where == STATED):
        at = kept.get(item.question) if item.answers else None
        if at is None:
            if item.answers:
                kept[item.question] = len(out)
            out.append(item)
            continue
        before = out[at]
        changed = item.question == "text" and before.answer == "equal" != item.answer
        fits = item.where == STATED and before.answers.get(item.answer, 0.0) >= EXCLUDED
        if before.answer == item.answer and not fits:
            continue
        used, idle = (item, before) if changed or fits else (before, item)
        out[at] = used
        if before.answer != item.answer:
            warnings.append(f"{idle.where}: {idle.text}: not used, {used.text} ({used.where})")
    return out, warnings
