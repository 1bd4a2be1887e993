"""Temperatures that depend on local homophily: what HoTS and its ablations share."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar, Literal, Self

import numpy as np
from scipy.special import expit

from gnncal.calibrators.parametric import ParametricTemperature
from gnncal.core.arrays import FloatArray
from gnncal.core.constraints import NONE, choice, number, number_range
from gnncal.core.errors import GnncalWarning, InputError
from gnncal.core.learned import TEXT, LearnedTable
from gnncal.core.nodes import Nodes
from gnncal.core.probability import concentration
from gnncal.fitting.parameters import TEMPERATURE_RANGE, Parameter
from gnncal.fitting.protocols import Protocol
from gnncal.homophily import (
    ESTIMATORS,
    HomophilyEstimator,
    Predictor,
    Support,
    make_estimator,
    name_of,
)
from gnncal.homophily.base import CannotLearnError, Weights
from gnncal.homophily.clamping import CLAMPED_LABELS
from gnncal.homophily.normalised import homophily_of, normalised_homophily
from gnncal.homophily.plain import OLDER_PARAMETERS, from_older

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


def softplus_link(
    raw: FloatArray, parameters: tuple[Parameter, ...]
) -> tuple[FloatArray, FloatArray]:
    """Return the paper's parametrisation softplus(raw) + floor, and its Jacobian."""
    floors = np.array([parameter.lower for parameter in parameters])
    return np.logaddexp(0.0, raw) + floors, np.diag(expit(raw))


def power_law_second_derivatives(
    theta: FloatArray, numerator: FloatArray | float, log_signal: FloatArray, weights: FloatArray
) -> FloatArray:
    """Weighted second derivatives of beta * numerator * exp(-alpha * log_signal) by theta."""
    _, beta, alpha = theta
    moment = weights * numerator * np.exp(-alpha * log_signal) * log_signal
    result = np.zeros((*moment.shape[:-1], 3, 3))
    result[..., 1, 2] = result[..., 2, 1] = -moment.sum(axis=-1)
    result[..., 2, 2] = (beta * moment * log_signal).sum(axis=-1)
    return result


def _fingerprint(nodes: Nodes) -> str:
    """Return what a fitted graph is recognised by; nothing where neighbours were described."""
    return "" if nodes.graph is None else nodes.graph.fingerprint


def _typical(homophily: FloatArray, n_classes: int) -> float:
    """Return the h^ whose |h~| is the mean of |h~| over some nodes.

    The mean of h^ itself may lie at h~ = 0, where the correction is largest, although no node does.
    """
    if homophily.size == 0:
        return WITHOUT_NEIGHBOURS
    signal = np.abs(normalised_homophily(homophily, n_classes)).mean()
    return homophily_of(float(signal), n_classes)


class HomophilyTemperature(ParametricTemperature):
    """Estimates h^ once, then fits a formula in the concentration and the homophily signal.

    The covariates are [sqrt(2 K ln K (1 - e_i)), ln(|h~_i| + epsilon)].

    Parameters are described in :class:`gnncal.HoTS`.
    """

    needs_graph = True
    also_learned: ClassVar[LearnedTable] = {
        **ParametricTemperature.also_learned,
        "homophily_method_": choice(*ESTIMATORS, "given"),
        "homophily_weights_": {},
        "isolated_homophily_": number(at_least=0, at_most=1),
        "graph_fingerprint_": TEXT,
    }
    fitted_graph_attributes = (*ParametricTemperature.fitted_graph_attributes, "homophily_")
    constraints: ClassVar = {
        "protocol": choice("converged", "paper"),
        "epsilon": number(above=0),
        "minimum_certainty": number(at_least=0, at_most=1),
        "temperature_range": number_range(above=0) | NONE,
    }
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
    ) -> None:
        self.homophily = homophily
        self.protocol = protocol
        self.epsilon = epsilon
        self.minimum_certainty = minimum_certainty
        self.temperature_range = temperature_range

    @classmethod
    def paper(cls, preset: Literal["text", "release"] = "text", *, random_state: int = 0) -> Self:
        """Return the method with the paper's predictor and fitting protocol.

        Parameters
        ----------
        preset : {"text", "release"}, default="text"
            Whether to follow the paper's text or its released code. The release keeps the model's
            graph as it is, keeps the predictor's weights from after the best step, and clamps 1 - e
            and T.
        random_state : int, default=0
            Seed of the predictor.

        Returns
        -------
        HomophilyTemperature
            A calibrator of this class, to be fitted with ``train_nodes``.

        Raises
        ------
        InputError
            If there is no such preset.

        """
        if preset == "text":
            return cls(homophily=Predictor(random_state=random_state), protocol="paper")
        if preset == "release":
            released = Predictor(
                add_self_loops=False, checkpoint="after-step", random_state=random_state
            )
            return cls(
                homophily=released,
                protocol="paper",
                minimum_certainty=0.001,
                temperature_range=(0.05, 50.0),
            )
        raise InputError(f"preset is {preset!r}; expected 'text' or 'release'.")

    @classmethod
    def upgraded(
        cls, parameters: dict[str, Any], learned: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Put what older versions kept beside the estimator, parameters and labels, into it."""
        if "side" not in parameters:
            return parameters, learned
        homophily = parameters["homophily"]
        if isinstance(homophily, str) and parameters["side"] == "out":
            homophily = learned.get("homophily_method_", homophily)  # where it fell back
        kept = {n: value for n, value in parameters.items() if n not in OLDER_PARAMETERS}
        state = {n: value for n, value in learned.items() if n != "clamped_labels_"}
        if np.size(learned.get("clamped_labels_", ())):
            recalled = {"clamped_labels": learned["clamped_labels_"]}
            state["homophily_weights_"] = learned["homophily_weights_"] | recalled
        return kept | {"homophily": from_older(homophily, parameters)}, state

    def _learned_table(self) -> LearnedTable:
        recalled = {"clamped_labels": CLAMPED_LABELS}  # where training labels were clamped
        weights = dict(self._estimator.learned)
        if isinstance(self.homophily_weights_, dict) and set(recalled) & set(
            self.homophily_weights_
        ):
            weights |= recalled
        return {**self.learned, "homophily_weights_": weights}

    def _fit_covariates(self, nodes: Nodes) -> FloatArray:
        self._warn_of_few_nodes(nodes)
        self._learn_homophily(nodes)
        self.graph_fingerprint_ = _fingerprint(nodes)
        return self._typify(nodes, self._estimate(nodes))

    def _warn_of_few_nodes(self, nodes: Nodes) -> None:
        if nodes.labels.size < FEW_CALIBRATION_NODES:
            warnings.warn(
                f"{type(self).__name__} has only {nodes.labels.size} calibration nodes; below "
                f"{FEW_CALIBRATION_NODES} 'structural' usually does better.",
                GnncalWarning,
                stacklevel=5,
            )

    def _typify(self, nodes: Nodes, raw: FloatArray) -> FloatArray:
        """Set h^ of nodes without neighbours to a typical one; return the covariates."""
        known = raw[nodes.calibration_nodes][~np.isnan(raw[nodes.calibration_nodes])]
        self.isolated_homophily_ = _typical(known, nodes.n_classes)
        self.homophily_ = np.where(np.isnan(raw), self.isolated_homophily_, raw)
        return self._signals(nodes.entropy, self.homophily_, nodes.n_classes)

    def _learn_homophily(self, nodes: Nodes) -> None:
        estimator = make_estimator(self.homophily)
        try:
            self.homophily_weights_ = estimator.learn(nodes)
        except CannotLearnError as error:
            warnings.warn(
                f"homophily={name_of(estimator)!r} cannot be used because {error}; "
                "'support' is used instead, which needs neither features nor labels.",
                GnncalWarning,
                stacklevel=5,
            )
            estimator, self.homophily_weights_ = Support(), {}
        self.homophily_method_ = name_of(estimator)

    @property
    def _estimator(self) -> HomophilyEstimator:
        """The estimator that was used: the wanted one, or support where that could not work."""
        wanted = make_estimator(self.homophily)
        return wanted if name_of(wanted) == self.homophily_method_ else Support()

    def _covariates(self, nodes: Nodes) -> FloatArray:
        return self._signals(nodes.entropy, self._homophily(nodes), nodes.n_classes)

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
            The graph of these nodes. It may be another one than in ``fit``.
        known_labels : array_like of shape (n_nodes,), optional
            Labels that a graph method may rely on, as in :meth:`predict_proba`.

        Returns
        -------
        ndarray of shape (n_nodes,)
            Estimates in [0, 1]; a typical value for nodes without neighbours.

        """
        return self._homophily(self._check_prediction(logits, graph, known_labels))

    def _homophily(self, nodes: Nodes) -> FloatArray:
        raw = self._estimate(nodes)
        return np.where(np.isnan(raw), self.isolated_homophily_, raw)

    def _estimate(self, nodes: Nodes) -> FloatArray:
        is_fitted_graph = _fingerprint(nodes) == self.graph_fingerprint_
        return self._estimator.estimate(
            self.homophily_weights_, nodes, is_fitted_graph=is_fitted_graph
        )

    def _signals(self, entropy: FloatArray, homophily: FloatArray, n_classes: int) -> FloatArray:
        signal = np.abs(normalised_homophily(homophily, n_classes))  # |h~|
        numerator = concentration(entropy, n_classes, minimum=self.minimum_certainty)
        return np.stack([numerator, np.log(signal + self.epsilon)], axis=1)

    def _clamp(self, temperature: FloatArray) -> FloatArray:
        if self.temperature_range is None:
            return temperature
        return np.clip(temperature, *self.temperature_range)
