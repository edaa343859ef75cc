"""The feature store: what is on disk is what was put in, bit by bit, and memory keeps its bound."""

from __future__ import annotations

import os

import pytest
import torch

from truedraft.probe.features import FeatureStore

HIDDEN = 5
TAPS = ((-1, "residual"), (2, "residual"), (2, "post_norm"), (6, "residual"))
ROWS = (3, 1, 8, 0, 4)


def features() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    out = [torch.randn(rows, len(TAPS) * HIDDEN, generator=generator) for rows in ROWS]
    out[0][0, 0], out[2][1, 7], out[2][0, 3] = -0.0, torch.inf, 1e-42  # bits that arithmetic would lose
    return out


def filled(memory: int) -> FeatureStore:
    store = FeatureStore(TAPS, HIDDEN, memory)
    for rows in features():
        store.add(rows)
    return store


ROW = len(TAPS) * HIDDEN * 4
"""Bytes of one row."""


@pytest.mark.parametrize(
    ("memory", "on_disk"),
    [
        (0, 4),
        (3 * ROW - 1, 3),  # 3 rows do not fit, 1 does; neither do 8 or 4
        (4 * ROW, 2),  # filled to the last byte
        (8 * ROW, 1),
        (16 * ROW, 0),
    ],
)
def test_what_does_not_fit_is_on_disk_and_the_same(memory: int, on_disk: int) -> None:
    with filled(memory) as store, filled(2**30) as whole:
        assert (store.spilled, whole.spilled) == (on_disk, 0)
        assert len(store) == len(ROWS)
        held = sum(entry.nbytes for entry in store._entries if not isinstance(entry, tuple))
        assert held <= memory
        for index, given in enumerate(features()):
            for taps in (TAPS, TAPS[1:2], TAPS[::-1], (TAPS[2], TAPS[0], TAPS[2])):
                places = [TAPS.index(tap) for tap in taps]
                wanted = torch.cat([given[:, p * HIDDEN : (p + 1) * HIDDEN] for p in places], 1)
                for found in (store.get(index, taps), whole.get(index, taps)):
                    assert found.dtype == torch.float32
                    assert torch.equal(found.view(torch.int32), wanted.view(torch.int32))


def test_reading_and_writing_may_alternate() -> None:
    """A look reads while a later one still adds texts."""
    with FeatureStore(TAPS, HIDDEN, ROW) as store:
        for index, rows in enumerate(features()):
            store.add(rows)
            for earlier in range(index + 1):
                assert torch.equal(store.get(earlier, TAPS), features()[earlier])


def test_what_is_read_is_the_reader_s_own() -> None:
    for memory in (0, 2**20):
        with filled(memory) as store:
            store.get(0, TAPS[:1]).zero_()
            assert torch.equal(store.get(0, TAPS), features()[0])


def test_half_precision_comes_back_as_fp32() -> None:
    rows = features()[2].clamp(-9, 9)
    with FeatureStore(TAPS, HIDDEN, 0) as store:
        store.add(rows.to(torch.bfloat16))
        assert torch.equal(store.get(0, TAPS), rows.to(torch.bfloat16).float())


def test_the_file_is_gone_after_closing(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with filled(0) as store:
        assert os.fstat(store._file.fileno()).st_size == sum(ROWS) * ROW
    assert os.listdir(str(tmp_path)) == []
    assert store._file.closed


def test_an_unknown_tap_is_an_error() -> None:
    with filled(0) as store, pytest.raises(ValueError, match="not in tuple"):
        store.get(0, ((3, "residual"),))
