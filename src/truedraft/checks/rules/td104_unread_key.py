"""A key of the draft config that no reader uses.

What it finds
    Keys that neither the contract nor the list of inert keys knows. Tensors that nothing uses are TD202.
Why it matters
    A key that its producer found worth writing may be a convention that a loader does not know: an offset, a
    norm, a window. Engines ignore unknown keys without a word.
In acceptance
    From nothing to a collapse: a captured-layer list that was ignored cost 0.47 to 0.00.
Example
    "attention_value_scale": 0.707 beside the keys of a plain DFlash.
Fix
    Find out what it means to its producer; remove it if it is a leftover (`chunk_size_feed_forward` and its
    like are known and not told). A misspelt key is told here too, beside the default that took its place.
References
    tokenspeed#526, vllm#31345, SpecForge#604 (F03, S88, S94 in the field log)
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject

CODE = "TD104"
NAME = "unread-key"

_KNOWN = (
    "block_size",
    "dflash_config",
    "draft_vocab_size",
    "is_causal",
    "layer_types",
    "mask_token_id",
    "markov_rank",
    "norm_before_residual",
    "num_hidden_layers",
    "partial_rotary_factor",
    "rope_parameters",
    "rope_scaling",
    "rope_theta",
    "sample_from_anchor",
    "sliding_window",
    "sliding_window_non_causal",
    "target_layer_ids",
)
"""Keys that decide conventions, for those who misspelt one."""


def check(subject: Subject) -> Iterator[Finding]:
    """Unread keys of config files; a close misspelling of a known key is named."""
    contract = subject.contract
    for where in () if contract is None else contract.unread_keys:
        file, _, pointer = where.partition("#")
        if not file.endswith(".json"):
            continue
        key = pointer.rpartition("/")[2]
        near = difflib.get_close_matches(key, _KNOWN, n=1, cutoff=0.85)
        hint, fix = "", "remove it, or find out what its producer meant"
        if near and near[0] == key:
            hint, fix = (
                ", a known key in a place where none looks for it",
                "move it to where its producer writes it",
            )
        elif near:
            hint, fix = f"; did its writer mean {near[0]}?", f"rename it to {near[0]}"
        yield Finding(
            code=CODE,
            severity="warning",
            confidence="likely" if near else "possible",
            message=f"no reader uses {pointer.lstrip('/')}{hint}",
            where=where,
            fix=fix,
        )
