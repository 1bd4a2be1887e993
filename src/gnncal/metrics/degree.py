"""The calibration error over blocks of similar in-degree, averaged over the orders of tied nodes.

Nodes of equal degree have no order of their own, so the error does not depend on how they are
listed or numbered.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln, ndtr

from gnncal.data.arrays import FloatArray, IntArray, as_numpy
from gnncal.data.errors import InputError, short_repr
from gnncal.metrics.binning import DEFAULT_BINS, bin_edges, bin_index
from gnncal.metrics.floor import FINE_CELLS, LARGE_VARIANCE, HitCount, NoiseFloor, floor_of_hits
from gnncal.metrics.outcomes import Outcomes

DEGREE_BLOCKS = 10  # as in the release of GETS
REACH = 64.0  # of the number of misses from its mean: sixteen deviations or more
ROUNDING = 1e-12  # of a sum of squares


def degree_error_of(outcomes: Outcomes) -> float:
    r"""Return the degree-stratified ECE: the mean over the orders of nodes of equal in-degree.

    An order :math:`\pi` lists the n nodes by rising in-degree, nodes of equal degree in random
    order. Every ceil(n/10) nodes are a block b. With :math:`r_i`, correctness (1 or 0) minus
    confidence of node i, the error is the mean over all orders, each as likely as any other,

    .. math:: \frac1n\sum_b \mathbb E_\pi\Big|\sum_{i\in b(\pi)} r_i\Big|

    Of the nodes of a degree at a border, a block has a fixed number, drawn without replacement. How
    many of these are hits has a hypergeometric distribution. Given that number, the block's sum is
    taken as normal with its exact mean and variance, whose mean absolute value is known:
    :math:`\sigma\sqrt{2/\pi}\,e^{-\mu^2/2\sigma^2}+\mu\,(1-2\Phi(-\mu/\sigma))`. Where the
    number of hits has a variance of 16 or more, the whole sum is taken as normal. Nothing is
    sampled. The result is exact where no block splits a degree, or where nodes of a split degree
    are equally confident; else it is within 2% of the mean over drawn orders, in tests with 20 to
    1,000 nodes.

    One order drawn at random, as the release of GETS uses, has this error on average. Nodes of a
    split degree that count for both blocks by share would give another, lower error: their gaps
    would cancel before the absolute value.
    """
    cell, share = outcomes.cached(_blocks_of)
    sums = sums_of(outcomes.correct, outcomes.confidence, cell, share.shape[1])
    return error_of_sums(share, sums)


def degree_floor_of(outcomes: Outcomes) -> NoiseFloor:
    """Return the noise floor of :func:`degree_error_of`.

    Nodes of a split degree count by share. The spread is that of the error in one order; the mean
    over orders varies less.
    """
    cell, share = outcomes.cached(_blocks_of)
    confidence = np.minimum(outcomes.confidence, 1.0)[np.argsort(cell, kind="stable")]
    of_degree = np.split(confidence, np.cumsum(np.bincount(cell))[:-1])
    is_split = (share > 0.0) & (share < 1.0)
    merged = {i: _merged(of_degree[i]) for i in np.flatnonzero(is_split.any(axis=0))}
    hits = []
    for of_block, splits in zip(share, is_split, strict=True):
        chances = [of_degree[i] for i in np.flatnonzero(of_block == 1.0)]
        weights = [np.ones(len(chance)) for chance in chances]
        for i in np.flatnonzero(splits):
            mean, count = merged[i]
            chances.append(mean)
            weights.append(of_block[i] * count)
        weight = np.concatenate(weights) if splits.any() else None
        hits.append(HitCount.of(np.concatenate(chances), weight))
    return floor_of_hits(hits, len(cell))


def shares_of(count: IntArray) -> FloatArray:
    """Return the share (n_blocks, n_degrees) of the nodes of each degree that a block has.

    ``count`` has the number of nodes of each degree that occurs, by rising degree.
    """
    end = np.cumsum(count, dtype=np.float64)
    size = np.ceil(end[-1] / DEGREE_BLOCKS) if len(end) else 1.0
    first = np.arange(int(np.ceil(end[-1] / size)) if len(end) else 0) * size
    overlap = np.minimum(end, first[:, None] + size) - np.maximum(end - count, first[:, None])
    return np.maximum(overlap, 0.0) / count


def sums_of(hit: FloatArray, confidence: FloatArray, cell: IntArray, n_cells: int) -> FloatArray:
    """Return what :func:`error_of_sums` needs of nodes: (3, 2, n_cells).

    These are the number of nodes and the sums of r and r², r being hit minus confidence, of the
    misses and of the hits in each cell.
    """
    rest, place = hit - confidence, hit.astype(np.int64) * n_cells + cell
    terms = (np.ones(len(rest)), rest, rest * rest)
    found: FloatArray = np.stack([np.bincount(place, each, 2 * n_cells) for each in terms])
    return found.reshape(3, 2, n_cells)


def error_of_sums(share: FloatArray, sums: FloatArray) -> float:
    """Return the error from the sums of each degree, of which a block has a share."""
    count, rest, _ = sums.sum(axis=1)
    total = 0.0
    for of_block in share:
        chance, mean, variance = np.ones(1), np.array([rest[of_block == 1.0].sum()]), np.zeros(1)
        for degree in np.flatnonzero((of_block > 0.0) & (of_block < 1.0)):  # two at most
            n_drawn = round(of_block[degree] * count[degree])
            part = _drawn(n_drawn, sums[:, :, degree])
            chance = np.multiply.outer(chance, part[0]).ravel()
            mean = np.add.outer(mean, part[1]).ravel()
            variance = np.add.outer(variance, part[2]).ravel()
        total += float(chance @ _mean_size(mean, np.sqrt(variance)))
    return total / float(count.sum())


def _drawn(n_drawn: int, sums: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the chance of each number of misses among drawn nodes, and mean and variance of r."""
    (n_misses, n_hits), n = sums[0], sums[0].sum()
    n_missed = n_drawn * n_misses / n  # expected
    variance = n_missed * (n_hits / n) * (n - n_drawn) / max(n - 1.0, 1.0)
    if variance >= LARGE_VARIANCE:
        whole = sums.sum(axis=1, keepdims=True)
        return np.ones(1), *_moments(np.array([[n_drawn]]), whole)
    low, high = max(n_drawn - n_hits, n_missed - REACH, 0), min(n_drawn, n_misses, n_missed + REACH)
    missed = np.arange(np.ceil(low), np.floor(high) + 1)
    drawn = np.stack([missed, n_drawn - missed])
    left = sums[0][:, None] - drawn
    log_chance = -(gammaln(drawn + 1) + gammaln(left + 1)).sum(axis=0)
    chance = np.exp(log_chance - log_chance.max())
    return chance / chance.sum(), *_moments(drawn, sums)


def _moments(drawn: FloatArray, sums: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and variance of the sum of r over nodes drawn without replacement.

    ``drawn`` has the numbers of nodes from each set (n_sets, n), ``sums`` is (3, n_sets).
    """
    count, rest, squares = sums[:, :, None]
    of_one = np.maximum(count, 1.0)
    variance = squares - rest**2 / of_one
    variance[variance < ROUNDING * squares] = 0.0
    variance /= np.maximum(count - 1.0, 1.0)
    mean = (drawn * rest / of_one).sum(axis=0)
    return mean, (drawn * (1.0 - drawn / of_one) * variance).sum(axis=0)


def _mean_size(mean: FloatArray, spread: FloatArray) -> FloatArray:
    """Return the mean absolute value of normal numbers."""
    ratio = np.divide(mean, spread, out=np.zeros_like(mean), where=spread > 0)
    size = spread * np.sqrt(2.0 / np.pi) * np.exp(-0.5 * ratio**2)
    size += mean * (1.0 - 2.0 * ndtr(-ratio))
    return np.where(spread > 0, size, np.abs(mean))


def _blocks_of(outcomes: Outcomes) -> tuple[IntArray, FloatArray]:
    """Return the degree of each node, numbered, and the share of each that a block has."""
    degree = as_numpy(outcomes.in_degree)
    if degree.shape != outcomes.labels.shape:
        raise InputError(
            f"in_degree has shape {degree.shape}; expected a number for each of the "
            f"{len(outcomes.labels):,} nodes."
        )
    if degree.dtype.kind not in "iuf" or not ((degree >= 0) & (degree < np.inf)).all():
        raise InputError(
            f"in_degree is {short_repr(degree)}; expected the number of edges that enter each "
            "node, 0 or more."
        )
    _, cell, count = np.unique(degree, return_inverse=True, return_counts=True)
    return cell, shares_of(count)


def _merged(chance: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the mean chance in each fine cell that has nodes, and their number."""
    cell = bin_index(chance, bin_edges(chance, DEFAULT_BINS * FINE_CELLS, "uniform"))
    count = np.bincount(cell).astype(np.float64)
    filled = count > 0
    return np.bincount(cell, chance)[filled] / count[filled], count[filled]
