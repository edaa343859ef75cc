"""From figures, files and what people say about a deployment to ranked causes and the next experiment."""

from truedraft.diagnose.catalogue import Catalogue, Cause, LineSign, Question, catalogue
from truedraft.diagnose.infer import Evidence, Experiment, Inference, Ranked
from truedraft.diagnose.report import NOT_COMPARED, Diagnosis, diagnose

__all__ = [
    "NOT_COMPARED",
    "Catalogue",
    "Cause",
    "Diagnosis",
    "Evidence",
    "Experiment",
    "Inference",
    "LineSign",
    "Question",
    "Ranked",
    "catalogue",
    "diagnose",
]
