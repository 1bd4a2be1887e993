"""The structural calibrator: a temperature from entropy, neighbourhood and class, and more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.special import ndtri

from gnncal.calibrators.base import Calibrator, TemperatureMixin
from gnncal.calibrators.fit_report import FitReport
from gnncal.data.arrays import FloatArray, IntArray
from gnncal.data.constraints import (
    FLAG,
    NONE,
    SOLVER_STATE,
    Array,
    Constraint,
    LearnedTable,
    number,
    one_of,
)
from gnncal.data.errors import InputError, warn
from gnncal.data.nodes import Nodes
from gnncal.data.predictions import keep_predictions, log_losses
from gnncal.data.probability import normalised_homophily, softmax
from gnncal.graph.compiled import parallel_for
from gnncal.graph.graph import Side
from gnncal.math.formulas import (
    Formula,
    structural,
    structural_free,
    structural_scaled,
    structural_temperature,
)
from gnncal.math.free_fit import FreeModel, FreeParameters, fit_free
from gnncal.math.posterior import ParameterBlock, Rows, TemperatureModel
from gnncal.math.structural import (
    COVARIATES,
    LOG_TEMPERATURE,
    Neighbourhood,
    centred,
    describe_neighbourhoods,
    floored,
    log_temperature_variance,
    scaled_logits,
)
from gnncal.math.structural_fit import (
    LawPrior,
    LawRows,
    TemperatureLaw,
    class_shares,
    fit_law,
    floor_of,
)

LEVEL = number(above=0, below=1)
SUPPORT = COVARIATES.index("support")
LAW: LearnedTable = {
    "certain_temperature_": number(above=0, at_most=1e6),
    "uncertain_temperature_": number(above=0, at_most=1e6),
    "weights_": Array("6"),
    "class_offsets_": Array("K"),
}
FLOOR: LearnedTable = {"floor_": Array("K", low=0.0, high=1.0)}
FREE_PARAMETERS: LearnedTable = {
    **LAW,
    "bias_": Array("K"),
    "neighbour_weight_": number(),
    **FLOOR,
    **SOLVER_STATE,
}
LAW_BLOCK, FREE_BLOCK = "law", "scores"  # of the posterior, as files name them
NUMBERS_IN_CACHE = 1 << 17  # nodes x classes that are predicted at once
LIMIT_SHARE = 0.01  # of temperatures at a limit; beyond, a fit warns of it
AVERAGING = 0.5  # share of the posterior variance; benchmarks/choose_prediction.py chose it
FREE = "free_"  # prefix of what divides the rest among the classes that are not predicted


@dataclass(frozen=True)
class TemperatureInterval:
    """An interval for the temperature and the confidence of each node.

    Attributes
    ----------
    level : float
        Probability of the interval.
    temperature_low, temperature_high : ndarray of shape (n_nodes,)
        Ends of the interval of the temperature.
    confidence_low, confidence_high : ndarray of shape (n_nodes,)
        Ends of the interval of the confidence.

    """

    level: float
    temperature_low: FloatArray
    temperature_high: FloatArray
    confidence_low: FloatArray
    confidence_high: FloatArray


class Structural(TemperatureMixin, Calibrator):
    r"""Calibrated probabilities from a node's entropy, its neighbourhood and its predicted class.

    Its heart is a law for the temperature of each node:

    .. math:: T_i = [T_c (1 - e_i) + T_u e_i] \exp(w \cdot s_i + o_{\hat y_i})

    :math:`e_i` is the normalised entropy of softmax(z_i). :math:`s_i` are six numbers about the
    neighbourhood, centred on the calibration nodes: the support of the predicted class among the
    neighbours and two hops away, the neighbours' mean entropy, the confidence relative to theirs,
    and the logarithms of in- and out-degree. Senders and receivers both count as neighbours; a
    node without any gets the typical value. :math:`o` is an offset for each predicted class.

    If predictions may change (``keep_predictions=False``, called ``structural-free``), the law is
    fitted together with a bias b for each class and the weight :math:`\gamma` of what the
    neighbours say, their mean probabilities :math:`\bar p_i`:

    .. math:: q_i = \mathrm{softmax}(z_i / T_i + b + \gamma \ln(\bar p_i + 0.02))

    There :math:`T_c / T_u` is at most 6.89, so that with two classes a larger margin never gets a
    smaller score by the temperature alone.

    If predictions are kept, which is the default, the predicted class gets the confidence
    :math:`c_i` of softmax(z_i / T_i), with a law of its own, and q divides the rest among the
    other classes. None of them gets more than :math:`c_i`. The labels leave :math:`\ln T_i` open,
    with a posterior variance :math:`v_i`, and :math:`c_i` is the mean over half of it: that at
    :math:`T_i` (weight 2/3) and at :math:`T_i e^{\pm \sqrt{3 v_i / 2}}` (1/6 each).

    No probability is more certain than the labels allow. The last step mixes in a background with
    the weight :math:`\varepsilon`: :math:`p' = (1 - \varepsilon) p + \varepsilon u`. u is uniform
    if predictions are kept, and the class shares of the calibration nodes otherwise;
    :math:`\varepsilon` is the posterior mean of its weight, at least 1/(n + √n + 1) with n
    calibration nodes and more where their labels ask for it (:mod:`gnncal.math.structural_fit`).

    The parameters maximise the posterior on the calibration nodes. The prior keeps a fit on few
    nodes close to a plain entropy rule; :mod:`gnncal.math.structural_fit` has it. Nothing of the
    graph is remembered, so a fitted calibrator serves any graph with the same classes.

    Parameters
    ----------
    keep_predictions : bool, default=True
        Whether the predicted class of every node stays. ``False`` is often more accurate, and
        better where the model favours some classes.
    without : {"remainder", "neighbours"}, optional
        An ablation. Without the remainder, all classes are divided by the temperature
        (``structural-temperature``); without neighbours, :math:`\gamma` is zero
        (``structural-vector``, if predictions may change).

    Attributes
    ----------
    certain_temperature_ : float
        T_c, the temperature at entropy 0 in a typical neighbourhood.
    uncertain_temperature_ : float
        T_u, the temperature at entropy 1 in a typical neighbourhood.
    weights_ : ndarray of shape (6,)
        The fitted w, in the order of the list above.
    class_offsets_ : ndarray of shape (n_classes,)
        The fitted o.
    centre_ : ndarray of shape (6,)
        Means of the six numbers on the calibration nodes.
    covariance_ : ndarray of shape (8 + n_classes, 8 + n_classes)
        Posterior covariance of (ln T_c, ln T_u, w, o), if predictions are kept.
    bias_, neighbour_weight_ : ndarray of shape (n_classes,) and float
        The fitted b and :math:`\gamma`, if predictions may change. If they are kept, the
        parameters of q have the prefix ``free_``.
    floor_ : ndarray of shape (n_classes,)
        :math:`\varepsilon u`, what each class gets at least.
    averaging_ : float
        Share of the posterior variance that the confidence is a mean over.
    temperature_ : ndarray of shape (n_nodes,)
        Temperature of each node of the fitted graph.
    fit_report_ : FitReport
        Loss before and after, and whether the labels determine the fit.

    Notes
    -----
    Use it first: it is the default. On all eleven graphs with at least 100 calibration nodes its
    log loss was below that of the published methods that keep predictions; with few nodes it is
    level with them or better (docs/evidence.md).

    A fit takes one sparse product of N x K for each direction of the edges, and O(nK) per step.

    Examples
    --------
    >>> import gnncal
    >>> task = gnncal.example()
    >>> fitted = gnncal.calibrators.Structural().fit(
    ...     task.logits, task.labels, task.graph, nodes=task.nodes
    ... )
    >>> round(fitted.fit_report_.loss_before, 2), round(fitted.fit_report_.loss_after, 2)
    (0.3, 0.11)
    >>> probs = fitted.predict_proba(task.logits, task.graph)
    >>> bool((probs.argmax(axis=1) == task.logits.argmax(axis=1)).all())
    True

    """

    needs_graph = True
    fitting = "posterior"
    uses_sample_weight = True
    constraints: ClassVar[dict[str, Constraint]] = {
        "keep_predictions": FLAG,
        "without": one_of("remainder", "neighbours") | NONE,
    }
    certain_temperature_: float
    uncertain_temperature_: float
    weights_: FloatArray
    class_offsets_: FloatArray
    centre_: FloatArray
    covariance_: FloatArray
    averaging_: float
    floor_: FloatArray
    free_floor_: FloatArray
    bias_: FloatArray
    neighbour_weight_: float
    converged_: bool
    n_iter_: int

    def __init__(
        self,
        *,
        keep_predictions: bool = True,
        without: Literal["remainder", "neighbours"] | None = None,
    ) -> None:
        self.keep_predictions = keep_predictions
        self.without = without

    @property
    def preserves_predictions(self) -> bool:
        """Whether the predicted class of every node stays."""
        return self.keep_predictions

    @property
    def zeroes_unseen_classes(self) -> bool:
        """Whether a class without calibration nodes gets next to no probability."""
        return self.without != "remainder"

    def check_params(self) -> None:
        """Check the parameters of the constructor, which ``fit`` does first.

        Raises
        ------
        InputError
            If a parameter cannot be used; the message names the first one.

        """
        super().check_params()
        if self.without == "remainder" and not self.keep_predictions:
            raise InputError(
                "without='remainder' is about predictions that are kept, but keep_predictions is "
                "False; leave one of the two out."
            )

    @property
    def learned(self) -> LearnedTable:
        """What each attribute that makes up the fitted model may be."""
        centre = {"centre_": Array("6")}
        if not self.keep_predictions:
            return {**FREE_PARAMETERS, **centre}
        kept = {**LAW, **centre, "covariance_": Array("K+8 K+8"), **FLOOR, **SOLVER_STATE}
        if self.without == "remainder":
            return kept
        averaging = {"averaging_": number(at_least=0, at_most=1)}
        return (
            kept | averaging | {f"{FREE}{name}": entry for name, entry in FREE_PARAMETERS.items()}
        )

    def _fit(self, nodes: Nodes) -> None:
        part = NeighbourhoodRows.of(nodes, nodes.calibration_nodes)
        self.centre_ = centre_of(part.described.covariates, nodes.weights)
        rows = self._rows(part)
        fit = fit_law(rows, part.logits, nodes.labels, LawPrior(), nodes.weights)
        if self.keep_predictions:
            self._set_law(fit.law, "")
            self.covariance_, self.averaging_ = fit.covariance, AVERAGING
            self.converged_, self.n_iter_ = fit.solution.converged, fit.solution.n_iter
        if self.without != "remainder":
            free = fit_free(self._free_model(nodes, part, rows), fit.law)
            self._set_free(free.parameters)
            setattr(self, f"{self._prefix}converged_", free.solution.converged)
            setattr(self, f"{self._prefix}n_iter_", free.solution.n_iter)
            self.posterior_ = {} if free.covariance is None else {FREE_BLOCK: free.covariance}
        self.floor_ = self.free_floor_ = np.zeros(nodes.n_classes)
        self._set_floors(part, nodes)
        loss = nodes.mean(log_losses(self._predict_part(part), nodes.labels))
        self.temperature_ = self._temperature(nodes)
        bounds_hit, notes = self._limits_reached(rows)
        self.fit_report_ = FitReport.of(nodes, loss, bounds_hit, notes=notes)

    @property
    def _prefix(self) -> str:
        """Of the attributes that hold the free parameters."""
        return FREE if self.keep_predictions else ""

    def _free_model(self, nodes: Nodes, part: NeighbourhoodRows, rows: LawRows) -> FreeModel:
        return FreeModel.of(
            rows,
            part.logits,
            part.described.mean_probs,
            nodes.labels,
            nodes.weights,
            uses_neighbours=self.without != "neighbours",
        )

    def _set_free(self, free: FreeParameters) -> None:
        self._set_law(free.law, self._prefix)
        setattr(self, f"{self._prefix}bias_", free.bias)
        setattr(self, f"{self._prefix}neighbour_weight_", free.neighbour_weight)

    def _set_floors(self, part: NeighbourhoodRows, nodes: Nodes) -> None:
        """Find how certain the labels let probabilities be."""
        shares = class_shares(nodes.labels, nodes.n_classes, nodes.weights)
        uniform = np.full(nodes.n_classes, 1.0 / nodes.n_classes)
        freed = self.unconstrained_variant()
        if freed is not None:
            freed._set_floor(part, nodes, shares)
            self.free_floor_ = freed.floor_
        self._set_floor(part, nodes, uniform if self.keep_predictions else shares)

    def _set_floor(self, part: NeighbourhoodRows, nodes: Nodes, background: FloatArray) -> None:
        weight, doubt = float(self.floor_.sum()), None
        if weight > 0.0:
            doubt, background = 1.0 / weight - 1.0, self.floor_ / weight
        self.floor_ = np.zeros(nodes.n_classes)
        probs = self._predict_part(part)
        self.floor_ = floor_of(probs, nodes.labels, background, nodes.weights, doubt)

    def _limits_reached(self, rows: LawRows) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Say where the fit stands at the limits of the temperature, for its report."""
        log_temperature = self._law_of("").log_temperature(rows)
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

    def _set_law(self, law: TemperatureLaw, prefix: str) -> None:
        learned = {
            "certain_temperature_": float(np.exp(law.log_certain)),
            "uncertain_temperature_": float(np.exp(law.log_uncertain)),
            "weights_": law.weights,
            "class_offsets_": law.offsets,
        }
        for name, value in learned.items():
            setattr(self, prefix + name, value)

    def _law_of(self, prefix: str) -> TemperatureLaw:
        certain, uncertain, weights, offsets = (getattr(self, prefix + name) for name in LAW)
        return TemperatureLaw(float(np.log(certain)), float(np.log(uncertain)), weights, offsets)

    def _posterior_blocks(self, nodes: Nodes) -> list[ParameterBlock]:
        part = NeighbourhoodRows.of(nodes, nodes.calibration_nodes)
        rows, blocks = self._rows(part), []
        if self.keep_predictions:

            def log_temperature(theta: FloatArray, some: Rows) -> tuple[FloatArray, FloatArray]:
                return TemperatureLaw.of(theta, len(COVARIATES)).slopes(rows.take(some))

            logits = scaled_logits(part.logits.astype(np.float64), 1.0)
            model = TemperatureModel(logits, nodes.labels, nodes.weights, log_temperature)
            theta = self._law_of("").vector()
            blocks.append(ParameterBlock(LAW_BLOCK, theta, self.covariance_, model))
        if self.without != "remainder":
            law, prefix = self._law_of(self._prefix), self._prefix
            others = (getattr(self, f"{prefix}{name}_") for name in ("bias", "neighbour_weight"))
            free = self._free_model(nodes, part, rows)
            theta = FreeParameters(law, *others).vector(uses_neighbours=free.uses_neighbours)
            start = law.vector().size
            biases = slice(start, start + len(self.classes_))
            covariance = self._covariance_of(FREE_BLOCK)
            blocks.append(ParameterBlock(FREE_BLOCK, theta, covariance, free, biases))
        return blocks

    def _set_block(self, name: str, theta: FloatArray, covariance: FloatArray) -> None:
        if name == LAW_BLOCK:
            self._set_law(TemperatureLaw.of(theta, len(COVARIATES)), "")
            self.covariance_ = covariance
            return
        self._set_free(FreeParameters.of(theta, len(COVARIATES), len(self.classes_)))
        self.posterior_ = {name: covariance}

    def _finish_update(self, nodes: Nodes) -> None:
        self._set_floors(NeighbourhoodRows.of(nodes, nodes.calibration_nodes), nodes)

    def _shift_class_bias(self, shifts: FloatArray) -> None:
        if self.keep_predictions:
            super()._shift_class_bias(shifts)  # says that it cannot
        self.bias_ = self.bias_ + shifts
        moved = self.floor_ * np.exp(shifts - shifts.max())
        self.floor_ = moved * (self.floor_.sum() / moved.sum())

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
        return keep_predictions(probs, part.predictions) if self.keep_predictions else probs

    def _as_formula(self) -> Formula:
        is_plain = self.without == "remainder"
        unused = ["converged_", "n_iter_", f"{FREE}floor_", *(["covariance_"] if is_plain else [])]
        learned = {
            name.removesuffix("_"): getattr(self, name)
            for name in self.learned
            if not name.endswith(tuple(unused))
        }
        function = structural if self.keep_predictions else structural_free
        return Formula(
            structural_scaled if is_plain else function,
            learned,
            {} if is_plain else {"uses_neighbours": self.without != "neighbours"},
            is_temperature=False,
            keeps_predictions=self.keep_predictions,
            temperature=structural_temperature,
            hops=self._reach()[0],
        )

    def _reach(self) -> tuple[int, Side]:
        return 2, "both"

    def unconstrained_variant(self) -> Structural | None:
        """Return what divides the rest as a calibrator of its own, if this fit has it.

        Returns
        -------
        Structural or None
            The same fit with predictions that may change; it can predict, and no more.

        """
        if not self.keep_predictions or self.without == "remainder":
            return None
        freed = Structural(keep_predictions=False, without=self.without)
        for name in FREE_PARAMETERS:
            setattr(freed, name, getattr(self, FREE + name))
        freed.centre_, freed.classes_ = self.centre_, np.arange(len(freed.bias_))
        return freed

    def predict_interval(
        self, logits: Any, graph: Any = None, *, level: float = 0.9
    ) -> TemperatureInterval:
        """Return an interval for the temperature and the confidence of each node.

        It says how well the calibration nodes determine them. The interval holds the node's
        temperature under the law with probability ``level`` (Laplace's approximation to the
        posterior). It does not know where the law itself is wrong.

        Parameters
        ----------
        logits : array_like of shape (n_nodes, n_classes) or Nodes
            Raw scores of every node, NumPy or torch; or a record of nodes with their graph.
        graph : Graph or torch_geometric.data.Data
            The graph of these nodes.
        level : float, default=0.9
            Probability of the interval, between 0 and 1.

        Returns
        -------
        TemperatureInterval
            Lower and upper ends, each of shape (n_nodes,): ``temperature_low``,
            ``temperature_high``, ``confidence_low``, ``confidence_high``.

        Raises
        ------
        InputError
            If predictions may change: then a temperature alone does not make the confidence.

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
        if not self.keep_predictions:
            raise InputError(
                "predict_interval is about the confidence of kept predictions; fit with "
                "keep_predictions=True to have it."
            )
        nodes = self._check_prediction(logits, graph, None)
        rows = self._rows(nodes)
        log_temperature, _, moves = self._law_of("").derivatives(rows)
        certain, uncertain = self.certain_temperature_, self.uncertain_temperature_
        variance = log_temperature_variance(*rows, certain, uncertain, self.covariance_)
        spread = np.sqrt(variance) * moves
        half = float(ndtri(0.5 + 0.5 * level)) * spread
        low, high = np.exp(log_temperature - half), np.exp(log_temperature + half)
        dtype = nodes.logits.dtype
        return TemperatureInterval(
            level,
            low,
            high,
            *(
                floored(softmax(nodes.logits, T.astype(dtype)), self.floor_).max(axis=1)
                for T in (high, low)
            ),
        )

    def _temperature(self, nodes: Nodes | NeighbourhoodRows) -> FloatArray:
        return np.exp(self._law_of("").log_temperature(self._rows(nodes)))

    def _temperature_at(self, entropy: FloatArray, homophily: FloatArray) -> FloatArray:
        """Return the temperature, with typical other covariates and no class offset."""
        s = np.zeros((len(entropy), len(self.centre_)))
        support = normalised_homophily(homophily, len(self.classes_))
        s[:, SUPPORT] = support - self.centre_[SUPPORT]
        law = self._law_of("")._replace(offsets=np.zeros(1))
        return np.exp(law.log_temperature(LawRows(entropy, s, np.zeros(len(s), dtype=np.int64))))


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
