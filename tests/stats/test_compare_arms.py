"""Comparison of arms: figures as records give them, properties, refusals, the founding figures."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from arm_records import FOUNDING, arm_records, record
from truedraft.contract import AcceptanceRecord, InputError, acceptance
from truedraft.stats import Arm, Comparison, compare
from truedraft.stats.power import detectable

A, B = arm_records(1, boots=3), arm_records(2, boots=3, rate=0.66)


def figures_of(result: Comparison) -> dict[object, tuple[object, ...]]:
    return {
        (r.figure, r.position, r.category): (r.a, r.b, r.p, r.verdict, r.test and r.test.interval())
        for r in result.rows
    }


def test_figures_are_those_of_the_records() -> None:
    """The mean over boots of what `contract.acceptance` says of each boot."""
    result = compare(Arm("a", A), Arm("b", B))
    for records, side in ((A, "a"), (B, "b")):
        boots = [acceptance([r for r in records if r.boot == f"b{i}"]) for i in range(3)]
        assert getattr(result.row("tau"), side).value == pytest.approx(np.mean([x.tau for x in boots]))
        rate = np.mean([x.accepted / x.proposed for x in boots])
        assert getattr(result.row("rate"), side).value == pytest.approx(rate)
        for i, name in itertools.product(range(4), ("survival", "conditional")):
            wanted = np.mean([getattr(x, name)[i] for x in boots])
            assert getattr(result.row(name, i), side).value == pytest.approx(wanted)
        every = [acceptance([r]).tau for r in records]
        assert getattr(result.row("tau_macro"), side).value == pytest.approx(np.mean(every))


def test_the_test_is_t_over_boots() -> None:
    taus = [[acceptance([r for r in x if r.boot == f"b{i}"]).tau for i in range(3)] for x in (A, B)]
    found, wanted = compare(Arm("a", A), Arm("b", B)).row("tau"), stats.ttest_ind(taus[1], taus[0])
    assert found.p == pytest.approx(wanted.pvalue)
    assert found.test is not None
    assert found.test.interval() == pytest.approx(tuple(wanted.confidence_interval(0.95)))


@pytest.mark.parametrize("before", ["native", "aux fix"])
def test_the_founding_figures_are_estimates_only(before: str) -> None:
    """0.756 / 2.97 to 0.780 / 3.19 and 0.780 / 3.19 to 0.774 / 3.16, one boot per arm."""
    after = {"native": "aux fix", "aux fix": "aux and rope fix"}[before]
    arms = []
    for name in (before, after):
        first, tau, counts = FOUNDING[name]
        histogram = tuple((5, accepted, rounds) for accepted, rounds in enumerate(counts))
        arm = [record("1", "probes", histogram=histogram, K=5)]
        assert acceptance(arm).survival[0] == pytest.approx(first)
        assert acceptance(arm).tau == pytest.approx(tau, abs=0.005)
        arms.append(Arm(name, arm))
    result = compare(*arms, margin=0.02)
    assert {row.verdict for row in result.rows} == {"estimate only"}
    assert all(row.test is None and row.detectable is None and row.equivalent is None for row in result.rows)


@st.composite
def arms(draw: st.DrawFn, most_boots: int = 4) -> list[AcceptanceRecord]:
    """Small arms with every shape of round, chains that were cut included."""
    boots, prompts = draw(st.integers(1, most_boots)), draw(st.integers(1, 3))
    out = []
    for boot, prompt in itertools.product(range(boots), range(prompts)):
        proposed = draw(st.lists(st.integers(0, 4), min_size=1, max_size=6))
        accepted = [draw(st.integers(0, most)) for most in proposed]
        rounds = {"proposed": tuple(proposed), "accepted": tuple(accepted)}
        out.append(record(f"b{boot}", f"p{prompt}", category=f"c{prompt % 2}", **rounds))
    return out


@settings(max_examples=15)
@given(arms())
def test_an_arm_differs_from_itself_by_nothing(records: list[AcceptanceRecord]) -> None:
    for row in compare(Arm("a", records), Arm("b", records), by_category=True).rows:
        assert row.a == row.b or np.isnan(row.a.error)
        assert row.a.value == row.b.value
        assert row.verdict == ("estimate only" if row.test is None else "no difference shown")


@settings(max_examples=15)
@given(arms(), arms())
def test_swapping_arms_flips_signs(a: list[AcceptanceRecord], b: list[AcceptanceRecord]) -> None:
    forth, back = compare(Arm("a", a), Arm("b", b)), compare(Arm("b", b), Arm("a", a))
    turned = {"higher": "lower", "lower": "higher"}
    for one, two in zip(forth.rows, back.rows, strict=True):
        assert (one.a.value, one.b.value) == (two.b.value, two.a.value)
        assert turned.get(one.verdict, one.verdict) == two.verdict or one.p == pytest.approx(0.05)
        assert (one.test is None) == (two.test is None)
        if one.test and two.test:
            assert one.test.difference == -two.test.difference
            assert one.p == pytest.approx(two.p, rel=1e-6)


@settings(max_examples=15)
@given(arms(), arms(), st.randoms(use_true_random=False))
def test_the_order_of_records_changes_nothing(
    a: list[AcceptanceRecord], b: list[AcceptanceRecord], chance: random.Random
) -> None:
    before = figures_of(compare(Arm("a", a), Arm("b", b)))
    mixed = [chance.sample(side, len(side)) for side in (a, b)]
    assert repr(figures_of(compare(Arm("a", mixed[0]), Arm("b", mixed[1])))) == repr(before)


def as_histogram(entry: AcceptanceRecord, times: int = 1) -> AcceptanceRecord:
    rows = tuple((p, a, n * times) for (p, a), n in entry.table.items())
    return replace(entry, proposed=(), accepted=(), nodes=(), histogram=rows)


@settings(max_examples=15)
@given(arms(), arms())
def test_histograms_equal_rounds(a: list[AcceptanceRecord], b: list[AcceptanceRecord]) -> None:
    rounds = figures_of(compare(Arm("a", a), Arm("b", b)))
    counted = compare(Arm("a", map(as_histogram, a)), Arm("b", map(as_histogram, b)))
    assert repr(figures_of(counted)) == repr(rounds)


@settings(max_examples=15)
@given(arms(), arms(), st.integers(2, 1000))
def test_a_constant_factor_of_rounds_changes_nothing(
    a: list[AcceptanceRecord], b: list[AcceptanceRecord], times: int
) -> None:
    """More of the same rounds is no more evidence: boots are the unit."""
    before = compare(Arm("a", a), Arm("b", b))
    after = compare(*(Arm("x", [as_histogram(r, times) for r in side]) for side in (a, b)))
    for one, two in zip(before.rows, after.rows, strict=True):
        assert (two.a.value, two.b.value) == pytest.approx((one.a.value, one.b.value))
        assert two.a.error == pytest.approx(one.a.error, nan_ok=True, abs=1e-12)
        if one.test and two.test and one.test.error() > 1e-9:
            assert two.p == pytest.approx(one.p, rel=1e-6)


@settings(max_examples=4)
@given(st.randoms(use_true_random=False))
def test_many_boots_resample_whatever_the_order(chance: random.Random) -> None:
    a, b = (arm_records(seed, boots=10, prompts=20, rounds=10) for seed in (1, 2))
    before = compare(Arm("a", a), Arm("b", b))
    assert before.design.method == "two-way bootstrap"
    after = compare(Arm("a", chance.sample(a, len(a))), Arm("b", chance.sample(b, len(b))))
    assert figures_of(after) == figures_of(before)


def test_few_prompts_stay_fixed_with_many_boots() -> None:
    a, b = (arm_records(seed, boots=10, prompts=30, rounds=10) for seed in (1, 2))
    few = (Arm("x", arm_records(seed, boots=10)) for seed in (1, 2))
    assert compare(*few).design.method == "t"
    result = compare(Arm("a", a), Arm("b", b), by_category=True)
    kinds = {row.category: type(row.test).__name__ for row in result.rows}
    assert kinds == {"chat": "Contrast", "code": "Contrast", None: "Resampled"}


def test_categories_are_adjusted_by_holm() -> None:
    result = compare(Arm("a", A), Arm("b", B), by_category=True)
    rows = [result.row("tau", None, name) for name in ("chat", "code")]
    raw = sorted(row.test.p for row in rows if row.test)
    assert sorted(row.p for row in rows) == pytest.approx([min(2 * raw[0], 1), max(2 * raw[0], raw[1])])
    assert [row.prompts for row in rows] == [3, 3]
    assert result.row("tau").p == result.row("tau").test.p  # type: ignore[union-attr]
    assert result.row("survival", 2).family == 4


def test_the_detectable_effect_grows_with_the_family() -> None:
    for row in compare(Arm("a", A), Arm("b", B), by_category=True).rows:
        assert row.test is not None
        assert row.family == (2 if row.category else 1 if row.position is None else 4)
        wanted = detectable(row.test.error(), row.test.df, 0.8, 0.05 / row.family)
        assert row.detectable == pytest.approx(wanted)


def test_equivalence_needs_a_margin_and_boots() -> None:
    result = compare(Arm("a", A), Arm("b", arm_records(7, boots=3)), margin=0.2)
    row = result.row("tau")
    assert (row.equivalent, row.verdict) == (True, "no difference shown")
    assert row.beyond == row.test.p_beyond(0.2)  # type: ignore[union-attr]
    assert compare(Arm("a", A), Arm("b", A), margin=0.0001).row("tau").equivalent is False
    assert result.row("rate").equivalent is None


def test_different_k_compares_tau_only() -> None:
    other = [replace(r, K=7) for r in B]
    result = compare(Arm("a", A), Arm("b", other))
    assert {row.figure for row in result.rows} == {"tau", "tau_macro"}
    assert "K is 4 and 7" in result.design.tau_only


def test_adaptive_drafting() -> None:
    own = [replace(r, confidence_threshold=0.5) for r in B]
    assert "different confidence" in compare(Arm("a", A), Arm("b", own)).design.tau_only
    both = compare(Arm("a", own), Arm("b", own))
    assert "rate" not in {row.figure for row in both.rows}
    assert "adaptive" in both.design.no_rate
    trees = [[replace(r, tree_budget=n) for r in B] for n in (8, 16)]
    assert "trees" in compare(*(Arm("x", side) for side in trees)).design.tau_only


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"truncated": "engine"}, "truncated"),
        ({"truncated": "theta"}, "one definition of tau"),
        ({"tree_budget": 8}, "chains and trees"),
        ({"prompt_id": "elsewhere", "category": ""}, "no prompt that all boots"),
    ],
)
def test_arms_that_have_no_common_figure_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        compare(Arm("a", A), Arm("b", [replace(r, **changes) for r in B]))  # type: ignore[arg-type]


@pytest.mark.parametrize("changes", [{"truncated": "theta"}, {"tree_budget": 8}, {"K": 7}])
def test_an_arm_has_one_definition(changes: dict[str, object]) -> None:
    with pytest.raises(InputError, match=f"{next(iter(changes))} .* and .*, expected one"):
        Arm("a", [A[0], replace(A[1], **changes)])  # type: ignore[arg-type]


def test_an_engine_that_counts_has_the_longest_draft_as_k() -> None:
    """Its short requests show fewer drafts than were asked for; boots must still agree."""
    counted = [replace(r, truncated="engine", K=4 - (r.prompt_id == "p1")) for r in A]
    assert Arm("a", counted).K == 4
    with pytest.raises(InputError, match="found records with K 3 and 4"):
        Arm("a", [replace(r, K=3 if r.boot == "b1" else 4) for r in A]).K  # noqa: B018


def test_a_prompt_of_two_categories_is_refused() -> None:
    with pytest.raises(InputError, match="categories"):
        Arm("a", [A[0], replace(A[0], category="other")])
    with pytest.raises(InputError, match="categories"):
        compare(Arm("a", A), Arm("b", [replace(r, category="other") for r in B]))
    with pytest.raises(InputError, match="no record with a category"):
        compare(*(Arm("x", [replace(r, category="") for r in A]) for _ in "ab"), by_category=True)


def test_prompts_that_a_boot_lacks_are_left_out() -> None:
    lacking = [r for r in B if (r.boot, r.prompt_id) != ("b1", "p2")]
    empty = [replace(r, proposed=(), accepted=()) if r.prompt_id == "p3" else r for r in A]
    result = compare(Arm("a", empty), Arm("b", lacking))
    assert (len(result.design.prompts), result.design.left_out) == (4, 2)
    assert "2 of 6 prompts" in " ".join(result.warnings)
    kept = [[r for r in side if r.prompt_id not in ("p2", "p3")] for side in (A, B)]
    wanted = compare(Arm("a", kept[0]), Arm("b", kept[1]))
    assert figures_of(result) == figures_of(wanted)


def test_copies_are_refused_and_repeats_are_told() -> None:
    copies = [r for r in A if r.boot == "b0"] + [replace(r, boot="x") for r in A if r.boot == "b0"]
    with pytest.raises(InputError, match="b0 and x are one run"):
        compare(Arm("a", copies), Arm("b", B))
    later = [replace(r, started=r.started + 5 * (r.boot == "x")) for r in copies]
    assert "counted the same" in " ".join(compare(Arm("a", later), Arm("b", B)).warnings)


def test_boots_pair_when_names_and_times_say_so() -> None:
    """A B, B A, A B, …: from 5 pairs on; not for fewer, other names, or arms one after the other."""
    a, b = (arm_records(seed, boots=6) for seed in (1, 2))
    order = [replace(r, started=r.started + (500 if int(r.boot[1]) % 2 else -500)) for r in b]
    assert compare(Arm("a", a), Arm("b", order)).design.pairs
    paired = compare(Arm("a", a), Arm("b", order)).row("tau")
    taus = [[acceptance([r for r in x if r.boot == f"b{i}"]).tau for i in range(6)] for x in (a, b)]
    assert paired.p == pytest.approx(stats.ttest_rel(*taus).pvalue)
    assert not compare(Arm("a", a), Arm("b", order), pairing="independent").design.pairs
    few = [[r for r in side if r.boot < "b4"] for side in (a, order)]
    assert not compare(*(Arm("x", side) for side in few)).design.pairs
    assert compare(*(Arm("x", side) for side in few), pairing="paired").design.pairs
    after = compare(Arm("a", a), Arm("b", [replace(r, started=r.started + 1e6) for r in b]))
    assert not after.design.pairs
    assert "ran before the other's" in " ".join(after.warnings)
    with pytest.raises(InputError, match="6 and 4, expected equal numbers"):
        compare(Arm("a", a), Arm("b", few[1]), pairing="paired")


def test_identical_text() -> None:
    """p0 the same everywhere, p1 different everywhere, p2 without hashes."""
    arms = []
    for arm in "ab":
        texts = {"p0": "same", "p1": arm, "p2": ""}
        arms.append(
            [
                record(f"b{i}", p, output_hash=text + (str(i) if p == "p1" else ""))
                for i in range(2)
                for p, text in texts.items()
            ]
        )
    assert compare(*(Arm("x", side) for side in arms)).same_text == (0.5, 0.5, 0.5)


def test_settings_that_differ_are_named() -> None:
    other = [replace(r, engine="vllm", temperature=1.0) for r in B]
    assert compare(Arm("a", A), Arm("b", other)).settings == {
        "engine": ("truedraft", "vllm"),
        "temperature": ("0.0", "1.0"),
    }


def test_records_without_prompts_pair_nothing() -> None:
    bare = [replace(r, prompt_id="", category="") for r in A]
    result = compare(Arm("a", bare), Arm("b", bare))
    assert "name no prompts" in " ".join(result.warnings)
    assert result.row("tau").a.interval() is None


def test_several_requests_of_a_prompt_are_pooled() -> None:
    twice = [replace(r, request_id=f"{r.request_id}/{i}") for r in A for i in range(2)]
    cell = Arm("a", twice).cells["b0"]["p0"]
    assert cell.table == Counter({key: 2 * n for key, n in A[0].table.items()})
    assert len(cell.outputs) == 2


def test_memory_holds_counts_not_rounds() -> None:
    """A million rounds more add no entry."""
    small, large = (Arm("a", [as_histogram(r, times) for r in A]) for times in (1, 10**6))
    sizes = [
        sum(len(c.table) for boot in arm.cells.values() for c in boot.values()) for arm in (small, large)
    ]
    assert sizes[0] == sizes[1] <= 18 * 5
    rounds = Arm("a", [record(proposed=(4,) * 10**5, accepted=(0, 1, 2, 3, 4) * 20000)])
    assert len(rounds.cells["b0"]["p0"].table) == 5
    assert not any(isinstance(value, AcceptanceRecord) for value in vars(rounds).values())


def test_one_run_on_both_sides_is_told() -> None:
    result = compare(Arm("a", A), Arm("b", A))
    assert "are one run, on both sides" in " ".join(result.warnings)
    assert "one run" not in " ".join(compare(Arm("a", A), Arm("b", B)).warnings)


def test_an_unknown_setting_is_called_so() -> None:
    other = [replace(r, temperature=None, thinking=True) for r in B]
    assert compare(Arm("a", A), Arm("b", other)).settings == {
        "temperature": ("0.0", "unknown"),
        "thinking": ("unknown", "True"),
    }
