"""What a training starts from: the target's frozen tables, and a drafter made of the target's last layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

import target as smollm2
from data import Answer, statistics
from drafters.shapes import DrafterSpec
from drafters.stack import Drafter, Layer
from losses import Tables
from settings import TARGET_LAYERS, VOCAB_SIZE

FIRST_NORM = 0.5
"""Size of the final norm beside the target's: first logits that are not too sure."""
HEAD_NORM = 1.5
"""First weight of the drafter's norms of queries and keys, which the target does not have."""
OTHER_TAPS = 0.1
"""Size of the random first weights of fc on all taps but the last."""


def tables(found: Sequence[Answer]) -> tuple[Tables, Any]:
    """The target's frozen parts with the statistics of the answers, and the target itself."""
    model = smollm2.load(())[0].model
    norm = model.model.norm
    embedding = model.get_input_embeddings().weight.detach().clone()
    frozen = Tables(embedding, norm.weight.detach().clone(), float(norm.variance_epsilon), statistics(found))
    return frozen, model


@torch.no_grad()
def fresh_drafter(spec: DrafterSpec, model: Any, scale: Tensor) -> Drafter:
    """A drafter with the weights of the target's last layers, as far as they fit.

    fc passes the last tap on as it is (`scale` [taps * hidden]: what features are divided by), and the norm
    behind it is that before the first copied layer, so that context keys and values begin as the target's own
    of that layer. Of the target's MLP neurons the strongest are taken.
    """
    torch.manual_seed(spec.seed)
    drafter = Drafter(spec, VOCAB_SIZE, spec.shape.hidden)
    hidden = spec.shape.hidden
    blocks = model.model.layers[TARGET_LAYERS - spec.shape.layers :]
    nn.init.normal_(drafter.fc.weight, std=OTHER_TAPS * 0.5 * drafter.fc.in_features**-0.5)
    last = scale[-hidden:]
    drafter.fc.weight[:, -hidden:] += torch.diag(last / last.norm() * hidden**0.5)
    drafter.hidden_norm.weight.copy_(blocks[0].input_layernorm.weight)
    for layer, block in zip(drafter.layers, blocks, strict=True):
        _copy_layer(layer, block, spec.shape.intermediate)
    drafter.norm.weight.copy_(FIRST_NORM * model.model.norm.weight)
    if spec.markov_rank:
        nn.init.normal_(drafter.markov_head.markov_w1.weight, std=0.02)
        nn.init.zeros_(drafter.markov_head.markov_w2.weight)
        nn.init.zeros_(drafter.confidence_head.proj.weight)
        nn.init.zeros_(drafter.confidence_head.proj.bias)
    return drafter


def _copy_layer(layer: Layer, block: Any, neurons: int) -> None:
    for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
        getattr(layer.self_attn, name).weight.copy_(getattr(block.self_attn, name).weight)
    layer.self_attn.q_norm.weight.fill_(HEAD_NORM)
    layer.self_attn.k_norm.weight.fill_(HEAD_NORM)
    layer.input_layernorm.weight.copy_(block.input_layernorm.weight)
    layer.post_attention_layernorm.weight.copy_(block.post_attention_layernorm.weight)
    gate, up, down = (getattr(block.mlp, name).weight for name in ("gate_proj", "up_proj", "down_proj"))
    strength = gate.norm(dim=1) * up.norm(dim=1) * down.norm(dim=0)
    kept = strength.topk(neurons).indices.sort().values
    layer.mlp.gate_proj.weight.copy_(gate[kept])
    layer.mlp.up_proj.weight.copy_(up[kept])
    layer.mlp.down_proj.weight.copy_(down[:, kept])
