"""Truncated and interleaved input: no figure changes without a warning, and what is left is true."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import excerpts as e
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading import figures, summary

from truedraft.contract import InputError

TEXTS = {
    name: text if text.endswith("\n") else text + "\n"
    for name, text in vars(e).items()
    if name.isupper() and name != "VLLM_NEIGHBOUR"
}


@st.composite
def intervals(draw: st.DrawFn) -> dict[str, Any]:
    """True counts of one interval and the line that vLLM would print."""
    k = draw(st.integers(1, 8))
    reached, left = [], draw(st.integers(1, 3000))
    rounds = left
    for _ in range(k):
        left = draw(st.integers(0, left))
        reached.append(left)
    accepted = sum(reached)
    shares = ", ".join(f"{count / rounds:.3f}" for count in reached)
    pid, drafted = draw(st.integers(1, 9)), rounds * k
    line = (
        f"(APIServer pid={pid}) INFO 08-05 12:25:13 [metrics.py:120] SpecDecoding metrics: "
        f"Mean acceptance length: {1 + accepted / rounds:.2f}, "
        f"Accepted throughput: {accepted / 10:.2f} tokens/s, "
        f"Drafted throughput: {drafted / 10:.2f} tokens/s, "
        f"Accepted: {accepted} tokens, Drafted: {drafted} tokens, "
        f"Per-position acceptance rate: {shares}, Avg Draft acceptance rate: {accepted / drafted * 100:.1f}%"
    )
    return {"k": k, "rounds": rounds, "reached": reached, "accepted": accepted, "line": line}


def is_true(found: Any, parts: list[dict[str, Any]]) -> None:
    """Whatever is said of the whole must hold for the counts in `parts`, some of which may be missing."""
    pooled = found.acceptance
    subsets = [[p for i, p in enumerate(parts) if mask >> i & 1] for mask in range(1, 1 << len(parts))]
    if pooled.accepted is not None:
        subsets = [s for s in subsets if sum(p["accepted"] for p in s) == pooled.accepted]
        assert subsets
    fits = []
    for subset in subsets:
        rounds, accepted = sum(p["rounds"] for p in subset), sum(p["accepted"] for p in subset)
        low, high = pooled.rounds_between or (pooled.rounds, pooled.rounds)
        ends = pooled.tau_between or (pooled.tau, pooled.tau)
        good = low is None or low <= rounds <= high
        good = good and (ends[0] is None or ends[0] - 1e-9 <= 1 + accepted / rounds <= ends[1] + 1e-9)
        for i, share in enumerate(pooled.survival if low is not None else ()):
            count = sum(p["reached"][i] for p in subset if i < p["k"])
            good = good and abs(count / rounds - share) < 2e-3 + (high - low) / high
        fits.append(good)
    assert any(fits)


@given(st.lists(intervals(), min_size=1, max_size=4))
def test_whole_lines_are_read_without_a_warning_about_them(parts: list[dict[str, Any]]) -> None:
    found = summary("\n".join(part["line"] for part in parts))
    assert all("K differs" in warning for warning in found.warnings)
    pooled = found.acceptance
    assert pooled.accepted == sum(part["accepted"] for part in parts)
    assert pooled.proposed == sum(part["rounds"] * part["k"] for part in parts)
    is_true(found, parts)
    for record in found.records:
        assert sum(n for _, _, n in record.histogram) in [part["rounds"] for part in parts]


@given(st.lists(intervals(), min_size=1, max_size=3), st.data())
def test_a_cut_line_warns_and_what_is_left_is_true(parts: list[dict[str, Any]], data: st.DataObject) -> None:
    which = data.draw(st.integers(0, len(parts) - 1))
    line = parts[which]["line"]
    if data.draw(st.booleans()):
        cut = line[: data.draw(st.integers(line.index("metrics:") + 8, len(line) - 1))]
    else:
        cut = line[data.draw(st.integers(1, line.index("Accepted: "))) :]
    lines = [part["line"] for part in parts]
    whole = summary("\n".join(lines))
    lines[which] = cut
    found = summary("\n".join(lines))
    assert figures(found) == figures(whole) or found.warnings
    is_true(found, parts)


@given(intervals(), intervals(), st.data())
def test_a_line_written_into_another(one: dict[str, Any], two: dict[str, Any], data: st.DataObject) -> None:
    at = data.draw(st.integers(1, len(one["line"]) - 1))
    end = data.draw(st.sampled_from(["", "\n"]))
    mixed = one["line"][:at] + two["line"] + end + one["line"][at:]
    whole = summary(one["line"] + "\n" + two["line"])
    found = summary(mixed)
    assert figures(found) == figures(whole) or found.warnings
    is_true(found, [one, two])


@given(intervals(), intervals(), st.data())
def test_two_lines_in_pieces(one: dict[str, Any], two: dict[str, Any], data: st.DataObject) -> None:
    """Pieces of two lines, line by line in any order that keeps each one's: nothing is invented."""
    cuts = [sorted(data.draw(st.lists(st.integers(1, 300), max_size=3))) for _ in range(2)]
    pieces = []
    for part, places in zip((one, two), cuts, strict=True):
        ends = [0, *places, len(part["line"])]
        pieces.append([part["line"][a:b] for a, b in pairwise(ends)])
    order = data.draw(st.permutations([0] * len(pieces[0]) + [1] * len(pieces[1])))
    mixed = "\n".join(pieces[which].pop(0) for which in order)
    try:
        found = summary(mixed)
    except InputError:
        return
    whole = summary(one["line"] + "\n" + two["line"])
    assert figures(found) == figures(whole) or found.warnings
    if found.acceptance.rounds is not None or found.acceptance.rounds_between is not None:
        is_true(found, [one, two])


@pytest.mark.parametrize("name", TEXTS)
def test_every_excerpt_cut_anywhere(name: str) -> None:
    data = TEXTS[name].encode()
    whole = figures(summary(data))
    for end in range(1, len(data)):
        try:
            found = summary(data[:end])
        except InputError:
            continue
        left = figures(found)
        changed = {key for key in left if key in whole and left[key] != whole[key]}
        assert not changed - {"basis"} or found.warnings, (end, data[:end][-30:], left)


def one_line_or_figures(data: bytes) -> Any:
    try:
        return summary(data)
    except InputError as error:
        message = str(error)
    assert "\n" not in message
    return None


@given(st.binary(max_size=300))
def test_any_bytes(data: bytes) -> None:
    one_line_or_figures(data)


@given(st.sampled_from(sorted(TEXTS)), st.integers(0, 400), st.binary(max_size=4))
def test_any_damage_ends_well(name: str, at: int, noise: bytes) -> None:
    data = TEXTS[name].encode()
    found = one_line_or_figures(data[:at] + noise + data[at:])
    if found is None:
        return
    pooled = found.acceptance
    assert pooled.tau is None or pooled.tau >= 1
    assert all(0 <= share <= 1 for share in pooled.survival)
