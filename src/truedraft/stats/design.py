"""How two arms can be compared: which boots belong together, which prompts, which figures.

The choice looks at names, times and settings only, never at what was accepted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from truedraft.contract import InputError
from truedraft.stats.arms import SETTINGS, Arm
from truedraft.stats.contrast import FEW_BOOTS
from truedraft.stats.figures import width_of

MANY_BOOTS = 10
"""From so many boots per arm on, prompts are resampled as well (`pigeonhole`)."""

MANY_PROMPTS = 20
"""Fewer prompts are held fixed: resamples of a handful spread too little."""

Pairing = Literal["auto", "paired", "independent"]


@dataclass(frozen=True)
class Design:
    """`left_out`: prompts that some boot lacks. `width`: positions compared; `tau_only`: why only τ is.

    `no_rate`: why the rate is not compared, where τ and the positions are. `pairs`: boot i of both arms ran
    side by side. `many`: boots and prompts are resampled.
    """

    prompts: tuple[str, ...]
    left_out: int
    width: int
    pairs: bool
    many: bool
    tau_only: str = ""
    no_rate: str = ""

    @property
    def method(self) -> str:
        """What the intervals rest on."""
        return "two-way bootstrap" if self.many else "t"


def design(a: Arm, b: Arm, pairing: Pairing = "auto") -> Design:
    """The design of a comparison. Raises `InputError` if the arms cannot be compared."""
    _same_definition(a, b)
    shared = a.prompts_of_all_boots() & b.prompts_of_all_boots()
    if not shared:
        raise InputError(f"{a.name} and {b.name}: found no prompt that all boots of both arms decoded")
    pairs = pairing == "paired" or (pairing == "auto" and len(a.boots) >= FEW_BOOTS and interleaved(a, b))
    if pairing == "paired" and len(a.boots) != len(b.boots):
        raise InputError(f"paired boots: found {len(a.boots)} and {len(b.boots)}, expected equal numbers")
    tau_only, adaptive = "", [max(arm.settings["confidence_threshold"]) for arm in (a, b)]
    if a.K != b.K:
        tau_only = f"K is {a.K} and {b.K}: shares of drafts are not comparable"
    elif a.settings["confidence_threshold"] != b.settings["confidence_threshold"]:
        tau_only = "the arms drop drafts by different confidence: shares of drafts are not comparable"
    elif a.setting("tree_budget") != b.setting("tree_budget"):
        tau_only = "the arms verify trees of different budgets: shares of drafts are not comparable"
    for prompt in sorted(shared):
        of_a, of_b = a.categories[prompt], b.categories[prompt]
        if of_a and of_b and of_a != of_b:
            raise InputError(
                f"prompt {prompt!r:.80}: found the categories {of_a!r:.80} and {of_b!r:.80}, expected one"
            )
    return Design(
        prompts=tuple(sorted(shared)),
        left_out=len(set(a.categories) | set(b.categories)) - len(shared),
        width=0 if tau_only else max(width_of(a), width_of(b)),
        pairs=pairs,
        many=min(len(a.boots), len(b.boots)) >= MANY_BOOTS and len(shared) >= MANY_PROMPTS,
        tau_only=tau_only,
        no_rate=""
        if tau_only or not max(adaptive)
        else "drafting is adaptive: the rate depends on its lengths",
    )


def _same_definition(a: Arm, b: Arm) -> None:
    counted = a.setting("truncated"), b.setting("truncated")
    if counted[0] != counted[1]:
        raise InputError(
            f"{a.name} and {b.name}: found rounds at a stop counted as {counted[0]!r:.40} and "
            f"{counted[1]!r:.40} (truncated), expected one definition of tau"
        )
    if bool(a.setting("tree_budget")) != bool(b.setting("tree_budget")):
        raise InputError(f"{a.name} and {b.name}: found chains and trees (tree_budget), expected one of them")


def interleaved(a: Arm, b: Arm) -> bool:
    """Whether boots of one name started next to each other, pair after pair (A B B A …), by the records."""
    if a.boots != b.boots:
        return False
    starts = sorted((arm.started(boot), boot) for arm in (a, b) for boot in arm.boots)
    names = [boot for _, boot in starts]
    return starts[0][0] > 0 and names[::2] == names[1::2]


def one_after_the_other(a: Arm, b: Arm) -> bool:
    """Whether every boot of one arm started before every boot of the other."""
    of_a, of_b = ([arm.started(boot) for boot in arm.boots] for arm in (a, b))
    known = min(*of_a, *of_b) > 0 and len(of_a) > 1 and len(of_b) > 1
    return known and (max(of_a) < min(of_b) or max(of_b) < min(of_a))


def identical_text(a: Arm, b: Arm, prompts: tuple[str, ...]) -> float | None:
    """Chance that a boot of `a` and a boot of `b` gave the same text for a prompt; `None` without hashes.

    Pass the same arm twice for two different boots of that arm.
    """
    same = of = 0
    for prompt in prompts:
        texts = [[arm.cells[boot][prompt].text for boot in arm.boots] for arm in (a, b)]
        for i, first in enumerate(texts[0]):
            for j, second in enumerate(texts[1]):
                if first is not None and second is not None and not (a is b and i == j):
                    of, same = of + 1, same + (first == second)
    return same / of if of else None


def settings_that_differ(a: Arm, b: Arm) -> dict[str, tuple[str, str]]:
    """Setting -> its values in the arms, where these are not the same."""
    texts = {key: tuple(_told(arm.settings[key]) for arm in (a, b)) for key in SETTINGS}
    return {key: (x, y) for key, (x, y) in texts.items() if x != y}


def _told(values: Iterable[Any]) -> str:
    return ",".join(sorted("unknown" if value is None else str(value) for value in values))


def warnings(a: Arm, b: Arm, plan: Design) -> Iterator[str]:
    """What a reader should know about the design. Raises `InputError` for a boot that is there twice."""
    for arm in (a, b):
        same = arm.same_counts()
        if same and same[2]:
            raise InputError(
                f"{arm.name}: boots {same[0]} and {same[1]} are one run, expected different boots"
            )
        if arm.repeats_itself:
            yield (
                f"{arm.name}: all boots counted the same for every prompt: as good as one boot, estimates "
                "only (greedy runs of truedraft repeat themselves; give each --temperature and a --seed)"
            )
        elif same:
            yield (
                f"{arm.name}: boots {same[0]} and {same[1]} counted the same for every prompt: an engine "
                "that repeats itself exactly, or copies of one run, which say nothing about other boots"
            )
    if both := a.runs_also_in(b):
        yield f"boot {both[0]} of {a.name} and boot {both[1]} of {b.name} are one run, on both sides"
    if plan.left_out:
        of = plan.left_out + len(plan.prompts)
        yield f"{plan.left_out} of {of} prompts lack rounds in some boot: left out"
    if not a.names_prompts or not b.names_prompts:
        yield "records name no prompts: nothing is paired; the arms must have served the same requests"
    elif len(plan.prompts) == 1:
        yield "one prompt only: figures hold for this prompt"
    if one_after_the_other(a, b):
        yield "all boots of one arm ran before the other's: what drifted in between counts as a difference"
