"""Decisions: which nodes may be decided automatically, and which classes a node may have."""

from gnncal.decisions.aps import APS
from gnncal.decisions.budget import BudgetOutlook
from gnncal.decisions.class_curve import ClassCurve, class_curve
from gnncal.decisions.conformal import ConformalClassifier
from gnncal.decisions.costs import Amount, CostOutlook, Costs
from gnncal.decisions.curve import SelectiveCurve, selective_curve
from gnncal.decisions.daps import DAPS
from gnncal.decisions.judging import DecisionOutcome, SetOutcome, judge_decisions, judge_sets
from gnncal.decisions.lac import LAC
from gnncal.decisions.policy import ClassPolicy
from gnncal.decisions.policy_judging import Kept, PolicyOutcome, judge_policy
from gnncal.decisions.policy_report import Outlook, PolicyReport
from gnncal.decisions.promises import Promise
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
    "Amount",
    "BudgetOutlook",
    "ClassConformalReport",
    "ClassCurve",
    "ClassPolicy",
    "ConformalClassifier",
    "ConformalReport",
    "ConformalScore",
    "CostOutlook",
    "Costs",
    "DecisionOutcome",
    "Kept",
    "Outlook",
    "PolicyOutcome",
    "PolicyReport",
    "Promise",
    "SelectiveClassifier",
    "SelectiveCurve",
    "SelectiveReport",
    "SetOutcome",
    "class_curve",
    "hold_out",
    "judge_decisions",
    "judge_policy",
    "judge_sets",
    "selective_curve",
]
