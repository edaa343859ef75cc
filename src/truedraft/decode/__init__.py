"""Decoding: packed batches, the cache protocol, the loop, sampling, verification. Knows no model family."""

from truedraft.decode.cache import KVCache
from truedraft.decode.drafts import DraftLaw, Drafts, Proposal
from truedraft.decode.feed import feed
from truedraft.decode.generation import Chunk, Generation
from truedraft.decode.loop import Decoder
from truedraft.decode.pass_times import PassTimes
from truedraft.decode.protocols import Batch, Cache, Drafter, Round, Target, TreeDrafter, ancestry
from truedraft.decode.sampling import GREEDY, Chance, Sampling, Seeded
from truedraft.decode.scripted import ScriptedDrafter
from truedraft.decode.scripted_tree import ScriptedTreeDrafter
from truedraft.decode.tree import Branching, Tree, grow, propose_trees, proposed_trees, ranked
from truedraft.decode.verify import Verdict, Verification, conclude, verify_greedy, verify_sampled
from truedraft.decode.walk import walk

__all__ = [
    "GREEDY",
    "Batch",
    "Branching",
    "Cache",
    "Chance",
    "Chunk",
    "Decoder",
    "DraftLaw",
    "Drafter",
    "Drafts",
    "Generation",
    "KVCache",
    "PassTimes",
    "Proposal",
    "Round",
    "Sampling",
    "ScriptedDrafter",
    "ScriptedTreeDrafter",
    "Seeded",
    "Target",
    "Tree",
    "TreeDrafter",
    "Verdict",
    "Verification",
    "ancestry",
    "conclude",
    "feed",
    "grow",
    "propose_trees",
    "proposed_trees",
    "ranked",
    "verify_greedy",
    "verify_sampled",
    "walk",
]
