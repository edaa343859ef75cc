"""Cases of TD1xx: what the files say of the contract."""

from __future__ import annotations

from case import Case, pair

CASES = [
    Case(
        "TD101",
        lambda d: pair(d, {"rope_parameters": {"rope_theta": 1e6, "rope_type": "default"}}),
        lambda d: pair(d, {"rope_parameters": {"rope_theta": 1e4, "rope_type": "default"}}),
        ("rope.theta", "rope_parameters"),
    ),
]
