"""The decoding loop: prefill, then rounds of draft, verify, commit, for a batch of sequences.

Plain decoding is the same loop with no drafter: every round verifies an empty draft.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from truedraft.contract import InputError
from truedraft.decode.drafts import DraftLaw, Proposal
from truedraft.decode.feed import feed
from truedraft.decode.generation import Chunk, Generation
from truedraft.decode.pack import pack_chains, pack_trees, row_positions
from truedraft.decode.pass_times import PassTimes
from truedraft.decode.protocols import Batch, Cache, Drafter, Round, Target
from truedraft.decode.sampling import GREEDY, Chance, Sampling, Seeded
from truedraft.decode.tree import Tree, proposed_trees
from truedraft.decode.tree_options import require_trees
from truedraft.decode.verify import RULES, Verdict, Verification, conclude, verify_greedy, verify_sampled
from truedraft.decode.walk import walk


@dataclass
class _Sequence:
    index: int
    generation: Generation
    limit: int
    target_id: int
    chance: Chance
    draft_chance: Chance
    draft_id: int = -1
    round: Round | None = None


class Decoder:
    """Speculative decoding of a batch of prompts through one target.

    `drafter=None` decodes plainly. `speculative_tokens`: K, drafts to verify per round (default: all that
    the drafter proposes; the block keeps its width). `keep_drafts` records every round's drafts.
    `confidence_threshold`: drop the drafts from the first one whose confidence is below it (0: off).
    `ignore_stop`: decode on past stop tokens. `tree_budget`: verify a tree of at most so many drafts per
    round instead of a chain; `speculative_tokens` is its largest depth then (`docs/families/ddtree.md`).

    `sampling`: the target's; the output has its law. `draft_sampling`: the drafter's (default: greedy).
    `verification`: `greedy` (default) goes with greedy `sampling` and no other; else a rule of
    `verify_sampled` (default: `standard`; for trees `exact_match`, and no other). `seed`: each prompt has two
    streams of randomness of its own, for target and drafter, so that its output depends neither on the batch
    nor, under `exact_match`, on the drafts. `chances`: replaces them, called with the prompt's index and
    `target` or `drafter`.

    `times` adds up what the rounds cost; set it anew to begin at zero.
    """

    def __init__(
        self,
        target: Target[Any],
        drafter: Drafter[Any] | None = None,
        *,
        speculative_tokens: int | None = None,
        keep_drafts: bool = False,
        confidence_threshold: float = 0.0,
        ignore_stop: bool = False,
        tree_budget: int | None = None,
        sampling: Sampling = GREEDY,
        draft_sampling: Sampling = GREEDY,
        verification: Verification | None = None,
        seed: int = 0,
        chances: Callable[[int, str], Chance] | None = None,
    ) -> None:
        self.target = target
        self.device = target.device
        self.drafter = drafter
        self.keep_drafts = keep_drafts
        self.confidence_threshold = confidence_threshold
        self.stop = frozenset() if ignore_stop else target.stop_token_ids
        offered = drafter.proposals if drafter else 0
        chain = speculative_tokens if tree_budget is None else None  # a tree's depth is checked below
        if chain is not None and not 0 <= chain <= offered:
            raise InputError(f"speculative tokens: found {chain}, expected 0 to {offered}")
        if not 0 <= confidence_threshold <= 1:
            raise InputError(f"confidence threshold: found {confidence_threshold}, expected 0 to 1")
        if confidence_threshold > 0 and drafter is not None and not drafter.has_confidence:
            raise InputError(
                f"confidence threshold: found {confidence_threshold}, expected 0: "
                "the drafter has no confidence head"
            )
        self.speculative_tokens = offered if speculative_tokens is None else speculative_tokens
        self.sampling, self.draft_sampling = sampling, draft_sampling
        sampled: Verification = "standard" if tree_budget is None else "exact_match"
        self.verification: Verification = (
            verification if verification is not None else "greedy" if sampling.greedy else sampled
        )
        if self.verification not in RULES:
            raise InputError(f"verification: found {verification!r:.80}, expected one of {', '.join(RULES)}")
        if sampling.greedy != (self.verification == "greedy"):
            wanted = "greedy" if sampling.greedy else "standard, block or exact_match"
            raise InputError(
                f"verification: found {self.verification}, expected {wanted} at temperature "
                f"{sampling.temperature:g}"
            )
        self.tree_budget = tree_budget
        self.tree_drafter = None
        if tree_budget is not None:
            self.tree_drafter = require_trees(
                tree_budget,
                self.speculative_tokens,
                offered,
                target,
                drafter,
                draft_sampling,
                self.verification,
                confidence_threshold,
            )
        self.times = PassTimes()
        self.chances = chances or (lambda index, use: Seeded(seed, index, use))

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        max_new_tokens: int,
        on_chunk: Callable[[Chunk], None] | None = None,
        *,
        first_index: int = 0,
    ) -> list[Generation]:
        """Decode all prompts to their end; `on_chunk` sees tokens as rounds finish.

        `first_index`: number of the first prompt among all that share the seed.
        """
        generations = [Generation(tuple(prompt)) for prompt in prompts]
        for chunk in self._run(generations, max_new_tokens, first_index):
            if on_chunk is not None:
                on_chunk(chunk)
        return generations

    def stream(self, prompt: Sequence[int], max_new_tokens: int) -> Iterator[tuple[int, ...]]:
        """Yield one prompt's tokens round by round."""
        for chunk in self._run([Generation(tuple(prompt))], max_new_tokens):
            yield chunk.tokens

    def _run(
        self, generations: list[Generation], max_new_tokens: int, first_index: int = 0
    ) -> Iterator[Chunk]:
        target_cache = self.target.new_cache()
        draft_cache = self.drafter.new_cache() if self.drafter else None
        active: list[_Sequence] = []
        for index, generation in enumerate(generations):
            sequence = self._open(index, generation, max_new_tokens, target_cache, draft_cache, first_index)
            with torch.inference_mode():  # not around the yields: the caller's code runs there
                token = self._prefill(sequence, target_cache)
            verdict = conclude((), 0, token, self.stop, sequence.limit)
            self._take(sequence, verdict, first=True)
            yield Chunk(index, verdict.tokens)
            if verdict.finish is None:
                active.append(sequence)
            else:
                self._close(sequence, target_cache, draft_cache)
        while active:
            with torch.inference_mode():
                verdicts = self._round(active, target_cache, draft_cache)
            yield from (Chunk(s.index, v.tokens) for s, v in zip(active, verdicts, strict=True))
            for sequence in [s for s, v in zip(active, verdicts, strict=True) if v.finish]:
                self._close(sequence, target_cache, draft_cache)
                active.remove(sequence)

    def _open(
        self,
        index: int,
        generation: Generation,
        max_new_tokens: int,
        target_cache: Cache,
        draft_cache: Cache | None,
        first_index: int,
    ) -> _Sequence:
        room = self.target.max_positions - len(generation.prompt)
        if not generation.prompt:
            raise InputError(f"prompt {index}: found no tokens, expected at least 1")
        if room < 1:
            raise InputError(
                f"prompt {index}: found {len(generation.prompt)} tokens, expected fewer than the target's "
                f"{self.target.max_positions} positions"
            )
        if max_new_tokens < 1:
            raise InputError(f"max_new_tokens: found {max_new_tokens}, expected at least 1")
        generation.started = time.time()
        sequence = _Sequence(
            index,
            generation,
            min(max_new_tokens, room),
            target_cache.open(),
            self.chances(first_index + index, "target"),
            self.chances(first_index + index, "drafter"),
        )
        if draft_cache is not None:
            sequence.draft_id = draft_cache.open()
        sequence.generation.finish = "length" if max_new_tokens <= room else "context"
        return sequence

    @staticmethod
    def _close(sequence: _Sequence, target_cache: Cache, draft_cache: Cache | None) -> None:
        target_cache.close(sequence.target_id)
        if draft_cache is not None:
            draft_cache.close(sequence.draft_id)

    def _prefill(self, sequence: _Sequence, cache: Cache) -> int:
        """Run the prompt; leaves the first round's context rows in `sequence.round`."""
        tokens = torch.tensor(sequence.generation.prompt, device=self.device)
        taps: list[Tensor] = []
        last = tokens
        for logits, features in feed(self.target, cache, sequence.target_id, tokens):
            taps.append(features)
            last = logits[-1]
            if not torch.isfinite(logits).all():
                raise _broken(sequence)
        if self.sampling.greedy:
            token = int(last.argmax(-1))
        else:
            token = sequence.chance.draw(self.sampling.law(last))
        choice = torch.tensor([token], device=self.device)
        sequence.round = Round(
            sequence.draft_id,
            torch.cat(taps),
            tokens,
            torch.cat([tokens[1:], choice]),
            0,
            choice[0],
            len(tokens),
            sequence.draft_chance,
        )
        return token

    def _round(
        self, active: list[_Sequence], target_cache: Cache, draft_cache: Cache | None
    ) -> list[Verdict]:
        began = time.perf_counter()
        settled = all(sequence.generation.proposed for sequence in active)  # no one's first round
        rounds = [sequence.round for sequence in active if sequence.round is not None]
        if self.drafter is not None and draft_cache is not None and self.drafter.needs_anchor_features:
            rounds = self._with_anchor_rows(active, rounds, target_cache, draft_cache)
        proposal = self._propose(rounds, draft_cache)
        ids = [sequence.target_id for sequence in active]
        rooms = [self.target.max_positions - 1 - turn.anchor_position for turn in rounds]
        trees: list[Tree] | None = None
        if proposal.parents is None:
            limits = zip(proposal.lengths, rooms, strict=True)
            counts = [min(self.speculative_tokens, length, room) for length, room in limits]
            batch = pack_chains(rounds, ids, proposal.tokens, counts)
        else:
            offered = zip(proposed_trees(proposal), rooms, strict=True)
            trees = [tree.within(min(self.speculative_tokens, room)) for tree, room in offered]
            counts = [len(tree.tokens) for tree in trees]
            batch = pack_trees(rounds, ids, trees)
        drafted = time.perf_counter()
        logits, taps = self.target.forward(batch, target_cache)
        inputs, choices = torch.stack([batch.tokens, logits.argmax(-1)]).tolist()
        sound = torch.isfinite(logits.amax(-1)).tolist()
        verdicts = []
        for b, sequence in enumerate(active):
            own = batch.rows_of(b)
            turn = rounds[b]
            drafts = inputs[own][1:]
            if trees is None:
                verdict = self._judge_chain(sequence, drafts, choices[own], logits[own], proposal.law(b))
                path: Sequence[int] = range(len(verdict.tokens))
                kept: slice | Tensor = slice(own.start, own.start + len(verdict.tokens))
            else:
                verdict, path = self._judge_tree(sequence, trees[b], choices[own], logits[own])
                kept = torch.tensor(path, device=self.device) + own.start
                sequence.generation.nodes.append(counts[b])
            if not all(sound[own.start + row] for row in path):  # rows off the path decide nothing
                raise _broken(sequence)
            target_cache.commit(sequence.target_id, path)
            following = torch.tensor(verdict.tokens, device=self.device)
            sequence.round = Round(
                sequence.draft_id,
                taps[kept],
                batch.tokens[kept],
                following,
                turn.anchor_position,
                following[-1],
                turn.anchor_position + len(path),
                sequence.draft_chance,
            )
            if self.keep_drafts:
                sequence.generation.drafts.append((turn.anchor_position, tuple(drafts)))
                if trees is not None:
                    sequence.generation.parents.append(trees[b].parents)
                elif proposal.confidence is not None:
                    sequence.generation.confidence.append(tuple(proposal.confidence[b, : counts[b]].tolist()))
            self._take(sequence, verdict)
            verdicts.append(verdict)
        if settled:
            self.times.add(len(active), len(batch.tokens), drafted - began, time.perf_counter() - drafted)
        return verdicts

    def _judge_chain(
        self, sequence: _Sequence, drafts: list[int], choices: list[int], logits: Tensor, law: DraftLaw | None
    ) -> Verdict:
        """What a chain adds to the output; `choices`, `logits`: the target's behind [anchor, drafts]."""
        if self.verification == "greedy":
            accepted, token = verify_greedy(drafts, choices)
        else:
            p_target = self.sampling.law(logits)
            accepted, token = verify_sampled(drafts, p_target, law, sequence.chance, self.verification)
        return conclude(drafts, accepted, token, self.stop, self._remaining(sequence))

    def _judge_tree(
        self, sequence: _Sequence, tree: Tree, choices: list[int], logits: Tensor
    ) -> tuple[Verdict, list[int]]:
        """What a tree adds to the output, and the rows of [anchor, nodes] that stay."""
        if self.verification == "greedy":
            nodes, token = walk(tree, lambda row: choices[row])
        else:
            nodes, token = walk(tree, lambda row: sequence.chance.draw(self.sampling.law(logits[row])))
        drafts = [tree.tokens[node] for node in nodes]
        verdict = conclude(drafts, len(nodes), token, self.stop, self._remaining(sequence), tree.depth)
        return verdict, [0, *(node + 1 for node in nodes)][: len(verdict.tokens)]

    def _with_anchor_rows(
        self, active: list[_Sequence], rounds: list[Round], target_cache: Cache, draft_cache: Cache
    ) -> list[Round]:
        """The rounds with the anchor's own features as last context row; costs a target forward."""
        anchors = torch.stack([turn.anchor_token for turn in rounds])
        batch = Batch(
            anchors,
            torch.cat([row_positions(turn, 1) for turn in rounds]),
            tuple(range(len(rounds) + 1)),
            tuple(sequence.target_id for sequence in active),
        )
        logits, taps = self.target.forward(batch, target_cache)
        following = logits.argmax(-1)
        out = []
        for b, turn in enumerate(rounds):
            have = draft_cache.length(turn.sequence)
            new, own = slice(have - turn.first_position, None), slice(b, b + 1)
            out.append(
                replace(
                    turn,
                    taps=torch.cat([turn.taps[new], taps[own]]),
                    tokens=torch.cat([turn.tokens[new], anchors[own]]),
                    next_tokens=torch.cat([turn.next_tokens[new], following[own]]),
                    first_position=have,
                )
            )
        return out

    def _propose(self, rounds: list[Round], cache: Cache | None) -> Proposal:
        if self.drafter is None or cache is None:
            nothing = torch.empty(len(rounds), 0, dtype=torch.int64, device=self.device)
            return Proposal(nothing, (0,) * len(rounds))
        if self.tree_drafter is not None and self.tree_budget is not None:
            return self.tree_drafter.propose_tree(rounds, cache, self.tree_budget, self.speculative_tokens)
        proposal = self.drafter.propose(rounds, cache, self.draft_sampling)
        if self.confidence_threshold <= 0 or proposal.confidence is None:
            return proposal
        sure = (proposal.confidence >= self.confidence_threshold).long().cumprod(-1).sum(-1)
        return proposal.shortened(sure.tolist())

    def _remaining(self, sequence: _Sequence) -> int:
        return sequence.limit - len(sequence.generation.tokens)

    def _take(self, sequence: _Sequence, verdict: Verdict, *, first: bool = False) -> None:
        generation = sequence.generation
        generation.tokens.extend(verdict.tokens)
        if not first:
            generation.proposed.append(verdict.proposed)
            generation.accepted.append(verdict.accepted)
        if verdict.finish == "stop":
            generation.finish = "stop"


def _broken(sequence: _Sequence) -> InputError:
    return InputError(f"prompt {sequence.index}: found NaN or infinite logits, expected a working target")
