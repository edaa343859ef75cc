"""Rotary frequencies against transformers' own, and the rotation against its definition."""

from __future__ import annotations

import math

import pytest
import torch
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from truedraft.contract import Record
from truedraft.models.rope import RotaryTable, inverse_frequencies

YARN = {"rope_type": "yarn", "factor": 16.0, "original_max_position_embeddings": 4096}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


@pytest.mark.parametrize(
    "scaling",
    [
        {"rope_type": "linear", "factor": 4.0},
        YARN,
        YARN | {"beta_fast": 48.0, "beta_slow": 2.0},
        YARN | {"truncate": False},
        LLAMA3,
    ],
    ids=lambda s: "-".join(map(str, s.values())),
)
@pytest.mark.parametrize("theta", [1e4, 1e6])
def test_scaled_frequencies_equal_transformers(scaling, theta):
    config = LlamaConfig(
        hidden_size=512,
        num_attention_heads=4,
        max_position_embeddings=65536,
        rope_parameters={"rope_theta": theta, **scaling},
    )
    wanted, _ = ROPE_INIT_FUNCTIONS[scaling["rope_type"]](config, torch.device("cpu"))
    record = Record({"kind": scaling["rope_type"]} | {k: v for k, v in scaling.items() if k != "rope_type"})
    torch.testing.assert_close(inverse_frequencies(theta, 128, record), wanted, rtol=1e-5, atol=0)


class FakeContract(dict):
    """Just the axes that a rotary table reads."""


def table(**axes):
    base = {
        "rope.rotary_dims": (4,),
        "rope.placement": ("first",),
        "rope.layout": ("half",),
        "rope.theta": (100.0,),
        "rope.scaling": (None,),
        "rope.attention_factor": (1.0,),
    }
    given = {f"rope.{name}": (value,) for name, value in axes.items()}
    return RotaryTable(FakeContract(base | given), torch.device("cpu"), positions=2)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("placement", ["first", "last"])
def test_rotation_is_complex_multiplication(layout, placement):
    rotary = table(layout=layout, placement=placement, attention_factor=1.5)
    x, position = torch.arange(1.0, 7.0), 5
    cos, sin = rotary.at(torch.tensor([position]), position)
    found = rotary.rotate(x, cos[0, 0], sin[0, 0])
    start = 2 if placement == "last" else 0
    part = x[start : start + 4]
    pairs = [(0, 2), (1, 3)] if layout == "half" else [(0, 1), (2, 3)]
    wanted = x.clone()
    for number, (i, j) in enumerate(pairs):
        angle = position * 100.0 ** (-number / 2)
        turned = complex(part[i], part[j]) * complex(math.cos(angle), math.sin(angle)) * 1.5
        wanted[start + i], wanted[start + j] = turned.real, turned.imag
    torch.testing.assert_close(found, wanted)


def test_layers_keep_their_own_theta():
    base = {
        "rope.rotary_dims": (4, 4),
        "rope.placement": ("first",) * 2,
        "rope.layout": ("half",) * 2,
        "rope.theta": (1e4, 1e6),
        "rope.scaling": (None, None),
        "rope.attention_factor": (1.0, 1.0),
    }
    cos, _ = RotaryTable(FakeContract(base), torch.device("cpu")).at(torch.tensor([7]), 7)
    torch.testing.assert_close(cos[:, 0, 1], torch.tensor([math.cos(7 * 1e-2), math.cos(7 * 1e-3)]))
