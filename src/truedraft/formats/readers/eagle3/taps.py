"""Which layers an EAGLE-3 drafter reads: a key that producers fill and engines read differently.

`eagle_config.eagle_aux_hidden_state_layer_ids` are outputs of layers where SpecForge and ModelOpt train
(SpecForge a6b6b02 `resolve_eagle_capture_layers`, ModelOpt's forward hooks; SGLang adds 1 to capture at the
next layer's entry), and entries of layers where vLLM runs them (0.32 V1 takes them as they are). The same key
at the top level is an entry for all who write it (speculators, AngelSlim's export for vLLM).

Without ids SafeAILab captures at the entries 2, N//2, N-3 (`modeling_llama_kv.py`), which are SpecForge's and
ModelOpt's outputs 1, N//2-1, N-4; AngelSlim counts the embeddings as a layer (`target_model_wrapper.py`).
"""

from __future__ import annotations

from truedraft.contract import Sourced, family, inferred, stated
from truedraft.formats._book import AxisBook, integer
from truedraft.formats._checkpoint import Checkpoint
from truedraft.formats._keys import INTEGER, INTEGERS, Keys
from truedraft.formats.axes import common

NESTED = "eagle_config/eagle_aux_hidden_state_layer_ids"
TOP = "eagle_aux_hidden_state_layer_ids"
OUTPUTS = "aux_hidden_states_layer_ids"
"""AngelSlim's trainer: outputs of layers."""

_OUTPUTS_RULE = "SpecForge@a6b6b02 and ModelOpt: id n is the output of layer n"
_ENTRIES_RULE = "vLLM 0.32 V1: id n is the entry of layer n"
_DEFAULT = (
    "SafeAILab/EAGLE modeling_llama_kv.py, SpecForge@a6b6b02: entries 2, N//2, N-3 where no ids are given"
)
_ANGELSLIM = "Tencent/AngelSlim target_model_wrapper.py: outputs 1, (N+1)//2-1, N-3 without ids"

Ids = tuple[int, ...]


def read_eagle3_taps(book: AxisBook, keys: Keys, draft: Checkpoint, *, angelslim: bool) -> None:
    """Enter all `taps` axes; `angelslim`: the checkpoint may be that producer's.

    Where producers differ and nothing in the files settles it, the axis is in conflict.
    """
    claims = [claim for claim in (_ids(keys, OUTPUTS),) if claim is not None]
    top = _ids(keys, TOP)
    if top is not None:
        claims.append(_shifted(top))
    nested = _ids(keys, NESTED)
    if nested is not None:
        claims += _nested(book, nested, claims)
    default: Sourced | None = None
    note = ""
    if not claims:
        claims, default, note = _defaults(book, keys, draft, angelslim)
    common.enter_taps(book, claims, default, note=note)


def _ids(keys: Keys, pointer: str) -> Sourced | None:
    """What a key states; an empty list is ModelOpt's way to ask for the default."""
    claim = keys.claim(pointer, INTEGERS)
    return claim if claim is not None and claim.value else None


def _shifted(claim: Sourced) -> Sourced:
    """Entries as outputs of the layers before."""
    return Sourced("value", tuple(n - 1 for n in _whole(claim)), claim.source, claim.note)


def _whole(claim: Sourced) -> Ids:
    return tuple(integer(n) for n in claim.value) if isinstance(claim.value, tuple) else ()


def _nested(book: AxisBook, claim: Sourced, settled: list[Sourced]) -> list[Sourced]:
    """The readings of the nested ids that the target allows and the other keys do not rule out."""
    where = claim.source.where if claim.source else NESTED
    ids, layers = _whole(claim), book.target.layers
    outputs, entries = stated(ids, where), stated(tuple(n - 1 for n in ids), where)
    agreed = [reading for reading in (outputs, entries) if any(reading.value == s.value for s in settled)]
    if agreed:
        return agreed[:1]
    possible = [r for r in (outputs, entries) if all(-1 <= tap < layers for tap in _whole(r))]
    if len(possible) != 2 or settled:
        return possible[:1] or [outputs]
    if ids == _default_outputs(layers):
        return [inferred(ids, f"{where}: equal to the outputs that SpecForge and ModelOpt take by default")]
    if entries.value == _default_outputs(layers):
        return [inferred(entries.value, f"{where}: equal to the entries that vLLM takes by default")]
    return [
        family(ids, f"{where} by {_OUTPUTS_RULE}"),
        family(entries.value, f"{where} by {_ENTRIES_RULE}"),
    ]


def _default_outputs(layers: int) -> Ids:
    return (1, layers // 2 - 1, layers - 4)


def _defaults(
    book: AxisBook, keys: Keys, draft: Checkpoint, angelslim: bool
) -> tuple[list[Sourced], Sourced | None, str]:
    layers = book.target.layers
    ids = _default_outputs(layers)
    note = f"draft/config.json states no {TOP}"
    for count, where in _counts(book, keys, draft):
        if count != len(ids):
            return [], None, f"{note}, and {where} asks for {count} taps, not the default three"
    if len(set(ids)) < len(ids) or min(ids) < 0:
        return [], None, f"{note}, and the default {list(ids)} is invalid for {layers} layers"
    rule = family(ids, _DEFAULT)
    if not angelslim:
        return [], rule, note
    other = family((1, (layers + 1) // 2 - 1, layers - 3), _ANGELSLIM)
    return [rule, other], None, note


def _counts(book: AxisBook, keys: Keys, draft: Checkpoint) -> list[tuple[int, str]]:
    """How many taps the drafter reads, by the keys and tensors that say so."""
    counts = [
        (integer(c.value), c.source.where) for c in keys.claims(INTEGER, "num_aux_hidden_states") if c.source
    ]
    shape = draft.shape("fc.weight")
    if shape is not None and len(shape) == 2 and shape[1] % book.target.hidden_size == 0:
        counts.append((shape[1] // book.target.hidden_size, draft.where_tensor("fc.weight")))
    return counts
