"""Imports that take seconds and swallow a Ctrl-C, made where it can be held back."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module


def import_architecture(model_type: str) -> None:
    """Import transformers' module of a target now.

    It takes seconds, and swallows a Ctrl-C that comes meanwhile. Architectures without such a module are
    refused, or imported, by the loader.
    """
    from truedraft.models.stateful_types import STATEFUL_TYPES
    from truedraft.models.target import MODEL_TYPES

    name = model_type.removesuffix("_text")
    if model_type in MODEL_TYPES | STATEFUL_TYPES:
        with suppress(ImportError):
            import_module(f"transformers.models.{name}.modeling_{name}")
