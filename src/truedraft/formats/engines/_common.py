"""Rules that several engines share, with what differs between them as arguments."""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.formats.engines._types import Fact, PairFiles, Severity

SHORTER = "a block of another width is another input for every slot"


def width_from_k(
    files: PairFiles, *, unused: bool, most: int | None, reference: str, fix: str, severity: Severity = "note"
) -> Iterator[Fact]:
    """Engines that make as many query rows as drafts are asked for, plus one if slot 0 is unused.

    `most`: drafts per round, `None` where the files do not say. A width that the user asked for is a note.
    """
    if most is None:
        return
    asked = files.asked is not None
    why = f"{most} drafts per round make {most + unused} query rows; {SHORTER}"
    grave: Severity = "note" if asked else severity
    yield Fact("block.width", most + unused, why, reference, fix=fix, severity=grave)
    yield Fact("block.proposals", most, why, reference, fix=fix, severity=grave)


def causal_setting(files: PairFiles, key: str) -> str:
    """The edit that makes all draft layers as causal as they were trained, if one flag can say it."""
    trained = set(files.native.tuple_of("attention.causal"))
    if len(trained) != 1:
        return "no setting gives the trained masks"
    return f'"{key}": {str(trained.pop()).lower()}'
