"""From the command line of `truedraft experiment` to its setup, checked before the first boot."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from truedraft.cli._progress import engine_imports
from truedraft.cli._prompts import gather, tokenize
from truedraft.contract import Contract, InputError
from truedraft.engines.vllm.experiment import Asked, Boots, Setup, Treatment, parse_arms
from truedraft.engines.vllm.pair import METHODS
from truedraft.formats import Resolution, read_measured, resolve
from truedraft.formats._json import parse_object

RESERVED = ("model", "speculative_config", "enable_prefix_caching", "disable_log_stats")
"""Arguments of `LLM` that the experiment sets itself."""


def boots_in(out: Path, given: Mapping[str, Any]) -> Boots:
    """Where boots run: an interpreter and an existing folder. Raises `InputError`."""
    python = given["python"]
    if python is None:
        if find_spec("vllm") is None:
            raise InputError("--python: this interpreter has no vLLM, expected one that has")
        python = sys.executable
    if shutil.which(python) is None:
        raise InputError(f"--python {python}: found no such program, expected the interpreter of vLLM")
    try:
        out.mkdir(exist_ok=True)
    except OSError as error:
        raise InputError(f"--out {out}: {error.strerror}, expected a folder in an existing one") from None
    return Boots(python, out.resolve(), given["boot_timeout"])


def setup_of(target: str, draft: str | None, given: Mapping[str, Any], quiet: bool) -> Setup:
    """The setup of an experiment. Raises `InputError` for whatever vLLM could not make sense of."""
    arms = parse_arms(given["arms"])
    _refuse_idle(arms, given["prefix_caching"])
    engine_args = _engine_args(given["engine_args"])
    pair = _pair(target, draft, given)
    contract = pair.contract
    if contract.family not in METHODS:
        raise InputError(f"a {contract.family} drafter, expected one of {', '.join(METHODS)}")
    entries, stated_tokens = gather(given["texts"], given["prompt_file"], target, draft)
    tokens = given["max_new_tokens"] or stated_tokens
    measured = given["measured"]
    return Setup(
        target=pair.target.directory.resolve(),
        draft=pair.draft.directory.resolve(),
        contract_hash=contract.hash,
        method=contract.family,
        k=(k := _k(given["speculative_tokens"], contract)),
        prompts=_prompts(entries, pair, tokens + k),
        max_new_tokens=tokens,
        arms=arms,
        runner=given["runner"],
        repeat=given["repeat"],
        prefix_caching=given["prefix_caching"],
        engine_args=engine_args,
        overrides=given["overrides"],
        measured=None if measured is None else measured.resolve(),
        seed=given["seed"],
    )


def _refuse_idle(arms: tuple[Treatment, ...], prefix_caching: bool) -> None:
    """Refuse arms that would show nothing, before they cost boots."""
    idle = next((arm for arm in arms if arm.without and not prefix_caching), None)
    if idle is not None:
        same = idle.name.partition("/")[0]
        raise InputError(
            f"--arms: found {idle.name}, expected --prefix-caching with it: without, it is the same as {same}"
        )


def _pair(target: str, draft: str | None, given: Mapping[str, Any]) -> Resolution:
    overrides, measured = given["overrides"], given["measured"]
    spaced = next((text for text in overrides if len(text.replace(";", " ").split()) != 1), None)
    if spaced is not None:
        raise InputError(f"--set {spaced:.80}: found a space or semicolon, expected AXIS=VALUE without them")
    pair = resolve(target, draft, overrides)
    if measured is None:
        return pair
    return resolve(target, draft, overrides, read_measured(measured, pair.contract))


def _k(asked: int | None, contract: Contract) -> int:
    k = asked or contract.get("block.proposals") or contract.get("chain.steps")
    if k is None:
        raise InputError("--k: the checkpoint does not say how many drafts it makes, expected a number")
    return int(k)


def _engine_args(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    found = parse_object(text.encode("utf-8", "replace"), "--engine-args")
    taken = next((name for name in RESERVED if name in found), None)
    if taken is not None:
        raise InputError(f"--engine-args: found {taken}, which the experiment sets itself")
    return found


def _prompts(entries: list[dict[str, Any]], pair: Resolution, room: int) -> tuple[Asked, ...]:
    """Prompts as token ids, with `room` for the output and a last round's drafts."""
    with engine_imports():
        from truedraft.models.load import load_tokenizer
    has_text = any("text" in entry for entry in entries)
    tokenizer = load_tokenizer(pair.target.directory) if has_text else None
    spec = pair.contract.target
    prompts = tokenize(entries, tokenizer, spec)
    names = [prompt.id for prompt in prompts]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"prompt {twice:.80}: found twice, expected every id once: prompts are paired by it")
    for prompt in prompts:
        if len(prompt.tokens) + room > spec.max_positions:
            raise InputError(
                f"prompt {prompt.id:.80}: {len(prompt.tokens)} tokens and {room} for output and drafts, "
                f"expected at most the target's {spec.max_positions} positions"
            )
    return tuple(Asked(prompt.id, prompt.tokens, prompt.category) for prompt in prompts)
