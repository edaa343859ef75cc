"""The files contradict each other in another way.

What it finds
    layer_types that does not have one entry per draft layer, windows without a size, two norms where one is
    possible, an algorithm that is not the model type, a number that no convention can have (0 rows).
Why it matters
    Such a config was edited by hand or converted halfway; loaders take whichever key they read first.
In acceptance
    Depends on the loader.
Example
    num_hidden_layers 5 with four entries in layer_types.
Fix
    Take the config from the producer again.
References
    dflash.md on the schema change of 2026-06-18; SpecForge#879 (S46 in the field log)
"""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject
from truedraft.checks.rules._contradiction import contradiction

CODE = "TD110"
NAME = "contradiction"


def check(subject: Subject) -> Iterator[Finding]:
    """A contradiction of this kind, if the files have one."""
    yield from contradiction(
        subject,
        CODE,
        frozenset({"layers", "window", "norm", "family", "value"}),
        fix="take the config from the producer again",
        references=(),
    )
