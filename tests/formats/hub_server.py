"""A hub on localhost for the tests: serves byte ranges, and misbehaves on request."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Hub:
    """`files`: path below the endpoint -> bytes. `answers`: path -> a function that answers itself."""

    files: dict[str, bytes] = field(default_factory=dict)
    answers: dict[str, Any] = field(default_factory=dict)
    requests: list[tuple[str, str, str]] = field(default_factory=list)  # path, Range, Authorization
    sent: int = 0
    ranges: bool = True
    url: str = ""

    def add(self, repository: str, files: dict[str, bytes], revision: str = "main") -> None:
        for at in {revision, COMMIT}:
            self.files |= {f"/{repository}/resolve/{at}/{name}": data for name, data in files.items()}

    def asked(self, ending: str) -> list[str]:
        """The Range headers of all requests for files that end so."""
        return [ranges for path, ranges, _ in self.requests if path.endswith(ending)]


@contextmanager
def serving(hub: Hub) -> Iterator[Hub]:
    """The hub, answering at `hub.url`."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            sought = self.headers.get("Range") or ""
            hub.requests.append((self.path, sought, self.headers.get("Authorization") or ""))
            if self.path in hub.answers:
                hub.answers[self.path](self)
                return
            data = hub.files.get(self.path)
            if data is None:
                self.reply(404, b"Entry not found")
                return
            found = re.fullmatch(r"bytes=(\d+)-(\d+)", sought)
            if found is None or not hub.ranges:
                self.reply(200, data)
                return
            begin, end = int(found[1]), min(int(found[2]) + 1, len(data))
            if begin >= len(data):
                self.reply(416, b"")
                return
            self.reply(206, data[begin:end], {"Content-Range": f"bytes {begin}-{end - 1}/{len(data)}"})

        def reply(self, status: int, data: bytes, headers: dict[str, str] | None = None) -> None:
            self.send_response(status)
            for name, value in (
                {"Content-Length": str(len(data)), "X-Repo-Commit": COMMIT} | (headers or {})
            ).items():
                self.send_header(name, value)
            self.end_headers()
            hub.sent += len(data)
            with suppress(OSError):
                self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
