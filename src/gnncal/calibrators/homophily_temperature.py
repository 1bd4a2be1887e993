"""Temperatures that depend on local homophily: what HoTS and its ablations share."""

from __future__ import annotations

import warnings
from typing import Any, Literal, Self

import numpy as np
from scipy.special import expit
from sklearn.utils import check_random_state

from gnncal.calibrators.parametric import TEMPERATURE_RANGE, Parameter, ParametricTemperature
from gnncal.calibrators.protocols import Protocol
from gnncal.core.adam import Checkpoint
from gnncal.core.arrays import FloatArray, IntArray
from gnncal.core.data import FitData
from gnncal.core.errors import GnncalWarning, InputError
from gnncal.core.graph import Graph, Side
from gnncal.core.probability import concentration, normalised_entropy
from gnncal.homophily.base import HomophilyEstimator, Situation, Weights
from gnncal.homophily.catalogue import NEED_FEATURES, make_estimator
from gnncal.homophily.predictor import NoTargetError, masked_targets

FEWEST_SUPERVISED_NODES = 20  # with fewer, the folds of a predictor are noise
FEW_CALIBRATION_NODES = 50  # below, one temperature generalises better than a structural law
WITHOUT_NEIGHBOURS = 1.0  # h^ when no calibration node has a neighbour: no structural correction

# The paper's floors, softplus(raw) + floor, as lower bounds.
BASE_TEMPERATURE = Parameter(
    "base_temperature", 0.1, TEMPERATURE_RANGE[1], "the correction term sets the temperature alone"
)
BETA = Parameter("beta", 0.01, TEMPERATURE_RANGE[1], "no correction helps beyond one temperature")
ALPHA = Parameter("alpha", 0.01, 10.0, "homophily does not change the temperature here")


def softplus_link(
    raw: FloatArray, parameters: tuple[Parameter, ...]
) -> tuple[FloatArray, FloatArray]:
    """The paper's parametrisation softplus(raw) + floor, and its Jacobian."""
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


def _typical(homophily: FloatArray, n_classes: int) -> float:
    """The h^ whose |h~| is the mean of |h~| over some nodes.

    The mean of h^ itself may lie at h~ = 0, where the correction is largest, although no node does.
    """
    if homophily.size == 0:
        return WITHOUT_NEIGHBOURS
    signal = np.abs(n_classes * homophily - 1.0).mean() / (n_classes - 1.0)
    return float((1.0 + (n_classes - 1.0) * signal) / n_classes)


class HomophilyTemperature(ParametricTemperature):
    """Estimates h^ once, then fits a formula in the concentration and the homophily signal.

    The covariates are [sqrt(2 K ln K (1 - e_i)), ln(|h~_i| + epsilon)].

    Parameters are described in :class:`gnncal.HoTS`.
    """

    needs_graph = True
    also_learned = (
        *ParametricTemperature.also_learned,
        "homophily_method_",
        "homophily_weights_",
        "isolated_homophily_",
        "clamped_labels_",
        "graph_fingerprint_",
    )
    of_fitted_graph = (*ParametricTemperature.of_fitted_graph, "homophily_")
    homophily_: FloatArray  # (n_nodes,) h^ on the fitted graph
    homophily_method_: str  # the estimator used, after any fallback
    homophily_weights_: Weights
    isolated_homophily_: float  # h^ of nodes without neighbours: typical of calibration nodes
    clamped_labels_: IntArray  # (n_nodes,) labels relied on in fit; empty when none
    graph_fingerprint_: str

    def __init__(
        self,
        *,
        homophily: Any = "support",
        protocol: Protocol = "converged",
        epsilon: float = 0.02,
        clamp_train_labels: bool = False,
        side: Side | None = None,
        n_folds: int = 5,
        add_self_loops: bool = True,
        checkpoint: Checkpoint = "matched",
        minimum_certainty: float = 0.0,
        temperature_range: tuple[float, float] | None = None,
        random_state: Any = 0,
    ) -> None:
        self.homophily = homophily
        self.protocol = protocol
        self.epsilon = epsilon
        self.clamp_train_labels = clamp_train_labels
        self.side = side
        self.n_folds = n_folds
        self.add_self_loops = add_self_loops
        self.checkpoint = checkpoint
        self.minimum_certainty = minimum_certainty
        self.temperature_range = temperature_range
        self.random_state = random_state

    @classmethod
    def paper(cls, preset: Literal["text", "release"] = "text", *, random_state: Any = 0) -> Self:
        """The paper's predictor and fitting protocol, as its text or its released code has them.

        The release keeps the model's graph as it is, keeps the predictor's weights from after
        the best step, and clamps 1 - e and T.
        """
        common = {"homophily": "predictor", "protocol": "paper", "random_state": random_state}
        if preset == "text":
            return cls(**common)
        if preset == "release":
            return cls(
                **common,
                add_self_loops=False,
                checkpoint="after-step",
                minimum_certainty=0.001,
                temperature_range=(0.05, 50.0),
            )
        raise InputError(f"preset is {preset!r}; expected 'text' or 'release'.")

    @property
    def drawn_at_random(self) -> str | None:
        """The predictor's weights, where there is one."""
        learns = isinstance(self.homophily, str) and self.homophily in NEED_FEATURES
        return "the homophily predictor's initial weights and folds" if learns else None

    def _fit_covariates(self, data: FitData) -> FloatArray:
        assert data.graph is not None
        self._check_parameters()
        if self.clamp_train_labels and data.train_nodes.size == 0:
            raise InputError("clamp_train_labels=True relies on training labels; pass train_nodes.")
        if data.nodes.size < FEW_CALIBRATION_NODES:
            warnings.warn(
                f"{type(self).__name__} has only {data.nodes.size} calibration nodes; below "
                f"{FEW_CALIBRATION_NODES} 'entropy-only' usually does better.",
                GnncalWarning,
                stacklevel=4,
            )
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.homophily_method_ = self._choose_method(data)
        try:
            self.homophily_weights_ = self._estimator(seed).learn(data)
        except NoTargetError as error:
            self.homophily_method_ = self._fall_back(str(error))
            self.homophily_weights_ = self._estimator(seed).learn(data)
        estimator = self._estimator()
        clamped = data.train_label_vector() if self.clamp_train_labels else np.empty(0, np.int64)
        self.clamped_labels_ = clamped
        self.graph_fingerprint_ = data.graph.fingerprint
        raw = self._estimate(estimator, data.logits, data.graph, None)
        known = raw[data.nodes][~np.isnan(raw[data.nodes])]
        self.isolated_homophily_ = _typical(known, data.n_classes)
        self.homophily_ = np.where(np.isnan(raw), self.isolated_homophily_, raw)
        return self._signals(data.logits, self.homophily_)

    def _covariates(
        self, logits: FloatArray, graph: Graph | None, known_labels: IntArray | None
    ) -> FloatArray:
        assert graph is not None
        raw = self._estimate(self._estimator(), logits, graph, known_labels)
        return self._signals(logits, np.where(np.isnan(raw), self.isolated_homophily_, raw))

    def _signals(self, logits: FloatArray, homophily: FloatArray) -> FloatArray:
        n_classes = logits.shape[1]
        entropy = normalised_entropy(logits).astype(np.float64)
        normalised = (n_classes * homophily - 1.0) / (n_classes - 1.0)  # h~
        numerator = concentration(entropy, n_classes, minimum=self.minimum_certainty)
        return np.stack([numerator, np.log(np.abs(normalised) + self.epsilon)], axis=1)

    def _estimate(
        self,
        estimator: HomophilyEstimator,
        logits: FloatArray,
        graph: Graph,
        known_labels: IntArray | None,
    ) -> FloatArray:
        is_fitted_graph = graph.fingerprint == self.graph_fingerprint_
        if known_labels is None:
            if is_fitted_graph and self.clamped_labels_.size:
                known_labels = self.clamped_labels_
            else:
                known_labels = np.full(len(logits), -1)
        situation = Situation(logits, graph, known_labels, is_fitted_graph)
        return estimator.estimate(self.homophily_weights_, situation)

    def _estimator(self, seed: int = 0) -> HomophilyEstimator:
        given = not isinstance(self.homophily, str)
        return make_estimator(
            self.homophily if given else self.homophily_method_,
            side=self.side,
            n_folds=self.n_folds,
            add_self_loops=self.add_self_loops,
            checkpoint=self.checkpoint,
            seed=seed,
        )

    def _check_parameters(self) -> None:
        low, high = (1.0, 1.0) if self.temperature_range is None else self.temperature_range
        for holds, message in (
            (self.epsilon > 0, f"epsilon is {self.epsilon}; expected a positive number."),
            (self.side in (None, "in", "out"), f"side is {self.side!r}; expected 'in' or 'out'."),
            (self.n_folds >= 2, f"n_folds is {self.n_folds}; expected at least 2."),
            (
                self.checkpoint in ("matched", "after-step"),
                f"checkpoint is {self.checkpoint!r}; expected 'matched' or 'after-step'.",
            ),
            (
                0 <= self.minimum_certainty <= 1,
                f"minimum_certainty is {self.minimum_certainty}; expected a number in [0, 1].",
            ),
            (
                0 < low <= high,
                f"temperature_range is {self.temperature_range}; expected 0 < low <= high.",
            ),
        ):
            if not holds:
                raise InputError(message)

    def _choose_method(self, data: FitData) -> str:
        """The wanted estimator, or support where that one cannot work."""
        assert data.graph is not None
        if not isinstance(self.homophily, str):
            return "given"
        if self.homophily in NEED_FEATURES and data.graph.features is None:
            return self._fall_back("the graph has no features")
        if self.homophily == "cross-fitted":
            targets = masked_targets(data.graph, data.known_label_vector(), side=self.side or "out")
            supervised = int((~np.isnan(targets)).sum())
            if supervised < FEWEST_SUPERVISED_NODES:
                return self._fall_back(
                    f"only {supervised} labelled nodes have a labelled neighbour"
                )
        return self.homophily

    def _fall_back(self, reason: str) -> str:
        warnings.warn(
            f"homophily={self.homophily!r} cannot be used because {reason}; "
            "'support' is used instead, which needs neither features nor labels.",
            GnncalWarning,
            stacklevel=6,
        )
        return "support"

    def _clamp(self, temperature: FloatArray) -> FloatArray:
        if self.temperature_range is None:
            return temperature
        return np.clip(temperature, *self.temperature_range)
