"""The fit of the structural law and of the free scores, whose formulas ``Structural`` explains.

A prior says what few calibration nodes cannot: neighbourhoods and classes do not matter, T_c is
about three times T_u, and both are near one. Its tails are heavy, so that many nodes overrule it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from gnncal.data.arrays import FloatArray, IntArray
from gnncal.data.probability import softmax
from gnncal.graph.compiled import parallel_for
from gnncal.math.formulas import (
    LOG_TEMPERATURE,
    clip_log_temperature,
    log_neighbours,
    log_temperature,
    scaled_logits,
)
from gnncal.math.losses import (
    NUMBERS_IN_CACHE,
    LabelledLoss,
    LossDerivatives,
    TemperatureLoss,
    covariance_of,
    loss_and_residual,
)
from gnncal.math.solvers import Solution, arrow_directions, distinct_ends, lbfgs, newton

STARTS = (1.2, 4.0, -2.0)  # of ln T_c - ln T_u; binary graphs can have a minimum on each side
WARM_UP_NODES = (1000, 5000)  # larger calibration sets are first solved on about that many
SMALLEST_PRECISION = 1e-3  # of the posterior in any direction


class LawRows(NamedTuple):
    """What the law looks at, one row for each node."""

    entropy: FloatArray  # (n,) e
    covariates: FloatArray  # (n, m) s, centred
    predictions: IntArray  # (n,)

    def take(self, chosen: IntArray | slice) -> LawRows:
        """Keep some rows."""
        return LawRows(self.entropy[chosen], self.covariates[chosen], self.predictions[chosen])


class TemperatureLaw(NamedTuple):
    """The parameters of the law."""

    log_certain: float  # ln T_c
    log_uncertain: float  # ln T_u
    weights: FloatArray  # (m,) w
    offsets: FloatArray  # (n_classes,) o

    @classmethod
    def of(cls, theta: FloatArray, n_covariates: int) -> TemperatureLaw:
        """Read the parameters off a vector."""
        weights, offsets = np.split(theta[2:], [n_covariates])
        return cls(float(theta[0]), float(theta[1]), weights, offsets)

    def vector(self) -> FloatArray:
        """Return the parameters as a vector."""
        return np.concatenate([self[:2], self.weights, self.offsets])

    def slopes(self, rows: LawRows) -> tuple[FloatArray, FloatArray]:
        """ln T (n,) and its derivatives (n, p) by all parameters."""
        log_T, jacobian, moves = self.derivatives(rows)
        by_offset = rows.predictions[:, None] == np.arange(len(self.offsets))
        return log_T, np.column_stack([jacobian.T, by_offset]) * moves[:, None]

    def log_temperature(self, rows: LawRows) -> FloatArray:
        """Compute ln T of each row, shape (n,), within the range of temperatures."""
        return clip_log_temperature(self._unlimited(rows))

    def derivatives(self, rows: LawRows) -> tuple[FloatArray, FloatArray, FloatArray]:
        """ln T (n,), its derivatives by all but the offsets (2 + m, n), and where it moves (n,)."""
        unlimited = self._unlimited(rows)
        share = np.exp(self.log_certain) * (1.0 - rows.entropy)
        share /= share + np.exp(self.log_uncertain) * rows.entropy
        jacobian = np.vstack([share, 1.0 - share, rows.covariates.T])
        within = clip_log_temperature(unlimited)
        return within, jacobian, (within == unlimited).astype(np.float64)

    def _unlimited(self, rows: LawRows) -> FloatArray:
        certain, uncertain = np.exp(self.log_certain), np.exp(self.log_uncertain)
        return log_temperature(*rows, certain, uncertain, self.weights, self.offsets)


@dataclass(frozen=True)
class LawPrior:
    """Prior of the law's parameters: how far they may lie from those of no effect."""

    ratio: float = 1.2  # centre of ln(T_c / T_u)
    ratio_scale: float = 1.0
    level_scale: float = 0.3  # of (ln T_c + ln T_u) / 2, around 0
    degrees_of_freedom: float = 3.0  # of Student's t, for the two above
    weight_shape: float = 1.0  # the weights' common precision has a Gamma prior,
    weight_rate: float = 1.0  # which is integrated out
    offset_precision: float = 32.0

    def derivatives(self, law: TemperatureLaw) -> tuple[float, FloatArray, FloatArray]:
        """Return the negative log density up to a constant, its gradient, and its Hessian."""
        p, n_classes = 2 + len(law.weights), len(law.offsets)
        gradient, hessian = np.zeros(p + n_classes), np.zeros((p + 1, p + n_classes))
        value = 0.0
        for direction, centre, scale in (
            (np.array([1.0, -1.0]), self.ratio, self.ratio_scale),
            (np.array([0.5, 0.5]), 0.0, self.level_scale),
        ):
            distance = float(direction @ law[:2]) - centre
            penalty, slope, curvature = student_penalty(distance, scale, self.degrees_of_freedom)
            value += penalty
            gradient[:2] += slope * direction
            hessian[:2, :2] += curvature * np.outer(direction, direction)
        of_weights = (law.weights, self.weight_shape, self.weight_rate)
        penalty, gradient[2:p] = gamma_mixture_penalty(*of_weights)
        hessian[2:p, 2:p] = gamma_mixture_curvature(*of_weights)
        value += penalty + 0.5 * self.offset_precision * float(law.offsets @ law.offsets)
        gradient[p:] = self.offset_precision * law.offsets
        hessian[p, p:] = self.offset_precision
        return value, gradient, hessian


def student_penalty(x: float, scale: float, dof: float) -> tuple[float, float, float]:
    """Student's negative log density at x, its slope and curvature."""
    width = dof * scale**2
    total = width + x * x
    value = 0.5 * (dof + 1.0) * float(np.log1p(x * x / width))
    return value, (dof + 1.0) * x / total, (dof + 1.0) * (width - x * x) / total**2


def gamma_mixture_penalty(
    weights: FloatArray, shape: float, rate: float
) -> tuple[float, FloatArray]:
    """Negative log density of N(0, 1/precision) weights whose precision is Gamma(shape, rate)."""
    exponent = shape + 0.5 * len(weights)
    total = rate + 0.5 * float(weights @ weights)
    return exponent * float(np.log(total / rate)), exponent / total * weights


def gamma_mixture_curvature(weights: FloatArray, shape: float, rate: float) -> FloatArray:
    """Return the Hessian of that penalty."""
    exponent = shape + 0.5 * len(weights)
    precision = exponent / (rate + 0.5 * float(weights @ weights))
    spread = precision**2 / exponent * np.outer(weights, weights)
    return precision * np.eye(len(weights)) - spread


@dataclass(frozen=True)
class LawFit:
    """The most probable law, and how certain the calibration nodes make it."""

    law: TemperatureLaw
    covariance: FloatArray  # of (ln T_c, ln T_u, w, o), by Laplace's approximation
    solution: Solution


def fit_law(
    rows: LawRows,
    logits: FloatArray,
    labels: IntArray,
    prior: LawPrior,
    weights: FloatArray | None = None,
) -> LawFit:
    """Maximise the posterior by Newton's method, from several starts."""
    n_classes, m = logits.shape[1], rows.covariates.shape[1]
    loss = TemperatureLoss(logits, labels, weights)
    limits = np.full(2 + m + n_classes, np.inf)
    limits[:2] = LOG_TEMPERATURE

    def follow(starts: FloatArray, stride: int) -> list[Solution]:
        part = rows.take(slice(None, None, stride))
        on_part = loss[::stride] if stride > 1 else loss

        def derivatives(thetas: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
            laws = [TemperatureLaw.of(theta, m) for theta in thetas]
            results = [_posterior_derivatives(law, part, on_part, prior) for law in laws]
            values, gradients, hessians = zip(*results, strict=True)
            return np.array(values), np.array(gradients), np.array(hessians)

        runs = newton(derivatives, starts, -limits, limits, directions=arrow_directions)
        return sorted(runs, key=lambda run: run.loss)

    starts: FloatArray = np.zeros((len(STARTS), len(limits)))
    starts[:, 0], starts[:, 1] = np.array(STARTS) / 2, -np.array(STARTS) / 2
    for n_nodes in WARM_UP_NODES:  # most steps are taken where they are cheap
        stride = len(labels) // n_nodes
        if stride > 1:
            starts = distinct_ends(follow(starts, stride))
    solution = follow(starts, 1)[0]
    assert solution.hessian is not None
    law = TemperatureLaw.of(solution.parameters, m)
    covariance = inverse_of_arrow(loss.total_weight * solution.hessian)
    return LawFit(law, covariance, solution)


def _posterior_derivatives(
    law: TemperatureLaw, rows: LawRows, loss: TemperatureLoss, prior: LawPrior
) -> tuple[float, FloatArray, FloatArray]:
    """Return the mean negative log posterior of a row, its gradient, and its Hessian, an arrow."""
    log_T, jacobian, moves = law.derivatives(rows)
    temperature = np.exp(log_T)
    value, by_temperature, curvature = loss.derivatives(temperature)
    slope = by_temperature * temperature * moves  # by ln T
    curvature = (curvature * temperature**2 * moves) + slope
    p, n, n_classes = len(jacobian), loss.total_weight, len(law.offsets)
    weighted = jacobian * curvature
    penalty, gradient, hessian = prior.derivatives(law)
    gradient, hessian = gradient / n, hessian / n
    hessian[:p, :p] += weighted @ jacobian.T
    bend = float(slope @ (jacobian[0] * jacobian[1]))  # T_c and T_u mix inside a logarithm
    hessian[:2, :2] += bend * np.array([[1.0, -1.0], [-1.0, 1.0]])
    classes = rows.predictions
    crossed = [np.bincount(classes, row, minlength=n_classes) for row in weighted]
    hessian[:p, p:] += crossed
    hessian[p, p:] += np.bincount(classes, curvature, minlength=n_classes)
    gradient[:p] += jacobian @ slope
    gradient[p:] += np.bincount(classes, slope, minlength=n_classes)
    return float(value) + penalty / n, gradient, hessian


def inverse_of_arrow(hessian: FloatArray) -> FloatArray:
    """Return the covariance of an arrow [[A, B], [B', diag(d)]]; see ``arrow_directions``."""
    p = len(hessian) - 1
    d = np.maximum(hessian[p, p:], SMALLEST_PRECISION)
    ratios = hessian[:p, p:] / d
    corner = covariance_of(hessian[:p, :p] - ratios @ hessian[:p, p:].T, SMALLEST_PRECISION)
    side = -corner @ ratios
    covariance = np.empty((p + len(d), p + len(d)))
    covariance[:p, :p], covariance[:p, p:], covariance[p:, :p] = corner, side, side.T
    np.matmul(-ratios.T, side, out=covariance[p:, p:])
    covariance[p:, p:].flat[:: len(d) + 1] += 1.0 / d
    return covariance


def dense_arrow(hessian: FloatArray) -> FloatArray:
    """Return an arrow as a whole matrix."""
    p = len(hessian) - 1
    upper, diagonal = hessian[:p], np.diag(hessian[p, p:])
    return np.vstack([upper, np.hstack([upper[:, p:].T, diagonal])])


BOUND = 50.0  # of every parameter
MOST_PARAMETERS = 1024  # whose covariance is computed: its cost grows with their third power


@dataclass(frozen=True)
class FreePrior:
    """Prior of the law, of the bias and of the neighbours' weight."""

    law: LawPrior = LawPrior()
    # Of ln(T_c / T_u): beyond ln 6.89, z / T can fall where z rises and turn the order of nodes.
    largest_ratio: float = 1.93
    bias_shape: float = 1.0  # of the Gamma prior of the biases' common precision
    bias_rate: float = 0.5
    neighbour_precision: float = 4.0  # of gamma

    def curvature(self, law: TemperatureLaw, bias: FloatArray, size: int) -> FloatArray:
        """Return the Hessian (size, size) of the negative log density."""
        hessian = np.diag(np.full(size, self.neighbour_precision))
        p, end = len(law.vector()), len(law.vector()) + len(bias)
        hessian[:p, :p] = dense_arrow(self.law.derivatives(law)[2])
        hessian[p:end, p:end] = gamma_mixture_curvature(bias, self.bias_shape, self.bias_rate)
        return hessian


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

    def by_ratio(theta: FloatArray) -> tuple[float, FloatArray]:
        loss, gradient = _posterior(model, prior, _with_certain(theta))
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
    curvature = model.slopes(solution.parameters).information
    curvature += prior.curvature(fitted.law, fitted.bias, len(start))
    return FreeFit(fitted, covariance_of(curvature, SMALLEST_PRECISION), solution)


def _with_certain(theta: FloatArray) -> FloatArray:
    """Return parameters that begin with ln T_c, from those that begin with ln(T_c / T_u)."""
    return np.concatenate([theta[:1] + theta[1:2], theta[1:]])


@dataclass(frozen=True)
class FreeModel(LabelledLoss):
    """Labelled nodes as a function of the scores' parameters."""

    rows: LawRows
    logits: FloatArray  # (n, n_classes), row maximum 0
    neighbours: FloatArray  # (n, n_classes) logarithms
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
        return cls(labels, weights, rows, scaled, said, uses_neighbours)

    def _scores(self, theta: FloatArray) -> FloatArray:
        return self._scored(theta)[0]

    def slopes(self, theta: FloatArray) -> LossDerivatives:
        """Return the summed loss and its derivatives."""
        (scores, scaled, by_law), said = self._scored(theta), self.neighbours
        losses, probs, shares, residuals = self._compare(scores)
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
        scores, scaled, by_law = self._scored(theta)
        others = np.delete(scores, k, axis=1)
        by_scores = np.insert(-softmax(others), k, 1.0, axis=1)
        slopes = [-np.einsum("ik,ik->i", by_scores, scaled)[:, None] * by_law, by_scores]
        if self.uses_neighbours:
            slopes.append(np.einsum("ik,ik->i", by_scores, self.neighbours)[:, None])
        return scores[:, k] - logsumexp(others, axis=1), np.hstack(slopes)

    def unpacked(self, theta: FloatArray) -> FreeParameters:
        """Read the parameters off a vector."""
        return FreeParameters.of(theta, self.rows.covariates.shape[1], self.logits.shape[1])

    def _scored(self, theta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The scores, z / T, and the derivatives (n, p) of ln T by the law's parameters."""
        law, bias, gamma = self.unpacked(theta)
        log_T, by_law = law.slopes(self.rows)
        scaled = self.logits * np.exp(-log_T)[:, None]
        return scaled + bias + gamma * self.neighbours, scaled, by_law


def _posterior(known: FreeModel, prior: FreePrior, theta: FloatArray) -> tuple[float, FloatArray]:
    """Return the mean negative log posterior of the parameters, flattened, and its gradient."""
    weights, (n_nodes, n_classes) = known.weights, known.logits.shape
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
    penalty, by_law, _ = prior.law.derivatives(law)
    more, by_bias = gamma_mixture_penalty(bias, prior.bias_shape, prior.bias_rate)
    parts = [np.concatenate([jacobian @ slope, by_offset]) + by_law / n, by_score + by_bias / n]
    if known.uses_neighbours:
        precision = prior.neighbour_precision
        more += 0.5 * precision * gamma**2
        parts.append([by_gamma + precision * gamma / n])
    return loss + (penalty + more) / n, np.concatenate(parts)


NEGLIGIBLE = 40.0  # the density falls by e^-40 at the ends of the interval that is integrated
N_HALVINGS = 50
PLACES, WEIGHTS = np.polynomial.legendre.leggauss(100)
SMALLEST, LARGEST = 1e-300, 1.0 - 1e-9  # what p and epsilon may be


def class_shares(labels: IntArray, n_classes: int, weights: FloatArray | None = None) -> FloatArray:
    """Return the share of each class; √n more nodes of each keep all of them above zero."""
    counts = np.bincount(labels, weights, minlength=n_classes).astype(np.float64)
    counts += np.sqrt(counts.sum())
    return counts / counts.sum()


def floor_of(
    probs: FloatArray,
    labels: IntArray,
    background: FloatArray,
    weights: FloatArray | None = None,
    doubt: float | None = None,
) -> FloatArray:
    """Return what each class gets at least, (n_classes,): epsilon times the background."""
    if doubt is None:
        doubt = float(np.sqrt(len(labels) if weights is None else weights.sum()))
    at_label = probs[np.arange(len(labels)), labels].astype(np.float64)
    return mixing_weight(at_label, background[labels], weights, doubt) * background


def mixing_weight(
    p: FloatArray, q: FloatArray, weights: FloatArray | None = None, doubt: float = 1.0
) -> float:
    """Return the posterior mean of epsilon, from what p and q (n,) give to the labels."""
    w = np.ones(len(p)) if weights is None else weights
    p = np.maximum(p, SMALLEST)
    change = q - p

    def log_density(epsilon: float) -> float:
        mixed = np.maximum(p + epsilon * change, SMALLEST)
        return float(w @ np.log(mixed)) + (doubt - 1.0) * float(np.log1p(-epsilon))

    def rises(epsilon: float) -> bool:
        mixed = np.maximum(p + epsilon * change, SMALLEST)
        return float(w @ (change / mixed)) * (1.0 - epsilon) > doubt - 1.0

    mode = _last(rises, 0.0, LARGEST)
    lowest = log_density(mode) - NEGLIGIBLE
    end = _last(lambda epsilon: log_density(epsilon) > lowest, mode, LARGEST)
    start = mode - _last(lambda back: log_density(mode - back) > lowest, 0.0, mode)
    epsilons = start + 0.5 * (end - start) * (PLACES + 1.0)
    logs = np.array([log_density(epsilon) for epsilon in epsilons])
    density = WEIGHTS * np.exp(logs - logs.max())
    return float(density @ epsilons / density.sum())


def _last(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Return the last place where something holds that holds from ``low`` on, before ``high``."""
    for _ in range(N_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
