"""TARGET and DRAFT of a command as names that readers of files take; hub ids are fetched first."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from truedraft.contract import InputError
from truedraft.formats import is_bundled

if TYPE_CHECKING:
    from truedraft.formats.hub import HubId


@contextmanager
def local_pair(
    target: str, draft: str | None, *, network: bool, weights: bool = False, quiet: bool = False
) -> Iterator[tuple[str, str | None]]:
    """The two names, hub ids replaced by directories that are removed afterwards.

    Raises `InputError` if `weights` are asked for of a hub id, of which only headers are fetched.
    """
    if network and any(_is_hub_id(name) for name in (target, draft or "")):
        with _fetched(target, draft, weights, quiet) as names:
            yield names
    else:
        yield target, draft


def _is_hub_id(name: str) -> bool:
    """Bundled pairs and directories come first, as without the network."""
    from truedraft.formats.hub import hub_id

    return hub_id(name) is not None and not is_bundled(name) and not os.path.exists(name)


@contextmanager
def _named(places: list[tuple[HubId, Path]]) -> Iterator[None]:
    """Errors name the repository, not the temporary directory that holds its headers."""
    try:
        yield
    except InputError as error:
        text = str(error)
        for hub, directory in places:
            text = text.replace(str(directory), str(hub))
        error.args = (text,)
        raise


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """A cancelled job or a closed terminal ends the command as Ctrl-C does: nothing stays behind."""
    names = [name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    if threading.current_thread() is not threading.main_thread():
        names = []  # only the main thread may set handlers

    def leave(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    before = {name: signal.signal(getattr(signal, name), leave) for name in names}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)


@contextmanager
def _fetched(target: str, draft: str | None, weights: bool, quiet: bool) -> Iterator[tuple[str, str | None]]:
    from tempfile import TemporaryDirectory

    from truedraft.cli._slow import told_when_slow
    from truedraft.formats.hub import (
        TOKENIZER,
        client_of_environment,
        fetch_headers,
        fetch_tokenizers,
        hub_id,
    )

    if weights:
        raise InputError("--weights: only headers of a hub id are fetched, expected downloaded directories")
    client = client_of_environment()
    names: dict[str, str] = {"target": target} | ({"draft": draft} if draft else {})
    places: list[tuple[HubId, Path]] = []
    with ended_by_signals(), TemporaryDirectory(prefix="truedraft-") as temporary:
        with told_when_slow(quiet) as progress, _named(places):
            for role, name in tuple(names.items()):
                if _is_hub_id(name) and (wanted := hub_id(name)) is not None:
                    directory = Path(temporary, role, wanted.repository)
                    directory.mkdir(parents=True)
                    places.append((fetch_headers(client, wanted, directory, progress), directory))
                    names[role] = str(directory)
            local = [Path(name) for name in (target, draft or "") if name and not _is_hub_id(name)]
            if draft and all((directory / TOKENIZER).is_file() for directory in local):
                fetch_tokenizers(client, places, progress)
        with _named(places):
            yield names["target"], names.get("draft")
