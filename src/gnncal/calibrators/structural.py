"""The structural calibrator: a temperature from entropy, neighbourhood and class, and more."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import expit, ndtri

from gnncal.calibrators.base import Calibrator, TemperatureMixin
from gnncal.calibrators.explanation import Parts
from gnncal.calibrators.fit_report import FitReport
from gnncal.data.arrays import FloatArray, IntArray
from gnncal.data.checks import check_positive
from gnncal.data.constraints import FLAG, SOLVER_STATE, Array, Constraint, LearnedTable, number
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
    describe_neighbourhoods,
    law_rows,
    log_neighbours,
    redistribute_rest,
    scaled_logits,
    structural,
    structural_free,
    structural_scaled,
)
from gnncal.math.losses import ParameterBlock, TemperatureModel
from gnncal.math.structural_fit import (
    FreeModel,
    FreeParameters,
    LawFit,
    LawPrior,
    LawRows,
    TemperatureLaw,
    class_shares,
    fit_free,
    fit_law,
    floor_of,
)

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
FREE_PARAMETERS: LearnedTable = {
    **LAW,
    "bias_": Array("K"),
    "neighbour_weight_": number(),
    **FLOOR,
    **SOLVER_STATE,
}
FREE = "free_"  # prefix of what divides the rest among the classes that are not predicted
FREE_BLOCK = "scores"  # of the posterior, as files name it
FEW_POSITIVE = 10  # calibration nodes of a class; below, an interval of its probability is narrow
LEVEL = number(above=0, below=1)
AVERAGING = 0.5  # share of the posterior variance; benchmarks/choose_prediction.py chose it


class StructuralLaw(TemperatureMixin, Calibrator):
    """Base of the structural methods: the law of temperature, its posterior and its floor."""

    needs_graph = True
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
        part = described_rows(nodes, nodes.calibration_nodes)
        self.centre_ = centre_of(part.covariates, nodes.weights)
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
    def _set_floors(self, part: Neighbourhood, nodes: Nodes) -> None:
        """Find how certain the labels let probabilities be."""

    def _set_fit(self, fit: LawFit, nodes: Nodes, part: Neighbourhood, rows: LawRows) -> None:
        """Take over the fitted law; a hook for methods that fit more from it."""
        self._set_law(fit.law)
        self.covariance_ = fit.covariance
        self.converged_, self.n_iter_ = fit.solution.converged, fit.solution.n_iter

    def _set_floor(self, part: Neighbourhood, nodes: Nodes, background: FloatArray) -> None:
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
                warn(f"{type(self).__name__} reached a limit: {notes[-1]}.")
        return (("temperature",) if notes else ()), tuple(notes)

    def _set_law(self, law: TemperatureLaw, prefix: str = "") -> None:
        certain, uncertain = float(np.exp(law.log_certain)), float(np.exp(law.log_uncertain))
        values = (certain, uncertain, law.weights, law.offsets)
        for name, value in zip(LAW, values, strict=True):
            setattr(self, prefix + name, value)

    def _law_of(self, prefix: str = "") -> TemperatureLaw:
        certain, uncertain, weights, offsets = (getattr(self, prefix + name) for name in LAW)
        return TemperatureLaw(float(np.log(certain)), float(np.log(uncertain)), weights, offsets)

    def _law_block(self, nodes: Nodes, part: Neighbourhood, rows: LawRows) -> ParameterBlock:
        def log_temperature(theta: FloatArray) -> tuple[FloatArray, FloatArray]:
            return TemperatureLaw.of(theta, len(COVARIATES)).slopes(rows)

        logits = scaled_logits(part.logits.astype(np.float64), 1.0)
        model = TemperatureModel(nodes.labels, nodes.weights, logits, log_temperature)
        return ParameterBlock(LAW_BLOCK, self._law_of().vector(), self.covariance_, model)

    def _set_block(self, name: str, theta: FloatArray, covariance: FloatArray) -> None:
        self._set_law(TemperatureLaw.of(theta, len(COVARIATES)))
        self.covariance_ = covariance

    def _finish_update(self, nodes: Nodes) -> None:
        self._set_floors(described_rows(nodes, nodes.calibration_nodes), nodes)

    def _rows(self, nodes: Nodes | Neighbourhood) -> LawRows:
        """Return what the law looks at, one row for each node."""
        return LawRows(*law_rows(nodes, self.centre_))

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

    def _predict_rows(self, nodes: Nodes, rows: IntArray | slice) -> FloatArray:
        return self._predict_part(described_rows(nodes, rows))

    def _predict_part(self, part: Neighbourhood) -> FloatArray:
        probs = self._as_formula()(part)
        return keep_predictions(probs, part.predictions) if self.preserves_predictions else probs

    def _formula_of(self, function: Any, **settings: Any) -> Formula:
        names = [n.removesuffix("_") for n in self.learned if not n.endswith(self.not_in_formula)]
        learned, keeps = self._numbers(*names), self.preserves_predictions
        return Formula(
            function, learned, settings, is_temperature=False, keeps_predictions=keeps, hops=2
        )

    def _reach(self) -> tuple[int, Side]:
        return 2, "both"

    def _temperature(self, nodes: Nodes | Neighbourhood) -> FloatArray:
        return np.exp(self._law_of().log_temperature(self._rows(nodes)))

    def _temperature_at(self, entropy: FloatArray, homophily: FloatArray) -> FloatArray:
        """Return the temperature, with typical other covariates and no class offset."""
        s = np.zeros((len(entropy), len(self.centre_)))
        support = normalised_homophily(homophily, len(self.classes_))
        s[:, SUPPORT] = support - self.centre_[SUPPORT]
        law = self._law_of()._replace(offsets=np.zeros(1))
        return np.exp(law.log_temperature(LawRows(entropy, s, np.zeros(len(s), dtype=np.int64))))


class StructuralTemperature(StructuralLaw):
    r"""A temperature for each node from its entropy, its neighbourhood and its predicted class.

    .. math:: p_i = \mathrm{softmax}(z_i / T_i), \qquad
        T_i = [T_c (1 - e_i) + T_u e_i] \exp(w \cdot s_i + o_{\hat y_i})

    Here z_i are the logits of node i; :class:`Structural` defines the other symbols. In addition,
    every class gets at least a small probability, the floor (docs/structural.md).

    Notes
    -----
    Use it where every node must have a single temperature. ``structural`` also changes the
    proportions among the classes that are not predicted, and had a lower mean log loss
    (docs/evidence.md).

    """

    preserves_predictions = True
    learned: ClassVar[LearnedTable] = KEPT
    not_in_formula = (*StructuralLaw.not_in_formula, "covariance_")

    def _set_floors(self, part: Neighbourhood, nodes: Nodes) -> None:
        self._set_floor(part, nodes, np.full(nodes.n_classes, 1.0 / nodes.n_classes))

    def _posterior_blocks(self, nodes: Nodes) -> list[ParameterBlock]:
        part = described_rows(nodes, nodes.calibration_nodes)
        return [self._law_block(nodes, part, self._rows(part))]

    def _as_formula(self) -> Formula:
        return self._formula_of(structural_scaled)


def described_rows(nodes: Nodes, rows: IntArray | slice) -> Neighbourhood:
    """Return some rows of a record, whose neighbourhoods are described at most once."""
    return nodes.cached(describe_neighbourhoods).take(rows)


def centre_of(covariates: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """Return the mean of each covariate over the rows where it is known; zero where it never is."""
    known = ~np.isnan(covariates)
    values = np.where(known, covariates, 0.0)
    if weights is None:
        return values.sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    total = weights @ known
    return weights @ values / np.where(total > 0, total, 1.0)


class Structural(StructuralLaw):
    r"""Calibrated probabilities from a node's entropy, its neighbourhood and its predicted class.

    Node i with logits :math:`z_i` and predicted class :math:`\hat y_i` has the temperature

    .. math:: T_i = [T_c (1 - e_i) + T_u e_i] \exp(w \cdot s_i + o_{\hat y_i})

    :math:`e_i` is the entropy of softmax(z_i) divided by ln K, for K classes. :math:`s_i` are six
    numbers about the neighbourhood, each minus its mean over the calibration nodes: the support
    (mean probability that the neighbours give to the predicted class), the support two hops away,
    the neighbours' mean entropy, the node's confidence minus the neighbours' mean confidence, and
    the logarithms of in-degree and out-degree. T_c, T_u, w and one offset o for each predicted
    class are fitted.

    With ``keep_predictions=False`` (the method ``structural-free``), a bias b for each class and a
    weight γ of the neighbours' mean probabilities :math:`\bar p_i` are fitted too:

    .. math:: q_i = \mathrm{softmax}(z_i / T_i + b + \gamma \ln(\bar p_i + 0.02))

    With ``keep_predictions=True``, the default, the predicted class gets the confidence of
    softmax(z_i / T_i), averaged over the uncertainty of T_i. The other classes share the rest in
    proportion to q_i, which has a separate fit; none gets more than the predicted class. Finally
    every class gets at least a small probability, the floor, so that no probability is more certain
    than the number of labels justifies (docs/structural.md).

    Parameters
    ----------
    keep_predictions : bool, default=True
        Whether every predicted class stays. ``False`` is often more accurate, and suits models that
        favour some classes.

    Attributes
    ----------
    certain_temperature_, uncertain_temperature_, weights_, class_offsets_ : float and ndarray
        The fitted T_c, T_u, w and o.
    centre_, floor_ : ndarray of shape (6,) and (n_classes,)
        Means of the six numbers over the calibration nodes, and the floor of each class.
    bias_, neighbour_weight_ : ndarray of shape (n_classes,) and float
        The fitted b and γ, if predictions may change. Otherwise the parameters of q_i have the
        prefix ``free_``.
    temperature_ : ndarray of shape (n_nodes,)
        Temperature of each node of the fitted graph.

    Notes
    -----
    Use it first. It is the default, and it works with few calibration nodes (docs/evidence.md).

    Examples
    --------
    >>> import gnncal
    >>> task, method = gnncal.example(), gnncal.calibrators.Structural()
    >>> fitted = method.fit(
    ...     task.logits, task.labels, task.graph, calibration_nodes=task.calibration_nodes
    ... )
    >>> round(fitted.fit_report_.loss_before, 2), round(fitted.fit_report_.loss_after, 2)
    (0.3, 0.11)

    """

    zeroes_unseen_classes = True
    constraints: ClassVar[dict[str, Constraint]] = {"keep_predictions": FLAG}
    not_in_formula = (*StructuralLaw.not_in_formula, f"{FREE}floor_")
    uses_neighbours: ClassVar[bool] = True  # whether gamma is fitted; an ablation says no
    averaging_: float
    free_floor_: FloatArray
    bias_: FloatArray
    neighbour_weight_: float

    def __init__(self, *, keep_predictions: bool = True) -> None:
        self.keep_predictions = keep_predictions

    @property
    def preserves_predictions(self) -> bool:
        """Whether the predicted class of every node stays."""
        return self.keep_predictions

    @property
    def learned(self) -> LearnedTable:
        """What each attribute that makes up the fitted model may be."""
        if not self.keep_predictions:
            return {**FREE_PARAMETERS, **CENTRE}
        free = {f"{FREE}{name}": entry for name, entry in FREE_PARAMETERS.items()}
        return {**KEPT, "averaging_": number(at_least=0, at_most=1), **free}

    @property
    def _prefix(self) -> str:
        """Of the attributes that hold the free parameters."""
        return FREE if self.keep_predictions else ""

    def _set_fit(self, fit: LawFit, nodes: Nodes, part: Neighbourhood, rows: LawRows) -> None:
        if self.keep_predictions:
            super()._set_fit(fit, nodes, part, rows)
            self.averaging_ = AVERAGING
        free = fit_free(self._free_model(part, rows, nodes.labels, nodes.weights), fit.law)
        self._set_free(free.parameters)
        setattr(self, f"{self._prefix}converged_", free.solution.converged)
        setattr(self, f"{self._prefix}n_iter_", free.solution.n_iter)
        setattr(self, f"{self._prefix}floor_", np.zeros(nodes.n_classes))
        self.posterior_ = {} if free.covariance is None else {FREE_BLOCK: free.covariance}

    def _free_model(
        self, part: Neighbourhood, rows: LawRows, labels: IntArray, weights: FloatArray | None
    ) -> FreeModel:
        mean_probs, uses = part.mean_probs, self.uses_neighbours
        return FreeModel.of(rows, part.logits, mean_probs, labels, weights, uses_neighbours=uses)

    def _free_theta(self) -> FloatArray:
        law, names = self._law_of(self._prefix), ("bias_", "neighbour_weight_")
        others = (getattr(self, self._prefix + name) for name in names)
        return FreeParameters(law, *others).vector(uses_neighbours=self.uses_neighbours)

    def _set_free(self, free: FreeParameters) -> None:
        self._set_law(free.law, self._prefix)
        setattr(self, f"{self._prefix}bias_", free.bias)
        setattr(self, f"{self._prefix}neighbour_weight_", free.neighbour_weight)

    def _set_floors(self, part: Neighbourhood, nodes: Nodes) -> None:
        shares = class_shares(nodes.labels, nodes.n_classes, nodes.weights)
        freed = self.unconstrained_variant()
        if freed is None:
            self._set_floor(part, nodes, shares)
            return
        freed._set_floor(part, nodes, shares)
        self.free_floor_ = freed.floor_
        self._set_floor(part, nodes, np.full(nodes.n_classes, 1.0 / nodes.n_classes))

    def _posterior_blocks(self, nodes: Nodes) -> list[ParameterBlock]:
        part = described_rows(nodes, nodes.calibration_nodes)
        rows = self._rows(part)
        blocks = [self._law_block(nodes, part, rows)] if self.keep_predictions else []
        free, start = self._free_model(part, rows, nodes.labels, nodes.weights), 8 + nodes.n_classes
        biases, covariance = slice(start, start + nodes.n_classes), self._covariance_of(FREE_BLOCK)
        return [*blocks, ParameterBlock(FREE_BLOCK, self._free_theta(), covariance, free, biases)]

    def _set_block(self, name: str, theta: FloatArray, covariance: FloatArray) -> None:
        if name == LAW_BLOCK:
            super()._set_block(name, theta, covariance)
            return
        self._set_free(FreeParameters.of(theta, len(COVARIATES), len(self.classes_)))
        self.posterior_ = {name: covariance}

    def _shift_class_bias(self, shifts: FloatArray) -> None:
        if self.keep_predictions:
            super()._shift_class_bias(shifts)  # says that it cannot
        self.bias_ = self.bias_ + shifts
        moved = self.floor_ * np.exp(shifts - shifts.max())
        self.floor_ = moved * (self.floor_.sum() / moved.sum())

    def _explain(self, nodes: Nodes, row: int) -> Parts:
        part, prefix = described_rows(nodes, np.array([row])), self._prefix
        bias, gamma = getattr(self, f"{prefix}bias_"), getattr(self, f"{prefix}neighbour_weight_")
        T = np.exp(self._law_of(prefix).log_temperature(self._rows(part)))
        votes = gamma * log_neighbours(part.mean_probs.astype(np.float64))[0]
        scaled = scaled_logits(part.logits.astype(np.float64), T)[0]
        terms = {"logit / T": scaled, "bias": bias, "neighbours": votes}
        scores = np.cumsum(list(terms.values()), axis=0)
        names = ("temperature", "bias", "neighbours")
        steps = dict(zip(names, softmax(scores), strict=True))
        if self.keep_predictions:  # the predicted class has its confidence, q divides the rest
            at, floor = part.predictions, self.floor_
            kept = self._predict_part(part).astype(np.float64)[0, at]
            confidence = (kept - floor[at]) / (1.0 - floor.sum())
            steps = {n: redistribute_rest(q[None], at, confidence)[0] for n, q in steps.items()}
            T = self._temperature(part)
        return Parts({**steps, "floor": votes}, terms, float(T[0]))

    def _as_formula(self) -> Formula:
        function = structural if self.keep_predictions else structural_free
        return self._formula_of(function, uses_neighbours=self.uses_neighbours)

    def positive_interval(
        self, logits: Any, graph: Any = None, *, positive: int | str, level: float = 0.9
    ) -> FloatArray:
        """Return intervals (n_nodes, 2) of one class's probability, if ``keep_predictions=False``.

        An interval shows how well the calibration nodes determine the probability under this model.
        It does not cover errors of the model; docs/structural.md has its coverage.

        Parameters
        ----------
        level : float, default=0.9
            Probability of the interval, between 0 and 1.

        Examples
        --------
        >>> import gnncal
        >>> task, method = gnncal.example(), gnncal.get_calibrator("structural-free")
        >>> fitted = method.fit(
        ...     task.logits, task.labels, task.graph, calibration_nodes=task.calibration_nodes
        ... )
        >>> fitted.positive_interval(task.logits, task.graph, positive=3).shape
        (1797, 2)

        """
        LEVEL.check("level", level)
        if self.keep_predictions:
            raise InputError(
                "positive_interval needs a fit whose predictions may change; pass "
                "keep_predictions=False."
            )
        nodes, names = self._check_prediction(logits, graph), getattr(self, "class_names_", None)
        k = check_positive(positive, nodes.n_classes, names)
        covariance = self._covariance_of(FREE_BLOCK)
        count = self.fit_report_.nodes_per_class[k]
        if count < FEW_POSITIVE:
            warn(
                f"only {count} calibration nodes have class {k}, so its interval is too narrow; "
                f"calibrate on at least {FEW_POSITIVE} of them."
            )
        half, ends = float(ndtri(0.5 + 0.5 * level)), np.empty((nodes.n_nodes, 2))
        starts = range(0, nodes.n_nodes, max(NUMBERS_IN_CACHE // nodes.n_classes, 1))
        for rows in (slice(start, start + starts.step) for start in starts):
            part = described_rows(nodes, rows)
            none = np.zeros(len(part.logits), dtype=np.int64)
            model = self._free_model(part, self._rows(part), none, None)
            odds, slopes = model.log_odds(self._free_theta(), k)
            spread = half * np.sqrt(np.einsum("ip,pq,iq->i", slopes, covariance, slopes))
            ends[rows] = expit(odds[:, None] + np.outer(spread, [-1.0, 1.0]))
        # The floor is uncertainty beyond the model, so it widens the upper end alone.
        return (1.0 - self.floor_.sum()) * ends + [0.0, self.floor_[k]]

    def unconstrained_variant(self) -> Self | None:
        """Return the fit with predictions that may change; it can predict, and no more."""
        if not self.keep_predictions:
            return None
        freed = type(self)(keep_predictions=False)
        for name in FREE_PARAMETERS:
            setattr(freed, name, getattr(self, FREE + name))
        freed.centre_, freed.classes_ = self.centre_, np.arange(len(freed.bias_))
        return freed
