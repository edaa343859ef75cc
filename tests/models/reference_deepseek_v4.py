"""One round of the DSpark drafter inside a DeepSeek-V4 checkpoint, slow and plain: a second opinion.

Written without sight of `truedraft`, from shared/facts/dspark.md ("facts" below), the transformers library's
`deepseek_v4` (5.23: the target's layers; it has no DSpark) and what vLLM 0.32 (`models/deepseek_v4/nvidia/
dspark.py`, `v1/worker/gpu/spec_decode`, `v1/attention/backends/mla/sparse_swa.py`) and SGLang 0.5.23
(`srt/models/deepseek_v4_dspark.py`) do. One sequence, no cache: everything is computed again from the full
list of tap features. It computes in the dtype of the weights (float32 as made by `random_weights`; give it
`.double()` weights, embedding, head and taps for a float64 run).

Letters: p = position of the anchor (the last committed token; the target has no hidden state for it yet),
Q = block width, γ = tokens proposed, H = hidden size, n = residual streams (hc_mult), V = vocabulary,
D = head_dim, R = rope dims, r = Markov rank, m = number of taps.

Conventions, and where each comes from
 1. Block: tokens [anchor, noise, noise, ...] at positions p .. p+Q-1, slot k predicts token p+k+1; every slot
    is used (anchor first). Facts §1.1, §2.4 ("start_pos + 1 .. + 5", start_pos = p - 1); vLLM
    dflash/speculator.py `SAMPLE_FROM_ANCHOR`.
 2. Context row i = main_norm(main_proj(taps[i])), once for all stages. Each stage makes K = V of it by its
    own wkv, kv_norm and rope at position i. Context rows see no attn_norm and no hyper-connection; block
    rows see both. Facts §2.4; vLLM `precompute_and_store_context_kv`; SGLang `project_commit_kv`.
 3. Visible to EVERY slot: the context rows p-W .. p-1 (W = sliding_window) and all Q block rows, future ones
    too; the window does not slide with the slot. Facts §2.4; vLLM `ComputeDSparkNoncausalSWAIndicesKernel`;
    SGLang `compute_dspark_window_gather`.
 4. Rope: theta = rope_theta, no YaRN, interleaved pairs on the LAST R of D dims, on queries and on K = V;
    the attention output is rotated back at the query's position before the output projection. Facts §0.3,
    §2.2; transformers `apply_rotary_pos_emb`, `DeepseekV4Attention.forward`.
 5. Query: wq_b(q_norm(wq_a x)), then each head by its own RMS (no weight, eps rms_norm_eps), then rope; scale
    D^-0.5; one sink logit per head joins the softmax (unscaled) and its share is dropped. Same sources.
 6. Output: heads in o_groups groups of neighbours, wo_a per group (its rows stacked group by group), then
    wo_b. transformers `DeepseekV4GroupedLinear`; SGLang `DSparkAttention.forward`.
 7. Hyper-connections: transformers `DeepseekV4HyperConnection`, `DeepseekV4DecoderLayer.forward`; vLLM
    kernels/mhc/torch.py; facts §2.2. Rows of fn: n pre, n post, n*n comb (row-major). comb[j, k] is the share
    of OLD stream j in NEW stream k.
 8. Router: scores sqrt(softplus(logit)); gate.bias steers the choice only; weights = the chosen scores over
    their sum, times routed_scaling_factor. Draft stages never route by hash (SGLang deepseek_v2.py `is_hash`,
    vLLM: layer index >= num_hash_layers). Experts and shared expert are w2(silu(w1 x) * w3 x), w1 x clamped
    from above and w3 x on both sides by swiglu_limit.
 9. All n streams start as copies of the token's embedding (no scaling) and are collapsed by hc_head after the
    last stage. Logits = head(norm(collapsed)); facts §2.4.
10. Markov: logits_k = base_k + markov_w2 @ markov_w1[x_{k-1}], x_{-1} = the anchor; greedy, left to right,
    one pass of the backbone. Facts §1.3.
11. Confidence of slot k: sigmoid(proj @ [collapsed_k BEFORE norm ; markov_w1[x_{k-1}]]), no bias. Facts §1.4,
    §2.4; vLLM `compute_confidence`; SGLang `compute_confidence` (its STS temperatures are left at 1).

Uncertain, or where sources differ
 a. FP8: the official code rounds the non-rope part of K = V to FP8 and back (facts §2.2). Not modelled, as in
    transformers.
 b. norm_topk_prob = false: transformers and vLLM's CPU path normalise anyway, vLLM's other paths do not.
    Refused here. The sum's guard differs too (transformers and SGLang + 1e-20, vLLM none), to no effect.
 c. n_shared_experts > 1: vLLM makes the shared expert n_shared times as wide, transformers ignores the
    number. As vLLM here. For the published value 1 they agree.
 d. Stages: SGLang takes len(dspark_target_layer_ids), vLLM n_mtp_layers or 3, never the root's
    num_nextn_predict_layers (facts §2.4). Here: as many as the weights have.
 e. Order of taps: as listed in dspark_target_layer_ids; vLLM and TensorRT-LLM sort the ids first. The
    published lists are sorted. Tap k is the output of layer k, FFN part included, averaged over the streams
    (facts §2.3), which is the caller's business: see `stream_mean`.
 f. rope_theta: transformers reads rope_parameters.main.rope_theta when nested, vLLM always the flat key. Here
    the flat key first. vLLM 0.32 and SGLang ignore compress_ratios for the stages; so does this file.
 g. rms_norm_eps is missing from the config copies at hand: 1e-6 is transformers' and SGLang's default.
 h. transformers' docstring puts the rope on the first dims of a head; its code, vLLM and SGLang on the last.
 i. A context that starts late (prefix-cache gap): the window counts positions, not present rows, as SGLang's
    `valid_from` does. Facts are silent. See `valid`.
 j. V4.1 (other tap rule, pre-mix taken from the last sublayer, no q head norm, no hc_head) is not modelled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

Weights = Mapping[str, Tensor]


@dataclass(frozen=True)
class Sizes:
    """What the drafter needs of a DeepSeek-V4 config.json; the fields have the official key names."""

    hidden_size: int
    num_attention_heads: int
    head_dim: int
    qk_rope_head_dim: int
    q_lora_rank: int
    o_lora_rank: int
    o_groups: int
    n_routed_experts: int
    n_shared_experts: int
    num_experts_per_tok: int
    moe_intermediate_size: int
    hc_mult: int
    hc_eps: float
    hc_sinkhorn_iters: int
    sliding_window: int
    rope_theta: float
    rms_norm_eps: float
    swiglu_limit: float | None
    routed_scaling_factor: float
    dspark_block_size: int
    dspark_noise_token_id: int
    dspark_target_layer_ids: tuple[int, ...]
    dspark_markov_rank: int

    @staticmethod
    def read(config: Mapping[str, Any]) -> Sizes:
        """The sizes in a config; refuses what this file does not model."""
        if config.get("scoring_func", "sqrtsoftplus") != "sqrtsoftplus":
            raise ValueError("only scoring_func sqrtsoftplus is modelled")
        if not config.get("norm_topk_prob", True):
            raise ValueError("norm_topk_prob false means different things in different readers (point b)")
        nested = (config.get("rope_parameters") or {}).get("main") or {}
        return Sizes(
            hidden_size=config["hidden_size"],
            num_attention_heads=config["num_attention_heads"],
            head_dim=config["head_dim"],
            qk_rope_head_dim=config["qk_rope_head_dim"],
            q_lora_rank=config["q_lora_rank"],
            o_lora_rank=config["o_lora_rank"],
            o_groups=config["o_groups"],
            n_routed_experts=config.get("dspark_n_routed_experts") or config["n_routed_experts"],
            n_shared_experts=config.get("n_shared_experts") or 0,
            num_experts_per_tok=config.get("dspark_num_experts_per_tok") or config["num_experts_per_tok"],
            moe_intermediate_size=config["moe_intermediate_size"],
            hc_mult=config["hc_mult"],
            hc_eps=config["hc_eps"],
            hc_sinkhorn_iters=config["hc_sinkhorn_iters"],
            sliding_window=config["sliding_window"],
            rope_theta=float(config.get("rope_theta", nested.get("rope_theta", 10000.0))),
            rms_norm_eps=config.get("rms_norm_eps", 1e-6),
            swiglu_limit=config.get("swiglu_limit"),
            routed_scaling_factor=config["routed_scaling_factor"],
            dspark_block_size=config["dspark_block_size"],
            dspark_noise_token_id=config["dspark_noise_token_id"],
            dspark_target_layer_ids=tuple(config["dspark_target_layer_ids"]),
            dspark_markov_rank=config["dspark_markov_rank"],
        )


@dataclass(frozen=True)
class Drafted:
    """What one round yields; the rows are the γ slots, in order."""

    tokens: Tensor  # [γ] greedy drafts: argmax of `logits`
    logits: Tensor  # [γ, V] with the Markov bias of the token before (`forced`, if given)
    base_logits: Tensor  # [γ, V] without it
    confidence: Tensor  # [γ] probabilities
    confidence_logits: Tensor  # [γ] before the sigmoid
    hidden_pre_norm: Tensor  # [γ, H] collapsed streams, before the final norm


# ---------------------------------------------------------------------------------------------- weights


def stage_shapes(sizes: Sizes) -> dict[str, tuple[int, ...]]:
    """Shapes of one stage's block, under the official names less `mtp.{i}.`."""
    n, hidden = sizes.hc_mult, sizes.hidden_size
    heads, dim, groups = sizes.num_attention_heads, sizes.head_dim, sizes.o_groups
    mixes = (2 + n) * n
    shapes: dict[str, tuple[int, ...]] = {
        "attn_norm.weight": (hidden,),
        "ffn_norm.weight": (hidden,),
        "attn.wq_a.weight": (sizes.q_lora_rank, hidden),
        "attn.q_norm.weight": (sizes.q_lora_rank,),
        "attn.wq_b.weight": (heads * dim, sizes.q_lora_rank),
        "attn.wkv.weight": (dim, hidden),
        "attn.kv_norm.weight": (dim,),
        "attn.attn_sink": (heads,),
        "attn.wo_a.weight": (groups * sizes.o_lora_rank, heads * dim // groups),
        "attn.wo_b.weight": (hidden, groups * sizes.o_lora_rank),
        "hc_attn_fn": (mixes, n * hidden),
        "hc_attn_base": (mixes,),
        "hc_attn_scale": (3,),
        "hc_ffn_fn": (mixes, n * hidden),
        "hc_ffn_base": (mixes,),
        "hc_ffn_scale": (3,),
        "ffn.gate.weight": (sizes.n_routed_experts, hidden),
        "ffn.gate.bias": (sizes.n_routed_experts,),
    }
    wide = {f"experts.{e}": sizes.moe_intermediate_size for e in range(sizes.n_routed_experts)}
    if sizes.n_shared_experts:
        wide["shared_experts"] = sizes.moe_intermediate_size * sizes.n_shared_experts
    for expert, inner in wide.items():
        shapes[f"ffn.{expert}.w1.weight"] = (inner, hidden)
        shapes[f"ffn.{expert}.w2.weight"] = (hidden, inner)
        shapes[f"ffn.{expert}.w3.weight"] = (inner, hidden)
    return shapes


def drafter_shapes(config: Mapping[str, Any], vocab: int, stages: int) -> dict[str, tuple[int, ...]]:
    """Shapes of all drafter tensors under their official names.

    Names: facts §2.4; vLLM nvidia/dspark.py `_remap_dspark_name`; SGLang `_remap_dspark_weight_name`. The FP8
    `.scale` companions are left out.
    """
    sizes = Sizes.read(config)
    n, hidden, rank, last = sizes.hc_mult, sizes.hidden_size, sizes.dspark_markov_rank, stages - 1
    shapes: dict[str, tuple[int, ...]] = {
        "mtp.0.main_proj.weight": (hidden, len(sizes.dspark_target_layer_ids) * hidden),
        "mtp.0.main_norm.weight": (hidden,),
    }
    for stage in range(stages):
        for name, shape in stage_shapes(sizes).items():
            shapes[f"mtp.{stage}.{name}"] = shape
    shapes[f"mtp.{last}.norm.weight"] = (hidden,)
    shapes[f"mtp.{last}.hc_head_fn"] = (n, n * hidden)
    shapes[f"mtp.{last}.hc_head_base"] = (n,)
    shapes[f"mtp.{last}.hc_head_scale"] = (1,)
    shapes[f"mtp.{last}.markov_head.markov_w1.weight"] = (vocab, rank)
    shapes[f"mtp.{last}.markov_head.markov_w2.weight"] = (vocab, rank)
    shapes[f"mtp.{last}.confidence_head.proj.weight"] = (1, hidden + rank)
    return shapes


def random_weights(config: Mapping[str, Any], vocab: int, stages: int, seed: int) -> dict[str, Tensor]:
    """Random float32 weights of a whole drafter in which no tensor is idle.

    Norm weights lie in 0.5..1.5 and differ, sinks, biases, bases and scales are far from 0 and matrices keep
    the size of what they map. A swiglu_limit of 10 will hardly ever clamp: give a config with about 0.5 to
    see it at work.
    """
    dice = torch.Generator().manual_seed(seed)
    weights = {}
    for name, shape in drafter_shapes(config, vocab, stages).items():
        if name.endswith("norm.weight") or name.endswith("_scale"):
            value = torch.rand(shape, generator=dice) + 0.5
        elif name.endswith(("attn_sink", "_base")):
            value = torch.randn(shape, generator=dice)
        elif name.endswith("gate.bias"):
            value = torch.randn(shape, generator=dice) * 0.3
        elif "markov_w1" in name:  # a table of embeddings
            value = torch.randn(shape, generator=dice)
        else:  # a matrix [out, in]
            value = torch.randn(shape, generator=dice) * shape[-1] ** -0.5
        weights[name] = value
    return weights


def stage_weights(weights: Weights, stage: int) -> dict[str, Tensor]:
    """The tensors of `mtp.{stage}.`, less that prefix."""
    prefix = f"mtp.{stage}."
    return {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}


def stage_count(weights: Weights) -> int:
    """How many stages there are weights for."""
    return 1 + max(int(name.split(".")[1]) for name in weights if name.startswith("mtp."))


# ------------------------------------------------------------------------------------------ small parts


def rms_norm(x: Tensor, eps: float, weight: Tensor | None = None) -> Tensor:
    """x over the root mean square of its last dim, times `weight`."""
    normed = x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps)
    return normed if weight is None else normed * weight


def inverse_frequencies(theta: float, dims: int) -> Tensor:
    """[dims / 2] angles per position of plain rope."""
    return 1.0 / theta ** (torch.arange(0, dims, 2, dtype=torch.float32) / dims)


def rotate(row: Tensor, position: int, frequencies: Tensor, back: bool = False) -> Tensor:
    """One vector [D] with the pairs (0,1), (2,3), ... of its last 2*len(frequencies) dims turned."""
    turned = row.clone()
    start = len(row) - 2 * len(frequencies)
    for pair, frequency in enumerate(frequencies):
        angle = float(position) * frequency
        cos, sin = torch.cos(angle).to(row.dtype), torch.sin(angle).to(row.dtype)
        if back:
            sin = -sin
        even, odd = row[start + 2 * pair], row[start + 2 * pair + 1]
        turned[start + 2 * pair] = even * cos - odd * sin
        turned[start + 2 * pair + 1] = even * sin + odd * cos
    return turned


def stream_mean(streams: Tensor) -> Tensor:
    """[T, n, H] streams after a target layer -> [T, H] one tap (facts §2.3: a plain mean, no hc_head)."""
    return streams.mean(dim=1)


# -------------------------------------------------------------------------------------- hyper-connections


def hyper_connection(
    sizes: Sizes, streams: Tensor, fn: Tensor, base: Tensor, scale: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """One token's streams [n, H] -> sublayer input [H], post [n], comb [n, n]."""
    n, eps = sizes.hc_mult, sizes.hc_eps
    mixes = fn @ rms_norm(streams.flatten(), sizes.rms_norm_eps)
    pre = torch.sigmoid(mixes[:n] * scale[0] + base[:n]) + eps
    post = 2 * torch.sigmoid(mixes[n : 2 * n] * scale[1] + base[n : 2 * n])
    comb = torch.softmax((mixes[2 * n :] * scale[2] + base[2 * n :]).reshape(n, n), dim=1) + eps
    comb = comb / (comb.sum(dim=0, keepdim=True) + eps)  # columns once, then rows and columns in turn
    for _ in range(sizes.hc_sinkhorn_iters - 1):
        comb = comb / (comb.sum(dim=1, keepdim=True) + eps)
        comb = comb / (comb.sum(dim=0, keepdim=True) + eps)
    collapsed = torch.zeros_like(streams[0])
    for j in range(n):
        collapsed = collapsed + pre[j] * streams[j]
    return collapsed, post, comb


def hyper_connected(streams: Tensor, output: Tensor, post: Tensor, comb: Tensor) -> Tensor:
    """One token's new streams [n, H] from the old ones and the sublayer's output [H]."""
    rows = []
    for k in range(len(streams)):
        row = post[k] * output
        for j in range(len(streams)):
            row = row + comb[j, k] * streams[j]
        rows.append(row)
    return torch.stack(rows)


def hyper_head(sizes: Sizes, streams: Tensor, fn: Tensor, base: Tensor, scale: Tensor) -> Tensor:
    """One token's streams [n, H] after the last stage -> [H]. transformers `DeepseekV4HyperHead`."""
    mixes = fn @ rms_norm(streams.flatten(), sizes.rms_norm_eps)
    pre = torch.sigmoid(mixes * scale[0] + base) + sizes.hc_eps
    collapsed = torch.zeros_like(streams[0])
    for j in range(sizes.hc_mult):
        collapsed = collapsed + pre[j] * streams[j]
    return collapsed


# -------------------------------------------------------------------------------- attention and experts


def key_values(sizes: Sizes, stage: Weights, rows: Tensor, positions: Sequence[int], rope: Tensor) -> Tensor:
    """[S, D] K = V of rows [S, H]; the rows are attn_norm'ed block rows or main_norm'ed context rows."""
    out = torch.zeros(len(rows), sizes.head_dim, dtype=rows.dtype)
    for i, position in enumerate(positions):
        latent = stage["attn.wkv.weight"] @ rows[i]
        latent = rms_norm(latent, sizes.rms_norm_eps, stage["attn.kv_norm.weight"])
        out[i] = rotate(latent, position, rope)
    return out


def attention(
    sizes: Sizes,
    stage: Weights,
    rows: Tensor,
    positions: Sequence[int],
    kv: Tensor,
    visible: Tensor,
    rope: Tensor,
) -> Tensor:
    """[Q, H] for normed rows [Q, H] that see the keys kv [K, D] where visible [Q, K] is true."""
    heads, dim, groups, eps = sizes.num_attention_heads, sizes.head_dim, sizes.o_groups, sizes.rms_norm_eps
    outputs = []
    for i, position in enumerate(positions):
        low = rms_norm(stage["attn.wq_a.weight"] @ rows[i], eps, stage["attn.q_norm.weight"])
        queries = (stage["attn.wq_b.weight"] @ low).reshape(heads, dim)
        seen = kv[visible[i]]
        read = []
        for head in range(heads):
            query = rotate(rms_norm(queries[head], eps), position, rope)
            scores = (seen @ query) * dim**-0.5
            sink = stage["attn.attn_sink"][head].reshape(1)
            shares = torch.softmax(torch.cat([scores, sink]), dim=0)[:-1]
            read.append(rotate(shares @ seen, position, rope, back=True))
        grouped = torch.cat(read).reshape(groups, heads * dim // groups)
        matrices = stage["attn.wo_a.weight"].reshape(groups, sizes.o_lora_rank, heads * dim // groups)
        mixed = torch.cat([matrices[g] @ grouped[g] for g in range(groups)])
        outputs.append(stage["attn.wo_b.weight"] @ mixed)
    return torch.stack(outputs)


def expert(sizes: Sizes, stage: Weights, name: str, row: Tensor) -> Tensor:
    """One expert's output [H] for one token [H]."""
    gate = stage[f"ffn.{name}.w1.weight"] @ row
    up = stage[f"ffn.{name}.w3.weight"] @ row
    if sizes.swiglu_limit is not None:
        gate = gate.clamp(max=sizes.swiglu_limit)
        up = up.clamp(min=-sizes.swiglu_limit, max=sizes.swiglu_limit)
    return stage[f"ffn.{name}.w2.weight"] @ (gate * torch.sigmoid(gate) * up)


def mixture(sizes: Sizes, stage: Weights, row: Tensor) -> Tensor:
    """Routed and shared experts for one normed token [H]."""
    scores = torch.nn.functional.softplus(stage["ffn.gate.weight"] @ row).sqrt()
    ranked = torch.argsort(scores + stage["ffn.gate.bias"], descending=True)
    chosen = ranked[: sizes.num_experts_per_tok].tolist()
    total = sum(scores[e] for e in chosen)
    out = torch.zeros_like(row)
    for e in chosen:
        share = scores[e] / total * sizes.routed_scaling_factor
        out = out + share * expert(sizes, stage, f"experts.{e}", row)
    if sizes.n_shared_experts:
        out = out + expert(sizes, stage, "shared_experts", row)
    return out


# --------------------------------------------------------------------------------------------- one stage


def run_stage(
    sizes: Sizes,
    stage: Weights,
    streams: Tensor,
    positions: Sequence[int],
    context: Tensor,
    context_positions: Sequence[int],
    visible: Tensor,
    rope: Tensor,
) -> Tensor:
    """Block streams [Q, n, H] through one V4 block.

    `context` [C, H]: main_norm'ed context rows. `visible` [Q, C + Q]: what each slot sees, context first.
    """
    eps = sizes.rms_norm_eps

    mixed = [
        hyper_connection(sizes, one, stage["hc_attn_fn"], stage["hc_attn_base"], stage["hc_attn_scale"])
        for one in streams
    ]
    rows = torch.stack([rms_norm(collapsed, eps, stage["attn_norm.weight"]) for collapsed, _, _ in mixed])
    kv = torch.cat(
        [
            key_values(sizes, stage, context, context_positions, rope),
            key_values(sizes, stage, rows, positions, rope),
        ]
    )
    read = attention(sizes, stage, rows, positions, kv, visible, rope)
    streams = torch.stack(
        [hyper_connected(streams[i], read[i], mixed[i][1], mixed[i][2]) for i in range(len(streams))]
    )

    out = []
    for one in streams:
        collapsed, post, comb = hyper_connection(
            sizes, one, stage["hc_ffn_fn"], stage["hc_ffn_base"], stage["hc_ffn_scale"]
        )
        row = rms_norm(collapsed, eps, stage["ffn_norm.weight"])
        out.append(hyper_connected(one, mixture(sizes, stage, row), post, comb))
    return torch.stack(out)


# --------------------------------------------------------------------------------------------- one round


def draft(
    config: Mapping[str, Any],
    weights: Weights,
    embedding: Tensor,
    head: Tensor,
    taps: Tensor,
    anchor_token: int,
    anchor_position: int,
    proposals: int | None = None,
    *,
    width: int | None = None,
    forced: Sequence[int] | None = None,
    rope_tables: Sequence[Tensor] | None = None,
    valid: Sequence[bool] | None = None,
    window_slides: bool = False,
    causal_block: bool = False,
) -> Drafted:
    """One round of drafting.

    `embedding` [V, H] and `head` [V, H] are the target's. `taps` [p, m*H]: row i holds the taps of position
    i, side by side in the order of dspark_target_layer_ids. `proposals`: γ, `width` by default. `width`:
    slots in the block, dspark_block_size by default. `forced` [γ - 1 or more]: tokens that take the place of
    the drafts as the "token before" of slots 1, 2, ... `rope_tables`: inverse frequencies [R / 2] for each
    stage, in place of the plain ones. `valid` [p]: context rows that exist, all by default.

    Two switches make it wrong on purpose: `window_slides` (slot k sees the context from p+k-W+1 on, as a
    causal sliding window would) and `causal_block` (slot k does not see later slots).
    """
    sizes = Sizes.read(config)
    p = anchor_position
    width = sizes.dspark_block_size if width is None else width
    proposals = width if proposals is None else proposals
    if not 1 <= proposals <= width:
        raise ValueError("proposals must lie in 1..width")
    if len(taps) != p:
        raise ValueError(f"taps must have one row for each of the {p} positions before the anchor")
    stages = stage_count(weights)
    if rope_tables is None:
        plain = inverse_frequencies(sizes.rope_theta, sizes.qk_rope_head_dim)
        rope_tables = [plain] * stages
    if len(rope_tables) != stages:
        raise ValueError(f"rope_tables must have one table for each of the {stages} stages")

    context = torch.zeros(p, sizes.hidden_size, dtype=taps.dtype)
    for i in range(p):
        feature = weights["mtp.0.main_proj.weight"] @ taps[i]
        context[i] = rms_norm(feature, sizes.rms_norm_eps, weights["mtp.0.main_norm.weight"])

    positions = [p + slot for slot in range(width)]
    visible = torch.zeros(width, p + width, dtype=torch.bool)
    for slot in range(width):
        first = p + slot - sizes.sliding_window + 1 if window_slides else p - sizes.sliding_window
        for i in range(p):
            visible[slot, i] = i >= first and (valid is None or bool(valid[i]))
        for other in range(width):
            visible[slot, p + other] = other <= slot or not causal_block

    block = [anchor_token] + [sizes.dspark_noise_token_id] * (width - 1)
    streams = torch.stack([torch.stack([embedding[token]] * sizes.hc_mult) for token in block])
    for index in range(stages):
        stage = stage_weights(weights, index)
        streams = run_stage(sizes, stage, streams, positions, context, range(p), visible, rope_tables[index])

    last = stage_weights(weights, stages - 1)
    hidden = torch.stack(
        [
            hyper_head(sizes, one, last["hc_head_fn"], last["hc_head_base"], last["hc_head_scale"])
            for one in streams[:proposals]
        ]
    )
    tokens, logits, base_logits, confidence_logits = [], [], [], []
    previous = anchor_token
    for slot in range(proposals):
        base = head @ rms_norm(hidden[slot], sizes.rms_norm_eps, last["norm.weight"])
        latent = last["markov_head.markov_w1.weight"][previous]
        biased = base + last["markov_head.markov_w2.weight"] @ latent
        sure = last["confidence_head.proj.weight"][0] @ torch.cat([hidden[slot], latent])
        token = int(biased.argmax())
        tokens.append(token)
        logits.append(biased)
        base_logits.append(base)
        confidence_logits.append(sure)
        if slot + 1 < proposals:
            previous = token if forced is None else int(forced[slot])
    return Drafted(
        tokens=torch.tensor(tokens),
        logits=torch.stack(logits),
        base_logits=torch.stack(base_logits),
        confidence=torch.sigmoid(torch.stack(confidence_logits)),
        confidence_logits=torch.stack(confidence_logits),
        hidden_pre_norm=hidden,
    )


# ------------------------------------------------------------------- one stage as a layer of the target


def stage_as_decoder_layer(
    config: Mapping[str, Any],
    weights: Weights,
    stage: int,
    streams: Tensor,
    positions: Sequence[int] | None = None,
) -> Tensor:
    """Streams [S, n, H] through one stage taken for a sliding-window layer of the target.

    Causal, no context rows: the token in row i sees row j where j <= i and i - j < sliding_window, in rows
    as in positions. `positions`: S neighbours, from 0 by default.
    """
    sizes = Sizes.read(config)
    count = len(streams)
    positions = list(range(count)) if positions is None else list(positions)
    visible = torch.zeros(count, count, dtype=torch.bool)
    for i in range(count):
        for j in range(count):
            visible[i, j] = 0 <= positions[i] - positions[j] < sizes.sliding_window
    rope = inverse_frequencies(sizes.rope_theta, sizes.qk_rope_head_dim)
    nothing = torch.zeros(0, sizes.hidden_size, dtype=streams.dtype)
    return run_stage(sizes, stage_weights(weights, stage), streams, positions, nothing, (), visible, rope)


def transformers_config(config: Mapping[str, Any], layers: int = 1) -> Any:
    """transformers' config for `layers` sliding-window, non-hash layers of these sizes, eager everywhere."""
    from transformers import DeepseekV4Config

    sizes = Sizes.read(config)
    if sizes.n_shared_experts != 1:
        raise ValueError("transformers knows one shared expert only (point c)")
    made = DeepseekV4Config(
        vocab_size=16,
        hidden_size=sizes.hidden_size,
        moe_intermediate_size=sizes.moe_intermediate_size,
        num_hidden_layers=layers,
        num_attention_heads=sizes.num_attention_heads,
        num_key_value_heads=1,
        head_dim=sizes.head_dim,
        qk_rope_head_dim=sizes.qk_rope_head_dim,
        q_lora_rank=sizes.q_lora_rank,
        o_lora_rank=sizes.o_lora_rank,
        o_groups=sizes.o_groups,
        n_routed_experts=sizes.n_routed_experts,
        n_shared_experts=1,
        num_experts_per_tok=sizes.num_experts_per_tok,
        hc_mult=sizes.hc_mult,
        hc_eps=sizes.hc_eps,
        hc_sinkhorn_iters=sizes.hc_sinkhorn_iters,
        sliding_window=sizes.sliding_window,
        rope_theta=sizes.rope_theta,
        rms_norm_eps=sizes.rms_norm_eps,
        swiglu_limit=sizes.swiglu_limit,
        routed_scaling_factor=sizes.routed_scaling_factor,
        compress_ratios=[0] * layers,
        num_hash_layers=0,
    )
    made._attn_implementation = "eager"
    made._experts_implementation = "eager"
    return made


def transformers_layer(config: Mapping[str, Any], weights: Weights, stage: int) -> Any:
    """transformers' decoder layer with one stage's weights under its own names, strictly loaded."""
    from transformers.models.deepseek_v4.modeling_deepseek_v4 import DeepseekV4DecoderLayer

    names = {
        "attn_norm.weight": "input_layernorm.weight",
        "ffn_norm.weight": "post_attention_layernorm.weight",
        "attn.wq_a.weight": "self_attn.q_a_proj.weight",
        "attn.q_norm.weight": "self_attn.q_a_norm.weight",
        "attn.wq_b.weight": "self_attn.q_b_proj.weight",
        "attn.wkv.weight": "self_attn.kv_proj.weight",
        "attn.kv_norm.weight": "self_attn.kv_norm.weight",
        "attn.attn_sink": "self_attn.sinks",
        "attn.wo_a.weight": "self_attn.o_a_proj.weight",
        "attn.wo_b.weight": "self_attn.o_b_proj.weight",
        "hc_attn_fn": "attn_hc.fn",
        "hc_attn_base": "attn_hc.base",
        "hc_attn_scale": "attn_hc.scale",
        "hc_ffn_fn": "ffn_hc.fn",
        "hc_ffn_base": "ffn_hc.base",
        "hc_ffn_scale": "ffn_hc.scale",
        "ffn.gate.weight": "mlp.gate.weight",
        "ffn.gate.bias": "mlp.gate.e_score_correction_bias",
        "ffn.shared_experts.w1.weight": "mlp.shared_experts.gate_proj.weight",
        "ffn.shared_experts.w2.weight": "mlp.shared_experts.down_proj.weight",
        "ffn.shared_experts.w3.weight": "mlp.shared_experts.up_proj.weight",
    }
    own = stage_weights(weights, stage)
    state = {theirs: own[ours] for ours, theirs in names.items()}
    gate_up, down = [], []
    for e in range(Sizes.read(config).n_routed_experts):
        gate_up.append(torch.cat([own[f"ffn.experts.{e}.w1.weight"], own[f"ffn.experts.{e}.w3.weight"]]))
        down.append(own[f"ffn.experts.{e}.w2.weight"])
    state["mlp.experts.gate_up_proj"] = torch.stack(gate_up)
    state["mlp.experts.down_proj"] = torch.stack(down)
    layer = DeepseekV4DecoderLayer(transformers_config(config), 0).to(own["attn.attn_sink"].dtype).eval()
    layer.load_state_dict(state, strict=True)
    return layer


def transformers_layer_output(
    config: Mapping[str, Any],
    weights: Weights,
    stage: int,
    streams: Tensor,
    positions: Sequence[int] | None = None,
) -> Tensor:
    """`stage_as_decoder_layer` by transformers' own code: rope, mask, attention, router, mHC."""
    from transformers.masking_utils import create_sliding_window_causal_mask
    from transformers.models.deepseek_v4.modeling_deepseek_v4 import DeepseekV4RotaryEmbedding

    made = transformers_config(config)
    count = len(streams)
    ids = torch.arange(count)[None] if positions is None else torch.tensor(list(positions))[None]
    inputs = streams[None, :, 0]
    cos_sin = DeepseekV4RotaryEmbedding(made)(inputs, position_ids=ids, layer_type="main")
    mask = create_sliding_window_causal_mask(
        config=made, inputs_embeds=inputs, attention_mask=None, past_key_values=None, position_ids=ids
    )
    with torch.no_grad():
        out = transformers_layer(config, weights, stage)(
            streams[None],
            position_embeddings={"main": cos_sin},
            position_ids=ids,
            attention_mask=mask,
            past_key_values=None,
        )
    return out[0]
