"""What an arm of an experiment does to vLLM."""

from __future__ import annotations

import random
from dataclasses import dataclass

from truedraft.contract import InputError
from truedraft.engines.vllm.settings import VARIABLE, read_settings

NATIVE, PLAIN = "native", "plain"
NO_BLOCK_DROP, NO_PREFIX_CACHE = "no-block-drop", "no-prefix-cache"


@dataclass(frozen=True)
class Treatment:
    """`switch`: the value of `TRUEDRAFT`. `without`: a setting of vLLM's that is off in this arm,
    `no-block-drop` (`disable_eagle_block_drop` of its speculative config) or `no-prefix-cache`.
    """

    name: str
    switch: str = "off"
    without: str = ""

    @property
    def fixes(self) -> bool:
        """Whether the plugin is to change something."""
        return self.switch != "off"


PLAIN_ARM = Treatment(PLAIN)
"""No drafter: what every other arm's output is compared with."""


def parse_arms(text: str) -> tuple[Treatment, ...]:
    """Arms from `native,fix:taps+rope,native/no-block-drop`; raises `InputError` for a name that is none.

    `native`: vLLM as it ships, the plugin off. `fix`, `fix:AXIS+AXIS`: as `TRUEDRAFT=fix:AXIS,AXIS`, axes or
    groups of axes. `/no-block-drop`, `/no-prefix-cache`: see `Treatment`.
    """
    names = [name.strip() for name in text.split(",")]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"--arms: found {twice!r:.80} twice, expected every arm once")
    return tuple(map(_treatment, names))


def _treatment(name: str) -> Treatment:
    what, slash, suffix = name.partition("/")
    mode, colon, listed = what.partition(":")
    axes = [axis.strip() for axis in listed.split("+")]
    if mode == PLAIN:
        raise InputError(f"--arms: found {PLAIN}, which is run anyway: all outputs are compared with it")
    unclear = colon and ("" in axes or len(set(axes)) < len(axes))
    if (
        (what != NATIVE and mode != "fix")
        or unclear
        or (slash and suffix not in (NO_BLOCK_DROP, NO_PREFIX_CACHE))
    ):
        raise InputError(
            f"--arms: found {name!r:.80}, expected {NATIVE}, fix or fix:AXIS+AXIS (axes joined by +), "
            f"each alone or with /{NO_BLOCK_DROP} or /{NO_PREFIX_CACHE}"
        )
    switch = "off" if what == NATIVE else what.replace("+", ",")
    try:
        read_settings({VARIABLE: switch})
    except ValueError as error:
        raise InputError(f"--arms: {error}") from None
    return Treatment(name, switch, suffix)


def blocks(arms: tuple[Treatment, ...], boots: int, seed: int) -> list[tuple[int, Treatment]]:
    """The order of boots: every block has every arm once, in an order of its own.

    A block's order depends on its number and the seed alone, so that boots can be added later.
    """
    out = []
    for block in range(1, boots + 1):
        shuffled = list(arms)
        random.Random(f"{seed}/{block}").shuffle(shuffled)
        out += [(block, arm) for arm in shuffled]
    return out
