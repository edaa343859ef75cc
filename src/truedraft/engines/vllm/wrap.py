"""Wraps the two methods of vLLM that the plugin needs, and lets nothing of its own escape them.

`WorkerWrapperBase` (`v1/worker/worker_base.py`) is what every executor calls `init_worker`, `init_device` and
`load_model` on, whatever the platform's worker and runner are. It passes `load_model` on by `__getattr__`.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from types import ModuleType
from typing import Any

from truedraft.engines.vllm.settings import Settings

LOG = logging.getLogger("vllm.truedraft")
_MARK = "_truedraft_wrapped"


class RefusedError(RuntimeError):
    """The live engine breaks the contract, and the user asked for a refusal."""


def guarded(action: Callable[[], None], doing: str) -> None:
    """Run our own code inside the host: only a refusal gets out, an error of ours becomes a line."""
    try:
        action()
    except RefusedError:
        raise
    except Exception as error:
        text = " ".join(str(error).split())
        LOG.warning(
            "truedraft could not %s (%s: %.300s); vLLM runs on without it", doing, type(error).__name__, text
        )
        LOG.debug("truedraft", exc_info=True)


def wrap_worker(module: ModuleType, settings: Settings) -> None:
    """Have each worker examined once its model is loaded."""

    def patch() -> None:
        wrapper: Any = module.WorkerWrapperBase
        if getattr(wrapper, _MARK, False):
            return
        inner = vars(wrapper).get("load_model")

        def load_model(self: Any, *args: Any, **kwargs: Any) -> Any:
            load = self.worker.load_model if inner is None else functools.partial(inner, self)
            result = load(*args, **kwargs)
            if settings.mode != "off":
                guarded(lambda: _examine(self, settings), "examine the loaded drafter")
            if settings.trace is not None:
                guarded(lambda: _trace(self, settings), "trace the loaded drafter")
            return result

        wrapper.load_model = load_model
        setattr(wrapper, _MARK, True)

    guarded(patch, "wrap the worker")


def _examine(wrapper: Any, settings: Settings) -> None:
    from truedraft.engines.vllm.session import examine

    examine(wrapper.vllm_config, wrapper.worker.model_runner, settings)


def _trace(wrapper: Any, settings: Settings) -> None:
    from truedraft.engines.vllm.session import vllm_version
    from truedraft.engines.vllm.tracing.start import start

    start(wrapper.vllm_config, wrapper.worker.model_runner, settings, vllm_version())


def wrap_arguments(module: ModuleType, settings: Settings) -> None:
    """Have the draft config mended before anything is built from it."""

    def patch() -> None:
        arguments: Any = module.EngineArgs
        if getattr(arguments, _MARK, False):
            return
        inner = arguments.create_speculative_config

        def create_speculative_config(self: Any, *args: Any, **kwargs: Any) -> Any:
            config = inner(self, *args, **kwargs)
            guarded(lambda: _mend(config, args, kwargs, settings), "mend the draft config")
            return config

        arguments.create_speculative_config = create_speculative_config
        setattr(arguments, _MARK, True)

    guarded(patch, "wrap the arguments")


def _mend(config: Any, args: tuple[Any, ...], kwargs: dict[str, Any], settings: Settings) -> None:
    from truedraft.engines.vllm.session import mend_config

    target = args[0] if args else kwargs["target_model_config"]
    mend_config(config, target, settings)
