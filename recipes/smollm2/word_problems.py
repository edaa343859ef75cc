"""Arithmetic word problems with random names, things and numbers."""

from __future__ import annotations

import random
from collections.abc import Sequence

from word_problem_texts import DAYS, ENDINGS, NAMES, PLACES, TEMPLATES, THINGS

_PRONOUNS = {
    "he": {"he": "he", "He": "He", "his": "his", "His": "His", "him": "him"},
    "she": {"he": "she", "He": "She", "his": "her", "His": "Her", "him": "her"},
}
_SENTENCES = (
    "{A} starts with {x} {thing}.",
    "Then {B} brings {x} more {thing}.",
    "On {day}, {A} gives away {x} of the {thing}.",
    "After that, the number of {thing} doubles.",
    "{B} takes half of what is there.",
    "{A} buys {x} packs of {y} {thing} each.",
    "{C} borrows {x} {thing} and brings back only {y}.",
    "Somebody from the {place} adds {x} {thing} for each of {y} children.",
)
_QUESTIONS = (
    "How many {thing} are there in the end?",
    "How many {thing} does {A} have now?",
    "How many {thing} are left, and how many more than at the start is that?",
)


def word_problem(chance: random.Random, templates: Sequence[tuple[str, str]] = TEMPLATES) -> str:
    """One problem: mostly one of the written texts, in one of four a made-up sequence of events."""
    if chance.random() < 0.25:
        events = [_SENTENCES[0], *chance.sample(_SENTENCES[1:], chance.randint(2, 4))]
        text = " ".join(_filled(event, "x:4-60 y:2-9", chance) for event in events)
        text += " " + _filled(chance.choice(_QUESTIONS), "", chance)
        return _named(text, chance) + chance.choice(ENDINGS)
    ranges, text = chance.choice(templates)
    return _named(_filled(text, ranges, chance), chance) + chance.choice(ENDINGS)


def _filled(text: str, ranges: str, chance: random.Random) -> str:
    for entry in ranges.split():
        letter, _, bounds = entry.partition(":")
        low, _, high = bounds.partition("-")
        text = text.replace("{" + letter + "}", str(chance.randint(int(low), int(high))))
    return text


def _named(text: str, chance: random.Random) -> str:
    people = [entry.split(":") for entry in chance.sample(NAMES.split(), 3)]
    things = [thing.replace("-", " ") for thing in chance.sample(THINGS.split(), 2)]
    words = {
        **{letter: name for letter, (name, _) in zip("ABC", people, strict=True)},
        **_PRONOUNS[people[0][1]],
        "thing": things[0],
        "thing2": things[1],
        "place": chance.choice(PLACES.split()).replace("-", " "),
        "day": chance.choice(DAYS.split()),
    }
    for key, word in words.items():
        text = text.replace("{" + key + "}", word)
    return text
