"""Errors that the command line turns into one line and an exit code.

TruedraftError
├── InputError       exit 2: a file, an argument or a prompt cannot be used
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


class UndecidedError(TruedraftError):
    """A required convention is unknown or contradictory; the message names the override that settles it."""

    exit_code = 3
