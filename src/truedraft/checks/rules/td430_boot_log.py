"""What the layer ids in an engine's boot log mean, and whether they are the trained ones.

What it finds
    vLLM's line "Using auxiliary layers from speculative config: (…)" (V1) or "Using Eagle3 auxiliary layers
    from …" (V2), translated: its ids are entries of layers, so the states captured are the outputs of the
    layers before.
Why it matters
    The numbers in the log look like those of the checkpoint exactly when they are wrong.
In acceptance
    See TD401.
Example
    (40, 41, 42) in the log: outputs of 39/40/41 are captured; a contract of 40/41/42 needs (41, 42, 43).
Fix
    See TD401: a runner or release that converts the ids.
References
    the founding report on DSpark's V1 runner; vllm#40727
"""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject
from truedraft.checks.rules._words import layers
from truedraft.formats.engines import BootLine

CODE = "TD430"
NAME = "boot-log"
ASKED = True


def check(subject: Subject) -> Iterator[Finding]:
    """Each line of the boot log that names layers, against the contract and the engine asked about."""
    for line in subject.boot_log:
        yield from _explain(subject, line)


def _explain(subject: Subject, line: BootLine) -> Iterator[Finding]:
    captured = tuple(entry - 1 for entry in sorted(set(line.layer_ids)))
    taps = None if subject.contract is None else subject.contract.get("taps.layers")
    says = "nothing in the files says which are right"
    if taps is not None:
        says = f"the contract says {layers(taps)}" + (", the same" if taps == captured else "")
    expected = [
        f"; by its reading {r.engine.id} would capture {layers(r.contract['taps.layers'])}"
        for r in subject.readings
        if r.contract.get("taps.layers") not in (None, captured)
    ]
    right = taps is None or taps == captured
    needed = "" if taps is None else ", ".join(str(tap + 1) for tap in taps)
    yield Finding(
        code=CODE,
        severity="note" if right else "error",
        confidence="certain",
        message=(
            f"ids {', '.join(map(str, line.layer_ids))} in the log are entries of layers: "
            f"{_who(subject, line)} captures the outputs of {layers(captured)}, {says}{''.join(expected)}"
        ),
        where=f"boot log, line {line.number}",
        axis="taps.layers",
        found=captured,
        expected=taps,
        fix="" if right else _fix(needed),
        references=("vllm#40727",),
    )


def _fix(needed: str) -> str:
    edit = f'"eagle_aux_hidden_state_layer_ids": [{needed}] at the top level of the draft config'
    return f"the line must read ({needed}): {edit}, or a release or runner that converts the ids (--engine)"


def _who(subject: Subject, line: BootLine) -> str:
    """The release and runner whose line it is, as far as the user names one."""
    ids = [reading.engine.id for reading in subject.readings]
    named = [str(engine) for engine in ids if engine.runner == line.runner]
    return " and ".join(named) or f"vLLM's {line.runner.upper()} runner"
