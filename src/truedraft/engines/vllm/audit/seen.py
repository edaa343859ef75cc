"""What the functions of a release returned for one pair, in the units of the contract."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from truedraft.contract import InputError, Value
from truedraft.engines.vllm.audit.code import limited
from truedraft.engines.vllm.audit.configs import MissingKey
from truedraft.engines.vllm.audit.program import Missing
from truedraft.engines.vllm.audit.stand_ins import Gap


@dataclass(frozen=True)
class Seen:
    """The value that the release would run an axis with; `by`: the functions that said so."""

    axis: str
    value: Value
    by: str


@dataclass(frozen=True)
class Stopped:
    """A step that gave nothing. `refused`: the release itself raised `why`; else it could not be run."""

    step: str
    refused: bool
    why: str


class NotSupported(ValueError):
    """The release's own list of what it does not support is not empty; the words are the release's."""


def attempt(step: str, run: Callable[[], Iterator[Seen]]) -> list[Seen | Stopped]:
    """What a step yields until it ends or stops."""
    found: list[Seen | Stopped] = []

    def collect() -> None:
        found.extend(run())

    try:
        limited(collect)
    except (Missing, Gap) as missing:
        found.append(Stopped(step, False, str(missing)))
    except InputError:
        raise  # the file itself is bad, not what a function makes of a config
    except RecursionError:
        found.append(Stopped(step, False, "RecursionError"))
    except Exception as error:
        found.append(_raised(step, error))
    return found


def answer(run: Callable[[], str]) -> str | None:
    """What a single question gives, or `None` where the release cannot be asked."""
    try:
        found: str = limited(run)
    except InputError:
        raise
    except (Gap, Exception):
        return None
    return found


def _raised(step: str, error: Exception) -> Stopped:
    """An exception is the release's own if it left a line of the release, about something of the release."""
    if isinstance(error, NotSupported):
        return Stopped(step, True, str(error))
    frames = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    text = " ".join(re.sub(r" at 0x[0-9a-f]+", "", str(error)).split())
    name = "AttributeError" if isinstance(error, MissingKey) else type(error).__name__
    message = f"{name}: {text[:400]}"
    own = bool(frames) and (frames[-1].startswith("vllm/") or isinstance(error, MissingKey))
    about_us = isinstance(error, AttributeError | NameError | TypeError) and not isinstance(error, MissingKey)
    about_us = about_us and "unhashable" not in text
    if own and not about_us:
        return Stopped(step, True, message)
    return Stopped(step, False, message)
