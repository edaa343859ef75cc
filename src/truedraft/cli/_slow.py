"""A line on stderr for what takes longer than a reader waits without wondering."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from threading import Lock, Timer

from truedraft.cli._printable import printable

SECONDS = 2.0


@contextmanager
def told_when_slow(quiet: bool, doing: str = "fetching") -> Iterator[Callable[[str], None]]:
    """A function that is told what is fetched next; stderr hears of it after `SECONDS`, not before.

    On a terminal a line that follows along and vanishes, elsewhere one line for all.
    """
    current, lock, open_line = [""], Lock(), ExitStack()
    update: list[Callable[[str], None]] = []
    finished = False

    def start() -> None:
        with lock:
            if finished:
                return
            if not sys.stderr.isatty():
                print(f"truedraft: {doing} {current[0]} …", file=sys.stderr, flush=True)
                return
            from rich.console import Console
            from rich.text import Text

            status = open_line.enter_context(Console(stderr=True).status(Text(f"{doing} {current[0]}")))
            update.append(lambda name: status.update(Text(f"{doing} {name}")))

    def tell(name: str) -> None:
        with lock:
            current[0] = printable(name)
            for change in update:
                change(current[0])

    timer = Timer(SECONDS, start)
    timer.daemon = True
    if not quiet:
        timer.start()
    try:
        yield tell
    finally:
        timer.cancel()
        with lock:
            finished = True
            open_line.close()
