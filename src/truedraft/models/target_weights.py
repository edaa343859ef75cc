"""A target's model against the headers of its files: what is misshapen, missing, extra, or far too large.

transformers renames and fuses tensors as it loads them. Messages use the names of the files.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from truedraft.contract import InputError
from truedraft.formats import TensorRef

_SLACK = 2**20
"""Values that a model may hold beyond twice those of its files: what it ties, and tables that it builds."""

_EXPERT = re.compile(r"(?!mtp\.)(.+\.experts\.)([0-9]{1,5})\.(.+)")
"""Start, number and rest of the name of an expert's tensor; those of a drafter are in its contract."""


class FileNames:
    """From names in a loaded model to the tensors of its files.

    `model`: as transformers loaded it, which keeps the renamings that it has used. `stored`: the headers of
    `directory`, by name.
    """

    def __init__(self, model: Any, stored: Mapping[str, TensorRef], directory: Path) -> None:
        self.shapes = {name: tuple(weight.shape) for name, weight in model.state_dict().items()}
        self.directory = directory
        self._stored = stored
        self._steps: list[Any] = list(getattr(model, "_weight_conversions", None) or ())
        self._base = f"{getattr(model, 'base_model_prefix', '')}."
        self._sources: dict[str, list[TensorRef]] = {}
        for name, ref in stored.items():
            self._sources.setdefault(self._renamed(name), []).append(ref)

    def sources(self, name: str) -> list[TensorRef]:
        """The tensors of the files that become `name`; several where transformers fuses them."""
        return self._sources.get(name, [])

    def shown(self, name: str) -> str:
        """The name in the files, or, where none of them has it, the one that they would use."""
        sources = self.sources(name)
        if sources:
            return sources[0].name
        try:
            for step in reversed(self._steps):
                name = str(step.reverse_transform().rename_source_key(name)[0])
        except Exception:  # a private interface of transformers; its own name does as well
            return name
        return name

    @property
    def file(self) -> str:
        """Where tensors are listed: the file itself, or the index of several."""
        paths = {ref.path for ref in self._stored.values()}
        return str(paths.pop()) if len(paths) == 1 else f"{self.directory}/model.safetensors.index.json"

    def _renamed(self, name: str) -> str:
        new = name
        try:
            for step in self._steps:
                new = str(step.rename_source_key(new)[0])
        except Exception:  # as above
            return name
        for known in (new, self._base + new, new.removeprefix(self._base), name):
            if known in self.shapes:
                return known
        return new


def refuse_misfits(names: FileNames, info: Mapping[str, Any]) -> None:
    """Raise `InputError` for the first tensor that does not fit, and how many more there are.

    `info`: the loading info of `from_pretrained`.
    """
    if misshapen := sorted(info.get("mismatched_keys") or ()):
        name, found, wanted = misshapen[0]
        raise InputError(_misshapen(names.sources(name), name, found, wanted) + _more(misshapen))
    if missing := sorted(info.get("missing_keys") or ()):
        wanted = names.shapes.get(missing[0])
        shape = "one" if wanted is None else f"one of shape {list(wanted)}"
        label = names.shown(missing[0])
        raise InputError(f"{names.file}: no tensor {label}, expected {shape}{_more(missing)}")
    if extra := sorted(info.get("unexpected_keys") or ()):
        place = next(iter(names.sources(extra[0])), None)
        where = f"{names.file}#{extra[0]}" if place is None else f"{place.path}#{place.name}"
        raise InputError(f"{where}: found a tensor that the target's config has no use for{_more(extra)}")


def refuse_gaps(stored: Mapping[str, TensorRef]) -> None:
    """Raise `InputError` if an expert lacks a tensor that its neighbours have: they cannot be fused then."""
    tails: dict[str, set[str]] = {}
    numbers: dict[str, set[int]] = {}
    for name in stored:
        if (part := _EXPERT.fullmatch(name)) is not None:
            tails.setdefault(part[1], set()).add(part[3])
            numbers.setdefault(part[1], set()).add(int(part[2]))
    for start in sorted(tails):
        for number in sorted(numbers[start]):
            for tail in sorted(tails[start]):
                if (name := f"{start}{number}.{tail}") not in stored:
                    other = next(ref for own, ref in stored.items() if own.startswith(start))
                    raise InputError(f"{other.path}: no tensor {name}, expected one as its neighbours have")


def refuse_oversized(config: Any, stored: Mapping[str, TensorRef], directory: Path) -> None:
    """Raise `InputError` if the config asks for far more values than the files hold, before any is allocated.

    The model is built without storage. What transformers cannot build is left to the loading itself.
    """
    from transformers import AutoModelForCausalLM as Untyped

    layers = config.get_text_config(decoder=True).num_hidden_layers
    if layers > len(stored):  # building so many takes long, even without storage
        raise InputError(
            f"{directory}/config.json#/num_hidden_layers: found {layers}, expected layers for the "
            f"{len(stored)} tensors of the files"
        )
    models: Any = Untyped
    with torch.device("meta"):
        model = models.from_config(config, dtype=torch.float32)
    sizes = {name: tuple(weight.shape) for name, weight in model.state_dict().items()}
    implied = sum(map(math.prod, sizes.values()))
    held = sum(math.prod(ref.shape) for ref in stored.values())
    if implied <= 2 * held + _SLACK:
        return
    misfits = [name for name, shape in sizes.items() if name in stored and stored[name].shape != shape]
    if misfits:
        first = max(misfits, key=lambda name: math.prod(sizes[name]))
        raise InputError(
            _misshapen([stored[first]], first, stored[first].shape, sizes[first]) + _more(misfits)
        )
    largest = max(sizes, key=lambda name: math.prod(sizes[name]))
    raise InputError(
        f"{directory}/config.json: found sizes that imply {implied} values, {largest} {list(sizes[largest])} "
        f"among them, expected about the {held} that the files hold"
    )


def _misshapen(sources: list[TensorRef], name: str, found: Any, wanted: Any) -> str:
    place = f"{sources[0].path}#{sources[0].name}" if sources else name
    fused = f" (with the {len(sources) - 1} that are fused with it)" if len(sources) > 1 else ""
    return f"{place}: found shape {list(found)}{fused}, expected {list(wanted)}"


def _more(all_of_them: list[Any]) -> str:
    count = len(all_of_them) - 1
    return f" (and {count} more tensor{'s' if count > 1 else ''})" if count else ""
