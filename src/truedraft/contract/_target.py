"""`TargetSpec`: what readers need to know of the target, without torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TargetSpec:
    """The target as its config describes it.

    `vocab_size`: rows of the embedding table. `embedding_scale`: factor that the target's own embedding
    module applies to raw rows (Gemma: sqrt(hidden size)); 1.0 elsewhere. `layer_kinds`: one entry per
    decoder layer (`full_attention`, `sliding_attention`, `linear_attention`, …). `where`: the file and
    pointer below which the text model's keys were read (`target/config.json#/text_config`).
    `special_token_ids`: ids that stand for no text, where the tokenizer was asked; they may be mask tokens.
    """

    model_type: str
    layers: int
    hidden_size: int
    vocab_size: int
    max_positions: int
    layer_kinds: tuple[str, ...]
    stop_token_ids: tuple[int, ...] = ()
    embedding_scale: float = 1.0
    tied_head: bool = False
    where: str = "target/config.json#"
    special_token_ids: tuple[int, ...] = ()
