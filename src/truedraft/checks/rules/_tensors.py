"""What the rules about tensors share: which tensors are meant, and many names in few words."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from truedraft.checks._subject import Subject
from truedraft.contract import Contract
from truedraft.formats import Checkpoint, expected
from truedraft.formats.layouts import DTYPES, INDEX_DTYPES, unused_tensors
from truedraft.formats.stage_layout import is_staged

Shape = tuple[int | None, ...]

TABLES = ("lm_head.weight", "embed_tokens.weight", "d2t")
"""Tensors with one row per id of a vocabulary; so have the two Markov tables."""

_MARKOV = re.compile(r"(mtp\.[0-9]+\.)?markov_head\.markov_w[12]\.weight")
_SCALES = (
    "scale", "scales", "weight_scale", "weight_scale_inv", "weight_scale_2", "weight_global_scale",
    "weight.absmax",
)  # fmt: skip
_STAND_INS = ("weight_packed", "qweight")
_HELPERS = (
    *_SCALES, *_STAND_INS, "input_scale", "input_global_scale", "weight_zero_point", "zero_point",
    "zero_points", "qzeros", "g_idx", "weight_g_idx", "weight_shape", "weight.quant_map",
)  # fmt: skip


def needed(subject: Subject) -> Mapping[str, Shape]:
    """Shapes of the tensors that the contract needs; empty without a contract or without weights."""
    contract = subject.contract
    return expected(contract) if contract is not None and subject.pair.draft.tensors else {}


def is_table(name: str) -> bool:
    """Whether a tensor has one row per id of a vocabulary."""
    return name in TABLES or _MARKOV.fullmatch(name) is not None


def is_plain(draft: Checkpoint, name: str) -> bool:
    """Whether a tensor holds the numbers themselves, floats or, for `d2t`, whole ones."""
    return draft.tensors[name].dtype in (INDEX_DTYPES if name == "d2t" else DTYPES)


def fits(found: Shape, wanted: Shape) -> bool:
    """Whether a shape is the wanted one, as far as that is settled."""
    return len(found) == len(wanted) and all(w in (None, f) for f, w in zip(found, wanted, strict=True))


def misshapen(subject: Subject) -> Mapping[str, Shape]:
    """Needed tensors of another shape than the contract implies, with the shape that it implies.

    Quantised ones are left out: packing changes the shape.
    """
    draft = subject.pair.draft
    return {
        name: wanted
        for name, wanted in needed(subject).items()
        if name in draft.tensors and is_plain(draft, name) and not fits(draft.tensors[name].shape, wanted)
    }


def misnamed(subject: Subject) -> Mapping[str, str]:
    """Unused tensors that are called like a missing one but for a prefix, by the missing name."""
    contract, draft = subject.contract, subject.pair.draft
    found: dict[str, str] = {}
    missing = {name for name in needed(subject) if name not in draft.tensors}
    for own in unused_tensors(contract, draft) if contract is not None and missing else ():
        parts = own.split(".")
        for start in range(1, len(parts)):
            if (name := ".".join(parts[start:])) in missing:
                found.setdefault(name, own)
    return found


def stand_in(draft: Checkpoint, name: str) -> str | None:
    """The packed tensor that a quantiser saved in place of `name`."""
    return next((n for n in _beside(name, _STAND_INS) if n in draft.tensors), None)


def scale_of(draft: Checkpoint, name: str) -> str | None:
    """The tensor that holds the scales of `name`."""
    return next((n for n in _beside(name, _SCALES) if n in draft.tensors), None)


def helpers(names: Iterable[str]) -> frozenset[str]:
    """Names that a quantiser may give to what belongs to these tensors."""
    return frozenset(helper for name in names for helper in _beside(name, _HELPERS))


def _beside(name: str, suffixes: Iterable[str]) -> Iterable[str]:
    return (f"{name.removesuffix('.weight')}.{suffix}" for suffix in suffixes)


def layer_of(name: str) -> int | None:
    """N of `layers.N.…` or of a stage `mtp.N.…`."""
    match = re.match(r"(?:layers|mtp)\.(0|[1-9][0-9]{0,5})\.", name)
    return None if match is None else int(match[1])


def layer_numbers(contract: Contract, draft: Checkpoint) -> frozenset[int]:
    """The draft layers, or stages, that have tensors."""
    prefix = layer_prefix(contract)
    numbers = (layer_of(name) for name in draft.tensors if name.startswith(prefix))
    return frozenset(number for number in numbers if number is not None)


def layer_prefix(contract: Contract) -> str:
    """What the names of a draft layer's tensors begin with, before its number."""
    return "mtp." if is_staged(contract) else "layers."


def pattern(name: str) -> str:
    """`layers.3.mlp.up_proj.weight` as `layers.N.mlp.up_proj.weight`."""
    return re.sub(r"\.[0-9]+(?=\.)", ".N", name)


def listed(names: Iterable[str], most: int = 4) -> str:
    """Distinct patterns of names: `a, b, c, d and 3 more`."""
    patterns = list(dict.fromkeys(pattern(name) for name in names))
    more = f" and {len(patterns) - most} more" if len(patterns) > most else ""
    return ", ".join(patterns[:most]) + more


def count_of(names: Collection[str]) -> str:
    """`1 tensor`, `5 tensors`."""
    return f"{len(names)} tensor" + ("" if len(names) == 1 else "s")


def label(names: Sequence[str]) -> str:
    """One name as it is, or `5 tensors (a, b)`."""
    return names[0] if len(names) == 1 else f"{count_of(names)} ({listed(names)})"


def shown(shape: Shape) -> str:
    """`[64, any]`."""
    return "[" + ", ".join("any" if n is None else str(n) for n in shape) + "]"


def weights_file(draft: Checkpoint) -> str:
    """The file that lists a draft's tensors."""
    single = all(ref.path.name == "model.safetensors" for ref in draft.tensors.values())
    return f"{draft.role}/model.safetensors" + ("" if single else ".index.json")
