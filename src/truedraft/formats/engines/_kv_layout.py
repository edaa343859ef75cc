"""Packed KV caches: where the rows of a block lie, and what a zeroer clears when it frees one.

An engine that packs the layers of a block into one page has a view per layer: same block stride, different
byte offsets. Clearing a freed block must touch exactly the bytes of its rows (vllm#50276, #43990, #51718).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from truedraft.contract import InputError
from truedraft.formats._json import load_object

MAX_VIEWS = 4096

Span = tuple[int, int]
"""Half-open range of bytes."""


@dataclass(frozen=True)
class KvView:
    """One layer's view: `shape` [blocks, rows, bytes per row], its first byte, the bytes between blocks."""

    shape: tuple[int, int, int]
    offset: int
    stride: int

    @property
    def block_bytes(self) -> int:
        """Bytes of one block's rows."""
        return self.shape[1] * self.shape[2]

    def rows(self, block: int) -> Span:
        """The bytes of a block's rows."""
        begin = self.offset + block * self.stride
        return begin, begin + self.block_bytes


@dataclass(frozen=True)
class KvLayout:
    """Views of one allocation, and what its zeroer clears per layer: `zero_span` bytes from each view's
    begin of the block, `zero_stride` bytes from one block to the next. `allocation`: bytes in all.
    """

    views: tuple[KvView, ...]
    allocation: int
    zero_span: int
    zero_stride: int

    def freed(self, block: int) -> tuple[Span, ...]:
        """The bytes that belong to a block."""
        return _merged(view.rows(block) for view in self.views)

    def zeroed(self, block: int) -> tuple[Span, ...]:
        """The bytes that the zeroer clears when the block is freed."""
        begins = [view.offset + block * self.zero_stride for view in self.views]
        return _merged((begin, begin + self.zero_span) for begin in begins)


def without(spans: tuple[Span, ...], taken: tuple[Span, ...]) -> tuple[Span, ...]:
    """The bytes of `spans` that are not in `taken`; both sorted and disjoint."""
    out: list[Span] = []
    for begin, end in spans:
        for low, high in taken:
            if high <= begin or low >= end:
                continue
            if low > begin:
                out.append((begin, low))
            begin = max(begin, high)
        if begin < end:
            out.append((begin, end))
    return tuple(out)


def read_kv_layout(path: Path) -> KvLayout:
    """A layout from JSON.

    `{"views": [{"shape": [blocks, rows, bytes], "offset": n, "stride": n}, …], "allocation": n,
    "zero": {"span": n, "stride": n}}`, all in bytes. Raises `InputError` naming the first bad key.
    """
    data = load_object(path)
    entries = data.get("views")
    if not isinstance(entries, list) or not 1 <= len(entries) <= MAX_VIEWS:
        raise InputError(f"{path}#/views: expected a list of 1 to {MAX_VIEWS} views")
    views = tuple(_view(entry, f"{path}#/views/{i}") for i, entry in enumerate(entries))
    if len({view.shape[0] for view in views}) > 1:
        raise InputError(f"{path}#/views: expected views of equally many blocks")
    zero = data.get("zero")
    if not isinstance(zero, dict):
        raise InputError(f"{path}#/zero: expected an object with span and stride")
    span, stride = (_size(zero, name, f"{path}#/zero") for name in ("span", "stride"))
    return KvLayout(views, _size(data, "allocation", f"{path}#"), span, stride)


def _view(entry: object, where: str) -> KvView:
    if not isinstance(entry, dict):
        raise InputError(f"{where}: expected an object with shape, offset and stride")
    shape = entry.get("shape")
    if not isinstance(shape, list) or len(shape) != 3 or not all(_is_size(n) and n for n in shape):
        raise InputError(f"{where}/shape: found {shape!r:.80}, expected [blocks, rows, bytes per row]")
    offset, stride = (_size(entry, name, where) for name in ("offset", "stride"))
    return KvView((shape[0], shape[1], shape[2]), offset, stride)


def _size(entry: Mapping[str, Any], name: str, where: str) -> int:
    value = entry.get(name)
    if not _is_size(value):
        raise InputError(f"{where}/{name}: found {value!r:.80}, expected a number of bytes")
    return int(value)  # type: ignore[arg-type]


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53


def _merged(spans: Any) -> tuple[Span, ...]:
    out: list[Span] = []
    for begin, end in sorted(span for span in spans if span[0] < span[1]):
        if out and begin <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((begin, end))
    return tuple(out)
