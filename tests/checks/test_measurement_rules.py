"""Rules about measurements: what must stay quiet, and what random prompts look like."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from case import found, pair
from cases_measurement import everything_is_healthy, many, prompted, random_letters, record, recorded
from natural_text import CAMEL_CASE, CHINESE, GERMAN, NATURAL, RUSSIAN

import truedraft
from truedraft.checks import Subject, all_rules, run_checks
from truedraft.checks.rules._random_text import sign_of_randomness
from truedraft.formats import evaluation_prompts

SOURCE = Path(truedraft.__file__).parent
CODES = [rule.code for rule in all_rules() if rule.code.startswith("TD5")]

WORDS = sorted(
    set(re.findall(r"\b[a-z]{4,9}\b", "".join(p.read_text("utf-8") for p in SOURCE.rglob("*.py"))))
)


def letters(first: int, count: int, draw: random.Random) -> str:
    """A word of a script whose letters begin at `first`."""
    return "".join(chr(first + draw.randrange(count)) for _ in range(draw.randint(2, 6)))


def jumble(seed: int, length: int) -> str:
    """As a multilingual tokenizer decodes random ids: scripts change, half of the words are glued."""
    draw = random.Random(seed)
    scripts = [(0x4E00, 1500)] * 3 + [(0x430, 32), (0x627, 30), (0xAC00, 2000), (0x5D0, 26)]
    words = []
    for _ in range(length):
        word = draw.choice(WORDS) if draw.random() < 0.6 else letters(*draw.choice(scripts), draw)
        words.append(draw.choice(("", " ")) + word)
    return "".join(words)


def glued(seed: int) -> str:
    """As an English tokenizer decodes random ids: real words in disorder, some without a space between."""
    draw = random.Random(seed)
    words = draw.sample(WORDS, 300)
    return "".join(draw.choice(("", " ", " ")) + draw.choice((str, str.title))(word) for word in words)


def ids_of(text: str) -> list[int]:
    """Ids as a tokenizer trained on frequency gives them: frequent words have low ones."""
    words = text.split()
    ranks = {word: rank for rank, (word, _) in enumerate(Counter(words).most_common())}
    return [ranks[word] ** 2 for word in words]


@pytest.mark.parametrize("name", NATURAL)
def test_natural_text_shows_no_sign(name: str) -> None:
    assert sign_of_randomness(NATURAL[name]) == ""


@pytest.mark.parametrize("file", sorted(SOURCE.rglob("*.py"))[::7], ids=lambda file: file.stem)
def test_code_shows_no_sign(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    for size in (800, 3000):
        for start in range(0, len(text), size):
            assert sign_of_randomness(text[start : start + size]) == ""


def test_token_ids_of_text_show_no_sign() -> None:
    for text in (GERMAN, RUSSIAN, CAMEL_CASE * 5):
        assert sign_of_randomness(str(ids_of(text))) == ""


@pytest.mark.parametrize("seed", range(5))
def test_random_prompts_show_signs(seed: int) -> None:
    draw = random.Random(seed)
    assert "scripts" in sign_of_randomness(jumble(seed, 150 << seed))
    assert "letters" in sign_of_randomness(random_letters(seed))
    assert "glued" in sign_of_randomness(glued(seed))
    assert "evenly" in sign_of_randomness(str([draw.randrange(151936) for _ in range(64 << seed)]))
    assert "evenly" in sign_of_randomness(str([draw.randrange(1000) for _ in range(200)]))
    begin = draw.randrange(100000)
    assert "consecutive" in sign_of_randomness(str(list(range(begin, begin + 100))))
    assert "one token" in sign_of_randomness(str([begin] * 500))
    assert "repeated" in sign_of_randomness("hello world again " * 200)


def test_half_of_the_prompts_must_look_random(tmp_path: Path) -> None:
    texts = [random_letters(1), random_letters(2), GERMAN, CHINESE]
    assert found(prompted(texts)(tmp_path), "TD503")
    assert not found(prompted([*texts, RUSSIAN])(tmp_path), "TD503")


def test_long_prompts_are_cheap() -> None:
    assert sign_of_randomness(GERMAN * 10_000) == ""
    assert sign_of_randomness("[" + "7, " * 1_000_000 + "7]") == "one token repeated"


def quiet(subject: Subject) -> Sequence[str]:
    return [f"{f.code} {f.message}" for f in run_checks(subject, select=CODES, pedantic=True).findings]


def test_a_sound_measurement_is_quiet(tmp_path: Path) -> None:
    assert quiet(everything_is_healthy(tmp_path)) == []
    assert quiet(prompted([*NATURAL.values()])(tmp_path)) == []
    assert quiet(pair(tmp_path)) == []


def test_bundled_prompts_are_quiet(tmp_path: Path) -> None:
    stated, _ = evaluation_prompts("tiny")
    assert quiet(prompted([entry["text"] for entry in stated])(tmp_path)) == []


def test_records_without_rounds_break_no_rule(tmp_path: Path) -> None:
    empty = [record(i, proposed=(), accepted=(), output_tokens=0) for i in range(12)]
    nothing_proposed = [record(i, proposed=(0,) * 20, accepted=(0,) * 20) for i in range(12)]
    for records in (empty, nothing_proposed):
        codes = {f.code for f in run_checks(recorded(records)(tmp_path), select=CODES).findings}
        assert codes == {"TD501"}


def test_the_last_round_does_not_excuse_a_perfect_run(tmp_path: Path) -> None:
    cut = many(accepted=(4,) * 24 + (1,))
    assert found(recorded(cut)(tmp_path), "TD508")
    healthy = many(accepted=(4,) * 22 + (1, 2, 1))
    assert not found(recorded(healthy)(tmp_path), "TD508")


def test_drafts_cut_to_the_sure_ones_may_all_be_right(tmp_path: Path) -> None:
    sure = many(proposed=(2,) * 25, accepted=(2,) * 25)
    assert not found(recorded(sure)(tmp_path), "TD508")


def test_a_mixed_arm_names_every_setting(tmp_path: Path) -> None:
    mixed = [*many(), *many(K=2, engine="vllm", runner="v1", truncated="full", top_p=0.9)]
    (finding,) = found(recorded(mixed)(tmp_path), "TD504")
    for name in ("K", "engine", "runner", "truncated", "top_p"):
        assert name in finding.message
