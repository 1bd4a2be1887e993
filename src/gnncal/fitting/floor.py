r"""How certain a probability may be: the weight of a background that predictions are mixed with.

.. math:: p' = (1 - \varepsilon) p + \varepsilon q

The weight has the prior Beta(1, √n) on n labelled nodes, and its posterior mean is taken: at least
1/(n + √n + 1), and more where labels contradict p. ``benchmarks/choose_free.py`` chose the prior.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gnncal.core.arrays import FloatArray, IntArray

NEGLIGIBLE = 40.0  # the density falls by e^-40 at the ends of the interval that is integrated
N_HALVINGS = 50
PLACES, WEIGHTS = np.polynomial.legendre.leggauss(100)
SMALLEST, LARGEST = 1e-300, 1.0 - 1e-9  # what p and epsilon may be


def class_shares(labels: IntArray, n_classes: int, weights: FloatArray | None = None) -> FloatArray:
    """Return the share of each class; √n more nodes of each keep all of them above zero."""
    counts = np.bincount(labels, weights, minlength=n_classes).astype(np.float64)
    counts += np.sqrt(counts.sum())
    return counts / counts.sum()


def floor_of(
    probs: FloatArray,
    labels: IntArray,
    background: FloatArray,
    weights: FloatArray | None = None,
    doubt: float | None = None,
) -> FloatArray:
    """Return what each class gets at least, (n_classes,): epsilon times the background."""
    if doubt is None:
        doubt = float(np.sqrt(len(labels) if weights is None else weights.sum()))
    at_label = probs[np.arange(len(labels)), labels].astype(np.float64)
    return mixing_weight(at_label, background[labels], weights, doubt) * background


def mixing_weight(
    p: FloatArray, q: FloatArray, weights: FloatArray | None = None, doubt: float = 1.0
) -> float:
    """Return the posterior mean of epsilon, from what p and q (n,) give to the labels."""
    w = np.ones(len(p)) if weights is None else weights
    p = np.maximum(p, SMALLEST)
    change = q - p

    def log_density(epsilon: float) -> float:
        mixed = np.maximum(p + epsilon * change, SMALLEST)
        return float(w @ np.log(mixed)) + (doubt - 1.0) * float(np.log1p(-epsilon))

    def rises(epsilon: float) -> bool:
        mixed = np.maximum(p + epsilon * change, SMALLEST)
        return float(w @ (change / mixed)) * (1.0 - epsilon) > doubt - 1.0

    mode = _last(rises, 0.0, LARGEST)
    lowest = log_density(mode) - NEGLIGIBLE
    end = _last(lambda epsilon: log_density(epsilon) > lowest, mode, LARGEST)
    start = mode - _last(lambda back: log_density(mode - back) > lowest, 0.0, mode)
    epsilons = start + 0.5 * (end - start) * (PLACES + 1.0)
    logs = np.array([log_density(epsilon) for epsilon in epsilons])
    density = WEIGHTS * np.exp(logs - logs.max())
    return float(density @ epsilons / density.sum())


def _last(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Return the last place where something holds that holds from ``low`` on, before ``high``."""
    for _ in range(N_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
