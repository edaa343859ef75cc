"""`Redactor`: replaces what `sensitive.py` knows in one text or value, and numbers what it replaced."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from truedraft.diagnose import sensitive as known

PASSES = 6
"""A replacement can make its neighbourhood match another pattern; hardly ever more than once."""


@dataclass(frozen=True)
class Identity:
    """What is known to be private: names of users and hosts, home directories, paths that the user typed."""

    users: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()
    homes: frozenset[str] = frozenset()
    paths: frozenset[str] = frozenset()


def inner_key(outer: str, name: str) -> str:
    """What lies below a secret key is secret."""
    return outer if known.SECRET_KEY.fullmatch(outer) else name


def is_host(text: str) -> bool:
    """Whether a word names a machine: no address, no placeholder, no common word."""
    is_address = bool(known.IPV4.fullmatch(text))
    return known.is_name(text) and not is_address and known.PLACEHOLDER.fullmatch(text) is None


def _netloc(text: str) -> tuple[str, str, str]:
    """(user part with @, host, port and what follows) of an address."""
    user, at, rest = text.rpartition("@")
    if found := known.PLACEHOLDER.match(rest) or re.match(r"\[[^\]]{0,64}\]", rest):
        return user + at, found[0], rest[found.end() :]
    end = next((i for i, c in enumerate(rest) if c in ":[](){}<>,;`|"), len(rest))
    return user + at, rest[:end], rest[end:]


def split_address(netloc: str, rest: str) -> tuple[str, str, str, str]:
    """(user part with @, host, port and what follows, path and query) of an address."""
    user, host, port = _netloc(netloc)
    if not user and port.startswith(":") and not re.match(r":(?:\d|$|\W)", port) and "@" in rest:
        # A password with a slash in it: everything up to the last @ is the user's.
        cut, _, rest = rest.rpartition("@")
        user = f"{netloc}{cut}@"
        _, host, port = _netloc(re.split(r"[/?#]", rest)[0])
        rest = rest[len(host) + len(port) :]
    return user, host, port, rest


def _names(names: Iterable[str]) -> re.Pattern[str] | None:
    """Any of the names, as a word; short ones only between white space and punctuation."""
    parts = []
    for name in sorted({n for n in names if known.is_name(n)}, key=lambda n: (-len(n), n)):
        edge = r"[^\W_]" if len(name) >= 5 else r"[\w-]"
        parts.append(rf"(?<!{edge}){re.escape(name)}(?!{edge})")
    return re.compile("|".join(parts), re.I) if parts else None


@dataclass
class Redactor:
    """One pass over a document. `taken`: placeholders that its text has already; `counts`: kind -> things."""

    identity: Identity
    taken: set[str] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)
    _numbers: dict[tuple[str, str], str] = field(default_factory=dict)
    _done: dict[tuple[str, str], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._users = _names(self.identity.users)
        self._hosts = _names(self.identity.hosts)
        typed = sorted((p for p in self.identity.paths if "/" in p or "\\" in p), key=lambda p: (-len(p), p))
        homes = sorted((h for h in self.identity.homes if len(h) > 1), key=lambda h: (-len(h), h))
        self._typed = (
            re.compile("|".join(rf"(?<![\w./-]){re.escape(p)}(?![\w-])" for p in typed)) if typed else None
        )
        self._homes = (
            re.compile("|".join(rf"(?<![\w.#-]){re.escape(h)}(?![\w-])" for h in homes)) if homes else None
        )

    def mark(self, kind: str, text: str) -> str:
        """The placeholder of a thing."""
        if known.PLACEHOLDER.fullmatch(text):
            return text
        entry = (kind, text)
        if entry not in self._numbers:
            number = self.counts[kind] + 1
            while (name := f"<{kind}-{number}>") in self.taken:
                number += 1
            self.taken.add(name)
            self._numbers[entry] = name
            self.counts[kind] += 1
        return self._numbers[entry]

    def value(self, value: Any, key: str) -> Any:
        """A JSON value; `key`: of the object that holds it."""
        if isinstance(value, str):
            return self.text(value, key)
        if isinstance(value, Mapping):
            out: dict[str, Any] = {}
            for name, entry in value.items():
                shown = self.text(name, "")
                while shown in out:
                    shown += "'"
                out[shown] = self.value(entry, inner_key(key, name))
            return out
        if isinstance(value, list | tuple):
            return [self.value(entry, key) for entry in value]
        if isinstance(value, int | float) and not isinstance(value, bool) and known.SECRET_KEY.fullmatch(key):
            return self.mark("secret", str(value))
        return value

    def text(self, text: str, key: str) -> str:
        """One text; `key`: of the object that holds it."""
        if (text, key) not in self._done:
            self._done[text, key] = self._changed(text, key)
        return self._done[text, key]

    def _changed(self, text: str, key: str) -> str:
        if key in known.DIGEST_KEYS and known.DIGEST.fullmatch(text):
            return text
        if known.SECRET_KEY.fullmatch(key) and text.casefold() not in known.NO_SECRET:
            return self.mark("secret", text)
        if key == "token" and known.TOKEN.fullmatch(f"token={text}"):
            return self.mark("secret", text)
        if known.HOST_KEY.fullmatch(key) and is_host(text) and known.WORD.fullmatch(text):
            return self.mark("host", text.casefold())
        if known.USER_KEY.fullmatch(key) and known.is_name(text) and known.WORD.fullmatch(text):
            return self.mark("user", text.casefold())
        for _ in range(PASSES):
            before, text = text, self._once(text)
            if text == before:
                break
        return text

    def _once(self, text: str) -> str:
        steps: list[tuple[re.Pattern[str] | None, Callable[[re.Match[str]], str]]] = [
            (self._typed, self._path),
            (known.PRIVATE_KEY, lambda m: self.mark("secret", m[0])),
            (known.AUTHORIZATION, lambda m: m[1] + self.mark("secret", m[2])),
            (known.BEARER, lambda m: m[1] + self.mark("secret", m[2])),
            (known.ADDRESS, self._address),
            (known.ASSIGNED, self._assigned),
            (known.TOKEN, lambda m: m[1] + self.mark("secret", m[2])),
            (known.API_KEY, lambda m: self.mark("secret", m[0])),
            (known.EMAIL, lambda m: self.mark("email", m[0].casefold())),
            (known.LOGIN, lambda m: f"{self._user(m[1])}@{self._host(m[2])}"),
            (known.UUID, lambda m: self.mark("uuid", m[0].casefold())),
            (known.MAC, lambda m: self.mark("mac", m[0].casefold())),
            (known.IPV6, self._ipv6),
            (known.IPV4, self._ipv4),
            (known.SYSLOG, lambda m: m[1] + self._host(m[2])),
            (known.HOST_ASSIGNED, lambda m: m[1] + (self._host(m[2]) if is_host(m[2]) else m[2])),
            (known.CLOUD_HOST, lambda m: self._host(m[0])),
            (known.DOMAIN, lambda m: self._host(m[0])),
            (self._hosts, lambda m: self._host(m[0])),
            (known.PATH, self._path),
            (self._homes, lambda m: self.mark("dir", m[0])),
            (known.HEX, self._hex),
            (known.CONTAINER, lambda m: m[0] if _is_digest(m) else self.mark("container", m[0])),
            (known.RANDOM, lambda m: self.mark("secret", m[0]) if known.is_random(m[0]) else m[0]),
            (self._users, lambda m: self._user(m[0])),
        ]  # fmt: skip
        for pattern, change in steps:
            if pattern is not None:
                text = pattern.sub(change, text)
        return text

    def _user(self, name: str) -> str:
        return self.mark("user", name.casefold()) if known.is_name(name) else name

    def _host(self, name: str) -> str:
        bare = name.casefold().strip("[]")
        if not bare or bare == "localhost" or bare in known.PUBLIC_HOSTS:
            return name
        if known.IPV4.fullmatch(bare) or known.is_ipv6(bare) or bare == "::1":
            return self._ip(name)
        return self.mark("host", bare.rstrip("."))

    def _ip(self, text: str) -> str:
        bare = text.casefold().strip("[]")
        return self.mark("ip", bare) if known.is_ipv6(bare) or known.is_ipv4(bare) else text

    def _ipv6(self, found: re.Match[str]) -> str:
        end = "" if found[0].endswith("::") or not found[0].endswith(":") else ":"
        return self._ip(found[0].removesuffix(end)) + end

    def _ipv4(self, found: re.Match[str]) -> str:
        before = found.string[max(0, found.start() - 48) : found.start()]
        return found[0] if known.VERSION_BEFORE.search(before) else self._ip(found[0])

    def _address(self, found: re.Match[str]) -> str:
        scheme = found[1]
        user, host, port, rest = split_address(found[2], found[3])
        if user:
            user = user if known.PLACEHOLDER.fullmatch(user[:-1]) else self.mark("secret", user[:-1]) + "@"
        path, mark, query = rest.partition("?")
        if mark and not query.startswith("<query>"):
            query = "<query>"
            self.counts["query"] += 1
        if scheme.casefold() in known.STORES and path.strip("/\\") and not known.PLACEHOLDER.match(host):
            path = ("/" if host else "") + self._directory(path)
        return f"{scheme}://{user}{self._host(host)}{port}{path}{mark}{query}"

    def _assigned(self, found: re.Match[str]) -> str:
        value = found[2]
        quote = value[0] if value[0] in "\"'" and value[-1] == value[0] and len(value) > 1 else ""
        bare = value[1:-1] if quote else value
        if bare.casefold().strip("\\") in known.NO_SECRET or known.PLACEHOLDER.fullmatch(bare.rstrip("\\")):
            return found[0]
        return found[1] + quote + self.mark("secret", bare) + quote

    def _path(self, found: re.Match[str]) -> str:
        return self._directory(found[0])

    def _directory(self, path: str) -> str:
        """`<dir-n>/last`, or from a component on that says nothing of the owner."""
        parts = [part for part in re.split(r"[/\\]+", path) if part]
        if not parts or parts[0].casefold() in known.ROUTES or path == "<query>":
            return path
        start = next((i for i, part in enumerate(parts) if known.KEPT_PARTS.fullmatch(part)), len(parts) - 1)
        if len(parts) == 1 or (parts[-2].casefold() in ("home", "users") and start == len(parts) - 1):
            kept, parent = [], path.rstrip("/\\")
        else:
            kept, parent = parts[start:], "/".join(parts[:start])
        return "/".join([self.mark("dir", parent), *kept])

    def _hex(self, found: re.Match[str]) -> str:
        return found[0] if _is_digest(found) else self.mark("secret", found[0])


def _is_digest(found: re.Match[str]) -> bool:
    before = found.string[max(0, found.start() - 128) : found.start()]
    return known.DIGEST_BEFORE.search(before) is not None
