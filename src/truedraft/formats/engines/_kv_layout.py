"""Packed KV caches: where the rows of a block lie, and what a zeroer clears when it frees one.

An engine that packs the layers of a block into one page has a view per layer: same block stride, different
byte offsets. Clearing a freed block must touch exactly the bytes of its rows (vllm#50276, #43990, #51718).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from truedraft.contract import InputError
from truedraft.formats._json import load_object

MAX_VIEWS = 1024
MAX_REACH = 1024
"""Views of one allocation, and blocks behind the freed one that are looked at."""

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

    def live(self, block: int) -> tuple[Span, ...]:
        """The bytes of all other blocks near enough for the zeroer to reach."""
        blocks = self.views[0].shape[0]
        reach = 2 + self.zero_span // max(min(view.stride for view in self.views), 1)
        near = range(max(block - 1, 0), min(block + min(reach, MAX_REACH) + 1, blocks))
        return _merged(view.rows(other) for view in self.views for other in near if other != block)

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
    _no_other(data, ("views", "allocation", "zero"), f"{path}#")
    _no_other(zero, ("span", "stride"), f"{path}#/zero")
    layout = KvLayout(views, _size(data, "allocation", f"{path}#"), span, stride)
    _check(layout, str(path))
    return layout


def _check(layout: KvLayout, name: str) -> None:
    """Views must lie inside the allocation, and no two rows on the same bytes."""
    for i, view in enumerate(layout.views):
        last, where = view.rows(view.shape[0] - 1)[1], f"{name}#/views/{i}"
        if last > layout.allocation:
            expected = f"at most {layout.allocation} (allocation)"
            raise InputError(f"{where}: found rows up to byte {last}, expected {expected}")
        if view.shape[0] > 1 and view.stride < view.block_bytes:
            expected = f"at least a block's {view.block_bytes} bytes"
            raise InputError(f"{where}/stride: found {view.stride}, expected {expected}")
    begins = sorted((view.offset % view.stride, i) for i, view in enumerate(layout.views) if view.stride)
    if len({view.stride for view in layout.views}) == 1:  # else only the views themselves are checked
        for (begin, one), (other_begin, other) in pairwise(begins):
            if begin + layout.views[one].block_bytes > other_begin:
                raise InputError(f"{name}#/views/{other}: found rows on those of view {one}, expected none")


def _no_other(entry: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for key in entry:
        if key not in known:
            raise InputError(f"{where}/{key:.80}: unknown key, expected {', '.join(known)}")


def _view(entry: object, where: str) -> KvView:
    if not isinstance(entry, dict):
        raise InputError(f"{where}: expected an object with shape, offset and stride")
    shape = entry.get("shape")
    if not isinstance(shape, list) or len(shape) != 3 or not all(_is_size(n) and n for n in shape):
        raise InputError(f"{where}/shape: found {shape!r:.80}, expected [blocks, rows, bytes per row]")
    _no_other(entry, ("shape", "offset", "stride"), where)
    offset, stride = (_size(entry, name, where) for name in ("offset", "stride"))
    return KvView((shape[0], shape[1], shape[2]), offset, stride)


def _size(entry: Mapping[str, Any], name: str, where: str) -> int:
    value = entry.get(name)
    if not _is_size(value):
        raise InputError(f"{where}/{name}: found {value!r:.80}, expected a number of bytes")
    return int(value)  # type: ignore[arg-type]


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**48


def _merged(spans: Any) -> tuple[Span, ...]:
    out: list[Span] = []
    for begin, end in sorted(span for span in spans if span[0] < span[1]):
        if out and begin <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((begin, end))
    return tuple(out)
