"""Order-invariant calibration (Rahimi et al., NeurIPS 2020): a network that keeps the ranking."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy.special import expit

from gnncal import Nodes
from gnncal.calibrators import (
    Array,
    FitReport,
    PointwiseCalibrator,
    TemperatureScaling,
    integer,
    keep_predictions,
    lbfgs,
    number,
    solve_like_the_paper,
)
from gnncal_lab.arrays import FloatArray, IntArray
from gnncal_lab.fitting.formulas import softmax
from gnncal_lab.fitting.parts import PROTOCOLS, SOLVER_STATE, Objective, Protocol, loss_and_residual

LARGEST_LOGIT = 1e4  # what the network reads; beyond, every softmax is saturated
LOSS_TOLERANCE = 1e-8  # rectified units have kinks, where no gradient vanishes
MOST_WORK = 10_000_000  # iterations times weights: with 100 classes 500 iterations, with 300 55
FEWEST_ITERATIONS = 50
BOUND = 100.0  # of every weight; the decay keeps them far below


class OrderInvariant(PointwiseCalibrator):
    r"""Scale the gaps between the sorted logits by positive numbers that a network computes.

    .. math:: o_{(k)} = \sum_{j=k}^{K-1} \mathrm{softplus}(a + m_j(z_{(1)}, \dots, z_{(K)}))
                        \, (z_{(j)} - z_{(j+1)}), \qquad z_{(1)} \ge \dots \ge z_{(K)}

    Here z_(k) is the k-th largest of a node's K logits, and o_(k) is the calibrated logit of the
    same class. The network m has one hidden layer of K ReLU units. Each gap is multiplied by a
    positive number, so the ranking of all classes stays, ties included. With m = 0 the method is
    temperature scaling with T = 1 / softplus(a).

    Parameters
    ----------
    weight_decay : float, default=0.01
        Half of this number, times the sum of the squared weights, is added to the loss.
    protocol : {"converged", "paper"}, default="converged"
        ``"converged"`` sets the offset a by temperature scaling and minimises the loss of the
        calibration nodes with L-BFGS, so the decay pulls towards temperature scaling. ``"paper"``
        sets a = 0, as in the publication, and runs Adam, stopped early on the loss of the training
        nodes; it needs ``train_nodes``.
    random_state : int, default=0
        Seed of the initial weights; the loss is not convex.

    Attributes
    ----------
    offset_ : float
        The value of a.
    hidden_weight_, hidden_bias_ : ndarray of shape (n_classes, n_classes) and (n_classes,)
        Hidden layer of m.
    output_weight_ : ndarray of shape (n_classes, n_classes - 1)
        Output layer of m.
    output_bias_ : ndarray of shape (n_classes - 1,)
        Biases of the output layer of m.

    Notes
    -----
    Use it if you have no graph and the ranking of all classes must not change.

    The number of L-BFGS iterations is limited (55 with 300 classes). If a fit needs more, gnncal
    warns. ``protocol="paper"`` has at most 1,000 epochs and a patience of 50.

    References
    ----------
    Rahimi, Shaban, Cheng, Hartley, Boots, "Intra order-preserving functions for calibration of
    multi-class neural networks" (NeurIPS 2020).

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal_lab import OrderInvariant
    >>> from gnncal_lab.simulation import CSBM
    >>> sample = CSBM(n_classes=3).sample(np.full(600, 0.8))
    >>> logits = 4 * sample.graph.features[:, :3]
    >>> calibrator = OrderInvariant().fit(logits, sample.labels, calibration_nodes=range(300))
    >>> ranking = calibrator.predict_proba(logits).argsort(axis=1)
    >>> bool((ranking == logits.argsort(axis=1)).all())
    True

    """

    preserves_predictions = True
    constraints: ClassVar = {
        "weight_decay": number(at_least=0),
        "protocol": PROTOCOLS,
        "random_state": integer(at_least=0),
    }
    learned: ClassVar = {
        "offset_": number(),
        "hidden_weight_": Array("K K"),
        "hidden_bias_": Array("K"),
        "output_weight_": Array("K K-1"),
        "output_bias_": Array("K-1"),
        **SOLVER_STATE,
    }
    offset_: float
    hidden_weight_: FloatArray
    hidden_bias_: FloatArray
    output_weight_: FloatArray
    output_bias_: FloatArray
    converged_: bool
    n_iter_: int

    def __init__(
        self,
        *,
        weight_decay: float = 0.01,
        protocol: Protocol = "converged",
        random_state: int = 0,
    ) -> None:
        self.weight_decay = weight_decay
        self.protocol = protocol
        self.random_state = random_state

    def _fit(self, nodes: Nodes) -> None:
        logits, n_classes = nodes.calibration_logits, nodes.n_classes
        rows = canonical_rows(logits, nodes.labels)
        start = _initial_weights(n_classes, self.random_state)
        if self.protocol == "paper":
            self.offset_ = 0.0
            objective = self._objective(*rows, self.weight_decay)
            train_rows = canonical_rows(nodes.logits[nodes.train_nodes], nodes.train_labels)
            on_train = self._objective(*train_rows, 0.0)
            solution = solve_like_the_paper(objective, lambda theta: on_train(theta)[0], start)
        else:
            self.offset_ = _softplus_inverse(1.0 / TemperatureScaling.best_temperature(*rows))
            objective = self._objective(*rows, self.weight_decay)
            solution = lbfgs(
                objective,
                start,
                -BOUND,
                BOUND,
                loss_tolerance=LOSS_TOLERANCE,
                max_iterations=max(FEWEST_ITERATIONS, MOST_WORK // start.size),
            )
        self._set_layers(_layers(solution.parameters, n_classes))
        self.converged_, self.n_iter_ = solution.converged, solution.n_iter
        loss = nodes.mean_log_loss(self._probabilities(logits))
        self.fit_report_ = FitReport.of(nodes, loss)

    def _probabilities(self, logits: FloatArray) -> FloatArray:
        order = np.argsort(-logits, axis=1, kind="stable")
        layers = [layer.astype(logits.dtype) for layer in self._get_layers()]
        z, gaps = _sorted_logits(np.take_along_axis(logits, order, axis=1))
        scores = np.empty_like(logits)
        ranked = _ranked_scores(_softplus(self.offset_ + _network(layers, z)[1]), gaps)
        np.put_along_axis(scores, order, ranked, axis=1)
        return keep_predictions(softmax(scores), logits.argmax(axis=1))

    def _objective(self, ranked: FloatArray, rank: IntArray, weight_decay: float) -> Objective:
        """Return the mean cross-entropy plus decay of the flattened weights, and its gradient."""
        z, gaps = _sorted_logits(ranked)
        offset = self.offset_

        def objective(theta: FloatArray) -> tuple[float, FloatArray]:
            layers = _layers(theta, z.shape[1])
            hidden, m = _network(layers, z)
            loss, residual = loss_and_residual(_ranked_scores(_softplus(offset + m), gaps), rank)
            # A gap raises every score above it.
            by_m = np.cumsum(residual, axis=1)[:, :-1] * gaps * expit(offset + m)
            by_hidden = (by_m @ layers[2].T) * (hidden > 0)
            gradients = (z.T @ by_hidden, by_hidden.sum(axis=0), hidden.T @ by_m, by_m.sum(axis=0))
            gradient = np.concatenate([g.ravel() for g in gradients])
            return loss + weight_decay / 2 * float(theta @ theta), gradient + weight_decay * theta

        return objective

    def _get_layers(self) -> list[FloatArray]:
        return [self.hidden_weight_, self.hidden_bias_, self.output_weight_, self.output_bias_]

    def _set_layers(self, layers: list[FloatArray]) -> None:
        self.hidden_weight_, self.hidden_bias_, self.output_weight_, self.output_bias_ = layers


def canonical_rows(logits: FloatArray, labels: IntArray) -> tuple[FloatArray, IntArray]:
    """Sorted logits (n, K) in float64 and the labels' ranks (n,), the nodes in a fixed order."""
    order = np.argsort(-logits, axis=1, kind="stable")
    ranked = np.take_along_axis(logits, order, axis=1).astype(np.float64)
    rank = (order == labels[:, None]).argmax(axis=1)
    nodes = np.lexsort((rank, *ranked.T))
    return ranked[nodes], rank[nodes]


def _sorted_logits(ranked: FloatArray) -> tuple[FloatArray, FloatArray]:
    """What the network reads (n, K), and the gaps (n, K - 1), from logits in falling order."""
    with np.errstate(over="ignore"):
        gaps = np.minimum(ranked[:, :-1] - ranked[:, 1:], LARGEST_LOGIT)
    return np.clip(ranked, -LARGEST_LOGIT, LARGEST_LOGIT), gaps


def _network(layers: list[FloatArray], z: FloatArray) -> tuple[FloatArray, FloatArray]:
    hidden = np.maximum(z @ layers[0] + layers[1], 0.0)
    return hidden, hidden @ layers[2] + layers[3]


def _ranked_scores(slopes: FloatArray, gaps: FloatArray) -> FloatArray:
    """o of each rank, the last one 0."""
    sums = np.cumsum((slopes * gaps)[:, ::-1], axis=1)[:, ::-1]
    return np.pad(sums, ((0, 0), (0, 1)))


def _layers(theta: FloatArray, n_classes: int) -> list[FloatArray]:
    shapes = [(n_classes, n_classes), (n_classes,), (n_classes, n_classes - 1), (n_classes - 1,)]
    parts = np.split(theta, np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


def _initial_weights(n_classes: int, random_state: int) -> FloatArray:
    """Uniform within ±1/sqrt(K), as linear layers commonly start."""
    size = n_classes * (n_classes + 1) + (n_classes + 1) * (n_classes - 1)
    return np.random.default_rng(random_state).uniform(-1.0, 1.0, size) / np.sqrt(n_classes)


def _softplus(x: FloatArray) -> FloatArray:
    return np.logaddexp(0.0, x)


def _softplus_inverse(y: float) -> float:
    return float(y + np.log(-np.expm1(-y)))
