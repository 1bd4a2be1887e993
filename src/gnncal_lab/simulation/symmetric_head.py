"""The linear classifier of appendix A.4 and its average over all permutations of the classes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax

from gnncal.data.arrays import FloatArray, IntArray
from gnncal.data.probability import softmax
from gnncal_lab.simulation.csbm import CSBM
from gnncal_lab.simulation.estimate import Estimate, log_slope, over_seeds
from gnncal_lab.simulation.neighbourhoods import span_coordinates
from gnncal_lab.simulation.streams import stream

N_JUDGED = 20_000  # nodes on which the risk of a head is measured


@dataclass(frozen=True)
class HeadRecord:
    """Linear heads W trained on more and more nodes, against their symmetrised versions."""

    n_trained: IntArray  # (n_sizes,) nodes that the head is trained on
    asymmetry: Estimate  # (n_sizes,) |W - W_sym| / |W|, zero for a class-equivariant head
    slope: Estimate  # exponent of the asymmetry in the number of nodes; NaN below two sizes
    excess: Estimate  # (n_sizes,) risk of W minus risk of its symmetrised version, nats


def symmetric_head(
    model: CSBM, homophily: tuple[float, ...], sizes: tuple[int, ...], n_seeds: int
) -> HeadRecord:
    """Train a linear head on aggregates of mixed homophily, and average it over permutations."""
    means = span_coordinates(model.class_means)
    found = np.array(
        [
            [_measure(model, means, homophily, size, seed) for size in sizes]
            for seed in range(n_seeds)
        ]
    )  # (n_seeds, n_sizes, 2)
    n_trained = np.array(sizes)
    return HeadRecord(
        n_trained=n_trained,
        asymmetry=over_seeds(found[:, :, 0]),
        slope=over_seeds(np.array([log_slope(n_trained, row) for row in found[:, :, 0]])),
        excess=over_seeds(found[:, :, 1]),
    )


def symmetrised(head: FloatArray, means: FloatArray) -> FloatArray:
    r"""Return the mean of P W R^-1 over all permutations of the classes, shape (K, K - 1)."""
    n_classes = len(means)
    weights = head @ np.linalg.pinv(means)  # (K, K)
    diagonal = np.trace(weights) / n_classes
    off_diagonal = (weights.sum() - np.trace(weights)) / (n_classes * (n_classes - 1))
    return np.asarray((diagonal - off_diagonal) * means)


def train_head(x: FloatArray, labels: IntArray, n_classes: int) -> FloatArray:
    """The linear head W (K, F) without a bias that minimises the log loss of softmax(x W^T)."""
    hot = np.eye(n_classes)[labels]

    def loss(flat: FloatArray) -> tuple[float, FloatArray]:
        logits = x @ flat.reshape(n_classes, -1).T
        gradient = (softmax(logits) - hot).T @ x / len(x)
        return float(-(hot * log_softmax(logits, axis=1)).sum() / len(x)), gradient.ravel()

    start = np.zeros(n_classes * x.shape[1])
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"gtol": 1e-8})
    head = found.x.reshape(n_classes, -1)
    return np.asarray(head - head.mean(axis=0))  # a common shift of all logits means nothing


def _measure(
    model: CSBM, means: FloatArray, homophily: tuple[float, ...], size: int, seed: int
) -> tuple[float, float]:
    x, labels = _draw(model, means, homophily, size, stream(f"head {size}", seed))
    head = train_head(x, labels, model.n_classes)
    even = symmetrised(head, means)
    judged, _ = _draw(model, means, homophily, N_JUDGED, stream("judged", seed))
    truth = _posterior(model, means, homophily, judged)
    risk, even_risk = (
        float(-(truth * log_softmax(judged @ w.T, axis=1)).sum(axis=1).mean()) for w in (head, even)
    )
    return float(np.linalg.norm(head - even) / np.linalg.norm(head)), risk - even_risk


def _draw(
    model: CSBM,
    means: FloatArray,
    homophily: tuple[float, ...],
    n_nodes: int,
    generator: np.random.Generator,
) -> tuple[FloatArray, IntArray]:
    """Aggregates x (n, K - 1) of nodes with expected neighbourhoods, and their labels."""
    bayes = model.bayes
    labels = generator.integers(model.n_classes, size=n_nodes)
    strength = bayes.signal(generator.choice(np.array(homophily), n_nodes)) / bayes.rho_0
    noise = generator.normal(0.0, np.sqrt(bayes.v), (n_nodes, means.shape[1]))
    return strength[:, None] * means[labels] + noise, labels


def _posterior(
    model: CSBM, means: FloatArray, homophily: tuple[float, ...], x: FloatArray
) -> FloatArray:
    """P(class | x) when h is not known: every level is equally likely."""
    bayes = model.bayes
    strength = bayes.signal(np.array(homophily)) / bayes.rho_0  # (n_levels,)
    # |x|^2 is the same for all classes and levels, |a m_c|^2 only for all classes
    exponent = strength[:, None] * (x @ means.T)[:, None, :] / bayes.v
    exponent -= (strength**2 * bayes.rho_0**2 / (2.0 * bayes.v))[:, None]
    return softmax(np.logaddexp.reduce(exponent, axis=1))
