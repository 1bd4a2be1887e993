"""Estimates of local homophily: the share of a node's neighbours that have its class.

An estimator is an object, ``HoTS(homophily=Support(side="out"))``. Names are shorthands for
estimators with default parameters: those in ``ESTIMATORS``, and those that packages declare as
entry points of the group ``gnncal.homophily``.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

from gnncal.backends.class_share import neighbour_class_share
from gnncal.core.errors import InputError
from gnncal.homophily.base import CannotLearnError, HomophilyEstimator, Weights
from gnncal.homophily.clamping import NeighbourMean
from gnncal.homophily.given import Given
from gnncal.homophily.predictor import Predictor
from gnncal.homophily.support import Support

GROUP = "gnncal.homophily"
ESTIMATORS: dict[str, type[HomophilyEstimator]] = {"support": Support, "predictor": Predictor}

__all__ = [
    "ESTIMATORS",
    "CannotLearnError",
    "Given",
    "HomophilyEstimator",
    "NeighbourMean",
    "Predictor",
    "Support",
    "Weights",
    "make_estimator",
    "name_of",
    "neighbour_class_share",
]


def make_estimator(homophily: Any) -> HomophilyEstimator:
    """Return the estimator that a value of ``homophily`` stands for.

    Parameters
    ----------
    homophily : HomophilyEstimator, str or array_like of shape (n_nodes,)
        An estimator, the name of one, or the homophily itself.

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
    kind = find_estimator(homophily)
    if kind is None:
        names = ", ".join([*ESTIMATORS, *sorted(entry_points(group=GROUP).names)])
        raise InputError(
            f"homophily is {homophily!r}; expected one of {names}, an object of gnncal.homophily "
            "or an array."
        )
    return kind()


def find_estimator(name: str) -> type[HomophilyEstimator] | None:
    """Return the class of an estimator by its name; only the package that has it is imported."""
    if name in ESTIMATORS:
        return ESTIMATORS[name]
    found = next(iter(entry_points(group=GROUP, name=name)), None)
    return None if found is None else found.load()


def name_of(estimator: HomophilyEstimator) -> str:
    """Return the name of an estimator's kind.

    Parameters
    ----------
    estimator : HomophilyEstimator
        Any estimator.

    Returns
    -------
    str
        Its name, ``"given"`` for an array; the name of the class where nobody declares one.

    Examples
    --------
    >>> from gnncal.homophily import Support, name_of
    >>> name_of(Support(side="out"))
    'support'

    """
    kind = type(estimator.saved_as)
    for name, known in {**ESTIMATORS, "given": Given}.items():
        if kind is known:
            return name
    place = f"{kind.__module__}:{kind.__qualname__}"
    declared = (each.name for each in entry_points(group=GROUP) if each.value == place)
    return next(declared, kind.__name__)
