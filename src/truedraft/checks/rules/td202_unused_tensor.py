"""A tensor of the checkpoint that no part of the drafter uses.

What it finds
    Tensors for which the contract has no operation: a norm, sinks, experts, a gate that the config does not
    ask for or that this family does not have. One finding per group of names. Rotary buffers are a note.
Why it matters
    A trainer does not save what its forward does not use. A tensor that nobody consumes is an operation that
    is missing at inference, or a file of another drafter.
In acceptance
    Lower at all positions, while the output stays right: 1.83 with captured features that are not normed,
    26 % and half the throughput with the shared experts skipped.
Example
    aux_norm.weight in a checkpoint whose loader claims the tensor and never applies it.
Fix
    State the option that the tensor belongs to (norm_before_fc, fc_norm, attention_sink_bias, …), or use an
    engine that knows the operation.
    vLLM 0.32 refuses unknown names ("There is no module or parameter named"), but skips input_norm silently
    where norm_before_fc is not stated. SGLang logs "unexpected weight" or skips without a word.
    llama.cpp: "Can not map tensor", or a count that differs ("expected 76, got 69").
References
    ROCmFPX#44, ROCmFPX#48 (F04), sglang#33312 (F25), ik_llama.cpp#2062, ik_llama.cpp#2048 (S79, S80)
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject
from truedraft.checks.rules._tensors import count_of, helpers, layer_of, misnamed, needed, pattern
from truedraft.contract import Contract
from truedraft.formats.layouts import unused_tensors

CODE = "TD202"
NAME = "unused-tensor"

_DECIDED_BY: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"layers\..+", ("backbone.layers",)),
    (r".+_proj\.bias", ("backbone.attention_bias",)),
    (r".+\.[qk]_norm\.weight", ("backbone.qk_norm",)),
    (r".+\.g_proj\.weight", ("attention.gate",)),
    (r"fc_norm\..+", ("fusion.tap_norm", "taps.layers")),
    (r"input_norm\..+", ("fusion.concat_norm",)),
    (r"markov_head\..+", ("markov.kind", "markov.rank")),
    (r"confidence_head\..+", ("confidence.input", "confidence.bias")),
    (r"d2t|t2d", ("head.vocabulary", "head.vocabulary_map")),
)
"""Tensors whose need depends on axes; where these are open, TD101 asks the question already."""

_BUFFER = re.compile(r".*rotary_emb\.inv_freq")


def check(subject: Subject) -> Iterator[Finding]:
    """Tensors without use, by group, without those that other rules tell of.

    Own tables are TD208's, further layers TD209's, scales TD205's, names under a prefix TD201's.
    """
    contract, draft = subject.contract, subject.pair.draft
    if contract is None:
        return
    layers = contract.get("backbone.layers") or 0
    told = helpers(needed(subject)) | set(misnamed(subject).values())
    groups: dict[str, list[str]] = {}
    for name in unused_tensors(contract, draft):
        beyond = (layer_of(name) or 0) >= layers
        table = name in ("embed_tokens.weight", "lm_head.weight")
        if not (beyond or table or name in told or _is_open(contract, name)):
            groups.setdefault(_group(name), []).append(name)
    for group, names in groups.items():
        buffer = all(_BUFFER.fullmatch(name) for name in names)
        kinds = {pattern(name) for name in names}
        label = next(iter(kinds)) if len(kinds) == 1 else f"{group}.*"
        yield Finding(
            code=CODE,
            severity="note" if buffer else "warning",
            confidence="likely",
            message=f"{_label(label, names)}: no part of a {contract.family} drafter of this contract uses it"
            + (" (a saved buffer)" if buffer else ""),
            where=draft.where_tensor(names[0]),
            found=label,
            expected="no such tensor",
            fix="" if buffer else "state the option that it belongs to, or use an engine that applies it",
            references=() if buffer else ("charlie12345/ROCmFPX#48", "sglang#33312"),
        )


def _is_open(contract: Contract, name: str) -> bool:
    unsettled = {conflict.axis for conflict in contract.conflicts} | set(contract.unknown)
    return any(
        re.fullmatch(shape, name) and any(axis in unsettled for axis in axes) for shape, axes in _DECIDED_BY
    )


def _group(name: str) -> str:
    """The module: two parts of the name, after `layers.N` or `mtp.N` if it begins so."""
    parts = pattern(name).split(".")
    return ".".join(parts[: 4 if parts[0] in ("layers", "mtp") else 2])


def _label(label: str, names: list[str]) -> str:
    return label if len(names) == 1 else f"{label} ({count_of(names)})"
