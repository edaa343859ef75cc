"""From a block's hidden states to drafts: output head, Markov head, confidence head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

from truedraft.contract import Contract
from truedraft.decode.drafts import Drafts
from truedraft.models.head import Head, softcapped
from truedraft.models.sequence_head import MarkovHead


class Readout(Head):
    """Reads γ drafts off a block's slots.

    `weights`: canonical names to tensors. `target_head` [V, H]: used where `head.source` is `target`.
    """

    def __init__(self, contract: Contract, weights: Mapping[str, Tensor], target_head: Tensor) -> None:
        kind = contract.get("markov.kind") or "none"
        late = kind != "none" and contract.get("head.softcap_order") == "after_sequence_head"
        super().__init__(contract, weights, target_head, softcap=not late)
        self.contract = contract
        self.proposals: int = contract["block.proposals"]
        self.first_slot = 1 if contract["block.first_slot"] == "unused" else 0
        self.late_softcap: float | None = contract["head.softcap"] if late else None
        self.markov = MarkovHead(kind, weights) if kind != "none" else None
        self.has_confidence = (contract.get("confidence.input") or "none") != "none"
        self._confidence = weights["confidence_head.proj.weight"] if self.has_confidence else None
        has_bias = self.has_confidence and contract["confidence.bias"]
        self._confidence_bias = weights["confidence_head.proj.bias"] if has_bias else None

    def read(self, hidden: Tensor, anchors: Tensor, drafts: Drafts) -> tuple[Tensor, Tensor | None]:
        """Choose γ drafts per block from hidden [B, width, H] and the anchors' tokens [B].

        Returns the logits that they were chosen from [B, γ, draft ids] and their confidence [B, γ].
        """
        slots = hidden[:, self.first_slot : self.first_slot + self.proposals]
        logits = self.logits(slots)
        if self.markov is None:
            tokens = drafts.choose_all(logits)
        else:
            tokens, logits = self._walk(slots, logits, anchors, drafts)
        previous = torch.cat([anchors[:, None], tokens[:, :-1]], 1)
        return logits, self.confidence(slots, previous)

    def _walk(self, slots: Tensor, base: Tensor, anchors: Tensor, drafts: Drafts) -> tuple[Tensor, Tensor]:
        """Left to right through the Markov head: each slot is biased by the token chosen before it."""
        assert self.markov is not None
        state, previous = self.markov.start(len(anchors)), anchors
        follow = self.contract["markov.previous"] == "previous_token"
        tokens, corrected = [], []
        for k in range(self.proposals):
            logits, state = self.corrected(base[:, k], previous, slots[:, k], state)
            tokens.append(drafts.choose(logits))
            corrected.append(logits)
            previous = tokens[-1] if follow else anchors
        return torch.stack(tokens, 1), torch.stack(corrected, 1)

    def corrected(
        self, base: Tensor, previous: Tensor, hidden: Tensor, state: Tensor
    ) -> tuple[Tensor, Tensor]:
        """One slot's logits [B, draft ids] after the Markov head, and its next state."""
        assert self.markov is not None
        bias, state = self.markov.bias(previous, hidden, state)
        return self.biased(base, bias), state

    def biased(self, base: Tensor, bias: Tensor) -> Tensor:
        """Logits [..., draft ids] from those of `logits` and the Markov head's bias."""
        return softcapped(base + bias, self.late_softcap)

    def narrowed(self, rows: Tensor) -> Self:
        """As `Head.narrowed`, the Markov head's bias as well."""
        twin = super().narrowed(rows)
        twin.markov = None if self.markov is None else self.markov.narrowed(rows)
        return twin

    def confidence_logits(self, slots: Tensor, previous: Tensor) -> Tensor:
        """Confidence before the sigmoid [B, γ], from hidden [B, γ, H] and previous tokens [B, γ]."""
        assert self._confidence is not None
        inputs = slots
        if self.contract["confidence.with_markov"]:
            assert self.markov is not None
            inputs = torch.cat([slots, self.markov.embedding[previous]], -1)
        return F.linear(inputs, self._confidence, self._confidence_bias).squeeze(-1)

    def confidence(self, slots: Tensor, previous: Tensor) -> Tensor | None:
        """Expected acceptance of each draft in 0..1 [B, γ], or `None` without a confidence head."""
        return None if self._confidence is None else torch.sigmoid(self.confidence_logits(slots, previous))
