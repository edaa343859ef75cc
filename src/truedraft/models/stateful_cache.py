"""State of all sequences of a transformers model whose layers keep more than keys and values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from transformers import DynamicCache

from truedraft.contract import InputError
from truedraft.models.rewind import keep_first, linear_layers, rewindable
from truedraft.models.rewind_linear import listening
from truedraft.models.rewind_tree import follows_trees, keep_path, tree_masks


@dataclass
class _Sequence:
    """One sequence: its transformers cache, committed rows, and the last forward's rows if uncommitted.

    `parents`: those of the last forward if its rows form a tree.
    """

    cache: DynamicCache
    length: int = 0
    tentative: int = 0
    parents: tuple[int, ...] | None = None


class StatefulCache:
    """One rewindable transformers cache per sequence; the `Cache` protocol. `config`: the text model's."""

    def __init__(self, config: Any) -> None:
        self._config = config
        self._sequences: dict[int, _Sequence] = {}
        self._next_id = 0

    def open(self) -> int:
        """Start an empty sequence; returns its id."""
        self._sequences[self._next_id] = _Sequence(rewindable(self._config))
        self._next_id += 1
        return self._next_id - 1

    def close(self, sequence: int) -> None:
        """Forget a sequence and free its memory."""
        del self._sequences[sequence]

    def length(self, sequence: int) -> int:
        """Committed rows of a sequence."""
        return self._sequences[sequence].length

    def forward(
        self,
        model: Any,
        sequence: int,
        tokens: Tensor,
        positions: Tensor,
        parents: tuple[int, ...] | None,
        logit_rows: Tensor,
    ) -> Tensor:
        """Run rows [n] of one sequence tentatively; logits [len(logit_rows), V] of the asked ones.

        `parents` as in `Batch`. Rows that an earlier forward left uncommitted are dropped first. Raises
        `InputError` for a tree where the state has no rows to choose from.
        """
        if parents is not None and not follows_trees(self._config):
            raise InputError(
                f"target {self._config.model_type}: found a tree of drafts, expected a chain: "
                "its recurrent or compressed state cannot follow branches"
            )
        state = self._sequences[sequence]
        if state.tentative:
            self.commit(sequence, ())
        state.tentative, state.parents = len(tokens), parents
        options: dict[str, Any] = {}
        if parents is not None:
            options["attention_mask"] = tree_masks(state.cache, parents, positions, state.length, model.dtype)
        with listening() as heard:
            output = model(
                input_ids=tokens[None],
                position_ids=positions[None],
                past_key_values=state.cache,
                use_cache=True,
                # a tensor: for a number, Gemma4 runs its last layers on those rows only, and taps go short
                logits_to_keep=logit_rows,
                **options,
            )
        linear = linear_layers(state.cache)
        if len(heard) != len(linear):
            raise InputError(
                f"target {self._config.model_type}: heard {len(heard)} recurrences, expected {len(linear)}: "
                "another kernel runs in place of transformers' own"
            )
        for layer, recurrence in zip(linear, heard, strict=True):
            layer.last = recurrence
        logits: Tensor = output.logits[0]
        return logits

    def commit(self, sequence: int, rows: Sequence[int]) -> None:
        """Keep the tentative rows `rows` (indices from 0, increasing): a path from the root, its first rows.

        Raises `ValueError` for rows that are none.
        """
        state, kept = self._sequences[sequence], list(rows)
        if kept != sorted(set(kept)) or (kept and not 0 <= kept[0] <= kept[-1] < state.tentative):
            raise ValueError(f"commit needs increasing rows below {state.tentative}, found {kept}")
        if kept == list(range(len(kept))):
            keep_first(state.cache, state.tentative, len(kept))
        elif state.parents is not None:
            keep_path(state.cache, state.tentative, kept, state.length)
        else:
            raise ValueError(f"commit of a chain needs its first rows, found {kept}")
        state.length += len(kept)
        state.tentative, state.parents = 0, None
