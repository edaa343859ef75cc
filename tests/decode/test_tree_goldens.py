"""Trees, packed rows, masks and walks as the paper's own code makes them (`tests/data/goldens/ddtree`)."""

from __future__ import annotations

import json
from functools import cache

import pytest
import torch
from safetensors.torch import load_file

from conftest import GOLDENS
from truedraft.decode import KVCache, Round, Tree, ancestry, grow, ranked, walk
from truedraft.decode.pack import pack_trees
from truedraft.models.branching import SlotBranching
from truedraft.models.packed_attention import PackedAttention

CASE = GOLDENS / "ddtree"
ENTRIES = json.loads((CASE / "expect.json").read_text())["trees"]


@cache
def tensors() -> dict[str, torch.Tensor]:
    return load_file(CASE / "io.safetensors")


def named(entry, name):
    return tensors()[f"e{entry['entry']}.b{entry['budget']}.{name}"]


def grown(entry) -> Tree:
    logits = tensors()[f"logits{entry['entry']}"]
    return grow(SlotBranching(ranked(logits, entry["budget"])), entry["budget"], len(logits))


def ids(entry) -> str:
    return f"{entry['entry']}-{entry['budget']}"


@pytest.mark.parametrize("entry", ENTRIES, ids=ids)
def test_the_tree(entry):
    tree = grown(entry)
    assert list(tree.tokens) == entry["tokens"]
    assert [-1, *(parent + 1 for parent in tree.parents)] == entry["parents"]  # theirs count the anchor
    assert list(tree.depths) == entry["depths"]
    logs = tensors()[f"logits{entry['entry']}"].double().log_softmax(-1)
    paths: list[float] = []
    for token, parent, depth in zip(tree.tokens, tree.parents, tree.depths, strict=True):
        paths.append((paths[parent] if parent >= 0 else 0.0) + float(logs[depth - 1, token]))
    torch.testing.assert_close(
        torch.tensor(paths).double(), named(entry, "node_log_probs"), atol=1e-5, rtol=0
    )


@pytest.mark.parametrize("entry", ENTRIES, ids=ids)
def test_the_rows_that_the_target_sees(entry):
    nothing = torch.empty(0)
    start = entry["start"]
    turn = Round(0, nothing, nothing, nothing, 0, torch.tensor(entry["root_token"]), start)
    batch = pack_trees([turn], [0], [grown(entry)])
    assert torch.equal(batch.tokens, named(entry, "verify_input_ids")[0])
    assert torch.equal(batch.positions, named(entry, "verify_position_ids")[0])
    assert torch.equal(ancestry(batch.parents), named(entry, "visibility"))
    cache_ = KVCache(1, 1, 1)
    sequence = cache_.open()
    cache_.reserve(sequence, entry["past_length"])
    cache_.commit(sequence, range(entry["past_length"]))
    mask = PackedAttention.begin(batch, cache_).mask(0, None)
    assert torch.equal(mask, named(entry, "attention_mask")[0, 0] == 0)


@pytest.mark.parametrize("entry", ENTRIES, ids=ids)
def test_the_walk(entry):
    for number, wanted in enumerate(entry["walks"]):
        choices = named(entry, f"posterior{number}")[0].tolist()
        nodes, token = walk(grown(entry), choices.__getitem__)
        assert [0, *(node + 1 for node in nodes)] == wanted["accepted"]
        assert token == wanted["next_token"]
        path = [entry["root_token"], *(grown(entry).tokens[node] for node in nodes)]
        assert path == wanted["accepted_tokens"]
