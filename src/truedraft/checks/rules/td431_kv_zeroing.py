"""A KV zeroer clears other bytes than those of the freed block.

What it finds
    For a layout given with --kv-layout: bytes of a freed block that stay, live bytes of neighbouring layers
    or blocks that are cleared, and bytes beyond the allocation.
Why it matters
    Packed caches hold a page per layer inside each block. A zeroer that takes the block stride for the span
    to clear wipes the neighbours' live rows: the next request reads zeros where context was.
In acceptance
    Depends on the order of allocation: good when alone, worse with load and uptime; wrong output if the
    target's rows are hit.
Example
    Views (100, 64, 584) at 0/37440/74880/112320 with stride 149760: the span must be 37376, not 149760. As
    JSON: {"views": [{"shape": [100, 64, 584], "offset": 0, "stride": 149760}, …], "allocation": 14976000,
    "zero": {"span": 37376, "stride": 149760}}
Fix
    Span = rows x bytes per row of one block, stride = bytes between blocks.
References
    vllm#50276, vllm#43990, vllm#51718, vllm#52709, vllm-ascend#10833 (S39 in the field log)
"""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject
from truedraft.formats.engines import KvLayout, without

CODE = "TD431"
NAME = "kv-zeroing"


def check(subject: Subject) -> Iterator[Finding]:
    """Bytes zeroed = bytes of the freed rows, nothing else, for the first, a middle and the last block."""
    layout = subject.kv_layout
    if layout is None:
        return
    blocks = layout.views[0].shape[0]
    for block in sorted({0, blocks // 2, blocks - 1}):
        yield from _compare(layout, block)


def _compare(layout: KvLayout, block: int) -> Iterator[Finding]:
    freed, zeroed = layout.freed(block), layout.zeroed(block)
    sizes = sorted({view.block_bytes for view in layout.views})
    wanted = " or ".join(map(str, sizes)) if len(sizes) < 4 else f"{sizes[0]} to {sizes[-1]}"
    strides = " or ".join(map(str, sorted({view.stride for view in layout.views})[:3]))
    wrong = (
        ("stay", _total(without(freed, zeroed))),
        ("of live rows are cleared", _total(zeroed) - _total(without(zeroed, layout.live(block)))),
        ("beyond the allocation are cleared", _total(without(zeroed, ((0, layout.allocation),)))),
    )
    told = [f"{count} bytes {what}" for what, count in wrong if count]
    if told:
        yield Finding(
            code=CODE,
            severity="error",
            confidence="certain",
            message=f"freeing block {block}: {', '.join(told)}",
            where="kv layout",
            found=f"span {layout.zero_span}, stride {layout.zero_stride}",
            expected=f"span {wanted}, stride {strides}",
            fix=f"clear {wanted} bytes per layer and block, {strides} bytes apart",
            references=("vllm#50276",),
        )


def _total(spans: tuple[tuple[int, int], ...]) -> int:
    return sum(end - begin for begin, end in spans)
