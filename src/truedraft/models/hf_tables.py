"""The two tables of a Hugging Face causal LM that drafters share."""

from __future__ import annotations

from typing import Any

from torch import Tensor


class HFTables:
    """Base of the target adapters around one transformers causal LM, `model`."""

    model: Any

    @property
    def embedding(self) -> Tensor:
        """Raw embedding table [V, H]."""
        table: Tensor = self.model.get_input_embeddings().weight
        return table

    @property
    def head(self) -> Tensor:
        """Output head [V, H]."""
        table: Tensor = self.model.get_output_embeddings().weight
        return table
