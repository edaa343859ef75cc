"""Broken deployments in vLLM on CPU: what vLLM does, and what check, audit, trace and diagnose say of it.

    python benchmarks/broken_vllm.py RESULTS.json --python VLLM_PYTHON
    python benchmarks/broken_vllm.py RESULTS.json --page docs/vllm-broken.md

Needs an environment with vLLM and truedraft (tests/engines/README.md). Every deployment is a copy of a tiny
pair with one fault (`broken_cases.py`), served greedily in fp32 with the plugin at `warn` and tracing on.
The audit and the trace are told the truth where the files state something else (`TRUEDRAFT_SET`, the pair as
it was trained); check and diagnose see what a user has: the files, the figures, the log, and tau of the
healthy pair. Finished deployments are not run again.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from broken_cases import CASES, HEALTHY, TINY, Broken, broken_copy
from broken_page import write_page

from truedraft.contract import AcceptanceRecord

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "tests/engines/vllm_trace.py"
NEW_TOKENS, PROMPTS, V2_PROMPTS = 48, 16, 6
"""V2 runs under Triton's interpreter: fewer prompts there."""
TIMEOUT_S = 900
_FINDING = re.compile(r"\] truedraft (TD\d+)(?: ([a-z_.]+))?: (.*)$", re.MULTILINE)
_UNABLE = re.compile(r"\] (truedraft could not .*)$", re.MULTILINE)


def truedraft(*arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a truedraft command."""
    command = [sys.executable, "-m", "truedraft", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    return done.returncode, done.stdout, done.stderr.strip()


def prompts(count: int) -> list[list[int]]:
    """Token ids of the first prompts that ship with the pair."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(TINY / "target")
    stated = json.loads((TINY / "prompts.json").read_text())["prompts"][:count]
    return [tokenizer(entry["text"]).input_ids for entry in stated]


def serve(case: Broken, draft: Path, folder: Path, python: str) -> dict[str, Any]:
    """Serve the pair in vLLM: the script's record, the log, and whether it came up."""
    ids, out, trace = folder / "ids.json", folder / "out.json", folder / "t.safetensors"
    ids.write_text(json.dumps(prompts(PROMPTS if case.runner == "v1" else V2_PROMPTS)))
    command = [python, str(SCRIPT), str(TINY / "target"), str(draft), "--method", case.method]
    command += ["--runner", case.runner, "--k", str(case.asked), "--prompts", str(ids), "--out", str(out)]
    command += ["--max-new-tokens", str(NEW_TOKENS), "--ignore-eos"]
    environment = os.environ | {"TRUEDRAFT": "warn", "TRUEDRAFT_SET": case.truth, "NO_COLOR": "1"}
    environment |= {"TRUEDRAFT_TRACE": str(trace), "TRUEDRAFT_TRACE_ROUNDS": "8"}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, env=environment
    )
    log = done.stdout + done.stderr
    (folder / "log.txt").write_text(log)
    return {
        "ran": done.returncode == 0,
        "log": log,
        "out": json.loads(out.read_text()) if out.exists() else {},
    }


def records(served: dict[str, Any], case: Broken) -> list[AcceptanceRecord]:
    """One acceptance record per prompt."""
    found = []
    for number, entry in enumerate(served["out"]["generate"]):
        accepted = tuple(turn["matching_prefix"] for turn in entry["rounds"])
        found.append(
            AcceptanceRecord(
                request_id=str(number),
                prompt_id=str(number),
                arm=case.what,
                proposed=tuple(len(turn["draft"]) for turn in entry["rounds"]),
                accepted=accepted,
                prompt_tokens=len(entry["prompt"]),
                output_tokens=len(entry["output"]),
                output_hash="",
                K=case.asked,
                contract_hash="",
                batch_size=1,
                started=0.0,
                engine="vllm",
                version="0.32.0",
                runner=case.runner,
                temperature=0.0,
            )
        )
    return found


def tau(entries: list[AcceptanceRecord]) -> float:
    """Pooled over rounds, the bonus token counted."""
    rounds = sum(len(entry.accepted) for entry in entries)
    return 1 + sum(sum(entry.accepted) for entry in entries) / rounds


def run(case: Broken, python: str, healthy: dict[str, float]) -> dict[str, Any]:
    """All that is said of one deployment."""
    with tempfile.TemporaryDirectory(prefix="truedraft-broken-") as name:
        folder = Path(name)
        draft = broken_copy(case, folder)
        engine = f"vllm:0.32.0:{case.runner}"
        pair = (str(TINY / "target"), str(draft))
        code, out, err = truedraft("check", *pair, "--engine", engine, "--k", str(case.asked), "--json")
        result: dict[str, Any] = {
            "what": case.what,
            "drafter": case.drafter,
            "method": case.method,
            "runner": case.runner,
            "k": case.asked,
            "check": _codes(out) if code != 2 else [err],
        }
        served = serve(case, draft, folder, python)
        result["refused"] = "" if served["ran"] else _last_error(served["log"])
        result["audit"] = sorted(
            {f"{code} {axis}".strip() for code, axis, _ in _FINDING.findall(served["log"])}
        )
        result["audit"] += [line.split(";")[0] for line in _UNABLE.findall(served["log"])]
        result["versions"] = served["out"].get("versions", {})
        if served["ran"]:
            entries = records(served, case)
            result["tau"] = tau(entries)
            result["healthy_tau"] = healthy.get(f"{case.drafter}:{case.runner}")
            result |= _traced(case, folder)
            result["diagnose"] = _diagnosed(case, pair, engine, entries, folder, result["healthy_tau"])
        return result


def _codes(text: str) -> list[str]:
    findings = json.loads(text)["findings"]
    grave = [entry for entry in findings if entry["severity"] in ("error", "warning")]
    return sorted({f"{entry['code']} {entry.get('axis') or ''}".strip() for entry in grave})


def _last_error(log: str) -> str:
    lines = [line for line in log.splitlines() if re.search(r"\b\w*(Error|Exception)\b: ", line)]
    text = lines[-1] if lines else "no error line"
    return re.sub(r"^.*?(\w*(Error|Exception): )", r"\1", text)[:300]


def _traced(case: Broken, folder: Path) -> dict[str, Any]:
    """The trace against the pair as it was trained."""
    code, out, err = truedraft(
        "trace", "diff", str(folder / "t.safetensors"), f"tiny/{case.drafter}", "--json"
    )
    if code not in (0, 1):
        return {"trace": [err], "drafts_equal": None}
    found = json.loads(out)
    said = []
    for stage in found["stages"]:
        if stage["unequal"]:
            where = f"{stage['stage']}, {stage['part']}" if stage["part"] else stage["stage"]
            explained = " or ".join(stage["explained_by"][:2])
            why = stage["note"] if stage["stage"] == "taps" else explained or stage["note"]
            said.append({"where": where, "why": why, "explained": bool(stage["explained_by"])})
    return {"trace": said, "drafts_equal": [found["turns_with_equal_drafts"], found["turns"]]}


def _diagnosed(
    case: Broken,
    pair: tuple[str, str],
    engine: str,
    entries: list[AcceptanceRecord],
    folder: Path,
    expected: float | None,
) -> list[str]:
    """The likeliest causes by files, figures and log."""
    path = folder / "records.jsonl"
    path.write_text("".join(json.dumps(entry.to_json()) + "\n" for entry in entries))
    arguments = ["diagnose", str(path), "--target", pair[0], "--draft", pair[1], "--engine", engine, "--json"]
    arguments += ["--k", str(case.asked), "--log", str(folder / "log.txt"), "--temperature", "0"]
    if expected is not None:
        arguments += ["--expect", f"{expected:.2f}"]
    code, out, err = truedraft(*arguments)
    if code == 2:
        return [err]
    said = []
    for group in json.loads(out)["causes"][:3]:
        names = " or ".join(cause["name"] for cause in group["causes"][:4])
        said.append(f"{names} {group['share']:.0%}")
    return said


def main() -> None:
    """Run what is missing, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("results", type=Path)
    parser.add_argument("--python", help="Python of an environment with vLLM and truedraft")
    parser.add_argument("--page", type=Path)
    parser.add_argument("--only", default="", help="deployments whose description holds this")
    options = parser.parse_args()
    known = json.loads(options.results.read_text()) if options.results.exists() else {}
    if options.page is not None:
        write_page(known, options.page)
        return
    healthy: dict[str, float] = {}
    for case in (*HEALTHY, *CASES):
        key = f"{case.drafter}, {case.runner}: {case.what}"
        if key not in known and options.only in key:
            print(key, flush=True)
            known[key] = run(case, options.python, healthy)
            partial = options.results.with_suffix(".partial")
            partial.write_text(json.dumps(known, indent=1) + "\n")
            partial.replace(options.results)
        if case in HEALTHY and key in known:
            healthy[f"{case.drafter}:{case.runner}"] = known[key]["tau"]


if __name__ == "__main__":
    main()
