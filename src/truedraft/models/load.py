"""From a resolved pair on disk to a target, a drafter and a tokenizer in memory."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from truedraft.contract import AXES, CHAIN_FAMILIES, Contract, InputError, TruedraftError, UndecidedError
from truedraft.formats import Resolution, TensorRef, check_dtype
from truedraft.formats.layouts import DTYPES, INDEX_DTYPES
from truedraft.models.block import BlockDrafter
from truedraft.models.chain import ChainDrafter
from truedraft.models.head import target_ids
from truedraft.models.support import refuse_unsupported
from truedraft.models.target import MODEL_TYPES, HFTarget


@dataclass(frozen=True)
class Pair:
    """A target and its drafter, wired as the contract says. `tokenizer` is `None` where there is none."""

    contract: Contract
    target: HFTarget
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
    contract = resolution.contract
    refuse_unsettled(contract)
    refuse_unsupported(contract)
    if not resolution.tensors:
        raise InputError(
            f"{resolution.draft.directory}: found no safetensors, expected the drafter's weights"
        )
    for name in resolution.target.tensors:
        check_dtype(resolution.target, name)
    directory = resolution.target.directory
    model = load_target_model(directory, dtype=dtype, device=device)
    stop_token_ids = frozenset(contract.target.stop_token_ids)
    with _quiet(), _as_input_error(directory):
        target = HFTarget(model, tuple(contract["taps.layers"]), stop_token_ids=stop_token_ids)
    weights = load_tensors(resolution.tensors, dtype=dtype, device=device)
    if "d2t" in weights:
        target_ids(contract, weights, resolution.draft.where_tensor("d2t"))
    drafter = make_drafter(contract, weights, target.embedding, target.head, speculative_tokens)
    return Pair(contract, target, drafter, load_tokenizer(directory))


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
            raise InputError(
                f"{reference.path}#{reference.name}: found dtype {reference.dtype} with scales, expected "
                f"{', '.join(DTYPES)}: export the drafter unquantised, nothing is dequantised here"
            )
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
            _require_finite(out[name], f"{path}#{ref.name}")
    return out


def _require_finite(weight: Tensor, where: str) -> None:
    if not torch.isfinite(weight).all():
        raise InputError(f"{where}: found NaN or infinite values, expected finite weights")


def load_target_model(directory: Path, *, dtype: torch.dtype, device: str) -> Any:
    """The target as a transformers model. Raises `InputError` if weights are missing, extra or misshapen."""
    from transformers import AutoConfig, AutoModelForCausalLM

    with _quiet(), _as_input_error(directory):
        config = AutoConfig.from_pretrained(directory, local_files_only=True, trust_remote_code=False)
    if config.model_type not in MODEL_TYPES:
        raise InputError(
            f"{directory}/config.json#/model_type: found {config.model_type!r}, "
            f"expected one of {', '.join(sorted(MODEL_TYPES))}"
        )
    _refuse_rope_that_follows_length(config, directory)
    if not any(directory.glob("*.safetensors")):
        raise InputError(f"{directory}: found no safetensors, expected the target's weights")
    with _quiet(), _as_input_error(directory):
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            directory,
            config=config,
            dtype=dtype,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            ignore_mismatched_sizes=True,  # reported below, in one line
            output_loading_info=True,
        )
    model, info = loaded
    for problem in ("mismatched_keys", "missing_keys", "unexpected_keys"):
        if info.get(problem):
            first = sorted(key if isinstance(key, str) else str(key[0]) for key in info[problem])[0]
            raise InputError(f"{directory}: {problem.replace('_', ' ')} in the weights, first: {first}")
    for name, weight in model.named_parameters():
        _require_finite(weight, f"{directory}#{name}")
    return model.to(device)


def _refuse_rope_that_follows_length(config: Any, directory: Path) -> None:
    """Such frequencies depend on how far a forward reaches, so that drafts would change earlier rows."""
    parameters = getattr(config, "rope_parameters", None) or {}
    nested = [entry for entry in parameters.values() if isinstance(entry, dict)]
    for entry in nested or [parameters]:
        if entry.get("rope_type") in ("dynamic", "longrope"):
            raise InputError(
                f"{directory}/config.json#/rope_parameters: found rope_type {entry['rope_type']!r}, expected "
                "one whose frequencies do not depend on the sequence length"
            )


def load_tokenizer(directory: Path) -> Any:
    """The target's tokenizer, or `None` if the directory has none."""
    from transformers import AutoTokenizer

    if not any((directory / name).exists() for name in ("tokenizer.json", "tokenizer_config.json")):
        return None
    with _quiet(), _as_input_error(directory):
        return AutoTokenizer.from_pretrained(directory, local_files_only=True, trust_remote_code=False)


def encode(tokenizer: Any, text: str) -> list[int]:
    """Token ids of a text. Raises `InputError` if the text is no Unicode or the tokenizer fails on it."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise InputError("found a lone surrogate, expected Unicode text") from None
    with _quiet(), _as_input_error(Path(getattr(tokenizer, "name_or_path", "") or "tokenizer")):
        return [int(token) for token in tokenizer(text, verbose=False).input_ids]


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep transformers' progress bars and load reports off the terminal."""
    from transformers.utils import logging as untyped

    logging: Any = untyped

    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(verbosity)
        logging.enable_progress_bar()


@contextlib.contextmanager
def _as_input_error(directory: Path) -> Iterator[None]:
    """Whatever a third-party loader raises on a user's files is one line about those files."""
    try:
        yield
    except (MemoryError, KeyboardInterrupt, TruedraftError):
        raise
    except Exception as error:
        reason = " ".join(str(error).split()) or "no reason given"
        kind = type(error).__name__
        raise InputError(f"{directory}: transformers cannot use it: {kind}: {reason:.300}") from None
