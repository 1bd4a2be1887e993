"""Homophily from the user's own array."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gnncal.core.arrays import FloatArray, as_numpy
from gnncal.core.errors import InputError
from gnncal.homophily.base import HomophilyEstimator, Weights
from gnncal.nodes import Nodes


@dataclass(frozen=True, eq=False)
class Given(HomophilyEstimator):
    """Homophily that is known: one value for each node of the fitted graph."""

    values: Any

    def learn(self, nodes: Nodes) -> Weights:
        """Check the array; there is nothing to learn."""
        self._checked(nodes.n_nodes)
        return {}

    def estimate(self, weights: Weights, nodes: Nodes, *, is_fitted_graph: bool) -> FloatArray:
        """Return the array itself, on the graph it belongs to."""
        if not is_fitted_graph:
            raise InputError(
                "homophily was given as an array for the fitted graph, and this is another graph; "
                "fit with homophily='support' for predictions on new graphs."
            )
        return self._checked(nodes.n_nodes)

    def _checked(self, n_nodes: int) -> FloatArray:
        values = as_numpy(self.values)
        if values.shape != (n_nodes,) or values.dtype.kind not in "fiubO":
            raise InputError(
                f"homophily has shape {values.shape} and dtype {values.dtype} but there are "
                f"{n_nodes} nodes; pass one number for each node."
            )
        try:
            values = values.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(f"homophily must hold numbers, NaN if unknown ({error}).") from error
        known = values[~np.isnan(values)]
        if ((known < 0) | (known > 1)).any():
            raise InputError("homophily has values outside [0, 1]; pass shares, NaN if unknown.")
        return values
