"""Temperatures that are a formula with a few parameters, and the two ways to fit them."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gnncal.calibrators.base import FitReport, TemperatureCalibrator
from gnncal.calibrators.losses import TemperatureLoss
from gnncal.calibrators.protocols import (
    Protocol,
    check_protocol,
    solve_like_the_paper,
    warn_unless_converged,
)
from gnncal.calibrators.solvers import Solution, distinct_ends, newton
from gnncal.core.arrays import FloatArray, IntArray
from gnncal.core.constraints import Constraint, number
from gnncal.core.data import FitData
from gnncal.core.errors import GnncalWarning
from gnncal.core.graph import Graph
from gnncal.core.learned import SOLVER_TABLE, LearnedTable

FEW_NODES = 100  # below, the loss may have several minima and every start is followed
N_STARTS = 2  # from there on, only the most promising
WARM_UP_NODES = 300  # a much larger calibration set is first solved on about that many
LARGE_STRIDE = 4  # how much larger; below, a second solution costs more than it saves
SIGNIFICANT_DIGITS = 7  # of a loss
TEMPERATURE_RANGE = (float(np.exp(-5.0)), float(np.exp(5.0)))  # beyond it softmax saturates or ties


@dataclass(frozen=True)
class Parameter:
    """One fitted number; ``name`` with a trailing underscore is the learned attribute.

    Numbers that must be positive are searched on a logarithmic scale.
    """

    name: str
    lower: float
    upper: float
    meaning_of_lower: str  # what it says about the data when the fit ends there
    meaning_of_upper: str = "the search stops here; the true optimum lies beyond"

    @property
    def constraint(self) -> Constraint:
        """What a saved value may be; early stopping can end a little outside the bounds."""
        if self.lower > 0:
            return number(above=0, at_most=10 * self.upper)
        return number(at_least=10 * self.lower, at_most=10 * self.upper)

    def bound_hit(self, value: float) -> str | None:
        """What it means that the fit ended at a bound, if it did."""
        if value <= self.lower + 1e-5 * abs(self.lower):
            return f"{self.name} = {value:.4g} at its lower bound ({self.meaning_of_lower})"
        if value >= self.upper - 1e-5 * abs(self.upper):
            return f"{self.name} = {value:.4g} at its upper bound ({self.meaning_of_upper})"
        return None


class ParametricTemperature(TemperatureCalibrator):
    """T_i = T(theta, covariates of node i), theta fitted on the calibration cross-entropy.

    A subclass names its parameters, computes covariates from logits and graph once, and gives
    the formula with its derivatives by theta. Covariates have one row for each node, so that a
    fit works on the calibration rows alone.

    Parameters
    ----------
    protocol : ``"converged"`` minimises the calibration loss; ``"paper"`` is Adam stopped early on
        the training nodes' loss, as in the HoTS paper.

    """

    protocol: Protocol
    parameters: ClassVar[tuple[Parameter, ...]]
    also_learned: ClassVar[LearnedTable] = SOLVER_TABLE
    converged_: bool
    n_iter_: int

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "parameters" in vars(cls):
            found = {f"{p.name}_": p.constraint for p in cls.parameters}
            cls.learned = {**found, **cls.also_learned}

    @abstractmethod
    def _covariates(
        self, logits: FloatArray, graph: Graph | None, known_labels: IntArray | None
    ) -> FloatArray:
        """(n_nodes, n_covariates) float64."""

    @abstractmethod
    def _formula(self, theta: FloatArray, covariates: FloatArray) -> tuple[FloatArray, FloatArray]:
        """T (n,) and dT/dtheta (n, n_parameters).

        Each entry of ``theta`` is a number, or of shape (n_starts, 1) for several parameter
        vectors at once; then n_starts leads the shapes of the results.
        """

    def _second_derivatives(
        self, theta: FloatArray, covariates: FloatArray, weights: FloatArray
    ) -> FloatArray:
        """Sum over nodes of weights times the second derivatives of T by theta.

        Zero where the formula is linear in theta; a hook for those where it is not.
        """
        return np.zeros((len(theta), len(theta)))

    @abstractmethod
    def _starts(self) -> list[tuple[float, ...]]:
        """Candidate starts of the converged fit."""

    @abstractmethod
    def _paper_start(self) -> FloatArray:
        """The unconstrained initial vector of the paper's loop."""

    @abstractmethod
    def _paper_link(self, raw: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Theta of an unconstrained vector, and the Jacobian dtheta/draw."""

    def _fit_covariates(self, data: FitData) -> FloatArray:
        """The covariates of the fitted graph; a hook for methods that learn theirs."""
        return self._covariates(data.logits, data.graph, None)

    def _clamp(self, temperature: FloatArray) -> FloatArray:
        """A hook for limits on T that a release applies; none by default."""
        return temperature

    def _fit(self, data: FitData) -> None:
        check_protocol(self.protocol, data)
        covariates = self._fit_covariates(data)
        loss = TemperatureLoss(data.logits[data.nodes], data.labels)
        if self.protocol == "paper":
            loss_after = self._fit_like_the_paper(data, covariates, loss)
        else:
            loss_after = self._fit_to_convergence(covariates[data.nodes], loss)
        bounds_hit = self._report_bounds() if self.protocol == "converged" else ()
        self.temperature_ = self._clamped_formula(covariates)
        self.fit_report_ = FitReport.of(data, loss_after, bounds_hit)

    def _temperature(
        self, logits: FloatArray, graph: Graph | None, known_labels: IntArray | None
    ) -> FloatArray:
        return self._clamped_formula(self._covariates(logits, graph, known_labels))

    def _derivatives(
        self, theta: FloatArray, covariates: FloatArray, loss: TemperatureLoss
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        unclamped, jacobian = self._formula(theta, covariates)
        temperature = self._clamp(unclamped)
        value, slope, curvature = loss.derivatives(temperature)
        if temperature is not unclamped:  # a clamped temperature does not move
            moves = temperature == unclamped
            slope, curvature = slope * moves, curvature * moves
        hessian = np.einsum("...ip,...iq->...pq", jacobian, curvature[..., None] * jacobian)
        hessian += self._second_derivatives(theta, covariates, slope)
        return value, np.einsum("...ip,...i->...p", jacobian, slope), hessian

    def _value_and_gradient(
        self, theta: FloatArray, covariates: FloatArray, loss: TemperatureLoss
    ) -> tuple[float, FloatArray]:
        unclamped, jacobian = self._formula(theta, covariates)
        temperature = self._clamp(unclamped)
        value, slope = loss.value_and_slope(temperature)
        slope *= temperature == unclamped  # a clamped temperature does not move
        return value, np.einsum("ip,i->p", jacobian, slope)

    def _clamped_formula(self, covariates: FloatArray) -> FloatArray:
        return self._clamp(self._formula(self._theta(), covariates)[0])

    def _fit_to_convergence(self, covariates: FloatArray, loss: TemperatureLoss) -> float:
        """Set the parameters; returns the loss."""
        scale = _Scale(self.parameters)
        starts = scale.encode(np.array(self._starts()))

        def follow(starts: FloatArray, stride: int) -> list[Solution]:
            """Newton from each start on every ``stride``-th node, the lowest loss first."""
            rows = covariates[::stride]
            part = loss.every(stride) if stride > 1 else loss

            def derivatives(code: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
                theta = scale.decode(code)
                value, gradient, hessian = self._derivatives(theta.T[..., None], rows, part)
                return value, *scale.by_code(theta, gradient, hessian)

            # Few nodes can make several minima: then every start is followed.
            n_kept = N_STARTS if len(rows) >= FEW_NODES else None
            runs = newton(derivatives, starts, scale.lower, scale.upper, n_kept=n_kept)
            # Losses that differ by rounding count as equal: then the earlier start decides.
            return sorted(runs, key=lambda run: round(run.loss, SIGNIFICANT_DIGITS))

        n_warm_up, stride = 0, len(covariates) // WARM_UP_NODES
        if stride >= LARGE_STRIDE:  # most steps are taken where they are cheap
            warm = follow(starts, stride)
            starts, n_warm_up = distinct_ends(warm), max(run.n_iter for run in warm)
        solution, *others = follow(starts, 1)
        n_iter = n_warm_up + max(run.n_iter for run in (solution, *others))
        self._set_theta(scale.decode(solution.parameters))
        self.converged_, self.n_iter_ = solution.converged, n_iter
        warn_unless_converged(self, solution)
        return solution.loss

    def _fit_like_the_paper(
        self, data: FitData, covariates: FloatArray, loss: TemperatureLoss
    ) -> float:
        """Set the parameters; returns the loss."""
        train_loss = TemperatureLoss(data.logits[data.train_nodes], data.train_labels)
        on_nodes, on_train = covariates[data.nodes], covariates[data.train_nodes]

        def objective(raw: FloatArray) -> tuple[float, FloatArray]:
            theta, link = self._paper_link(raw)
            value, gradient = self._value_and_gradient(theta, on_nodes, loss)
            return value, gradient @ link

        def monitor(raw: FloatArray) -> float:
            theta, _ = self._paper_link(raw)
            return train_loss.value(self._clamp(self._formula(theta, on_train)[0]))

        solution = solve_like_the_paper(objective, monitor, self._paper_start())
        self._set_theta(self._paper_link(solution.parameters)[0])
        self.converged_, self.n_iter_ = solution.converged, solution.n_iter
        return solution.loss

    def _theta(self) -> FloatArray:
        return np.array([getattr(self, f"{p.name}_") for p in self.parameters])

    def _set_theta(self, theta: FloatArray) -> None:
        for parameter, value in zip(self.parameters, theta, strict=True):
            setattr(self, f"{parameter.name}_", float(value))

    def _report_bounds(self) -> tuple[str, ...]:
        hits = {p.name: p.bound_hit(v) for p, v in zip(self.parameters, self._theta(), strict=True)}
        found = {name: message for name, message in hits.items() if message is not None}
        if found:
            name = type(self).__name__
            message = f"{name} stopped with {'; '.join(found.values())}."
            warnings.warn(message, GnncalWarning, stacklevel=4)
        return tuple(found)


class _Scale:
    """The solver's coordinates: logarithms of the parameters that must be positive."""

    def __init__(self, parameters: tuple[Parameter, ...]) -> None:
        self.logarithmic = np.array([p.lower > 0 for p in parameters])
        self.lower = self.encode(np.array([p.lower for p in parameters]))
        self.upper = self.encode(np.array([p.upper for p in parameters]))

    def encode(self, theta: FloatArray) -> FloatArray:
        """Coordinates (..., p) of parameters."""
        return np.log(theta, out=theta.astype(np.float64), where=self.logarithmic)

    def decode(self, code: FloatArray) -> FloatArray:
        """Parameters (..., p) of coordinates."""
        return np.exp(code, out=code.copy(), where=self.logarithmic)

    def by_code(
        self, theta: FloatArray, gradient: FloatArray, hessian: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Derivatives by the parameters turned into derivatives by the coordinates."""
        scale = np.where(self.logarithmic, theta, 1.0)  # dtheta/dcode
        gradient = gradient * scale
        hessian = hessian * scale[:, None, :] * scale[:, :, None]
        diagonal = np.eye(len(self.lower)) * self.logarithmic
        return gradient, hessian + gradient[:, None, :] * diagonal
