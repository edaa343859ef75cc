"""Arms of one vLLM against each other, in fresh boots that alternate (`truedraft experiment`)."""

from truedraft.engines.vllm.experiment.arms import Treatment, parse_arms
from truedraft.engines.vllm.experiment.outcome import Change, Difference, Divergence, Outcome, Side, outcome
from truedraft.engines.vllm.experiment.process import Boots
from truedraft.engines.vllm.experiment.result import BootResult
from truedraft.engines.vllm.experiment.run import run_boots
from truedraft.engines.vllm.experiment.setup import Asked, Setup

__all__ = [
    "Asked",
    "BootResult",
    "Boots",
    "Change",
    "Difference",
    "Divergence",
    "Outcome",
    "Setup",
    "Side",
    "Treatment",
    "outcome",
    "parse_arms",
    "run_boots",
]
