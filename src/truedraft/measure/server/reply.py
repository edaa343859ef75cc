"""One request to the server: what is asked, and what its stream answers."""

from __future__ import annotations

import hashlib
import http.client
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from truedraft.measure.server.address import MOST_BYTES, Address, status_text, within
from truedraft.measure.sources.values import count

MOST_LINE = 8 * 2**20

COUNTED = ("metrics", "timings", "meta_info", "speculative_decoding_stats", "sglext")
"""Keys under which servers send per-request counts."""


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
    """What came back. `counts`: per kind, the last object with per-request counts. `error`: why there is no
    whole answer.

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
    counts: dict[str, dict[str, Any]] = field(default_factory=dict)
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
        with within(connection, timeout):
            connection.request("POST", address.path + place, body, headers)
            response = connection.getresponse()
            if response.status != 200:
                said = response.read(500).decode("utf-8", "replace")
                reply.error = f"{status_text(response.status)}: {said}".rstrip(": ")
                return reply
            _receive(reply, response, begin)
    except (OSError, http.client.HTTPException, ValueError, AttributeError, RecursionError) as error:
        # AttributeError: http.client on a connection that Ctrl-C has closed
        late = isinstance(error, TimeoutError)
        reply.error = (not late and reply.error) or str(error)[:200] or type(error).__name__
    finally:
        reply.total = time.monotonic() - begin
        connected(connection, False)
        connection.close()
    return reply


def _receive(reply: Reply, response: http.client.HTTPResponse, begin: float) -> None:
    texts: list[str] = []
    done = False
    for event in _events(response):
        if event is None:
            done = True
            break
        _take(reply, event, texts, begin)
    reply.text = "".join(texts)
    if reply.error or reply.finish:
        return
    if not done:
        reply.error = "the stream ended before the answer did"
    elif not reply.text:
        reply.error = "the answer holds neither text nor a reason to end"


def _events(response: http.client.HTTPResponse) -> Iterator[dict[str, Any] | None]:
    """The objects of a stream of server-sent events, or of a plain answer; `None` for the end, `[DONE]`."""
    plain = "json" in (response.headers.get("Content-Type") or "")
    if plain:
        value = json.loads(response.read(MOST_LINE))
        if isinstance(value, dict):
            yield value
        yield None
        return
    size = 0
    while line := response.readline(MOST_LINE):
        size += len(line)
        if len(line) == MOST_LINE:
            raise ValueError(f"the answer has a line of more than {MOST_LINE} bytes")
        if size > MOST_BYTES:
            raise ValueError(f"the answer has more than {MOST_BYTES} bytes")
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


def _take(reply: Reply, event: dict[str, Any], texts: list[str], begin: float) -> None:
    if isinstance(event.get("error"), dict | str) or event.get("object") == "error":
        reply.error = f"the server says: {str(event.get('error') or event.get('message'))[:200]}"
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
        texts.append(text)
        reply.finish = str(choice.get("finish_reason") or reply.finish)[:40]
    usage = event.get("usage")
    if isinstance(usage, dict):
        details = usage.get("prompt_tokens_details")
        cached = count(details, "cached_tokens") if isinstance(details, dict) else None
        reply.cached_tokens = cached if cached is not None else reply.cached_tokens
        reply.prompt_tokens = _later(usage, "prompt_tokens", reply.prompt_tokens)
        reply.output_tokens = _later(usage, "completion_tokens", reply.output_tokens)
    inner = [c for c in choices if isinstance(c, dict)] if isinstance(choices, list) else []
    for key in COUNTED:
        if any(isinstance(part.get(key), dict) for part in (event, *inner)):
            reply.counts[key] = event  # they count from the request's beginning: the last is the whole


def _later(usage: dict[str, Any], name: str, before: int | None) -> int | None:
    found = count(usage, name)
    return before if found is None else found


def _text(choice: dict[str, Any]) -> str:
    """Everything that was generated, thoughts too: acceptance counts them."""
    parts = [choice.get("text")]
    for key in ("delta", "message"):
        inner = choice.get(key)
        if isinstance(inner, dict):
            parts += [inner.get("reasoning_content") or inner.get("reasoning"), inner.get("content")]
    return "".join(part for part in parts if isinstance(part, str))
