"""Headers of safetensors files: names, dtypes and shapes. Weights are never read.

Format: 8 bytes little-endian header length, a JSON object, then the data
(https://github.com/huggingface/safetensors, "Format").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from truedraft.contract import InputError
from truedraft.formats._inside import find_file, need_file
from truedraft.formats._json import load_object, parse_object

HEADER_BYTES = 12 * 2**20
"""Longest header that is read. The format allows 100 MB; the largest published ones are near 1 MB."""
INDEX_BYTES = 16 * 2**20
"""Longest index that is read: some 180 000 tensors, more than DeepSeek-V4-Pro has."""

INDEX_ENTRIES = 250_000
INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"

DTYPE_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E5M2FNUZ": 8,
    "F8_E4M3FNUZ": 8, "U16": 16, "I16": 16, "F16": 16, "BF16": 16, "U32": 32, "I32": 32, "F32": 32,
    "U64": 64, "I64": 64, "F64": 64, "C64": 64, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
}  # fmt: skip

_MAX_RANK = 32


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One header entry. `begin`, `end`: byte range relative to the end of the header."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class TensorRef:
    """Where a tensor lies: file, its name in that file, dtype (`F32`, `BF16`, …) and shape.

    `rows`: the half-open range of first-axis rows that is meant, where the file fuses several tensors into
    one; `shape` is then the shape of that slice.
    """

    path: Path
    name: str
    dtype: str
    shape: tuple[int, ...]
    rows: tuple[int, int] | None = None

    def __str__(self) -> str:
        rows = "" if self.rows is None else f"[{self.rows[0]}:{self.rows[1]}]"
        return f"{self.path.name}#{self.name}{rows}"


def read_header(path: Path | str) -> Mapping[str, TensorInfo]:
    """The tensors of one safetensors file, by name.

    Raises `InputError` with one line if the file is missing, truncated, or its header lies: length beyond
    the file or above 12 MiB, no UTF-8 JSON object, duplicate names, unknown dtype, bad shape, byte ranges
    that do not match dtype and shape, overlap, leave holes, or end beyond or before the file's end.
    """
    path = Path(path)
    header, data_bytes = _raw_header(path)
    tensors: dict[str, TensorInfo] = {}
    for name, entry in header.items():
        if name == "__metadata__":
            if not isinstance(entry, dict) or not all(isinstance(v, str) for v in entry.values()):
                raise InputError(f"{path}#__metadata__: expected an object of strings")
            continue
        tensors[name] = _entry(entry, f"{path}#{name}")
    _check_ranges(path, tensors, data_bytes)
    return MappingProxyType(tensors)


def find_tensors(directory: Path) -> Mapping[str, TensorRef]:
    """All tensors of a checkpoint directory by name; empty if it holds no safetensors weights.

    `model.safetensors` wins over an index, as in transformers. Raises `InputError` if a shard is missing,
    lacks a tensor that the index places in it, or is named outside the directory.
    """
    single = find_file(directory, SINGLE)
    if single is not None:
        return MappingProxyType({n: _ref(single, n, info) for n, info in read_header(single).items()})
    index = find_file(directory, INDEX)
    if index is None:
        return MappingProxyType({})
    headers: dict[str, Mapping[str, TensorInfo]] = {}
    tensors: dict[str, TensorRef] = {}
    for name, shard in read_index(index).items():
        if shard not in headers:
            headers[shard] = read_header(need_file(directory, shard))
        if name not in headers[shard]:
            raise InputError(f"{index}#/weight_map/{name}: shard {shard} has no such tensor")
        tensors[name] = _ref(directory / shard, name, headers[shard][name])
    return MappingProxyType(tensors)


def read_index(index: Path) -> Mapping[str, str]:
    """Tensor names to shard names, of an index file; `InputError` for a shard outside its directory."""
    weight_map = load_object(index, limit=INDEX_BYTES, entries=INDEX_ENTRIES).get("weight_map")
    if not isinstance(weight_map, dict):
        raise InputError(f"{index}#/weight_map: expected an object from tensor names to shard files")
    for name, shard in weight_map.items():
        if not isinstance(shard, str) or not _is_plain_name(shard):
            raise InputError(
                f"{index}#/weight_map/{name}: found {shard!r:.80}, expected a file in {index.parent}"
            )
    return weight_map


def _raw_header(path: Path) -> tuple[dict[str, Any], int]:
    if not path.is_file():
        raise InputError(f"{path}: no such file" if not path.exists() else f"{path}: not a regular file")
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(0)
            prefix = file.read(8)
            length = int.from_bytes(prefix, "little")
            if len(prefix) < 8 or length > size - 8:
                raise InputError(
                    f"{path}: truncated safetensors file, found {size} bytes, "
                    + ("expected at least 8" if len(prefix) < 8 else f"expected a header of {length} bytes")
                )
            if length > HEADER_BYTES:
                raise InputError(f"{path}: header of {length} bytes, expected at most {HEADER_BYTES}")
            data = file.read(length)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    return parse_object(data, f"{path} (header)"), size - 8 - length


def _entry(entry: object, where: str) -> TensorInfo:
    if not isinstance(entry, dict):
        raise InputError(f"{where}: found {entry!r:.80}, expected an object with dtype, shape, data_offsets")
    dtype, dims, offsets = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    if not isinstance(dtype, str) or dtype not in DTYPE_BITS:
        raise InputError(f"{where}: found dtype {dtype!r:.80}, expected one of {', '.join(DTYPE_BITS)}")
    if not isinstance(dims, list) or len(dims) > _MAX_RANK or not all(_is_size(n) for n in dims):
        raise InputError(f"{where}: found shape {dims!r:.80}, expected a list of whole numbers >= 0")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(_is_size(n) for n in offsets):
        raise InputError(f"{where}: found data_offsets {offsets!r:.80}, expected [begin, end]")
    bits = DTYPE_BITS[dtype]
    for n in dims:
        bits *= n
    begin, end = offsets
    if end - begin != -(-bits // 8):
        raise InputError(
            f"{where}: data_offsets span {end - begin} bytes, expected those of {dtype} {dims!r:.80}"
        )
    return TensorInfo(dtype, tuple(dims), begin, end)


def _check_ranges(path: Path, tensors: Mapping[str, TensorInfo], data_bytes: int) -> None:
    reached = 0
    for name, info in sorted(tensors.items(), key=lambda item: (item[1].begin, item[1].end)):
        if info.end > data_bytes:
            raise InputError(
                f"{path}#{name}: data ends at byte {info.end}, but the file holds {data_bytes} (truncated?)"
            )
        if info.begin != reached:
            what = "overlaps the tensor before it" if info.begin < reached else "leaves a hole before it"
            raise InputError(f"{path}#{name}: data begins at byte {info.begin}, expected {reached}: {what}")
        reached = info.end
    if reached != data_bytes:
        raise InputError(f"{path}: {data_bytes - reached} bytes after the last tensor belong to none")


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53


def _is_plain_name(name: str) -> bool:
    return name not in ("", ".", "..") and not any(c in name for c in "/\\\0:")


def _ref(path: Path, name: str, info: TensorInfo) -> TensorRef:
    return TensorRef(path, name, info.dtype, info.shape)
