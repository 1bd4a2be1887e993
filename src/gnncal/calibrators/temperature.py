"""Temperatures that are a formula with a few parameters, and the two ways to fit them."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import ClassVar

import numpy as np
from scipy.special import expit

from gnncal.calibrators.base import TemperatureCalibrator
from gnncal.calibrators.fit_report import FitReport
from gnncal.data.arrays import FloatArray, IntArray
from gnncal.data.constraints import SOLVER_STATE, Constraint, LearnedTable, number
from gnncal.data.nodes import Nodes
from gnncal.math.formulas import (
    Formula,
    entropy_temperature,
    hts_temperature,
    one_temperature,
    scaled_logits,
)
from gnncal.math.losses import (
    LARGEST_ERROR,
    ParameterBlock,
    TemperatureLoss,
    TemperatureModel,
    covariance_of,
    temperature_error,
)
from gnncal.math.solvers import (
    PROTOCOLS,
    TEMPERATURE_RANGE,
    Parameter,
    Protocol,
    Solution,
    Transform,
    distinct_ends,
    newton,
    solve_like_the_paper,
)

FEW_NODES = 100  # below, the loss may have several minima and every start is followed
N_STARTS = 2  # from there on, only the best
WARM_UP_NODES = 300  # a much larger calibration set is first solved on about that many
LARGE_STRIDE = 4  # how much larger; below, a second solution costs more than it saves
SIGNIFICANT_DIGITS = 7  # of a loss
PART = "temperature"
SMALLEST_GAIN = 1e-6  # share of the loss; less is rounding


class ParametricTemperature(TemperatureCalibrator):
    """Base of calibrators whose T_i is a formula of a few parameters and of node i's covariates.

    A subclass declares its ``parameters``, computes the covariates from logits and graph, and
    implements the formula, its derivatives and the starting values. The constructor takes
    ``protocol``: ``"converged"`` minimises the log loss of the calibration nodes; ``"paper"`` runs
    Adam, stopped early on the log loss of the training nodes, as in the HoTS paper.

    Examples
    --------
    A temperature proportional to one plus the entropy:

    >>> import numpy as np
    >>> import gnncal
    >>> from gnncal.calibrators import Parameter, ParametricTemperature
    >>> class Simple(ParametricTemperature):
    ...     parameters = (Parameter("scale", 0.01, 100.0, "all nodes are right"),)
    ...     starts, paper_start = ((1.0,),), (1.0,)
    ...     def _covariates(self, nodes):
    ...         return 1 + nodes.entropy[:, None]
    ...     def _formula(self, theta, covariates):
    ...         return theta[0] * covariates[:, 0], covariates
    ...     def _paper_link(self, raw):
    ...         return raw, np.eye(1)
    >>> task = gnncal.example()
    >>> round(Simple().fit(
    ...     task.logits, task.labels, calibration_nodes=task.calibration_nodes
    ... ).scale_, 2)
    0.26

    """

    uses_sample_weight = True
    constraints: ClassVar[dict[str, Constraint]] = {"protocol": PROTOCOLS}
    parameters: ClassVar[tuple[Parameter, ...]]  # what is fitted; each becomes an attribute
    starts: ClassVar[tuple[tuple[float, ...], ...]]  # of the converged fit
    paper_start: ClassVar[tuple[float, ...]]  # of the paper's loop, unconstrained
    converged_: bool
    n_iter_: int

    def __init__(self, *, protocol: Protocol = "converged") -> None:
        self.protocol = protocol

    @property
    def learned(self) -> LearnedTable:
        """What each attribute that makes up the fitted model may be."""
        return {**{f"{p.name}_": p.constraint for p in self.parameters}, **SOLVER_STATE}

    @abstractmethod
    def _covariates(self, nodes: Nodes) -> FloatArray:
        """(n_nodes, n_covariates) float64."""

    @abstractmethod
    def _formula(self, theta: FloatArray, covariates: FloatArray) -> tuple[FloatArray, FloatArray]:
        """T (n,) and dT/dtheta (n, n_parameters)."""

    def _second_derivatives(
        self, theta: FloatArray, covariates: FloatArray, weights: FloatArray
    ) -> FloatArray:
        """Sum over nodes of weights times the second derivatives of T; zero where T is linear."""
        return np.zeros((len(theta), len(theta)))

    @abstractmethod
    def _paper_link(self, raw: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Theta of an unconstrained vector, and the Jacobian dtheta/draw."""

    def _fit_covariates(self, nodes: Nodes) -> FloatArray:
        """Return the covariates of the fitted graph; a hook for methods that learn theirs."""
        return self._covariates(nodes)

    def _covariates_at(self, entropy: FloatArray, homophily: FloatArray) -> FloatArray | None:
        """Return the covariates (n, n_covariates) at an entropy and a homophily, both (n,)."""
        return None

    def _temperature_at(self, entropy: FloatArray, homophily: FloatArray) -> FloatArray | None:
        covariates = self._covariates_at(entropy, homophily)
        return None if covariates is None else self._clamped_formula(covariates)

    def _clamp(self, temperature: FloatArray) -> FloatArray:
        """A hook for limits on T that a release applies; none by default."""
        return temperature

    def _fit(self, nodes: Nodes) -> None:
        covariates = self._fit_covariates(nodes)
        on_nodes = covariates[nodes.calibration_nodes]
        loss = TemperatureLoss(nodes.calibration_logits, nodes.labels, nodes.weights)
        if self.protocol == "paper":
            loss_after = self._fit_like_the_paper(nodes, covariates, loss)
            self.posterior_ = {}  # it was stopped early, so it is not the most probable one
            self.fit_report_ = FitReport.of(nodes, loss_after)
        else:
            loss_after = self._fit_to_convergence(on_nodes, loss)
            self.fit_report_ = self._report(nodes, on_nodes, loss, loss_after)
            labelled = self._labelled(nodes, on_nodes)
            information = labelled.slopes(self._code()).information
            self.posterior_ = {PART: covariance_of(information)}
        self.temperature_ = self._clamped_formula(covariates)

    def _temperature(self, nodes: Nodes) -> FloatArray:
        return self._clamped_formula(self._covariates(nodes))

    def _posterior_blocks(self, nodes: Nodes) -> list[ParameterBlock]:
        covariance = self._covariance_of(PART)
        labelled = self._labelled(nodes, self._covariates(nodes)[nodes.calibration_nodes])
        return [ParameterBlock(PART, self._code(), covariance, labelled)]

    def _set_block(self, name: str, theta: FloatArray, covariance: FloatArray) -> None:
        scale = Transform(self.parameters)
        self._set_theta(scale.decode(np.clip(theta, scale.lower, scale.upper)))
        self.posterior_ = {name: covariance}

    def _code(self) -> FloatArray:
        """Return the parameters in the solver's coordinates."""
        return Transform(self.parameters).encode(self._theta())

    def _labelled(self, nodes: Nodes, covariates: FloatArray) -> TemperatureModel:
        """Return the calibration nodes, with their covariates, as a function of the parameters."""
        scale = Transform(self.parameters)

        def log_temperature(code: FloatArray) -> tuple[FloatArray, FloatArray]:
            theta = scale.decode(np.clip(code, scale.lower, scale.upper))
            unclamped, jacobian = self._formula(theta, covariates)
            temperature = self._clamp(unclamped)
            # Nothing moves beyond a bound of the parameters, or where T is clamped.
            inside = (code >= scale.lower) & (code <= scale.upper)
            by_raw = jacobian * np.where(scale.logarithmic, theta, 1.0) * inside
            by_raw *= ((temperature == unclamped) / temperature)[:, None]
            return np.log(temperature), by_raw

        logits = scaled_logits(nodes.calibration_logits.astype(np.float64), 1.0)
        return TemperatureModel(nodes.labels, nodes.weights, logits, log_temperature)

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

    def _clamped_formula(self, covariates: FloatArray) -> FloatArray:
        return self._clamp(self._formula(self._theta(), covariates)[0])

    def _fit_to_convergence(self, covariates: FloatArray, loss: TemperatureLoss) -> float:
        """Set the parameters; returns the loss."""
        scale = Transform(self.parameters)
        starts = scale.encode(np.array(self.starts))

        def follow(starts: FloatArray, stride: int) -> list[Solution]:
            """Newton from each start on every ``stride``-th node, the lowest loss first."""
            rows = covariates[::stride]
            part = loss[::stride] if stride > 1 else loss

            def derivatives(code: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
                theta = scale.decode(code)
                value, gradient, hessian = self._derivatives(theta.T[..., None], rows, part)
                return value, *scale.chain_rule(theta, gradient, hessian)

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
        return solution.loss

    def _fit_like_the_paper(
        self, nodes: Nodes, covariates: FloatArray, loss: TemperatureLoss
    ) -> float:
        """Set the parameters; returns the loss."""
        train_loss = TemperatureLoss(nodes.logits[nodes.train_nodes], nodes.train_labels)
        on_nodes, on_train = covariates[nodes.calibration_nodes], covariates[nodes.train_nodes]

        def objective(raw: FloatArray) -> tuple[float, FloatArray]:
            theta, link = self._paper_link(raw)
            value, gradient, _ = self._derivatives(theta, on_nodes, loss)
            return float(value), gradient @ link

        def monitor(raw: FloatArray) -> float:
            theta, _ = self._paper_link(raw)
            return train_loss.value(self._clamp(self._formula(theta, on_train)[0]))

        solution = solve_like_the_paper(objective, monitor, np.array(self.paper_start))
        self._set_theta(self._paper_link(solution.parameters)[0])
        self.converged_, self.n_iter_ = solution.converged, solution.n_iter
        return solution.loss

    def _theta(self) -> FloatArray:
        return np.array([getattr(self, f"{p.name}_") for p in self.parameters])

    def _set_theta(self, theta: FloatArray) -> None:
        for parameter, value in zip(self.parameters, theta, strict=True):
            setattr(self, f"{parameter.name}_", float(value))

    def _report(
        self, nodes: Nodes, covariates: FloatArray, loss: TemperatureLoss, loss_after: float
    ) -> FitReport:
        """Return the report of a converged fit: bounds, their meaning, what is undetermined."""
        theta = self._theta()
        fitted = list(zip(self.parameters, theta.tolist(), strict=True))
        ends = {p.name: end for p, v in fitted if (end := _bound_hit(p, v)) is not None}
        scale, labelled = Transform(self.parameters), self._labelled(nodes, covariates)
        _, *by_theta = self._derivatives(theta[:, None, None], covariates, loss)
        hessian = scale.chain_rule(theta[None], *by_theta)[1][0] * loss.total_weight
        reasons = [
            ends[p.name]
            for p, v in fitted
            if p.name in ends and not (p.simpler_at_lower and v < p.upper / 2)
        ]
        if ends:  # did the bounds, and not the labels, stop the temperatures?
            temperature = self._clamped_formula(covariates)
            reasons += [
                f"the loss still falls when every temperature is {change}; only a bound holds it"
                for factor, change in ((0.5, "halved"), (2.0, "doubled"))
                if loss.value(factor * temperature) < loss_after * (1.0 - SMALLEST_GAIN)
            ]
        if len(covariates) < len(theta):
            reasons.append(f"{len(theta)} parameters for {len(covariates)} calibration nodes")
        free = np.array([p.name not in ends for p, _ in fitted])
        slopes = labelled.log_temperature(self._code())[1]
        error = temperature_error(hessian[np.ix_(free, free)], slopes[:, free])
        if error > LARGEST_ERROR:
            reasons.append(f"the labels determine ln T only to ±{error:.2g} (one standard error)")
        told = {"notes": tuple(ends.values()), "undetermined": tuple(reasons)}
        return FitReport.of(nodes, loss_after, tuple(ends), **told)


def _bound_hit(parameter: Parameter, value: float) -> str | None:
    """Return what it means that a fit ended at a bound; None inside the bounds."""
    name, low, high = parameter.name, parameter.lower, parameter.upper
    if value <= low + 1e-5 * abs(low):
        return f"{name} = {value:.4g} at its lower bound ({parameter.meaning_of_lower})"
    if value >= high - 1e-5 * abs(high):
        return f"{name} = {value:.4g} at its upper bound ({parameter.meaning_of_upper})"
    return None


class TemperatureScaling(ParametricTemperature):
    r"""One temperature for the whole graph: every logit is divided by the same number.

    .. math:: \min_T \; -\tfrac1n \sum_i \log \mathrm{softmax}(z_i / T)_{y_i}

    The sum runs over the n calibration nodes; node i has logits z_i and label y_i. The fitted T is
    ``base_temperature_``. The loss is convex in 1/T, so the converged fit is the global minimum.
    Guo, Pleiss, Sun, Weinberger, "On calibration of modern neural networks" (ICML 2017).

    Notes
    -----
    Use it as the baseline, or with few calibration nodes and no graph. Certain and uncertain nodes
    get the same temperature.

    Examples
    --------
    >>> import gnncal
    >>> task, scaling = gnncal.example(), gnncal.calibrators.TemperatureScaling()
    >>> fitted = scaling.fit(task.logits, task.labels, calibration_nodes=task.calibration_nodes)
    >>> round(fitted.base_temperature_, 2)
    0.41

    """

    parameters = (
        Parameter(
            "base_temperature",
            *TEMPERATURE_RANGE,
            "the calibration nodes are almost all predicted correctly, or the logits are tiny",
            "the logits say nothing about the calibration labels, or they are huge",
        ),
    )
    starts, paper_start = ((1.0,),), (1.0,)
    base_temperature_: float

    def _covariates(self, nodes: Nodes) -> FloatArray:
        return np.ones((nodes.n_nodes, 1))

    def _covariates_at(self, entropy: FloatArray, homophily: FloatArray) -> FloatArray:
        return np.ones((len(entropy), 1))

    def _formula(self, theta: FloatArray, covariates: FloatArray) -> tuple[FloatArray, FloatArray]:
        return theta[0] * covariates[:, 0], covariates

    def _as_formula(self) -> Formula:
        return Formula(one_temperature, self._numbers("base_temperature"))

    def _paper_link(self, raw: FloatArray) -> tuple[FloatArray, FloatArray]:
        return np.maximum(raw, TEMPERATURE_RANGE[0]), np.eye(1)

    @staticmethod
    def best_temperature(
        logits: FloatArray, labels: IntArray, weights: FloatArray | None = None
    ) -> float:
        """Return the temperature with the lowest mean log loss on some rows, without any check."""
        scaling, same = TemperatureScaling(), np.ones((len(labels), 1))
        scaling._fit_to_convergence(same, TemperatureLoss(logits, labels, weights))
        return scaling.base_temperature_


RELEASE_FLOOR = 0.1  # of T in the HoTS authors' release of HTS


class EntropyScaling(ParametricTemperature):
    r"""A temperature for each node, linear in the entropy of its prediction (HTS).

    .. math:: T_i = (1 - e_i) T_0 + e_i T_1, \qquad T_0, T_1 > 0

    :math:`e_i` is the entropy of node i's uncalibrated prediction divided by ln K, for K classes.
    The fitted T_0 and T_1 are ``certain_temperature_`` and ``uncertain_temperature_``. With
    ``protocol="paper"``, :math:`T_i = \max(0.1, \mathrm{softplus}(a) + 0.1 + b e_i)` with fitted a
    and b, as in the code released with the HoTS paper. HTS is from Balanya, Maroñas, Ramos,
    "Adaptive temperature scaling for robust calibration of deep neural networks" (2024).

    Notes
    -----
    Use it if you have no graph and at least 200 calibration nodes.

    """

    parameters = (
        Parameter("certain_temperature", *TEMPERATURE_RANGE, "certain nodes are all correct"),
        Parameter("uncertain_temperature", *TEMPERATURE_RANGE, "uncertain nodes are all correct"),
    )
    starts, paper_start = ((1.0, 1.0), (3.0, 1.0), (0.3, 0.3)), (1.0, 0.0)
    certain_temperature_: float
    uncertain_temperature_: float

    def _covariates(self, nodes: Nodes) -> FloatArray:
        return _linear(nodes.entropy)

    def _covariates_at(self, entropy: FloatArray, homophily: FloatArray) -> FloatArray:
        return _linear(entropy)

    def _formula(self, theta: FloatArray, covariates: FloatArray) -> tuple[FloatArray, FloatArray]:
        return entropy_temperature(covariates[:, 1], *theta), covariates

    @property
    def learned(self) -> LearnedTable:
        """What each attribute that makes up the fitted model may be."""
        if self.protocol == "converged":
            return super().learned
        return {**super().learned, "uncertain_temperature_": number()}  # T is kept above the floor

    def _clamp(self, temperature: FloatArray) -> FloatArray:
        if self.protocol == "converged":
            return temperature
        return np.maximum(temperature, RELEASE_FLOOR)

    def _as_formula(self) -> Formula:
        learned = self._numbers("certain_temperature", "uncertain_temperature")
        floor = None if self.protocol == "converged" else RELEASE_FLOOR
        return Formula(hts_temperature, learned, {"floor": floor})

    def _paper_link(self, raw: FloatArray) -> tuple[FloatArray, FloatArray]:
        base, slope = np.logaddexp(0.0, raw[0]) + RELEASE_FLOOR, raw[1]
        return np.array([base, base + slope]), np.array([[expit(raw[0]), 0], [expit(raw[0]), 1]])


def _linear(entropy: FloatArray) -> FloatArray:
    """1 - e and e as columns."""
    return np.stack([1.0 - entropy, entropy], axis=1)


class Uncalibrated(TemperatureCalibrator):
    r"""No calibration: the softmax of the unchanged logits.

    .. math:: p_i = \mathrm{softmax}(z_i)

    Here z_i are the logits of node i, p_i its probabilities.

    Notes
    -----
    Use it as the reference in a comparison of methods.

    """

    uses_sample_weight = True

    def _fit(self, nodes: Nodes) -> None:
        self.temperature_ = np.ones(nodes.n_nodes)
        report = FitReport.of(nodes, loss_after=float("nan"))
        self.fit_report_ = replace(report, loss_after=report.loss_before)

    def _temperature(self, nodes: Nodes) -> FloatArray:
        return np.ones(nodes.n_nodes)

    def _as_formula(self) -> Formula:
        return Formula(one_temperature, {"base_temperature": 1.0})
