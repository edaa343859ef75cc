"""What `truedraft collect` prints: what was collected, what is missing, what was taken out."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from truedraft.cli._style import Style

WIDTH = 110
NAMES = {
    "mac": "MAC address",
    "ip": "IP address",
    "dir": "directory",
    "email": "e-mail address",
    "uuid": "UUID",
}
PLURAL = {"dir": "directories", "email": "e-mail addresses", "mac": "MAC addresses", "ip": "IP addresses",
          "query": "queries"}  # fmt: skip


def summary_lines(report: Mapping[str, Any], path: Path, size: int, style: Style) -> Iterator[str]:
    """One line per section that there is."""
    yield style.bold("wrote") + f"       {path}, {size / 1000:.0f} kB"
    for name, text in _sections(report):
        yield from _wrapped(style.bold(name), name, text)
    for i, sentence in enumerate(report["missing"]):
        name = "" if i else "missing"
        yield from _wrapped(style.warn(name), name, sentence)
    counts = ", ".join(_counted(kind, count) for kind, count in report["redacted"].items())
    yield from _wrapped(style.bold("redacted"), "redacted", counts or "nothing: nothing private was found")
    yield from _wrapped("", "", "read the file before you publish it: only what has a known form is found")


def _sections(report: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if (draft := report["draft"]) is not None:
        sums = sum("sha256" in entry for entry in draft["weights"])
        revision = f", revision {draft['revision']['revision']}" if draft["revision"] else ""
        yield (
            "drafter",
            f"config, {len(draft['tensors'])} tensors, {_counted('checksum', sums)} of weights{revision}",
        )
        contract = report["contract"]
        yield (
            "contract",
            report.get("refusal", "none")
            if contract is None
            else (f"{contract['contract_hash']}  {contract['family']} ({contract['dialect']})"),
        )
    for reading in report["readings"]:
        axes = ", ".join(entry["axis"] for entry in reading["differences"])
        yield (
            "engine",
            f"{reading['engine']}: {'reads otherwise: ' + axes if axes else 'reads it as trained'}",
        )
    if report["case"]["findings"]:
        yield "findings", ", ".join(dict.fromkeys(entry["code"] for entry in report["case"]["findings"]))
    if report["figures"] is not None:
        yield "figures", _figures(report["figures"]["pooled"])
    for name, entry in report["arms"].items():
        yield "arm", f"{name}: {_figures(entry)}"
    if (records := (report["cached"] or {}).get("records")) is not None and records["share"] is not None:
        yield "cached", f"{records['share']:.0%} of {records['prompt_tokens']} prompt tokens"
    if (prompts := report["prompts"]) is not None:
        texts = "with" if "texts" in prompts else "without"
        yield "prompts", f"{prompts['count']}, {texts} their texts, {prompts['repeated_share']:.0%} repeated"
    if report["log_lines"]:
        yield "log", f"{len(report['log_lines'])} lines"


def _figures(entry: Mapping[str, Any]) -> str:
    found = entry["acceptance"]
    tau = "unknown" if found["tau"] is None else f"{found['tau']:.2f}"
    rounds = "" if found["rounds"] is None else f" over {found['rounds']} rounds"
    shares = " ".join(f"{share:.2f}" for share in found["survival"][:8])
    return f"tau {tau}{rounds}" + (f", accepted {shares}" if shares else ", no positions")


def _counted(kind: str, count: int) -> str:
    return f"{count} {NAMES.get(kind, kind) if count == 1 else PLURAL.get(kind, kind + 's')}"


def _wrapped(shown: str, name: str, text: str) -> Iterator[str]:
    """The text behind a name, at column 12."""
    lines = textwrap.wrap(text, WIDTH - 12, break_on_hyphens=False, break_long_words=False) or [""]
    yield shown + " " * (12 - len(name)) + lines[0]
    yield from (" " * 12 + line for line in lines[1:])
