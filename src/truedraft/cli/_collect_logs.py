"""Lines of engine logs that tell what was resolved: ids, flags, versions, and what the catalogue knows."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from truedraft.cli._diagnose_log import BOOT_WORDS
from truedraft.cli._log_lines import lines_with
from truedraft.cli._measure_input import is_address
from truedraft.diagnose import catalogue
from truedraft.formats.engines import read_boot_log

READ = 12_000
"""Characters of a line that are looked at; the last word is left out where it may be cut."""

KEPT = 200
"""Lines of one call; those that say the same but for time and process count once."""

TELLING = re.compile(
    r"(?i)speculative[_ -]?config|num_speculative_tokens|speculative_(?:algorithm|num_steps|draft)"
    r"|server_args=|ServerArgs\(|non-default args|Initializing a? ?V\d LLM engine"
    r"|(?:API server|vLLM) version|Detected EAGLE|draft model|dflash|dspark|target_layer_ids"
    r"|aux(?:iliary)?_?(?: hidden)? ?layers?|attention backend|model runner|enable_prefix_caching"
    r"|enforce_eager|cuda ?graph (?:capture|mode)|n_max="
)
WORDS = (
    *("speculative", "server_args", "serverargs(", "non-default args", "llm engine", "version:", "version "),
    *("detected eagle", "draft model", "dflash", "dspark", "target_layer_ids", "layers", "attention backend"),
    *("model runner", "enable_prefix_caching", "enforce_eager", "graph", "n_max="),
)
"""One of them is in every line that `TELLING` matches, in lower case."""

FIGURES = re.compile(
    r"SpecDecoding metrics|Speculative metrics|Decode batch|draft acceptance =|statistics draft"
)
"""Lines of figures: pooled elsewhere, not repeated."""

_PROMPT = re.compile(
    r"((?:\b(?:prompt|input_text|text|messages|content)\b['\"]?\s{0,2}[=:]\s{0,2})[\[{'\"]).*", re.S
)
_PREFIX = re.compile(r"^.{0,120}?\[[\w.]{1,60}:\d{1,6}\]|^.{0,60}?\d\d:\d\d:\d\d\S{0,20}")


def log_lines(names: Iterable[str], *, quiet: bool) -> list[dict[str, Any]]:
    """`{"where", "kind", "text"}` of files; `kind`: `layer ids`, a sign of the catalogue, or `config`."""
    signs = (word for sign in catalogue().lines.values() for word in sign.words)
    words = tuple(dict.fromkeys((*WORDS, *BOOT_WORDS, *signs)))
    out: list[dict[str, Any]] = []
    seen: set[str] = set()
    for name in dict.fromkeys(names):
        if is_address(name) or name == "-":
            continue
        for number, line in lines_with(Path(name), words, quiet=quiet):
            line = line[:READ]
            kind = _kind(line)
            if kind is None:
                continue
            text = _whole(line).strip()
            core = _PREFIX.sub("", text)
            if core not in seen:
                seen.add(core)
                out.append({"where": f"{Path(name).name}:{number}", "kind": kind, "text": text})
            if len(out) == KEPT:
                return out
    return out


def _kind(line: str) -> str | None:
    if next(iter(read_boot_log((line,))), None) is not None:
        return "layer ids"
    sign = next((sign.name for sign in catalogue().lines.values() if sign.pattern.search(line)), None)
    if sign is not None:
        return sign
    json_line = line.lstrip()[:1] in ("{", "[") and '"' in line[:200]
    return "config" if TELLING.search(line) and not FIGURES.search(line) and not json_line else None


def without_prompt(text: str) -> str:
    """A line without the prompt that an engine logs with a request."""
    return _PROMPT.sub(r"\1…", text)


def _whole(line: str) -> str:
    return line if len(line) < READ or " " not in line else line.rpartition(" ")[0]
