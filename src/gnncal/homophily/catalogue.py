"""Every homophily estimator by name."""

from __future__ import annotations

from typing import Any

from gnncal.core.adam import Checkpoint
from gnncal.core.errors import InputError
from gnncal.core.graph import Side
from gnncal.homophily.agreement import Agreement
from gnncal.homophily.base import HomophilyEstimator
from gnncal.homophily.cross_fitted import CrossFitted
from gnncal.homophily.given import Given
from gnncal.homophily.predictor import Predictor
from gnncal.homophily.support import Support

NEED_FEATURES = ("cross-fitted", "predictor")
ESTIMATORS = ("support", "agreement", "cross-fitted", "predictor")


def make_estimator(
    homophily: Any,
    *,
    side: Side | None,
    n_folds: int,
    add_self_loops: bool,
    checkpoint: Checkpoint,
    seed: int,
) -> HomophilyEstimator:
    """The estimator called ``homophily``, or one that returns the array ``homophily``."""
    if not isinstance(homophily, str):
        return Given(homophily)
    if homophily == "support":
        return Support(side or "in")
    if homophily == "agreement":
        return Agreement(side or "in")
    predictor = Predictor(side or "out", add_self_loops, checkpoint, seed)
    if homophily == "predictor":
        return predictor
    if homophily == "cross-fitted":
        return CrossFitted(predictor, n_folds)
    names = ", ".join(ESTIMATORS)
    raise InputError(f"homophily is {homophily!r}; expected one of {names}, or an array.")
