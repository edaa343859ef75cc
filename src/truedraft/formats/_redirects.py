"""Redirects of a hub: to its storage, which must not see the token, and never to an unsafe place."""

from __future__ import annotations

import urllib.request
from typing import Any
from urllib.parse import urlsplit

from truedraft.contract import InputError


class Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects, as hubs use them for large files; the token stays with its own origin."""

    def __init__(self, endpoint: str, headers: dict[str, str]) -> None:
        self.origin = _origin(endpoint)
        self.headers = headers

    def http_error_302(self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any) -> Any:
        """Follow a redirect without its body, which the base class would read to the end."""
        return super().http_error_302(req, _Bodyless(fp), code, msg, headers)  # type: ignore[arg-type]

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        """The next request: never from https to http, and never to anything but http."""
        scheme = urlsplit(newurl).scheme
        if scheme != "https" and (scheme != "http" or urlsplit(req.full_url).scheme == "https"):
            fp.close()
            host = urlsplit(req.full_url).hostname  # not the whole address: it may be a signed one
            raise InputError(f"{host}: redirects to {scheme[:20]!r}, expected https")
        request = super().redirect_request(req, fp, code, msg, headers, newurl)
        if request is not None and _origin(newurl) == self.origin:
            for name, value in self.headers.items():
                request.add_unredirected_header(name, value)
        return request


class _Bodyless:
    """A response whose body is never read."""

    def __init__(self, response: Any) -> None:
        self._response = response

    def read(self, *_: int) -> bytes:
        """Nothing."""
        return b""

    def close(self) -> None:
        """Close the connection, unread bytes and all."""
        self._response.close()


def _origin(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or {"http": 80, "https": 443}.get(parts.scheme)
