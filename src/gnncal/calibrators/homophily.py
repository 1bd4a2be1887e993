"""Homophily, the share of a node's neighbours that have its class: estimators, and their names.

The paper's predictor is a two-layer GCN with hand-written gradients:

.. math:: \\hat h = \\sigma(\\hat A \\, \\mathrm{ReLU}(\\hat A X W_1 + b_1) w_2 + b_2)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from functools import cache
from importlib.metadata import EntryPoints, entry_points
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.special import expit

from gnncal.data.arrays import FloatArray, IntArray, as_numpy
from gnncal.data.constraints import FLAG, Array, Constraint, LearnedTable, integer, number, one_of
from gnncal.data.errors import InputError
from gnncal.data.nodes import Nodes
from gnncal.data.probability import softmax
from gnncal.graph.graph import Features, Graph, Side
from gnncal.graph.neighbours import neighbour_class_share
from gnncal.math.solvers import Checkpoint, Objective, adam

Weights = dict[str, npt.NDArray[Any]]
SIDES = one_of("in", "out", "both")


class CannotLearnError(InputError):
    """The data lack what an estimator learns from; the message says what is missing."""


class HomophilyEstimator(ABC):
    """Base of estimators of homophily, the share of each node's neighbours that have its class.

    A subclass is a frozen dataclass whose fields are plain values. ``constraints`` declares the
    allowed values of each field, ``learned`` the names and shapes of the weights, ``name`` the name
    of the entry point.
    """

    name: ClassVar[str]
    constraints: ClassVar[dict[str, Constraint]] = {}
    learned: ClassVar[LearnedTable] = {}

    def __post_init__(self) -> None:
        for name, constraint in self.constraints.items():
            constraint.check(name, getattr(self, name))

    @property
    def saved_as(self) -> HomophilyEstimator:
        """The estimator that files and records name; a wrapper gives the one inside."""
        return self

    def __sklearn_clone__(self) -> Self:
        return self  # it cannot change, so a clone of its calibrator may hold it too

    @abstractmethod
    def learn(self, nodes: Nodes) -> Weights:
        """Return named arrays, all that ``estimate`` needs, from the labels that a fit may see."""

    @abstractmethod
    def estimate(self, weights: Weights, nodes: Nodes, *, is_fitted_graph: bool) -> FloatArray:
        """Return h^ of each node, in [0, 1]; NaN where there is nothing to estimate from.

        Parameters
        ----------
        weights : dict of str to ndarray
            What ``learn`` has returned.
        nodes : Nodes
            Logits, graph, and labels to rely on.
        is_fitted_graph : bool
            Whether this is the graph the weights were learned on.

        """


@dataclass(frozen=True, eq=False)
class Given(HomophilyEstimator):
    """Homophily that is known: one value for each node of the fitted graph."""

    values: Any
    name: ClassVar[str] = "given"

    def learn(self, nodes: Nodes) -> Weights:
        """Check the array; there is nothing to learn."""
        self._checked(nodes.n_nodes)
        return {}

    def estimate(self, weights: Weights, nodes: Nodes, *, is_fitted_graph: bool) -> FloatArray:
        """Return the array itself, on the graph it belongs to."""
        if not is_fitted_graph:
            raise InputError(
                "homophily was given as an array for the fitted graph, and this is another graph; "
                "fit with homophily='support' for predictions on new graphs."
            )
        return self._checked(nodes.n_nodes)

    def _checked(self, n_nodes: int) -> FloatArray:
        values = as_numpy(self.values)
        try:
            values = values.astype(np.float64) if values.dtype.kind != "c" else values
        except (TypeError, ValueError) as error:
            raise InputError(f"homophily must hold numbers, NaN if unknown ({error}).") from error
        if values.shape != (n_nodes,) or values.dtype.kind == "c":
            raise InputError(
                f"homophily has shape {values.shape} but there are {n_nodes} nodes; pass one "
                "number for each node."
            )
        known = values[~np.isnan(values)]
        if ((known < 0) | (known > 1)).any():
            raise InputError("homophily has values outside [0, 1]; pass shares, NaN if unknown.")
        return values


@dataclass(frozen=True)
class Support(HomophilyEstimator):
    r"""Mean probability that the neighbours give to a node's predicted class.

    .. math:: \hat h_i = \frac1{|N(i)|} \sum_{j \in N(i)} p_{j,\hat y_i}

    N(i) are the neighbours of node i, :math:`\hat y_i` its predicted class, p_j the uncalibrated
    probabilities of neighbour j.
    """

    side: Side = "in"  # whether senders, receivers or both are averaged over

    name: ClassVar[str] = "support"
    constraints: ClassVar[dict[str, Constraint]] = {"side": SIDES}

    def learn(self, nodes: Nodes) -> Weights:
        """Learn nothing: calibration and test nodes are treated alike."""
        return {}

    def estimate(self, weights: Weights, nodes: Nodes, *, is_fitted_graph: bool) -> FloatArray:
        """Average over the neighbours, once for these nodes."""
        return nodes.cached(support_of, self.side)


def support_of(nodes: Nodes, side: Side) -> FloatArray:
    """Mean probability (n_nodes,) that neighbours give to a node's predicted class."""
    share = nodes.neighbours.class_mean(softmax(nodes.logits), nodes.predictions, side)
    return np.where(nodes.neighbours.counts(side) > 0, share, np.nan)


SAMPLED_ROWS = 500  # enough to see how much Â X fills in
SPARSITY_BUDGET = 2.0  # keep sparse Â X only while it has at most this many times the entries of X


class Propagation:
    """Â of a graph, and products with Â X."""

    def __init__(self, graph: Graph, *, add_self_loops: bool) -> None:
        if graph.features is None:
            raise CannotLearnError(
                "the predictor needs node features, Graph(..., features=x), and the graph has no "
                "features"
            )
        self.adjacency = graph.normalised_adjacency(add_self_loops=add_self_loops)
        self.transposed = self.adjacency.T.tocsr()  # the backward pass reads it row by row
        features = graph.features.astype(np.float32)
        self.n_features = int(features.shape[1])
        self.factors = _propagated(self.adjacency, features)

    def forward(self, weight: FloatArray) -> FloatArray:
        """Â X W, shape (n_nodes, hidden)."""
        for factor in reversed(self.factors):
            weight = factor @ weight
        return weight

    def backward(self, gradient: FloatArray) -> FloatArray:
        """(Â X)^T G, shape (n_features, hidden)."""
        for factor in self.factors:
            gradient = factor.T @ gradient
        return gradient


def _propagated(matrix: sparse.csr_array, features: Features) -> tuple[Any, ...]:
    """Matrices whose product, in this order, is Â X: either Â X itself, or Â and X."""
    if sparse.issparse(features):
        rows = np.unique(np.linspace(0, matrix.shape[0] - 1, SAMPLED_ROWS).astype(np.int64))
        entries = (matrix[rows] @ features).nnz / len(rows)
        if entries > SPARSITY_BUDGET * max(features.nnz / features.shape[0], 1.0):
            return matrix, features
    return (matrix @ features,)


class Network:
    """The two-layer GCN on a flat float32 parameter vector, with its analytic gradient."""

    def __init__(self, propagation: Propagation, hidden: int) -> None:
        self.propagation = propagation
        self.shapes = {
            "input_weight": (propagation.n_features, hidden),
            "input_bias": (hidden,),
            "output_weight": (hidden,),
            "output_bias": (1,),
        }

    def initial(self, generator: np.random.Generator) -> FloatArray:
        """Glorot-uniform weights, zero biases."""
        n_features, hidden = self.shapes["input_weight"]
        first, second = np.sqrt(6 / (n_features + hidden)), np.sqrt(6 / (hidden + 1))
        weights = {name: np.zeros(shape) for name, shape in self.shapes.items()}
        weights["input_weight"] = generator.uniform(-first, first, (n_features, hidden))
        weights["output_weight"] = generator.uniform(-second, second, hidden)
        return self.flat(weights)

    def flat(self, weights: Weights) -> FloatArray:
        """Return one vector that holds the named arrays."""
        return np.concatenate([weights[name].ravel() for name in self.shapes]).astype(np.float32)

    def named(self, theta: FloatArray) -> Weights:
        """Views of a vector under their names."""
        sizes = [int(np.prod(shape)) for shape in self.shapes.values()]
        parts = np.split(theta, np.cumsum(sizes)[:-1])
        named = zip(self.shapes.items(), parts, strict=True)
        return {name: part.reshape(shape) for (name, shape), part in named}

    def forward(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the estimates (n_nodes,) and the hidden layer (n_nodes, hidden)."""
        weights = self.named(theta)
        hidden = self.propagation.forward(weights["input_weight"])
        hidden += weights["input_bias"]
        np.maximum(hidden, 0.0, out=hidden)
        output = self.propagation.adjacency @ (hidden @ weights["output_weight"])
        return expit(output + weights["output_bias"]), hidden

    def loss(self, supervised: IntArray, targets: FloatArray) -> Objective:
        """Return the mean squared error at the supervised nodes, as an objective for Adam."""
        wanted = targets.astype(np.float32)

        def objective(theta: FloatArray) -> tuple[float, FloatArray]:
            weights = self.named(theta)
            estimates, hidden = self.forward(theta)
            chosen = estimates[supervised]
            error = chosen - wanted
            output = np.zeros_like(estimates)  # dL / d(pre-sigmoid output)
            output[supervised] = 2.0 / error.size * error * chosen * (1.0 - chosen)
            sent = self.propagation.transposed @ output
            at_hidden = np.outer(sent, weights["output_weight"])
            at_hidden *= hidden > 0
            gradient = {
                "input_weight": self.propagation.backward(at_hidden),
                "input_bias": at_hidden.sum(axis=0),
                "output_weight": sent @ hidden,
                "output_bias": output.sum(keepdims=True),
            }
            return float(np.mean(error**2)), self.flat(gradient)

        return objective


@dataclass(frozen=True, kw_only=True)
class Predictor(HomophilyEstimator):
    """The paper's GCN on node features, trained on training and calibration labels.

    Its targets include calibration labels, so it estimates calibration nodes better than test
    nodes. ``gnncal_lab.homophily.CrossFitted`` avoids that.
    """

    side: Side = "out"  # whose labels the targets count; "out", of receivers, as released
    add_self_loops: bool = True  # to each node of the network's graph that has none
    checkpoint: Checkpoint = "matched"  # keep the weights of the best loss, or those a step later
    random_state: int = 0
    hidden: int = 32
    learning_rate: float = 1e-2
    weight_decay: float = 1e-4
    max_epochs: int = 200
    patience: int = 30

    name: ClassVar[str] = "predictor"
    constraints: ClassVar[dict[str, Constraint]] = {
        "side": SIDES,
        "add_self_loops": FLAG,
        "checkpoint": one_of("matched", "after-step"),
        "random_state": integer(at_least=0, at_most=2**32 - 1),
        "hidden": integer(at_least=1),
        "learning_rate": number(above=0),
        "weight_decay": number(at_least=0),
        "max_epochs": integer(at_least=1),
        "patience": integer(at_least=1),
    }
    learned: ClassVar = {
        "input_weight": Array("features hidden"),
        "input_bias": Array("hidden"),
        "output_weight": Array("hidden"),
        "output_bias": Array("1"),
    }

    @property
    def seed(self) -> int:
        """The seed that ``random_state`` stands for in scikit-learn's manner."""
        return int(np.random.RandomState(self.random_state).randint(2**31 - 1))

    def _targets(self, graph: Graph, known_labels: IntArray) -> FloatArray:
        """Share of a node's labelled neighbours that have its label, NaN without any."""
        is_known = known_labels >= 0
        return neighbour_class_share(
            graph, known_labels, known_labels, side=self.side, counted=is_known
        )

    def _train(self, propagation: Propagation, graph: Graph, known_labels: IntArray) -> Weights:
        """Fit the network to the homophily among the labels that are known, -1 elsewhere."""
        targets = self._targets(graph, known_labels)
        supervised = np.flatnonzero(~np.isnan(targets))
        if supervised.size == 0:
            raise CannotLearnError("no labelled node has a labelled neighbour")
        network = Network(propagation, self.hidden)
        run = adam(
            network.loss(supervised, targets[supervised]),
            network.initial(np.random.default_rng(self.seed)),
            max_epochs=self.max_epochs,
            patience=self.patience,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            checkpoint=self.checkpoint,
        )
        return network.named(run.parameters)

    def _run(self, weights: Weights, propagation: Propagation) -> FloatArray:
        """Return the homophily (n_nodes,) that a trained network predicts."""
        n_features, hidden = weights["input_weight"].shape
        if propagation.n_features != n_features:
            raise InputError(
                f"the homophily predictor was trained on {n_features} features but this graph "
                f"has {propagation.n_features}; pass the same features or use "
                "homophily='support'."
            )
        network = Network(propagation, hidden)
        return network.forward(network.flat(weights))[0]

    def learn(self, nodes: Nodes) -> Weights:
        """Train on every observed label."""
        graph = nodes.required_graph
        propagation = Propagation(graph, add_self_loops=self.add_self_loops)
        return self._train(propagation, graph, nodes.label_vector)

    def estimate(self, weights: Weights, nodes: Nodes, *, is_fitted_graph: bool) -> FloatArray:
        """Run the trained network on the graph and its features."""
        graph = nodes.required_graph
        return self._run(weights, Propagation(graph, add_self_loops=self.add_self_loops))


GROUP = "gnncal.homophily"  # of entry points, by which the laboratory adds its own


def make_estimator(homophily: Any) -> HomophilyEstimator:
    """Return the estimator that a value of ``homophily`` stands for; ``Given`` for an array."""
    if isinstance(homophily, HomophilyEstimator):
        return homophily
    if not isinstance(homophily, str):
        return Given(homophily)
    kind = find_estimator(homophily)
    if kind is None or kind is Given:
        names = ", ".join(["support", "predictor", *sorted(_declared().names)])
        raise InputError(f"homophily is {homophily!r}; expected one of {names}, or an array.")
    return kind()


def find_estimator(name: Any) -> type[HomophilyEstimator] | None:
    """Return the class that a name stands for; only the package that has it is imported."""
    own = next((kind for kind in (Support, Predictor, Given) if kind.name == name), None)
    return own or next((each.load() for each in _declared() if each.name == name), None)


@cache
def _declared() -> EntryPoints:
    """Return the estimators of other packages; reading the metadata of all takes long."""
    return entry_points(group=GROUP)


def name_of(estimator: HomophilyEstimator) -> str:
    """Return the name of an estimator's kind; that of the class where it has none."""
    kind = type(estimator.saved_as)
    return getattr(kind, "name", kind.__name__)


def to_plain(homophily: Any) -> dict[str, Any]:
    """Return an estimator as a dictionary: its name under ``"estimator"``, and all parameters."""
    estimator = make_estimator(homophily).saved_as
    name = name_of(estimator)
    if find_estimator(name) is not type(estimator):
        raise InputError(
            f"homophily is a {name}, which gnncal does not know by name; declare it as an entry "
            "point of the group gnncal.homophily."
        )
    parameters = {each.name: getattr(estimator, each.name) for each in fields(estimator)}  # type: ignore[arg-type]
    return {"estimator": name, **parameters}


def from_plain(plain: dict[str, Any]) -> HomophilyEstimator:
    """Return the estimator of a value that :func:`to_plain` made."""
    name, kind = plain["estimator"], find_estimator(plain["estimator"])
    if kind is None:
        raise InputError(f"unknown homophily estimator {name!r}; upgrade gnncal to read it.")
    return kind(**{key: value for key, value in plain.items() if key != "estimator"})
