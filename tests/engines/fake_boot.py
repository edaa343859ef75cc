"""Stands in for vLLM's interpreter: runs `truedraft.engines.vllm.boot JOB` without vLLM.

What a boot does is in the file that `FAKE_PLAN` names: `accepted` per arm, `fail`, `hang`, `differ`, … by
boot (`ARM BLOCK`). Every start is a line of `FAKE_JOURNAL`: arm, block, TRUEDRAFT and its companions.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

K = 4


def request(prompt: dict[str, Any], number: int, job: dict[str, Any], plan: dict[str, Any]) -> dict[str, Any]:
    """Ten rounds that each accept as many drafts as the plan says, one more in every third prompt."""
    boot = f"{job['arm']} {job['boot']}"
    index = [entry["id"] for entry in job["prompts"]].index(prompt["id"])
    accepted = plan.get("accepted", {}).get(job["arm"], 1) + (index % 3 == 0) - number
    accepted += plan.get("more", {}).get(boot, 0) * (index == 1)
    rounds = 0 if job["speculative"] is None else 10
    output = [len(prompt["tokens"]), index, 7, 8, 9]
    if [boot, prompt["id"]] in plan.get("differ", []):
        output[3] = 5
    reached = [rounds] * accepted + [0] * (K - accepted) if rounds else []
    return {
        "prompt_id": prompt["id"],
        "pass": number,
        "started": time.time(),
        "seconds": 0.1,
        "cached_tokens": 2 * number,
        "output": output,
        "num_drafts": rounds,
        "num_draft_tokens": rounds * len(reached) - plan.get("short", {}).get(boot, 0),
        "num_accepted_tokens": sum(reached),
        "reached": reached,
    }


def main(order: str) -> int:
    """Run the job of `order` as the plan has it."""
    job, plan = json.loads(Path(order).read_text()), json.loads(Path(os.environ["FAKE_PLAN"]).read_text())
    boot = f"{job['arm']} {job['boot']}"
    heard = {name: value for name, value in os.environ.items() if name.startswith("TRUEDRAFT")}
    with open(os.environ["FAKE_JOURNAL"], "a") as journal:
        start = [job["arm"], job["boot"], heard, job["speculative"], os.getpid(), job["prefix_caching"]]
        journal.write(json.dumps(start) + "\n")
    print("INFO 11-30 starting")
    if boot in plan.get("fail", {}):
        print("Traceback (most recent call last):\n  File x, line 1, in y")
        print(plan["fail"][boot])
        return 1
    if boot == plan.get("hang"):
        worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        Path(os.environ["FAKE_JOURNAL"] + ".worker").write_text(str(worker.pid))
        time.sleep(600)
    if boot == plan.get("nothing"):
        return 0
    said = ["fix: 40 axes of the loaded drafter compared with contract x, all as trained (0.1 s)"]
    said += ["fix taps.layers: 1,3,4 -> 1,4,6 (a key)", "TD426: still there | source: x"]
    fixes = heard["TRUEDRAFT"] != "off" and not plan.get("no_plugin")
    found = {
        "schema": 1,
        "settings": job["settings"],
        "arm": job["arm"],
        "boot": job["boot"],
        "versions": {"vllm": plan.get("version", {}).get(boot, "0.32.0")},
        "device": "cpu",
        "said": said if fixes else [],
        "runner": "v1",
        "block_size": 32,
        "requests": [request(p, n, job, plan) for n in range(job["repeat"]) for p in job["prompts"]],
    }
    Path(job["out"]).write_text(json.dumps(found))
    return 3 if boot == plan.get("crash_at_exit") else 0


if __name__ == "__main__":
    assert sys.argv[1:4] == ["-P", "-m", "truedraft.engines.vllm.boot"], sys.argv
    sys.exit(main(sys.argv[4]))
