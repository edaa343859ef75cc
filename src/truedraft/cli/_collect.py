"""The object that `truedraft collect` writes, before redaction."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from truedraft import __version__
from truedraft.checks import Finding
from truedraft.cli._collect_environment import environment_json
from truedraft.cli._collect_figures import arms_json, cached_json, figures_json
from truedraft.cli._collect_logs import log_lines, without_prompt
from truedraft.cli._collect_missing import missing
from truedraft.cli._collect_pair import pair_json
from truedraft.cli._collect_prompts import prompts_json, rendered
from truedraft.cli._diagnose_files import COLLECTED, check_files, is_collected
from truedraft.cli._diagnose_given import Given
from truedraft.cli._diagnose_input import Gathered, gather
from truedraft.cli._measure_input import is_address
from truedraft.cli._pair import local_pair
from truedraft.contract import InputError
from truedraft.diagnose import catalogue
from truedraft.diagnose.case import Case
from truedraft.formats import is_bundled
from truedraft.formats.engines import find_engines

SCHEMA = 1

CUT = 400
"""Length at which `gather` cuts a line: its last word may be half a secret that no pattern knows."""


@dataclass(frozen=True)
class Wanted:
    """What the command line asks for."""

    sources: tuple[str, ...]
    given: Given
    with_prompts: bool = False
    hashed: bool = True

    @property
    def inputs(self) -> tuple[str, ...]:
        """Files and directories that are read, as typed; no bundled pairs."""
        given = self.given
        named = [given.prompts, given.probe_file, *given.logs]
        places = [name for name in (given.target, given.draft) if name and not is_bundled(name)]
        files = [*self.sources, *given.references, *given.named_arms.values(), *places]
        return tuple(dict.fromkeys([*(str(p) for p in named if p is not None), *files]))


def collected(wanted: Wanted) -> dict[str, Any]:
    """Everything, gathered. Raises `InputError` for what cannot be read, and if nothing is given."""
    _check(wanted)
    with _local(wanted.given) as given:
        found = _gathered(wanted, given)
        pair = pair_json(wanted.given, given, found.case, hashed=wanted.hashed)
        prompts = None if given.prompts is None else prompts_json(given, wanted.with_prompts)
        template = pair.pop("template", None)
        if wanted.with_prompts and given.prompts is not None and template is not None:
            template |= rendered(given)
    found.case.evidence(catalogue())  # facts and probe are refused now, not when `diagnose` reads the file
    case = found.case
    lines = log_lines((*wanted.sources, *map(str, given.logs)), quiet=given.quiet)
    if not wanted.with_prompts:
        case = replace(case, findings=tuple(_without_excerpt(finding) for finding in case.findings))
        case = replace(case, lines=tuple((where, without_prompt(text)) for where, text in case.lines))
        lines = [line | {"text": without_prompt(line["text"])} for line in lines]
    case = replace(case, lines=tuple((where, _cut(text)) for where, text in case.lines))
    out: dict[str, Any] = {
        "schema": SCHEMA,
        "kind": COLLECTED,
        "truedraft": __version__,
        "missing": [],
        "stated": _stated(wanted.given),
        "case": case.to_json(),
        **pair,
        "template": template,
        "thinking": wanted.given.thinking,
        "prompts": prompts,
        "figures": figures_json(found.summary, wanted.sources, given),
        "arms": arms_json(given),
        "cached": cached_json(found.summary, wanted.sources, given),
        "log_lines": lines,
        "environment": environment_json(),
        "warnings": list(found.warnings),
    }
    out["missing"] = missing(out)
    return out


def _check(wanted: Wanted) -> None:
    if wanted.with_prompts and wanted.given.prompts is None:
        raise InputError("found --with-prompts without --prompts, expected the file with them")
    check_files(wanted.sources)
    twice = (wanted.given.prompts, wanted.given.probe_file)
    check_files(tuple(str(path) for path in twice if path is not None))
    for name in (*wanted.given.references, *map(str, wanted.given.logs), *wanted.given.named_arms.values()):
        if name == "-":
            raise InputError("-: found with --log, --reference or --arm, expected a file: it is read twice")
    for name in wanted.sources:
        if not is_address(name) and name != "-" and is_collected(Path(name)):
            raise InputError(f"{name}: found a file of `truedraft collect`, expected what it was made of")


def _gathered(wanted: Wanted, given: Given) -> Gathered:
    """As `diagnose` gathers, but prompts, an engine's name or arms alone are something too."""
    for text in given.engines:
        find_engines(text)
    if given.target is None:
        given = replace(given, engines=(), prompts=None)
    rest = (given.target, given.draft, given.facts, given.logs, given.probe_file, given.overrides)
    if (
        not wanted.sources
        and not any(rest)
        and (wanted.given.arms or wanted.given.prompts or wanted.given.engines)
    ):
        return Gathered(Case(), None, None, ())
    return gather(wanted.sources, given)


@contextmanager
def _local(given: Given) -> Iterator[Given]:
    """The pair in directories: hub ids are fetched once for all readers."""
    if given.target is None:
        yield given
        return
    with local_pair(
        given.target, given.draft, network=given.network, weights=given.weights, quiet=given.quiet
    ) as (target, draft):
        yield replace(given, target=target, draft=draft)


def _stated(given: Given) -> dict[str, Any]:
    """The options as typed, without those that name files or say how to run."""
    left_out = {"target", "draft", "prompts", "logs", "probe_file", "network", "quiet", "thinking", "facts"}
    values = {f.name: getattr(given, f.name) for f in fields(given) if f.name not in left_out}
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in values.items()
        if value not in (None, (), False)
    }


def _without_excerpt(finding: Finding) -> Finding:
    """Findings about prompts quote one; the number and the sign are enough."""
    if finding.where != "prompts":
        return finding
    return replace(finding, message=re.split(r": ['\"]", finding.message, maxsplit=1)[0])


def _cut(text: str) -> str:
    return text if len(text) < CUT or " " not in text else text.rpartition(" ")[0]
