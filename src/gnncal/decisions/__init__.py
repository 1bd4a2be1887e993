"""Decisions: which nodes may be decided automatically, and which classes a node may have."""

from gnncal.decisions.curve import SelectiveCurve, selective_curve
from gnncal.decisions.selective import SelectiveClassifier, SelectiveReport

__all__ = [
    "SelectiveClassifier",
    "SelectiveCurve",
    "SelectiveReport",
    "selective_curve",
]
