"""Log lines of the plugin: one per finding, complete in itself."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from truedraft.checks import Finding
from truedraft.contract import Contract
from truedraft.engines.vllm.edits import MENDABLE
from truedraft.engines.vllm.settings import SET

_LEVELS = {"error": logging.ERROR, "warning": logging.WARNING, "note": logging.INFO}


def line(finding: Finding, contract: Contract, *, mending: bool = False) -> str:
    """`truedraft TD401 taps.layers: what | source: … | remedy: … | see: …`."""
    axis = "" if finding.axis is None else f" {finding.axis}"
    parts = [f"truedraft {finding.code}{axis}: {finding.message}", f"source: {_source(finding, contract)}"]
    remedies = [finding.fix] if finding.fix else []
    if not mending and finding.axis in MENDABLE and finding.code.startswith("TD4"):
        remedies.append(f"TRUEDRAFT=fix:{finding.axis}")
    parts += [f"remedy: {', or '.join(remedies)}"] if remedies else []
    parts += [f"see: {'; '.join(finding.references)}"] if finding.references else []
    return " | ".join(parts)


def _source(finding: Finding, contract: Contract) -> str:
    """What vouches for the contract's value; a place in the files where nothing else does."""
    source = None if finding.axis is None else contract.axes[finding.axis].source
    if source is None or source.kind in ("stated", "shape"):
        return finding.where
    return (
        source.where.replace("--set", SET) if source.kind == "override" else f"{source.kind}, {source.where}"
    )


def write(
    log: logging.Logger, findings: Iterable[Finding], contract: Contract, *, mending: bool = False
) -> None:
    """One line per finding, at a level that fits its severity."""
    for finding in findings:
        log.log(_LEVELS[finding.severity], "%s", line(finding, contract, mending=mending))


def refusal(findings: Iterable[Finding]) -> str:
    """Why a server does not start, in one line."""
    named = ", ".join(dict.fromkeys(f.code if f.axis is None else f"{f.axis} ({f.code})" for f in findings))
    return f"truedraft refuses to start (TRUEDRAFT=error): {named}; the lines above say what differs"
