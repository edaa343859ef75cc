"""Answer the training prompts with the target and keep its features: python generate.py [COUNT [PART/PARTS]].

Continues where it stopped: prompts that are in a shard already are passed over. COUNT: how many prompts of
the list to answer in all (default: the whole list). PART/PARTS (1/2 and 2/2): every second prompt, so that
two processes share the work.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from typing import Any

import target as smollm2
from decoding import greedy
from settings import (
    CAPTURED,
    LONGEST_PROMPT,
    MAX_NEW_TOKENS,
    PROMPTS,
    SEQUENCES,
    SHARD_SEQUENCES,
    SHARDS,
)
from shards import shard_names, write_shard


def open_prompts(tokenizer: Any, mine: slice) -> Iterator[tuple[str, list[int]]]:
    """The prompts of this part of the list that have no answer yet and are not too long."""
    done = set(shard_names(SHARDS))
    for line in PROMPTS.read_text().splitlines()[mine]:
        entry = json.loads(line)
        if entry["id"] not in done:
            ids = smollm2.chat_ids(tokenizer, entry["text"])
            if len(ids) <= LONGEST_PROMPT:
                yield entry["id"], ids


def main() -> None:
    """Decode until the list is done; print one line per shard."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else None
    part, parts = map(int, sys.argv[2].split("/")) if len(sys.argv) > 2 else (1, 1)
    target, tokenizer = smollm2.load(CAPTURED)
    started, tokens = time.monotonic(), 0
    finished = []
    responses = greedy(
        target, open_prompts(tokenizer, slice(part - 1, count, parts)), SEQUENCES, MAX_NEW_TOKENS
    )
    for response in responses:
        finished.append(response)
        tokens += len(response.tokens)
        if len(finished) == SHARD_SEQUENCES:
            path = write_shard(SHARDS, finished)
            rate = tokens / (time.monotonic() - started)
            print(f"{path.name} {time.monotonic() - started:.0f}s {rate:.1f} tokens/s", flush=True)
            finished = []
    if finished:
        write_shard(SHARDS, finished)
    print("done", flush=True)


if __name__ == "__main__":
    main()
