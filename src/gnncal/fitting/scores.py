r"""The fit of the structural law together with a bias for each class and the neighbours' weight.

.. math:: p_i = \mathrm{softmax}(z_i / T_i + b + \gamma \ln(\bar p_i + \delta))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gnncal.core.arrays import FloatArray, IntArray
from gnncal.fitting.law import Law, LawPrior, LawRows, gamma_mixture_penalty
from gnncal.fitting.losses import NUMBERS_IN_CACHE, loss_and_residual
from gnncal.fitting.solvers import Solution, lbfgs
from gnncal.formulas.structural import log_neighbours, scaled_logits

BOUND = 50.0  # of every parameter


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
    neighbour_weight: float  # gamma; 0 where the neighbours are left out


def fit_scores(
    rows: LawRows,
    logits: FloatArray,
    mean_probs: FloatArray,
    labels: IntArray,
    law: Law,
    *,
    uses_neighbours: bool,
) -> tuple[Scores, Solution]:
    """Maximise the posterior of law, bias and neighbours' weight together.

    ``law`` is where to start: that of :func:`gnncal.fitting.law.fit_law` on the same rows.
    """
    law_prior, n_classes, m = LawPrior(), logits.shape[1], rows.covariates.shape[1]
    objective = _Objective(
        rows,
        scaled_logits(logits.astype(np.float64), 1.0),
        log_neighbours(mean_probs.astype(np.float64)),
        labels,
        law_prior,
        ScoresPrior(),
        uses_neighbours,
    )
    rest = np.zeros(n_classes + uses_neighbours)
    start = np.concatenate([law[:2], law.weights, law.offsets, rest])
    solution = lbfgs(objective, start, -BOUND, BOUND, loss_tolerance=1e-10)
    return _unpack(solution.parameters, m, n_classes), solution


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
    uses_neighbours: bool

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        n, n_classes = self.logits.shape
        m = self.rows.covariates.shape[1]
        law, bias, gamma = _unpack(theta, m, n_classes)
        log_temperature, jacobian, moves = law.derivatives(self.rows)
        inverse = np.exp(-log_temperature)
        loss, slope, by_score, by_gamma = 0.0, np.empty(n), np.zeros(n_classes), 0.0
        width = max(NUMBERS_IN_CACHE // n_classes, 1)
        for start in range(0, n, width):  # temporaries of all rows would not stay in the cache
            part = slice(start, start + width)
            scaled = self.logits[part] * inverse[part, None]
            scores = scaled + bias + gamma * self.neighbours[part]
            mean, residual = loss_and_residual(scores, self.labels[part])
            share = len(scores) / n
            residual *= share
            loss += mean * share
            slope[part] = -np.einsum("ik,ik->i", residual, scaled)  # by ln T
            by_score += residual.sum(axis=0)
            if self.uses_neighbours:
                by_gamma += float((residual * self.neighbours[part]).sum())
        slope *= moves
        by_offset = np.bincount(self.rows.predictions, slope, minlength=n_classes)
        penalty, by_law, _ = self.law_prior.derivatives(law)
        more, by_bias, _ = gamma_mixture_penalty(bias, self.prior.bias_shape, self.prior.bias_rate)
        parts = [
            np.concatenate([jacobian @ slope, by_offset]) + by_law / n,
            by_score + by_bias / n,
        ]
        if self.uses_neighbours:
            precision = self.prior.neighbour_precision
            more += 0.5 * precision * gamma**2
            parts.append([by_gamma + precision * gamma / n])
        return loss + (penalty + more) / n, np.concatenate(parts)
