r"""What the structural methods that may change predictions share.

.. math:: p_i = \mathrm{softmax}(z_i / T_i + b + \gamma \ln(\bar p_i + \delta))

T is the structural law, b a bias for each class, and the last term what the neighbours say once
more: :math:`\bar p_i` is the mean of their probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from gnncal.calibrators.base import Calibrator, FitReport
from gnncal.calibrators.structural_base import LawHolder, centre_of, law_rows
from gnncal.core.arrays import FloatArray, IntArray
from gnncal.core.constraints import number
from gnncal.core.learned import SOLVER_TABLE, Array
from gnncal.core.nodes import Nodes
from gnncal.core.probability import log_losses, unchecked_softmax
from gnncal.fitting.law import Law, LawPrior, LawRows, fit_law, gamma_mixture_penalty
from gnncal.fitting.losses import loss_and_residual
from gnncal.fitting.protocols import warn_unless_converged
from gnncal.fitting.solvers import Solution, lbfgs
from gnncal.homophily.neighbourhood import Neighbourhood, describe_neighbourhoods

FLOOR = 0.02  # delta: what a class gets if no neighbour gives it probability
BOUND = 50.0  # of every parameter
LOWEST_LOGIT = -1e30  # divided by any temperature it still fits a float32


@dataclass(frozen=True)
class ScoresPrior:
    """Prior of the bias and of the neighbours' weight: how far they may lie from zero."""

    bias_shape: float = 1.0  # of the Gamma prior of the biases' common precision
    bias_rate: float = 0.5
    neighbour_precision: float = 4.0  # of gamma


class Scores(NamedTuple):
    """The law with what is added to the scaled logits."""

    law: Law
    bias: FloatArray  # (n_classes,) b
    neighbour_weight: float  # gamma

    def of(self, logits: FloatArray, rows: LawRows, neighbours: FloatArray) -> FloatArray:
        """Compute the scores (n, n_classes) of logits whose row maximum is zero, in their place."""
        scaled = logits
        scaled /= np.exp(self.law.log_temperature(rows))[:, None].astype(logits.dtype)
        scaled += self.bias.astype(logits.dtype)
        if self.neighbour_weight:
            scaled += np.asarray(self.neighbour_weight, logits.dtype) * neighbours
        return scaled


class StructuralScores(LawHolder, Calibrator):
    """Base of the methods that fit the law, a bias and the neighbours' weight together."""

    preserves_predictions = False
    needs_graph = True
    erases_missing_classes = True
    fitting = "posterior"
    listens: ClassVar[bool]  # whether the neighbours' probabilities are added
    learned: ClassVar = {
        **LawHolder.law_learned,
        "bias_": Array("K"),
        "neighbour_weight_": number(),
        **SOLVER_TABLE,
    }
    bias_: FloatArray  # (n_classes,) b
    neighbour_weight_: float  # gamma; 0 where the neighbours are not listened to
    converged_: bool
    n_iter_: int

    def _fit(self, nodes: Nodes) -> None:
        neighbourhood = nodes.once(describe_neighbourhoods)
        centre = centre_of(neighbourhood.covariates[nodes.calibration_nodes])
        scores, solution = fit_scores(nodes, neighbourhood, centre, listens=self.listens)
        self._hold(scores.law, centre)
        self.bias_, self.neighbour_weight_ = scores.bias, scores.neighbour_weight
        self.converged_, self.n_iter_ = solution.converged, solution.n_iter
        warn_unless_converged(self, solution)
        probs = self._predict(nodes)[nodes.calibration_nodes]
        self.fit_report_ = FitReport.of(nodes, log_losses(probs, nodes.labels).mean())

    def _predict(self, nodes: Nodes) -> FloatArray:
        scores = Scores(self._held(), self.bias_, self.neighbour_weight_)
        neighbours = log_neighbours(nodes.once(describe_neighbourhoods).mean_probs)
        return unchecked_softmax(scores.of(shifted(nodes.logits), self._rows(nodes), neighbours))


def fit_scores(
    nodes: Nodes, neighbourhood: Neighbourhood, centre: FloatArray, *, listens: bool
) -> tuple[Scores, Solution]:
    """Maximise the posterior of law, bias and neighbours' weight together, from the law alone."""
    rows = law_rows(neighbourhood, centre).take(nodes.calibration_nodes)
    logits = nodes.calibration_logits
    law_prior, n_classes, m = LawPrior(), nodes.n_classes, len(centre)
    law = fit_law(rows, logits, nodes.labels, law_prior).law
    objective = _Objective(
        rows,
        shifted(logits.astype(np.float64)),
        log_neighbours(neighbourhood.mean_probs[nodes.calibration_nodes].astype(np.float64)),
        nodes.labels,
        law_prior,
        ScoresPrior(),
        listens,
    )
    start = np.concatenate([law[:2], law.weights, law.offsets, np.zeros(n_classes + listens)])
    solution = lbfgs(objective, start, -BOUND, BOUND, loss_tolerance=1e-10)
    return _unpack(solution.parameters, m, n_classes), solution


def shifted(logits: FloatArray) -> FloatArray:
    """Move the largest logit of each row to zero, which changes no probability."""
    with np.errstate(over="ignore"):
        moved = logits - logits.max(axis=1, keepdims=True)
    return np.maximum(moved, np.asarray(LOWEST_LOGIT, moved.dtype), out=moved)


def log_neighbours(mean_probs: FloatArray) -> FloatArray:
    """ln of the neighbours' mean probabilities, (n, n_classes), kept away from ln 0."""
    return np.log(mean_probs + np.asarray(FLOOR, mean_probs.dtype))


def _unpack(theta: FloatArray, m: int, n_classes: int) -> Scores:
    law, bias, rest = np.split(theta, [2 + m + n_classes, 2 + m + 2 * n_classes])
    return Scores(Law.of(law, m), bias, float(rest[0]) if rest.size else 0.0)


@dataclass(frozen=True)
class _Objective:
    """Mean negative log posterior of the parameters, flattened, and its gradient."""

    rows: LawRows
    logits: FloatArray
    neighbours: FloatArray
    labels: IntArray
    law_prior: LawPrior
    prior: ScoresPrior
    listens: bool

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        n, n_classes = self.logits.shape
        m = self.rows.covariates.shape[1]
        law, bias, gamma = _unpack(theta, m, n_classes)
        log_temperature, jacobian, moves = law.derivatives(self.rows)
        scaled = self.logits * np.exp(-log_temperature)[:, None]
        scores = scaled + bias + gamma * self.neighbours
        loss, residual = loss_and_residual(scores, self.labels)
        slope = -np.einsum("ik,ik->i", residual, scaled) * moves  # by ln T
        by_offset = np.bincount(self.rows.predictions, slope, minlength=n_classes)
        penalty, by_law, _ = self.law_prior.derivatives(law)
        more, by_bias, _ = gamma_mixture_penalty(bias, self.prior.bias_shape, self.prior.bias_rate)
        parts = [
            np.concatenate([jacobian @ slope, by_offset]) + by_law / n,
            residual.sum(axis=0) + by_bias / n,
        ]
        if self.listens:
            precision = self.prior.neighbour_precision
            more += 0.5 * precision * gamma**2
            parts.append([float((residual * self.neighbours).sum()) + precision * gamma / n])
        return loss + (penalty + more) / n, np.concatenate(parts)
