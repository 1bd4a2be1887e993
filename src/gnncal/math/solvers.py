"""The solvers of every fit: Newton and L-BFGS with bounds, and the paper's early-stopped Adam."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from gnncal.data.arrays import BoolArray, FloatArray
from gnncal.data.constraints import Constraint, number, one_of

Objective = Callable[[FloatArray], tuple[float, FloatArray]]
Checkpoint = Literal["matched", "after-step"]


def adam(
    objective: Objective,
    initial: FloatArray,
    *,
    max_epochs: int,
    patience: int | None,
    monitor: Callable[[FloatArray], float] | None = None,
    learning_rate: float = 1e-2,
    weight_decay: float = 0.0,
    checkpoint: Checkpoint = "matched",
) -> Solution:
    """Take one Adam step in each epoch on ``objective`` and return the best parameters seen."""
    theta = np.array(initial, copy=True)
    mean, square = np.zeros_like(theta), np.zeros_like(theta)
    best, best_score, waited, epoch = theta.copy(), np.inf, 0, 0
    for epoch in range(1, max_epochs + 1):
        loss, gradient = objective(theta)
        before = theta.copy() if monitor is None and checkpoint == "matched" else theta
        if weight_decay:
            gradient = gradient + weight_decay * theta
        mean += 0.1 * (gradient - mean)
        square += 0.001 * (gradient * gradient - square)
        step = mean / (1 - 0.9**epoch)
        step /= np.sqrt(square / (1 - 0.999**epoch)) + 1e-8
        theta -= learning_rate * step
        score = loss if monitor is None else monitor(theta)
        if score <= best_score:
            best[...], best_score, waited = before, score, 0
        else:
            waited += 1
            if patience is not None and waited >= patience:
                break
    return Solution(best, float(best_score), epoch, converged=False)  # it may be anywhere


# (n_starts, p) parameters -> losses (n_starts,), gradients (n_starts, p), Hessians (n_starts, p, p)
Derivatives = Callable[[FloatArray], tuple[FloatArray, FloatArray, FloatArray]]
MAX_ITERATIONS = 500
GRADIENT_TOLERANCE = 1e-8
STEP_TOLERANCE = 1e-9
LONGEST_STEP = 2.0  # parameters are logarithms: a factor of seven at most
SMALLEST_CURVATURE = 1e-12
SAFE_CURVATURE = 1e-9  # where all are larger, eigenvalues stay as they are
SAME_END = 0.05  # parameters that differ by less lead to one minimum
SHORTENED = 1 / 64  # of a step; only a kink in the loss, such as a limit, makes it as short as that
SMALLEST_GAIN = 1e-9  # share of the loss; a run that gains less by such steps stands at its limits
# Parameters, gradients, Hessians of several starts, and bounds -> steps, gradients by what moves
Steps = tuple[FloatArray, FloatArray]
Bounds = tuple[FloatArray, FloatArray]
Directions = Callable[[FloatArray, FloatArray, FloatArray, Bounds], Steps]


@dataclass(frozen=True)
class Solution:
    """Fitted parameters and how the solver ended.

    Attributes
    ----------
    parameters, loss, n_iter, converged : ndarray of shape (p,), float, int, bool
        Where the loss is lowest, the loss there, the steps taken, and whether it is a minimum.
    hessian : ndarray of shape (p, p) or None
        Second derivatives of the loss there, if the solver knows them.

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal.calibrators import Solution
    >>> Solution(np.zeros(2), loss=0.0, n_iter=3, converged=True).n_iter
    3

    """

    parameters: FloatArray
    loss: float
    n_iter: int
    converged: bool
    hessian: FloatArray | None = None


def newton(
    derivatives: Derivatives,
    starts: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    *,
    n_kept: int | None = None,
    directions: Directions | None = None,
) -> list[Solution]:
    """Return where Newton's method ends from each start, for a handful of bounded parameters.

    The Hessians' eigenvalues are made positive, so that every step goes downhill; steps are
    shortened until the loss falls, and a run ends when it gains next to nothing by them.

    Parameters
    ----------
    derivatives : callable
        Takes parameters (n_starts, p); gives losses, gradients and Hessians, one for each start.
    starts : ndarray of shape (n_starts, p)
        Where to begin.
    n_kept : int, optional
        How many starts to follow, those with the lowest loss. Default: all.
    directions : callable, optional
        Gives the steps where Hessians have a form of their own.

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal.calibrators import newton
    >>> def squares(theta):
    ...     hessians = np.tile(2 * np.eye(2), (len(theta), 1, 1))
    ...     return (theta**2).sum(axis=1), 2 * theta, hessians
    >>> (solution,) = newton(squares, np.ones((1, 2)), np.full(2, -5.0), np.full(2, 5.0))
    >>> solution.parameters.round(6), solution.converged
    (array([0., 0.]), True)

    """
    directions = dense_directions if directions is None else directions
    theta = np.clip(starts, lower, upper)
    loss, gradient, hessian = derivatives(theta)
    if n_kept is not None and n_kept < len(theta):
        kept = np.sort(np.argsort(loss, kind="stable")[:n_kept])
        theta, loss, gradient, hessian = theta[kept], loss[kept], gradient[kept], hessian[kept]
    step = _limited(*directions(theta, gradient, hessian, (lower, upper)))
    curvature, scale = hessian, np.ones(len(theta))  # how much of a step is left
    n_rounds = np.zeros(len(theta), dtype=int)
    for _ in range(MAX_ITERATIONS):
        proposal = np.clip(theta + step, lower, upper)
        moving = np.flatnonzero(np.abs(proposal - theta).max(axis=1) >= STEP_TOLERANCE)
        if moving.size == 0:
            break
        n_rounds[moving] += 1
        tried, gradient, hessian = derivatives(proposal[moving])
        falls = tried < loss[moving]
        better, worse = moving[falls], moving[~falls]
        step[worse] /= 4.0
        scale[worse] /= 4.0
        if better.size:
            gain = loss[better] - tried[falls]
            at_limits = (scale[better] <= SHORTENED) & (gain < SMALLEST_GAIN * np.abs(loss[better]))
            theta[better], loss[better] = proposal[better], tried[falls]
            curvature[better], scale[better] = hessian[falls], 1.0
            slopes = (gradient[falls], hessian[falls])
            step[better] = _limited(*directions(theta[better], *slopes, (lower, upper)))
            step[better[at_limits]] = 0.0
    still = np.abs(np.clip(theta + step, lower, upper) - theta).max(axis=1) >= STEP_TOLERANCE
    ends = zip(theta, loss.tolist(), n_rounds.tolist(), (~still).tolist(), curvature, strict=True)
    return [Solution(*end) for end in ends]


def _limited(step: FloatArray, gradient: FloatArray) -> FloatArray:
    """Shorten steps that are too long; zero where a start has converged."""
    longest = np.maximum(np.abs(step).max(axis=1, keepdims=True), STEP_TOLERANCE)
    step = step * np.minimum(1.0, LONGEST_STEP / longest)
    converged = np.abs(gradient).max(axis=1, keepdims=True) < GRADIENT_TOLERANCE
    return np.where(converged, 0.0, step)


def dense_directions(
    theta: FloatArray, gradient: FloatArray, hessian: FloatArray, bounds: Bounds
) -> Steps:
    """Return the Newton step of each start, and the gradient by what may move."""
    lower, upper = bounds
    moving = ((theta > lower) | (gradient <= 0)) & ((theta < upper) | (gradient >= 0))
    gradient = np.where(moving, gradient, 0.0)
    identity, both = np.eye(theta.shape[1]), _pairs(moving)
    convex = np.where(both, hessian, 0.0)
    if not _is_positive_definite(np.where(both, hessian, identity)):
        convex = _positive_definite(convex)
    step = np.zeros_like(theta)
    for _ in range(theta.shape[1]):
        pull = gradient[..., None] + convex @ np.where(moving, 0.0, step)[..., None]
        solved = np.linalg.solve(np.where(_pairs(moving), convex, identity), -pull)[..., 0]
        step = np.where(moving, solved, step)
        inside = np.clip(theta + step, lower, upper) - theta
        leaving = moving & (np.abs(inside - step) > STEP_TOLERANCE)
        if not leaving.any():
            break
        step = np.where(leaving, inside, step)
        moving = moving & ~leaving
    uphill = (gradient * step).sum(axis=1, keepdims=True) >= 0  # pinning may turn a step
    return np.where(uphill, -gradient, step), gradient


def arrow_directions(
    theta: FloatArray, gradient: FloatArray, hessian: FloatArray, bounds: Bounds
) -> Steps:
    """Do the same for arrows [[A, B], [B', diag(d)]], in time linear in the size of d."""
    p = hessian.shape[1] - 1
    sides, d = hessian[:, :p, p:], np.abs(hessian[:, p, p:])
    d = np.maximum(d, SMALLEST_CURVATURE * np.maximum(1.0, d.max(axis=1, keepdims=True)))
    ratios = sides / d[:, None, :]
    curvature = hessian[:, :p, :p] - ratios @ sides.swapaxes(1, 2)
    own, others = gradient[:, :p], gradient[:, p:]
    pull = own - (ratios @ others[..., None])[..., 0]
    within = (bounds[0][:p], bounds[1][:p])
    first, reduced = dense_directions(theta[:, :p], pull, curvature, within)
    rest = -others / d - (first[:, None, :] @ ratios)[:, 0]
    free = np.where(reduced == 0.0, 0.0, own)  # a coordinate at its bound does not move
    return np.append(first, rest, axis=1), np.append(free, others, axis=1)


def _positive_definite(hessian: FloatArray) -> FloatArray:
    values, vectors = np.linalg.eigh(hessian)
    values = np.abs(values)
    largest = np.maximum(1.0, values.max(axis=1, keepdims=True))
    values = np.maximum(values, SMALLEST_CURVATURE * largest)
    return (vectors * values[:, None, :]) @ vectors.swapaxes(1, 2)


def _is_positive_definite(hessian: FloatArray) -> bool:
    """Whether the eigenvalues can stay as they are, which is far quicker to know than they."""
    identity, size = np.eye(hessian.shape[1]), np.abs(hessian).max(axis=(1, 2))
    smallest = SAFE_CURVATURE * np.maximum(1.0, size)
    try:
        np.linalg.cholesky(hessian - smallest[:, None, None] * identity)
    except np.linalg.LinAlgError:
        return False
    return True


def _pairs(chosen: BoolArray) -> BoolArray:
    return chosen[:, :, None] & chosen[:, None, :]


def distinct_ends(runs: list[Solution]) -> FloatArray:
    """Return where the runs ended, each place once."""
    ends: list[FloatArray] = []
    for run in runs:
        if all(np.abs(run.parameters - end).max() > SAME_END for end in ends):
            ends.append(run.parameters)
    return np.array(ends)


def lbfgs(
    objective: Objective,
    start: FloatArray,
    lower: FloatArray | float,
    upper: FloatArray | float,
    *,
    loss_tolerance: float = 0.0,
    max_iterations: int = 10_000,
) -> Solution:
    """Return the minimum of a loss of many bounded parameters, found by L-BFGS.

    Parameters
    ----------
    loss_tolerance : float, default=0.0
        The search ends when a step lowers the loss by less than this share, or the gradient
        vanishes.
    max_iterations : int, default=10000
        Largest number of steps.

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal.calibrators import lbfgs
    >>> solution = lbfgs(lambda theta: (float(theta @ theta), 2 * theta), np.ones(3), -5.0, 5.0)
    >>> solution.parameters.round(6)
    array([0., 0., 0.])

    """
    from scipy import optimize  # here because it takes long to import

    bounds = optimize.Bounds(lower, upper)
    options = {"ftol": loss_tolerance, "gtol": 1e-9, "maxiter": max_iterations, "maxcor": 20}
    result = optimize.minimize(
        objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options
    )
    # Without a tolerance on the loss, rounding may end the line search at the very minimum.
    converged = bool(result.success) or float(np.abs(result.jac).max()) < 1e-6
    return Solution(result.x, float(result.fun), int(result.nit), converged)


Protocol = Literal["converged", "paper"]
PROTOCOLS = one_of("converged", "paper")  # what the parameter may be
PAPER_EPOCHS = 1000
PAPER_GRADIENT = 1e-3  # below it, Adam's end counts as a minimum


def solve_like_the_paper(
    objective: Objective,
    monitor: Callable[[FloatArray], float],
    start: FloatArray,
    *,
    max_epochs: int | None = None,
    patience: int = 50,
    learning_rate: float = 1e-2,
) -> Solution:
    """Return where Adam on the calibration nodes has the lowest loss of the training nodes.

    This is the loop of the HoTS paper; a publication with a loop of its own gives its numbers.

    Parameters
    ----------
    monitor : callable
        Gives the loss of the training nodes, which decides what is kept and when to stop.
    max_epochs, patience, learning_rate : int, int, float
        Largest number of steps, of those without a lower loss, and step size of Adam.

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal.calibrators import solve_like_the_paper
    >>> def squares(theta):
    ...     return float(theta @ theta), 2 * theta
    >>> solve_like_the_paper(squares, lambda theta: squares(theta)[0], np.ones(2)).converged
    True

    """
    run = adam(
        objective,
        start,
        monitor=monitor,
        max_epochs=max_epochs or PAPER_EPOCHS,
        patience=patience,
        learning_rate=learning_rate,
    )
    loss, gradient = objective(run.parameters)
    converged = float(np.abs(gradient).max()) < PAPER_GRADIENT  # where it stopped may be anywhere
    return replace(run, loss=loss, converged=converged)


TEMPERATURE_RANGE = (float(np.exp(-5.0)), float(np.exp(5.0)))  # beyond it softmax saturates or ties


@dataclass(frozen=True)
class Parameter:
    """One number that a :class:`ParametricTemperature` fits.

    A number whose lower bound is positive is searched on a logarithmic scale.

    Parameters
    ----------
    name : str
        With a trailing underscore it is the learned attribute.
    lower, upper : float
        Bounds of the fit.
    meaning_of_lower, meaning_of_upper : str
        What it says about the data when the fit ends there.
    simpler_at_lower : bool, default=False
        Whether the lower bound only makes the formula simpler.

    Examples
    --------
    >>> from gnncal.calibrators import Parameter
    >>> Parameter("slope", -20.0, 20.0, "the temperature falls as steeply as allowed").upper
    20.0

    """

    name: str
    lower: float
    upper: float
    meaning_of_lower: str
    meaning_of_upper: str = "the search stops here; the true optimum lies beyond"
    simpler_at_lower: bool = False

    @property
    def constraint(self) -> Constraint:
        """What a saved value may be; early stopping can end a little outside the bounds."""
        if self.lower > 0:
            return number(above=0, at_most=10 * self.upper)
        return number(at_least=10 * self.lower, at_most=10 * self.upper)


class Transform:
    """The solver's coordinates: logarithms of the parameters that must be positive."""

    def __init__(self, parameters: tuple[Parameter, ...]) -> None:
        self.logarithmic = np.array([p.lower > 0 for p in parameters])
        self.lower = self.encode(np.array([p.lower for p in parameters]))
        self.upper = self.encode(np.array([p.upper for p in parameters]))

    def encode(self, theta: FloatArray) -> FloatArray:
        """Return the coordinates (..., p) of parameters."""
        return np.log(theta, out=theta.astype(np.float64), where=self.logarithmic)

    def decode(self, code: FloatArray) -> FloatArray:
        """Return the parameters (..., p) of coordinates."""
        return np.exp(code, out=code.copy(), where=self.logarithmic)

    def chain_rule(
        self, theta: FloatArray, gradient: FloatArray, hessian: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Derivatives by the parameters turned into derivatives by the coordinates."""
        scale = np.where(self.logarithmic, theta, 1.0)  # dtheta/dcode
        gradient = gradient * scale
        hessian = hessian * scale[:, None, :] * scale[:, :, None]
        diagonal = np.eye(len(self.lower)) * self.logarithmic
        return gradient, hessian + gradient[:, None, :] * diagonal
