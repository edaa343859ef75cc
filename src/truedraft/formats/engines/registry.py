"""All known releases. Adding one is an entry here, and a rule where it reads something anew."""

from __future__ import annotations

from truedraft.contract import InputError
from truedraft.formats.engines._types import Engine
from truedraft.formats.engines.llama_cpp import LLAMA_CPP
from truedraft.formats.engines.sglang import SGLANG
from truedraft.formats.engines.speculators import SPECULATORS
from truedraft.formats.engines.transformers import TRANSFORMERS
from truedraft.formats.engines.vllm import VLLM

ENGINES: tuple[Engine, ...] = (*VLLM, *SGLANG, *LLAMA_CPP, *TRANSFORMERS, *SPECULATORS)
"""Releases of one engine stand together, older ones first."""


def find_engines(text: str) -> tuple[Engine, ...]:
    """The releases that `NAME[:VERSION[:RUNNER]]` means, one per runner.

    A version may be shortened at a dot (`0.32` for 0.32.0) and stands for the newest that fits; without one
    the newest is meant. Without a runner all runners of that release are. Raises `InputError` that lists
    what is known if nothing fits.
    """
    name, _, rest = text.strip().lower().partition(":")
    version, _, runner = rest.partition(":")
    named = [engine for engine in ENGINES if engine.id.name == name]
    if not named:
        known = ", ".join(dict.fromkeys(engine.id.name for engine in ENGINES))
        raise InputError(f"--engine {text[:80]}: no such engine, expected one of {known}")
    fitting = [e for e in named if not version or f"{e.id.version}.".startswith(f"{version}.")]
    newest = fitting[-1].id.version if fitting else ""
    found = tuple(e for e in fitting if e.id.version == newest and runner in ("", e.id.runner))
    if not found:
        raise InputError(f"--engine {text[:80]}: this release is not known, {_near(named, version)}")
    return found


def _near(named: list[Engine], version: str) -> str:
    """The known releases on either side of a version, or all of them."""
    versions = list(dict.fromkeys(engine.id.version for engine in named))
    asked = _number(version)
    before = [v for v in versions if asked and (_number(v) or ()) < asked]
    after = [v for v in versions if asked and (_number(v) or ()) > asked]
    if (
        before
        and after
        and asked is not None
        and not any(f"{v}.".startswith(f"{version}.") for v in versions)
    ):
        return f"ask for its neighbours {before[-1]} and {after[0]}: what both do, it does too"
    runners = ", ".join(dict.fromkeys(engine.id.runner for engine in named if engine.id.runner != "-"))
    return f"expected one of {', '.join(versions)}" + (f" (runners {runners})" if runners else "")


def _number(version: str) -> tuple[int, ...] | None:
    parts = version.split(".")
    return tuple(int(p) for p in parts) if all(p.isdigit() and len(p) < 9 for p in parts) else None


def siblings(engine: Engine) -> tuple[Engine, ...]:
    """The other runners of the same release."""
    release = (engine.id.name, engine.id.version)
    return tuple(e for e in ENGINES if (e.id.name, e.id.version) == release and e is not engine)
