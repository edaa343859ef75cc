"""Responses with their features on disk: safetensors files that appear whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from decoding import Response


def write_shard(folder: Path, responses: list[Response]) -> Path:
    """Write one file: `ids`, `prompt_lengths`, `lengths` (prompt and answer), `features`.

    `features` [rows, taps * hidden] has one row per sequence less than ids. The header holds the names, the
    file has the first of them: processes that answer different prompts do not meet.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{min(response.id for response in responses)}.safetensors"
    tensors = {
        "ids": torch.tensor([i for r in responses for i in (*r.prompt, *r.tokens)], dtype=torch.int32),
        "prompt_lengths": torch.tensor([len(r.prompt) for r in responses]),
        "lengths": torch.tensor([len(r.prompt) + len(r.tokens) for r in responses]),
        "features": torch.cat([r.features for r in responses]),
    }
    temporary = path.with_suffix(".new")
    save_file(tensors, str(temporary), metadata={"names": json.dumps([r.id for r in responses])})
    os.replace(temporary, path)
    return path


def shard_names(folder: Path) -> Iterator[str]:
    """Names of all prompts that were answered."""
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(str(path), "pt") as file:
            yield from json.loads(file.metadata()["names"])


def read_shard(path: Path) -> list[tuple[str, int, Tensor, Tensor]]:
    """(name, prompt length, ids [n], features [n - 1, taps * hidden]) of every sequence; features fp16."""
    with safe_open(str(path), "pt") as file:
        names = json.loads(file.metadata()["names"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    lengths = tensors["lengths"].tolist()
    ids = tensors["ids"].long().split(lengths)
    features = tensors["features"].split([length - 1 for length in lengths])
    return list(zip(names, tensors["prompt_lengths"].tolist(), ids, features, strict=True))
