"""The table of releases × pairs, from stored audits (`docs/vllm-matrix.md`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from truedraft.engines.vllm.audit.audit import MINOR, RUNNERS
from truedraft.engines.vllm.audit.probes import PROBES

Stored = dict[str, Any]
"""What `audit vllm --json` printed for one release."""

BUGS = (
    ("vllm#40727", "ids of `dflash_config` are taken one layer early", "taps.layers", "zlab-full", "v1"),
    ("vllm#40898", "sliding draft layers run as full ones", "attention.window", "zlab-sliding", "v1"),
    ("", "`is_causal` is not read", "attention.causal", "zlab-is-causal", "v1"),
    (
        "vllm#56692",
        "`sliding_window_non_causal: false` makes full layers causal",
        "attention.causal",
        "speculators-dflash",
        "v1",
    ),
    (
        "vllm#48639",
        "`sample_from_anchor` is not read: slot 0 is dropped",
        "block.first_slot",
        "speculators-dspark-anchor",
        "v2",
    ),
    ("vllm#48304", "draft stages of DeepSeek-V4 get YaRN", "rope.scaling", "deepseek-v4", "v2"),
    ("", "ids of `eagle_config` are taken as entries, or not read", "taps.layers", "modelopt-eagle3", "v1"),
    ("", "ids of `eagle_config` are not read", "taps.layers", "modelopt-eagle3", "v2"),
    ("", "taps are handed over in the order of layers", "taps.layers", "zlab-unsorted", "v1"),
    ("", "gated and RNN heads have no module", "markov.kind", "deepspec-gated", "v2"),
)
"""Public reports and what else was found: the cell that shows each."""


def key(version: str) -> tuple[int, ...]:
    """Sorts releases."""
    return tuple(int(n) for n in re.findall(r"\d+", version))


def cell(stored: Stored, pair: str, runner: str) -> str:
    """One pair on one runner, in a word or two."""
    entry = stored["pairs"][pair][runner]
    if entry["verdict"] == "refused":
        return "–"
    if entry.get("check_refuses") and entry.get("not_callable"):
        return "(–)"  # only `check` knows: the release has no function that says so
    if entry["verdict"] == "honoured":
        return "yes"
    names = [axis for axis, rows in stored["axes"].items() if _differs(rows.get(pair, {}).get(runner))]
    groups = list(dict.fromkeys(_group(axis) for axis in names if axis not in MINOR))
    return ", ".join(groups) or "?"


def tables(audits: Sequence[Stored]) -> Iterator[str]:
    """Markdown: what works where, from which release on, and where each public bug shows."""
    audits = sorted(audits, key=lambda stored: key(stored["release"]["version"]))
    versions = [stored["release"]["version"] for stored in audits]
    yield "## Pair by release"
    yield ""
    yield "| pair | runner | " + " | ".join(versions) + " |"
    yield "|---|---|" + "---|" * len(versions)
    for probe in PROBES:
        for runner in RUNNERS:
            row = [_chosen(stored, probe.name, runner) for stored in audits]
            name = probe.title if runner == RUNNERS[0] else ""
            yield f"| {name} | {runner.upper()} | " + " | ".join(row) + " |"
    yield ""
    yield from _since(audits, versions)
    yield ""
    yield from _bugs(audits, versions)
    yield ""
    yield from _beyond(audits, versions)


def _chosen(stored: Stored, pair: str, runner: str) -> str:
    word = cell(stored, pair, runner)
    return f"**{word}**" if stored["pairs"][pair].get("default_runner") == runner else word


def _since(audits: Sequence[Stored], versions: Sequence[str]) -> Iterator[str]:
    """From which release on a pair runs as it was trained, and what helps before."""
    yield "## From which release on, and what helps elsewhere"
    yield ""
    yield "| pair | V1 from | V2 from | what helps, where `check` knows it |"
    yield "|---|---|---|---|"
    for probe in PROBES:
        firsts = [_first(audits, versions, probe.name, runner) for runner in RUNNERS]
        yield f"| {probe.title} | {firsts[0]} | {firsts[1]} | {_else(audits, versions, probe.name)} |"


def _first(audits: Sequence[Stored], versions: Sequence[str], pair: str, runner: str) -> str:
    """The release from which every one, up to the newest, runs the pair as trained."""
    first = ""
    for stored, version in zip(reversed(audits), reversed(versions), strict=True):
        if cell(stored, pair, runner) != "yes":
            break
        first = version
    return first or "never"


_NEWER = re.compile(r"(the V1 runner, or )?\d+\.\d+\.\d+ or newer( \(.*\)|, which .*)?(, or (?P<edit>.*))?")


def _else(audits: Sequence[Stored], versions: Sequence[str], pair: str) -> str:
    """The edits and flags that `check` proposes where a pair does not run as trained, with their releases."""
    fixes: dict[str, list[str]] = {}
    for stored, version in zip(audits, versions, strict=True):
        for runner in RUNNERS:
            for text in stored["pairs"][pair][runner].get("fixes", ()):
                newer = _NEWER.fullmatch(text)
                edit = text if newer is None else newer["edit"] or ""
                at = f"{version} {runner.upper()}"
                if edit and cell(stored, pair, runner) != "yes":
                    fixes.setdefault(edit, []).append(at)
    return "; ".join(f"{edit.replace('|', '/')} ({_range(at)})" for edit, at in fixes.items())


def _range(places: Sequence[str]) -> str:
    """`0.20.1-0.24.0 V1` for releases of one runner; without the runner where both need it."""
    names = {place.split()[1] for place in places}
    found = list(dict.fromkeys(place.split()[0] for place in places))
    span = found[0] if len(found) == 1 else f"{found[0]} to {found[-1]}"
    return span if len(names) > 1 else f"{span}, {names.pop()}"


def _bugs(audits: Sequence[Stored], versions: Sequence[str]) -> Iterator[str]:
    yield "## Where each fault shows"
    yield ""
    yield "| report | fault | shown by | releases that have it | right in |"
    yield "|---|---|---|---|---|"
    for report, what, axis, pair, runner in BUGS:
        wrong, right = shown(audits, axis, pair, runner)
        unread = [v for v in wrong if _found(audits, versions, v, axis, pair, runner) == "ignored"]
        wrong = [f"{v} (key not read)" if v in unread and len(unread) < len(wrong) else v for v in wrong]
        where = f"`{axis}` of {pair}, {runner.upper()}"
        yield f"| {report} | {what} | {where} | {', '.join(wrong) or '-'} | {', '.join(right) or '-'} |"


def shown(audits: Sequence[Stored], axis: str, pair: str, runner: str) -> tuple[list[str], list[str]]:
    """Releases whose own functions misread or ignore an axis of a pair, and those that honour it."""
    wrong: list[str] = []
    right: list[str] = []
    for stored in audits:
        found = stored["axes"].get(axis, {}).get(pair, {}).get(runner)
        if stored["pairs"][pair][runner]["verdict"] == "refused" or found is None:
            continue
        (wrong if _differs(found) else right).append(stored["release"]["version"] + _chance(found))
    return wrong, right


def _chance(found: Stored) -> str:
    return " (unread)" if found.get("unread") else ""


def _found(
    audits: Sequence[Stored], versions: Sequence[str], version: str, axis: str, pair: str, runner: str
) -> str:
    stored = audits[list(versions).index(version)]
    return str(stored["axes"][axis][pair][runner]["verdict"])


def _beyond(audits: Sequence[Stored], versions: Sequence[str]) -> Iterator[str]:
    yield "## Beyond the conventions"
    yield ""
    yield "| topic | release | what it does |"
    yield "|---|---|---|"
    for topic in ("kv_zeroing", "block_drop"):
        rows = [
            (v, e) for s, v in zip(audits, versions, strict=True) for e in s["beyond"] if e["topic"] == topic
        ]
        texts = dict.fromkeys(entry["text"] for _, entry in rows)
        for text in texts:
            same = [version for version, entry in rows if entry["text"] == text]
            yield f"| {topic} | {', '.join(same)} | {text} |"


def _differs(found: Stored | None) -> bool:
    return found is not None and found["verdict"] in ("misread", "ignored")


def _group(axis: str) -> str:
    group, _, name = axis.partition(".")
    return {"attention": name, "block": "slots", "markov": "head"}.get(group, group)
