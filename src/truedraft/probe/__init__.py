"""The probe: let the weights say which convention they were trained with."""

from truedraft.probe._run import ProbeReport, Settings, probe, tapped
from truedraft.probe.verdicts import WORKING, AxisVerdict, Candidate
from truedraft.probe.wiring import Wiring

__all__ = ["WORKING", "AxisVerdict", "Candidate", "ProbeReport", "Settings", "Wiring", "probe", "tapped"]
