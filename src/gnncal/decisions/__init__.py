"""Decisions: which nodes may be decided automatically, and which classes a node may have."""

from gnncal.decisions.aps import APS
from gnncal.decisions.conformal import ConformalClassifier
from gnncal.decisions.curve import SelectiveCurve, selective_curve
from gnncal.decisions.daps import DAPS
from gnncal.decisions.judging import DecisionOutcome, SetOutcome, judge_decisions, judge_sets
from gnncal.decisions.lac import LAC
from gnncal.decisions.raps import RAPS
from gnncal.decisions.scores import ConformalScore
from gnncal.decisions.selective import SelectiveClassifier, SelectiveReport
from gnncal.decisions.set_report import ClassConformalReport, ConformalReport
from gnncal.decisions.snaps import SNAPS
from gnncal.decisions.splitting import hold_out

__all__ = [
    "APS",
    "DAPS",
    "LAC",
    "RAPS",
    "SNAPS",
    "ClassConformalReport",
    "ConformalClassifier",
    "ConformalReport",
    "ConformalScore",
    "DecisionOutcome",
    "SelectiveClassifier",
    "SelectiveCurve",
    "SelectiveReport",
    "SetOutcome",
    "hold_out",
    "judge_decisions",
    "judge_sets",
    "selective_curve",
]
