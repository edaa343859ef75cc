"""Would the tests of stateful targets notice? Each part of the rollback is disabled once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import test_stateful_targets as intact
from transformers.cache_utils import DynamicIndexedLayer, DynamicLayer, DynamicSlidingWindowLayer

from truedraft.decode import Decoder
from truedraft.models import rewind, rewind_linear
from truedraft.models.rewind_compressed import RewindHeavily, RewindSparse, _Journal
from truedraft.models.rewind_linear import RewindLinear, gated_delta_state


def compressed_part(*names: str) -> Callable[[Any], None]:
    """A layer of DeepSeek-V4 whose crop leaves these attributes as the forward made them."""

    def disable(patch: Any) -> None:
        whole = _Journal.crop

        def crop(self: Any, tokens_to_remove: int) -> None:
            found = {name: getattr(self, name) for name in names if hasattr(self, name)}
            left = {name: dict(v) if isinstance(v, dict) else v for name, v in found.items()}
            whole(self, tokens_to_remove)
            for name, value in left.items():
                setattr(self, name, value)

        patch.setattr(_Journal, "crop", crop)

    return disable


def no_rerun(patch: Any) -> None:
    """transformers' own rollback: convolution columns are cropped, the recurrent state is left."""
    patch.setattr(rewind, "rerun", lambda layers, rows, kept: None)


def one_row_short(patch: Any) -> None:
    def short(key: Any, value: Any, decay: Any, beta: Any, state: Any) -> Any:
        return gated_delta_state(key[:, :-1], value[:, :-1], decay[:, :-1], beta[:, :-1], state)

    patch.setattr(rewind_linear, "gated_delta_state", short)


def old_state(patch: Any) -> None:
    def unchanged(key: Any, value: Any, decay: Any, beta: Any, state: Any) -> Any:
        return gated_delta_state(key[:, :0], value[:, :0], decay[:, :0], beta[:, :0], state)

    patch.setattr(rewind_linear, "gated_delta_state", unchanged)


def convolution_kept(patch: Any) -> None:
    def crop(self: Any, tokens_to_remove: int) -> None:
        self.conv_states[0] = self.conv_states[0][..., -self.conv_kernel_size[0] :]

    patch.setattr(RewindLinear, "crop", crop)


def window_kept(patch: Any) -> None:
    """The window is cut to size behind the rejected rows instead of before them."""
    whole = DynamicSlidingWindowLayer.crop

    def crop(self: Any, tokens_to_remove: int) -> None:
        whole(self, 0)
        self.cumulative_length += tokens_to_remove

    patch.setattr(DynamicSlidingWindowLayer, "crop", crop)


def window_count_kept(patch: Any) -> None:
    whole = DynamicSlidingWindowLayer.crop

    def crop(self: Any, tokens_to_remove: int) -> None:
        count = self.cumulative_length
        whole(self, tokens_to_remove)
        self.cumulative_length = count

    patch.setattr(DynamicSlidingWindowLayer, "crop", crop)


def not_recorded(patch: Any) -> None:
    patch.setattr(DynamicSlidingWindowLayer, "activate_past_recording", lambda self: None)


def indexer_kept(patch: Any) -> None:
    patch.setattr(DynamicIndexedLayer, "crop", DynamicLayer.crop)


def no_crop(patch: Any) -> None:
    patch.setattr(DynamicLayer, "crop", lambda self, tokens_to_remove: None)


FAULTS: list[tuple[str, str, Callable[[Any], None]]] = [
    ("deepseek_v4", "window", compressed_part("keys", "values")),
    ("deepseek_v4_pro", "count", compressed_part("cumulative_length")),
    ("deepseek_v4", "buffers", compressed_part("buffer_kv", "buffer_gate")),
    ("deepseek_v4", "entries", compressed_part("compressed_kv", "entry_count")),
    ("deepseek_v4", "overlap", compressed_part("overlap_kv", "overlap_gate")),
    ("deepseek_v4", "window of ratio 0", window_kept),
    *((family, "recurrence", no_rerun) for family in ("qwen3_5", "qwen3_5_moe", "qwen3_next")),
    ("qwen3_5", "one row short", one_row_short),
    ("qwen3_5", "old state", old_state),
    ("qwen3_5", "convolution", convolution_kept),
    ("qwen3_5", "keys and values", no_crop),
    ("gpt_oss", "window", window_kept),
    ("gpt_oss", "window's count", window_count_kept),
    ("gpt_oss", "recording", not_recorded),
    ("gemma4_text", "window", window_kept),
    ("glm_moe_dsa", "indexer keys", indexer_kept),
    ("qwen3_moe", "keys and values", no_crop),
]


@pytest.mark.parametrize(("family", "part", "disable"), FAULTS, ids=[f"{f}: {p}" for f, p, _ in FAULTS])
def test_a_disabled_part_is_seen(family, part, disable, monkeypatch):
    """Both by decoding with every accepted length and by the error of the logits over random rounds."""
    wanted, slots = intact.known(family), [3, 0, None, 1, 4, 2]
    drafter = intact.scripted(family, lambda n: slots[n % 6])
    disable(monkeypatch)
    assert seen(lambda: intact.drift(family, 8) > 1e-2)

    def differs() -> bool:
        runs = Decoder(intact.target(family), drafter).generate(intact.PROMPTS, intact.COUNT)
        return [tuple(run.tokens) for run in runs] != list(wanted)

    assert seen(differs)


def seen(check: Callable[[], bool]) -> bool:
    """Whether a check fails, by its result or, where tensors no longer fit each other, by an error."""
    try:
        return check()
    except (RuntimeError, IndexError, ValueError):
        return True


def test_classes_are_those_that_run():
    """The parts above are disabled in the classes that the caches hold."""
    layers = rewind.rewindable(intact.small_model("deepseek_v4").config).layers
    kinds = [DynamicSlidingWindowLayer, RewindSparse, RewindHeavily, RewindSparse, RewindHeavily]
    assert [type(layer) for layer in layers] == kinds
