"""Curves, trends, findings and the arithmetic of belief."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
import pytest

from truedraft.checks import Finding
from truedraft.contract import AcceptanceRecord, InputError
from truedraft.diagnose import Inference, catalogue, diagnose
from truedraft.diagnose import findings as of
from truedraft.diagnose.arms import ARMS, of_arm
from truedraft.diagnose.case import Case, case_from_json
from truedraft.diagnose.curve import shape, shape_weights
from truedraft.diagnose.figures import Measured, of_expectation, of_facts
from truedraft.diagnose.trends import by_time, of_records

KNOWN = catalogue()


@pytest.mark.parametrize(
    ("survival", "expected"),
    [
        ([0.07, 0, 0, 0], "dead"),
        ([0.439, 0.245, 0.144], "low"),
        ([0.6, 0.385, 0.215, 0.108, 0.062, 0, 0], "cut"),
        ([0.98, 0.64, 0.15], "fading"),
        ([0.74, 0.15, 0.05], "cliff"),
        ([0.74, 0.51, 0.43, 0.42], "good"),
        ([0.579, 0.447, 0.316, 0.237, 0.158], "good"),
        ([0.6, 0.33, 0.19, 0.1], "fair"),
    ],
)
def test_shapes_of_curves(survival: list[float], expected: str) -> None:
    weights = shape_weights(2000, [round(s * 2000) for s in survival])
    assert max(weights, key=lambda name: weights[name]) == expected
    assert sum(weights.values()) == pytest.approx(1)
    assert set(weights) <= set(KNOWN.questions["curve"].values)


def test_few_rounds_leave_the_shape_open() -> None:
    few, many = shape_weights(8, [5, 2, 1]), shape_weights(8000, [5000, 3000, 1800])
    assert max(few.values()) < 0.9
    assert max(many.values()) > max(few.values())
    assert shape_weights(0, [0, 0]) == {}


def test_everything_or_nothing_is_noticed() -> None:
    assert shape_weights(100, [0, 0, 0])["saturated"] > 0
    assert shape_weights(100, [100, 100, 100])["saturated"] >= 0.5
    assert "saturated" not in shape_weights(100, [99, 99, 99])


def test_unknown_slots_end_the_curve() -> None:
    assert shape([0.5, math.nan, math.nan]) == "fair"


def record(number: int, share: float, seed: int, **settings: object) -> AcceptanceRecord:
    """A request of 40 rounds at k = 4, each draft accepted with chance `share` if all before it were."""
    random_ = random.Random(f"{seed} {number} {settings}")
    accepted = []
    for _ in range(40):
        count = 0
        while count < 4 and random_.random() < share:
            count += 1
        accepted.append(count)
    given = {
        "request_id": f"r{number}",
        "prompt_id": f"p{number}",
        "arm": "",
        "proposed": (4,) * 40,
        "accepted": tuple(accepted),
        "prompt_tokens": 1000,
        "output_tokens": 100,
        "output_hash": "",
        "K": 4,
        "contract_hash": "",
        "batch_size": 1,
        "started": 0.0,
    }
    return AcceptanceRecord(**{**given, **settings})  # type: ignore[arg-type]


def answers(records: list[AcceptanceRecord], window: int | None = None) -> dict[str, str]:
    return {t.question: max(t.weights, key=lambda n: t.weights[n]) for t in of_records(records, window)}


SPLITS = {
    "cached": ({"cached_tokens": 0}, {"cached_tokens": 900}, "falls"),
    "context": ({"prompt_tokens": 500}, {"prompt_tokens": 9000}, "falls"),
    "batch": ({"batch_size": 1}, {"batch_size": 16}, "falls"),
    "sampling": ({"temperature": 0.0}, {"temperature": 1.0}, "greedy-good"),
}


@pytest.mark.parametrize("question", SPLITS)
def test_a_trend_is_seen(question: str) -> None:
    near, far, answer = SPLITS[question]
    records = [record(i, 0.8, 1, **near) for i in range(12)] + [record(i, 0.5, 2, **far) for i in range(12)]
    assert answers(records)[question] == answer


@pytest.mark.parametrize("question", SPLITS)
def test_no_trend_is_seen_where_there_is_none(question: str) -> None:
    near, far, answer = SPLITS[question]
    wrong = 0
    for seed in range(20):
        records = [record(i, 0.7, seed, **near) for i in range(12)]
        records += [record(i, 0.7, seed + 100, **far) for i in range(12)]
        wrong += answers(records).get(question) == answer
    assert wrong <= 1


def test_a_fall_at_the_window_is_told_from_a_slope() -> None:
    lengths = [300, 400, 600, 900, 1200, 1500, 1800, 2500, 3000, 4000, 5000, 6000, 7000, 8000, 9000] * 2
    step = [record(i, 0.8 if n <= 2048 else 0.4, 3, prompt_tokens=n) for i, n in enumerate(lengths)]
    slope = [record(i, 0.9 - 0.12 * math.log(n / 300), 3, prompt_tokens=n) for i, n in enumerate(lengths)]
    assert answers(step, 2048)["context"] == "falls-at-window"
    assert answers(slope, 2048)["context"] == "falls"


def test_smaller_k_with_better_first_drafts() -> None:
    five = [record(i, 0.8, 1, K=3) for i in range(10)]
    seven = [record(i, 0.4, 2, K=4) for i in range(10)]
    assert answers(five + seven)["k"] == "fewer-better"
    same = [record(i, 0.8, 2, K=4) for i in range(10)]
    assert answers(five + same)["k"] == "same"


def test_a_step_in_time_is_told_from_a_slope() -> None:
    step = [(float(i), 100, 220 if i < 20 else 60) for i in range(40)]
    slope = [(float(i), 100, 220 - 4 * i) for i in range(40)]
    flat = [(float(i), 100, 200 + (i * 7) % 11) for i in range(40)]
    found = [by_time(cells, "intervals") for cells in (step, slope, flat)]
    assert [max(t.weights, key=lambda n: t.weights[n]) for t in found if t] == ["steps", "declines", "flat"]


def test_records_that_do_not_vary_say_nothing() -> None:
    assert "cached" not in answers([record(i, 0.7, 1) for i in range(30)])
    assert answers([record(0, 0.7, 1)]) == {}


def test_belief_is_bayes_rule() -> None:
    evidence = of_facts(KNOWN, ("cached=falls", "loss=large"))
    found = Inference(KNOWN, evidence)
    joint = {}
    for name, cause in KNOWN.causes.items():
        tables = [KNOWN.likelihood(cause, KNOWN.questions[q]) for q in ("cached", "loss")]
        joint[name] = cause.weight * tables[0]["falls"] * tables[1]["large"]
    total = sum(joint.values())
    for name, value in joint.items():
        assert found.share(name) == pytest.approx(value / total)


def test_uncertain_answers_are_a_mixture() -> None:
    (sure,) = of_facts(KNOWN, ("cached=falls",))
    (other,) = of_facts(KNOWN, ("cached=flat",))
    from truedraft.diagnose.infer import answered

    half = answered(KNOWN, KNOWN.questions["cached"], {"falls": 2.0, "flat": 2.0}, "", "")
    for name in KNOWN.causes:
        assert half.likelihood[name] == pytest.approx((sure.likelihood[name] + other.likelihood[name]) / 2)


def test_information_is_the_expected_fall_of_entropy() -> None:
    found = Inference(KNOWN, of_facts(KNOWN, ("loss=large",)))
    offered = {e.name: e for e in found.experiments(())}
    name = next(iter(offered))
    question = KNOWN.questions[name]
    entropy = lambda p: -float(np.sum(p * np.log2(p)))  # noqa: E731
    expected = 0.0
    for answer in question.values:
        likely = np.array([KNOWN.likelihood(c, question)[answer] for c in KNOWN.causes.values()])
        chance = float(found.posterior @ likely)
        expected += chance * entropy(found.posterior * likely / chance)
    assert offered[name].bits == pytest.approx(entropy(found.posterior) - expected)
    assert "loss" not in offered


def test_causes_that_nothing_tells_apart_come_together() -> None:
    found = diagnose(KNOWN, of_facts(KNOWN, ("tp=one-good",)), files=False, engine=False)
    for group in found.groups:
        if len(group.causes) > 1:
            (item,) = found.evidence
            ratios = [item.likelihood[c.name] / item.likelihood[group.causes[0].name] for c in group.causes]
            assert all(1 / 1.61 <= ratio <= 1.61 for ratio in ratios)


def finding(code: str, severity: str = "error", axis: str | None = None) -> Finding:
    return Finding(code, severity, "certain", "message", "config.json", axis)  # type: ignore[arg-type]


def test_a_finding_names_its_cause_and_counts_once() -> None:
    one = Inference(KNOWN, of.of_checks(KNOWN, [finding("TD408", axis="rope.theta")], True))
    two = [finding("TD408", axis="rope.theta"), finding("TD113", "warning", "rope.rotary_dims")]
    both = Inference(KNOWN, of.of_checks(KNOWN, two, True))
    assert one.order()[0] == both.order()[0] == "rope"
    assert both.share("rope") == pytest.approx(one.share("rope"), rel=0.05)
    nothing = Inference(KNOWN, of.of_checks(KNOWN, [], True))
    assert nothing.share("rope") < Inference(KNOWN, []).share("rope")


def test_a_note_says_little() -> None:
    noted = Inference(KNOWN, of.of_checks(KNOWN, [finding("TD408", "note", "rope.theta")], True))
    warned = Inference(KNOWN, of.of_checks(KNOWN, [finding("TD408", "warning", "rope.theta")], True))
    assert noted.share("rope") < warned.share("rope") < 0.6
    assert noted.share("rope") < 0.2


def test_a_tensor_names_its_cause() -> None:
    about = replace(finding("TD201"), message="no tensor d2t, which this drafter needs")
    assert [cause.name for cause in of.named_by(KNOWN.causes.values(), about)] == ["vocabulary-map"]
    assert "tensors-missing" in [c.name for c in of.named_by(KNOWN.causes.values(), finding("TD201"))]


def test_a_contradicted_axis_leads() -> None:
    report = {
        "axes": {"block.first_slot": {"verdict": "contradicted"}, "rope.theta": {"verdict": "supported"}}
    }
    found = Inference(KNOWN, of.of_probe(KNOWN, report, "probe.json"))
    assert found.order()[0] == "slots"
    with pytest.raises(InputError, match="axes"):
        of.of_probe(KNOWN, {"axes": []}, "probe.json")


def test_tables_that_differ_between_ranks() -> None:
    lines = [
        ("log:1", "Detected EAGLE model with distinct embed_tokens weights. Keeping separate"),
        ("log:2", "Detected EAGLE model with embed_tokens identical to the target model. Sharing"),
    ]
    assert of.of_lines(KNOWN, lines[:1]) == []
    (both,) = of.of_lines(KNOWN, lines)
    found = Inference(KNOWN, [both])
    assert found.order()[0] == "tensor-parallel"
    assert found.share("tensor-parallel") < 0.5  # a decision that differs need not be the cause (F07)


def test_expectation_counts_accepted_drafts() -> None:
    def answer(tau: float, expected: float) -> str:
        (item,) = of_expectation(
            KNOWN,
            Measured(tau, "a", 20000, (0.7, 0.5, 0.3)),
            Measured(expected, "b", 20000, (0.7, 0.5, 0.3)),
        )
        return item.answer

    assert answer(1.02, 4.0) == "dead"
    assert answer(2.0, 4.0) == "large"
    assert answer(3.9, 4.1) == "small"
    assert answer(4.0, 4.0) == "none"
    assert answer(4.5, 4.0) == "above"


@pytest.mark.parametrize("fact", ["cached", "cached=", "cached=maybe", "nothing=at all", "=falls"])
def test_facts_that_the_catalogue_lacks(fact: str) -> None:
    with pytest.raises(InputError, match="expected"):
        of_facts(KNOWN, (fact,))


def test_computed_answers_win_over_stated_ones() -> None:
    records = [record(i, 0.8, 1) for i in range(12)]
    records += [record(i, 0.4, 2, cached_tokens=900) for i in range(12)]
    case = Case(facts=("cached=flat",), trends=tuple(of_records(records)), where="records.jsonl")
    found = diagnose(KNOWN, case.evidence(KNOWN), files=False, engine=False)
    assert [e.answer for e in found.evidence if e.question == "cached"] == ["falls"]
    assert any("cached" in warning for warning in found.warnings)


def test_changed_output_comes_first() -> None:
    found = diagnose(KNOWN, of_facts(KNOWN, ("text=differs", "loss=above")), files=False, engine=False)
    assert found.state == "changed output"
    assert found.groups[0].causes[0].kind == "verifier"
    assert "means anything" in found.verdict


def test_a_case_survives_json() -> None:
    records = [record(i, 0.8, 1) for i in range(12)] + [record(i, 0.4, 2, batch_size=9) for i in range(12)]
    case = Case(
        facts=("loss=large",),
        findings=(finding("TD401", axis="taps.layers"),),
        files=True,
        engine=True,
        measured=Measured(2.0, "log", 400, (0.6, 0.4), 2),
        expected=Measured(3.0, "card"),
        trends=tuple(of_records(records)),
        lines=(("log:1", "unexpected weight mtp.0"),),
        probe={"axes": {"taps.layers": {"verdict": "contradicted"}}},
        contradictions=("log:3: rate and length exclude each other",),
        lossless=(8, 8),
        where="all.json",
    )
    again = replace(case_from_json(case.to_json(), "all.json"), where=case.where)
    one, other = (diagnose(KNOWN, c.evidence(KNOWN), files=True, engine=True) for c in (case, again))
    assert one.to_json()["causes"] == other.to_json()["causes"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("facts", "cached=falls"),
        ("facts", [1]),
        ("findings", [{"severity": "grave"}]),
        ("findings", [3]),
        ("measured", {"tau": "high"}),
        ("measured", {"tau": 0.5}),
        ("measured", {"tau": 2.0, "survival": [0.2, 0.6]}),
        ("measured", {"tau": 2.0, "survival": [True]}),
        ("trends", [{"question": "mood", "weights": {}}]),
        ("trends", [{"question": "cached", "weights": {"falls": 0}}]),
        ("trends", [{"question": "cached", "weights": {"falls": -1, "flat": 2}}]),
        ("lines", [["one"]]),
        ("lossless", [3, 2]),
        ("files", 1),
        ("probe", []),
    ],
)
def test_damaged_cases_name_the_key(key: str, value: object) -> None:
    with pytest.raises(InputError, match=f"report.json#/{key}.*expected"):
        case_from_json({key: value}, "report.json")


@pytest.mark.parametrize("name", ARMS)
def test_an_arm_answers_its_question(name: str) -> None:
    question, same, better = ARMS[name]
    low = Measured(1.8, "base", 4000, (0.45, 0.25, 0.1))
    high = Measured(3.1, "arm", 4000, (0.85, 0.7, 0.55))
    for arm, answer in ((high, better), (low, same)):
        trend = of_arm(name, low, arm)
        assert trend is not None
        assert set(trend.weights) <= set(KNOWN.questions[question].values)
        assert trend.question == question
        assert max(trend.weights, key=lambda n: trend.weights[n]) == answer
    assert of_arm("other-planet", low, high) is None
