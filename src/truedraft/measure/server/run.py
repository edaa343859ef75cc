"""A measurement of a running server, in one pass or in two over the same prompts: cold, then warm.

The counters of `/metrics` are read before and after each pass; per-request counts are taken where the server
sends them. Counters see everybody's requests: if the server generated more tokens than were asked for here,
it says so.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from truedraft.contract import AcceptanceRecord, InputError
from truedraft.measure.server.address import Address, fetch
from truedraft.measure.server.load import ask_all
from truedraft.measure.server.repeats import Repeats
from truedraft.measure.server.reply import Ask, Reply
from truedraft.measure.server.settings import Pass, Settings
from truedraft.measure.sources.json_source import walk
from truedraft.measure.sources.lines import cleaned
from truedraft.measure.sources.observation import Item, Notice, Observation, Request
from truedraft.measure.sources.prometheus import Reader as Scrape
from truedraft.measure.sources.prometheus_text import generated_tokens
from truedraft.measure.sources.records import record_of

PATIENCE = 10.0
"""Seconds for one scrape; a server that takes longer has no counters here."""

SETTLE = 0.2
MOST_SETTLES = 15
"""Counters may lag behind the last answer: they are read until two readings agree, for at most 3 s."""


def model_of(address: Address) -> str:
    """The first model that the server lists."""
    where = f"{address}/v1/models"
    try:
        found = json.loads(fetch(address, "/v1/models"))
        name = found["data"][0]["id"]
    except (ValueError, KeyError, IndexError, TypeError, RecursionError):
        name = None
    if not isinstance(name, str):
        raise InputError(f"{where}: found no list of models, expected one or --model NAME")
    return name


def run_server(
    address: Address, asks: Sequence[Ask], settings: Settings, on_reply: Callable[[], None] = lambda: None
) -> list[Pass]:
    """One pass, or with `repeat_prefix` two. Raises `InputError` if no request of a pass gets an answer."""
    salt = secrets.token_hex(8) if settings.cache_salt else ""
    passes = []
    for name in ("cold", "warm") if settings.repeat_prefix else ("all",):
        before, begin = _scrape(address), time.monotonic()
        replies = ask_all(
            address,
            settings.api,
            asks,
            settings.body(salt),
            concurrency=settings.concurrency,
            timeout=settings.timeout,
            on_reply=on_reply,
        )
        done = Pass(name, time.monotonic() - begin, replies)
        if len(done.failed) == len(replies):
            raise InputError(f"{address}: no request was answered ({replies[0].error:.300})")
        after = _settled(address) if before is not None else None
        done.summary.take(_items(done, settings, address, before, after))
        done.summary.settle()
        passes.append(done)
    if len(passes) == 2 and settings.temperature == 0:
        same, pairs = Repeats(*passes).same_text
        if same < pairs:
            text = f"{pairs - same} of {pairs} texts differ from those of the cold pass at temperature 0"
            passes[1].summary.warn(Notice("warm", "text", f"{text}: acceptance differs with the text too"))
    return passes


def _items(
    done: Pass, settings: Settings, address: Address, before: bytes | None, after: bytes | None
) -> Iterator[Item]:
    for number, reply in enumerate(done.replies):
        if reply.error:
            yield Notice(reply.ask.prompt_id, "failed", f"no whole answer ({reply.error:.200})")
            continue
        for item in _per_request(reply, done.name, settings):
            if isinstance(item, Observation) and not item.contradiction:
                _count(done, number, item)
            yield item
    if before is None or after is None:
        yield Notice(f"{address}/metrics", "counters", "no counters: only per-request counts are known")
        return
    scrapes = [_read(text, f"{address}/metrics") for text in (before, after)]
    if not scrapes[1].scrapes:
        yield Notice(f"{address}/metrics", "counters", "found no counters of speculative decoding there")
        return
    scrapes[1].before = scrapes[0].series()
    for item in scrapes[1].finish():
        if isinstance(item, Observation) and item.scope != "difference":
            continue  # gauges of the last interval, and counters that were reset: not this pass
        yield (
            replace(item, record=_counter_record(item, done.name, settings))
            if isinstance(item, Observation) and item.table
            else item
        )
    counted = [generated_tokens(text) for text in (before, after)]
    asked = done.total("output_tokens")
    if counted[0] is not None and counted[1] is not None and asked is not None:
        others = counted[1] - counted[0] - asked
        if others > 0 and not done.failed:
            yield Notice(
                f"{address}/metrics",
                "traffic",
                f"the server generated {others} tokens more than were asked for here: "
                "its counters hold other requests too",
            )
    cached = done.total("cached_tokens")
    if done.name == "cold" and cached:
        yield Notice(done.name, "cold", f"{cached} prompt tokens were cached already: the pass is not cold")
    if done.name == "warm" and cached == 0:
        yield Notice(done.name, "warm", "no prompt token was cached: the pass is not warm")


def _count(done: Pass, number: int, seen: Observation) -> None:
    if seen.rounds is not None and seen.accepted is not None:
        rounds, accepted = done.counts.get(number, (0, 0))
        done.counts[number] = rounds + seen.rounds, accepted + seen.accepted


def _per_request(reply: Reply, name: str, settings: Settings) -> Iterator[Item]:
    for event in {id(event): event for event in reply.counts.values()}.values():
        for item in walk(event, f"{name} {reply.ask.prompt_id}"):
            if not isinstance(item, Observation):
                yield item
                continue
            asked = Request(
                request_id=reply.request_id,
                prompt_id=reply.ask.prompt_id,
                prompt_tokens=_first(reply.prompt_tokens, item.request.prompt_tokens),
                cached_tokens=_first(reply.cached_tokens, item.request.cached_tokens),
                output_tokens=_first(reply.output_tokens, item.request.output_tokens),
                started=reply.started,
                category=reply.ask.category,
            )
            item = replace(item, request=asked)
            yield replace(item, record=_record(item, name, settings, reply.output_hash))


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)


def _counter_record(seen: Observation, name: str, settings: Settings) -> AcceptanceRecord | None:
    return _record(replace(seen, request=Request(request_id=f"{name} {seen.series}")), name, settings, "")


def _record(seen: Observation, name: str, settings: Settings, output_hash: str) -> AcceptanceRecord | None:
    record = record_of(seen)
    if record is None:
        return None
    return replace(
        record,
        arm="" if name == "all" else name,
        batch_size=settings.concurrency,
        temperature=settings.temperature,
        thinking=settings.thinking,
        seed=settings.seed,
        output_hash=output_hash,
    )


def _scrape(address: Address) -> bytes | None:
    try:
        return fetch(address, "/metrics", timeout=PATIENCE, deadline=PATIENCE)
    except InputError:
        return None


def _settled(address: Address) -> bytes | None:
    """`/metrics` once its counters stand still."""
    last: bytes | None = None
    for _ in range(MOST_SETTLES):
        now = _scrape(address)
        if now is None or (last is not None and _counters(now) == _counters(last)):
            return now
        last = now
        time.sleep(SETTLE)
    return last


def _counters(text: bytes) -> list[bytes]:
    return [line for line in text.split(b"\n") if b"spec_decode_num_" in line]


def _read(text: bytes, where: str) -> Scrape:
    reader = Scrape(where)
    for number, line in enumerate(text.split(b"\n"), 1):
        if b"spec_decode_num_" in line or b"process_start_time" in line:
            for _ in reader.feed(number, cleaned(line)):
                pass
    return reader
