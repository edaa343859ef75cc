"""Signs of random tokens in a prompt, from its characters and words alone.

Natural text of any language, code and data repeat themselves: few words make up much of the text. Random
tokens do not. Each sign is set so that text, code, JSON, formulas and lists in a few dozen languages give
none; a prompt that is too short gives none either.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import groupby, pairwise

_WORD = re.compile(r"[^\W\d_]+")
_IDS = re.compile(r"\s*\[[\d\s,]+(?:\]\s*)?")
_LATIN = re.compile(r"[a-z]")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")

_FREQUENT_WORDS = """
a an the of to and in is it that for on with as be are this was or not you we from by at have if can do
der die das und ist ein eine in den von zu mit sich auf für nicht es im dem des als auch
le la les de des un une et est que qui dans pour pas sur en du au il ce se
el los las y por con para una del lo su al se no
o os e que não em da do um uma com para di il che non per sono con della
het een van en dat op te zijn voor niet w i na z się nie że do jest
och att det som en på av är og er ikke ja on ei bir ve bu için yang dan di
self return def if else for while int let const var new null true false function class import
"""
_FREQUENT = frozenset(_FREQUENT_WORDS.split())

MIN_WORDS = 100
MIN_IDS = 64
MIN_LETTERS = 300
LONG_WORD = 30
SAMPLE_IDS = 2**15
SAMPLE = 3000
"""Characters that are looked at: the longer a text, the more its words repeat, even random ones."""


def sign_of_randomness(text: str) -> str:
    """What shows that a prompt is synthetic, in words; empty if nothing does."""
    if _IDS.fullmatch(text[:SAMPLE_IDS]):
        return _in_ids([int(word[:18]) for word in re.findall(r"\d+", text[:SAMPLE_IDS])])
    text = text[:SAMPLE]
    return _in_letters(text) or _in_words(text)


def _in_ids(ids: Sequence[int]) -> str:
    """Token ids: natural text repeats frequent ones, and they crowd at the low end or in one range."""
    if len(ids) < MIN_IDS:
        return ""
    ascending = sum(b == a + 1 for a, b in pairwise(ids))
    if ascending > len(ids) / 2:
        return "consecutive token ids"
    distinct = len(set(ids)) / len(ids)
    if distinct < 0.02:
        return "one token repeated"
    top = max(ids) or 1
    uneven = max(abs(i / top - (n + 0.5) / len(ids)) for n, i in enumerate(sorted(ids)))
    # A vocabulary of 1000 gives 200 random ids about 180 distinct values.
    expected = top * (1 - (1 - 1 / top) ** len(ids)) / len(ids)
    if uneven < 0.2 and distinct > 0.9 * expected and distinct > 0.5:
        return "token ids spread evenly over the vocabulary"
    return ""


def _in_letters(text: str) -> str:
    """Random letters: the chance that two letters are equal is 1/26, in text at least 1/18.

    Keys and images in base64 have no spaces.
    """
    words = [word for word in text.lower().split() if len(word) < LONG_WORD]
    counts = Counter(_LATIN.findall(" ".join(words)))
    total = counts.total()
    if total < MIN_LETTERS or total < 0.5 * sum(map(len, words)):
        return ""
    coincidence = sum(n * (n - 1) for n in counts.values()) / (total * (total - 1))
    return "random letters" if coincidence < 0.046 else ""


def _in_words(text: str) -> str:
    """Words that hardly repeat, without the frequent words of any language, glued or of many scripts."""
    words = [word for run in _WORD.findall(text) for word in _split(run)]
    if len(words) < MIN_WORDS:
        return ""
    folded = [word.casefold() for word in words]
    distinct = len(set(folded)) / len(folded)
    letters = sum(map(len, words)) / sum(not character.isspace() for character in text)
    length = sum(map(len, words)) / len(words)
    if distinct < 0.03 and len(words) >= 3 * MIN_WORDS and letters > 0.7 and length >= 2:
        return "a few words repeated"
    scripts = Counter(_script(word[0]) for word in words)
    changes = sum(_script(a[0]) != _script(b[0]) for a, b in pairwise(words)) / len(words)
    frequent = sum(word in _FREQUENT for word in folded) / len(folded)
    separators = len(re.findall(r"[\n,;|\t]", text)) / len(words)
    if frequent > 0.08 or separators > 0.4:
        return ""
    several = sum(count >= 0.015 * len(words) for count in scripts.values())
    if several >= 4 and changes > 0.2 and distinct > 0.8:
        return f"words of {several} scripts in disorder"
    glued = sum(_CAMEL.search(word) is not None for word in words) / len(words)
    if distinct > 0.93 and glued > 0.04 and scripts.most_common(1)[0][0] == "LATIN":
        return "words that never repeat, glued together"
    return ""


def _split(run: str) -> Iterator[str]:
    """A run of letters as words of one script each; scripts without spaces give one per character."""
    for script, letters in groupby(run, _script):
        if script in ("CJK", "THAI", "LAO", "KHMER", "MYANMAR"):
            yield from letters
        else:
            yield "".join(letters)


@cache
def _script(character: str) -> str:
    name = unicodedata.name(character, "UNKNOWN").partition(" ")[0].partition("-")[0]
    return "CJK" if name in ("HIRAGANA", "KATAKANA", "FULLWIDTH", "HALFWIDTH") else name
