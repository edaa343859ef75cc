"""The page of `broken_vllm.py`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

INTRO = """\
# Broken deployments in vLLM

Written by `benchmarks/broken_vllm.py`; do not edit. {count} copies of the tiny pairs, each with one fault,
served on CPU, greedily, in fp32, by
{versions}.
Tau is that of vLLM's own rounds; `drafts` counts the turns (of the first 8 rounds) whose drafts are those
that the pair as trained makes from the target's own states.

* **check**: `truedraft check --engine vllm:0.32.0:v1` (or `v2`) on the broken files: what a user could have
  known before.
* **audit**: the plugin's lines at load (`TRUEDRAFT=warn`), with the truth in `TRUEDRAFT_SET` where the files
  state something else.
* **trace**: `truedraft trace diff` against the pair as it was trained.
* **diagnose**: the likeliest causes from the broken files, the figures, the log and tau of the healthy pair,
  without the truth.

Every DFlash and DSpark drafter meets TD426 on vLLM's CPU build (one `k_norm` for the context keys of all
layers); it is in every trace and left out below.
"""


def write_page(results: Mapping[str, Mapping[str, Any]], path: Path) -> None:
    """Write the table and the details."""
    path.write_text("\n".join(_page(results)) + "\n")


def _page(results: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    versions = next(entry["versions"] for entry in results.values() if entry["versions"])
    broken = {key: entry for key, entry in results.items() if entry["what"] != "as trained"}
    shown = ", ".join(f"{name} {version}" for name, version in versions.items())
    yield INTRO.format(count=len(broken), versions=shown)
    yield "| drafter | runner | fault | tau, healthy | tau, broken | drafts | check | audit | trace |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for entry in results.values():
        yield _row(entry)
    yield ""
    yield "## What trace and diagnose say"
    yield ""
    for key, entry in broken.items():
        yield f"**{key}**"
        yield ""
        if entry["refused"]:
            yield f"* vLLM does not start: `{entry['refused']}`"
        for said in _own(entry):
            yield f"* trace: {said['where']}" + (f": {said['why']}" if said["why"] else "")
        if entry.get("diagnose"):
            yield f"* diagnose: {'; '.join(entry['diagnose'])}"
        yield ""


def _row(entry: Mapping[str, Any]) -> str:
    equal = entry.get("drafts_equal")
    healthy, tau = entry.get("healthy_tau"), entry.get("tau")
    cells = [
        f"`{entry['drafter']}`",
        entry["runner"].upper(),
        entry["what"],
        "" if healthy is None else f"{healthy:.2f}",
        "refused" if entry["refused"] else f"{tau:.2f}",
        "" if not equal else f"{equal[0]} of {equal[1]}",
        "; ".join(entry["check"]) or "nothing",
        "; ".join(said for said in entry["audit"] if not said.startswith("TD426")) or "nothing",
        "; ".join(dict.fromkeys(said["where"].split(",")[0] for said in _own(entry))) or "nothing",
    ]
    if entry["refused"]:
        cells[-1] = ""
    return "| " + " | ".join(cells) + " |"


def _own(entry: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What the trace says beside the known defect."""
    said = [part for part in entry.get("trace", []) if isinstance(part, dict)]
    return [part for part in said if part["why"] != "layer 0's k_norm"]
