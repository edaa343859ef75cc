"""Runs a step over all turns, and where a part differs looks for what explains it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from truedraft.contract import AXES, InputError, Value, format_value
from truedraft.probe import Wiring
from truedraft.trace.history import History
from truedraft.trace.pieces import PLAIN, Pieces, Twist
from truedraft.trace.stage import SHOWN, Outcome, Stage, Tried

_PAIRS = 150
"""Pairs that are tried where no single candidate explains a part."""


@dataclass(frozen=True)
class Candidate:
    """What may explain a difference: axes with other values, a twist, and both in words."""

    what: str
    changes: Mapping[str, Value] = field(default_factory=dict)
    twist: Twist = PLAIN

    def joined(self, other: Candidate) -> Candidate:
        """Both at once."""
        twist = other.twist if self.twist == PLAIN else self.twist
        return Candidate(f"{self.what} and {other.what}", {**self.changes, **other.changes}, twist)


@dataclass
class _Part:
    """Errors of one part over all turns, whole numbers that differ, and shapes that do."""

    errors: list[Tensor] = field(default_factory=list)
    gaps: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    shapes: list[tuple[list[int], list[int]]] = field(default_factory=list)


class Explainer:
    """Compares steps of one trace with one pair. `tables`: the target's embedding and head [V, H]."""

    def __init__(
        self,
        wiring: Wiring,
        tables: tuple[Tensor, Tensor],
        requests: Sequence[History],
        tolerance: float,
    ) -> None:
        self._wiring, self._tables, self._requests = wiring, tables, requests
        self._tolerance = tolerance
        self.pieces = Pieces(*wiring.tensors({}), *tables)

    def outcomes(self, stage: Stage) -> list[Outcome]:
        """One outcome per part of a step."""
        parts = self._run(stage, self.pieces, PLAIN)
        differing = {part: sum(map(len, seen.errors)) for part, seen in parts.items() if self._unequal(seen)}
        errors = self._explanations(stage, differing) if differing else {}
        return [self._outcome(stage, part, seen, errors.get(part, {})) for part, seen in parts.items()]

    def _run(self, stage: Stage, pieces: Pieces, twist: Twist) -> dict[str, _Part]:
        parts: dict[str, _Part] = {}
        with torch.inference_mode():
            for history in self._requests:
                for turn in history.turns:
                    for compared in stage.compare(history, turn, pieces, twist):
                        part = parts.setdefault(compared.part, _Part())
                        errors = compared.errors()
                        part.errors.append(errors)
                        if compared.found.shape != compared.expected.shape:
                            part.shapes.append((list(compared.found.shape), list(compared.expected.shape)))
                        whole = not compared.expected.is_floating_point()
                        if (
                            whole
                            and bool((errors > 0).any())
                            and compared.found.shape == compared.expected.shape
                        ):
                            bad = errors > 0
                            part.gaps.append((compared.found[bad], compared.expected[bad]))
        return parts

    def _unequal(self, part: _Part) -> int:
        return int((torch.cat(part.errors) > self._tolerance).sum())

    def _explanations(self, stage: Stage, differing: Mapping[str, int]) -> dict[str, dict[str, float]]:
        """Per differing part, the largest error under each candidate; pairs where no single one will do.

        `differing`: those parts and their rows.
        """
        found: dict[str, dict[str, float]] = {part: {} for part in differing}
        single = list(self._candidates(stage))
        fitting = [c for c in single if self._try(stage, c, found, differing)]
        left = {part for part in differing if not self._explained(found[part])}
        if left:
            more: dict[str, dict[str, float]] = {part: {} for part in left}
            for pair in self._pairs(single, fitting, [found[part] for part in left]):
                self._try(stage, pair, more, differing)
            for part, errors in more.items():
                found[part] |= errors
        return found

    def _pairs(
        self, single: list[Candidate], fitting: list[Candidate], errors: list[dict[str, float]]
    ) -> Iterator[Candidate]:
        """Pairs worth trying: with one that explains another part, else the nearest ones first."""

        def distance(candidate: Candidate) -> float:
            return min((part[candidate.what] for part in errors if candidate.what in part), default=torch.inf)

        bases = fitting or single
        pairs = [
            (base, other)
            for number, base in enumerate(bases)
            for other in (single if fitting else single[number + 1 :])
            if base is not other and not set(base.changes) & set(other.changes)
            if PLAIN in (base.twist, other.twist)
        ]
        pairs.sort(key=lambda pair: distance(pair[0]) + distance(pair[1]))
        for base, other in pairs[:_PAIRS]:
            yield base.joined(other)

    def _candidates(self, stage: Stage) -> Iterator[Candidate]:
        contract = self.pieces.contract
        for axis in stage.axes:
            for value in AXES[axis].candidates(contract):
                if value != contract.axes[axis].value:
                    yield Candidate(f"{axis}={format_value(value)}", {axis: value})
        for what, twist in stage.guesses(self.pieces):
            yield Candidate(what, {}, twist)

    def _try(
        self,
        stage: Stage,
        candidate: Candidate,
        found: dict[str, dict[str, float]],
        rows: Mapping[str, int],
    ) -> bool:
        """Note the candidate's errors in `found`; whether it explains any of those parts."""
        pieces = self.pieces
        try:
            if candidate.changes:
                pieces = Pieces(*self._wiring.tensors(candidate.changes), *self._tables)
            parts = self._run(stage, pieces, candidate.twist)
        except (InputError, RuntimeError, IndexError, KeyError, ValueError):
            return False  # these weights do not allow that value
        fits = False
        for part in found:
            if part in parts:
                errors = torch.cat(parts[part].errors)
                if 2 * len(errors) < rows[part]:
                    continue  # it says nothing of most rows
                worst = float(errors.max())
                found[part][candidate.what] = worst
                fits |= worst <= self._tolerance
        return fits

    def _explained(self, errors: Mapping[str, float]) -> list[str]:
        return [what for what, worst in errors.items() if worst <= self._tolerance]

    def _outcome(self, stage: Stage, part: str, seen: _Part, tried: Mapping[str, float]) -> Outcome:
        errors = torch.cat(seen.errors)
        nearest = sorted(tried.items(), key=lambda entry: entry[1])[:SHOWN]
        return Outcome(
            stage.name,
            part,
            len(errors),
            self._unequal(seen),
            float(errors.max()) if len(errors) else 0.0,
            tuple(Tried(what, worst) for what, worst in nearest),
            tuple(self._explained(tried)),
            _numbers(seen),
        )


def _numbers(part: _Part) -> str:
    """Shapes or whole numbers that differ, in words."""
    if part.shapes:
        return "found shape {}, expected {}".format(*part.shapes[0])
    if not part.gaps:
        return ""
    found, expected = (torch.cat([pair[i].flatten() for pair in part.gaps]) for i in (0, 1))
    if found.dtype == torch.bool:
        return f"found {bool(found[0])}, expected {bool(expected[0])}".lower()
    gaps = found.long() - expected.long()
    always = f", {int(gaps[0]):+d} in all" if len(gaps) > 1 and bool((gaps == gaps[0]).all()) else ""
    return f"found {int(found[0])}, expected {int(expected[0])}{always}"
