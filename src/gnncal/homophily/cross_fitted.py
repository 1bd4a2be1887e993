"""The paper's predictor without its leak: calibration nodes are estimated out of fold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gnncal.core.arrays import FloatArray
from gnncal.core.data import FitData
from gnncal.homophily.base import HomophilyEstimator, Situation, Weights
from gnncal.homophily.predictor import Predictor, Propagation


@dataclass(frozen=True)
class CrossFitted(HomophilyEstimator):
    """One predictor a fold of the calibration nodes, trained without that fold's labels.

    A calibration node is estimated by the predictor that never saw its label, neither as a
    target nor inside a neighbour's target; every other node by the mean of all of them.
    """

    predictor: Predictor
    n_folds: int = 5

    def learn(self, data: FitData) -> Weights:
        """Train the fold predictors; remember which node sits in which fold."""
        assert data.graph is not None
        propagation = Propagation(data.graph, add_self_loops=self.predictor.add_self_loops)
        n_folds = min(self.n_folds, data.nodes.size)
        generator = np.random.default_rng(self.predictor.seed)
        folds = generator.permutation(data.nodes.size) % n_folds
        trained = []
        for fold in range(n_folds):
            known = data.known_label_vector()
            known[data.nodes[folds == fold]] = -1
            trained.append(self.predictor.train(propagation, data.graph, known))
        stacked = {name: np.stack([weights[name] for weights in trained]) for name in trained[0]}
        return {**stacked, "nodes": data.nodes, "folds": folds}

    def estimate(self, weights: Weights, situation: Situation) -> FloatArray:
        """Out of fold at the calibration nodes of the fitted graph, the mean elsewhere."""
        learned = {n: w for n, w in weights.items() if n not in ("nodes", "folds")}
        propagation = Propagation(situation.graph, add_self_loops=self.predictor.add_self_loops)
        runs = [
            self.predictor.run({name: stack[fold] for name, stack in learned.items()}, propagation)
            for fold in range(len(learned["input_weight"]))
        ]
        estimates = np.mean(runs, axis=0)
        if situation.is_fitted_graph:
            nodes, folds = weights["nodes"], weights["folds"]
            estimates[nodes] = np.stack(runs)[folds, nodes]
        return estimates
