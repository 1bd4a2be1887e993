"""The contextual stochastic block model that the paper's law comes from.

K classes with a uniform prior; a node of class c has features N(mu_c, sigma^2 I) with equidistant
means (one-hot vectors of length ``separation``); a neighbour of node i has i's class with
probability h_i and any other class with equal probability. In the letters of the paper:

* m_c = mu_c - mean(mu), rho_0 = |m_c|
* h~ = (K h - 1) / (K - 1), v = sigma^2 / (d + 1), Gamma(h) = rho_0 (1 + d h~) / (d + 1)
* class-template scores s_c = m_c . (x_bar - mean(mu)) / rho_0 of the aggregate x_bar over the
  node and its neighbours; the Bayes posterior is softmax(Gamma(h) s / v).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gnncal.core.arrays import FloatArray, IntArray, as_numpy
from gnncal.core.errors import InputError
from gnncal.core.graph import Graph


@dataclass(frozen=True)
class GraphSample:
    """A graph drawn from the model, features included."""

    graph: Graph
    labels: IntArray  # (n_nodes,)
    homophily: FloatArray  # (n_nodes,) the probability h_i that a neighbour has i's class


@dataclass(frozen=True)
class PopulationSample:
    """Nodes whose neighbourhoods have exactly their expected composition."""

    scores: FloatArray  # (n_nodes, n_classes) class-template scores s
    labels: IntArray  # (n_nodes,)
    homophily: FloatArray  # (n_nodes,)
    posterior: FloatArray  # (n_nodes, n_classes) the exact Bayes probabilities


@dataclass(frozen=True)
class CSBM:
    """A contextual stochastic block model; defaults are those of the paper's released code."""

    n_classes: int = 5
    mean_degree: float = 10.0
    separation: float = 2.0  # length of the one-hot class means
    sigma: float = 1.0
    n_features: int = 16

    def __post_init__(self) -> None:
        if self.n_classes < 2:
            raise InputError(f"n_classes is {self.n_classes}; expected at least 2.")
        if self.sigma <= 0 or self.separation <= 0:
            raise InputError(
                f"sigma is {self.sigma} and separation {self.separation}; expected positive."
            )
        if self.mean_degree < 0:
            raise InputError(f"mean_degree is {self.mean_degree}; expected at least 0.")
        if self.n_features < self.n_classes:
            raise InputError(
                f"n_features is {self.n_features}; one-hot means of {self.n_classes} classes need "
                f"at least {self.n_classes}."
            )

    @property
    def rho_0(self) -> float:
        """|m_c|, the distance of a class mean from their centre."""
        return float(self.separation * np.sqrt(1.0 - 1.0 / self.n_classes))

    @property
    def v(self) -> float:
        """The variance of a coordinate of the aggregate."""
        return self.sigma**2 / (self.mean_degree + 1.0)

    def signal(self, homophily: Any) -> FloatArray:
        """Gamma(h), the homophily-dependent signal strength; negative in strong heterophily."""
        normalised = (self.n_classes * _check_homophily(homophily) - 1.0) / (self.n_classes - 1.0)
        return self.rho_0 * (1.0 + self.mean_degree * normalised) / (self.mean_degree + 1.0)

    def posterior(self, scores: FloatArray, homophily: Any) -> FloatArray:
        """softmax(Gamma(h) s / v), the Bayes posterior of the class-template scores."""
        exponent = (self.signal(homophily) / self.v).reshape(-1, 1) * scores
        weights = np.exp(exponent - exponent.max(axis=1, keepdims=True))
        return weights / weights.sum(axis=1, keepdims=True)

    def sample(self, homophily: Any, *, random_state: int = 0) -> GraphSample:
        """A graph with the given node-wise homophily (n_nodes,).

        Each node draws a Poisson number of senders by its own h_i, so edges are directed towards
        it and every node has the homophily it was given. Time and memory are linear in the edges.
        """
        h = _check_homophily(homophily).reshape(-1)
        generator = np.random.default_rng(random_state)
        n_nodes = h.size
        labels = generator.integers(self.n_classes, size=n_nodes)
        receivers = np.repeat(np.arange(n_nodes), generator.poisson(self.mean_degree, n_nodes))
        same = generator.random(receivers.size) < h[receivers]
        offset = generator.integers(1, self.n_classes, size=receivers.size)
        classes = (labels[receivers] + np.where(same, 0, offset)) % self.n_classes
        members = np.argsort(labels, kind="stable")
        count = np.bincount(labels, minlength=self.n_classes)
        first = np.concatenate([[0], np.cumsum(count)[:-1]])
        chosen = (generator.random(receivers.size) * count[classes]).astype(np.int64)
        populated = count[classes] > 0
        senders = members[np.where(populated, first[classes] + chosen, 0)]
        keep = populated & (senders != receivers)
        features = generator.normal(0.0, self.sigma, (n_nodes, self.n_features))
        features[np.arange(n_nodes), labels] += self.separation
        edges = np.stack([senders[keep], receivers[keep]])
        return GraphSample(Graph(edges, n_nodes, features.astype(np.float32)), labels, h)

    def sample_population(self, homophily: Any, *, random_state: int = 0) -> PopulationSample:
        """The population-concentration model of the paper's appendix: an exact posterior.

        Degree and composition sit at their expected values, so the score vector of a node of
        class c is Gaussian around Gamma(h) * cos(angle between m_c and m_k).
        """
        h = _check_homophily(homophily).reshape(-1)
        generator = np.random.default_rng(random_state)
        labels = generator.integers(self.n_classes, size=h.size)
        templates = np.eye(self.n_classes) - 1.0 / self.n_classes
        templates *= self.separation / self.rho_0  # m_c / rho_0 on the span of the means
        noise = generator.normal(0.0, np.sqrt(self.v), (h.size, self.n_classes))
        centred = self.signal(h)[:, None] * templates[labels] + noise
        scores = centred @ templates
        return PopulationSample(scores, labels, h, self.posterior(scores, h))


def _check_homophily(homophily: Any) -> FloatArray:
    h = as_numpy(homophily).astype(np.float64)
    if h.size == 0 or not np.isfinite(h).all() or h.min() < 0 or h.max() > 1:
        raise InputError("homophily must be one or more shares in [0, 1].")
    return h
