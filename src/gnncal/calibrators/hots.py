"""HoTS, homophily-aware temperature scaling (Tae, Hwang, Lee, NeurIPS 2026)."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
from scipy.special import expit

from gnncal.calibrators.homophily import (
    CannotLearnError,
    HomophilyEstimator,
    Predictor,
    Support,
    Weights,
    find_estimator,
    make_estimator,
    name_of,
)
from gnncal.calibrators.temperature import ParametricTemperature
from gnncal.data.arrays import FloatArray
from gnncal.data.constraints import NONE, TEXT, Constraint, LearnedTable, number
from gnncal.data.errors import InputError, warn
from gnncal.data.nodes import Nodes
from gnncal.data.probability import concentration, homophily_of, normalised_homophily
from gnncal.graph.graph import Side
from gnncal.math.formulas import Formula, hots_temperature, log_signal, power_law, power_ratio
from gnncal.math.solvers import PROTOCOLS, TEMPERATURE_RANGE, Parameter, Protocol

FEW_CALIBRATION_NODES = 50  # below, three parameters overfit (docs/evidence.md)
HIGHEST = TEMPERATURE_RANGE[1]
LOW_AND_HIGH = Constraint(
    "two numbers (low, high) with 0 < low <= high",
    lambda value: (
        isinstance(value, tuple | list | np.ndarray)
        and np.shape(value) == (2,)
        and all(map(number(above=0).holds, value))
        and value[0] <= value[1]
    ),
)
with_floor = partial(Parameter, simpler_at_lower=True)
WITHOUT_NEIGHBOURS = 1.0  # h^ when no calibration node has a neighbour: no structural correction
OF_HOMOPHILY: LearnedTable = {
    "homophily_method_": Constraint(
        "the name of a homophily estimator", lambda name: find_estimator(name) is not None
    ),
    "homophily_weights_": lambda fitted: fitted.estimator_.learned,
    "isolated_homophily_": number(at_least=0, at_most=1),
    "graph_fingerprint_": TEXT,
}


class HoTS(ParametricTemperature):
    r"""A temperature for each node from its entropy and its local homophily.

    .. math::
        T_i = T_\text{base}
            + \beta \frac{\sqrt{2 K \ln K \, (1 - e_i)}}{(|\tilde h_i| + \epsilon)^\alpha},
        \qquad \tilde h_i = \frac{K \hat h_i - 1}{K - 1}

    K is the number of classes, :math:`e_i` the entropy of node i's uncalibrated prediction divided
    by ln K, and :math:`\hat h_i` the estimated homophily, the share of neighbours that have the
    node's class. T_base, β and α are fitted. ``HoTS()`` is the library's version of the method of
    Tae, Hwang, Lee (NeurIPS 2026); ``HoTS.paper()`` reproduces the paper.

    Parameters
    ----------
    homophily : str or array_like of shape (n_nodes,), default="support"
        The estimate of homophily: ``"support"`` (mean probability that the neighbours give to the
        node's predicted class), ``"predictor"`` (the paper's GCN, trained on training and
        calibration labels), an array, or an estimator of ``gnncal_lab.homophily``.
    epsilon : float, default=0.02
        The constant ε, which keeps the denominator above 0.
    minimum_certainty, temperature_range : float and tuple of float, optional
        Lower limit of 1 - e and limits of T, off by default. The paper's released code has such
        limits; the text of the paper does not.

    Attributes
    ----------
    base_temperature_, beta_, alpha_ : float
        The fitted T_base, β and α.
    temperature_, homophily_ : ndarray of shape (n_nodes,)
        Temperature and estimated homophily of each node of the fitted graph.
    homophily_method_ : str
        Name of the estimator that was used; ``"support"`` if the chosen one could not run.

    Notes
    -----
    Use it with at least 200 calibration nodes, if you need a formula with few parameters that
    can be interpreted. ``hots-paper`` reproduces the paper.

    Examples
    --------
    Nodes whose neighbours disagree with them get a higher temperature:

    >>> import gnncal
    >>> task = gnncal.example()
    >>> calibrator = gnncal.HoTS().fit(
    ...     task.logits, task.labels, task.graph, calibration_nodes=task.calibration_nodes
    ... )
    >>> calibrator.temperature_at(entropy=0.3, homophily=[0.4, 0.9]).round(1)
    array([0.8, 0.3])

    """

    needs_graph = True
    transductive_attributes = ("temperature_", "homophily_")
    constraints: ClassVar[dict[str, Constraint]] = {
        "protocol": PROTOCOLS,
        "epsilon": number(above=0),
        "minimum_certainty": number(at_least=0, at_most=1),
        "temperature_range": LOW_AND_HIGH | NONE,
    }
    # The paper's floors, softplus(raw) + floor, are lower bounds, where the formula is simpler.
    parameters: ClassVar[tuple[Parameter, ...]] = (
        with_floor("base_temperature", 0.1, HIGHEST, "the correction term sets it alone"),
        with_floor("beta", 0.01, HIGHEST, "no correction helps beyond one temperature"),
        with_floor("alpha", 0.01, 10.0, "homophily does not change the temperature here"),
    )
    paper_start: ClassVar[tuple[float, ...]] = (0.5, 0.5, 0.0)
    starts: ClassVar[tuple[tuple[float, ...], ...]] = (
        tuple(np.logaddexp(0.0, paper_start) + np.array([0.1, 0.01, 0.01])),
        *((1.0, 0.05, 0.7), (0.3, 0.3, 0.1), (0.15, 0.2, 0.2)),  # mild
        *((0.5, 0.05, 2.0), (0.11, 0.5, 1.5), (4.0, 0.012, 1.5)),  # steep
    )
    base_temperature_: float
    beta_: float
    alpha_: float
    homophily_: FloatArray
    homophily_method_: str
    homophily_weights_: Weights
    isolated_homophily_: float  # h^ of nodes without neighbours: typical of calibration nodes
    graph_fingerprint_: str

    def __init__(
        self,
        *,
        homophily: Any = "support",
        protocol: Protocol = "converged",
        epsilon: float = 0.02,
        minimum_certainty: float = 0.0,
        temperature_range: tuple[float, float] | None = None,
    ) -> None:
        super().__init__(protocol=protocol)
        self.homophily = homophily
        self.epsilon = epsilon
        self.minimum_certainty = minimum_certainty
        self.temperature_range = temperature_range

    @property
    def learned(self) -> LearnedTable:
        """What each attribute that makes up the fitted model may be."""
        return {**super().learned, **OF_HOMOPHILY}

    @classmethod
    def paper(cls, preset: Literal["text", "release"] = "text", *, random_state: int = 0) -> Self:
        """Return the method with the paper's predictor and fitting protocol.

        Parameters
        ----------
        preset : {"text", "release"}, default="text"
            Whether to follow the paper's text or its released code (docs/methods.md).

        """
        if preset == "text":
            return cls(homophily=Predictor(random_state=random_state), protocol="paper")
        if preset != "release":
            raise InputError(f"preset is {preset!r}; expected 'text' or 'release'.")
        released = Predictor(
            add_self_loops=False, checkpoint="after-step", random_state=random_state
        )
        return cls(
            homophily=released,
            protocol="paper",
            minimum_certainty=0.001,
            temperature_range=(0.05, 50.0),
        )

    def _fit_covariates(self, nodes: Nodes) -> FloatArray:
        if nodes.labels.size < FEW_CALIBRATION_NODES:
            warn(
                f"{type(self).__name__} has only {nodes.labels.size} calibration nodes; below "
                f"{FEW_CALIBRATION_NODES} 'structural' usually does better."
            )
        estimator = make_estimator(self.homophily)
        try:
            self.homophily_weights_ = estimator.learn(nodes)
        except CannotLearnError as error:
            warn(
                f"homophily={name_of(estimator)!r} cannot be used because {error}; "
                "'support' is used instead, which needs neither features nor labels."
            )
            estimator, self.homophily_weights_ = Support(), {}
        self.homophily_method_, self.graph_fingerprint_ = name_of(estimator), _fingerprint(nodes)
        raw = self._estimate(nodes)
        known = raw[nodes.calibration_nodes]
        self.isolated_homophily_ = _typical(known, nodes.weights, nodes.n_classes)
        self.homophily_ = np.where(np.isnan(raw), self.isolated_homophily_, raw)
        return self._signals(nodes.entropy, self.homophily_, nodes.n_classes)

    @property
    def estimator_(self) -> HomophilyEstimator:
        """The estimator that was used: the wanted one, or support where that could not work."""
        wanted = make_estimator(self.homophily)
        return wanted if name_of(wanted) == self.homophily_method_ else Support()

    def _covariates(self, nodes: Nodes) -> FloatArray:
        return self._signals(nodes.entropy, self._homophily(nodes), nodes.n_classes)

    def _covariates_at(self, entropy: FloatArray, homophily: FloatArray) -> FloatArray:
        return self._signals(entropy, homophily, len(self.classes_))

    def predict_homophily(self, logits: Any, graph: Any = None) -> FloatArray:
        """Return the homophily h^ of each node; a typical value for nodes without neighbours."""
        return self._homophily(self._check_prediction(logits, graph))

    def _describe_fitted_graph(self, nodes: Nodes) -> None:
        self.homophily_ = self._homophily(nodes)
        super()._describe_fitted_graph(nodes)

    def _homophily(self, nodes: Nodes) -> FloatArray:
        raw = self._estimate(nodes)
        return np.where(np.isnan(raw), self.isolated_homophily_, raw)

    def _estimate(self, nodes: Nodes) -> FloatArray:
        is_fitted_graph = _fingerprint(nodes) == self.graph_fingerprint_
        return self.estimator_.estimate(
            self.homophily_weights_, nodes, is_fitted_graph=is_fitted_graph
        )

    def _signals(self, entropy: FloatArray, homophily: FloatArray, n_classes: int) -> FloatArray:
        """Return sqrt(2 K ln K (1 - e)) and ln(|h~| + epsilon) as columns."""
        numerator = concentration(entropy, n_classes, self.minimum_certainty)
        signal = log_signal(homophily, n_classes, self.epsilon)
        return np.stack([numerator, signal], axis=1)

    def _formula(self, theta: FloatArray, covariates: FloatArray) -> tuple[FloatArray, FloatArray]:
        base, beta, alpha = theta
        numerator, signal = covariates.T
        ratio = power_ratio(numerator, signal, alpha)
        slopes = [np.ones_like(ratio), ratio, -beta * signal * ratio]
        return power_law(ratio, base, beta), np.stack(slopes, axis=-1)

    def _second_derivatives(
        self, theta: FloatArray, covariates: FloatArray, weights: FloatArray
    ) -> FloatArray:
        _, beta, alpha = theta
        numerator, signal = covariates.T
        moment = weights * power_ratio(numerator, signal, alpha) * signal
        result = np.zeros((*moment.shape[:-1], 3, 3))
        result[..., 1, 2] = result[..., 2, 1] = -moment.sum(axis=-1)
        result[..., 2, 2] = (beta * moment * signal).sum(axis=-1)
        return result

    def _as_formula(self) -> Formula:
        if (reach := self._reach()) is None:
            raise InputError(
                f"{type(self).__name__} with homophily={self.homophily_method_!r} cannot become a "
                "torch module, because it needs more than logits and edges; call its "
                "predict_proba, or fit with homophily='support'."
            )
        learned = self._numbers(*(p.name for p in self.parameters), "isolated_homophily")
        learned |= {"epsilon": self.epsilon, "minimum_certainty": self.minimum_certainty}
        settings = {"side": reach[1], "limits": self.temperature_range}
        return Formula(hots_temperature, learned, settings, hops=1, side=reach[1])

    def _reach(self) -> tuple[int, Side] | None:
        is_fitted = hasattr(self, "homophily_method_")
        if self.protocol == "paper" and not is_fitted:
            return None  # its loop runs over a graph in memory
        estimator = (self.estimator_ if is_fitted else make_estimator(self.homophily)).saved_as
        return (1, estimator.side) if isinstance(estimator, Support) else None

    def _paper_link(self, raw: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the paper's parametrisation softplus(raw) + floor, and its Jacobian."""
        floors = np.array([parameter.lower for parameter in self.parameters])
        return np.logaddexp(0.0, raw) + floors, np.diag(expit(raw))

    def _clamp(self, temperature: FloatArray) -> FloatArray:
        if self.temperature_range is None:
            return temperature
        return np.clip(temperature, *self.temperature_range)


def _fingerprint(nodes: Nodes) -> str:
    """Return what a fitted graph is recognised by; nothing where neighbours were described."""
    return "" if nodes.graph is None else nodes.graph.fingerprint


def _typical(homophily: FloatArray, weights: FloatArray | None, n_classes: int) -> float:
    """Return the h^ whose |h~| is the mean of |h~| over the nodes where it is known."""
    known = ~np.isnan(homophily)
    if not known.any():
        return WITHOUT_NEIGHBOURS
    signal = np.abs(normalised_homophily(homophily[known], n_classes))
    mean = signal.mean() if weights is None else np.average(signal, weights=weights[known])
    return homophily_of(float(mean), n_classes)
