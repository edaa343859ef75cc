"""The boots of an experiment, those that are missing: plain decoding first, then block by block."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from truedraft.contract import InputError
from truedraft.engines.vllm.experiment.arms import PLAIN_ARM, Treatment, blocks
from truedraft.engines.vllm.experiment.process import Boots
from truedraft.engines.vllm.experiment.result import BootResult, read_result
from truedraft.engines.vllm.experiment.setup import Setup

Progress = Callable[[int, int, str], None]

_EXAMINED = re.compile(r"fix: \d+ axes of the loaded drafter compared")


def run_boots(
    setup: Setup, boots: int, where: Boots, on_progress: Progress | None = None
) -> list[BootResult]:
    """All boots in their order, plain decoding (block 0) first; those with a result in `where` are kept.

    Raises `InputError` if a boot fails, if results are of another experiment, or if the plugin was not at
    work in an arm that fixes. What is complete by then stays, for the next call.
    """
    settings = setup.settings()
    todo = [(0, PLAIN_ARM), *blocks(setup.arms, boots, setup.seed)]
    found: dict[tuple[int, str], BootResult] = {}
    for block, arm in todo:
        path = where.directory / f"{name_of(setup, block, arm)}.json"
        if path.exists():
            found[block, arm.name] = _examined(read_result(path, settings, arm.name, block), arm, path)
    for done, (block, arm) in enumerate(todo):
        if on_progress is not None:
            on_progress(done, len(todo), f"boot {done + 1} of {len(todo)}: {arm.name}")
        if (block, arm.name) in found:
            continue
        name = name_of(setup, block, arm)
        path, log = where.directory / f"{name}.json", where.directory / f"{name}.log"
        where.run(name, setup.job(arm, block, path, log), setup.environment(arm))
        try:
            found[block, arm.name] = _examined(read_result(path, settings, arm.name, block), arm, path)
        except InputError:
            path.unlink(missing_ok=True)
            raise
    results = [found[block, arm.name] for block, arm in todo]
    _same_engine(results)
    _complete(setup, results)
    return results


def name_of(setup: Setup, block: int, arm: Treatment) -> str:
    """The files of a boot are called `0-plain`, `2-1-fix-taps`: block, place of the arm, arm."""
    if arm is PLAIN_ARM:
        return "0-plain"
    return f"{block}-{setup.arms.index(arm) + 1}-{re.sub('[^a-z0-9._]+', '-', arm.name.lower())}"


def _examined(result: BootResult, arm: Treatment, path: Path) -> BootResult:
    """`result`; raises `InputError` if the plugin had to fix something and did not look at the drafter."""
    if arm.fixes and not any(_EXAMINED.match(line) for line in result.said):
        why = f"it says: {result.said[-1]:.200}" if result.said else "is truedraft installed beside vLLM?"
        raise InputError(f"{path}: arm {arm.name} ran without the plugin's fix ({why})")
    return result


def _same_engine(results: list[BootResult]) -> None:
    """Boots before and after an upgrade are no boots of one engine. Left to itself, vLLM may decode plainly
    with another runner than with a drafter.
    """
    for what in ("versions", "device", "runner"):
        first, *others = (getattr(result, what) for result in results[what == "runner" :])
        other = next((value for value in others if value != first), None)
        if other is not None:
            raise InputError(
                f"boots differ in {what}: found {first} and {other}, expected one engine for all boots"
            )


def _complete(setup: Setup, results: list[BootResult]) -> None:
    wanted = [(number, prompt.id) for number in range(setup.repeat) for prompt in setup.prompts]
    for result in results:
        if [(request.number, request.prompt_id) for request in result.requests] != wanted:
            raise InputError(
                f"boot {result.block} of {result.arm}: found other requests than those asked for"
            )
