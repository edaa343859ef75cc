"""Decoding: packed batches, the cache protocol, the loop, verification. Knows no model family."""

from truedraft.decode.cache import KVCache
from truedraft.decode.feed import feed
from truedraft.decode.generation import Chunk, Generation
from truedraft.decode.loop import Decoder
from truedraft.decode.protocols import Batch, Cache, Drafter, Proposal, Round, Target, ancestry
from truedraft.decode.scripted import ScriptedDrafter
from truedraft.decode.verify import Verdict, verify_greedy

__all__ = [
    "Batch",
    "Cache",
    "Chunk",
    "Decoder",
    "Drafter",
    "Generation",
    "KVCache",
    "Proposal",
    "Round",
    "ScriptedDrafter",
    "Target",
    "Verdict",
    "ancestry",
    "feed",
    "verify_greedy",
]
