"""The tie rule on targets with more state: epsilon over row counts, and what is and is not a tie."""

from __future__ import annotations

import pytest
import torch
from founding_models import FAMILIES, small_model, text

from truedraft.measure import ties
from truedraft.measure.ties import is_tie, plausible_epsilon, row_count_epsilon
from truedraft.models import StatefulTarget

ROWS = 9


@pytest.mark.parametrize("family", FAMILIES)
def test_epsilon_over_row_counts_is_what_rounding_explains(family):
    target = StatefulTarget(small_model(family), (1,))
    tokens = text(36, seed=3)  # past the window and two chunks of 16
    epsilon, logits = row_count_epsilon(target, tokens, 1, ROWS)
    assert 0 <= epsilon < 5e-4
    assert epsilon < plausible_epsilon(logits, torch.float32)


@pytest.mark.parametrize("family", ["qwen3_5", "deepseek_v4", "glm_moe_dsa"])
def test_a_divergence_is_a_tie_only_within_twice_epsilon(family, monkeypatch):
    """As measured, the two top logits are far apart; were they closer than 2 epsilon, it would be a tie."""
    target = StatefulTarget(small_model(family), (1,))
    prompt = text(40, seed=4)
    tie, gap, epsilon = is_tie(target, prompt, [], 0, ROWS)
    assert (tie, gap > 2 * epsilon) == (False, True)
    small = (0.6 * gap, torch.tensor([[1e6, 1e6 - gap]], dtype=torch.float64))
    monkeypatch.setattr(ties, "row_count_epsilon", lambda *_: small)
    assert is_tie(target, prompt, [], 0, ROWS)[0]
