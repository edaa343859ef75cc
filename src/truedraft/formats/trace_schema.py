"""The file of a trace: what an engine's drafter was given and what it made of it, round by round.

One safetensors file. Its metadata has one entry, `METADATA`, a JSON object:

    schema, engine, version, runner, method, proposals, width, target, draft, rank, ranks, mode,
    rounds: how many there are; requests: [{"id": …, "prompt": [token ids] or null}, …];
    logit_ids: "target" or "draft", whose ids `heads.*.ids` are

Tensors of round r are called `rounds.r.NAME`. T: rows that the target gave in this round, of all B requests
together; N: the drafter's rows of one call; L: draft layers. A tensor that the engine did not show is absent.

    requests [B]       indices into `requests`
    starts [B + 1]     each request's rows
    rejected [B]       rows at the end of each request that hold rejected drafts
    tokens, positions [T]
    taps [T, ΣH]       the target's states, concatenated
    features [T, H]    after `fc`
    context.positions [T], context.keys.l, context.values.l [T, kv heads, D], context.written.l bool [T]
                       rows as they go into the cache of draft layer l, rotated and normed
    calls.c.ids, calls.c.positions [N], calls.c.features [N, H]
                       inputs of the c-th call of the draft model (blocks have one, chains one per draft)
    calls.c.sampled [B]  rows of a chain's first call from which it drafts
    calls.c.embedded [N, H], calls.c.query.l [N, heads, D], calls.c.key.l, calls.c.value.l [N, kv heads, D],
    calls.c.attention.l [N, heads, D], calls.c.layer.l [N, H]
                       layer by layer; `layer`: the residual stream behind it
    calls.c.hidden [N, H]  behind the final norm;  calls.c.fed [N, H]: what the next call of a chain gets
    heads.c.hidden [n, H], heads.c.values, heads.c.ids [n, k]
                       the c-th use of the output head: its input, its k largest logits and their ids
    drafts [B, K]      proposed target ids
"""

from __future__ import annotations

SCHEMA = 1
METADATA = "truedraft_trace"
LOGITS = 64
"""Largest logits that are kept of each row."""


def name(number: int, *parts: object) -> str:
    """The tensor `parts` of round `number`."""
    return ".".join(("rounds", str(number), *map(str, parts)))
