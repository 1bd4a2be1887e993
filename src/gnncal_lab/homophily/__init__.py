"""Homophily estimators to compare with; the product has support and the paper's predictor."""

from gnncal_lab.homophily.agreement import Agreement, ClampedAgreement, ClampedSupport
from gnncal_lab.homophily.cross_fitted import CrossFitted
from gnncal_lab.homophily.shared import Shared

__all__ = ["Agreement", "ClampedAgreement", "ClampedSupport", "CrossFitted", "Shared"]
