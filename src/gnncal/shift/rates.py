"""Rates of classes among unlabelled nodes, and whether anything but the rates has changed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import chdtrc

from gnncal.data.arrays import FloatArray, IntArray
from gnncal.math.node_summary import ClassHistograms

PSEUDO_COUNT = 0.5  # that a class has in each bin, so that none is impossible
LEAST_PER_BIN = 5.0  # nodes that are expected in a bin of the test; rarer bins are joined
N_DRAWS = 100
EM_STEPS = 1000
EM_TOLERANCE = 1e-6


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
