"""Downloads from one hub with the standard library: whole small files, and ranges of large ones.

Sizes, time and redirects are bounded, and every way of failing is an `InputError` of one line. The token
goes to the endpoint's own origin only and is never part of a message.
"""

from __future__ import annotations

import http.client
import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from queue import Empty, Queue
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

from truedraft import __version__
from truedraft.contract import InputError
from truedraft.formats._redirects import Redirects

TIMEOUT = 20.0
"""Seconds without a byte from the server."""

HEAD = 60.0
"""Seconds until the head of an answer must have come, redirects included."""

DEADLINE = 300.0
"""Seconds for one file, so that a server that drips bytes does not hold the command for ever."""

_CHUNK = 64 * 1024
_CONTENT_RANGE = re.compile(r"bytes (\d{1,15})-(\d{1,15})/(\d{1,15})")


@dataclass(frozen=True)
class Part:
    """The first bytes of a file, `total` bytes long in all."""

    data: bytes
    total: int


class Client:
    """Talks to one endpoint, `https://host[:port][/path]`."""

    def __init__(self, endpoint: str, token: str = "") -> None:
        if not _is_address(endpoint):  # not printed: people put passwords into addresses
            raise InputError("HF_ENDPOINT: expected an http or https address without user name or query")
        # http.client would print the offending header, with the token in it.
        if not token.isascii() or not token.isprintable():
            raise InputError("HF_TOKEN: found characters that no token has, expected a hub token")
        self.endpoint = endpoint.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._opener = urllib.request.build_opener(Redirects(endpoint, self._headers))

    def whole(self, path: str, limit: int) -> tuple[bytes, str] | None:
        """A file of at most `limit` bytes and the commit it is from (or ""); `None` if there is none."""
        with self._open(path) as response:
            if response is None:
                return None
            length = _length(response, path)
            if length is not None and length > limit:
                raise InputError(f"{path}: found {length} bytes, expected at most {limit}")
            data = _read(response, limit + 1, path)
            if len(data) > limit:
                raise InputError(f"{path}: found more than {limit} bytes, expected at most that")
            if length is not None and len(data) != length:
                raise InputError(f"{path}: received {len(data)} bytes, expected {length}")
            return data, response.headers.get("X-Repo-Commit") or ""

    def exists(self, path: str, limit: int) -> bool:
        """Whether there is a file of known size of at most `limit` bytes; its bytes are not read."""
        with self._open(path) as response:
            length = None if response is None else _length(response, path)
            return length is not None and length <= limit

    def range(self, path: str, begin: int, end: int) -> Part | None:
        """Bytes `begin` to `end` (exclusive) of a file, fewer if it is shorter; `None` if there is none."""
        with self._open(path, {"Range": f"bytes={begin}-{end - 1}"}) as response:
            if response is None:
                return None
            if response.status != 206:  # the whole file would follow, perhaps gigabytes
                raise InputError(f"{path}: the server ignores byte ranges, expected status 206")
            stated = response.headers.get("Content-Range") or ""
            found = _CONTENT_RANGE.fullmatch(stated)
            first, last, total = map(int, found.groups()) if found else (-1, -1, 0)
            if first != begin or last != min(end, total) - 1:
                raise InputError(
                    f"{path}: found Content-Range {stated!r:.80}, expected bytes {begin}-{end - 1}"
                )
            data = _read(response, last - first + 2, path)
            if len(data) != last - first + 1:
                raise InputError(f"{path}: received {len(data)} bytes, expected {last - first + 1}")
            return Part(data, total)

    @contextmanager
    def _open(self, path: str, headers: dict[str, str] | None = None) -> Iterator[Any]:
        """The response to a GET, `None` for status 404."""
        request = urllib.request.Request(f"{self.endpoint}/{path}", headers=headers or {})
        request.add_header("User-Agent", f"truedraft/{__version__}")
        for name, value in self._headers.items():
            request.add_unredirected_header(name, value)
        try:
            with self._answer(request, path) as response:
                yield response
        except urllib.error.HTTPError as error:
            status = error.code
            error.close()
            if status != 404:
                raise InputError(f"{path}: {_refusal(status)}") from None
            yield None
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise InputError(f"{self.endpoint}/{path}: cannot be fetched ({str(reason)[:200]})") from None

    def _answer(self, request: urllib.request.Request, path: str) -> Any:
        """The response once its head has come; a server may send interim answers for ever."""
        found: Queue[Any] = Queue()

        def ask() -> None:
            try:
                found.put(self._opener.open(request, timeout=TIMEOUT))
            except BaseException as error:  # handed to the caller's thread
                found.put(error)

        Thread(target=ask, daemon=True).start()
        try:
            answer = found.get(timeout=HEAD)
        except Empty:
            raise InputError(f"{path}: no answer within {HEAD:.0f} s") from None
        if isinstance(answer, BaseException):
            raise answer
        return answer


def _is_address(endpoint: str) -> bool:
    try:
        parts = urlsplit(endpoint)
        named = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # a port or an IPv6 address that is none
        return False
    plain = endpoint.isascii() and endpoint.isprintable() and " " not in endpoint
    return bool(named and plain and "@" not in parts.netloc and not parts.query and not parts.fragment)


def _length(response: Any, path: str) -> int | None:
    encoding = response.headers.get("Content-Encoding") or "identity"
    if encoding != "identity":
        raise InputError(f"{path}: found Content-Encoding {encoding!r:.40}, expected none")
    stated = response.headers.get("Content-Length") or ""
    return int(stated) if stated.isascii() and stated.isdigit() and len(stated) <= 15 else None


def _read(response: Any, most: int, path: str) -> bytes:
    """At most `most` bytes; fewer if the server ends earlier."""
    end, parts, count = time.monotonic() + DEADLINE, [], 0
    while count < most and (part := response.read1(min(_CHUNK, most - count))):
        parts.append(part)
        count += len(part)
        if time.monotonic() > end:
            raise InputError(f"{path}: took more than {DEADLINE:.0f} s, received {count} bytes")
    return b"".join(parts)


def _refusal(status: int) -> str:
    if status in (401, 403):
        return (
            f"the hub refuses access (status {status}); the repository is private, gated or misspelt, "
            "HF_TOKEN gives access"
        )
    if status == 416:
        return "the server has no bytes in that range (status 416), expected a safetensors file"
    return f"the hub answers with status {status}"
