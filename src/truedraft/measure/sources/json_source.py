"""JSON sources: documents, JSON lines and event streams; what each object is shows by its keys."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from truedraft.contract import AcceptanceRecord, InputError, acceptance_of
from truedraft.measure.sources import json_reports, sglang_request, trtllm, vllm_request
from truedraft.measure.sources.lines import Line, cleaned
from truedraft.measure.sources.observation import Item, Notice, Observation, Request
from truedraft.measure.sources.values import MOST_DEPTH

Found = Mapping[str, Any]
ReadRecord = Callable[[bytes, str], AcceptanceRecord]
"""One of our own JSON lines as a record, or an `InputError`: the command line's reader."""

RECORDS = "records"

KINDS: dict[str, tuple[Callable[[Found], bool], Callable[[Found, str], Iterator[Item]]]] = {
    vllm_request.AIPERF: (vllm_request.is_aiperf, vllm_request.read_aiperf),
    vllm_request.AIPERF_TOTAL: (vllm_request.is_aiperf_total, vllm_request.read_aiperf_total),
    vllm_request.NAME: (vllm_request.is_response, vllm_request.read_response),
    vllm_request.NAME + "-bare": (
        vllm_request.is_bare,
        lambda found, where: vllm_request.read_counts(found, where, vllm_request.NAME, Request()),
    ),
    sglang_request.NAME: (sglang_request.is_meta_info, sglang_request.read_meta_info),
    trtllm.NAME: (trtllm.is_iteration, trtllm.read_iteration),
    sglang_request.SERVER: (sglang_request.is_server_info, sglang_request.read_server_info),
    json_reports.BENCH: (json_reports.is_bench, json_reports.read_bench),
    json_reports.TIMINGS: (json_reports.is_timings, json_reports.read_timings),
    json_reports.OURS: (json_reports.is_ours, json_reports.read_ours),
}
"""Name -> test and reader, in the order in which they are tried on every object, outer objects first."""

_LOG_KEYS = ("log", "message", "msg")


def is_json(head: bytes) -> bool:
    """Whether a file that begins so holds JSON, or an event stream of it."""
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    return start.startswith((b"{", b"[{", b"[\n", b"[ ", b"data:")) or start == b"[]"


class JsonSource:
    """Reads the JSON of one file. `log_lines`: texts of structured logs, for the readers of text."""

    def __init__(self, where: str, read_record: ReadRecord, only: str | None) -> None:
        self.where, self._read_record, self._only = where, read_record, only
        self.log_lines: list[Line] = []
        self._without = 0
        self._streams: dict[str, list[Item]] = {}

    def items(self, data: bytes) -> Iterator[Item]:
        """All observations in `data`. Raises `InputError` if it is neither a document nor lines of JSON."""
        lines = [(n, line) for n, line in enumerate(data.split(b"\n"), 1) if line.strip()]
        if len(lines) > 1 and (lines[0][1].lstrip().startswith(b"data:") or _parsed(lines[0][1]) is not None):
            yield from self._lines(lines)
        else:
            yield from self._document(_document(data, self.where), self.where)
        if self._without:
            yield Notice(self.where, "without", f"{self._without} JSON lines hold no acceptance figures")

    def _lines(self, lines: Iterable[tuple[int, bytes]]) -> Iterator[Item]:
        for number, line in lines:
            where = f"{self.where}:{number}"
            event = line.strip().removeprefix(b"data:").strip()
            if event == b"[DONE]" or event.startswith((b"event:", b":")):
                continue
            value = _parsed(event)
            if value is None:
                yield Notice(where, "partial", "a line is no whole JSON object: not used")
                continue
            if _is_record(value):
                yield from self._record(event, where)
                continue
            found = list(self._document(value, where))
            stream = (
                value.get("id") if isinstance(value, dict) and line.lstrip().startswith(b"data:") else None
            )
            if found and isinstance(stream, str):
                self._streams[stream] = found  # counts of a stream grow: its last ones are the whole
                continue
            yield from found
            if not found and isinstance(value, dict):
                self._log_or_nothing(value, number)

        for found in self._streams.values():
            yield from found
        self._streams = {}

    def _log_or_nothing(self, value: dict[str, Any], number: int) -> None:
        texts = [value[key] for key in _LOG_KEYS if isinstance(value.get(key), str)]
        if texts:
            self.log_lines += [
                (number, cleaned(part.encode("utf-8", "replace"))) for part in texts[0].split("\n") if part
            ]
        elif not isinstance(value.get("choices"), list):  # a chunk of a stream
            self._without += 1

    def _document(self, value: object, where: str) -> Iterator[Item]:
        if isinstance(value, dict) and isinstance(value.get("records"), list) and json_reports.is_ours(value):
            records = [entry for entry in value["records"] if isinstance(entry, dict)]
            if records and self._wants(RECORDS):
                for number, entry in enumerate(records):
                    yield from self._record(json.dumps(entry).encode(), f"{where}#/records/{number}")
                return
        if isinstance(value, dict) and _is_record(value):
            yield from self._record(json.dumps(value).encode(), where)
            return
        yield from walk(value, where, self._wants)

    def _record(self, line: bytes, where: str) -> Iterator[Item]:
        if not self._wants(RECORDS):
            return
        try:
            record = self._read_record(line, where)
        except InputError as error:
            yield Notice(where, "record", f"{error}; this record is not used")
            return
        yield observed(record, where)

    def _wants(self, name: str) -> bool:
        return self._only is None or self._only == name


def walk(
    value: object, where: str, wants: Callable[[str], bool] = lambda _: True, depth: int = 0
) -> Iterator[Item]:
    """What the objects inside `value` say; an object that is recognised is not looked into."""
    if depth > MOST_DEPTH:
        return
    if isinstance(value, dict):
        for name, (matches, read) in KINDS.items():
            if wants(name.removesuffix("-bare")) and matches(value):
                yield from read(value, where)
                return
    entries = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for entry in entries:
        if isinstance(entry, dict | list):
            yield from walk(entry, where, wants, depth + 1)


def observed(record: AcceptanceRecord, where: str) -> Observation:
    """A record of ours as an observation."""
    table = record.table
    figures = acceptance_of(table, sum(record.nodes))
    return Observation(
        source=RECORDS,
        where=where,
        scope="request",
        definition=figures.definition,
        rounds=figures.rounds,
        proposed=figures.proposed,
        accepted=figures.accepted,
        reached=tuple(sum(n for (_, a), n in table.items() if a > i) for i in range(len(figures.survival))),
        width=len(figures.survival) or None,
        table=tuple((p, a, n) for (p, a), n in sorted(table.items())),
        record=record,
        engine=record.engine,
    )


def _is_record(value: object) -> bool:
    return isinstance(value, dict) and {"request_id", "proposed", "accepted", "K"} <= set(value)


def _parsed(line: bytes) -> object | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None


def _document(data: bytes, where: str) -> object:
    try:
        return json.loads(data)
    except json.JSONDecodeError as error:
        raise InputError(
            f"{where}:{error.lineno}: not JSON ({error.msg}), expected a document or one object per line"
        ) from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: {str(error)[:80]}, expected a JSON document") from None
