"""The pair that vLLM serves, read from its files by the native readers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from truedraft.contract import InputError
from truedraft.engines.vllm.settings import Settings
from truedraft.formats import Inspection, inspect, read_measured


@dataclass(frozen=True)
class Served:
    """Directories of the pair and K. `draft` is `None` where no drafter that truedraft reads is served."""

    target: Path
    draft: Path
    asked: int | None


METHODS = ("dflash", "dspark", "eagle3")
"""Methods of `config/speculative.py` whose drafters have a reader."""


def served(vllm_config: Any) -> Served | None:
    """The pair of a `VllmConfig`, `None` without such a drafter; `InputError` if its files are not here."""
    speculative = vllm_config.speculative_config
    if speculative is None or speculative.method not in METHODS:
        return None
    return of_speculative(speculative, vllm_config.model_config)


def of_speculative(speculative: Any, target: Any) -> Served:
    """As `served`, from the two configs."""
    draft = speculative.draft_model_config
    asked = speculative.num_speculative_tokens
    return Served(_directory(target), _directory(draft), None if asked is None else int(asked))


def _directory(model: Any) -> Path:
    """A directory as it is; of a hub id the snapshot that vLLM has loaded."""
    name = str(model.model)
    path = Path(name)
    if path.is_dir():
        return path
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, revision=model.revision, local_files_only=True))
    except Exception as error:
        raise InputError(f"{name}: no local snapshot, expected one in the hub's cache ({error})") from None


def native_pair(pair: Served, settings: Settings) -> Inspection:
    """The pair with the user's overrides and measured axes; raises `InputError` if it makes no contract."""
    found = inspect(pair.target, pair.draft, settings.overrides)
    if settings.measured is not None and found.contract is not None:
        measured = read_measured(settings.measured, found.contract)
        found = inspect(pair.target, pair.draft, settings.overrides, measured)
    if found.contract is None:
        raise found.refusal or InputError("the files make no contract")
    return found
