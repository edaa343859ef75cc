"""What the transformers library makes of a `config.json` before vLLM sees it, as far as drafters need it.

Stands in for `transformers.PreTrainedConfig` and its subclasses `Qwen3Config` and `LlamaConfig`
(transformers 5: `configuration_utils.py`, `modeling_rope_utils.py` `RotaryEmbeddingConfigMixin`,
`models/qwen3/configuration_qwen3.py`, `models/llama/configuration_llama.py`); a test compares it with them.
Every key that is read is noted, so that a key that a release ignores can be told from one that it misreads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

DEFAULT_THETA = 10000.0
_SCALED = ("llama3", "yarn", "longrope")

_QWEN3: dict[str, Any] = {
    "vocab_size": 151936,
    "hidden_size": 4096,
    "intermediate_size": 22016,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "head_dim": 128,
    "hidden_act": "silu",
    "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
    "rope_parameters": None,
    "attention_bias": False,
    "use_sliding_window": False,
    "sliding_window": 4096,
    "max_window_layers": 28,
    "layer_types": None,
}
_LLAMA: dict[str, Any] = {
    "vocab_size": 32000,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": None,
    "hidden_act": "silu",
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
    "rope_parameters": None,
    "attention_bias": False,
    "mlp_bias": False,
    "head_dim": None,
}
_ABSENT: Any = object()
_BASE: dict[str, Any] = {"architectures": None, "tie_word_embeddings": True}


class MissingKey(AttributeError):
    """The release asked a config for a key that the file does not have."""


class Noted(dict[str, Any]):
    """A nested object of a config that notes which of its keys are read, as pointers."""

    def __init__(self, entries: Mapping[str, Any], reads: set[str], path: str) -> None:
        self._reads, self._path = reads, path
        super().__init__({key: _noted(value, reads, f"{path}/{key}") for key, value in entries.items()})

    def _note(self, key: object) -> None:
        self._reads.add(f"{self._path}/{key}")

    def __getitem__(self, key: str) -> Any:
        self._note(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        """As `dict.get`, noted."""
        self._note(key)
        return super().get(key, default)

    def __contains__(self, key: object) -> bool:
        self._note(key)
        return super().__contains__(key)


class HfConfig:
    """A config as an object with attributes; subclasses have `reads`, where reads are noted."""

    model_type = ""
    reads: ClassVar[set[str]] = set()
    __dataclass_fields__: ClassVar[dict[str, object]] = {}

    def __init__(self, **keys: Any) -> None:
        kept, reads = self.__dict__, self.reads
        rope = keys.pop("rope_parameters", kept.get("rope_parameters", _ABSENT))
        if rope is not _ABSENT or (keys.get("rope_scaling") and keys.get("rope_theta")):
            kept["rope_parameters"] = None if rope is _ABSENT else rope
            self._convert_rope(keys)
        for name, value in keys.items():
            kept[name] = _noted(value, reads, f"/{name}")
        for name, value in _BASE.items():
            kept.setdefault(name, value)

    def __getattribute__(self, name: str) -> Any:
        keys = object.__getattribute__(self, "__dict__")
        if name in keys:
            type(self).reads.add(f"/{name}")
        return object.__getattribute__(self, name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        type(self).reads.add(f"/{name}")
        raise MissingKey(f"the config has no {name}")

    def to_dict(self) -> dict[str, Any]:
        """All keys."""
        return dict(self.__dict__)

    def update(self, keys: Mapping[str, Any]) -> None:
        """Transformers': set several."""
        self.__dict__.update(keys)

    def get_text_config(self, *args: object, **keywords: object) -> HfConfig:
        """Transformers': drafters have no other."""
        return self

    def _convert_rope(self, keys: dict[str, Any]) -> None:
        """Transformers' `convert_rope_params_to_dict`: takes the old spellings out of `keys`."""
        kept = self.__dict__
        record = keys.pop("rope_scaling", None) or kept["rope_parameters"] or {}
        kept["rope_parameters"] = rope = _noted(record, self.reads, "/rope_parameters")
        theta = keys.pop("rope_theta", kept.get("rope_theta", DEFAULT_THETA))
        share = keys.pop("partial_rotary_factor", kept.get("partial_rotary_factor"))
        for entry in _ropes(rope):
            entry.setdefault("rope_theta", theta)
            if share is not None:
                entry.setdefault("partial_rotary_factor", share)
        kept.setdefault("max_position_embeddings", keys.get("max_position_embeddings"))
        self.standardize_rope_params()

    def standardize_rope_params(self) -> None:
        """Transformers': completes `rope_parameters` with what flat keys state."""
        kept = self.__dict__
        theta, share = kept.get("rope_theta"), kept.get("partial_rotary_factor")
        if not (kept.get("rope_parameters") or theta):
            return
        kept["rope_parameters"] = rope = _noted(
            kept.get("rope_parameters") or {}, self.reads, "/rope_parameters"
        )
        for entry in _ropes(rope):
            entry.setdefault("rope_type", dict.get(entry, "type", "default"))
            entry.setdefault("rope_theta", theta)
            if share is not None:
                entry.setdefault("partial_rotary_factor", share)
            if dict.get(entry, "rope_type") in _SCALED:
                length = "original_max_position_embeddings"
                if length in kept:
                    entry[length] = kept[length]
                entry.setdefault(length, kept.get("max_position_embeddings"))

    def validate_rope(self) -> None:
        """Transformers': warns only."""


def config_class(reads: set[str]) -> type[HfConfig]:
    """The base of all configs of one run, which note what is read in `reads`."""
    return type("PreTrainedConfig", (HfConfig,), {"reads": reads})


def raw_config(config: Mapping[str, Any], base: type[HfConfig]) -> HfConfig:
    """The object that transformers makes of a config whose `model_type` is its own."""
    kind = config.get("model_type")
    keys = {"qwen3": _QWEN3, "llama": _LLAMA}.get(str(kind), {}) | dict(config)
    if kind == "qwen3":
        _qwen3(keys)
    if kind == "llama":
        keys["head_dim"] = keys["head_dim"] or keys["hidden_size"] // keys["num_attention_heads"]
        keys["num_key_value_heads"] = keys["num_key_value_heads"] or keys["num_attention_heads"]
    return base(**keys)


def _qwen3(keys: dict[str, Any]) -> None:
    """`Qwen3Config.__post_init__`: no window unless it is used; kinds of layers from `max_window_layers`."""
    if not keys["use_sliding_window"]:
        keys["sliding_window"] = None
    if keys["layer_types"] is None:
        first = keys["max_window_layers"] if keys["sliding_window"] is not None else keys["num_hidden_layers"]
        kinds = ("full_attention", "sliding_attention")
        keys["layer_types"] = [kinds[i >= first] for i in range(keys["num_hidden_layers"])]


def _ropes(rope: Noted) -> list[Noted]:
    """The records in it: one per kind of layer, or itself."""
    return [value for value in dict.values(rope) if isinstance(value, Noted)] or [rope]


def _noted(value: Any, reads: set[str], path: str) -> Any:
    if isinstance(value, Mapping) and not isinstance(value, Noted):
        return Noted(value, reads, path)
    return list(value) if isinstance(value, list) else value
