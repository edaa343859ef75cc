"""Records for comparisons: small ones by hand, and whole arms from seeds."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from truedraft.contract import AcceptanceRecord

# 1000 rounds whose survival at draft 0 and τ are those of the founding reports (K = 5).
FOUNDING = {
    "native": (0.756, 2.97, (244, 239, 144, 160, 102, 111)),
    "aux fix": (0.780, 3.19, (220, 210, 140, 160, 130, 140)),
    "aux and rope fix": (0.774, 3.16, (226, 236, 110, 148, 140, 140)),
}


def record(boot: str = "b0", prompt: str = "p0", **changes: Any) -> AcceptanceRecord:
    """One request of three rounds, with these fields changed."""
    fields: dict[str, Any] = {
        "request_id": f"{boot}/{prompt}",
        "prompt_id": prompt,
        "arm": "",
        "proposed": (4, 4, 4),
        "accepted": (4, 0, 1),
        "prompt_tokens": 10,
        "output_tokens": 9,
        "output_hash": "0f",
        "K": 4,
        "contract_hash": "0123456789abcdef",
        "batch_size": 1,
        "started": 0.0,
        "temperature": 0.0,
        "top_p": 1.0,
        "top_k": 0,
        "boot": boot,
    }
    if "histogram" in changes:
        fields |= {"proposed": (), "accepted": ()}
    return AcceptanceRecord(**{**fields, **changes})


def arm_records(
    seed: int, *, boots: int, prompts: int = 6, rounds: int = 30, rate: float = 0.6, **changes: Any
) -> list[AcceptanceRecord]:
    """Boots that differ and prompts that differ; prompt i is as hard in every arm."""
    rng = np.random.default_rng(seed)
    out = []
    for boot in range(boots):
        at_boot = rng.normal(0, 0.02)
        for prompt in range(prompts):
            good = rng.random((rounds, 4)) < rate + at_boot + 0.05 * (prompt % 4)
            accepted = good.cumprod(1).sum(1)
            times = {"started": 1e9 + 1000 * boot + prompt}
            fields = {"proposed": (4,) * rounds, "accepted": tuple(accepted.tolist()), **times, **changes}
            fields.setdefault("category", ("code", "chat")[prompt % 2])
            out.append(record(f"b{boot}", f"p{prompt}", output_hash=f"{accepted[:2].sum()}", **fields))
    return out


def write(path: Path, records: Iterable[AcceptanceRecord]) -> str:
    """A record file; returns its name."""
    path.write_text("".join(json.dumps(entry.to_json()) + "\n" for entry in records))
    return str(path)
