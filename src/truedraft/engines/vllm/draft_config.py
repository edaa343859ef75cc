"""vLLM's draft config, as something to read and write by path. The only module that writes to it."""

from __future__ import annotations

from typing import Any


class DraftConfig:
    """`draft_model_config.hf_config`: attributes, some of which are dicts (`dflash_config/causal`).

    For raw checkpoints it is an `EAGLEConfig` that has copied the inner config's attributes, for speculators'
    a converted one (`transformers_utils/configs/`). Models, proposers and runners read only attributes.
    """

    def __init__(self, config: Any) -> None:
        self._config = config

    def get(self, path: str) -> Any:
        """The value at a path, `None` where there is none."""
        name, _, key = path.partition("/")
        found = getattr(self._config, name, None)
        if not key:
            return found
        return found.get(key) if isinstance(found, dict) else None

    def set(self, path: str, value: Any) -> None:
        """Write a value; `None` removes an entry of a dict."""
        name, _, key = path.partition("/")
        if not key:
            setattr(self._config, name, value)
            return
        inner = dict(getattr(self._config, name, None) or {})
        if value is None:
            inner.pop(key, None)
        else:
            inner[key] = value
        setattr(self._config, name, inner)
