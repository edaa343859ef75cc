"""Requests from several threads; Ctrl-C closes their connections and ends at once."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, Queue
from threading import Event, Lock, Thread
from typing import Any

from truedraft.measure.server.address import Address
from truedraft.measure.server.reply import Ask, Reply, send

POLL = 0.2
"""Seconds between two looks for Ctrl-C."""


class _Open:
    """The connections that are in use."""

    def __init__(self) -> None:
        self._lock, self._connections = Lock(), set[http.client.HTTPConnection]()

    def note(self, connection: http.client.HTTPConnection, opened: bool) -> None:
        with self._lock:
            if opened:
                self._connections.add(connection)
            else:
                self._connections.discard(connection)

    def close(self) -> None:
        with self._lock:
            for connection in self._connections:
                with suppress(OSError):
                    connection.close()


def ask_all(
    address: Address,
    api: str,
    asks: Sequence[Ask],
    settings: dict[str, Any],
    *,
    concurrency: int,
    timeout: float,
    on_reply: Callable[[], None],
) -> list[Reply]:
    """Replies in the order of `asks`; at most `concurrency` requests are open at a time."""
    todo: Queue[int] = Queue()
    done: Queue[tuple[int, Reply] | BaseException] = Queue()
    for number in range(len(asks)):
        todo.put(number)
    stop, open_connections = Event(), _Open()

    def work() -> None:
        try:
            while not stop.is_set():
                number = todo.get_nowait()
                done.put((number, send(address, api, asks[number], settings, timeout, open_connections.note)))
        except Empty:
            return
        except BaseException as error:  # handed to the caller's thread
            done.put(error)

    for _ in range(min(concurrency, len(asks))):
        Thread(target=work, daemon=True).start()
    replies: dict[int, Reply] = {}
    try:
        while len(replies) < len(asks):
            try:
                found = done.get(timeout=POLL)
            except Empty:
                continue
            if isinstance(found, BaseException):
                raise found
            replies[found[0]] = found[1]
            on_reply()
    finally:
        stop.set()
        open_connections.close()
    return [replies[number] for number in range(len(asks))]
