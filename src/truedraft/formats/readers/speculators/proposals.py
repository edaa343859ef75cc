"""Tokens per round that a speculators checkpoint asks for.

Reference: speculators 0.9.0 `config.py` `SpeculatorsConfig`, `proposals/greedy.py`.
"""

from __future__ import annotations

from truedraft.contract import InputError, Sourced, stated
from truedraft.formats._keys import TEXT, Keys, Kind
from truedraft.formats.axes.block import MAX_WIDTH

_OBJECTS = Kind("a list of objects", lambda v: isinstance(v, list) and all(isinstance(x, dict) for x in v))
_METHODS = "speculators_config/proposal_methods"
_DEFAULT = "speculators_config/default_proposal_method"


def speculative_tokens(keys: Keys) -> list[Sourced]:
    """One claim per proposal method that `default_proposal_method` names, or per method if it is absent.

    Raises `InputError` if it names none, or if a count is no whole number from 1.
    """
    methods = keys.get(_METHODS, _OBJECTS) or ()
    default = keys.get(_DEFAULT, TEXT)
    chosen = [i for i, m in enumerate(methods) if default in (None, m.get("proposal_type"))]
    if methods and not chosen:
        types = ", ".join(f"{m.get('proposal_type')!r:.40}" for m in methods[:8])
        raise InputError(f"{keys.where(_DEFAULT)}: found {default!r:.80}, expected one of {types}")
    claims = []
    for index in chosen:
        where, count = (
            keys.where(f"{_METHODS}/{index}/speculative_tokens"),
            methods[index].get("speculative_tokens"),
        )
        if count is None:
            continue
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MAX_WIDTH:
            raise InputError(f"{where}: found {count!r:.80}, expected a whole number from 1 to {MAX_WIDTH}")
        claims.append(stated(count, where))
    return claims
