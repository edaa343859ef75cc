"""From one GGUF file to a Hugging Face directory: config, fp32 safetensors, tokenizer, chat template."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from truedraft.contract import InputError
from truedraft.fetch.gguf_config import Metadata, read_config
from truedraft.fetch.gguf_tokenizer import read_tokenizer
from truedraft.fetch.gguf_weights import Progress, weights_of

LIBRARIES = ("filelock", "gguf", "numpy", "safetensors", "tokenizers", "transformers")


def require_libraries() -> None:
    """Raise `InputError` unless everything that `convert` needs is installed."""
    missing = [name for name in LIBRARIES if find_spec(name) is None]
    if missing:
        raise InputError(f"fetch needs {', '.join(missing)}: install the extra 'fetch'")


def convert(gguf_file: Path, directory: Path, progress: Progress = lambda *_: None) -> None:
    """Write the model in `gguf_file` into `directory`, which exists and is empty.

    Raises `InputError` if the file is no GGUF of a supported model, or if a library is missing.
    """
    require_libraries()
    from gguf import GGUFReader
    from safetensors.numpy import save_file

    try:
        reader = GGUFReader(gguf_file)
    except Exception as error:  # numpy's and gguf's own, for whatever bytes there are
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{gguf_file}: not a GGUF file ({reason:.160})") from None
    metadata = Metadata(reader, gguf_file)
    tied = all(tensor.name != "output.weight" for tensor in reader.tensors)
    config = read_config(metadata, tied=tied)
    tokenizer = read_tokenizer(metadata)
    weights = weights_of(reader, config, gguf_file, progress)
    _write_json(directory / "config.json", config)
    ids = {key: config[key] for key in ("bos_token_id", "eos_token_id", "pad_token_id")}
    _write_json(directory / "generation_config.json", {"do_sample": False, **ids})
    tokenizer.save_pretrained(directory)
    save_file(weights, str(directory / "model.safetensors"), metadata={"format": "pt"})


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
