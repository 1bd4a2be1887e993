"""The contextual stochastic block model that the paper's law comes from.

K classes with a uniform prior; a node of class c has features N(mu_c, sigma^2 I) with equidistant
means; a neighbour of node i has i's class with probability h_i, and each other class with equal
probability. There are three kinds of samples: a graph in which every node has its own homophily, an
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
        Class-template scores s (see :class:`BayesRule`).
    labels : ndarray of shape (n_nodes,)
        Classes 0..K-1.
    homophily : ndarray of shape (n_nodes,)
        Homophily of each node.
    posterior : ndarray of shape (n_nodes, n_classes)
        The exact Bayes probabilities.

    Examples
    --------
    The exact posterior is calibrated, so its mean confidence equals its accuracy:

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

    A node's features are normally distributed around the mean of its class, and a neighbour has the
    node's class with probability h. The defaults are those of the paper's released code.

    Parameters
    ----------
    n_classes : int, default=5
        The number of classes K.
    mean_degree : float, default=10.0
        The expected number of neighbours d.
    separation : float, default=2.0
        Length of mu_c, the mean feature vector of class c.
    sigma : float, default=1.0
        Standard deviation of every feature.
    n_features : int, default=16
        Number of features; dimensions that the class means do not use are noise.
    means : {"one-hot", "simplex"}, default="one-hot"
        ``"one-hot"``: mu_c lies on axis c. ``"simplex"``: the means are a regular simplex around
        the origin, in K - 1 dimensions. In both cases all classes are equally far apart.
    degree_spread : float, default=0.0
        Standard deviation of the logarithm of a node's expected degree; 0 gives Poisson degrees.
        Only ``sample`` uses it: ``bayes`` and ``sample_population`` assume degree ``mean_degree``
        for all nodes, and ``sample_undirected`` raises an error.

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
        """Return the model and the homophily of given edge probabilities.

        The mean degree is d = n/K (p_in + (K - 1) p_out), and h = p_in / (p_in + (K - 1) p_out).
        If p_in = p_out, then h = 1/K, and neighbours carry no information about the class.

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
        """The class means mu_c as rows, (n_classes, n_features)."""
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
        """The exact Bayes rule for neighbourhoods of expected degree and composition.

        Every node has degree ``mean_degree``; ``degree_spread`` is ignored.
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

        """
        return template_scores(aggregate, self.class_means)

    def edge_probabilities(self, n_nodes: int, homophily: float) -> tuple[float, float]:
        """Return the edge probabilities for the model's mean degree and a given homophily.

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

        Node i draws a Poisson number of senders, each of its own class with probability h_i. Edges
        lead from a sender to the node, so every node keeps its own homophily. Time and memory are
        linear in the number of edges.

        Senders are drawn with replacement, so there are parallel edges if the degree is not small
        compared with the size of a class. Self-loops and senders of empty classes are left out.

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

        The probability of an edge is p_in within classes and p_out between them. There are no
        self-loops, so the realised homophily and degree are lower by a share of about K / n.

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

        Degree and composition of each neighbourhood equal their expected values. Score s_k of a
        node of class c is then Gaussian with mean Gamma(h) times the cosine of the angle between
        m_c and m_k, and the posterior is exact (symbols: :class:`BayesRule`). The sample has no
        graph and ignores ``degree_spread``.

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
