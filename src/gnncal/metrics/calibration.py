"""Calibration errors: how far confidence is from accuracy."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from scipy.special import ndtr

from gnncal.data import predictions as probability
from gnncal.data.arrays import FloatArray
from gnncal.data.errors import InputError
from gnncal.metrics.binning import (
    DEFAULT_BINS,
    N_CELLS,
    Cells,
    Norm,
    Strategy,
    bin_edges,
    bin_index,
    error_of,
    fill_cells,
    reliability_bins,
    smooth_error,
    smoothing_cell,
)
from gnncal.metrics.outcomes import Outcomes

Debias = Literal["kumar"]


def expected_calibration_error(
    labels: Any,
    probs: Any,
    *,
    n_bins: int = DEFAULT_BINS,
    strategy: Strategy = "uniform",
    norm: Norm = "l1",
    debias: Debias | None = None,
) -> float:
    r"""ECE: the mean gap between confidence and accuracy over bins of confidence.

    .. math:: \Big(\sum_b \tfrac{n_b}{n} \, |\mathrm{conf}_b - \mathrm{acc}_b|^q\Big)^{1/q}

    Parameters
    ----------
    labels, probs : array_like
        Labels (n_nodes,) and probabilities (n_nodes, n_classes) of the nodes.
    n_bins : int, default=15
        Number of bins.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width, or with equally many nodes.
    norm : {"l1", "l2", "max"}, default="l1"
        Exponent q = 1 or 2; ``"max"`` is the largest gap.
    debias : {"kumar"}, optional
        Correct for the upward bias of small bins. For l2, a bin's squared gap loses its sampling
        variance acc (1 - acc) / (n_b - 1). For l1, it loses the bias ``E|gap + noise| - |gap|`` of
        normal noise with variance acc (1 - acc) / n_b. Bins of one node, whose variance is unknown,
        count as zero.

    Returns
    -------
    float
        The error, between 0 and 1.

    Raises
    ------
    InputError
        If ``debias`` is unknown or does not go with ``norm``, or an array cannot be used.

    References
    ----------
    Naeini, Cooper, Hauskrecht, "Obtaining well calibrated probabilities using Bayesian binning"
    (AAAI 2015). Kumar, Liang, Ma, "Verified uncertainty calibration" (NeurIPS 2019) for ``debias``.

    Examples
    --------
    A model that says 0.9 and is right three times out of four:

    >>> from gnncal.metrics import expected_calibration_error
    >>> round(expected_calibration_error([0, 0, 0, 1], [[0.9, 0.1]] * 4), 2)
    0.15

    """
    bins = reliability_bins(labels, probs, n_bins=n_bins, strategy=strategy)
    if debias is None:
        return error_of(bins, norm)
    if debias != "kumar":
        raise InputError(f"debias is {debias!r}; expected None or 'kumar'.")
    return _kumar(bins, norm)


def classwise_error_of(
    outcomes: Outcomes,
    n_bins: int = DEFAULT_BINS,
    strategy: Strategy = "uniform",
    norm: Norm = "l1",
) -> float:
    """Mean over classes of the error of their probability (Kull et al., NeurIPS 2019)."""
    errors = []
    edges = bin_edges(outcomes.confidence, n_bins, strategy)
    for c, column in enumerate(outcomes.probs.T):
        values = column.astype(np.float64)
        if strategy != "uniform":  # equally wide bins are the same for every class
            edges = bin_edges(values, n_bins, strategy)
        hits = (outcomes.labels == c).astype(np.float64)
        cells = fill_cells(values, hits, bin_index(values, edges), len(edges) - 1)
        errors.append(error_of(cells, norm))
    return float(np.mean(errors))


def smooth_calibration_error(labels: Any, probs: Any) -> float:
    """SmECE: a calibration error that needs no bins.

    The residuals (correct - confidence) are smoothed along the confidence axis by a Gaussian
    reflected at 0 and 1; the error is the integral of their absolute value at the bandwidth that
    equals it.

    Parameters
    ----------
    labels, probs : array_like
        Labels (n_nodes,) and probabilities (n_nodes, n_classes) of the nodes.

    Returns
    -------
    float
        The error, between 0 and 1.

    References
    ----------
    Błasiok, Nakkiran, "Smooth ECE: principled reliability diagrams via kernel smoothing" (ICLR
    2024).

    Examples
    --------
    >>> from gnncal.metrics import smooth_calibration_error
    >>> round(smooth_calibration_error([0, 0, 0, 1], [[0.9, 0.1]] * 4), 2)
    0.15

    """
    return smooth_error_of(Outcomes(labels, probs))


def smooth_error_of(outcomes: Outcomes) -> float:
    """:func:`smooth_calibration_error` of checked outcomes."""
    confidence = outcomes.confidence
    residual = (outcomes.correct - confidence) / len(confidence)
    cell = smoothing_cell(confidence)
    mass: FloatArray = np.bincount(cell, weights=residual, minlength=N_CELLS).astype(np.float64)
    return float(smooth_error(mass[:, None])[0])


def _kumar(bins: Cells, norm: Norm) -> float:
    filled = bins.count > 1
    count, gap, accuracy = bins.count[filled], bins.gap[filled], bins.accuracy[filled]
    share = count / bins.count.sum()
    variance: FloatArray = accuracy * (1.0 - accuracy)
    if norm == "l2":
        return float(np.sqrt(max(0.0, (share * (gap**2 - variance / (count - 1))).sum())))
    if norm == "l1":
        spread = np.sqrt(variance / count)
        size = np.abs(gap)
        ratio = np.divide(size, spread, out=np.full_like(size, np.inf), where=spread > 0)
        # Mean of a folded normal distribution around the observed gap.
        density = np.exp(-(ratio**2) / 2.0) / np.sqrt(2.0 * np.pi)
        folded = 2 * spread * density + size * (1.0 - 2.0 * ndtr(-ratio))
        return float(max(0.0, (share * (2 * size - folded)).sum()))
    raise InputError(f"norm is {norm!r}; debias='kumar' is defined for 'l1' and 'l2' only.")


NODES_PER_BLOCK = 1 << 14


def log_losses(outcomes: Outcomes) -> FloatArray:
    """-ln p of each node's label, with p clipped below at 1e-12; shape (n_nodes,)."""
    return probability.log_losses(outcomes.probs, outcomes.labels)


def squared_errors(outcomes: Outcomes) -> FloatArray:
    """Sum over classes of (p - onehot)^2 for each node; shape (n_nodes,)."""
    errors = np.empty(len(outcomes.labels))
    for start in range(0, len(errors), NODES_PER_BLOCK):  # a float64 copy of all would be large
        block = slice(start, start + NODES_PER_BLOCK)
        residual = outcomes.probs[block].astype(np.float64)
        residual[np.arange(len(residual)), outcomes.labels[block]] -= 1.0
        errors[block] = np.einsum("ik,ik->i", residual, residual)
    return errors
