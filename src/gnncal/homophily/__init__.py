"""Estimates of local homophily: the share of a node's neighbours that have its class."""

from gnncal.homophily.catalogue import ESTIMATORS, make_estimator

__all__ = ["ESTIMATORS", "make_estimator"]
