"""Decisions: which nodes may be decided automatically, and which classes a node may have."""

from gnncal.decisions.costs import Costs
from gnncal.decisions.guarantees import Guarantee
from gnncal.decisions.labelled import cross_fit, fit_by_group, hold_out, nodes_to_label
from gnncal.decisions.policy import Policy
from gnncal.decisions.sets import ConformalClassifier

__all__ = [
    "ConformalClassifier",
    "Costs",
    "Guarantee",
    "Policy",
    "cross_fit",
    "fit_by_group",
    "hold_out",
    "nodes_to_label",
]
