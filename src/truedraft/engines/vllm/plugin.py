"""The entry point: decides whether anything is patched, and patches as little as possible.

vLLM calls every function of the group in every process, possibly several times (`vllm/plugins/__init__.py`
`load_general_plugins`): in the front end, the engine core and each worker. Two methods are wrapped, both when
vLLM imports their module: `WorkerWrapperBase.load_model` (reads the live engine), and for `fix`
`EngineArgs.create_speculative_config` (edits the draft config before anything is built from it).
"""

from __future__ import annotations

import logging
import os
from types import ModuleType

from truedraft.engines.vllm.hook import when_imported
from truedraft.engines.vllm.settings import Settings, read_settings

LOG = logging.getLogger("vllm.truedraft")
"""Below vLLM's own logger, whose handlers and format it shares."""

_registered = False


def register() -> None:
    """Switch the plugin on as `TRUEDRAFT` says. Never raises; a second call does nothing."""
    global _registered
    if _registered:
        return
    _registered = True
    try:
        settings = read_settings(os.environ)
    except ValueError as error:
        LOG.warning("truedraft is off: %s", error)
        return
    if settings.mode != "off" or settings.trace is not None:
        _install(settings)


def _install(settings: Settings) -> None:
    def on_worker(module: ModuleType) -> None:
        from truedraft.engines.vllm.wrap import wrap_worker

        wrap_worker(module, settings)

    def on_arguments(module: ModuleType) -> None:
        from truedraft.engines.vllm.wrap import wrap_arguments

        wrap_arguments(module, settings)

    when_imported("vllm.v1.worker.worker_base", on_worker)
    if settings.mode == "fix":
        when_imported("vllm.engine.arg_utils", on_arguments)
