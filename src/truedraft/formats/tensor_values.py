"""Values of tensors, for the checks that ask for them: streamed in small chunks, never a whole table.

Nothing else in `formats` reads weights. numpy is imported when floats are first asked for; integers need
none.
"""

from __future__ import annotations

import math
import os
import sys
from array import array
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, BinaryIO

from truedraft.contract import InputError
from truedraft.formats._safetensors import DTYPE_BITS, TensorInfo, TensorRef, read_header

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CHUNK = 4 * 2**20
"""Bytes of the file read at a time; as float32 beside its masks that is about 20 MB."""

FLOATS = ("F32", "F16", "BF16", "F64")
"""Dtypes that `floats` and `rows` read."""

INTEGERS = {"I64": "q", "I32": "i", "BOOL": "B", "U8": "B"}
"""Dtypes that `integers` reads, with their codes in `array`."""


def is_stored(ref: TensorRef) -> bool:
    """Whether the values are there: of a hub id only headers are fetched, the rest of the file is a hole."""
    if not hasattr(os, "SEEK_HOLE"):
        return True
    with _open(ref.path) as file:
        begin, end = _span(ref)
        return begin == end or os.lseek(file.fileno(), begin, os.SEEK_HOLE) >= end


def integers(ref: TensorRef) -> Sequence[int]:
    """All numbers of a small integer tensor, flat.

    Raises `InputError` for other dtypes and unreadable files.
    """
    if ref.dtype not in INTEGERS:
        raise InputError(f"{ref}: found dtype {ref.dtype}, expected one of {', '.join(INTEGERS)}")
    values = array(INTEGERS[ref.dtype], b"".join(_chunks(ref)))
    if sys.byteorder == "big":
        values.byteswap()
    return values


def floats(ref: TensorRef) -> Iterator[NDArray[np.floating]]:
    """All values of a tensor of `FLOATS`, flat, in chunks; F64 as float64, others as float32.

    Raises `InputError` for other dtypes, unreadable files, and where numpy is not installed.
    """
    numpy = _numpy()
    if ref.dtype not in FLOATS:
        raise InputError(f"{ref}: found dtype {ref.dtype}, expected one of {', '.join(FLOATS)}")
    return (_decoded(numpy, data, ref.dtype) for data in _chunks(ref))


def rows(ref: TensorRef, indices: Sequence[int]) -> NDArray[np.floating]:
    """Rows of a matrix of `FLOATS`, shape [len(indices), columns]; errors as `floats`."""
    numpy, size, data = _numpy(), _row_bytes(ref), bytearray()
    with _open(ref.path) as file:
        begin, _ = _span(ref)
        for index in indices:
            file.seek(begin + index * size)
            data += file.read(size)
    if len(data) != size * len(indices):
        raise InputError(f"{ref}: changed while it was read")
    return _decoded(numpy, bytes(data), ref.dtype).reshape(len(indices), -1)


def _numpy() -> ModuleType:
    try:
        import numpy
    except ImportError:
        raise InputError("--weights needs numpy, which truedraft[engine] installs") from None
    return numpy


def _decoded(numpy: ModuleType, data: bytes, dtype: str) -> NDArray[np.floating]:
    if dtype == "BF16":  # the upper half of a float32
        upper = numpy.frombuffer(data, dtype="<u2").astype(numpy.uint32)
        return (upper << 16).view(numpy.float32)  # type: ignore[no-any-return]
    values = numpy.frombuffer(data, dtype={"F16": "<f2", "F32": "<f4", "F64": "<f8"}[dtype])
    return values.astype(numpy.float64 if dtype == "F64" else numpy.float32, copy=False)  # type: ignore[no-any-return]


def _chunks(ref: TensorRef) -> Iterator[bytes]:
    with _open(ref.path) as file:
        begin, end = _span(ref)
        file.seek(begin)
        while begin < end:
            data = file.read(min(CHUNK, end - begin))
            if not data:
                raise InputError(f"{ref.path}: ends before {ref}, expected {end - begin} more bytes")
            begin += len(data)
            yield data


def _open(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None


def _row_bytes(ref: TensorRef) -> int:
    return math.prod(ref.shape[1:]) * DTYPE_BITS[ref.dtype] // 8


def _span(ref: TensorRef) -> tuple[int, int]:
    """First byte in the file, and the end, of the rows that are meant."""
    stamp = ref.path.stat()
    data, header = _header(ref.path, stamp.st_mtime_ns, stamp.st_size)
    info = header.get(ref.name)
    if info is None or info.shape[1:] != ref.shape[1:]:
        raise InputError(f"{ref}: changed while it was read")
    first, last = (
        (info.begin, info.end) if ref.rows is None else (info.begin + n * _row_bytes(ref) for n in ref.rows)
    )
    return data + first, data + last


@lru_cache(maxsize=8)
def _header(path: Path, modified: int, size: int) -> tuple[int, Mapping[str, TensorInfo]]:
    """Where the data begin, and the tensors; `modified` and `size` make the cache forget a changed file."""
    header = read_header(path)
    with _open(path) as file:
        return 8 + int.from_bytes(file.read(8), "little"), header
