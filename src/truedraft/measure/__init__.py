"""Where acceptance records come from. Now: our own decoder, with its losslessness checked."""

from truedraft.measure.replay import replay
from truedraft.measure.run import (
    Lossless,
    Output,
    Prompt,
    RunReport,
    Speed,
    run_pair,
)

__all__ = ["Lossless", "Output", "Prompt", "RunReport", "Speed", "replay", "run_pair"]
