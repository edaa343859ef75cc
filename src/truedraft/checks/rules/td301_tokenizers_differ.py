"""The drafter's tokenizer gives token ids another meaning than the target's.

What it finds
    If the drafter ships a tokenizer.json of its own: ids that stand for other strings in it. As a note: ids
    that only one of the two has, reserved tokens that were renamed, and other special tokens.
Why it matters
    Drafts are ids, and the target reads them as its own. Engines do not compare the tables; a pair that fits
    in width and vocabulary size is taken.
In acceptance
    Near 1 where most ids differ. An engine that accepts drafts without comparing ids emits wrong text.
Example
    Id 318 is " is" for the target and " of" for the drafter.
Fix
    A drafter for this tokenizer; for renamed added tokens, the target's tokenizer files in both places.
References
    sglang#23838 (F30), pocketpal-ai#876 (S77), llama.cpp#25733 (S78)
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject
from truedraft.formats.tokenizer_files import Vocabulary, special_tokens, too_large, vocabularies

CODE = "TD301"
NAME = "tokenizers-differ"

# Slots that a producer may rename without changing any text: `<|reserved_special_token_7|>`, `[MASK]`.
_PLACEHOLDER = re.compile(r"reserved|unused|placeholder|dummy|extra|mask|pad", re.IGNORECASE)


def check(subject: Subject) -> Iterator[Finding]:
    """Both tables, if they are not the same bytes."""
    if (large := too_large(subject.pair.target, subject.pair.draft)) is not None:
        yield _uncompared(large)
    found = vocabularies(subject.pair.target, subject.pair.draft)
    if found is None:
        return
    target, draft = found
    common = target.strings.keys() & draft.strings.keys()
    other = sorted(i for i in common if target.strings[i] != draft.strings[i])
    renamed = [i for i in other if _only_renamed(target, draft, i)]
    wrong = sorted(set(other) - set(renamed))
    if wrong:
        yield _differ(target, draft, wrong, f"{len(wrong)} of {len(common)} common token ids")
    elif renamed:
        yield _differ(target, draft, renamed, f"{len(renamed)} reserved token ids", note=True)
    if extra := sorted(target.strings.keys() ^ draft.strings.keys()):
        yield _extra(target, draft, extra)
    if not wrong:
        yield from _special(subject)


def _uncompared(where: str) -> Finding:
    return Finding(
        code=CODE,
        severity="note",
        confidence="possible",
        message="the two tokenizer.json are not the same bytes, and too large to be compared",
        where=where,
        fix="compare the token strings of both with the tokenizers library",
    )


def _only_renamed(target: Vocabulary, draft: Vocabulary, token: int) -> bool:
    added = token in target.added or token in draft.added
    return added and any(_PLACEHOLDER.search(side.strings[token]) for side in (target, draft))


def _differ(
    target: Vocabulary, draft: Vocabulary, ids: list[int], what: str, *, note: bool = False
) -> Finding:
    example = ids[0]
    ours, theirs = (f"{side.strings[example]!r:.60}" for side in (draft, target))
    return Finding(
        code=CODE,
        severity="note" if note else "error",
        confidence="certain",
        message=f"{what} mean other strings to drafter and target, such as {example}: {ours} and {theirs}",
        where=draft.where,
        found=f"{example} = {ours}",
        expected=f"{example} = {theirs}",
        fix="the target's tokenizer files" if note else "use a drafter that was trained on this tokenizer",
        references=("sglang#23838",),
    )


def _extra(target: Vocabulary, draft: Vocabulary, extra: list[int]) -> Finding:
    owner, side = (target, "target") if extra[0] in target.strings else (draft, "drafter")
    return Finding(
        code=CODE,
        severity="note",
        confidence="certain",
        message=(
            f"{len(extra)} token ids are in only one of the two tokenizers, such as {extra[0]}: "
            f"{owner.strings[extra[0]]!r:.60} of the {side}"
        ),
        where=draft.where,
        found=f"{len(draft.strings)} tokens",
        expected=f"{len(target.strings)} tokens",
        fix="none needed, unless served text uses these tokens",
    )


def _special(subject: Subject) -> Iterator[Finding]:
    target, draft = special_tokens(subject.pair.target), special_tokens(subject.pair.draft)
    for role in sorted(target.keys() & draft.keys()):
        if target[role] != draft[role]:
            yield Finding(
                code=CODE,
                severity="note",
                confidence="certain",
                message=f"drafter and target name another {role}",
                where=f"draft/tokenizer_config.json#/{role}",
                found=draft[role],
                expected=target[role],
                fix="serve with the target's tokenizer files",
            )
