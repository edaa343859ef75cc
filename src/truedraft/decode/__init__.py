"""Decoding: packed batches, the cache protocol, the loop, sampling, verification. Knows no model family."""

from truedraft.decode.cache import KVCache
from truedraft.decode.drafts import DraftLaw, Drafts, Proposal
from truedraft.decode.feed import feed
from truedraft.decode.generation import Chunk, Generation
from truedraft.decode.loop import Decoder
from truedraft.decode.protocols import Batch, Cache, Drafter, Round, Target, ancestry
from truedraft.decode.sampling import GREEDY, Chance, Sampling, Seeded
from truedraft.decode.scripted import ScriptedDrafter
from truedraft.decode.verify import Verdict, Verification, conclude, verify_greedy, verify_sampled

__all__ = [
    "GREEDY",
    "Batch",
    "Cache",
    "Chance",
    "Chunk",
    "Decoder",
    "DraftLaw",
    "Drafter",
    "Drafts",
    "Generation",
    "KVCache",
    "Proposal",
    "Round",
    "Sampling",
    "ScriptedDrafter",
    "Seeded",
    "Target",
    "Verdict",
    "Verification",
    "ancestry",
    "conclude",
    "feed",
    "verify_greedy",
    "verify_sampled",
]
