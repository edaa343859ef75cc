"""Calling third-party loaders on a user's files: no noise on the terminal, one line per error."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from truedraft.contract import InputError, TruedraftError


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep transformers' progress bars and load reports off the terminal."""
    from transformers.utils import logging as untyped

    logging: Any = untyped

    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(verbosity)
        logging.enable_progress_bar()


@contextlib.contextmanager
def as_input_error(path: Path, expected: str = "files that it can use") -> Iterator[None]:
    """Whatever a third-party loader raises on a user's file or directory is one line about it.

    `expected` completes "expected …".
    """
    try:
        yield
    except (MemoryError, KeyboardInterrupt, TruedraftError):
        raise
    except Exception as error:
        reason = " ".join(str(error).split()) or "no reason given"
        short = reason if len(reason) <= 160 else f"{reason[:159]}…"
        raise InputError(
            f"{path}: transformers cannot use it ({type(error).__name__}: {short}), expected {expected}"
        ) from None
