"""How the model's probabilities are spread in each class: what label shift leaves as it is.

If only the rates of the classes change, nodes of a class look as before, to the model and in the
graph. Then new nodes without labels are a mixture of these histograms. Their shares are the new
rates, and whether any mixture fits the new nodes is a test of the assumption.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import chdtrc

from gnncal.core.arrays import FloatArray, IntArray
from gnncal.core.constraints import NONE, number
from gnncal.core.errors import InputError
from gnncal.core.learned import Array, check_learned
from gnncal.formulas.probability import softmax
from gnncal.nodes import Nodes

N_BINS = 10  # of P(class 1), where there are two classes
HALVES = 2  # of the confidence in each predicted class, where there are more
DECIMALS = 6  # logits in single and in double precision fall into the same bin
PSEUDO_COUNT = 0.5  # that a class has in each bin, so that none is impossible
LEAST_PER_BIN = 5.0  # nodes that are expected in a bin of the test; rarer bins are joined
N_DRAWS = 100
EM_STEPS = 1000
EM_TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class ClassHistograms:
    """Counts of calibration nodes by their class and by what the model says of them."""

    cuts: FloatArray
    degree_cut: float | None
    counts: IntArray
    rates: FloatArray

    @classmethod
    def of(cls, nodes: Nodes) -> ClassHistograms:
        """Count the calibration nodes, in bins that hold about the same number of them."""
        rows, labels, n_classes = nodes.calibration_nodes, nodes.labels, nodes.n_classes
        group, value = _said(nodes.calibration_logits)
        n_groups, n_bins = (1, N_BINS) if n_classes == 2 else (n_classes, HALVES)
        levels = np.arange(1, n_bins) / n_bins
        cuts = np.zeros((n_groups, n_bins - 1))
        for g in np.unique(group):
            cuts[g] = np.quantile(value[group == g], levels, method="inverted_cdf")
        degree_cut = None
        if nodes.has_neighbourhoods:
            degree_cut = float(np.median(nodes.neighbours.in_degree[rows]))
        shape = (n_classes, _n_bins(n_classes, degree_cut))
        empty = cls(cuts, degree_cut, np.zeros(shape, dtype=np.int64), np.zeros(n_classes))
        bins = empty._bins(group, value, nodes, rows)
        counts = np.bincount(labels * shape[1] + bins, minlength=shape[0] * shape[1])
        rates = np.bincount(labels, nodes.weights, minlength=n_classes)
        return replace(empty, counts=counts.reshape(shape), rates=rates / rates.sum())

    def count(self, nodes: Nodes, rows: IntArray) -> IntArray:
        """Return how many of some nodes lie in each bin."""
        bins = self._bins(*_said(nodes.logits[rows]), nodes, rows)
        return np.bincount(bins, minlength=self.counts.shape[1])

    def _bins(self, group: IntArray, value: FloatArray, nodes: Nodes, rows: IntArray) -> IntArray:
        """Return the bin of each node; the upper end of a bin belongs to it."""
        bins = group * (self.cuts.shape[1] + 1) + (value[:, None] > self.cuts[group]).sum(axis=1)
        if self.degree_cut is None:
            return bins
        return HALVES * bins + (nodes.neighbours.in_degree[rows] > self.degree_cut)

    def to_plain(self) -> dict[str, Any]:
        """Return the counts as arrays, for files."""
        return {
            "cuts": self.cuts,
            "degree_cut": self.degree_cut,
            "counts": self.counts,
            "rates": self.rates,
        }

    @classmethod
    def from_plain(cls, plain: Any, n_classes: int) -> ClassHistograms:
        """Return the counts of such arrays, which are checked."""
        is_binary = n_classes == 2
        n_groups, n_bins = (1, N_BINS) if is_binary else (n_classes, HALVES)
        table = {
            "cuts": Array(f"{n_groups} {n_bins - 1}", low=0.0, high=1.0, rising="rows"),
            "degree_cut": number(at_least=0) | NONE,
            "counts": Array("K n_bins", low=0, whole=True),
            "rates": Array("K", low=0.0, high=1.0, total=1.0),
        }
        check_learned(table, plain, {"K": n_classes}, where="class_histograms")
        histograms = cls(**plain)
        if histograms.counts.shape[1] != _n_bins(n_classes, histograms.degree_cut):
            raise InputError(
                f"class_histograms has {histograms.counts.shape[1]} bins, and should not."
            )
        return histograms


@dataclass(frozen=True)
class EstimatedRates:
    """Rates of unlabelled nodes, and whether the assumption behind them holds."""

    rates: FloatArray
    low: FloatArray
    high: FloatArray
    p_value: float


def estimate_rates(histograms: ClassHistograms, new_counts: IntArray) -> EstimatedRates:
    """Estimate the rates by expectation-maximisation, and test whether any rates fit."""
    n_classes, known = len(histograms.counts), np.flatnonzero(histograms.counts.sum(axis=1))
    counts = histograms.counts[known] + PSEUDO_COUNT
    totals = counts.sum(axis=1)
    shares = counts / totals[:, None]  # (n_known, n_bins)
    rates, n = _mixture(shares[None], new_counts[None])[0], new_counts.sum()
    expected = n * rates @ shares
    noise = expected + n**2 * rates**2 @ (shares * (1.0 - shares) / totals[:, None])
    misfit, n_bins = _pearson(new_counts, expected, noise)
    freedom = n_bins - len(known)
    p_value = float(chdtrc(freedom, misfit)) if freedom > 0 else 0.0
    redrawn = _redrawn(histograms.counts[known], new_counts)
    every = np.zeros((3, n_classes))
    every[:, known] = redrawn.mean(axis=0), *np.quantile(redrawn, (0.05, 0.95), axis=0)
    return EstimatedRates(every[0], every[1], every[2], p_value)


def _redrawn(counts: IntArray, new_counts: IntArray) -> FloatArray:
    """Return the rates (n_draws, n_classes) of counts that are drawn again."""
    generator = np.random.default_rng(0)  # the same nodes give the same estimate
    drawn = [
        generator.multinomial(row.sum(), row / row.sum(), size=N_DRAWS) + PSEUDO_COUNT
        for row in counts
    ]
    shares = np.stack([each / each.sum(axis=1, keepdims=True) for each in drawn], axis=1)
    return _mixture(
        shares, generator.multinomial(new_counts.sum(), new_counts / new_counts.sum(), size=N_DRAWS)
    )


def _pearson(new_counts: IntArray, expected: FloatArray, noise: FloatArray) -> tuple[float, int]:
    """Return the misfit and the number of bins, of which rare ones are joined."""
    order = np.argsort(expected, kind="stable")
    joined = np.searchsorted(np.cumsum(expected[order]), LEAST_PER_BIN) + 1
    parts = [order[:joined], *np.split(order[joined:], len(order) - joined)]
    parts = [part for part in parts if part.size]
    gaps = np.array([(new_counts - expected)[part].sum() for part in parts])
    return float((gaps**2 / [noise[part].sum() for part in parts]).sum()), len(parts)


def _mixture(shares: FloatArray, new_counts: IntArray) -> FloatArray:
    """Return the shares of the histograms under which the counts are most probable."""
    rates = np.full(shares.shape[:2], 1.0 / shares.shape[1])
    observed = new_counts / new_counts.sum(axis=1, keepdims=True)
    for _ in range(EM_STEPS):
        mixed = np.einsum("dk,dkb->db", rates, shares)
        after = rates * np.einsum("dkb,db->dk", shares, observed / mixed)
        change = float(np.abs(after - rates).max())
        rates = after
        if change < EM_TOLERANCE:
            break
    return rates


def _said(logits: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the group of each node, and the number by which it is put into a bin."""
    probs = softmax(logits)
    if logits.shape[1] == 2:
        group, value = np.zeros(len(logits), dtype=np.int64), probs[:, 1]
    else:
        group, value = logits.argmax(axis=1), probs.max(axis=1)
    return group, np.round(value.astype(np.float64), DECIMALS)


def _n_bins(n_classes: int, degree_cut: float | None) -> int:
    n_bins = N_BINS if n_classes == 2 else HALVES * n_classes
    return n_bins if degree_cut is None else HALVES * n_bins
