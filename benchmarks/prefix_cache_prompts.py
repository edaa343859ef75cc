"""Prompts that share prefixes, for `truedraft experiment --prefix-caching` (`docs/vllm.md`, Prefix cache).

    python benchmarks/prefix_cache_prompts.py tiny OUT.jsonl [--block 32]

Of every stated prompt of a bundled pair, two: `first`, four blocks of it and then another text; `shared`, the
same four blocks and the two tokens that follow in it, so that its continuation is text which the pair knows.
In a cache that `first` has filled, `shared` finds four blocks, the last row of which was written when another
token followed.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from truedraft.formats import evaluation_prompts, locate
from truedraft.models import encode
from truedraft.models.load import load_tokenizer

TAIL = 16
"""Tokens of another text behind the shared blocks."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("pair")
    parser.add_argument("out", type=Path)
    parser.add_argument("--block", type=int, default=32)
    given = parser.parse_args()
    directory, _ = locate(given.pair)
    assert directory is not None
    tokenizer, stated = load_tokenizer(directory), evaluation_prompts(given.pair)[0]
    shared = 4 * given.block
    texts = {prompt["id"]: encode(tokenizer, prompt["text"])[-shared - 2 :] for prompt in stated}
    names = [name for name, ids in texts.items() if len(ids) == shared + 2]
    with given.out.open("w") as file:
        for name, following in zip(names, [*names[1:], names[0]], strict=True):
            own, other = texts[name], texts[following]
            start = next(i for i, token in enumerate(other) if token != own[shared])
            first = own[:shared] + other[start : start + TAIL]
            for category, tokens in (("first", first), ("shared", own)):
                entry = {"id": f"{name} {category}", "category": category, "tokens": tokens}
                file.write(json.dumps(entry) + "\n")


if __name__ == "__main__":
    main()
