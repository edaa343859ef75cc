"""Native readers: from files to a `Contract`.

Reads configs and the headers of tensor files; never weights, and never with torch.
"""

from truedraft.formats._bundled import bundled_pairs, evaluation_prompts, locate
from truedraft.formats._checkpoint import Checkpoint
from truedraft.formats._resolve import Inspection, Resolution, inspect, resolve
from truedraft.formats._safetensors import TensorInfo, TensorRef, read_header
from truedraft.formats.layouts import check_dtype, expected

__all__ = [
    "Checkpoint",
    "Inspection",
    "Resolution",
    "TensorInfo",
    "TensorRef",
    "bundled_pairs",
    "check_dtype",
    "evaluation_prompts",
    "expected",
    "inspect",
    "locate",
    "read_header",
    "resolve",
]
