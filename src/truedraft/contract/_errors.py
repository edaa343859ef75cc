"""Errors that the command line turns into one line and an exit code.

TruedraftError
├── InputError       exit 2: a file, an argument or a prompt cannot be used
│   ├── UnsupportedError  exit 2: a family that is known by name only; `check` cannot decide
│   └── PairError    exit 2: each file is sound, but they contradict each other; a finding in `check`
└── UndecidedError   exit 3: nothing is wrong, but a needed convention is not settled
"""

from __future__ import annotations


class TruedraftError(Exception):
    """Base of all errors that are the user's to act on. The message is one line."""

    exit_code = 2

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


class InputError(TruedraftError):
    """Bad input: the message names the file, the key or tensor, what was found and what was expected."""

    exit_code = 2


class PairError(InputError):
    """The files of a pair can be read but contradict each other, or ask for what does not exist.

    `topic` is what they disagree about (`taps`, `vocabulary`, …; `value` for one that `axis` cannot have);
    `where` is a file and key or tensor. The message is "where: detail, found …, expected …".
    """

    def __init__(
        self, topic: str, where: str, found: str, expected: str, detail: str = "", axis: str | None = None
    ) -> None:
        self.topic = topic
        self.where = where
        self.found = found
        self.expected = expected
        self.axis = axis
        super().__init__(f"{where}: {detail + ', ' if detail else ''}found {found}, expected {expected}")


class UnsupportedError(InputError):
    """A drafter of a family that no reader covers: nothing is said of its files."""


class UndecidedError(TruedraftError):
    """A required convention is unknown or contradictory; the message names the override that settles it."""

    exit_code = 3
