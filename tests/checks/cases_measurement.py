"""Cases of TD5xx: prompts and records of a measurement."""

from __future__ import annotations

import random
import string
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from case import Build, Case, pair

from truedraft.checks import Subject, Usage
from truedraft.contract import AcceptanceRecord

TEXT = Path(__file__).read_text(encoding="utf-8")


def record(number: int = 0, **fields: Any) -> AcceptanceRecord:
    """A plain record of 25 rounds; `number` makes prompt and output distinct."""
    rounds = (4, 0, 2, 1, 3) * 5
    plain: dict[str, Any] = {
        "request_id": f"r{number}",
        "prompt_id": f"p{number}",
        "arm": "a",
        "proposed": (4,) * 25,
        "accepted": rounds,
        "prompt_tokens": 100,
        "output_tokens": 75,
        "output_hash": f"hash{number}",
        "K": 4,
        "contract_hash": "0123456789abcdef",
        "batch_size": 1,
        "temperature": 0.0,
        "top_p": 1.0,
        "top_k": 0,
        "started": 0.0,
        "boot": f"boot{number % 3}",
    }
    return AcceptanceRecord(**{**plain, **fields})


def many(count: int = 12, **fields: Any) -> list[AcceptanceRecord]:
    """Records of distinct prompts."""
    return [record(number, **fields) for number in range(count)]


def recorded(records: Sequence[AcceptanceRecord], **usage: Any) -> Build:
    """A healthy pair with these records."""
    return lambda d: pair(d, records=tuple(records), usage=Usage(**usage))


def prompted(texts: Sequence[str]) -> Build:
    """A healthy pair with these prompts."""
    return lambda d: pair(d, prompts=tuple(texts))


def lines(count: int) -> list[str]:
    """Distinct prompts."""
    return [f"Why is {chr(97 + i)} before z?" for i in range(count)]


def random_letters(seed: int) -> str:
    """Words of random letters."""
    draw = random.Random(seed)
    return " ".join("".join(draw.choices(string.ascii_letters, k=draw.randint(2, 9))) for _ in range(120))


HEALTHY = recorded(many())
ROUNDS_OF_15 = {"proposed": (15,) * 25, "K": 15}


def both(**second: Any) -> Build:
    """Arm a as it is beside an arm b with these fields."""
    return recorded([*many(), *many(arm="b", **second)])


def everything_is_healthy(directory: Path) -> Subject:
    """Two arms of three boots each with the same prompts."""
    return both()(directory)


CASES = [
    Case("TD501", recorded(many(9)), HEALTHY, ("9 prompts", "225 rounds"), "warning", "prompts"),
    Case(
        "TD501",
        recorded(many(12, proposed=(4,) * 16, accepted=(2,) * 16)),
        recorded(many(13, proposed=(4,) * 16, accepted=(2,) * 16)),
        ("192 rounds",),
        "warning",
        "rounds",
    ),
    Case(
        "TD501",
        recorded(many(3, prompt_id="", proposed=(), accepted=(), histogram=((4, 2, 60),))),
        recorded(many(3, prompt_id="", proposed=(), accepted=(), histogram=((4, 2, 70),))),
        ("does not name", "180 rounds"),
        "warning",
        "counted",
    ),
    Case("TD501", prompted(lines(9)), prompted(lines(10)), ("9 prompts",), "note", "file"),
    Case(
        "TD502",
        prompted(lines(10) + lines(1)),
        prompted(lines(11)),
        ("1 of 11", "2 times"),
        "warning",
        "same",
    ),
    Case(
        "TD502",
        prompted([f"Request {i}: {TEXT[:400]}" for i in range(10)]),
        prompted([f"What is {i} + {2 * i}?" for i in range(10)]),
        ("9 of 10",),
        "warning",
        "numbered",
    ),
    Case("TD502", prompted([*lines(24), "WHY  IS a before z?"]), prompted(lines(24)), (), "note", "few"),
    Case(
        "TD502",
        recorded([*many(), *many()]),
        recorded([*many(), *many(output_hash="other", boot="boot9")]),
        ("12 of 24",),
        "warning",
        "records",
    ),
    Case(
        "TD503",
        prompted([random_letters(seed) for seed in range(3)]),
        prompted([TEXT[start : start + 1500] for start in (0, 1500, 3000)]),
        ("3 of 3", "random letters"),
        "warning",
    ),
    Case(
        "TD504",
        recorded([*many(), *many(K=3)]),
        recorded([*many(), *many(K=3, arm="b")]),
        ("K 3, 4",),
        "error",
    ),
    Case(
        "TD504",
        recorded([*many(), *many(temperature=1.0, version="2", seed=1, verification="standard")]),
        recorded([*many(), *many(version="")]),
        ("temperature", "verification"),
        "error",
        "sampling",
    ),
    Case("TD504", recorded([*many(), *many(batch_size=8)]), HEALTHY, ("batch sizes",), "warning", "batch"),
    Case("TD505", both(boot="only"), everything_is_healthy, ("no verdict", "only"), "warning"),
    Case("TD505", recorded(many(boot="")), HEALTHY, ("no boot named",), "note", "alone"),
    Case(
        "TD506",
        recorded([*many(6), *many(6, cached_tokens=64, accepted=(0,) * 25)]),
        recorded(many(12, cached_tokens=64)),
        ("3.00 without", "1.00 with"),
        "warning",
    ),
    Case("TD506", both(cached_tokens=64), everything_is_healthy, ("'b'",), "warning", "arms"),
    Case(
        "TD507",
        recorded(many(accepted=(2, 3, 1, 2, 4) * 5, **ROUNDS_OF_15)),
        recorded(many(accepted=(0, 1, 0, 0, 1) * 5, **ROUNDS_OF_15)),
        ("16%", "71%", "3.40"),
        "note",
    ),
    Case("TD508", recorded(many(accepted=(4,) * 25)), HEALTHY, ("288 of 288",), "warning", "full"),
    Case("TD508", recorded(many(accepted=(4, 0, 0, 4, 0) * 5)), HEALTHY, ("or none",), "warning", "bimodal"),
    Case("TD508", recorded(many(output_hash="!")), HEALTHY, ("one and the same",), "warning", "output"),
    Case("TD509", both(output_tokens=59), both(output_tokens=60), ("75 tokens", "59"), "warning"),
    Case(
        "TD509",
        recorded(many(60, proposed=(4,) * 4, accepted=(2,) * 4)),
        recorded(many(60, proposed=(4,) * 5, accepted=(2,) * 5)),
        ("4.0 rounds",),
        "note",
        "short",
    ),
    Case(
        "TD510",
        recorded(many(temperature=1.0, seed=1)),
        recorded(many(temperature=1.0, seed=1, verification="exact_match")),
        ("12 sampled",),
        "warning",
    ),
    Case(
        "TD510",
        recorded(many(temperature=1.0, verification="standard")),
        recorded(many(temperature=1.0, seed=0, verification="standard")),
        ("no seed",),
        "note",
        "seed",
    ),
    Case(
        "TD510",
        recorded(many(), temperature=0.6),
        recorded(many(), temperature=0.0),
        ("0.6 is served",),
        "note",
        "served",
    ),
]
