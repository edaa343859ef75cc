"""The training text (stdlib docstrings), the unseen text and the byte-level BPE tokenizer."""

from __future__ import annotations

import ast
import hashlib
import json
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from settings import DOC_ID, EOS_ID, HERE, PAIR, SPECIAL_TOKENS, VOCAB_SIZE

CORPUS, UNSEEN = HERE / "corpus.txt", HERE / "unseen.txt"
SEPARATOR = "\n\f\n"
CORPUS_BYTES, UNSEEN_DOCUMENTS = 62_000, 16
SKIPPED = {"test", "tests", "idlelib", "lib2to3", "site-packages", "turtledemo", "encodings",
           "__pycache__", "config-3.11-x86_64-linux-gnu", "ensurepip", "pydoc_data"}  # fmt: skip


def _definitions(node: ast.AST, prefix: str) -> Iterator[tuple[str, str]]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    if isinstance(node, kinds):
        text = ast.get_docstring(node)
        if text:
            yield prefix, text
    for child in ast.iter_child_nodes(node):
        if isinstance(child, kinds):
            yield from _definitions(child, f"{prefix}.{child.name}")  # type: ignore[union-attr]


def stdlib_documents() -> list[str]:
    """Return "name: docstring" texts of the running stdlib, in a fixed pseudo-random order."""
    root = Path(sysconfig.get_paths()["stdlib"])
    found: dict[str, str] = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        if SKIPPED & set(parts):
            continue
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"))
        except (SyntaxError, UnicodeDecodeError):
            continue
        for name, text in _definitions(tree, ".".join(parts)):
            plain = text.isascii() and ">>>" not in text and "\f" not in text
            if plain and 400 <= len(text) <= 3000:
                found.setdefault(text, f"{name}: {text}")
    return sorted(found.values(), key=lambda text: hashlib.sha256(text.encode()).hexdigest())


def write_corpus() -> None:
    """Write corpus.txt and unseen.txt from the running stdlib (only needed to remake them)."""
    documents, chosen, size = stdlib_documents(), [], 0
    while size < CORPUS_BYTES:
        chosen.append(documents.pop(0))
        size += len(chosen[-1])
    unseen = [text for text in documents if len(text) >= 1500][:UNSEEN_DOCUMENTS]
    CORPUS.write_text(SEPARATOR.join(chosen), encoding="utf-8")
    UNSEEN.write_text(SEPARATOR.join(unseen), encoding="utf-8")


def documents(path: Path) -> list[str]:
    """Return the documents of corpus.txt or unseen.txt."""
    return path.read_text(encoding="utf-8").split(SEPARATOR)


def write_tokenizer(folder: Path) -> None:
    """Train the BPE on corpus.txt and write tokenizer.json and tokenizer_config.json."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        special_tokens=SPECIAL_TOKENS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(documents(CORPUS), trainer)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": SPECIAL_TOKENS[EOS_ID],
        "pad_token": SPECIAL_TOKENS[EOS_ID],
        "additional_special_tokens": SPECIAL_TOKENS[1:],
        "clean_up_tokenization_spaces": False,
        "model_max_length": 1024,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")


def load_tokenizer() -> Tokenizer:
    """Return the shipped tokenizer."""
    return Tokenizer.from_file(str(PAIR / "target" / "tokenizer.json"))


def token_stream() -> list[int]:
    """Return the whole corpus as ids: <|doc|> text <|eos|> <|doc|> text <|eos|> ..."""
    tokenizer = load_tokenizer()
    stream: list[int] = []
    for text in documents(CORPUS):
        stream += [DOC_ID, *tokenizer.encode(text).ids, EOS_ID]
    return stream


if __name__ == "__main__":
    write_corpus()
