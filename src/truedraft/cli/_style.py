"""Colour on a terminal, none elsewhere."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class Style:
    """Wraps text in ANSI colours if `colour` is set."""

    colour: bool = False

    @classmethod
    def for_stdout(cls) -> Style:
        """Colour iff stdout is a terminal and `NO_COLOR` is not set (https://no-color.org)."""
        return cls(
            sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        )

    def bold(self, text: str) -> str:
        """Headings."""
        return self._wrap(text, "1")

    def dim(self, text: str) -> str:
        """What may be skipped."""
        return self._wrap(text, "2")

    def warn(self, text: str) -> str:
        """What the reader should not miss."""
        return self._wrap(text, "33")

    def _wrap(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour else text
