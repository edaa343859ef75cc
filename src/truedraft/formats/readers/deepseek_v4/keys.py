"""Where a DeepSeek-V4 config has its text model's keys, and what it says of the stages behind its layers."""

from __future__ import annotations

from truedraft.contract import Record
from truedraft.formats._checkpoint import Checkpoint
from truedraft.formats._keys import INTEGER, INTEGERS, NUMBER, OBJECT, TEXT, Keys, record
from truedraft.formats._nested import NestedKeys

_YARN = ("factor", "original_max_position_embeddings", "beta_fast", "beta_slow")


def text_keys(checkpoint: Checkpoint) -> Keys:
    """The keys of the text model: V4.1's stand below `text_config`."""
    keys = Keys(checkpoint)
    text = checkpoint.config.get("text_config")
    inside = isinstance(text, dict) and "num_hidden_layers" in text
    return _TextKeys(checkpoint, keys, "text_config") if inside else keys


class _TextKeys(NestedKeys):
    def unread(self) -> tuple[str, ...]:
        return self._keys.unread()


def is_v41(keys: Keys) -> bool:
    """Whether the text model is a V4.1, whose stages differ in more than their sizes."""
    return keys.get("model_type", TEXT) in ("deepseek_v41", "deepseek_v41_text")


def stage_count(keys: Keys) -> int | None:
    """Entries of `compress_ratios` behind those of the config's own layers; `None` if it does not say."""
    ratios, layers = keys.get("compress_ratios", INTEGERS), keys.get("num_hidden_layers", INTEGER)
    return None if ratios is None or layers is None or len(ratios) <= layers else len(ratios) - layers


def yarn(keys: Keys) -> Record | None:
    """The scaling of compressed layers, as `rope_scaling` or `rope_parameters/compress` state it."""
    for place in ("rope_scaling", "rope_parameters/compress"):
        if keys.has(place) and keys.get(place, OBJECT) is not None:
            fields = {name: keys.get(f"{place}/{name}", NUMBER) for name in _YARN}
            if fields["factor"] is not None and fields["original_max_position_embeddings"] is not None:
                return record("yarn", fields)
    return None
