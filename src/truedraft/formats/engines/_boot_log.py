"""Lines that an engine prints at start, as far as they say what it resolved."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_IDS = re.compile(
    r"Using (?:auxiliary layers from speculative config|Eagle3 auxiliary layers from (?:config|model)): "
    r"[(\[]\s*([0-9][0-9,\s]*)[)\]]"
)
MAX_IDS = 4096


@dataclass(frozen=True)
class BootLine:
    """Layer ids that a boot log names. `number`: the line, from 1; `text`: the part that was recognised."""

    number: int
    text: str
    layer_ids: tuple[int, ...]

    @property
    def runner(self) -> str:
        """`v1` or `v2`: whose line it is."""
        return "v1" if "speculative config" in self.text else "v2"


def read_boot_log(lines: Iterable[str]) -> Iterator[BootLine]:
    """The lines of vLLM's that name the captured layers (V1 `gpu_model_runner.py`, V2 `eagle3_utils.py`)."""
    for number, line in enumerate(lines, start=1):
        if (found := _IDS.search(line)) is not None:
            words = [word for word in re.split(r"[,\s]+", found[1]) if word]
            if len(words) <= MAX_IDS and all(len(word) <= 9 for word in words):
                yield BootLine(number, found[0], tuple(map(int, words)))
