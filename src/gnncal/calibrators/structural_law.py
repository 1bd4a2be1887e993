"""The structural law: a temperature from entropy, neighbourhood and class."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtri

from gnncal.calibrators.base import Calibrator, TemperatureMixin
from gnncal.calibrators.fit_report import FitReport
from gnncal.data.arrays import FloatArray, IntArray
from gnncal.data.constraints import SOLVER_STATE, Array, LearnedTable, number
from gnncal.data.errors import InputError, warn
from gnncal.data.nodes import Nodes
from gnncal.data.probability import keep_predictions, log_losses, normalised_homophily, softmax
from gnncal.graph.compiled import parallel_for
from gnncal.graph.graph import Side
from gnncal.math.formulas import (
    COVARIATES,
    LOG_TEMPERATURE,
    Formula,
    Neighbourhood,
    centred,
    describe_neighbourhoods,
    floored,
    log_temperature_variance,
    scaled_logits,
    structural_scaled,
    structural_temperature,
)
from gnncal.math.posterior import ParameterBlock, Rows, TemperatureModel
from gnncal.math.structural_fit import LawFit, LawPrior, LawRows, TemperatureLaw, fit_law, floor_of

LEVEL = number(above=0, below=1)
SUPPORT = COVARIATES.index("support")
LAW: LearnedTable = {
    "certain_temperature_": number(above=0, at_most=1e6),
    "uncertain_temperature_": number(above=0, at_most=1e6),
    "weights_": Array("6"),
    "class_offsets_": Array("K"),
}
FLOOR: LearnedTable = {"floor_": Array("K", low=0.0, high=1.0)}
CENTRE: LearnedTable = {"centre_": Array("6")}
KEPT: LearnedTable = {**LAW, **CENTRE, "covariance_": Array("K+8 K+8"), **FLOOR, **SOLVER_STATE}
LAW_BLOCK = "law"  # of the posterior, as files name it
NUMBERS_IN_CACHE = 1 << 17  # nodes x classes that are predicted at once
LIMIT_SHARE = 0.01  # of temperatures at a limit; beyond, a fit warns of it


@dataclass(frozen=True)
class TemperatureInterval:
    """An interval for the temperature and the confidence of each node.

    Attributes
    ----------
    level : float
        Probability of the interval.
    temperature_low, temperature_high, confidence_low, confidence_high : ndarray
        Its ends, (n_nodes,).

    """

    level: float
    temperature_low: FloatArray
    temperature_high: FloatArray
    confidence_low: FloatArray
    confidence_high: FloatArray


class StructuralLaw(TemperatureMixin, Calibrator):
    """Base of the structural methods: the law of temperature, its posterior and its floor."""

    needs_graph = True
    fitting = "posterior"
    uses_sample_weight = True
    not_in_formula: ClassVar[tuple[str, ...]] = ("converged_", "n_iter_")
    certain_temperature_: float
    uncertain_temperature_: float
    weights_: FloatArray
    class_offsets_: FloatArray
    centre_: FloatArray
    covariance_: FloatArray
    floor_: FloatArray
    converged_: bool
    n_iter_: int

    def _fit(self, nodes: Nodes) -> None:
        part = NeighbourhoodRows.of(nodes, nodes.calibration_nodes)
        self.centre_ = centre_of(part.described.covariates, nodes.weights)
        rows = self._rows(part)
        fit = fit_law(rows, part.logits, nodes.labels, LawPrior(), nodes.weights)
        self.floor_ = np.zeros(nodes.n_classes)
        self._set_fit(fit, nodes, part, rows)
        self._set_floors(part, nodes)
        loss = nodes.mean(log_losses(self._predict_part(part), nodes.labels))
        self.temperature_ = self._temperature(nodes)
        bounds_hit, notes = self._limits_reached(rows)
        self.fit_report_ = FitReport.of(nodes, loss, bounds_hit, notes=notes)

    @abstractmethod
    def _set_fit(self, fit: LawFit, nodes: Nodes, part: NeighbourhoodRows, rows: LawRows) -> None:
        """Take over the fitted law, or fit more from it."""

    @abstractmethod
    def _set_floors(self, part: NeighbourhoodRows, nodes: Nodes) -> None:
        """Find how certain the labels let probabilities be."""

    def _keep_law(self, fit: LawFit) -> None:
        self._set_law(fit.law)
        self.covariance_ = fit.covariance
        self.converged_, self.n_iter_ = fit.solution.converged, fit.solution.n_iter

    def _set_floor(self, part: NeighbourhoodRows, nodes: Nodes, background: FloatArray) -> None:
        weight, doubt = float(self.floor_.sum()), None
        if weight > 0.0:
            doubt, background = 1.0 / weight - 1.0, self.floor_ / weight
        self.floor_ = np.zeros(nodes.n_classes)
        probs = self._predict_part(part)
        self.floor_ = floor_of(probs, nodes.labels, background, nodes.weights, doubt)

    def _limits_reached(self, rows: LawRows) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Say where the fit stands at the limits of the temperature, for its report."""
        log_temperature = self._law_of().log_temperature(rows)
        notes = []
        for limit, meaning in (
            (LOG_TEMPERATURE, "the labels hardly follow the logits; look whether their rows match"),
            (-LOG_TEMPERATURE, "hardly any of these predictions is wrong"),
        ):
            count = int((log_temperature == limit).sum())
            if count:
                notes.append(
                    f"the temperature of {count:,} of {len(log_temperature):,} calibration nodes "
                    f"is at its limit, {np.exp(limit):.3g}: {meaning}"
                )
            if count > LIMIT_SHARE * len(log_temperature):
                warn(f"{type(self).__name__} stands at its limits: {notes[-1]}.")
        return (("temperature",) if notes else ()), tuple(notes)

    def _set_law(self, law: TemperatureLaw, prefix: str = "") -> None:
        certain, uncertain = float(np.exp(law.log_certain)), float(np.exp(law.log_uncertain))
        values = (certain, uncertain, law.weights, law.offsets)
        for name, value in zip(LAW, values, strict=True):
            setattr(self, prefix + name, value)

    def _law_of(self, prefix: str = "") -> TemperatureLaw:
        certain, uncertain, weights, offsets = (getattr(self, prefix + name) for name in LAW)
        return TemperatureLaw(float(np.log(certain)), float(np.log(uncertain)), weights, offsets)

    def _law_block(self, nodes: Nodes, part: NeighbourhoodRows, rows: LawRows) -> ParameterBlock:
        def log_temperature(theta: FloatArray, some: Rows) -> tuple[FloatArray, FloatArray]:
            return TemperatureLaw.of(theta, len(COVARIATES)).slopes(rows.take(some))

        logits = scaled_logits(part.logits.astype(np.float64), 1.0)
        model = TemperatureModel(logits, nodes.labels, nodes.weights, log_temperature)
        return ParameterBlock(LAW_BLOCK, self._law_of().vector(), self.covariance_, model)

    def _set_block(self, name: str, theta: FloatArray, covariance: FloatArray) -> None:
        self._set_law(TemperatureLaw.of(theta, len(COVARIATES)))
        self.covariance_ = covariance

    def _finish_update(self, nodes: Nodes) -> None:
        self._set_floors(NeighbourhoodRows.of(nodes, nodes.calibration_nodes), nodes)

    def _rows(self, nodes: Nodes | NeighbourhoodRows) -> LawRows:
        """Return what the law looks at, one row for each node."""
        described = nodes.cached(describe_neighbourhoods)
        s = centred(described.covariates, self.centre_)
        return LawRows(described.entropy, s, described.predictions)

    def _predict(self, nodes: Nodes) -> FloatArray:
        """Compute the probabilities of some rows after the other, on every core."""
        probs = np.empty_like(nodes.logits)
        starts = range(0, nodes.n_nodes, max(NUMBERS_IN_CACHE // nodes.n_classes, 1))
        nodes.cached(describe_neighbourhoods)  # before the work is divided

        def work(start: int) -> None:
            rows = slice(start, start + starts.step)
            probs[rows] = self._predict_rows(nodes, rows)

        parallel_for(work, starts)
        return probs

    def _predict_rows(self, nodes: Nodes, rows: Rows) -> FloatArray:
        return self._predict_part(NeighbourhoodRows.of(nodes, rows))

    def _predict_part(self, part: NeighbourhoodRows) -> FloatArray:
        probs = self._as_formula()(part)
        return keep_predictions(probs, part.predictions) if self.preserves_predictions else probs

    def _formula_of(self, function: Any, **settings: Any) -> Formula:
        learned = {
            name.removesuffix("_"): getattr(self, name)
            for name in self.learned
            if not name.endswith(self.not_in_formula)
        }
        return Formula(
            function,
            learned,
            settings,
            is_temperature=False,
            keeps_predictions=self.preserves_predictions,
            temperature=structural_temperature,
            hops=2,
        )

    def _reach(self) -> tuple[int, Side]:
        return 2, "both"

    def _temperature(self, nodes: Nodes | NeighbourhoodRows) -> FloatArray:
        return np.exp(self._law_of().log_temperature(self._rows(nodes)))

    def _temperature_at(self, entropy: FloatArray, homophily: FloatArray) -> FloatArray:
        """Return the temperature, with typical other covariates and no class offset."""
        s = np.zeros((len(entropy), len(self.centre_)))
        support = normalised_homophily(homophily, len(self.classes_))
        s[:, SUPPORT] = support - self.centre_[SUPPORT]
        law = self._law_of()._replace(offsets=np.zeros(1))
        return np.exp(law.log_temperature(LawRows(entropy, s, np.zeros(len(s), dtype=np.int64))))

    def predict_interval(
        self, logits: Any, graph: Any = None, *, level: float = 0.9
    ) -> TemperatureInterval:
        """Return an interval for the temperature and the confidence of each node.

        It says how well the calibration nodes determine them: it holds the node's temperature
        under the law with probability ``level`` (Laplace's approximation to the posterior). It
        does not know where the law itself is wrong.

        Parameters
        ----------
        level : float, default=0.9
            Probability of the interval, between 0 and 1.

        Examples
        --------
        >>> import gnncal
        >>> task = gnncal.example()
        >>> fitted = gnncal.calibrators.Structural().fit(
        ...     task.logits, task.labels, task.graph, nodes=task.nodes
        ... )
        >>> interval = fitted.predict_interval(task.logits, task.graph)
        >>> bool((interval.temperature_low < fitted.temperature_).all())
        True

        """
        LEVEL.check("level", level)
        if not self.preserves_predictions:
            raise InputError(
                "predict_interval is about the confidence of kept predictions; fit with "
                "keep_predictions=True to have it."
            )
        nodes = self._check_prediction(logits, graph)
        rows = self._rows(nodes)
        log_temperature, _, moves = self._law_of().derivatives(rows)
        certain, uncertain = self.certain_temperature_, self.uncertain_temperature_
        variance = log_temperature_variance(*rows, certain, uncertain, self.covariance_)
        half = float(ndtri(0.5 + 0.5 * level)) * (np.sqrt(variance) * moves)
        low, high = np.exp(log_temperature - half), np.exp(log_temperature + half)
        confidence = (
            floored(softmax(nodes.logits, T.astype(nodes.logits.dtype)), self.floor_).max(axis=1)
            for T in (high, low)
        )
        return TemperatureInterval(level, low, high, *confidence)


class StructuralTemperature(StructuralLaw):
    r"""The structural law alone: it divides all logits of a node by one number.

    .. math:: T_i = [T_c (1 - e_i) + T_u e_i] \exp(w \cdot s_i + o_{\hat y_i})

    :class:`Structural` explains the law; here softmax(z_i / T_i) gets its floor, and no more.

    Notes
    -----
    Use it where each node must have one temperature, or as the ablation of structural that
    leaves the other classes' shares as they are.

    Examples
    --------
    >>> import gnncal
    >>> task = gnncal.example()
    >>> fitted = gnncal.get_calibrator("structural-temperature").fit(
    ...     task.logits, task.labels, task.graph, nodes=task.nodes
    ... )
    >>> round(fitted.fit_report_.loss_after, 2)
    0.11

    """

    preserves_predictions = True
    learned: ClassVar[LearnedTable] = KEPT
    not_in_formula = (*StructuralLaw.not_in_formula, "covariance_")

    def _set_fit(self, fit: LawFit, nodes: Nodes, part: NeighbourhoodRows, rows: LawRows) -> None:
        self._keep_law(fit)

    def _set_floors(self, part: NeighbourhoodRows, nodes: Nodes) -> None:
        self._set_floor(part, nodes, np.full(nodes.n_classes, 1.0 / nodes.n_classes))

    def _posterior_blocks(self, nodes: Nodes) -> list[ParameterBlock]:
        part = NeighbourhoodRows.of(nodes, nodes.calibration_nodes)
        return [self._law_block(nodes, part, self._rows(part))]

    def _as_formula(self) -> Formula:
        return self._formula_of(structural_scaled)


@dataclass(frozen=True)
class NeighbourhoodRows:
    """Some nodes as formulas see them, their neighbourhoods described already."""

    logits: FloatArray
    described: Neighbourhood

    @classmethod
    def of(cls, nodes: Nodes, rows: Rows) -> NeighbourhoodRows:
        """Return some rows of a record, whose neighbourhoods are described at most once."""
        return cls(nodes.logits[rows], nodes.cached(describe_neighbourhoods).take(rows))

    @property
    def predictions(self) -> IntArray:
        """Class with the largest logit of each node."""
        return self.described.predictions

    @property
    def entropy(self) -> FloatArray:
        """Normalised entropy of softmax(logits)."""
        return self.described.entropy

    @property
    def n_classes(self) -> int:
        """Number of columns of the logits."""
        return self.logits.shape[1]

    def cached(self, function: Any) -> Neighbourhood:
        """Return the neighbourhoods, which is all that is asked of them."""
        assert function is describe_neighbourhoods
        return self.described


def centre_of(covariates: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """Return the mean of each covariate over the rows where it is known; zero where it never is."""
    known = ~np.isnan(covariates)
    values = np.where(known, covariates, 0.0)
    if weights is None:
        return values.sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    total = weights @ known
    return weights @ values / np.where(total > 0, total, 1.0)
