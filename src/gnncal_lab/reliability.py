"""MRP, monotone reliability projection (Tae, CIKM 2026): a score to rank nodes by."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from scipy.special import expit, logit

from gnncal import GnncalWarning, InputError
from gnncal.calibrators import Solution, number, solve_like_the_paper
from gnncal.metrics import Outcomes
from gnncal_lab.arrays import FloatArray, IntArray
from gnncal_lab.fitting.logistic import logistic
from gnncal_lab.fitting.parts import PROTOCOLS, Protocol

N_KNOTS = 8
KNOTS = np.linspace(0.0, 1.0, N_KNOTS)
START = logit(np.linspace(0.03, 0.97, N_KNOTS))  # nearly the confidence itself
ROUGHNESS = 1e-4  # weight of the squared second differences
LIMIT = 1e-6  # scores stay so far from 0 and 1
SMALLEST_STEP = 1e-6  # between knots: where a map is flat, nodes keep the order of their confidence
PAPER_EPOCHS = 400
PAPER_LEARNING_RATE = 0.03
SECOND_DIFFERENCES = np.diff(np.eye(N_KNOTS), n=2, axis=0)  # of the values at the knots
BENDS = np.diff(np.eye(N_KNOTS - 1), axis=0)  # the same from the steps between the knots


class MonotoneReliability:
    r"""A score of how likely each prediction is correct, for ranking nodes (MRP).

    At the same confidence, predictions of one class may be wrong more often than those of another.
    The score is an increasing function of the confidence, with a map for each predicted class.
    Probabilities and predictions do not change. Nodes with the same predicted class keep their
    order.

    .. math:: q = \sigma(T_d(c)), \quad
              T_d(c) = b_d + \sum_{r=0}^{6} \delta_{dr} \min(\max(7 c - r, 0), 1),
              \quad \delta \ge 0

    with the predicted class d and its probability c. The fit minimises a convex loss: the mean
    cross-entropy of "the prediction is correct" plus 10\ :sup:`-4` times the mean squared second
    difference of T at its eight knots. Each map is regularised towards a map of all classes, which
    counts as ``prior_nodes`` nodes at each knot. A class that is never predicted has the map of all
    classes. That map is regularised towards the confidence in the same way.

    Do not fit it on the nodes that certify a threshold; split them with
    :func:`gnncal.decisions.hold_out`. With ``structural``, use these nodes for the calibrator
    instead: on fourteen graphs, its confidence then ranked nodes better.

    Parameters
    ----------
    prior_nodes : float, default=1.0
        Number of nodes that the map of all classes counts as, at each of the eight knots of each
        class; above 0.
    protocol : {"converged", "paper"}, default="converged"
        ``"paper"`` fits as published: 400 epochs of Adam without the prior. A class that is never
        predicted then keeps its initial map, which is close to the confidence.

    Attributes
    ----------
    values_ : ndarray of shape (n_classes, 8)
        Log-odds of the score at the confidences 0, 1/7, ..., 1, for each predicted class.
    n_predicted_ : ndarray of shape (n_classes,)
        Number of nodes of ``fit`` that were predicted to have each class.

    References
    ----------
    Tae, "Monotone reliability projection" (CIKM 2026).

    Examples
    --------
    The confidence is 0.8 for both classes; the accuracy is 0.9 for class 0 and 0.5 for class 1:

    >>> import numpy as np
    >>> from gnncal_lab import MonotoneReliability
    >>> probs = np.array([[0.8, 0.2]] * 100 + [[0.2, 0.8]] * 100)
    >>> labels = np.array([0] * 90 + [1] * 10 + [1] * 50 + [0] * 50)
    >>> reliability = MonotoneReliability().fit(probs, labels)
    >>> reliability.score([[0.8, 0.2], [0.2, 0.8]]).round(2)
    array([0.9, 0.5])

    """

    values_: FloatArray
    n_predicted_: IntArray

    def __init__(self, *, prior_nodes: float = 1.0, protocol: Protocol = "converged") -> None:
        self.prior_nodes = prior_nodes
        self.protocol = protocol

    def fit(self, probs: Any, labels: Any, *, calibration_nodes: Any = None) -> Self:
        """Fit the map of each predicted class.

        Parameters
        ----------
        probs : array_like of shape (n_nodes, n_classes)
            Calibrated probabilities; rows sum to one.
        labels : array_like of shape (n_nodes,)
            Classes 0..K-1, -1 where unknown. Others are not used.
        calibration_nodes : array_like, optional
            Nodes to fit on, mask or indices. Default: every node whose label is not -1.

        Returns
        -------
        MonotoneReliability
            The object itself, fitted.

        """
        number(above=0).check("prior_nodes", self.prior_nodes)
        PROTOCOLS.check("protocol", self.protocol)
        probs, labels = np.asarray(probs), np.asarray(labels)
        chosen = np.asarray(labels != -1 if calibration_nodes is None else calibration_nodes)
        if not labels[chosen].size:
            raise InputError("no nodes to fit on; pass at least one with a label.")
        outcomes = Outcomes(labels[chosen], probs[chosen])
        predicted, right = outcomes.predictions, outcomes.correct
        confidence, n_classes = np.minimum(outcomes.confidence, 1.0), probs.shape[1]
        if self.protocol == "paper":
            self.values_ = _published(confidence, predicted, right, n_classes)
        else:
            self.values_ = self._converged(confidence, predicted, right, n_classes)
        self.n_predicted_ = np.bincount(predicted, minlength=n_classes)
        return self

    def score(self, probs: Any) -> FloatArray:
        """Return a score strictly between 0 and 1 of how likely each prediction is correct.

        Parameters
        ----------
        probs : array_like of shape (n_nodes, n_classes)
            Probabilities of the same classes, from the same calibrator as in ``fit``.

        """
        probs = np.asarray(probs)
        if probs.ndim != 2 or probs.shape[1] != len(self.values_):
            raise InputError(
                f"probs has shape {probs.shape} but the fit had {len(self.values_)} classes; pass "
                "probabilities of the same classes."
            )
        predicted = probs.argmax(axis=1)
        confidence = probs[np.arange(len(probs)), predicted].astype(np.float64).clip(0.0, 1.0)
        # Row by row, without sums, so that a node has the same score in any company.
        place, beyond = _places(confidence)
        low, high = self.values_[predicted, place], self.values_[predicted, place + 1]
        scores = expit(np.minimum(low + beyond * (high - low), high))
        return np.asarray(np.clip(scores, LIMIT, 1.0 - LIMIT))

    def _converged(
        self, confidence: FloatArray, predicted: IntArray, right: FloatArray, n_classes: int
    ) -> FloatArray:
        def solved(here: Any, towards: FloatArray, n_maps: int) -> FloatArray:
            """Return the values of the map of some nodes, with a prior at the knots."""
            roughness = 2.0 * ROUGHNESS * len(right) / (n_maps * len(BENDS))
            penalty = np.zeros((N_KNOTS, N_KNOTS))
            penalty[:-1, :-1] = roughness * BENDS.T @ BENDS
            own = confidence[here]
            solution = logistic(
                _features(np.append(own, KNOTS)),
                np.append(right[here], expit(towards)),
                np.append(np.ones(own.size), np.full(N_KNOTS, self.prior_nodes)),
                np.append(np.diff(towards), towards[0]),
                penalty=penalty,
                rising=True,
            )
            solutions.append(solution)
            steps = np.maximum(solution.parameters[:-1], SMALLEST_STEP)
            return solution.parameters[-1] + np.append(0.0, np.cumsum(steps))

        solutions: list[Solution] = []
        together = solved(slice(None), START, 1)
        values = np.tile(together, (n_classes, 1))
        for c in np.unique(predicted):
            values[c] = solved(predicted == c, together, n_classes)
        if not all(solution.converged for solution in solutions):
            warnings.warn("MRP stopped before convergence.", GnncalWarning, stacklevel=2)
        return values


def _places(confidence: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the knot below each confidence, and how far beyond it, as a share of a step."""
    scaled = confidence * (N_KNOTS - 1)
    place = np.minimum(scaled.astype(np.int64), N_KNOTS - 2)
    return place, scaled - place


def _features(confidence: FloatArray) -> FloatArray:
    """Return how much of each step between knots lies below each confidence, (n, 7)."""
    return np.clip(confidence[:, None] * (N_KNOTS - 1) - np.arange(N_KNOTS - 1), 0.0, 1.0)


def _published(
    confidence: FloatArray, predicted: IntArray, right: FloatArray, n_classes: int
) -> FloatArray:
    """Return the values at the knots after 400 epochs of Adam, steps being a softplus."""
    place, beyond = _places(confidence)
    low = predicted * N_KNOTS + place
    n_values, roughness = n_classes * N_KNOTS, ROUGHNESS / (n_classes * len(BENDS))

    def values_of(theta: FloatArray) -> FloatArray:
        parts = theta.reshape(n_classes, N_KNOTS)
        steps = np.logaddexp(0.0, parts[:, 1:])
        return np.cumsum(np.column_stack([parts[:, 0], steps]), axis=1)

    def objective(theta: FloatArray) -> tuple[float, FloatArray]:
        values = values_of(theta)
        flat = values.ravel()
        q = expit(flat[low] * (1.0 - beyond) + flat[low + 1] * beyond)
        inside = (q > LIMIT) & (q < 1.0 - LIMIT)  # beyond the limits nothing moves
        kept = np.clip(q, LIMIT, 1.0 - LIMIT)
        bends = np.diff(values, n=2, axis=1)
        loss = -np.mean(right * np.log(kept) + (1.0 - right) * np.log1p(-kept))
        pull = np.where(inside, q - right, 0.0) / len(right)
        below = np.bincount(low, pull * (1.0 - beyond), n_values)
        above = np.bincount(low + 1, pull * beyond, n_values)
        by_bend = 2.0 * roughness * bends @ SECOND_DIFFERENCES
        by_value = by_bend + (below + above).reshape(n_classes, N_KNOTS)
        by_step = np.cumsum(by_value[:, ::-1], axis=1)[:, ::-1]  # a step moves all later values
        gradient = by_step * np.column_stack(
            [np.ones(n_classes), expit(theta.reshape(n_classes, N_KNOTS)[:, 1:])]
        )
        return float(loss + roughness * (bends**2).sum()), gradient.ravel()

    steps = np.diff(START)
    start = np.tile(np.append(START[0], np.log(np.expm1(steps))), n_classes)
    run = solve_like_the_paper(
        objective,
        lambda _: 0.0,  # equal scores refresh the checkpoint: the last parameters are kept
        start,
        max_epochs=PAPER_EPOCHS,
        learning_rate=PAPER_LEARNING_RATE,
    )
    return values_of(run.parameters)
