"""A target's `config.json` as transformers' config object, and its refusals as lines that name the key."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from truedraft.contract import InputError
from truedraft.formats import load_object
from truedraft.models.third_party import as_input_error, quiet

_FIELD = re.compile(r"Validation error for field '(\w+)'")
_WANTED = re.compile(r"expected ([\w.]+), got (\w+)")
_RENAMED = {"rope_parameters": "rope_scaling"}
"""Fields that older configs call otherwise."""

_JSON = {
    "bool": "true or false",
    "dict": "an object",
    "float": "a number",
    "int": "a whole number",
    "list": "a list",
    "str": "a string",
    "NoneType": "null",
}


def load_config(directory: Path) -> Any:
    """The config. A whole number where transformers wants a float is the same number, and is made one.

    Raises `InputError` naming the key where transformers names its field, else the file.
    """
    raw = load_object(directory / "config.json")
    file = directory
    with TemporaryDirectory(prefix="truedraft-") as temporary:
        while True:
            with quiet(), as_config_error(directory):
                try:
                    return _parsed(file)
                except Exception as error:
                    if not _made_float(raw, error):
                        raise
            (Path(temporary) / "config.json").write_text(json.dumps(raw))
            file = Path(temporary)


@contextmanager
def as_config_error(directory: Path) -> Iterator[None]:
    """As `as_input_error`, for what transformers raises on a directory's `config.json`."""
    where = directory / "config.json"
    with as_input_error(where, "a config that it can build"):
        try:
            yield
        except Exception as error:
            line = _line(load_object(where), error, where)
            if line is None:
                raise
            raise InputError(line) from None


def _parsed(directory: Path) -> Any:
    from transformers import AutoConfig

    return AutoConfig.from_pretrained(directory, local_files_only=True, trust_remote_code=False)


def _made_float(raw: dict[str, Any], error: Exception) -> bool:
    """Whether the field that the error is about held whole numbers; they are floats now, at any depth."""
    field = _FIELD.search(str(error))
    if field is None or ("float", "int") not in _WANTED.findall(str(error)):
        return False
    places = [node for node in _objects(raw) if type(node.get(field[1])) is int]
    for node in places:
        node[field[1]] = float(node[field[1]])
    return bool(places)


def _objects(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.values():
        if isinstance(child, dict):
            yield from _objects(child)


def _line(raw: Mapping[str, Any], error: Exception, where: Path) -> str | None:
    """The error as a line about a key, if it names a field or is a value that was looked up in vain."""
    if (field := _FIELD.search(str(error))) is not None:
        pointer, found = _place(raw, field[1])
        types = dict.fromkeys(_JSON.get(kind, kind) for kind, _ in _WANTED.findall(str(error)))
        wanted = " or ".join(types) or "a value that transformers accepts"
        return f"{where}#/{pointer}: found {json.dumps(found):.80}, expected {wanted}"
    if isinstance(error, KeyError) and len(error.args) == 1:
        for pointer, value in _leaves(raw):
            if value == error.args[0] and type(value) is type(error.args[0]):
                found = f"found {value!r:.80}, expected a value that it knows"
                return f"{where}#/{pointer}: transformers cannot use it, {found}"
    return None


def _place(raw: Mapping[str, Any], field: str) -> tuple[str, Any]:
    """Pointer and value of a field: of the text model's where configs are nested."""
    names = [name for name in (field, _RENAMED.get(field)) if name is not None]
    text = raw.get("text_config")
    for prefix, node in (("text_config/", text if isinstance(text, dict) else {}), ("", raw)):
        for name in names:
            if name in node:
                return prefix + name, node[name]
    return field, None


def _leaves(node: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in node.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{key}/")
        elif isinstance(value, list):
            yield from ((f"{prefix}{key}/{number}", entry) for number, entry in enumerate(value))
        else:
            yield f"{prefix}{key}", value
