"""Native readers: from files to a `Contract`.

Reads configs and the headers of tensor files; never weights, and never with torch.
"""

from truedraft.formats._bundled import bundled_pairs, evaluation_prompts, is_bundled, locate
from truedraft.formats._checkpoint import Checkpoint
from truedraft.formats._fetched import CACHE_VARIABLE, FETCHABLE, cache_directory
from truedraft.formats._json import load_object
from truedraft.formats._resolve import Inspection, Resolution, inspect, resolve
from truedraft.formats._safetensors import TensorInfo, TensorRef, find_tensors, read_header
from truedraft.formats.layouts import check_dtype, expected, is_quantised
from truedraft.formats.measured import read_measured

__all__ = [
    "CACHE_VARIABLE",
    "FETCHABLE",
    "Checkpoint",
    "Inspection",
    "Resolution",
    "TensorInfo",
    "TensorRef",
    "bundled_pairs",
    "cache_directory",
    "check_dtype",
    "evaluation_prompts",
    "expected",
    "find_tensors",
    "inspect",
    "is_bundled",
    "is_quantised",
    "load_object",
    "locate",
    "read_header",
    "read_measured",
    "resolve",
]
