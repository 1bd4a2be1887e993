"""The contextual stochastic block model that the paper's law comes from.

K classes with a uniform prior; a node of class c has features N(mu_c, sigma^2 I) with equidistant
means; a neighbour of node i has i's class with probability h_i and any other class with equal
probability. Three ways to draw from it: a graph in which every node has its own homophily, an
undirected graph of independent edges, and the paper's population-concentration version, in which
neighbourhoods have exactly their expected composition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np

from gnncal.data.arrays import FloatArray, IntArray
from gnncal.data.errors import InputError
from gnncal.graph.graph import Graph
from gnncal_lab.simulation.bayes import (
    BayesRule,
    check_homophily,
    check_node_homophily,
    template_scores,
)
from gnncal_lab.simulation.blocks import sample_block_edges

Means = Literal["one-hot", "simplex"]


@dataclass(frozen=True)
class GraphSample:
    """A graph drawn from the model, with node features.

    Attributes
    ----------
    graph : Graph
        The graph, with features.
    labels : ndarray of shape (n_nodes,)
        Classes 0..K-1.
    homophily : ndarray of shape (n_nodes,)
        The probability h_i that a neighbour of i has the class of i.

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal_lab.simulation import CSBM
    >>> sample = CSBM(n_classes=3).sample(np.full(1000, 0.7))
    >>> senders, receivers = sample.graph.edge_index
    >>> round(float((sample.labels[senders] == sample.labels[receivers]).mean()), 1)
    0.7

    """

    graph: Graph
    labels: IntArray
    homophily: FloatArray


@dataclass(frozen=True)
class PopulationSample:
    """Nodes whose neighbourhoods have exactly their expected composition.

    Attributes
    ----------
    scores : ndarray of shape (n_nodes, n_classes)
        Class-template scores s.
    labels : ndarray of shape (n_nodes,)
        Classes 0..K-1.
    homophily : ndarray of shape (n_nodes,)
        Homophily of each node.
    posterior : ndarray of shape (n_nodes, n_classes)
        The exact Bayes probabilities.

    Examples
    --------
    The confidence of the exact posterior is as high as its accuracy:

    >>> import numpy as np
    >>> from gnncal_lab.simulation import CSBM
    >>> sample = CSBM(n_classes=3, separation=0.5).sample_population(np.full(20_000, 0.6))
    >>> correct = sample.posterior.argmax(axis=1) == sample.labels
    >>> round(float(sample.posterior.max(axis=1).mean()), 2), round(float(correct.mean()), 2)
    (0.56, 0.56)

    """

    scores: FloatArray
    labels: IntArray
    homophily: FloatArray
    posterior: FloatArray


@dataclass(frozen=True)
class CSBM:
    """A contextual stochastic block model, from which graphs with known homophily are drawn.

    A node's features are normal around the mean of its class, and a neighbour has the node's class
    with probability h. Defaults are those of the paper's released code.

    Parameters
    ----------
    n_classes : int, default=5
        The number of classes K.
    mean_degree : float, default=10.0
        The expected number of neighbours d.
    separation : float, default=2.0
        Length of the class means mu_c.
    sigma : float, default=1.0
        Standard deviation of every feature.
    n_features : int, default=16
        Number of dimensions; features beyond those that carry the means are noise.
    means : {"one-hot", "simplex"}, default="one-hot"
        ``"one-hot"`` has mu_c along axis c, ``"simplex"`` a regular simplex around the origin, in
        K - 1 dimensions. Either way all classes are equally far apart.
    degree_spread : float, default=0.0
        Standard deviation of the logarithm of a node's expected degree; 0 for Poisson degrees. Only
        ``sample`` knows it: ``bayes`` and ``sample_population`` are those of nodes whose degree is
        ``mean_degree``, and ``sample_undirected`` refuses it.

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal_lab.simulation import CSBM
    >>> sample = CSBM(n_classes=3, mean_degree=8).sample(np.full(1000, 0.7))
    >>> sample.graph.n_nodes, round(sample.graph.n_edges / 1000, 1)
    (1000, 7.9)

    """

    n_classes: int = 5
    mean_degree: float = 10.0
    separation: float = 2.0
    sigma: float = 1.0
    n_features: int = 16
    means: Means = "one-hot"
    degree_spread: float = 0.0

    def __post_init__(self) -> None:
        _check_count("n_classes", self.n_classes, at_least=2)
        _check_count("n_features", self.n_features, at_least=1)
        for name in ("sigma", "separation"):
            value = getattr(self, name)
            if not (np.isfinite(value) and value > 0):
                raise InputError(f"{name} is {value}; expected a positive number.")
        for name in ("mean_degree", "degree_spread"):
            value = getattr(self, name)
            if not (np.isfinite(value) and value >= 0):
                raise InputError(f"{name} is {value}; expected a number of at least 0.")
        if self.means not in ("one-hot", "simplex"):
            raise InputError(f"means is {self.means!r}; expected 'one-hot' or 'simplex'.")
        needed = self.n_classes if self.means == "one-hot" else self.n_classes - 1
        if self.n_features < needed:
            raise InputError(
                f"n_features is {self.n_features}; {self.means} means of {self.n_classes} classes "
                f"need at least {needed}."
            )

    @classmethod
    def from_edge_probabilities(
        cls, p_in: float, p_out: float, *, n_nodes: int, n_classes: int = 5, **options: Any
    ) -> tuple[Self, float]:
        """Return the model and the homophily that belong to given edge probabilities.

        The mean degree is d = n/K (p_in + (K - 1) p_out), and h = p_in / (p_in + (K - 1) p_out).
        p_in = p_out is allowed. Then h = 1/K, and a neighbourhood says nothing about the class.

        Parameters
        ----------
        p_in : float
            Probability of an edge between two nodes of one class.
        p_out : float
            Probability of an edge between two nodes of different classes.
        n_nodes : int
            Number of nodes n.
        n_classes : int, default=5
            Number of classes K.
        **options : Any
            Other parameters of the model.

        Returns
        -------
        model : CSBM
            The model.
        homophily : float
            The homophily h.

        Raises
        ------
        InputError
            If these are no probabilities, or both are zero.

        """
        if not (0 <= p_in <= 1 and 0 <= p_out <= 1 and p_in + p_out > 0):
            raise InputError(
                f"p_in is {p_in} and p_out {p_out}; expected probabilities, not both 0."
            )
        _check_count("n_classes", n_classes, at_least=2)
        _check_count("n_nodes", n_nodes, at_least=1)
        total = p_in + (n_classes - 1) * p_out
        model = cls(n_classes=n_classes, mean_degree=n_nodes / n_classes * total, **options)
        return model, p_in / total

    @property
    def class_means(self) -> FloatArray:
        """mu, shape (n_classes, n_features)."""
        means = np.zeros((self.n_classes, self.n_features))
        if self.means == "one-hot":
            np.fill_diagonal(means, self.separation)
            return means
        centred = np.eye(self.n_classes) - 1.0 / self.n_classes
        # The eigenvectors of the centring matrix with eigenvalue one span the simplex.
        corners = np.linalg.eigh(centred)[1][:, 1:]
        length = np.sqrt(1.0 - 1.0 / self.n_classes)
        means[:, : self.n_classes - 1] = corners * (self.separation / length)
        return means

    @property
    def bayes(self) -> BayesRule:
        """The exact Bayes rule where degree and composition sit at their expected values.

        The degree of every node is ``mean_degree``; a ``degree_spread`` is not part of it.
        """
        shrink = 1.0 - 1.0 / self.n_classes if self.means == "one-hot" else 1.0
        rho_0 = self.separation * np.sqrt(shrink)
        return BayesRule(self.n_classes, self.mean_degree, self.sigma, float(rho_0))

    def scores(self, aggregate: Any) -> FloatArray:
        """Return the class-template scores of aggregated features.

        Parameters
        ----------
        aggregate : array_like of shape (n, n_features)
            Mean of the features over a node and its neighbours.

        Returns
        -------
        ndarray of shape (n, n_classes)
            Scores s; their softmax at the Bayes temperature is the posterior.

        Raises
        ------
        InputError
            If the aggregates have another shape.

        """
        return template_scores(aggregate, self.class_means)

    def edge_probabilities(self, n_nodes: int, homophily: float) -> tuple[float, float]:
        """Return the edge probabilities that give the mean degree and a homophily.

        p_in = h d K / n and p_out = (1 - h) d K / (n (K - 1)).

        Parameters
        ----------
        n_nodes : int
            Number of nodes n.
        homophily : float
            The homophily h.

        Returns
        -------
        p_in : float
            Probability of an edge between two nodes of one class.
        p_out : float
            Probability of an edge between two nodes of different classes.

        Raises
        ------
        InputError
            If a probability would exceed one.

        """
        _check_count("n_nodes", n_nodes, at_least=1)
        shares = check_homophily(homophily)
        if shares.ndim:
            raise InputError(
                f"homophily has shape {shares.shape}; independent edges have one number for all "
                "nodes, use sample(homophily) for one homophily for each node."
            )
        h = float(shares)
        per_class = n_nodes / self.n_classes
        p_in = h * self.mean_degree / per_class
        p_out = (1.0 - h) * self.mean_degree / (per_class * (self.n_classes - 1))
        if max(p_in, p_out) > 1:
            raise InputError(
                f"a mean degree of {self.mean_degree} at homophily {h} is impossible with "
                f"{n_nodes} nodes: it needs edge probabilities {p_in:.3g} within and {p_out:.3g} "
                "between classes; take more nodes or a smaller degree."
            )
        return p_in, p_out

    def sample(self, homophily: Any, *, random_state: int = 0) -> GraphSample:
        """Draw a graph in which each node has its own homophily.

        Each node draws a Poisson number of senders by its own h_i, so edges are directed towards
        it and every node has the homophily it was given. Time and memory are linear in the edges.

        Senders are drawn with replacement: where the degree is not small against the nodes of a
        class, some edges are parallel. An edge to the node itself or to a class without nodes is
        left out.

        Parameters
        ----------
        homophily : array_like of shape (n_nodes,)
            Homophily h_i of each node, in [0, 1].
        random_state : int, default=0
            Seed of the draw.

        Returns
        -------
        GraphSample
            Graph with features, labels and homophily.

        Raises
        ------
        InputError
            If the homophily cannot be used.

        """
        h = check_node_homophily(homophily)
        n_nodes = h.size
        if self.mean_degree > n_nodes - 1:
            raise InputError(
                f"a mean degree of {self.mean_degree} is impossible with {n_nodes} nodes, which "
                f"have {n_nodes - 1} others; take more nodes or a smaller degree."
            )
        generator = np.random.default_rng(random_state)
        labels = generator.integers(self.n_classes, size=n_nodes)
        degrees = generator.poisson(self._expected_degrees(n_nodes, generator), n_nodes)
        receivers = np.repeat(np.arange(n_nodes), degrees)
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
        edges = np.stack([senders[keep], receivers[keep]])
        return GraphSample(Graph(edges, n_nodes, self._features(labels, generator)), labels, h)

    def sample_undirected(
        self, n_nodes: int, homophily: float, *, random_state: int = 0
    ) -> GraphSample:
        """Draw an undirected graph of independent edges, with one homophily for all nodes.

        The probability of an edge is p_in within and p_out between classes. A node cannot be its
        own neighbour, which lowers the realised homophily and degree by a share of about K / n.

        Parameters
        ----------
        n_nodes : int
            Number of nodes.
        homophily : float
            Homophily h, in [0, 1].
        random_state : int, default=0
            Seed of the draw.

        Returns
        -------
        GraphSample
            Graph with features, labels and homophily.

        Raises
        ------
        InputError
            If the model has a ``degree_spread``, or the homophily cannot be used.

        """
        if self.degree_spread:
            raise InputError("independent edges have no degree_spread; use sample(homophily).")
        p_in, p_out = self.edge_probabilities(n_nodes, homophily)
        generator = np.random.default_rng(random_state)
        labels = generator.integers(self.n_classes, size=n_nodes)
        pairs = sample_block_edges(labels, p_in, p_out, generator)
        edges = np.concatenate([pairs, pairs[::-1]], axis=1)
        graph = Graph(edges, n_nodes, self._features(labels, generator))
        return GraphSample(graph, labels, np.full(n_nodes, float(homophily)))

    def sample_population(self, homophily: Any, *, random_state: int = 0) -> PopulationSample:
        """Draw nodes from the population-concentration model of the paper's appendix.

        Degree and composition sit at their expected values, so the score vector of a node of class
        c is Gaussian around Gamma(h) * cos(angle between m_c and m_k), and the posterior is exact.
        The sample has no graph and ignores ``degree_spread``.

        Parameters
        ----------
        homophily : array_like of shape (n_nodes,)
            Homophily of each node, in [0, 1].
        random_state : int, default=0
            Seed of the draw.

        Returns
        -------
        PopulationSample
            Scores, labels, homophily and the exact posterior.

        """
        h = check_node_homophily(homophily)
        bayes = self.bayes
        generator = np.random.default_rng(random_state)
        labels = generator.integers(self.n_classes, size=h.size)
        templates = np.eye(self.n_classes) - 1.0 / self.n_classes
        templates /= np.sqrt(1.0 - 1.0 / self.n_classes)  # m_c / rho_0 on the span of the means
        noise = generator.normal(0.0, np.sqrt(bayes.v), (h.size, self.n_classes))
        centred = bayes.signal(h)[:, None] * templates[labels] + noise
        scores = centred @ templates
        return PopulationSample(scores, labels, h, bayes.posterior(scores, h))

    def _expected_degrees(self, n_nodes: int, generator: np.random.Generator) -> FloatArray | float:
        if self.degree_spread == 0:
            return self.mean_degree
        spread = self.degree_spread
        return self.mean_degree * generator.lognormal(-(spread**2) / 2.0, spread, n_nodes)

    def _features(self, labels: IntArray, generator: np.random.Generator) -> FloatArray:
        features = generator.normal(0.0, self.sigma, (labels.size, self.n_features))
        features += self.class_means[labels]
        return features.astype(np.float32)


def _check_count(name: str, value: Any, *, at_least: int) -> None:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < at_least:
        raise InputError(f"{name} is {value!r}; expected a whole number of at least {at_least}.")
