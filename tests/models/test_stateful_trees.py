"""Trees of drafts on targets whose caches hold separate rows. Oracle: transformers on each path's text."""

from __future__ import annotations

import pytest
import torch
from founding_models import VOCABULARY, small_model, text
from test_stateful_targets import TOLERANCE, rows, target, whole

from truedraft.contract import InputError
from truedraft.decode import Batch, Decoder, Sampling, ScriptedTreeDrafter
from truedraft.models import StatefulTarget

PARENTS = (-1, 0, 0, 1, 1, 2, 3, 5)
"""The anchor, then two children, … : four leaves, depth up to 4."""
TREE = text(len(PARENTS), seed=7)
FOLLOW = ("glm_moe_dsa", "qwen3_moe", "gpt_oss", "gemma4_text", "gemma4_moe")


def path(row: int) -> list[int]:
    """Rows from the root to a row."""
    return [] if row < 0 else [*path(PARENTS[row]), row]


def grown(family: str, length: int):
    """A target's cache with one sequence of `length` committed rows."""
    made = target(family)
    cache_ = made.new_cache()
    sequence = cache_.open()
    rows(made, cache_, sequence, text(length), 0)
    cache_.commit(sequence, range(length))
    return made, cache_, sequence


def run_trees(made, cache_, sequences, lengths):
    """Logits of the tree behind each sequence, in one batch."""
    count = len(PARENTS)
    depths = torch.tensor([len(path(row)) - 1 for row in range(count)])
    batch = Batch(
        torch.tensor(TREE * len(sequences)),
        torch.cat([depths + length for length in lengths]),
        tuple(range(0, count * len(sequences) + 1, count)),
        tuple(sequences),
        PARENTS * len(sequences),
    )
    with torch.inference_mode():
        return made.forward(batch, cache_)[0].split(count)


@pytest.mark.parametrize("length", [11, 50])
@pytest.mark.parametrize("family", FOLLOW)
def test_every_path_of_a_tree(family, length):
    """Logits along each path, and after keeping it, further rows: as if the path were the text."""
    tail = text(6, seed=8)
    for row in (2, 3, 4, 6, 7, -1):  # every leaf, two nodes above leaves, nothing
        made, cache_, sequence = grown(family, length)
        logits = run_trees(made, cache_, [sequence], [length])[0]
        kept = path(row)
        tokens = text(length) + [TREE[i] for i in kept]
        wanted = whole(family, (*tokens, *tail))
        torch.testing.assert_close(logits[kept], wanted[length : length + len(kept)], atol=TOLERANCE, rtol=0)
        cache_.commit(sequence, kept)
        assert cache_.length(sequence) == len(tokens)
        after = rows(made, cache_, sequence, tail, len(tokens))
        torch.testing.assert_close(after, wanted[len(tokens) :], atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("family", FOLLOW)
def test_trees_of_a_batch_and_a_tree_that_is_dropped(family):
    made, cache_, first = grown(family, 30)
    assert made.supports_trees
    second = cache_.open()
    rows(made, cache_, second, text(5), 0)
    cache_.commit(second, range(5))
    run_trees(made, cache_, [first], [30])
    for logits, length in zip(run_trees(made, cache_, [first, second], [30, 5]), (30, 5), strict=True):
        kept = path(7)
        wanted = whole(family, (*text(length), *(TREE[i] for i in kept)))
        torch.testing.assert_close(logits[kept], wanted[length:], atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("family", ["deepseek_v4", "qwen3_5", "qwen3_5_moe", "qwen3_next"])
def test_states_without_rows_refuse_trees_by_name(family):
    made, cache_, sequence = grown(family, 11)
    assert not made.supports_trees
    model_type = small_model(family).config.model_type
    with pytest.raises(InputError, match=f"target {model_type}: found a tree of drafts, expected a chain"):
        run_trees(made, cache_, [sequence], [11])
    assert cache_.length(sequence) == 11
    wanted = whole(family, tuple(text(11) + TREE))[11:]
    after = rows(made, cache_, sequence, TREE, 11)
    torch.testing.assert_close(after, wanted, atol=TOLERANCE, rtol=0)


SCRIPT = (-1, -1, 0, 0, 1, 2, 2, 4, 5, 8)
"""A tree with branches at every depth; most of its paths are not consecutive rows."""


@pytest.mark.parametrize(
    ("family", "sampling"),
    [
        *((family, None) for family in ("glm_moe_dsa", "gpt_oss", "gemma4_text", "qwen3_moe")),
        ("glm_moe_dsa", Sampling(0.8)),  # what is drawn does not depend on how a target keeps its state
    ],
    ids=lambda value: value if isinstance(value, str) else "sampled" if value else "greedy",
)
def test_scripted_trees_through_the_decoder(family, sampling):
    """A ragged batch whose rounds end at every node in turn: output as without drafts."""
    prompts = [text(length, seed=9) for length in (1, 15, 60)]
    options = {} if sampling is None else {"sampling": sampling, "seed": 5}
    target = StatefulTarget(small_model(family), (1,))
    plain = [list(run.tokens) for run in Decoder(target, **options).generate(prompts, 20)]
    known = [prompt + tokens for prompt, tokens in zip(prompts, plain, strict=True)]
    drafter = ScriptedTreeDrafter(
        known, 5, VOCABULARY, lambda s, n: SCRIPT, lambda s, n: (n % (len(SCRIPT) + 1)) - 1
    )
    runs = Decoder(target, drafter, tree_budget=len(SCRIPT), **options).generate(prompts, 20)
    assert [list(run.tokens) for run in runs] == plain
    assert {count for run in runs for count in run.accepted} >= {0, 1, 2, 3}
