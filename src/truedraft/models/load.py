"""From a resolved pair on disk to a target, a drafter and a tokenizer in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from truedraft.contract import AXES, CHAIN_FAMILIES, Contract, InputError, UndecidedError
from truedraft.formats import Resolution, TensorRef, check_dtype
from truedraft.formats.layouts import DTYPES, INDEX_DTYPES
from truedraft.models.block import BlockDrafter
from truedraft.models.chain import ChainDrafter
from truedraft.models.head import target_ids
from truedraft.models.load_target import load_target_model, make_target, require_finite
from truedraft.models.quantised import quantised_error, refuse_quantised
from truedraft.models.support import refuse_unsupported
from truedraft.models.target import HFTarget
from truedraft.models.third_party import as_input_error, quiet

if TYPE_CHECKING:
    from truedraft.models.stateful import StatefulTarget

_TOKENIZERS = ("tokenizer.json", "tokenizer_config.json")


@dataclass(frozen=True)
class Pair:
    """A target and its drafter, wired as the contract says. `tokenizer` is `None` where there is none."""

    contract: Contract
    target: HFTarget | StatefulTarget
    drafter: BlockDrafter | ChainDrafter
    tokenizer: Any


def load_pair(
    resolution: Resolution,
    *,
    device: str = "cpu",
    dtype: torch.dtype = torch.float32,
    speculative_tokens: int | None = None,
) -> Pair:
    """Load a pair.

    `speculative_tokens`: length of a chain drafter's chains (default: what the checkpoint asks for); a block
    drafter always makes its whole block. Raises `UndecidedError` while a needed axis is unsettled,
    `InputError` for bad files.
    """
    refuse_unsettled(resolution.contract)
    refuse_unsupported(resolution.contract)
    model = load_model(resolution, device=device, dtype=dtype)
    tokenizer = load_tokenizer(resolution.target.directory)
    return pair_of_model(resolution, model, tokenizer, speculative_tokens=speculative_tokens)


def load_model(resolution: Resolution, *, device: str = "cpu", dtype: torch.dtype = torch.float32) -> Any:
    """The target of a pair as a transformers model. Raises `InputError` for weights that cannot be used."""
    if not any(resolution.draft.tensors):
        raise InputError(
            f"{resolution.draft.directory}: found no safetensors, expected the drafter's weights"
        )
    refuse_quantised(resolution)
    for name in resolution.target.tensors:
        check_dtype(resolution.target, name)
    return load_target_model(resolution.target.directory, dtype=dtype, device=device)


def pair_of_model(
    resolution: Resolution, model: Any, tokenizer: Any, *, speculative_tokens: int | None = None
) -> Pair:
    """The pair around a target that is in memory (`load_model`); otherwise as `load_pair`."""
    contract = resolution.contract
    refuse_unsettled(contract)
    refuse_unsupported(contract)
    with quiet(), as_input_error(resolution.target.directory):
        target = make_target(contract, model)
    weights = load_tensors(resolution.tensors, dtype=target.dtype, device=str(target.device))
    if "d2t" in weights:
        target_ids(contract, weights, resolution.draft.where_tensor("d2t"))
    drafter = make_drafter(contract, weights, target.embedding, target.head, speculative_tokens)
    return Pair(contract, target, drafter, tokenizer)


def make_drafter(
    contract: Contract,
    weights: Mapping[str, Tensor],
    target_embedding: Tensor,
    target_head: Tensor,
    speculative_tokens: int | None = None,
) -> BlockDrafter | ChainDrafter:
    """The drafter of a settled contract; arguments as those of the drafters' constructors."""
    with torch.inference_mode():
        if contract.family in CHAIN_FAMILIES:
            return ChainDrafter(contract, weights, target_embedding, target_head, speculative_tokens)
        return BlockDrafter(contract, weights, target_embedding, target_head)


def refuse_unsettled(contract: Contract) -> None:
    """Raise `UndecidedError` naming every unsettled axis and the `--set` that would settle it."""
    if not contract.unsettled:
        return
    clashes = {conflict.axis: conflict for conflict in contract.conflicts}
    parts = []
    for name in contract.unsettled:
        reason, remedy = f"{name} is unknown", AXES[name].remedy
        if name in clashes:
            reason, remedy = str(clashes[name]), clashes[name].remedy
        parts.append(f"{reason}; settle with {remedy}")
    raise UndecidedError("the contract is not settled: " + " | ".join(parts))


def load_tensors(
    references: Mapping[str, TensorRef], *, dtype: torch.dtype, device: str
) -> dict[str, Tensor]:
    """Tensors by canonical name, floating-point ones converted to `dtype`.

    Raises `InputError` on non-finite values and on quantised weights, which nothing here dequantises.
    """
    from safetensors import SafetensorError, safe_open

    for reference in references.values():
        if reference.dtype not in (*DTYPES, *INDEX_DTYPES):
            raise quantised_error(f"{reference.path}#{reference.name}", f"dtype {reference.dtype}")
    out: dict[str, Tensor] = {}
    for path in sorted({reference.path for reference in references.values()}):
        here = {name: ref for name, ref in references.items() if ref.path == path}
        try:
            with safe_open(path, framework="pt", device=device) as file:
                for name, ref in here.items():
                    tensor = (
                        file.get_slice(ref.name)[slice(*ref.rows)] if ref.rows else file.get_tensor(ref.name)
                    )
                    out[name] = tensor.to(dtype) if tensor.is_floating_point() else tensor
        except (SafetensorError, OSError) as error:
            raise InputError(f"{path}: {error}") from None
        for name, ref in here.items():
            require_finite(out[name], f"{path}#{ref.name}")
    return out


def load_tokenizer(directory: Path) -> Any:
    """The target's tokenizer, or `None` if the directory has none."""
    from transformers import AutoTokenizer

    if not any((directory / name).exists() for name in _TOKENIZERS):
        return None
    file = next(name for name in _TOKENIZERS if (directory / name).exists())
    with quiet(), as_input_error(directory / file, "a tokenizer that it can load"):
        return AutoTokenizer.from_pretrained(directory, local_files_only=True, trust_remote_code=False)


def encode(tokenizer: Any, text: str) -> list[int]:
    """Token ids of a text. Raises `InputError` if the text is no Unicode or the tokenizer fails on it."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise InputError("found a lone surrogate, expected Unicode text") from None
    with quiet(), as_input_error(Path(getattr(tokenizer, "name_or_path", "") or "tokenizer")):
        return [int(token) for token in tokenizer(text, verbose=False).input_ids]
