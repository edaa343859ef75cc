"""The numbers of the draft layers' tensors are not 0, 1, 2, … up to the layers that there are.

What it finds
    A layer without any tensor between others (or at the beginning), and tensors of layers beyond those that
    the contract has. A count that differs from num_hidden_layers is TD101, unless an override settled it.
Why it matters
    Draft layers have two numbers: 0, 1, … in their files, and target layers + i where engines name caches and
    weights at runtime. Files saved under runtime numbers, or with a layer pruned, load with layers at random
    values; layers beyond the count are refused or skipped.
In acceptance
    Collapse with an uninitialised layer; all positions lower with a layer too few.
Example
    layers.36.* as the only layer of an EAGLE-3 head for a target of 36 layers.
Fix
    Number the layers of the file from 0. vLLM adds the target's layer count itself (start_layer_id); under
    pipeline parallelism it must be the whole model's. EAGLE-3's midlayer is layer 0 in every engine.
    TensorRT-LLM: num_eagle_layers is the number of layers, not max_draft_len.
References
    LMCache#1668 (S31), vllm-rbln#1006 (S96), TensorRT-LLM#15017 (S97), vllm#33330 (S63)
"""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.checks._finding import Finding, Severity
from truedraft.checks._subject import Subject
from truedraft.checks.rules._tensors import count_of, layer_numbers, layer_of, layer_prefix

CODE = "TD209"
NAME = "layer-numbers"


def check(subject: Subject) -> Iterator[Finding]:
    """The layers that have tensors against 0 … n-1."""
    contract, draft = subject.contract, subject.pair.draft
    if contract is None or not (present := layer_numbers(contract, draft)):
        return
    prefix, last = layer_prefix(contract), max(present)
    settled = all(conflict.axis != "backbone.layers" for conflict in contract.conflicts)
    count = contract.get("backbone.layers") if settled else None
    absent = sorted(set(range(max(last + 1, count or 0))) - present)
    if absent:
        lowest = min(present)
        shifted = lowest == contract.target.layers and len(present) == last - lowest + 1
        why = ", which is numbered as at runtime, behind the target's layers" if shifted else ""
        told = f"no tensors of {_span(prefix, absent)}, but of {_span(prefix, sorted(present))}{why}"
        yield _finding(subject, "error", told, f"{prefix}{last}.", _span(prefix, sorted(present)))
    beyond = [number for number in sorted(present) if count is not None and number >= count]
    if beyond and not absent:
        names = [n for n in draft.tensors if n.startswith(prefix) and (layer_of(n) or 0) in beyond]
        told = f"{count_of(names)} of {_span(prefix, beyond)}, but the drafter has only {count} of them"
        yield _finding(subject, "warning", told, f"{prefix}{last}.", _span(prefix, sorted(present)))


def _span(prefix: str, numbers: list[int]) -> str:
    """`layers.2`, `layers.0 to layers.35`, or the first few of them."""
    if len(numbers) > 1 and numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"{prefix}{numbers[0]} to {prefix}{numbers[-1]}"
    more = f" and {len(numbers) - 4} more" if len(numbers) > 4 else ""
    return ", ".join(f"{prefix}{number}" for number in numbers[:4]) + more


def _finding(subject: Subject, severity: Severity, message: str, layer: str, found: str) -> Finding:
    draft = subject.pair.draft
    return Finding(
        code=CODE,
        severity=severity,
        confidence="certain",
        message=message,
        where=draft.where_tensor(min(name for name in draft.tensors if name.startswith(layer))),
        axis="backbone.layers",
        found=found,
        expected="layers numbered from 0 without gaps, as many as the drafter has",
        fix="number the layers of the file from 0, and save all of them",
        references=("RBLN-SW/vllm-rbln#1006", "TensorRT-LLM#15017"),
    )
