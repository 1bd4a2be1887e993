"""The paper's predictor without its leak: calibration nodes are estimated out of fold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gnncal import Nodes
from gnncal.calibrators import Array, integer
from gnncal.calibrators.homophily import CannotLearnError, Predictor, Propagation, Weights
from gnncal_lab.arrays import FloatArray
from gnncal_lab.fitting.recalled import check_recalled_nodes

FEWEST_SUPERVISED_NODES = 20  # with fewer, the folds of a predictor are noise


@dataclass(frozen=True, kw_only=True)
class CrossFitted(Predictor):
    """Like ``"predictor"``, but no network estimates a calibration node whose label it has seen.

    One network for each fold of the calibration nodes is trained without the labels of that fold.
    It estimates the nodes of the fold; all other nodes get the mean of the networks. A label that
    is left out is neither a target nor part of a neighbour's target.

    Parameters
    ----------
    side : {"in", "out", "both"}, default="out"
        Neighbours whose labels the targets count: ``"out"``, as in the HoTS release, the nodes that
        a node sends to; ``"in"`` those that send to it; ``"both"`` all of them.
    add_self_loops : bool, default=True
        Whether each node without a self-loop gets one, in the network's graph.
    checkpoint : {"matched", "after-step"}, default="matched"
        Which weights are kept for the best loss: those that gave it, or, as in the HoTS release,
        those after the next step.
    random_state : int, default=0
        Seed of the initial weights and of the folds.
    hidden : int, default=32
        Width of the network's hidden layer.
    learning_rate : float, default=0.01
        Step size of Adam.
    weight_decay : float, default=0.0001
        Multiple of the weights that is added to their gradient.
    max_epochs : int, default=200
        Largest number of epochs.
    patience : int, default=30
        Epochs without a lower loss after which training ends.
    n_folds : int, default=5
        Number of folds.

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal import HoTS
    >>> from gnncal_lab.homophily import CrossFitted
    >>> from gnncal_lab.simulation import CSBM
    >>> sample = CSBM(n_classes=3).sample(np.full(400, 0.8))
    >>> logits, graph = 4 * sample.graph.features[:, :3], sample.graph
    >>> calibrator = HoTS(homophily=CrossFitted(n_folds=2, max_epochs=50))
    >>> calibrator = calibrator.fit(logits, sample.labels, graph, calibration_nodes=range(200))
    >>> round(float(calibrator.homophily_.mean()), 1)  # the true one is 0.8
    0.8

    """

    name: ClassVar[str] = "cross-fitted"
    n_folds: int = 5

    constraints: ClassVar = Predictor.constraints | {"n_folds": integer(at_least=2)}
    learned: ClassVar = {
        "input_weight": Array("folds features hidden"),
        "input_bias": Array("folds hidden"),
        "output_weight": Array("folds hidden"),
        "output_bias": Array("folds 1"),
        "nodes": Array("calibration_nodes", low=0, whole=True),
        "folds": Array("calibration_nodes", low=0, high="folds-1", whole=True),
    }

    def learn(self, nodes: Nodes) -> Weights:
        """Return the predictors of the folds, and which node is in which fold.

        Raises
        ------
        CannotLearnError
            If the graph has no features, or too few nodes have labelled neighbours.

        """
        propagation = Propagation(nodes.required_graph, add_self_loops=self.add_self_loops)
        self._check_supervision(nodes)
        n_folds = min(self.n_folds, nodes.calibration_nodes.size)
        folds = np.random.default_rng(self.seed).permutation(nodes.calibration_nodes.size) % n_folds
        trained = []
        for fold in range(n_folds):
            known = nodes.label_vector
            known[nodes.calibration_nodes[folds == fold]] = -1
            trained.append(self._train(propagation, nodes.required_graph, known))
        stacked = {name: np.stack([weights[name] for weights in trained]) for name in trained[0]}
        return {**stacked, "nodes": nodes.calibration_nodes, "folds": folds}

    def _check_supervision(self, nodes: Nodes) -> None:
        targets = self._targets(nodes.required_graph, nodes.label_vector)
        supervised = int((~np.isnan(targets)).sum())
        if supervised < FEWEST_SUPERVISED_NODES:
            raise CannotLearnError(f"only {supervised} labelled nodes have a labelled neighbour")

    def estimate(self, weights: Weights, nodes: Nodes, *, is_fitted_graph: bool) -> FloatArray:
        """Estimate calibration nodes of the fitted graph out of fold, and others by the mean."""
        learned = {n: w for n, w in weights.items() if n not in ("nodes", "folds")}
        propagation = Propagation(nodes.required_graph, add_self_loops=self.add_self_loops)
        runs = [
            self._run({name: stack[fold] for name, stack in learned.items()}, propagation)
            for fold in range(len(learned["input_weight"]))
        ]
        estimates = np.mean(runs, axis=0)
        if is_fitted_graph:
            recalled, folds = weights["nodes"], weights["folds"]
            check_recalled_nodes(recalled, len(estimates))
            estimates[recalled] = np.stack(runs)[folds, recalled]
        return estimates
