"""A server's address, and small answers from it. Only the address that the user gave is ever talked to."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Timer
from urllib.parse import urlsplit

from truedraft.contract import InputError

TIMEOUT = 20.0
DEADLINE = 120.0
MOST_BYTES = 64 * 2**20
_CHUNK = 2**16


@dataclass(frozen=True)
class Address:
    """Scheme, host and port, and the path before `/v1` or, with `path`, of one resource."""

    scheme: str
    host: str
    port: int | None
    path: str
    headers: dict[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def parse(cls, text: str, path: bool = False, key: str = "") -> Address:
        """Raises `InputError` for what is no plain http or https address.

        `path`: keep the whole path and query, for one resource; else a `/v1` at the end is dropped. `key`:
        sent as a bearer token.
        """
        expected = "expected http://HOST[:PORT] without user name"
        try:
            parts = urlsplit(text)
            port = parts.port
        except ValueError:
            raise InputError(f"{text:.200}: found no address, {expected}") from None
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
            raise InputError(f"{text.rpartition('@')[2]:.200}: found no address, {expected}")
        if not (text.isascii() and text.isprintable()) or " " in text or parts.fragment:
            raise InputError(f"{text:.200}: found characters that no address has, {expected}")
        if not (key.isascii() and key.isprintable()):
            raise InputError("the API key holds characters that no key has")
        place = parts.path + (f"?{parts.query}" if parts.query else "") if path else parts.path.rstrip("/")
        if not path:
            place = place.removesuffix("/v1")
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return cls(parts.scheme, parts.hostname, port, place, headers)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}{'' if self.port is None else f':{self.port}'}{self.path}"

    def connect(self, timeout: float) -> http.client.HTTPConnection:
        """A connection that is not open yet. `timeout`: seconds without a byte."""
        kind = http.client.HTTPSConnection if self.scheme == "https" else http.client.HTTPConnection
        return kind(self.host, self.port, timeout=timeout)


def status_text(status: int) -> str:
    """A status that is no answer, in words."""
    return f"status {status}" + (", a redirect, which is not followed" if 300 <= status < 400 else "")


@contextmanager
def within(connection: http.client.HTTPConnection, seconds: float) -> Iterator[None]:
    """Connects, and breaks the connection after so many seconds, however slowly bytes still come.

    Raises `TimeoutError` then, `OSError` if there is no connection.
    """
    connection.connect()
    place, late = connection.sock, False  # an answer that ends with the connection takes `sock` away

    def cut() -> None:
        nonlocal late
        late = True
        with suppress(OSError):
            place.shutdown(socket.SHUT_RDWR)

    timer = Timer(seconds, cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    except Exception:
        if late:
            raise TimeoutError(f"timed out after {seconds:g} s") from None
        raise
    finally:
        timer.cancel()
    if late:
        raise TimeoutError(f"timed out after {seconds:g} s")


def fetch(address: Address, path: str = "", timeout: float = TIMEOUT, deadline: float = DEADLINE) -> bytes:
    """The body of a GET. Raises `InputError` of one line for whatever fails; redirects are not followed.

    `timeout`: seconds without a byte; `deadline`: seconds for everything.
    """
    connection = address.connect(timeout)
    where = f"{address}{path}"
    try:
        with within(connection, deadline):
            connection.request("GET", f"{address.path}{path}" or "/", headers=address.headers)
            response = connection.getresponse()
            if response.status != 200:
                raise InputError(f"{where}: found {status_text(response.status)}, expected status 200")
            body = bytearray()
            while part := response.read1(_CHUNK):
                body += part
                if len(body) > MOST_BYTES:
                    raise InputError(
                        f"{where}: found more than {MOST_BYTES} bytes, expected a smaller answer"
                    )
            if response.length:
                raise InputError(f"{where}: the answer ends {response.length} bytes early")
            return bytes(body)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise InputError(f"{where}: cannot be fetched ({str(error)[:200] or type(error).__name__})") from None
    finally:
        connection.close()
