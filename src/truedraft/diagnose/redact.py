"""Takes people, machines, places and secrets out of a JSON value; the same thing gets the same placeholder.

`/home/ann/ckpt/m` becomes `<dir-1>/m`, a host `<host-1>`, a key `<secret-1>`. Figures, layer ids, versions,
tensor names and times stay: numbers are never touched, and `sensitive.py` says what text is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from truedraft.diagnose import sensitive as known
from truedraft.diagnose.redactor import Identity, Redactor, inner_key, is_host, split_address


@dataclass(frozen=True)
class Redacted:
    """`counts`: kind -> how many different things were replaced. `identity`: with names found on the way."""

    value: Any
    counts: Mapping[str, int]
    identity: Identity


def redact(value: Any, identity: Identity) -> Redacted:
    """A copy of a JSON value without what identifies anybody. Object keys count too."""
    places = list(_places(value, "", ""))
    texts = [text for _, _, text in places]
    users, hosts = set(identity.users), set(identity.hosts)
    for _, key, text in places:
        users.update(_users(text, key))
        hosts.update(_hosts(text, key))
    full = replace(identity, users=frozenset(users), hosts=frozenset(hosts))
    work = Redactor(full, taken={found[0] for text in texts for found in known.PLACEHOLDER.finditer(text)})
    out = work.value(value, "")
    return Redacted(out, dict(work.counts), full)


def leaks(value: Any, identity: Identity) -> list[str]:
    """Where a JSON value still holds what `redact` would replace, as JSON pointers; empty if nowhere."""
    return [
        where for where, key, text in _places(value, "", "") if Redactor(identity).text(text, key) != text
    ]


def _places(value: Any, where: str, key: str) -> Iterator[tuple[str, str, str]]:
    """(pointer, key, text) of all texts; keys of objects come with the key ""."""
    if isinstance(value, str):
        yield where, key, value
    elif isinstance(value, Mapping):
        for name, entry in value.items():
            yield where, "", name
            yield from _places(entry, f"{where}/{name}", inner_key(key, name))
    elif isinstance(value, list | tuple):
        for i, entry in enumerate(value):
            yield from _places(entry, f"{where}/{i}", key)


def _users(text: str, key: str) -> Iterator[str]:
    if known.USER_KEY.fullmatch(key) and known.WORD.fullmatch(text) and known.is_name(text):
        yield text
    for pattern in (known.HOME, known.ENVIRONMENT_USER, known.LOGIN):
        yield from (found[1] for found in pattern.finditer(text) if known.is_name(found[1]))


def _hosts(text: str, key: str) -> Iterator[str]:
    if known.HOST_KEY.fullmatch(key) and known.WORD.fullmatch(text) and is_host(text):
        yield text
    for pattern in (known.HOST_ASSIGNED, known.LOGIN, known.SYSLOG):
        yield from (found[2] for found in pattern.finditer(text) if is_host(found[2]))
    for found in known.ADDRESS.finditer(text):
        host = split_address(found[2], found[3])[1]
        if is_host(host) and host.casefold() not in known.PUBLIC_HOSTS:
            yield host


__all__ = ["Identity", "Redacted", "leaks", "redact"]
