"""Estimates of local homophily: the share of a node's neighbours that have its class.

An estimator is an object, ``HoTS(homophily=CrossFitted(n_folds=5, side="out"))``. The names in
``ESTIMATORS`` are shorthands for estimators with default parameters. A new estimator is one file
and one line here.
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
    """Return the estimator that a value of ``homophily`` stands for.

    Parameters
    ----------
    homophily : HomophilyEstimator, str or array_like of shape (n_nodes,)
        An estimator, the name of one in ``ESTIMATORS``, or the homophily itself.

    Returns
    -------
    HomophilyEstimator
        The estimator; :class:`Given` for an array.

    Raises
    ------
    InputError
        If there is no estimator of that name.

    Examples
    --------
    >>> from gnncal.homophily import make_estimator
    >>> make_estimator("support")
    Support(side='in', clamp_train_labels=False)

    """
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
    """Return the name of an estimator's kind.

    Parameters
    ----------
    estimator : HomophilyEstimator
        Any estimator.

    Returns
    -------
    str
        Its name in ``ESTIMATORS``, ``"given"`` for an array, else the name of the class.

    Examples
    --------
    >>> from gnncal.homophily import CrossFitted, name_of
    >>> name_of(CrossFitted(n_folds=3))
    'cross-fitted'

    """
    if isinstance(estimator, Shared):
        return name_of(estimator.estimator)
    names = {kind: name for name, kind in ESTIMATORS.items()} | {Given: "given"}
    return names.get(type(estimator), type(estimator).__name__)
