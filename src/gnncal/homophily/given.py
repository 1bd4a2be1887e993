"""Homophily from the user's own array."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gnncal.core.arrays import FloatArray, as_numpy
from gnncal.core.data import FitData
from gnncal.core.errors import InputError, shown
from gnncal.homophily.base import HomophilyEstimator, Situation, Weights


@dataclass(frozen=True, eq=False)
class Given(HomophilyEstimator):
    """One value in [0, 1] for each node of the fitted graph; NaN where it is unknown."""

    values: Any

    def learn(self, data: FitData) -> Weights:
        """Check the array; there is nothing to learn."""
        values = self._numbers()
        if values.shape != (data.n_nodes,):
            raise InputError(
                f"homophily has shape {values.shape} but there are {data.n_nodes} nodes; "
                "pass one value for each node."
            )
        known = values[~np.isnan(values)]
        if ((known < 0) | (known > 1)).any():
            raise InputError("homophily has values outside [0, 1]; pass shares, NaN if unknown.")
        return {}

    def estimate(self, weights: Weights, situation: Situation) -> FloatArray:
        """The array itself, on the graph it belongs to."""
        if not situation.is_fitted_graph:
            raise InputError(
                "homophily was given as an array for the fitted graph, and this is another graph; "
                "fit with homophily='support' for predictions on new graphs."
            )
        values = self._numbers()
        if len(values) != len(situation.logits):
            raise InputError(
                f"homophily has shape {values.shape} but there are {len(situation.logits)} nodes; "
                "the saved file is damaged, so fit and save it again."
            )
        return values

    def _numbers(self) -> FloatArray:
        array = as_numpy(self.values)
        try:
            if array.dtype.kind in "biufO":  # an object array may hold numbers and None
                return array.astype(np.float64)
        except (TypeError, ValueError):
            pass
        raise InputError(
            f"homophily is {shown(self.values)}; expected the name of an estimator, an object of "
            "gnncal.homophily or an array of numbers."
        )
