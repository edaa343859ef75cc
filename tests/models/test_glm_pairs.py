"""GLM-5 (glm_moe_dsa) with the drafters published for it, from directories; EAGLE-3 and draft trees on it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from founding_models import VOCABULARY
from founding_pairs import SMALL, published, resized, write_draft, write_target
from safetensors.torch import load_file
from test_founding_targets import COUNT, PROMPTS, check, run
from torch import Tensor

from truedraft import Decoder, load_pair, resolve
from truedraft.decode import ScriptedTreeDrafter
from truedraft.formats import locate
from truedraft.models import ChainDrafter, Pair, StatefulTarget

SPECULATORS = {
    "aux_hidden_state_layer_ids": [1, 2, 3, 4, 6],
    "draft_vocab_size": VOCABULARY,
    "markov_rank": 16,
    "mask_token_id": VOCABULARY - 1,
}


@dataclass(frozen=True)
class Convention:
    """A published drafter: what its slot 0 does, its drafts, the first row that they are read from."""

    name: str
    first_slot: str
    proposals: int
    first_row: int
    changes: dict[str, Any]


CONVENTIONS = (
    Convention(
        "RedHatAI__GLM-5.2-speculator.dspark.2026-07.partial", "unused", 7, 1, {"num_hidden_layers": 2}
    ),
    Convention(
        "RedHatAI__GLM-5.2-or-5.3-speculator.dspark.3layer.partial",
        "predicts_next",
        8,
        0,
        {"sliding_window": 12},
    ),
)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("glm") / "target"
    write_target(directory, "glm_moe_dsa", num_hidden_layers=6)
    return directory


@pytest.fixture(scope="module", params=CONVENTIONS, ids=[c.first_slot for c in CONVENTIONS])
def convention(request: pytest.FixtureRequest) -> Convention:
    found: Convention = request.param
    return found


@pytest.fixture(scope="module")
def root(convention: Convention, target: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the target and this convention's drafter."""
    directory = beside(target, tmp_path_factory.mktemp("dspark"))
    config = published(convention.name, SMALL | SPECULATORS | convention.changes, "transformer_layer_config")
    write_draft(directory / "draft", target, config)
    return directory


def beside(target: Path, directory: Path) -> Path:
    (directory / "target").symlink_to(target)
    return directory


def test_speculators_dspark_of_both_conventions(capsys: Any, convention: Convention, root: Path) -> None:
    contract = resolve(root / "target", root / "draft").contract
    assert contract["block.first_slot"] == convention.first_slot
    assert contract["block.proposals"] == convention.proposals
    assert contract["taps.layers"] == (0, 1, 2, 3, 5)
    check(capsys, root)


# ------------------------------------------------------------------- slots read one early or one late


@dataclass(frozen=True)
class FirstRound:
    """Of a pair's first round: the block's hidden states, the rows that the head was given, the drafts."""

    hidden: Tensor
    rows: Tensor
    tokens: list[int]
    anchor: int


def first_round(pair: Pair, prompt: list[int]) -> FirstRound:
    drafter: Any = pair.drafter
    blocks: list[Tensor] = []
    rows: list[Tensor] = []
    rounds: list[tuple[int, list[int]]] = []
    block, logits, propose = drafter.block, drafter.readout.logits, drafter.propose

    def seen_block(*arguments: Any) -> Tensor:
        blocks.append(block(*arguments))
        return blocks[-1]

    def seen_logits(slots: Tensor) -> Tensor:
        rows.append(slots)
        return logits(slots)

    def seen_propose(turns: Any, *arguments: Any) -> Any:
        proposal = propose(turns, *arguments)
        rounds.append((int(turns[0].anchor_token), proposal.tokens[0].tolist()))
        return proposal

    drafter.block, drafter.readout.logits, drafter.propose = seen_block, seen_logits, seen_propose
    Decoder(pair.target, drafter).generate([prompt], 2)
    anchor, tokens = rounds[0]
    return FirstRound(blocks[0][0], rows[0][0], tokens, anchor)


def by_hand(root: Path, rows: Tensor, anchor: int) -> list[int]:
    """Greedy drafts off these rows: the target's head and the vanilla Markov head, from the files."""
    head = load_file(root / "target" / "model.safetensors")["lm_head.weight"]
    draft = load_file(root / "draft" / "model.safetensors")
    first, second = (draft[f"markov_head.markov_w{n}.weight"] for n in (1, 2))
    tokens = [anchor]
    for row in rows:
        tokens.append(int((head @ row + second @ first[tokens[-1]]).argmax()))
    return tokens[1:]


def test_the_first_slot_decides_which_rows_are_drafts(convention: Convention, root: Path) -> None:
    """The other reading of slot 0 drafts from exactly the rows one off, behind the same context and block."""
    other = {"unused": "predicts_next", "predicts_next": "unused"}[convention.first_slot]
    override = (f"block.first_slot={other}",)
    right, wrong = (
        first_round(load_pair(resolve(root / "target", root / "draft", overrides)), PROMPTS[1])
        for overrides in ((), override)
    )
    shared = len(right.hidden)
    assert shared == 8
    # slots that an engine appends come behind these, and the drafter that gets some is causal
    torch.testing.assert_close(wrong.hidden[:shared], right.hidden, atol=1e-5, rtol=0)
    begin, count = convention.first_row, convention.proposals
    assert torch.equal(right.rows, right.hidden[begin : begin + count])
    assert torch.equal(wrong.rows, wrong.hidden[1 - begin : 1 - begin + count])
    assert right.anchor == wrong.anchor
    for read in (right, wrong):
        assert read.tokens == by_hand(root, read.rows, read.anchor)
    assert len(right.tokens) == len(wrong.tokens) == count
    assert wrong.tokens != right.tokens


# -------------------------------------------------------------------------------- other drafters, trees


def test_an_eagle3_chain(capsys: Any, target: Path, tmp_path: Path) -> None:
    """None is published for GLM-5: speculators' layout of the bundled head, with GLM's sizes."""
    root = beside(target, tmp_path)
    config = json.loads((locate("tiny/eagle3")[1] / "config.json").read_text())
    changes = {"draft_vocab_size": 200, "eagle_aux_hidden_state_layer_ids": [2, 3, 6]}
    changed = resized(config, SMALL | changes, "transformer_layer_config")
    write_draft(root / "draft", target, changed)
    pair = load_pair(resolve(target, root / "draft"))
    assert isinstance(pair.drafter, ChainDrafter)
    assert isinstance(pair.target, StatefulTarget)
    assert pair.contract["taps.layers"] == (1, 2, 5)
    assert pair.contract["head.vocabulary"] == 200
    report = run(capsys, root, ())
    assert (report["lossless"]["method"], report["lossless"]["identical"]) == ("greedy_identity", 3)
    assert all(max(record["proposed"]) == 5 for record in report["records"])
    plain = [generation.tokens for generation in Decoder(pair.target).generate(PROMPTS, COUNT)]
    assert [output["tokens"] for output in report["outputs"]] == plain


SHAPE = (-1, -1, 0, 0, 1, 2, 2, 4)
"""Parents of a tree most of whose paths are not consecutive rows."""


@pytest.mark.parametrize("convention", CONVENTIONS[1:], ids=["predicts_next"], indirect=True)
def test_draft_trees(capsys: Any, root: Path) -> None:
    """Trees of the drafter's own, then trees whose rounds end at every node in turn."""
    report = run(capsys, root, (), "--tree-budget", "12")
    assert report["deployment"]["tree_budget"] == 12
    assert {nodes for record in report["records"] for nodes in record["nodes"][:-1]} == {12}
    assert (report["lossless"]["method"], report["lossless"]["identical"]) == ("greedy_identity", 3)
    made = load_pair(resolve(root / "target", root / "draft")).target
    plain = [output["tokens"] for output in report["outputs"]]
    known = [prompt + tokens for prompt, tokens in zip(PROMPTS, plain, strict=True)]
    drafter = ScriptedTreeDrafter(
        known, 4, VOCABULARY, lambda _, __: SHAPE, lambda s, n: (n + 3 * s) % (len(SHAPE) + 1) - 1
    )
    runs = Decoder(made, drafter, tree_budget=len(SHAPE)).generate(PROMPTS, COUNT)
    assert [generation.tokens for generation in runs] == plain
    assert {count for generation in runs for count in generation.accepted} >= {0, 1, 2, 3}
