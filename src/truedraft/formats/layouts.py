"""Which tensors a drafter needs, and their shapes, computed from its contract.

Canonical names are those of z-lab, DeepSpec and speculators checkpoints, which agree and have no prefix (the
state dicts of z-lab/dflash `model.py`, DeepSpec `modeling/{dspark,eagle3}`, and speculators
`models/{dflash,dspark,eagle3}/core.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from truedraft.contract import CHAIN_FAMILIES, Contract, InputError
from truedraft.formats._checkpoint import Checkpoint
from truedraft.formats._safetensors import TensorRef
from truedraft.formats._sizes import Dim, Sizes, plus, times
from truedraft.formats.stage_layout import is_staged, stage_tensors, unused_stage_tensors

DTYPES = ("F32", "F16", "BF16", "F64")
"""Tensor dtypes that models are loaded from."""

INDEX_DTYPES = ("I64", "I32")
"""Tensor dtypes of a table of ids."""

_ID_TABLES = ("d2t", "tid2eid")
"""Vocabulary map of a drafter; experts by token of DeepSeek-V4's first layers, in a target."""

_QUANTISED = ("F4", "F6_", "F8_", "I8", "U8")
"""How the dtypes begin in which no model is published unquantised."""

_SCALES = ("scale", "weight_scale", "weight_scale_inv")
"""What follows the module's name in that of the scales beside a quantised matrix of the same shape."""

_INERT = {"t2d"}
"""The inverse of `d2t`, which only training uses."""


def expected(contract: Contract) -> dict[str, tuple[Dim, ...]]:
    """Canonical tensor name -> shape, for every tensor that a drafter of this contract needs."""
    size = Sizes(contract)
    if is_staged(contract):
        return stage_tensors(contract, size, _markov(contract, size) | _confidence(size))
    hidden, vocabulary = size("backbone.hidden_size"), contract.target.vocab_size
    out: dict[str, tuple[Dim, ...]] = {"norm.weight": (hidden,)} | _fusion(contract, size)
    for index in range(size("backbone.layers") or 0):
        joined = index == 0 and contract.family in CHAIN_FAMILIES
        out |= {f"layers.{index}.{name}": dims for name, dims in _layer(size, joined).items()}
    gates, gated = size.settled("attention.gate") or (), (size("backbone.heads"), hidden)
    out |= {f"layers.{i}.self_attn.g_proj.weight": gated for i, gate in enumerate(gates) if gate != "none"}
    if contract.get("embedding.source") == "own":
        out["embed_tokens.weight"] = (vocabulary, hidden)
    if contract.get("head.source") == "own":
        out["lm_head.weight"] = (size("head.vocabulary"), hidden)
    if _mapped(contract):
        out["d2t"] = (size("head.vocabulary"),)
    return out | _markov(contract, size) | _confidence(size)


@dataclass(frozen=True)
class TensorFault:
    """A needed tensor that is `missing`, or has a `dtype` or a `shape` that the contract does not allow.

    `name`: its canonical name; `where`: the file and the name there, or the directory that lacks it.
    """

    kind: Literal["missing", "dtype", "shape"]
    name: str
    where: str
    found: str
    expected: str

    def __str__(self) -> str:
        if self.kind == "missing":
            return f"{self.where}: no tensor {self.name}, expected {self.expected}"
        return f"{self.where}: found {self.found}, expected {self.expected}"


def tensor_faults(contract: Contract, draft: Checkpoint) -> Iterator[TensorFault]:
    """What is wrong with the tensors that a drafter of this contract needs; none without weights."""
    if not draft.tensors:
        return
    for name, dims in expected(contract).items():
        if name not in draft.tensors:
            shown = f"one of shape {_show(dims)}"
            yield TensorFault("missing", name, str(draft.directory), "no such tensor", shown)
            continue
        where, found = draft.where_tensor(name), draft.tensors[name].shape
        if (fault := _dtype_fault(draft, name)) is not None:
            yield fault
        elif not any(_fits(shape, dims) for shape in _shapes(draft.tensors[name])):
            shown = _show(dims) + (_fused(contract) if name == "fc.weight" else "")
            yield TensorFault("shape", name, where, f"shape {list(found)}", shown)


def unused_tensors(contract: Contract, draft: Checkpoint) -> tuple[str, ...]:
    """Canonical names of the tensors that a drafter of this contract has no use for."""
    if is_staged(contract):
        return unused_stage_tensors(contract, expected(contract), draft.tensors)
    known = expected(contract).keys() | (_INERT if _mapped(contract) else set())
    return tuple(name for name in sorted(draft.tensors) if name not in known)


def map_tensors(contract: Contract, draft: Checkpoint) -> dict[str, TensorRef]:
    """Canonical name -> tensor, for what a drafter of this contract needs.

    A drafter without weights gives an empty mapping. Raises `InputError` if a needed tensor is missing or has
    another dtype or shape than the contract implies.
    """
    for fault in tensor_faults(contract, draft):
        clash = next((f"; but {c}" for c in contract.conflicts if c.axis == "backbone.layers"), "")
        raise InputError(f"{fault}{clash}")
    return {name: draft.tensors[name] for name in expected(contract)} if draft.tensors else {}


def check_dtype(checkpoint: Checkpoint, name: str) -> None:
    """Raise `InputError` unless a tensor holds plain floating-point numbers, or a table of ids whole ones.

    Integers and scale-less 8-bit floats are quantised weights; cast as they are they would be noise.
    """
    if (fault := _dtype_fault(checkpoint, name)) is not None:
        raise InputError(str(fault))


def is_quantised(checkpoint: Checkpoint, name: str) -> bool:
    """Whether a tensor's dtype is one of quantised weights; tables of ids never are."""
    return not _holds_ids(name) and checkpoint.tensors[name].dtype.startswith(_QUANTISED)


def _holds_ids(name: str) -> bool:
    return name.rsplit(".", 1)[-1] in _ID_TABLES


def _shapes(tensor: TensorRef) -> tuple[tuple[int, ...], ...]:
    """The shape as stored and, of 8-bit integers, that of the two 4-bit floats in each."""
    stored = tensor.shape
    if tensor.dtype not in ("I8", "U8") or not stored:
        return (stored,)
    return stored, (*stored[:-1], 2 * stored[-1])


def _fits(found: tuple[int, ...], dims: tuple[Dim, ...]) -> bool:
    return len(found) == len(dims) and all(d in (None, n) for d, n in zip(dims, found, strict=True))


def _dtype_fault(checkpoint: Checkpoint, name: str) -> TensorFault | None:
    found, allowed = checkpoint.tensors[name].dtype, INDEX_DTYPES if _holds_ids(name) else DTYPES
    if found in allowed or any(name.removesuffix("weight") + s in checkpoint.tensors for s in _SCALES):
        return None
    where = checkpoint.where_tensor(name)
    return TensorFault("dtype", name, where, f"dtype {found}", ", ".join(allowed))


def _fusion(contract: Contract, size: Sizes) -> dict[str, tuple[Dim, ...]]:
    hidden, fused = size("backbone.hidden_size"), size.fused()
    out: dict[str, tuple[Dim, ...]] = {"fc.weight": (hidden, fused)}
    if size.settled("fusion.output_norm"):
        out["hidden_norm.weight"] = (hidden,)
    if size.settled("fusion.concat_norm"):
        out["input_norm.weight"] = (fused,)
    if size.settled("fusion.tap_norm"):
        taps = range(len(contract.tuple_of("taps.layers")))
        out |= {f"fc_norm.{tap}.weight": (contract.target.hidden_size,) for tap in taps}
    return out


def _mapped(contract: Contract) -> bool:
    return contract.get("head.vocabulary_map") in ("offset", "absolute")


def _layer(size: Sizes, joined: bool) -> Mapping[str, tuple[Dim, ...]]:
    """`joined`: a chain's first layer, whose attention reads [embedding; feature], each with its own norm."""
    hidden, inner = size("backbone.hidden_size"), size("backbone.intermediate_size")
    head_dim, inputs = size("backbone.head_dim"), times(2, hidden) if joined else hidden
    query = times(size("backbone.heads"), head_dim)
    key = times(size("backbone.kv_heads"), head_dim)
    out: dict[str, tuple[Dim, ...]] = {
        "input_layernorm.weight": (hidden,),
        "post_attention_layernorm.weight": (hidden,),
        "self_attn.q_proj.weight": (query, inputs),
        "self_attn.k_proj.weight": (key, inputs),
        "self_attn.v_proj.weight": (key, inputs),
        "self_attn.o_proj.weight": (hidden, query),
        "mlp.gate_proj.weight": (inner, hidden),
        "mlp.up_proj.weight": (inner, hidden),
        "mlp.down_proj.weight": (hidden, inner),
    }
    if joined:
        out["hidden_norm.weight"] = (hidden,)
    if size.settled("backbone.qk_norm"):
        out |= {"self_attn.q_norm.weight": (head_dim,), "self_attn.k_norm.weight": (head_dim,)}
    if size.settled("backbone.attention_bias"):
        rows = {"q": query, "k": key, "v": key, "o": hidden}
        out |= {f"self_attn.{which}_proj.bias": (dim,) for which, dim in rows.items()}
    return out


def _markov(contract: Contract, size: Sizes) -> dict[str, tuple[Dim, ...]]:
    if contract.get("markov.kind") not in ("vanilla", "gated", "rnn"):
        return {}
    rank, hidden = size("markov.rank"), size("backbone.hidden_size")
    out: dict[str, tuple[Dim, ...]] = {
        "markov_head.markov_w1.weight": (contract.target.vocab_size, rank),
        "markov_head.markov_w2.weight": (size("head.vocabulary"), rank),
    }
    kind = size.settled("markov.kind")
    if kind == "gated":
        out |= {
            "markov_head.gate_proj.weight": (rank, plus(hidden, rank)),
            "markov_head.gate_proj.bias": (rank,),
        }
    if kind == "rnn":
        out |= {
            "markov_head.joint_proj.weight": (times(3, rank), plus(hidden, times(2, rank))),
            "markov_head.joint_proj.bias": (times(3, rank),),
        }
    return out


def _confidence(size: Sizes) -> dict[str, tuple[Dim, ...]]:
    if size.settled("confidence.input") not in ("post_norm", "pre_norm"):
        return {}
    width = size("backbone.hidden_size")
    with_markov = size.settled("confidence.with_markov")
    if with_markov is None:
        width = None
    elif with_markov:
        width = plus(width, size("markov.rank"))
    out: dict[str, tuple[Dim, ...]] = {"confidence_head.proj.weight": (1, width)}
    if size.settled("confidence.bias"):
        out["confidence_head.proj.bias"] = (1,)
    return out


def _fused(contract: Contract) -> str:
    taps, width = len(contract.tuple_of("taps.layers")), contract.target.hidden_size
    return f" (drafter width, {taps} taps x {width} of the target)"


def _show(dims: tuple[Dim, ...]) -> str:
    return "[" + ", ".join("any" if dim is None else str(dim) for dim in dims) + "]"
