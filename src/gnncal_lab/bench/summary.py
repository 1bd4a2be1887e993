"""Statistics over many graphs: ranks, paired tests, win rates, critical differences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from gnncal.data.arrays import FloatArray
from gnncal.data.errors import InputError

N_RESAMPLES = 10_000


def spread_of_seeds(values: FloatArray) -> float:
    """Standard deviation with divisor n, as in the paper; NaN for fewer than two values."""
    return float(np.std(values)) if len(values) > 1 else float("nan")


def mid_ranks(matrix: FloatArray) -> FloatArray:
    """Ranks within each row of (n_rows, n_methods), 1 the lowest; ties share, NaN stays NaN."""
    return np.asarray(stats.rankdata(matrix, axis=1, nan_policy="omit"))


def average_present(matrix: FloatArray) -> FloatArray:
    """The mean of each column over its entries that are not NaN; NaN where there are none."""
    present = ~np.isnan(matrix)
    count = present.sum(axis=0)
    total = np.where(present, matrix, 0.0).sum(axis=0)
    return np.divide(total, count, out=np.full(matrix.shape[1], np.nan), where=count > 0)


def mean_ranks(matrix: FloatArray) -> FloatArray:
    """Average rank of each column over the rows where it has a value."""
    return average_present(mid_ranks(matrix))


def holm(p_values: FloatArray) -> FloatArray:
    """Holm's step-down adjustment: the smallest p times their number, the next times one less."""
    made = np.flatnonzero(~np.isnan(p_values))
    order = made[np.argsort(p_values[made])]
    steps = len(made) - np.arange(len(made))
    adjusted = np.full_like(p_values, np.nan)
    adjusted[order] = np.minimum(np.maximum.accumulate(p_values[order] * steps), 1.0)
    return adjusted


# Graphs whose files share labels and features count as one.
SAME_UNIT = {"Texas": "Texas and Cornell", "Cornell": "Texas and Cornell"}


def unit_means(values: FloatArray, graphs: Sequence[str]) -> FloatArray:
    """Average rows of one graph: (n_rows, ...) becomes (n_units, ...), NaN entries left out."""
    # Texas and Cornell are one unit, because their files share all labels.
    units = np.array([SAME_UNIT.get(graph, graph) for graph in graphs])
    table = values[:, None] if values.ndim == 1 else values
    names = dict.fromkeys(units)
    means = np.array([average_present(table[units == name]) for name in names])
    means = means.reshape(len(names), table.shape[1])  # also where there are none of either
    return means[:, 0] if values.ndim == 1 else means


@dataclass(frozen=True)
class PairedComparison:
    """A method against a reference over the same graphs; negative differences favour the method.

    Attributes
    ----------
    n_graphs : int
        Number of graphs.
    mean_difference : float
        Mean over graphs of method minus reference.
    low, high : float
        95% bootstrap interval of that mean; NaN for a single graph.
    p_value : float
        Two-sided p-value of Wilcoxon's signed-rank test over graphs; NaN without graphs.
    win_rate : float
        Share of graphs on which the method has the lower value; a tie counts half.

    Examples
    --------
    >>> from gnncal_lab import compare_paired
    >>> compare_paired([0.3, 0.5], [0.4, 0.5], ["Cora", "Actor"]).win_rate
    0.75

    """

    n_graphs: int
    mean_difference: float
    low: float
    high: float
    p_value: float
    win_rate: float


def compare_paired(
    method: Any, reference: Any, graphs: Sequence[str], *, seed: int = 0
) -> PairedComparison:
    """Return a paired comparison over graphs of a method with a reference; lower is better.

    Pairs of the same graph, for example of several backbones, are averaged first. Texas and Cornell
    count as one graph, because the labels in their files are the same.

    Parameters
    ----------
    method, reference : array_like of shape (n,)
        Values of the method and of the reference, one pair for each graph and backbone.
    graphs : sequence of str of length n
        The graph of each pair.
    seed : int, default=0
        Seed of the bootstrap.

    Examples
    --------
    >>> from gnncal_lab import compare_paired
    >>> found = compare_paired([0.3, 0.5, 0.2], [0.4, 0.6, 0.3], ["Cora", "Actor", "Texas"])
    >>> found.n_graphs, round(found.mean_difference, 2)
    (3, -0.1)

    """
    method, reference = np.asarray(method, dtype=float), np.asarray(reference, dtype=float)
    if not len(method) == len(reference) == len(graphs):
        raise InputError(
            f"got {len(method)} and {len(reference)} values for {len(graphs)} graphs; pass pairs."
        )
    difference = unit_means(method - reference, graphs)
    difference = difference[~np.isnan(difference)]
    if not difference.size:
        return PairedComparison(0, *[float("nan")] * 5)
    low, high = _bootstrap_mean(difference, seed)
    return PairedComparison(
        n_graphs=len(difference),
        mean_difference=float(difference.mean()),
        low=low,
        high=high,
        p_value=_signed_rank(difference),
        win_rate=float(np.where(difference < 0, 1.0, 0.5 * (difference == 0)).mean()),
    )


def _signed_rank(difference: FloatArray) -> float:
    if not difference.any():
        return 1.0
    return float(stats.wilcoxon(difference).pvalue)


def _bootstrap_mean(values: FloatArray, seed: int) -> tuple[float, float]:
    if len(values) < 2:
        return float("nan"), float("nan")
    generator = np.random.default_rng(seed)
    drawn = generator.integers(len(values), size=(N_RESAMPLES, len(values)))
    low, high = np.quantile(values[drawn].mean(axis=1), [0.025, 0.975])
    return float(low), float(high)


@dataclass(frozen=True)
class CriticalDifference:
    """Friedman's test over complete rows, and how far apart mean ranks must be (Nemenyi)."""

    n_rows: int
    mean_rank: FloatArray  # (n_methods,)
    p_value: float  # of equal ranks
    difference: float  # at the 5% level


def critical_difference(matrix: FloatArray) -> CriticalDifference:
    """Compare methods (columns) over rows without a missing entry; lower is better."""
    complete = matrix[~np.isnan(matrix).any(axis=1)]
    n_rows, n_methods = complete.shape
    if n_rows < 2 or n_methods < 3:
        nan = float("nan")
        return CriticalDifference(n_rows, np.full(n_methods, nan), nan, nan)
    return CriticalDifference(
        n_rows=n_rows,
        mean_rank=mid_ranks(complete).mean(axis=0),
        p_value=float(stats.friedmanchisquare(*complete.T).pvalue),
        difference=nemenyi_quantile(n_methods)
        * float(np.sqrt(n_methods * (n_methods + 1) / (6.0 * n_rows))),
    )


def nemenyi_quantile(n_methods: int) -> float:
    """q of Nemenyi's test at the 5% level: that of the studentised range, over sqrt(2)."""
    return float(stats.studentized_range.ppf(0.95, n_methods, np.inf) / np.sqrt(2.0))
