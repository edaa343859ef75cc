"""The Prometheus text exposition format, as far as acceptance needs it.

https://prometheus.io/docs/instrumenting/exposition_formats/: `name{label="value",…} number [timestamp]`, one
sample per line. A file may hold several scrapes (`curl … >> file`): a sample that comes again begins one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from truedraft.measure.sources.values import MOST_COUNT

MARKER = re.compile(r"spec_decode_num_|:spec_accept_|process_start_time_seconds")

_NUMBER = r"[-+]?(?:[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]{1,3})?|[iI]nf|NaN)"
_STAMP = r"-?[0-9]{9,}(?:\.[0-9]+)?"  # of our time: `1 000.0`, a number with a space in it, has none
_SAMPLE = re.compile(rf"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{{(.*)\}})?\s+({_NUMBER})(?:\s+{_STAMP})?\s*$")
_LABEL = re.compile(r'\s*([a-zA-Z_]\w*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)')

Labels = tuple[tuple[str, str], ...]


@dataclass
class Scrape:
    """The samples of one scrape: (name without `_total`, labels) -> value; `number`: its first line."""

    number: int
    values: dict[tuple[str, Labels], float] = field(default_factory=dict)


def parse_sample(line: str) -> tuple[str, Labels, float] | None:
    """Name without `_total`, sorted labels, value; `None` for what is no whole sample."""
    match = _SAMPLE.match(line)
    if match is None:
        return None
    labels, rest = {}, match[2] or ""
    while rest.strip():
        found = _LABEL.match(rest)
        if found is None:
            return None
        labels[found[1]] = found[2]
        rest = rest[found.end() :]
    try:
        value = float(match[3])
    except ValueError:
        return None
    return match[1].removesuffix("_total"), tuple(sorted(labels.items())), value


def whole(value: float) -> int | None:
    """A counter's value as a count; `None` if it is none, or too large to be exact."""
    return int(value) if 0 <= value < MOST_COUNT and value == int(value) else None


_GENERATED = ("vllm:generation_tokens", "llamacpp:tokens_predicted", "sglang:generation_tokens")


def generated_tokens(text: bytes) -> int | None:
    """Tokens that a server generated since its start, all engines together; `None` if it does not tell."""
    total = None
    for line in text.decode("utf-8", "replace").split("\n"):
        sample = parse_sample(line) if line.startswith(_GENERATED) else None
        if sample is not None and sample[0] in _GENERATED and (count := whole(sample[2])) is not None:
            total = (total or 0) + count
    return total
