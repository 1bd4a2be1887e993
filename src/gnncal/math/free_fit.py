r"""The fit of the structural law together with a bias for each class and the neighbours' weight.

.. math:: p_i = \mathrm{softmax}(z_i / T_i + b + \gamma \ln(\bar p_i + \delta))
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from gnncal.data.arrays import FloatArray, IntArray
from gnncal.data.probability import softmax
from gnncal.graph.compiled import parallel_for
from gnncal.math.formulas import log_neighbours, scaled_logits
from gnncal.math.losses import NUMBERS_IN_CACHE, loss_and_residual
from gnncal.math.posterior import LossDerivatives, Rows, covariance_of, score_rows
from gnncal.math.solvers import Solution, lbfgs
from gnncal.math.structural_fit import (
    SMALLEST_PRECISION,
    LawPrior,
    LawRows,
    TemperatureLaw,
    dense_arrow,
    gamma_mixture_curvature,
    gamma_mixture_penalty,
)

BOUND = 50.0  # of every parameter
MOST_PARAMETERS = 1024  # whose covariance is computed: its cost grows with their third power


@dataclass(frozen=True)
class FreePrior:
    """Prior of the law, of the bias and of the neighbours' weight."""

    law: LawPrior = field(default_factory=LawPrior)
    # Of ln(T_c / T_u): beyond ln 6.89, z / T can fall where z rises and turn the order of nodes.
    largest_ratio: float = 1.93
    bias_shape: float = 1.0  # of the Gamma prior of the biases' common precision
    bias_rate: float = 0.5
    neighbour_precision: float = 4.0  # of gamma


class FreeParameters(NamedTuple):
    """The law with what is added to the scaled logits."""

    law: TemperatureLaw
    bias: FloatArray  # (n_classes,) b
    neighbour_weight: float  # gamma; 0 where the neighbours are left out

    @classmethod
    def of(cls, theta: FloatArray, n_covariates: int, n_classes: int) -> FreeParameters:
        """Read the parameters off a vector."""
        m = n_covariates
        law, bias, rest = np.split(theta, [2 + m + n_classes, 2 + m + 2 * n_classes])
        return cls(TemperatureLaw.of(law, m), bias, float(rest[0]) if rest.size else 0.0)

    def vector(self, *, uses_neighbours: bool) -> FloatArray:
        """Return the parameters as a vector."""
        rest = [self.neighbour_weight] if uses_neighbours else []
        return np.concatenate([self.law.vector(), self.bias, rest])


@dataclass(frozen=True)
class FreeFit:
    """The most probable scores, and how certain the calibration nodes make them."""

    parameters: FreeParameters
    covariance: FloatArray | None  # of (ln T_c, ln T_u, w, o, b, gamma) by Laplace, if few enough
    solution: Solution


def fit_free(model: FreeModel, law: TemperatureLaw, prior: FreePrior | None = None) -> FreeFit:
    """Maximise the posterior of law, bias and neighbours' weight together, from ``law`` on."""
    prior = FreePrior() if prior is None else prior
    objective = _Objective(model, prior)

    def by_ratio(theta: FloatArray) -> tuple[float, FloatArray]:
        loss, gradient = objective(_with_certain(theta))
        gradient[1] += gradient[0]
        return loss, gradient

    start = np.append(law.vector(), np.zeros(model.logits.shape[1] + model.uses_neighbours))
    upper = np.full(len(start), BOUND)
    upper[0] = prior.largest_ratio
    start[0] = min(start[0] - start[1], prior.largest_ratio)
    solution = lbfgs(by_ratio, start, -BOUND, upper, loss_tolerance=1e-10)
    solution = replace(solution, parameters=_with_certain(solution.parameters))
    fitted = model.unpacked(solution.parameters)
    if len(start) > MOST_PARAMETERS:
        return FreeFit(fitted, None, solution)
    curvature = model.slopes(solution.parameters, slice(None)).information
    curvature += objective.prior_curvature(solution.parameters)
    return FreeFit(fitted, covariance_of(curvature, SMALLEST_PRECISION), solution)


def _with_certain(theta: FloatArray) -> FloatArray:
    """Return parameters that begin with ln T_c, from those that begin with ln(T_c / T_u)."""
    return np.concatenate([theta[:1] + theta[1:2], theta[1:]])


@dataclass(frozen=True)
class FreeModel:
    """Labelled nodes as a function of the scores' parameters; see ``math/posterior.py``."""

    rows: LawRows
    logits: FloatArray  # (n, n_classes), row maximum 0
    neighbours: FloatArray  # (n, n_classes) logarithms
    labels: IntArray
    weights: FloatArray | None
    uses_neighbours: bool

    @classmethod
    def of(
        cls,
        rows: LawRows,
        logits: FloatArray,
        mean_probs: FloatArray,
        labels: IntArray,
        weights: FloatArray | None,
        *,
        uses_neighbours: bool,
    ) -> FreeModel:
        """Bring what the scores are made of to double precision."""
        scaled = scaled_logits(logits.astype(np.float64), 1.0)
        said = log_neighbours(mean_probs.astype(np.float64))
        return cls(rows, scaled, said, labels, weights, uses_neighbours)

    def losses(self, theta: FloatArray, rows: Rows) -> FloatArray:
        """Return the log loss of each row, (n,)."""
        _, bias, gamma = self.unpacked(theta)
        scaled, _ = self._scaled(theta, rows)
        scores = scaled + bias + gamma * self.neighbours[rows]
        return score_rows(scores, self.labels, self.weights, rows).losses

    def slopes(self, theta: FloatArray, rows: Rows) -> LossDerivatives:
        """Return the summed loss and its derivatives."""
        _, bias, gamma = self.unpacked(theta)
        scaled, by_law = self._scaled(theta, rows)
        said = self.neighbours[rows]
        scores = scaled + bias + gamma * said
        losses, probs, shares, residuals = score_rows(scores, self.labels, self.weights, rows)
        # By ln T and by gamma the scores move along -z / T and along what the neighbours say.
        moves = [-scaled, said] if self.uses_neighbours else [-scaled]
        spread = [shares * (m - np.einsum("ik,ik->i", probs, m)[:, None]) for m in moves]
        by_bias = np.diag(shares.sum(axis=0)) - shares.T @ probs
        variance = np.einsum("ik,ik->i", spread[0], moves[0])
        of_law = (by_law * variance[:, None]).T @ by_law
        gradient = [np.einsum("ik,ik->i", residuals, moves[0]) @ by_law, residuals.sum(axis=0)]
        blocks = [[of_law, by_law.T @ spread[0]], [spread[0].T @ by_law, by_bias]]
        if self.uses_neighbours:
            crossed = np.einsum("ik,ik->i", spread[1], moves[0]) @ by_law
            said_by_bias = spread[1].sum(axis=0)
            own = float(np.einsum("ik,ik->", spread[1], said))
            blocks[0].append(crossed[:, None])
            blocks[1].append(said_by_bias[:, None])
            blocks.append([crossed[None], said_by_bias[None], np.array([[own]])])
            gradient.append(np.array([float((residuals * said).sum())]))
        return LossDerivatives(float(losses.sum()), np.concatenate(gradient), np.block(blocks))

    def log_odds(self, theta: FloatArray, k: int) -> tuple[FloatArray, FloatArray]:
        """Return ln q_k - ln(1 - q_k) of each row, and its derivatives (n, p)."""
        _, bias, gamma = self.unpacked(theta)
        scaled, by_law = self._scaled(theta, slice(None))
        scores = scaled + bias + gamma * self.neighbours
        others = np.delete(scores, k, axis=1)
        by_scores = np.insert(-softmax(others), k, 1.0, axis=1)
        slopes = [-np.einsum("ik,ik->i", by_scores, scaled)[:, None] * by_law, by_scores]
        if self.uses_neighbours:
            slopes.append(np.einsum("ik,ik->i", by_scores, self.neighbours)[:, None])
        return scores[:, k] - logsumexp(others, axis=1), np.hstack(slopes)

    def unpacked(self, theta: FloatArray) -> FreeParameters:
        """Read the parameters off a vector."""
        return FreeParameters.of(theta, self.rows.covariates.shape[1], self.logits.shape[1])

    def _scaled(self, theta: FloatArray, rows: Rows) -> tuple[FloatArray, FloatArray]:
        """z / T, and the derivatives (n, p) of ln T by the law's parameters."""
        law, chosen = self.unpacked(theta).law, self.rows.take(rows)
        log_T, by_law = law.slopes(chosen)
        return self.logits[rows] * np.exp(-log_T)[:, None], by_law


@dataclass(frozen=True)
class _Objective:
    """Mean negative log posterior of the parameters, flattened, and its gradient."""

    labelled: FreeModel
    prior: FreePrior

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        known, weights = self.labelled, self.labelled.weights
        n_nodes, n_classes = known.logits.shape
        n = float(n_nodes if weights is None else weights.sum())
        law, bias, gamma = known.unpacked(theta)
        log_temperature, jacobian, moves = law.derivatives(known.rows)
        per_degree = np.exp(-log_temperature)
        width = max(NUMBERS_IN_CACHE // n_classes, 1)  # temporaries of more rows leave the cache
        starts = range(0, n_nodes, width)
        losses, by_gammas = np.zeros(len(starts)), np.zeros(len(starts))
        slope, by_scores = np.zeros(n_nodes), np.zeros((len(starts), n_classes))

        def work(k: int) -> None:
            part = slice(starts[k], starts[k] + width)
            weighed = None if weights is None else weights[part]
            share = (len(slope[part]) if weighed is None else weighed.sum()) / n
            if share == 0:
                return
            scaled = known.logits[part] * per_degree[part, None]
            scores = scaled + bias + gamma * known.neighbours[part]
            mean, residual = loss_and_residual(scores, known.labels[part], weighed)
            residual *= share
            losses[k] = mean * share
            slope[part] = -np.einsum("ik,ik->i", residual, scaled)  # by ln T
            by_scores[k] = residual.sum(axis=0)
            if known.uses_neighbours:
                by_gammas[k] = (residual * known.neighbours[part]).sum()

        parallel_for(work, range(len(starts)))
        loss, by_score, by_gamma = float(losses.sum()), by_scores.sum(axis=0), by_gammas.sum()
        slope *= moves
        by_offset = np.bincount(known.rows.predictions, slope, minlength=n_classes)
        penalty, by_law, _ = self.prior.law.derivatives(law)
        more, by_bias = gamma_mixture_penalty(bias, self.prior.bias_shape, self.prior.bias_rate)
        parts = [np.concatenate([jacobian @ slope, by_offset]) + by_law / n, by_score + by_bias / n]
        if self.labelled.uses_neighbours:
            precision = self.prior.neighbour_precision
            more += 0.5 * precision * gamma**2
            parts.append([by_gamma + precision * gamma / n])
        return loss + (penalty + more) / n, np.concatenate(parts)

    def prior_curvature(self, theta: FloatArray) -> FloatArray:
        """Return the Hessian of the negative log prior."""
        law, bias, _ = self.labelled.unpacked(theta)
        curvature = np.diag(np.full(len(theta), self.prior.neighbour_precision))
        size, end = len(law.vector()), len(law.vector()) + len(bias)
        curvature[:size, :size] = dense_arrow(self.prior.law.derivatives(law)[2])
        of_bias = gamma_mixture_curvature(bias, self.prior.bias_shape, self.prior.bias_rate)
        curvature[size:end, size:end] = of_bias
        return curvature
