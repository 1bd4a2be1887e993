"""The paper's predictor without its leak: calibration nodes are estimated out of fold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gnncal.core.arrays import FloatArray
from gnncal.core.constraints import whole_number
from gnncal.core.data import FitData
from gnncal.core.learned import Array, check_recalled_nodes
from gnncal.homophily.base import CannotLearnError, Situation, Weights
from gnncal.homophily.network import Propagation
from gnncal.homophily.predictor import TrainedPredictor, masked_targets

FEWEST_SUPERVISED_NODES = 20  # with fewer, the folds of a predictor are noise


@dataclass(frozen=True, kw_only=True)
class CrossFitted(TrainedPredictor):
    """One predictor for each fold of the calibration nodes, trained without that fold's labels.

    A calibration node is estimated by the predictor that never saw its label, neither as a
    target nor inside a neighbour's target; every other node by the mean of all of them.
    ``n_folds`` is the number of folds; the other parameters are those of
    :class:`gnncal.homophily.predictor.TrainedPredictor`.
    """

    n_folds: int = 5

    constraints: ClassVar = TrainedPredictor.constraints | {"n_folds": whole_number(at_least=2)}
    learned: ClassVar = {
        "input_weight": Array("folds features hidden"),
        "input_bias": Array("folds hidden"),
        "output_weight": Array("folds hidden"),
        "output_bias": Array("folds 1"),
        "nodes": Array("calibration_nodes", low=0, whole=True),
        "folds": Array("calibration_nodes", low=0, high="folds-1", whole=True),
    }

    def learn(self, data: FitData) -> Weights:
        """Train the fold predictors; remember which node sits in which fold."""
        assert data.graph is not None
        propagation = Propagation(data.graph, add_self_loops=self.add_self_loops)
        self._check_supervision(data)
        n_folds = min(self.n_folds, data.nodes.size)
        folds = np.random.default_rng(self.seed).permutation(data.nodes.size) % n_folds
        trained = []
        for fold in range(n_folds):
            known = data.known_label_vector()
            known[data.nodes[folds == fold]] = -1
            trained.append(self.train(propagation, data.graph, known))
        stacked = {name: np.stack([weights[name] for weights in trained]) for name in trained[0]}
        return {**stacked, "nodes": data.nodes, "folds": folds}

    def _check_supervision(self, data: FitData) -> None:
        assert data.graph is not None
        targets = masked_targets(data.graph, data.known_label_vector(), side=self.side)
        supervised = int((~np.isnan(targets)).sum())
        if supervised < FEWEST_SUPERVISED_NODES:
            raise CannotLearnError(f"only {supervised} labelled nodes have a labelled neighbour")

    def estimate(self, weights: Weights, situation: Situation) -> FloatArray:
        """Out of fold at the calibration nodes of the fitted graph, the mean elsewhere."""
        learned = {n: w for n, w in weights.items() if n not in ("nodes", "folds")}
        propagation = self.propagation(situation.graph)
        runs = [
            self.run({name: stack[fold] for name, stack in learned.items()}, propagation)
            for fold in range(len(learned["input_weight"]))
        ]
        estimates = np.mean(runs, axis=0)
        if situation.is_fitted_graph:
            nodes, folds = weights["nodes"], weights["folds"]
            check_recalled_nodes(nodes, len(estimates))
            estimates[nodes] = np.stack(runs)[folds, nodes]
        return estimates
