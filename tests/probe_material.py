"""The bundled target, its texts and their features, made once per process for all tests of the probe."""

from __future__ import annotations

import atexit
import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from truedraft.formats import evaluation_prompts, locate, resolve
from truedraft.models.load import load_model, load_tokenizer
from truedraft.probe import ProbeReport, Settings, Wiring
from truedraft.probe._run import investigate, tapped
from truedraft.probe.features import FeatureStore
from truedraft.probe.replay import Text
from truedraft.probe.sample import Look, Sample
from truedraft.probe.wiring import Wired

LAYERS, HIDDEN = 8, 128
TAPS = tuple((layer, "residual") for layer in range(-1, LAYERS))
DRAFTERS = (
    "dflash",
    "dflash-full",
    "dspark",
    "dflash-speculators",
    "dspark-bonus",
    "dspark-anchor",
    "eagle3",
)
SPECIAL = (0, 1, 2, 3, 4)
COUNT = 40
"""Tokens generated per prompt."""


@cache
def model() -> Any:
    return load_model(resolve("tiny/dflash"))


@cache
def prompts() -> tuple[tuple[int, ...], ...]:
    """The last 72 tokens of the first 14 stated prompts: longer than every window, and no longer."""
    tokenizer = load_tokenizer(resolve("tiny/dflash").target.directory)
    entries, _ = evaluation_prompts("tiny")
    return tuple(tuple(tokenizer(entry["text"]).input_ids[-72:]) for entry in entries[:14])


@cache
def everything() -> Sample:
    """A sample that has all texts, with the features of all layers."""
    target = tapped(resolve("tiny/dflash").contract, model(), TAPS)
    store = FeatureStore(TAPS, HIDDEN, 2**30)
    atexit.register(store.__exit__, None, None, None)
    sample = Sample(target, store, prompts(), COUNT, 0)
    sample.take(Look(0, len(prompts()), 0))
    return sample


def texts() -> list[Text]:
    return everything().texts


def features(index: int, wired: Wired) -> Any:
    """Features of a text as this drafter reads them."""
    return everything().store.get(index, wired.taps)


def wiring(draft: str | Path, *overrides: str, speculative_tokens: int | None = None) -> Wiring:
    """A bundled drafter, or a directory's, on the bundled target."""
    names = (f"tiny/{draft}", None) if isinstance(draft, str) else (TARGET, draft)
    out = Wiring(*names, overrides, SPECIAL, speculative_tokens)
    out.attach(*everything().tables)
    return out


@cache
def wired(draft: str, *overrides: str) -> Wired:
    return wiring(draft, *overrides).wire({})


def sample(count: int = 12, seed: int = 0) -> Sample:
    """A fresh sample of the first prompts; texts and features are those of `everything`."""
    whole = everything()
    out = Sample(whole.target, whole.store, prompts(), COUNT, seed)
    out.reuse(whole)
    out.prompts = prompts()[:count]
    return out


def probed(
    draft: str | Path, *overrides: str, axes: tuple[str, ...] = (), count: int = 12, **settings: Any
) -> ProbeReport:
    """Probe on the known texts."""
    given = Settings(axes=axes, **settings)
    return investigate(wiring(draft, *overrides), sample(count, given.seed), given)


TARGET, _ = locate("tiny")
assert TARGET is not None


def copied(name: str, directory: Path, change: Callable[[dict[str, Any]], Any] = lambda config: None) -> Path:
    """A copy of a bundled drafter whose config was changed."""
    source = locate(f"tiny/{name}")[1]
    shutil.copytree(source, directory)
    file = directory / "config.json"
    config = json.loads(file.read_text())
    change(config)
    file.write_text(json.dumps(config))
    return directory
