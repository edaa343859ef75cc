"""truedraft: run a speculative-decoding pair the way its drafter was trained.

    from truedraft import Decoder, load_pair, resolve

    pair = load_pair(resolve("tiny/dflash"))
    decoder = Decoder(pair.target, pair.drafter)
    prompt = pair.tokenizer("Return the ").input_ids
    generation = decoder.generate([prompt], max_new_tokens=64)[0]
    print(pair.tokenizer.decode(generation.tokens), generation.accepted)

`resolve` needs no torch; the other names import it when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0.dev0"

if TYPE_CHECKING:
    from truedraft.contract import (
        AcceptanceRecord,
        Contract,
        Deployment,
        InputError,
        TruedraftError,
        UndecidedError,
        acceptance,
        diff,
    )
    from truedraft.decode import Chunk, Decoder, Generation
    from truedraft.formats import Resolution, resolve
    from truedraft.measure import Prompt, RunReport, replay, run_pair
    from truedraft.models import Pair, load_pair, use_kernels

_HOMES = {
    "truedraft.contract": (
        "AcceptanceRecord",
        "Contract",
        "Deployment",
        "InputError",
        "TruedraftError",
        "UndecidedError",
        "acceptance",
        "diff",
    ),
    "truedraft.decode": ("Chunk", "Decoder", "Generation"),
    "truedraft.formats": ("Resolution", "resolve"),
    "truedraft.measure": ("Prompt", "RunReport", "replay", "run_pair"),
    "truedraft.models": ("Pair", "load_pair", "use_kernels"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "AcceptanceRecord",
    "Chunk",
    "Contract",
    "Decoder",
    "Deployment",
    "Generation",
    "InputError",
    "Pair",
    "Prompt",
    "Resolution",
    "RunReport",
    "TruedraftError",
    "UndecidedError",
    "__version__",
    "acceptance",
    "diff",
    "load_pair",
    "replay",
    "resolve",
    "run_pair",
    "use_kernels",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'truedraft' has no attribute {name!r}")
    try:
        return getattr(import_module(_HOME_OF[name]), name)
    except ModuleNotFoundError as error:
        if error.name in ("torch", "transformers", "safetensors"):
            raise ImportError(f"truedraft.{name} needs {error.name}: install the extra 'engine'") from error
        raise


def __dir__() -> list[str]:
    return sorted(__all__)
