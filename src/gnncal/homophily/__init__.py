"""Estimates of local homophily: the share of a node's neighbours that have its class.

An estimator is an object, ``HoTS(homophily=CrossFitted(n_folds=5, side="out"))``; the names in
``ESTIMATORS`` are shorthands for those with default parameters. A new estimator is one file and
one line here.
"""

from __future__ import annotations

from typing import Any

from gnncal.core.errors import InputError
from gnncal.homophily.agreement import Agreement
from gnncal.homophily.base import HomophilyEstimator
from gnncal.homophily.cross_fitted import CrossFitted
from gnncal.homophily.given import Given
from gnncal.homophily.predictor import Predictor
from gnncal.homophily.shared import Shared
from gnncal.homophily.support import Support

ESTIMATORS: dict[str, type[HomophilyEstimator]] = {
    "support": Support,
    "agreement": Agreement,
    "cross-fitted": CrossFitted,
    "predictor": Predictor,
}

__all__ = [
    "ESTIMATORS",
    "Agreement",
    "CrossFitted",
    "Given",
    "HomophilyEstimator",
    "Predictor",
    "Shared",
    "Support",
    "make_estimator",
    "name_of",
]


def make_estimator(homophily: Any) -> HomophilyEstimator:
    """The estimator that a value of ``homophily`` means: an object, a name or an array."""
    if isinstance(homophily, HomophilyEstimator):
        return homophily
    if not isinstance(homophily, str):
        return Given(homophily)
    if homophily not in ESTIMATORS:
        names = ", ".join(ESTIMATORS)
        raise InputError(
            f"homophily is {homophily!r}; expected one of {names}, an object of gnncal.homophily "
            "or an array."
        )
    return ESTIMATORS[homophily]()


def name_of(estimator: HomophilyEstimator) -> str:
    """The shorthand of an estimator's kind; ``"given"`` for an array, else the class's name."""
    if isinstance(estimator, Shared):
        return name_of(estimator.estimator)
    names = {kind: name for name, kind in ESTIMATORS.items()} | {Given: "given"}
    return names.get(type(estimator), type(estimator).__name__)
