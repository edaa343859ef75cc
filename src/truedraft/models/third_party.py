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
def as_input_error(directory: Path) -> Iterator[None]:
    """Whatever a third-party loader raises on a user's files is one line about those files."""
    try:
        yield
    except (MemoryError, KeyboardInterrupt, TruedraftError):
        raise
    except Exception as error:
        reason = " ".join(str(error).split()) or "no reason given"
        kind = type(error).__name__
        raise InputError(f"{directory}: transformers cannot use it: {kind}: {reason:.300}") from None
