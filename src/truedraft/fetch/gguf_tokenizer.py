"""The tokenizer of a GGUF file (byte-level BPE) as a fast tokenizer of transformers."""

from __future__ import annotations

from typing import Any

from truedraft.contract import InputError
from truedraft.fetch.gguf_config import Metadata

_CONTROL, _USER_DEFINED = 3, 4
"""Token types of the GGUF specification whose text is never split (llama.cpp, `llama_token_type`)."""

_SINGLE_DIGITS = ("smollm",)
"""`tokenizer.ggml.pre` of tokenizers that cut every digit off before the byte-level pattern applies."""


def read_tokenizer(metadata: Metadata) -> Any:
    """A `PreTrainedTokenizerFast` with the file's chat template.

    Raises `InputError` for another kind of tokenizer or pre-tokenizer, and for contradictory tables.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models
    from transformers import PreTrainedTokenizerFast

    path = metadata.path
    kind, pre = metadata.need("tokenizer.ggml.model", str), metadata.need("tokenizer.ggml.pre", str)
    if kind != "gpt2" or pre not in _SINGLE_DIGITS:
        known = ", ".join(_SINGLE_DIGITS)
        raise InputError(
            f"{path}#tokenizer.ggml: found {kind!r:.40}, {pre!r:.40}, expected 'gpt2', {known!r}"
        )
    tokens = metadata.need("tokenizer.ggml.tokens", list)
    types = metadata.need("tokenizer.ggml.token_type", list)
    merges = [tuple(text.split(" ")) for text in metadata.need("tokenizer.ggml.merges", list)]
    vocabulary = {text: number for number, text in enumerate(tokens)}
    if len(vocabulary) != len(tokens) or len(types) != len(tokens):
        raise InputError(f"{path}#tokenizer.ggml.tokens: found doubles, or another number of token types")
    try:
        core = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, fuse_unk=False))
    except Exception as error:  # tokenizers raises plain Exception
        raise InputError(f"{path}#tokenizer.ggml.merges: {' '.join(str(error).split())}") from None
    core.pre_tokenizer = _pre_tokenizer()
    core.decoder = decoders.ByteLevel()
    for number, text in enumerate(tokens):
        if types[number] in (_CONTROL, _USER_DEFINED):
            special = types[number] == _CONTROL
            core.add_tokens([AddedToken(text, special=special, normalized=False)])
    named = {
        role: tokens[number]
        for role, key in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding"))
        if (number := metadata.get(f"tokenizer.ggml.{key}_token_id", int)) is not None
        and 0 <= number < len(tokens)
    }
    make: Any = PreTrainedTokenizerFast
    fast = make(
        tokenizer_object=core,
        clean_up_tokenization_spaces=False,
        model_max_length=metadata.need("llama.context_length", int),
        **{f"{role}_token": text for role, text in named.items()},
    )
    fast.chat_template = metadata.get("tokenizer.chat_template", str)
    return fast


def _pre_tokenizer() -> Any:
    from tokenizers import pre_tokenizers

    digits = pre_tokenizers.Digits(individual_digits=True)
    return pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
