"""Cases of TD2xx: tensors that are missing, unused, misshapen, packed, empty of values, or wrongly mapped."""

from __future__ import annotations

from math import inf, nan

from case import Case
from checkpoints import DEEPSPEC
from tensor_pairs import (
    EAGLE,
    OFFSETS,
    Edit,
    Tensors,
    constant,
    drop,
    filled,
    numbers,
    pair,
    put,
    raw,
    whole,
)

UP = "layers.1.mlp.up_proj.weight"
WHOLE = {"draft_vocab_size": 256}


def both(*edits: Edit) -> Edit:
    def edit(tensors: Tensors) -> None:
        for one in edits:
            one(tensors)

    return edit


def whole_vocabulary(tensors: Tensors) -> None:
    """A head of all ids and no map."""
    del tensors["d2t"]
    tensors["lm_head.weight"] = filled(256, 64)


def no_layer(number: int) -> Edit:
    return drop(f"layers.{number}.")


def renumbered(tensors: Tensors) -> None:
    """The chain's layer under its number at runtime, behind the target's eight."""
    for name in [n for n in tensors if n.startswith("layers.0.")]:
        tensors[name.replace("layers.0.", "layers.8.")] = tensors.pop(name)


def packed(scales: bool) -> Edit:
    """`up_proj` as nibbles in bytes, with or without scales."""

    def edit(tensors: Tensors) -> None:
        tensors[UP] = raw("U8", 48, 32)
        if scales:
            tensors[UP.replace("weight", "weight_scale")] = filled(48, 4)

    return edit


def mask(ids: list[int]) -> Edit:
    return put(t2d=whole([int(i in ids) for i in range(256)], "BOOL"))


MAPPED = [i + offset for i, offset in enumerate(OFFSETS)]
ONE_TABLE = {
    "model.embed_tokens.weight": filled(256, 64, seed=99),
    "lm_head.weight": filled(256, 64, seed=98),
}


CASES = [
    Case(
        "TD201",
        lambda d: pair(d, drop("fc.weight")),
        lambda d: pair(d),
        ("fc.weight", "[64, 192]", "draft/model.safetensors"),
        name="projection",
    ),
    Case(
        "TD201",
        lambda d: pair(d, drop("lm_head.weight"), base=EAGLE),
        lambda d: pair(d, base=EAGLE),
        ("lm_head.weight", "random", "[128, 64]"),
        name="reduced-head",
    ),
    Case(
        "TD201",
        lambda d: pair(d, both(whole_vocabulary, drop("lm_head.weight")), base=EAGLE, change=WHOLE),
        lambda d: pair(d, whole_vocabulary, base=EAGLE, change=WHOLE),
        ("draft_vocab_size", "length 1.00", "#27908"),
        severity="warning",
        name="borrowable-head",
    ),
    Case(
        "TD201",
        lambda d: pair(d, drop("d2t"), base=EAGLE),
        lambda d: pair(d, whole_vocabulary, base=EAGLE, change=WHOLE),
        ("no tensor d2t", "128 draft ids of 256", "silently"),
        name="map",
    ),
    Case(
        "TD202",
        lambda d: pair(d, put(aux_norm__weight=filled(64))),
        lambda d: pair(d),
        ("aux_norm.weight",),
        severity="warning",
        name="norm",
    ),
    Case(
        "TD202",
        lambda d: pair(
            d,
            put(
                layers__0__mlp__shared_experts__w1__weight=filled(48, 64),
                layers__1__mlp__shared_experts__w2__weight=filled(64, 48),
            ),
        ),
        lambda d: pair(d),
        ("layers.N.mlp.shared_experts.* (2 tensors)",),
        severity="warning",
        name="experts",
    ),
    Case(
        "TD203",
        lambda d: pair(d, put(fc__weight=filled(64, 128))),
        lambda d: pair(d),
        ("[64, 128]", "[64, 192]", "3 taps", "reads 2"),
        name="taps",
    ),
    Case(
        "TD203",
        lambda d: pair(d, put(layers__1__mlp__down_proj__weight=filled(48, 64))),
        lambda d: pair(d),
        ("transposed",),
        name="transposed",
    ),
    Case(
        "TD204",
        lambda d: pair(d, put(lm_head__weight=filled(320, 64)), base=DEEPSPEC),
        lambda d: pair(d, base=DEEPSPEC),
        ("lm_head.weight has 320 rows, but the target has 256 ids", "padding"),
        name="head",
    ),
    Case(
        "TD204",
        lambda d: pair(d, put(markov_head__markov_w1__weight=filled(128, 24)), base=DEEPSPEC),
        lambda d: pair(d, base=DEEPSPEC),
        ("markov_w1.weight has 128 rows",),
        name="markov",
    ),
    Case(
        "TD204",
        lambda d: pair(d, put(embed_tokens__weight=filled(128, 64)), base=EAGLE),
        lambda d: pair(d, base=EAGLE),
        ("embed_tokens.weight has 128 rows, but the target has 256",),
        name="embedding",
    ),
    Case(
        "TD205",
        lambda d: pair(d, packed(False)),
        lambda d: pair(d),
        ("layers.1.mlp.up_proj.weight: stored as U8", "2 numbers packed"),
        name="bare",
    ),
    Case(
        "TD205",
        lambda d: pair(d, packed(True)),
        lambda d: pair(d),
        ("U8", "with scales"),
        severity="warning",
        name="scaled",
    ),
    Case(
        "TD205",
        lambda d: pair(d, put(fc__weight=raw("F8_E4M3", 64, 192))),
        lambda d: pair(d),
        ("F8_E4M3", "noise"),
        name="float8",
    ),
    Case(
        "TD205",
        lambda d: pair(
            d, both(drop(UP), put(layers__1__mlp__up_proj__qweight=raw("I32", 8, 48))), base=DEEPSPEC
        ),
        lambda d: pair(d, base=DEEPSPEC),
        ("up_proj.qweight", "I32"),
        name="stand-in",
    ),
    Case(
        "TD205",
        lambda d: pair(d, put(d2t=numbers([float(n) for n in OFFSETS])), base=EAGLE),
        lambda d: pair(d, put(d2t=whole(OFFSETS, "I32")), base=EAGLE),
        ("d2t is stored as F32",),
        name="map",
    ),
    Case(
        "TD205",
        lambda d: pair(d, put(norm__weight=filled(64, dtype="BF16"))),
        lambda d: pair(d),
        ("1 BF16", "norm.weight"),
        severity="note",
        name="mixed",
    ),
    Case(
        "TD206",
        lambda d: pair(d, put(norm__weight=numbers([1.0] * 62 + [nan, inf])), weights=True),
        lambda d: pair(d, put(norm__weight=constant(1, 64)), weights=True),
        ("norm.weight: 1 NaN and 1 infinite of 64",),
        name="nan",
    ),
    Case(
        "TD206",
        lambda d: pair(d, put(fc__weight=constant(0, 64, 192)), weights=True),
        lambda d: pair(d, put(fc__weight=constant(0, 64, 192)), weights=False),
        ("fc.weight: all 12288 values are zero",),
        name="zero",
    ),
    Case(
        "TD206",
        lambda d: pair(d, put(lm_head__weight=constant(0.5, 256, 64)), base=DEEPSPEC, weights=True),
        lambda d: pair(d, put(confidence_head__proj__bias=constant(0, 1)), base=DEEPSPEC, weights=True),
        ("lm_head.weight", "0.5"),
        name="constant",
    ),
    Case(
        "TD206",
        lambda d: pair(
            d, put(markov_head__markov_w2__weight=constant(0, 256, 24)), base=DEEPSPEC, weights=True
        ),
        lambda d: pair(d, base=DEEPSPEC, weights=True),
        ("markov_w2",),
        severity="warning",
        name="empty-head",
    ),
    Case(
        "TD207",
        lambda d: pair(d, put(d2t=whole([0] * 64 + [100] * 56 + [180] * 8)), base=EAGLE),
        lambda d: pair(d, base=EAGLE),
        ("8 of 128 draft ids map outside the target's 256 ids, the first of them 120 to 300",),
        name="range",
    ),
    Case(
        "TD207",
        lambda d: pair(d, put(d2t=whole(list(range(128)))), base=EAGLE),
        lambda d: pair(d, base=EAGLE),
        ("holds target ids", "arange"),
        name="arange",
    ),
    Case(
        "TD207",
        lambda d: pair(d, put(d2t=whole(MAPPED)), base=EAGLE),
        lambda d: pair(d, base=EAGLE),
        ("holds target ids where offsets belong", "out of range"),
        name="absolute",
    ),
    Case(
        "TD207",
        lambda d: pair(d, put(d2t=whole([2 * i + 1 - i for i in range(128)])), base=EAGLE),
        lambda d: pair(d, base=EAGLE),
        ("all entries of d2t differ",),
        severity="warning",
        name="all-differ",
    ),
    Case(
        "TD207",
        lambda d: pair(d, put(d2t=whole([*OFFSETS[:-1], OFFSETS[-1] - 1])), base=EAGLE),
        lambda d: pair(d, base=EAGLE),
        ("1 of 128 draft ids map to an id that an earlier one has",),
        name="repeated",
    ),
    Case(
        "TD207",
        lambda d: pair(d, put(d2t=whole([0] * 128)), base=EAGLE),
        lambda d: pair(d, base=EAGLE),
        ("all zero",),
        severity="warning",
        name="identity",
    ),
    Case(
        "TD207",
        lambda d: pair(d, put(d2t=whole([1, -1, *OFFSETS[2:]])), base=EAGLE),
        lambda d: pair(d, base=EAGLE),
        ("do not rise",),
        severity="warning",
        name="unsorted",
    ),
    Case(
        "TD207",
        lambda d: pair(d, mask([*MAPPED[1:], 255]), base=EAGLE),
        lambda d: pair(d, mask(MAPPED), base=EAGLE),
        ("t2d and d2t disagree about 2 target ids",),
        severity="warning",
        name="mask",
    ),
    Case(
        "TD208",
        lambda d: pair(d, put(lm_head__weight=filled(128, 64))),
        lambda d: pair(d),
        ("lm_head.weight [128, 64]", "zlab"),
        severity="warning",
        name="unread-head",
    ),
    Case(
        "TD208",
        lambda d: pair(d, base=EAGLE, change={"tie_word_embeddings": True}),
        lambda d: pair(d, whole_vocabulary, base=EAGLE, change={**WHOLE, "tie_word_embeddings": True}),
        ("tie_word_embeddings", "[128, 64]", "[256, 64]"),
        severity="warning",
        name="tied",
    ),
    Case(
        "TD208",
        lambda d: pair(
            d, put(lm_head__weight=filled(256, 64, seed=98)), target_tensors=ONE_TABLE, weights=True
        ),
        lambda d: pair(d, target_tensors=ONE_TABLE, weights=True),
        ("a copy of it",),
        severity="note",
        name="copy",
    ),
    Case(
        "TD208",
        lambda d: pair(
            d, put(lm_head__weight=filled(256, 64, seed=97)), target_tensors=ONE_TABLE, weights=True
        ),
        lambda d: pair(d, target_tensors=ONE_TABLE, weights=True),
        ("100% of its rows differ",),
        severity="warning",
        name="trained",
    ),
    Case("TD209", lambda d: pair(d, no_layer(1)), lambda d: pair(d), ("no tensors of layers.1",), name="gap"),
    Case(
        "TD209",
        lambda d: pair(d, renumbered, base=EAGLE),
        lambda d: pair(d, base=EAGLE),
        ("layers.0 to layers.7", "runtime"),
        name="runtime",
    ),
    Case(
        "TD209",
        lambda d: pair(
            d, put(layers__1__extra__weight=filled(64)), base=EAGLE, overrides=("backbone.layers=1",)
        ),
        lambda d: pair(d, base=EAGLE, overrides=("backbone.layers=1",)),
        ("1 tensor of layers.1, but the drafter has only 1 of them",),
        severity="warning",
        name="beyond",
    ),
]
