"""Where acceptance records come from. Now: our own decoder, with its losslessness checked."""

from truedraft.measure.lossless import Lossless
from truedraft.measure.run import (
    Output,
    Prompt,
    RunReport,
    Speed,
    run_pair,
)
from truedraft.measure.teacher_forced import accepted_along, replay

__all__ = ["Lossless", "Output", "Prompt", "RunReport", "Speed", "accepted_along", "replay", "run_pair"]
