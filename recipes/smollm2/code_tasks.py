"""Small Python function tasks: signature, docstring and examples that were really computed."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any

Step = tuple[str, str, Callable[[Any], Any]]

KEEP_NUMBERS: tuple[Step, ...] = (
    ("even", "the even numbers", lambda x: x % 2 == 0),
    ("odd", "the odd numbers", lambda x: x % 2 == 1),
    ("positive", "the positive numbers", lambda x: x > 0),
    ("negative", "the negative numbers", lambda x: x < 0),
    ("large", "the numbers greater than 10", lambda x: x > 10),
    ("small", "the numbers between 0 and 9", lambda x: 0 <= x <= 9),
    ("multiples", "the multiples of three", lambda x: x % 3 == 0),
    ("nonzero", "the numbers that are not zero", lambda x: x != 0),
    ("square", "the numbers that are perfect squares", lambda x: x >= 0 and round(x**0.5) ** 2 == x),
    ("two_digit", "the numbers with exactly two digits", lambda x: 10 <= abs(x) <= 99),
)
CHANGE_NUMBERS: tuple[Step, ...] = (
    ("", "", lambda x: x),
    ("squares", "the squares of ", lambda x: x * x),
    ("cubes", "the cubes of ", lambda x: x**3),
    ("doubles", "twice the values of ", lambda x: 2 * x),
    ("absolute", "the absolute values of ", abs),
    ("last_digits", "the last digits of ", lambda x: abs(x) % 10),
    ("digit_sums", "the digit sums of ", lambda x: sum(map(int, str(abs(x))))),
)
END_NUMBERS: tuple[Step, ...] = (
    ("sum", "Return the sum of {}.", sum),
    ("count", "Count {}.", len),
    ("max", "Return the largest of {}, or None if there are none.", lambda xs: max(xs, default=None)),
    ("min", "Return the smallest of {}, or None if there are none.", lambda xs: min(xs, default=None)),
    ("list", "Return a list of {}, in the same order.", list),
    ("sorted", "Return {} in ascending order.", sorted),
    ("descending", "Return {} from largest to smallest.", lambda xs: sorted(xs, reverse=True)),
    ("unique", "Return {} without duplicates, in order of first appearance.", lambda xs: list(dict.fromkeys(xs))),
    ("running", "Return the running totals of {}.", lambda xs: [sum(xs[: i + 1]) for i in range(len(xs))]),
    ("mean", "Return the average of {}, or 0.0 if there are none.", lambda xs: sum(xs) / len(xs) if xs else 0.0),
    ("any", "Check whether there is at least one among {}.", bool),
    ("pairs", "Return the pairs of neighbours among {}.", lambda xs: list(pairwise(xs))),
)  # fmt: skip
KEEP_WORDS: tuple[Step, ...] = (
    ("long", "the words longer than four letters", lambda w: len(w) > 4),
    ("short", "the words of at most three letters", lambda w: len(w) <= 3),
    ("vowel", "the words that begin with a vowel", lambda w: w[0] in "aeiou"),
    ("repeated", "the words in which some letter occurs twice", lambda w: len(set(w)) < len(w)),
    ("palindrome", "the words that read the same backwards", lambda w: w == w[::-1]),
    ("even_length", "the words of even length", lambda w: len(w) % 2 == 0),
    ("with_a", "the words that contain the letter a", lambda w: "a" in w),
    ("ending_s", "the words that end in s", lambda w: w.endswith("s")),
)
CHANGE_WORDS: tuple[Step, ...] = (
    ("", "", lambda w: w),
    ("lengths", "the lengths of ", len),
    ("upper", "the upper-case forms of ", str.upper),
    ("reversed", "the reversed forms of ", lambda w: w[::-1]),
    ("capitalized", "the capitalized forms of ", str.capitalize),
    ("first_letters", "the first letters of ", lambda w: w[0]),
    ("vowel_counts", "the numbers of vowels in ", lambda w: sum(c in "aeiou" for c in w)),
)
END_WORDS: tuple[Step, ...] = (
    ("list", "Return a list of {}, in the same order.", list),
    ("count", "Count {}.", len),
    ("sorted", "Return {} in sorted order.", sorted),
    ("unique", "Return {} without duplicates, in order of first appearance.", lambda xs: list(dict.fromkeys(xs))),
    ("first", "Return the first of {}, or None if there are none.", lambda xs: next(iter(xs), None)),
    ("frequency", "Return a dictionary that maps each of {} to how often it occurs.", lambda xs: {x: xs.count(x) for x in xs}),
    ("joined", "Return {} joined by commas in one string.", lambda xs: ",".join(map(str, xs))),
    ("most", "Return the most frequent of {}, or None if there are none.", lambda xs: max(xs, key=xs.count, default=None)),
)  # fmt: skip
WORDS = (
    "apple level sun stats river banana noon glass tree egg open radar cat yellow queen its kayak window "
    "orange bus idea rotor green paper all moon civic data less up tiger lamp error ice needs book"
)
NOUNS = ("numbers", "values", "items", "nums", "data", "xs", "sequence", "entries")


def code_task(chance: random.Random) -> str:
    """A function head in the form of HumanEval's prompts: signature, docstring, doctest lines."""
    of_numbers = chance.random() < 0.6
    keeps, changes, ends = (
        (KEEP_NUMBERS, CHANGE_NUMBERS, END_NUMBERS) if of_numbers else (KEEP_WORDS, CHANGE_WORDS, END_WORDS)
    )
    keep, change, end = chance.choice(keeps), chance.choice(changes), chance.choice(ends)
    name = "_".join(part for part in (end[0], change[0], keep[0]) if part)
    noun = chance.choice(NOUNS) if of_numbers else chance.choice(("words", "strings", "items", "text"))
    kind = ("List[int]" if of_numbers else "List[str]") if noun != "text" else "str"
    where = f"in the list {noun}" if noun != "text" else "in the text, which are separated by spaces"
    sentence = end[1].format(f"{change[1]}{keep[1]} {where}")
    examples = []
    for _ in range(chance.randint(1, 3)):
        given = (
            [chance.randint(-20, 40) for _ in range(chance.randint(3, 7))]
            if of_numbers
            else [chance.choice(WORDS.split()) for _ in range(chance.randint(2, 5))]
        )
        result = end[2]([change[2](x) for x in given if keep[2](x)])
        shown = repr(" ".join(map(str, given))) if noun == "text" else repr(given)
        examples.append(f"    >>> {name}({shown})\n    {result!r}\n")
    quotes = chance.choice(('"""', '"""', "'''"))
    start = "from typing import List\n\n\n" if kind != "str" and chance.random() < 0.7 else ""
    annotated = f"{noun}: {kind}" if chance.random() < 0.7 else noun
    return f"{start}def {name}({annotated}):\n    {quotes} {sentence}\n{''.join(examples)}    {quotes}\n"
