"""Histogram binning (Zadrozny, Elkan 2001), one-vs-rest with equally full bins."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from gnncal import Nodes
from gnncal.calibrators import Array, FitReport, PointwiseCalibrator, integer
from gnncal_lab.arrays import FloatArray
from gnncal_lab.fitting.formulas import softmax


class HistogramBinning(PointwiseCalibrator):
    r"""Replace each class's probability by the frequency of that class in its bin.

    .. math:: p'_{ic} \propto \frac{\#\{j \in B : y_j = c\}}{|B|}

    Here p_ic is the uncalibrated probability of class c at node i, p'_ic the calibrated one. For
    each class c, the calibration nodes are sorted by their probability of c and split into bins
    with equally many nodes, as far as ties allow. B are the nodes in the bin of p_ic, y_j their
    labels. If B is empty, p_ic is kept. If all frequencies of node i are 0, all its probabilities
    are kept.

    Parameters
    ----------
    n_bins : int, default=20
        Number of bins for each class; the default is that of the code released with RBS.

    Attributes
    ----------
    edges_ : ndarray of shape (n_classes, n_bins - 1)
        Inner edges of the bins; an edge belongs to the bin above it.
    frequencies_ : ndarray of shape (n_classes, n_bins)
        Frequency of the class in each bin, NaN where a bin is empty.

    Notes
    -----
    Use it with thousands of calibration nodes, where you want a table of frequencies. It can return
    probabilities of exactly 0 and 1, which makes the log loss large.

    References
    ----------
    Zadrozny, Elkan, "Obtaining calibrated probability estimates from decision trees and naive
    Bayesian classifiers" (ICML 2001).

    Examples
    --------
    The model gives class 0 the probability 0.9 at ten nodes, and six of them have class 0:

    >>> import numpy as np
    >>> from gnncal.calibrators import logits_from_probabilities
    >>> from gnncal_lab import HistogramBinning
    >>> logits = logits_from_probabilities(np.tile([0.9, 0.1], (10, 1)))
    >>> labels = [0] * 6 + [1] * 4
    >>> HistogramBinning(n_bins=1).fit(logits, labels).predict_proba(logits)[0]
    array([0.6, 0.4])

    """

    preserves_predictions = False
    zeroes_unseen_classes = True
    constraints: ClassVar = {"n_bins": integer(at_least=1)}
    learned: ClassVar = {
        "edges_": Array("K n_bins-1", low=0, high=1, rising="rows"),
        "frequencies_": Array("K n_bins", low=0, high=1, may_be_nan=True),
    }
    edges_: FloatArray
    frequencies_: FloatArray

    def __init__(self, *, n_bins: int = 20) -> None:
        self.n_bins = n_bins

    def _fit(self, nodes: Nodes) -> None:
        probs = softmax(nodes.calibration_logits).astype(np.float64)
        shares = np.arange(1, self.n_bins) / self.n_bins
        # Edges that are data: an interpolated one may round to either side of a node.
        edges = np.quantile(probs, shares, axis=0, method="higher")
        self.edges_ = np.ascontiguousarray(edges.T)
        self.frequencies_ = np.stack(
            [self._frequencies(c, p, nodes.labels == c) for c, p in enumerate(probs.T)]
        )
        loss = nodes.mean_log_loss(self._probabilities(nodes.calibration_logits))
        n = nodes.labels.size
        few = n < 2 * self.n_bins
        reason = f"{n} calibration nodes in {self.n_bins} bins are fewer than two each"
        self.fit_report_ = FitReport.of(nodes, loss, undetermined=(reason,) if few else ())

    def _frequencies(self, c: int, probs: FloatArray, is_label: FloatArray) -> FloatArray:
        bins = np.digitize(probs, self.edges_[c])
        counts = np.bincount(bins, minlength=self.n_bins)
        hits = np.bincount(bins, weights=is_label, minlength=self.n_bins)
        return np.divide(hits, counts, out=np.full(self.n_bins, np.nan), where=counts > 0)

    def _probabilities(self, logits: FloatArray) -> FloatArray:
        probs = softmax(logits)
        mapped = np.empty_like(probs)
        for c, p in enumerate(probs.T):
            frequencies = self.frequencies_[c, np.digitize(p, self.edges_[c])]
            mapped[:, c] = np.where(np.isnan(frequencies), p, frequencies)
        total = mapped.sum(axis=1, keepdims=True)
        return np.divide(mapped, total, out=probs, where=total > 0)
