"""The contract's own rules: axes parse and print, hashes follow values, `diff` finds what differs."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from truedraft.contract import (
    AXES,
    BLOCK_FAMILIES,
    CHAIN_FAMILIES,
    Acceptance,
    AcceptanceRecord,
    Contract,
    InputError,
    Record,
    TargetSpec,
    acceptance,
    diff,
    family,
    format_value,
    inferred,
    not_applicable,
    override,
    stated,
    unknown,
)

DOCUMENT = Path(__file__).parent.parent.parent / "docs" / "contract.md"
SPEC = TargetSpec("qwen3", 8, 64, 256, 1024, ("full_attention",) * 8)


def contract(**changes: object) -> Contract:
    axes = dict.fromkeys(AXES, not_applicable())
    axes |= {
        "taps.layers": stated((1, 3, 5), "draft/config.json#/target_layer_ids"),
        "block.width": family(8, "someone@1"),
        "rope.theta": unknown("no theta"),
    }
    axes |= {name.replace("__", "."): sourced for name, sourced in changes.items()}  # type: ignore[misc]
    return Contract("dflash", "zlab", SPEC, axes)


def test_a_contract_needs_every_axis() -> None:
    with pytest.raises(ValueError, match=r"block\.width"):
        Contract("dflash", "zlab", SPEC, {n: s for n, s in contract().axes.items() if n != "block.width"})


def test_hash_follows_values_and_not_sources() -> None:
    base = contract()
    assert contract(block__width=override(8)).hash == base.hash
    assert contract(block__width=override(9)).hash != base.hash
    assert contract(rope__theta=not_applicable()).hash != base.hash
    assert re.fullmatch("[0-9a-f]{16}", base.hash)
    assert replace(base, family="dspark").hash != base.hash


def test_diff_names_axes_in_order() -> None:
    other = contract(taps__layers=stated((1, 3), "x"), rope__theta=stated((1e4,), "x"))
    assert [d.axis for d in diff(contract(), other)] == ["taps.layers", "rope.theta"]
    assert str(diff(contract(), other)[1]) == "rope.theta: unknown -> 10000"
    assert diff(contract(), contract(block__width=override(8))) == ()


def test_access_by_axis() -> None:
    base = contract(regime__thinking=inferred(True, "the template says so"))
    assert base["taps.layers"] == (1, 3, 5)
    assert base.get("rope.theta") is None
    assert base.tuple_of("rope.theta") == ()
    assert base.unknown == ("rope.theta",)
    assert base.unsettled == ("rope.theta",)
    assert base.inferred == ("regime.thinking",)
    with pytest.raises(KeyError, match=r"rope\.theta is unknown"):
        base["rope.theta"]


@pytest.mark.parametrize(
    ("axis", "text", "count", "value"),
    [
        ("taps.layers", "-1, 3,5", None, (-1, 3, 5)),
        ("attention.window", "none", 3, (None, None, None)),
        ("attention.window", "2×16,none", 3, (16, 16, None)),
        ("attention.causal", "yes,no", 2, (True, False)),
        ("rope.scaling", "none", 1, (None,)),
        ("rope.scaling", "linear:factor=2", 1, (Record({"kind": "linear", "factor": 2.0}),)),
        ("head.softcap", "none", None, None),
        ("regime.chat_template", "chatml", None, "chatml"),
    ],
)
def test_parse_and_print(axis: str, text: str, count: int | None, value: object) -> None:
    parsed = AXES[axis].parse(text, count)
    assert parsed == value
    assert AXES[axis].parse(format_value(parsed), count) == parsed


@pytest.mark.parametrize("number", [1 / 3, 1e-300, 12345.678901234567, 1e6, 2.0])
def test_printed_numbers_are_exact(number: float) -> None:
    assert float(format_value(number)) == number


def test_records_with_flags_are_read_back() -> None:
    text = "yarn:factor=2:original_max_position_embeddings=64:truncate=false"
    (record,) = AXES["rope.scaling"].parse(text, 1)  # type: ignore[misc]
    assert isinstance(record, Record)
    assert record["truncate"] is False
    assert AXES["rope.scaling"].parse(format_value(record), 1) == (record,)
    with pytest.raises(InputError, match="expected none or KIND"):
        AXES["rope.scaling"].parse("linear:factor", 1)


def test_alternatives_are_values_of_the_axis_and_differ_from_it() -> None:
    base = contract(
        attention__window=stated((16, None), "x"),
        attention__causal=stated((True, False), "x"),
        rope__theta=stated((1e4, 1e4), "x"),
    )
    for name, axis in AXES.items():
        for value in axis.alternatives(base):
            axis.check(value, name)
    assert (0, 2, 4) in AXES["taps.layers"].alternatives(base)
    assert (5, 3, 1) in AXES["taps.layers"].alternatives(base)
    assert (15, None) in AXES["attention.window"].alternatives(base)
    assert all(max(taps) < 8 for taps in AXES["taps.layers"].alternatives(base))  # type: ignore[arg-type]


def test_conventions_are_required_by_the_families_that_have_them() -> None:
    assert AXES["taps.layers"].required_by == BLOCK_FAMILIES | CHAIN_FAMILIES
    assert AXES["block.width"].required_by == BLOCK_FAMILIES
    assert AXES["chain.token"].required_by == CHAIN_FAMILIES
    assert AXES["markov.kind"].required_by == {"dspark"}
    assert AXES["regime.thinking"].required_by == frozenset()


def test_documented_table_is_the_table() -> None:
    rows = re.findall(r"^\| `([a-z_.]+)` \| (\w+) \| (.+?) \| (.+?) \|$", DOCUMENT.read_text(), re.MULTILINE)
    per = {"scalar": "pair", "layer": "layer", "tap": "tap"}
    assert rows == [
        (axis.name, per[axis.extent], axis.type.expects.replace("|", "\\|"), axis.meaning)
        for axis in AXES.values()
    ]


def record(proposed: tuple[int, ...], accepted: tuple[int, ...]) -> AcceptanceRecord:
    return AcceptanceRecord("r", "p", "a", proposed, accepted, 1, 1, "", 7, "", 1, 0.0)


def test_acceptance_is_pooled_over_rounds() -> None:
    pooled = acceptance([record((3, 3), (3, 0)), record((3,), (1,))])
    assert pooled == Acceptance(1 + 4 / 3, 3, 9, 4, (2 / 3, 1 / 3, 1 / 3), (2 / 3, 1 / 2, 1.0))
    assert acceptance([]).tau is None
    with pytest.raises(ValueError, match="between 0 and proposed"):
        record((1,), (2,))
    with pytest.raises(ValueError, match="one entry per round"):
        record((1,), ())
