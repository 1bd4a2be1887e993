"""HoTS, homophily-aware temperature scaling (Tae, Hwang, Lee, NeurIPS 2026), and its ablations."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from scipy.special import expit

from gnncal.calibrators.homophily import (
    CLAMPED_LABELS,
    CannotLearnError,
    Given,
    HomophilyEstimator,
    Predictor,
    Support,
    Weights,
    find_estimator,
    make_estimator,
    name_of,
)
from gnncal.calibrators.parametric import ParametricTemperature
from gnncal.data.arrays import FloatArray
from gnncal.data.constraints import (
    NONE,
    TEXT,
    Constraint,
    LearnedTable,
    number,
    number_range,
    one_of,
)
from gnncal.data.errors import InputError, warn
from gnncal.data.nodes import Nodes
from gnncal.data.probability import concentration, homophily_of, normalised_homophily
from gnncal.graph.graph import Side
from gnncal.math.formulas import Formula, hots_temperature
from gnncal.math.solvers import TEMPERATURE_RANGE, Parameter, Protocol
from gnncal.math.structural import log_signal, power_law, power_ratio

FEW_CALIBRATION_NODES = 50  # below, three parameters overfit (docs/evidence.md)
WITHOUT_NEIGHBOURS = 1.0  # h^ when no calibration node has a neighbour: no structural correction

# The paper's floors, softplus(raw) + floor, as lower bounds. At one of them the formula is simpler.
BASE_TEMPERATURE = Parameter(
    "base_temperature",
    0.1,
    TEMPERATURE_RANGE[1],
    "the correction term sets the temperature alone",
    simpler_at_lower=True,
)
BETA = Parameter(
    "beta",
    0.01,
    TEMPERATURE_RANGE[1],
    "no correction helps beyond one temperature",
    simpler_at_lower=True,
)
ALPHA = Parameter(
    "alpha", 0.01, 10.0, "homophily does not change the temperature here", simpler_at_lower=True
)


Ablation = Literal["homophily", "entropy", "exponent"]


class Form(NamedTuple):
    """What is fitted in the full formula or in one of its ablations, and where a fit starts."""

    parameters: tuple[Parameter, ...]
    starts: tuple[tuple[float, ...], ...]  # of the converged fit
    paper_start: tuple[float, ...]  # of the paper's loop, unconstrained
    fixed_alpha: float | None = None


FORMS: dict[Ablation | None, Form] = {
    None: Form(
        (BASE_TEMPERATURE, BETA, ALPHA),
        (
            *((1.0, 0.05, 0.7), (0.3, 0.3, 0.1), (0.15, 0.2, 0.2)),  # mild
            *((0.5, 0.05, 2.0), (0.11, 0.5, 1.5), (4.0, 0.012, 1.5)),  # steep
        ),
        (0.5, 0.5, 0.0),
    ),
    "homophily": Form(
        (BASE_TEMPERATURE, BETA), ((1.0, 0.05), (0.3, 0.3), (1.07, 0.98)), (0.5, 0.5), 0.0
    ),
    "entropy": Form(
        (BASE_TEMPERATURE, BETA, ALPHA),
        ((1.07, 0.98, 0.70), (0.9, 0.1, 0.7), (0.2, 0.2, 0.3)),
        (0.5, 0.5, 0.0),
    ),
    "exponent": Form(
        (BASE_TEMPERATURE, BETA),
        ((1.07, 0.98), (1.0, 0.05), (0.3, 0.1), (0.12, 0.9)),
        (0.5, 0.5),
        1.0,
    ),
}


OF_HOMOPHILY: LearnedTable = {
    "homophily_method_": Constraint(
        "the name of a homophily estimator",
        lambda name: (
            name == "given" or (isinstance(name, str) and find_estimator(name) is not None)
        ),
    ),
    "homophily_weights_": lambda fitted: fitted._weight_table(),
    "isolated_homophily_": number(at_least=0, at_most=1),
    "graph_fingerprint_": TEXT,
}


class HoTS(ParametricTemperature):
    r"""A temperature for each node from its entropy and its local homophily.

    .. math::
        T_i = T_\text{base}
            + \beta \frac{\sqrt{2 K \ln K \, (1 - e_i)}}{(|\tilde h_i| + \epsilon)^\alpha},
        \qquad \tilde h_i = \frac{K \hat h_i - 1}{K - 1}

    with :math:`e_i` the normalised entropy of softmax(z_i) and :math:`\hat h_i` the estimated
    share of neighbours that have the node's class. ``HoTS()`` is what to run; ``HoTS.paper()``
    follows the paper to the letter.

    Parameters
    ----------
    homophily : str or array_like of shape (n_nodes,), default="support"
        The estimate of h^: ``"support"`` (mean probability that the neighbours give to the node's
        predicted class), ``"predictor"`` (the paper's GCN, which has seen the calibration labels),
        or an array, taken as it is. ``gnncal_lab.homophily`` adds ``"agreement"`` (share of
        neighbours with the same prediction) and ``"cross-fitted"`` (the predictor, calibration
        nodes estimated out of fold).
    protocol : {"converged", "paper"}, default="converged"
        ``"converged"`` minimises the loss of the calibration nodes. ``"paper"`` is Adam stopped
        early on the loss of the training nodes, as in the HoTS paper; it needs ``train_nodes``.
    epsilon : float, default=0.02
        The stabiliser in the denominator.
    minimum_certainty : float, default=0.0
        Lower limit of 1 - e. The released code has 0.001.
    temperature_range : tuple of float, optional
        Limits of T. The released code has 0.05 and 50; by default there are none.
    without : {"homophily", "entropy", "exponent"}, optional
        The paper's component ablation. Without homophily, alpha is 0 and no graph is needed
        (``entropy-only``); without the entropy, the root is 1 (``homophily-only``); without the
        exponent, alpha is 1, as in the model that HoTS is derived from (``hots-alpha1``).

    Attributes
    ----------
    base_temperature_, beta_, alpha_ : float
        The fitted parameters of the formula; ``alpha_`` is missing where it is fixed.
    temperature_ : ndarray of shape (n_nodes,)
        Temperature of each node of the fitted graph.
    homophily_ : ndarray of shape (n_nodes,)
        Estimated homophily h^ of each node of the fitted graph.
    homophily_method_ : str
        Name of the estimator that was used, after any fallback.
    fit_report_ : FitReport
        Loss before and after, and whether the labels determine the fit.

    Notes
    -----
    Use it to reproduce the paper, or where each part of the formula must have a meaning. Give it at
    least 200 calibration nodes; ``structural`` had a lower log loss on all eleven graphs with at
    least 100 of them (docs/evidence.md).

    T_base is at least 0.1, β and α at least 0.01, ε is 0.02. ``without`` names the ablations of the
    paper: without homophily (``entropy-only``), without entropy (``homophily-only``), with α = 1
    (``hots-alpha1``). A fit takes O(E) once for E edges, and O(nK) per step.

    References
    ----------
    Tae, Hwang, Lee, homophily-aware temperature scaling (NeurIPS 2026).

    Examples
    --------
    Nodes whose neighbours disagree with them get a higher temperature:

    >>> import gnncal
    >>> task = gnncal.example()
    >>> calibrator = gnncal.HoTS().fit(task.logits, task.labels, task.graph, nodes=task.nodes)
    >>> calibrator.temperature_at(entropy=0.3, homophily=[0.4, 0.9]).round(1)
    array([0.8, 0.3])

    """

    constraints: ClassVar[dict[str, Constraint]] = {
        "protocol": one_of("converged", "paper"),
        "epsilon": number(above=0),
        "minimum_certainty": number(at_least=0, at_most=1),
        "temperature_range": number_range(above=0) | NONE,
        "without": one_of("homophily", "entropy", "exponent") | NONE,
    }
    base_temperature_: float
    beta_: float
    alpha_: float
    homophily_: FloatArray  # (n_nodes,) h^ on the fitted graph
    homophily_method_: str  # the name of the estimator used, after any fallback
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
        without: Ablation | None = None,
    ) -> None:
        self.homophily = homophily
        self.protocol = protocol
        self.epsilon = epsilon
        self.minimum_certainty = minimum_certainty
        self.temperature_range = temperature_range
        self.without = without

    @property
    def needs_graph(self) -> bool:
        """Whether ``fit`` and ``predict_proba`` must be given a graph."""
        return self.without != "homophily"

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """What is fitted."""
        return FORMS[self.without].parameters

    @property
    def learned(self) -> LearnedTable:
        """What each attribute that makes up the fitted model may be."""
        return {**super().learned, **(OF_HOMOPHILY if self.needs_graph else {})}

    @property
    def transductive_attributes(self) -> tuple[str, ...]:
        """Attributes that describe the fitted graph and are not saved."""
        return ("temperature_", "homophily_") if self.needs_graph else ("temperature_",)

    @classmethod
    def paper(
        cls,
        preset: Literal["text", "release"] = "text",
        *,
        random_state: int = 0,
        without: Ablation | None = None,
    ) -> Self:
        """Return the method with the paper's predictor and fitting protocol.

        Parameters
        ----------
        preset : {"text", "release"}, default="text"
            Whether to follow the paper's text or its released code. The release keeps the model's
            graph as it is, keeps the predictor's weights from after the best step, and clamps 1 - e
            and T.
        random_state : int, default=0
            Seed of the predictor.
        without : {"homophily", "entropy", "exponent"}, optional
            The part that is left out.

        Returns
        -------
        HoTS
            A calibrator to be fitted with ``train_nodes``.

        Raises
        ------
        InputError
            If no such preset exists.

        """
        if preset == "text":
            predictor = Predictor(random_state=random_state)
            return cls(homophily=predictor, protocol="paper", without=without)
        if preset == "release":
            released = Predictor(
                add_self_loops=False, checkpoint="after-step", random_state=random_state
            )
            return cls(
                homophily=released,
                protocol="paper",
                minimum_certainty=0.001,
                temperature_range=(0.05, 50.0),
                without=without,
            )
        raise InputError(f"preset is {preset!r}; expected 'text' or 'release'.")

    def _weight_table(self) -> LearnedTable:
        table = dict(self.estimator_.learned)
        if (
            isinstance(self.homophily_weights_, dict)
            and "clamped_labels" in self.homophily_weights_
        ):
            table["clamped_labels"] = CLAMPED_LABELS  # where training labels were clamped
        return table

    def _fit_covariates(self, nodes: Nodes) -> FloatArray:
        if not self.needs_graph:
            unused = make_estimator(self.homophily)
            if isinstance(unused, Given):
                unused.learn(nodes)  # a wrong value is named although this form does not read it
            return self._covariates(nodes)
        self._warn_of_few_nodes(nodes)
        self._learn_homophily(nodes)
        self.graph_fingerprint_ = _fingerprint(nodes)
        raw = self._estimate(nodes)
        self.isolated_homophily_ = _typical(
            raw[nodes.calibration_nodes], nodes.weights, nodes.n_classes
        )
        self.homophily_ = np.where(np.isnan(raw), self.isolated_homophily_, raw)
        return self._signals(nodes.entropy, self.homophily_, nodes.n_classes)

    def _warn_of_few_nodes(self, nodes: Nodes) -> None:
        if nodes.labels.size < FEW_CALIBRATION_NODES:
            warn(
                f"{type(self).__name__} has only {nodes.labels.size} calibration nodes; below "
                f"{FEW_CALIBRATION_NODES} 'structural' usually does better."
            )

    def _learn_homophily(self, nodes: Nodes) -> None:
        estimator = make_estimator(self.homophily)
        try:
            self.homophily_weights_ = estimator.learn(nodes)
        except CannotLearnError as error:
            warn(
                f"homophily={name_of(estimator)!r} cannot be used because {error}; "
                "'support' is used instead, which needs neither features nor labels."
            )
            estimator, self.homophily_weights_ = Support(), {}
        self.homophily_method_ = name_of(estimator)

    @property
    def estimator_(self) -> HomophilyEstimator:
        """The estimator that was used: the wanted one, or support where that could not work."""
        wanted = make_estimator(self.homophily)
        return wanted if name_of(wanted) == self.homophily_method_ else Support()

    def _covariates(self, nodes: Nodes) -> FloatArray:
        h = self._homophily(nodes) if self.needs_graph else None
        return self._signals(nodes.entropy, h, nodes.n_classes)

    def _covariates_at(self, entropy: FloatArray, homophily: FloatArray) -> FloatArray:
        return self._signals(entropy, homophily, len(self.classes_))

    def predict_homophily(
        self, logits: Any, graph: Any = None, *, known_labels: Any = None
    ) -> FloatArray:
        """Return the homophily h^ that each node's temperature is computed from.

        Parameters
        ----------
        logits : array_like of shape (n_nodes, n_classes)
            Raw scores of every node, NumPy or torch.
        graph : Graph or torch_geometric.data.Data
            The graph of these nodes. It may differ from that of ``fit``.
        known_labels : array_like of shape (n_nodes,), optional
            Labels that a graph method may rely on, as in :meth:`predict_proba`.

        Returns
        -------
        ndarray of shape (n_nodes,)
            Estimates in [0, 1]; a typical value for nodes without neighbours.

        """
        return self._homophily(self._check_prediction(logits, graph, known_labels))

    def _describe_fitted_graph(self, nodes: Nodes) -> None:
        if self.needs_graph:
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

    def _signals(
        self, entropy: FloatArray, homophily: FloatArray | None, n_classes: int
    ) -> FloatArray:
        """Return sqrt(2 K ln K (1 - e)) and ln(|h~| + epsilon) as columns; constants left out."""
        signals = np.zeros((len(entropy), 2))
        signals[:, 0] = 1.0
        if self.without != "entropy":
            signals[:, 0] = concentration(entropy, n_classes, self.minimum_certainty)
        if self.without != "homophily" and homophily is not None:
            signals[:, 1] = log_signal(homophily, n_classes, self.epsilon)
        return signals

    def _formula(self, theta: FloatArray, covariates: FloatArray) -> tuple[FloatArray, FloatArray]:
        base, beta, alpha = self._three(theta)
        numerator, signal = covariates.T
        ratio = power_ratio(numerator, signal, alpha)
        slopes = [np.ones_like(ratio), ratio, -beta * signal * ratio]
        return power_law(ratio, base, beta), np.stack(slopes[: len(theta)], axis=-1)

    def _second_derivatives(
        self, theta: FloatArray, covariates: FloatArray, weights: FloatArray
    ) -> FloatArray:
        if len(theta) < 3:  # linear in the two others
            return super()._second_derivatives(theta, covariates, weights)
        _, beta, alpha = theta
        numerator, signal = covariates.T
        moment = weights * power_ratio(numerator, signal, alpha) * signal
        result = np.zeros((*moment.shape[:-1], 3, 3))
        result[..., 1, 2] = result[..., 2, 1] = -moment.sum(axis=-1)
        result[..., 2, 2] = (beta * moment * signal).sum(axis=-1)
        return result

    def _three(self, theta: FloatArray) -> tuple[Any, Any, Any]:
        """Return T_base, beta and alpha, fitted or fixed."""
        fixed = FORMS[self.without].fixed_alpha
        return tuple(theta) if fixed is None else (*theta, fixed)

    def _as_formula(self) -> Formula:
        base, beta, alpha = self._three(self._theta())
        learned = {"base_temperature": base, "beta": beta, "alpha": alpha}
        estimator = portable_estimator(self) if self.needs_graph else None
        side: Side = "in" if estimator is None else estimator.side
        settings = {
            "uses_homophily": estimator is not None,
            "side": side,
            "uses_entropy": self.without != "entropy",
            "limits": self.temperature_range,
        }
        return Formula(
            hots_temperature,
            {
                **learned,
                "epsilon": self.epsilon,
                "minimum_certainty": self.minimum_certainty,
                "isolated_homophily": self.isolated_homophily_ if estimator else 1.0,
            },
            settings,
            hops=0 if estimator is None else 1,
            side=side,
        )

    def _reach(self) -> tuple[int, Side] | None:
        if not self.needs_graph:
            return 0, "in"
        used = self.estimator_ if hasattr(self, "homophily_method_") else None
        estimator = (used or make_estimator(self.homophily)).saved_as
        if isinstance(estimator, Support) and not estimator.clamp_train_labels:
            return 1, estimator.side
        return None

    def _starts(self) -> list[tuple[float, ...]]:
        starts = list(FORMS[self.without].starts)
        if self.without is None:
            starts.insert(0, tuple(self._paper_link(self._paper_start())[0].tolist()))
        return starts

    def _paper_start(self) -> FloatArray:
        return np.array(FORMS[self.without].paper_start)

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


def portable_estimator(calibrator: HoTS) -> Support:
    """Return the estimator that was used, if logits and edges are all that it needs."""
    estimator = calibrator.estimator_.saved_as
    if not isinstance(estimator, Support):
        raise InputError(
            f"HoTS with homophily={calibrator.homophily_method_!r} cannot become a torch module, "
            "because it needs more than logits and edges; call its predict_proba, or fit with "
            "homophily='support'."
        )
    if estimator.clamp_train_labels:
        raise InputError(
            "HoTS with clamp_train_labels=True cannot become a torch module, because it relies on "
            "the training labels of its graph; call its predict_proba, or fit with "
            "clamp_train_labels=False."
        )
    return estimator
