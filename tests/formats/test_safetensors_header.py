"""The header parser against lying and truncated files, and shards that are not what the index says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from checkpoints import GOLDENS, TARGET, ZLAB, raw, write, write_tensors

from truedraft.contract import InputError
from truedraft.formats import read_header, resolve

GOOD = {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}


def entry(**changes: Any) -> dict[str, Any]:
    return {"a": GOOD | changes}


HOSTILE: dict[str, tuple[object, int, int | None, str]] = {
    # name: (header, data bytes, length field or None, message)
    "length beyond the file": (entry(), 24, 10**6, "expected a header of 1000000 bytes"),
    "length 2**64 - 1": (entry(), 24, 2**64 - 1, "truncated"),
    "length cuts the JSON": (entry(), 24, 10, "not JSON"),
    "invalid UTF-8": (b'{"\xff": 1}', 0, None, "not UTF-8"),
    "not JSON": (b"{oops}", 0, None, "not JSON"),
    "empty header": (b"", 0, None, "not JSON"),
    "a list": ([], 0, None, "found a list, expected a JSON object"),
    "a number": (3, 0, None, "found a number"),
    "duplicate names": (b'{"a": {}, "a": {}}', 0, None, "'a' appears twice"),
    "nesting bomb": (b'{"a":' + b"[" * 200_000, 0, None, "nested too deeply"),
    "NaN": (b'{"a": NaN}', 0, None, "found NaN"),
    "number of 5000 digits": (b'{"a": ' + b"9" * 5000 + b"}", 0, None, "whole number of 5000 digits"),
    "entry is no object": ({"a": 3}, 0, None, "#a: found 3"),
    "metadata is no object": ({"__metadata__": 3}, 0, None, "expected an object of strings"),
    "metadata of numbers": ({"__metadata__": {"a": 1}}, 0, None, "expected an object of strings"),
    "no dtype": ({"a": {"shape": [], "data_offsets": [0, 0]}}, 0, None, "found dtype None"),
    "unknown dtype": (entry(dtype="F31"), 24, None, "found dtype 'F31'"),
    "dtype of another type": (entry(dtype=["F32"]), 24, None, "found dtype"),
    "negative dimension": (entry(shape=[-2, -3]), 24, None, "found shape [-2, -3]"),
    "boolean dimension": (entry(shape=[True, 6]), 24, None, "found shape [True, 6]"),
    "float dimension": (entry(shape=[2.0, 3]), 24, None, "found shape [2.0, 3]"),
    "huge dimension": (entry(shape=[2**60, 2**60]), 24, None, "found shape"),
    "overflowing product": (entry(shape=[2**52] * 32), 24, None, "data_offsets span 24 bytes"),
    "too many dimensions": (entry(shape=[1] * 33), 4, None, "found shape"),
    "shape is text": (entry(shape="23"), 24, None, "found shape '23'"),
    "one offset": (entry(data_offsets=[0]), 24, None, "expected [begin, end]"),
    "negative offset": (entry(data_offsets=[-24, 0]), 24, None, "expected [begin, end]"),
    "offsets reversed": (entry(data_offsets=[24, 0]), 24, None, "span -24 bytes, expected those of F32"),
    "offsets of another size": (entry(data_offsets=[0, 20]), 24, None, "span 20 bytes"),
    "data truncated": (entry(), 20, None, "data ends at byte 24, but the file holds 20"),
    "trailing bytes": (entry(), 30, None, "6 bytes after the last tensor"),
    "a hole": (entry(data_offsets=[8, 32]), 32, None, "leaves a hole"),
    "overlap": (
        {"a": GOOD, "b": GOOD | {"data_offsets": [12, 36]}},
        36,
        None,
        "#b: data begins at byte 12, expected 24: overlaps",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_header(name: str, tmp_path: Path) -> None:
    header, data, length, message = HOSTILE[name]
    path = tmp_path / "model.safetensors"
    raw(path, header, data, length)
    with pytest.raises(InputError) as caught:
        read_header(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500 + len(str(path))


def test_header_above_12_mib(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    with path.open("wb") as file:
        file.write((12 * 2**20 + 1).to_bytes(8, "little"))
        file.truncate(12 * 2**20 + 100)
    with pytest.raises(InputError, match="expected at most 12582912"):
        read_header(path)


@pytest.mark.parametrize("size", [0, 1, 7])
def test_shorter_than_the_length_field(size: int, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(bytes(size))
    with pytest.raises(InputError, match=f"found {size} bytes, expected at least 8"):
        read_header(path)


def test_every_truncation_of_a_real_file_is_noticed(tmp_path: Path) -> None:
    data = (GOLDENS / "dflash_trained" / "draft" / "model.safetensors").read_bytes()
    path = tmp_path / "model.safetensors"
    for size in (*range(0, 3000, 37), len(data) - 1):
        path.write_bytes(data[:size])
        with pytest.raises(InputError):
            read_header(path)


def test_agrees_with_the_safetensors_library() -> None:
    safetensors = pytest.importorskip("safetensors")
    path = GOLDENS / "dspark_deepspec_rnn" / "draft" / "model.safetensors"
    header = read_header(path)
    with safetensors.safe_open(path, framework="np") as file:
        assert set(header) == set(file.keys())
        assert all(list(header[n].shape) == file.get_slice(n).get_shape() for n in header)
        assert all(header[n].dtype == file.get_slice(n).get_dtype() for n in header)


def sharded(path: Path, weight_map: object) -> tuple[Path, Path]:
    write_tensors(path / "part-1.safetensors", {"a": (2,)})
    index = path / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return path, index


SHARDS: dict[str, tuple[object, str]] = {
    "missing shard": ({"a": "part-2.safetensors"}, "part-2.safetensors: no such file"),
    "tensor not in its shard": ({"z": "part-1.safetensors"}, "weight_map/z: shard part-1.safetensors has no"),
    "parent directory": ({"a": "../part-1.safetensors"}, "expected a file in"),
    "absolute path": ({"a": "/etc/passwd"}, "expected a file in"),
    "backslashes": ({"a": "..\\x"}, "expected a file in"),
    "dots": ({"a": ".."}, "expected a file in"),
    "a number": ({"a": 1}, "found 1, expected a file in"),
    "no object": (["a"], "weight_map: expected an object"),
}


@pytest.mark.parametrize("name", SHARDS)
def test_bad_index(name: str, tmp_path: Path) -> None:
    weight_map, message = SHARDS[name]
    draft = write(tmp_path / "draft", ZLAB)
    sharded(draft, weight_map)
    with pytest.raises(InputError, match="draft") as caught:
        resolve(write(tmp_path / "target", TARGET), draft)
    assert message in str(caught.value)


def test_shards_give_the_same_tensors_as_one_file(tmp_path: Path) -> None:
    target = write(tmp_path / "target", TARGET)
    shapes = {"model.embed_tokens.weight": (256, 64), "lm_head.weight": (256, 64)}
    for number, (name, shape) in enumerate(shapes.items()):
        write_tensors(target / f"part-{number}.safetensors", {name: shape})
    index = {"weight_map": {name: f"part-{i}.safetensors" for i, name in enumerate(shapes)}}
    (target / "model.safetensors.index.json").write_text(json.dumps(index))
    tensors = resolve(target, write(tmp_path / "draft", ZLAB)).target.tensors
    assert {name: ref.shape for name, ref in tensors.items()} == shapes
    assert tensors["lm_head.weight"].path.name == "part-1.safetensors"
