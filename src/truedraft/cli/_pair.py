"""TARGET and DRAFT of a command as names that readers of files take; hub ids are fetched first."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from truedraft.contract import InputError
from truedraft.formats import bundled_pairs


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

    return hub_id(name) is not None and name.split("/")[0] not in bundled_pairs() and not os.path.exists(name)


@contextmanager
def _fetched(target: str, draft: str | None, weights: bool, quiet: bool) -> Iterator[tuple[str, str | None]]:
    from tempfile import TemporaryDirectory

    from truedraft.cli._slow import told_when_slow
    from truedraft.formats.hub import (
        TOKENIZER,
        HubId,
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
    with TemporaryDirectory(prefix="truedraft-") as temporary:
        with told_when_slow(quiet) as progress:
            for role, name in tuple(names.items()):
                if _is_hub_id(name) and (wanted := hub_id(name)) is not None:
                    directory = Path(temporary, role, wanted.repository)
                    directory.mkdir(parents=True)
                    places.append((fetch_headers(client, wanted, directory, progress), directory))
                    names[role] = str(directory)
            local = [Path(name) for name in (target, draft or "") if name and not _is_hub_id(name)]
            if draft and all((directory / TOKENIZER).is_file() for directory in local):
                fetch_tokenizers(client, places, progress)
        yield names["target"], names.get("draft")
