"""Calibration errors: how far confidence is from accuracy."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.fft import dct, idct
from scipy.optimize import brentq

from gnncal.data.arrays import FloatArray
from gnncal.metrics.binning import (
    DEFAULT_BINS,
    Norm,
    Strategy,
    error_of,
    reliability_bins,
    reliability_of,
)
from gnncal.metrics.outcomes import Outcomes

NODES_PER_BLOCK = 1 << 14
N_CELLS = 1000  # resolution of the smooth error, far finer than the bandwidths that are picked


def expected_calibration_error(
    labels: Any,
    probs: Any,
    *,
    n_bins: int = DEFAULT_BINS,
    strategy: Strategy = "uniform",
    norm: Norm = "l1",
) -> float:
    r"""Return the ECE: the mean gap between confidence and accuracy over bins of confidence.

    .. math:: \Big(\sum_b \tfrac{n_b}{n} \, |\mathrm{conf}_b - \mathrm{acc}_b|^q\Big)^{1/q}

    Bin b has :math:`n_b` of the n nodes; conf and acc are their mean confidence and accuracy.

    Parameters
    ----------
    norm : {"l1", "l2", "max"}, default="l1"
        The exponent q: 1, 2 or infinity. ``"max"`` gives the largest gap of a bin.

    References
    ----------
    Naeini, Cooper, Hauskrecht, "Obtaining well calibrated probabilities using Bayesian binning"
    (AAAI 2015).

    Examples
    --------
    A model with confidence 0.9 and accuracy 0.75:

    >>> from gnncal.metrics import expected_calibration_error
    >>> round(expected_calibration_error([0, 0, 0, 1], [[0.9, 0.1]] * 4), 2)
    0.15

    """
    return error_of(reliability_bins(labels, probs, n_bins=n_bins, strategy=strategy), norm)


def classwise_error_of(outcomes: Outcomes) -> float:
    """Mean over classes of the error of their probability (Kull et al., NeurIPS 2019)."""
    errors = []
    for c, column in enumerate(outcomes.probs.T):
        has_class = (outcomes.labels == c).astype(np.float64)
        bins = reliability_of(column.astype(np.float64), has_class, DEFAULT_BINS, "uniform")
        errors.append(bins.error)
    return float(np.mean(errors))


def smooth_error_of(outcomes: Outcomes) -> float:
    """SmECE, a calibration error that needs no bins (Błasiok, Nakkiran, ICLR 2024)."""
    # Residuals are smoothed along the confidence by a Gaussian reflected at 0 and 1; the error is
    # the integral of their absolute value at the bandwidth that equals it.
    confidence = outcomes.confidence
    residual = (outcomes.correct - confidence) / len(confidence)
    cell = np.minimum((confidence * N_CELLS).astype(np.int64), N_CELLS - 1)
    mass = np.bincount(cell, weights=residual, minlength=N_CELLS)
    spectrum, frequency = dct(mass, norm="ortho"), np.pi * np.arange(N_CELLS)

    def excess(bandwidth: float) -> float:
        damping = np.exp(-0.5 * (bandwidth * frequency) ** 2)
        return float(np.abs(idct(spectrum * damping, norm="ortho")).sum()) - bandwidth

    return float(brentq(excess, 0.0, 1.0)) if excess(1.0) < 0 else 1.0


def squared_errors(outcomes: Outcomes) -> FloatArray:
    """Sum over classes of (p - onehot)^2 for each node; shape (n_nodes,)."""
    errors = np.empty(len(outcomes.labels))
    for start in range(0, len(errors), NODES_PER_BLOCK):  # a float64 copy of all would be large
        block = slice(start, start + NODES_PER_BLOCK)
        residual = outcomes.probs[block].astype(np.float64)
        residual[np.arange(len(residual)), outcomes.labels[block]] -= 1.0
        errors[block] = np.einsum("ik,ik->i", residual, residual)
    return errors
