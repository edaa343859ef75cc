"""What commands that load models share: progress on a terminal's stderr, threads, Ctrl-C during imports."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Protocol

from truedraft.contract import InputError

SMALL = 20_000_000
"""Parameters of a target below which several CPU threads cost more than they bring."""


class Step(Protocol):
    """Moves a progress bar; `what` changes its text."""

    def __call__(self, done: int, total: int, what: str | None = None) -> None:
        """`done` of `total` are done."""


@contextmanager
def interrupts_deferred() -> Iterator[None]:
    """Hold Ctrl-C back: torch aborts the process if it is interrupted while it is being imported."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread receives signals
        return
    held: list[int] = []
    previous = signal.signal(signal.SIGINT, lambda number, _frame: held.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
    if held:
        raise KeyboardInterrupt


@contextmanager
def engine_imports(what: str = "this") -> Iterator[None]:
    """Import what needs the extra `engine`, Ctrl-C held back; a package that is missing is one line."""
    try:
        with interrupts_deferred():
            yield
    except ImportError as error:
        raise InputError(
            f"{what} needs torch and transformers ({error}): install the extra 'engine'"
        ) from None


def set_threads(model: Any, threads: int | None) -> None:
    """CPU threads for torch: as asked for, else 1 for a small model and torch's own choice for others."""
    import torch

    if threads is not None or sum(weight.numel() for weight in model.parameters()) < SMALL:
        torch.set_num_threads(threads or 1)


def status(message: str, quiet: bool) -> AbstractContextManager[object]:
    """A spinner on a terminal's stderr; nothing elsewhere."""
    if quiet or not sys.stderr.isatty():
        return nullcontext()
    from rich.console import Console

    return Console(stderr=True).status(message)


@contextmanager
def bar(what: str, quiet: bool) -> Iterator[Step | None]:
    """A progress bar on a terminal's stderr; `None` elsewhere."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=None)

        def step(done: int, total: int, what: str | None = None) -> None:
            progress.update(task, completed=done, total=total, description=what)

        yield step
