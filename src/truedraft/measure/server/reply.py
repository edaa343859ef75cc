"""One request to the server: what is asked, and what its stream answers."""

from __future__ import annotations

import hashlib
import http.client
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from truedraft.measure.server.address import Address
from truedraft.measure.sources.values import count

MOST_LINE = 8 * 2**20


@dataclass(frozen=True)
class Ask:
    """One prompt: `text`, or `tokens` for /v1/completions."""

    prompt_id: str
    text: str = ""
    tokens: tuple[int, ...] = ()
    category: str = ""

    def body(self, api: str) -> dict[str, Any]:
        """The prompt's part of the request."""
        if api == "chat":
            return {"messages": [{"role": "user", "content": self.text}]}
        return {"prompt": list(self.tokens) or self.text}


@dataclass
class Reply:
    """What came back. `chunks`: objects with per-request counts. `error`: why there is no whole answer.

    `started`: Unix time; `first`, `total`: seconds until the first text and the end. `None`: not told.
    """

    ask: Ask
    started: float
    first: float | None = None
    total: float = 0.0
    text: str = ""
    finish: str = ""
    request_id: str = ""
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    chunks: list[dict[str, Any]] = field(default_factory=list)
    error: str = ""

    @property
    def output_hash(self) -> str:
        """Of the text, since servers do not send ids: never equal to a hash of ids (`text:` before it)."""
        return "text:" + hashlib.sha256(self.text.encode("utf-8", "replace")).hexdigest()[:16]


Connected = Callable[[http.client.HTTPConnection, bool], None]
"""Told of every connection when it is made (true) and done with (false), so that Ctrl-C can close it."""


def send(
    address: Address, api: str, ask: Ask, settings: dict[str, Any], timeout: float, connected: Connected
) -> Reply:
    """Ask and read the whole stream; errors become the reply's `error`. `timeout`: seconds for all of it."""
    reply = Reply(ask, started=time.time())
    begin = time.monotonic()
    place = "/v1/chat/completions" if api == "chat" else "/v1/completions"
    connection = address.connect(timeout)
    connected(connection, True)
    try:
        body = json.dumps(settings | ask.body(api)).encode()
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream", **address.headers}
        connection.request("POST", address.path + place, body, headers)
        response = connection.getresponse()
        if response.status != 200:
            reply.error = f"status {response.status}: {response.read(500).decode('utf-8', 'replace')}"
            return reply
        done = False
        for event in _events(response, begin + timeout):
            if event is None:
                done = True
                break
            _take(reply, event, begin)
        if not reply.error and not done and not reply.finish:
            reply.error = "the stream ended before the answer did"
    except (OSError, http.client.HTTPException, ValueError, AttributeError) as error:
        # AttributeError: http.client on a connection that Ctrl-C has closed
        reply.error = reply.error or str(error)[:200] or type(error).__name__
    finally:
        reply.total = time.monotonic() - begin
        connected(connection, False)
        connection.close()
    return reply


def _events(response: http.client.HTTPResponse, end: float) -> Iterator[dict[str, Any] | None]:
    """The objects of a stream of server-sent events, or of a plain answer; `None` for the end, `[DONE]`."""
    plain = "json" in (response.headers.get("Content-Type") or "")
    if plain:
        value = json.loads(response.read(MOST_LINE))
        if isinstance(value, dict):
            yield value
        yield None
        return
    while line := response.readline(MOST_LINE):
        if time.monotonic() > end:
            raise TimeoutError("timed out")
        event = line.strip()
        if not event.startswith(b"data:"):
            continue
        event = event.removeprefix(b"data:").strip()
        if event == b"[DONE]":
            yield None
            return
        value = json.loads(event)
        if isinstance(value, dict):
            yield value


def _take(reply: Reply, event: dict[str, Any], begin: float) -> None:
    if isinstance(event.get("error"), dict | str):
        reply.error = f"the server says: {str(event['error'])[:200]}"
        return
    if isinstance(event.get("id"), str):
        reply.request_id = event["id"]
    choices = event.get("choices")
    for choice in choices if isinstance(choices, list) else []:
        if not isinstance(choice, dict):
            continue
        text = _text(choice)
        if text and reply.first is None:
            reply.first = time.monotonic() - begin
        reply.text += text
        reply.finish = str(choice.get("finish_reason") or reply.finish)
    usage = event.get("usage")
    if isinstance(usage, dict):
        details = usage.get("prompt_tokens_details")
        cached = count(details, "cached_tokens") if isinstance(details, dict) else None
        reply.cached_tokens = cached if cached is not None else reply.cached_tokens
        reply.prompt_tokens = count(usage, "prompt_tokens")
        reply.output_tokens = count(usage, "completion_tokens")
    keys = ("metrics", "timings", "meta_info", "speculative_decoding_stats", "sglext")
    inner = [c for c in choices if isinstance(c, dict)] if isinstance(choices, list) else []
    if any(isinstance(part.get(key), dict) for part in (event, *inner) for key in keys):
        reply.chunks.append(event)


def _text(choice: dict[str, Any]) -> str:
    """Everything that was generated, thoughts too: acceptance counts them."""
    parts = [choice.get("text")]
    for key in ("delta", "message"):
        inner = choice.get(key)
        if isinstance(inner, dict):
            parts += [inner.get("reasoning_content") or inner.get("reasoning"), inner.get("content")]
    return "".join(part for part in parts if isinstance(part, str))
