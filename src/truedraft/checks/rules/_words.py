"""Values in words, where `format_value` alone would leave the reader to guess."""

from __future__ import annotations

from truedraft.contract import Record, Value, format_value


def rotations(value: Value) -> str:
    """Values of `rope` axes, with scalings in short: `yarn x16`."""
    if isinstance(value, tuple):
        shown = [rotations(entry) for entry in value]
        return f"{len(shown)}×{shown[0]}" if len(set(shown)) == 1 < len(shown) else ",".join(shown)
    if isinstance(value, Record):
        return f"{value['kind']} x{format_value(value.get('factor'))}"
    return format_value(value)


def layers(value: Value) -> str:
    """Layer ids as the founding reports write them: `40/41/42`; -1 is the embedding."""
    entries = value if isinstance(value, tuple) else (value,)
    return "/".join("embedding" if entry == -1 else format_value(entry) for entry in entries)
