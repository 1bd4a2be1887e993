"""How much of a calibration error is noise: its floor under perfect calibration, its interval.

P-value and interval come from random draws (1,000 by default), so they carry the sampling error of
that many draws. The floor is that of :mod:`gnncal.metrics.floor`, which does not sample. Only where
that one is not defined, for smooth errors and other norms than l1, is it the mean of the draws.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import sparse
from scipy.optimize import brentq

from gnncal.data.arrays import FloatArray, IntArray
from gnncal.data.errors import InputError
from gnncal.metrics.binning import (
    DEFAULT_BINS,
    N_BINS,
    N_CELLS,
    Norm,
    Strategy,
    bin_edges,
    bin_index,
    combine,
    smooth_error,
    smoothed,
    smoothing_cell,
    spectrum_of,
)
from gnncal.metrics.floor import floor_of_cells
from gnncal.metrics.groups import check_groups
from gnncal.metrics.outcomes import Outcomes

Kind = Literal["confidence", "classwise", "groups", "smooth"]
NUMBERS_PER_BLOCK = 1 << 22  # random numbers held at once
SMALLEST_ERROR = 1e-12  # anything below is rounding
MANY_NODES = 20_000  # from here on the sums of large cells are drawn instead of their nodes
LARGE_CELL = 2_000  # nodes
LEVEL = 0.95  # of the interval
N_RESAMPLES = 1000
NORMAL_VARIANCE = 100.0  # of a sum of hits that counts as normal; below it misses are rare


@dataclass(frozen=True)
class CalibrationEstimate:
    """A calibration error with its noise floor.

    Attributes
    ----------
    value : float
        The error, computed from the nodes as they are.
    floor : float
        Its mean under perfect calibration with the same probabilities.
    p_value : float
        How often a perfectly calibrated model would show at least this error.
    low, high : float
        Ends of a bias-corrected interval of the error of the underlying population.
    level : float
        Probability of the interval.
    n_nodes : int
        Number of nodes.

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal.metrics import estimate_calibration_error
    >>> generator = np.random.default_rng(1)
    >>> p = generator.uniform(0.5, 1.0, size=500)
    >>> labels = (generator.uniform(size=500) > p).astype(int)  # perfectly calibrated
    >>> estimate = estimate_calibration_error(labels, np.column_stack([p, 1 - p]))
    >>> round(estimate.value, 3), round(estimate.floor, 3), estimate.p_value > 0.05
    (0.045, 0.04, True)

    """

    value: float
    floor: float
    p_value: float
    low: float
    high: float
    level: float
    n_nodes: int


def estimate_calibration_error(
    labels: Any,
    probs: Any,
    *,
    kind: Kind = "confidence",
    groups: Any = None,
    n_bins: int = DEFAULT_BINS,
    strategy: Strategy = "uniform",
    norm: Norm = "l1",
    level: float = LEVEL,
    n_resamples: int = N_RESAMPLES,
    random_state: int = 0,
) -> CalibrationEstimate:
    """Estimate a calibration error with its noise floor, p-value and interval.

    The error itself is biased upwards, and resampling it adds the same bias once more, so a
    percentile interval can lie wholly above the truth. This one asks which true gaps could have
    produced the observed error: the observed gaps are scaled up and down, resampling noise is
    added, and the interval holds the errors at which the observed one is not extreme. Its upper
    end is never below the one that an error typical of no true gaps would give, so a lucky sample
    does not pass for a certain one.

    With ``norm="l1"`` the floor of bins and groups is computed without sampling, as
    :func:`calibration_floor` does it. The p-value, and the floor of everything else, come from
    labels drawn from the probabilities. Below 20,000 nodes the label of
    every node is drawn. From there on, for ``"confidence"`` and ``"groups"``, a cell of at least
    2,000 nodes is drawn as one number: its hits as normal, or its misses as Poisson where their
    variance is below 100; the noise of the interval is drawn as one normal vector. These are
    approximations.

    Parameters
    ----------
    labels, probs : array_like
        Labels (n_nodes,) and probabilities (n_nodes, n_classes) of the nodes.
    kind : {"confidence", "classwise", "groups", "smooth"}, default="confidence"
        ``"confidence"`` is :func:`expected_calibration_error`, ``"classwise"`` its mean over
        classes, ``"groups"`` the mean gap over ``groups``, ``"smooth"``
        :func:`smooth_calibration_error`, which has neither bins nor norm.
    groups : array_like of shape (n_nodes,), optional
        A value for each node, for ``kind="groups"``.
    n_bins : int, default=15
        Number of bins.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width, or with equally many nodes.
    norm : {"l1", "l2", "max"}, default="l1"
        How the gaps of the bins are put together.
    level : float, default=0.95
        Probability of the interval.
    n_resamples : int, default=1000
        Number of random draws.
    random_state : int, default=0
        Seed of the draws.

    Returns
    -------
    CalibrationEstimate
        The error with its floor, p-value and interval.

    Raises
    ------
    InputError
        If ``kind`` is unknown or does not go with the other arguments, or an array cannot be used.

    Examples
    --------
    A model that is right half of the time and says 0.9:

    >>> import numpy as np
    >>> from gnncal.metrics import estimate_calibration_error
    >>> probs = np.tile([0.9, 0.1], (200, 1))
    >>> estimate = estimate_calibration_error([0, 1] * 100, probs)
    >>> round(estimate.value, 2), round(estimate.floor, 2), estimate.p_value < 0.01
    (0.4, 0.02, True)

    """
    if not 0 < level < 1 or n_resamples < 1:
        raise InputError(
            f"level is {level} and n_resamples {n_resamples}; expected a level in (0, 1) and at "
            "least one resample."
        )
    N_BINS.check("n_bins", n_bins)
    layout = _Layout.make(Outcomes(labels, probs), kind, groups, n_bins, strategy)
    return _estimate(layout, norm, level, n_resamples, random_state)


def estimate_of(outcomes: Outcomes, random_state: int = 0) -> CalibrationEstimate:
    """:func:`estimate_calibration_error` of checked outcomes, with its defaults."""
    layout = _Layout.make(outcomes, "confidence", None, DEFAULT_BINS, "uniform")
    return _estimate(layout, "l1", LEVEL, N_RESAMPLES, random_state)


def _estimate(
    layout: _Layout, norm: Norm, level: float, n_resamples: int, random_state: int
) -> CalibrationEstimate:
    generator = np.random.default_rng(random_state)
    observed = layout.sums(layout.residual[:, None])  # (n_cells, 1)
    value = float(layout.error(observed, norm)[0])
    chance = layout.error(layout.draw_calibrated(n_resamples, generator), norm)
    noise = layout.draw_noise(n_resamples, generator)
    low, high = _interval(layout, observed, noise, norm, level)
    exceeding = (chance >= value - SMALLEST_ERROR).sum()
    return CalibrationEstimate(
        value=value,
        floor=layout.floor() if norm == "l1" and not layout.is_smooth else float(chance.mean()),
        p_value=float((1 + exceeding) / (1 + n_resamples)),
        low=low,
        high=high,
        level=level,
        n_nodes=layout.n_nodes,
    )


@dataclass(frozen=True, eq=False)
class _Layout:
    """The cells of an error, which is a norm of sums of residuals over cells."""

    confidence: FloatArray  # (m,) one entry for each node, or a node and class
    residual: FloatArray  # (m,) confidence - correctness
    node: IntArray  # (m,)
    cells: sparse.csr_array  # (n_cells, m) membership
    count: FloatArray  # (n_cells,)
    n_nodes: int
    n_blocks: int  # the error is the mean over this many equally large blocks of cells
    is_smooth: bool  # cells are points of the confidence axis, to be smoothed
    probs: FloatArray  # (n_nodes, K), cumulative by class where labels must be drawn

    @classmethod
    def make(
        cls, outcomes: Outcomes, kind: Kind, groups: Any, n_bins: int, strategy: Strategy
    ) -> _Layout:
        all_labels, checked = outcomes.labels, outcomes.probs
        n_nodes, n_classes = checked.shape
        confidence: FloatArray
        if groups is not None and kind != "groups":
            raise InputError(f"groups is given but kind is {kind!r}; pass kind='groups'.")
        if kind == "classwise":
            confidence = checked.astype(np.float64).T.ravel()  # class by class
            correct = (all_labels == np.arange(n_classes)[:, None]).astype(np.float64).ravel()
            node = np.tile(np.arange(n_nodes), n_classes)
            by_class = confidence.reshape(n_classes, n_nodes)
            cell = np.concatenate(
                [
                    bin_index(values, bin_edges(values, n_bins, strategy)) + c * n_bins
                    for c, values in enumerate(by_class)
                ]
            )
            n_cells, n_blocks = n_bins * n_classes, n_classes
        elif kind in ("confidence", "groups", "smooth"):
            node, n_blocks = np.arange(n_nodes), 1
            confidence, correct = outcomes.confidence, outcomes.correct
            if kind == "groups":
                cell = check_groups(groups, n_nodes)[1]
            elif kind == "smooth":
                cell = smoothing_cell(confidence)
            else:
                cell = bin_index(confidence, bin_edges(confidence, n_bins, strategy))
            n_cells = N_CELLS if kind == "smooth" else int(cell.max()) + 1
        else:
            raise InputError(
                f"kind is {kind!r}; expected 'confidence', 'classwise', 'groups' or 'smooth'."
            )
        size = len(confidence)
        cells = sparse.csr_array((np.ones(size), (cell, np.arange(size))), shape=(n_cells, size))
        count = np.bincount(cell, minlength=n_cells).astype(np.float64)
        return cls(
            confidence,
            confidence - correct,
            node,
            cells,
            count,
            n_nodes,
            n_blocks,
            kind == "smooth",
            np.cumsum(checked, axis=1, dtype=np.float64) if kind == "classwise" else checked,
        )

    def sums(self, residual: FloatArray) -> FloatArray:
        """Return the residuals (m, n_draws) summed by cell: (n_cells, n_draws)."""
        return self.cells @ residual

    def error(self, sums: FloatArray, norm: Norm) -> FloatArray:
        """Return the error of each column of cell sums."""
        if self.is_smooth:
            return smooth_error(sums / self.n_nodes)
        count = self.count[:, None]
        gap = np.divide(sums, count, out=np.zeros_like(sums), where=count > 0)
        by_block = gap.T.reshape(sums.shape[1], self.n_blocks, -1)
        share = (self.count / self.n_nodes).reshape(self.n_blocks, -1)
        return combine(by_block, share, norm).mean(axis=1)

    def floor(self) -> float:
        """Mean error under perfect calibration; classes share labels, but a mean does not mind."""
        cell = np.repeat(np.arange(len(self.count)), self.count.astype(np.int64))
        return floor_of_cells(self.confidence[self.cells.indices], cell).mean

    def linear(self, sums: FloatArray, value: float) -> FloatArray:
        """Cell sums as they enter the norm of an error whose value is ``value``."""
        if self.is_smooth:
            return smoothed(spectrum_of(sums), value)
        return sums

    def size(self, linear: FloatArray, norm: Norm) -> FloatArray:
        """Return the norm of each column; homogeneous, unlike the smooth error itself."""
        if self.is_smooth:
            return np.abs(linear).sum(axis=0) / self.n_nodes
        return self.error(linear, norm)

    def draw_calibrated(self, n_draws: int, generator: np.random.Generator) -> FloatArray:
        """Cell sums when every label is drawn from the node's own probabilities."""
        if self.draws_sums:
            return self._draw_calibrated_sums(n_draws, generator)
        parts = []
        for width in self._widths(n_draws):
            chance = generator.random((self.n_nodes, width))
            if self.n_blocks == 1:
                hit = chance < self.confidence[:, None]
            else:
                drawn = (chance[:, :, None] >= self.probs[:, None, :-1]).sum(axis=2)
                classes = np.arange(self.n_blocks)[:, None, None]
                hit = (drawn[None] == classes).reshape(-1, width)
            parts.append(self.sums(self.confidence[:, None] - hit))
        return np.concatenate(parts, axis=1)

    def draw_noise(self, n_draws: int, generator: np.random.Generator) -> FloatArray:
        """Cell sums less their expectation: a bootstrap with centred normal weights of nodes."""
        if self.draws_sums:
            squares, sums = self.sums(self.residual**2), self.sums(self.residual)
            covariance = np.diag(squares) - np.outer(sums, sums) / self.n_nodes
            zero = np.zeros(len(sums))
            return generator.multivariate_normal(zero, covariance, n_draws, method="eigh").T
        parts = []
        for width in self._widths(n_draws):
            weights = generator.standard_normal((self.n_nodes, width))
            weights -= weights.mean(axis=0)
            parts.append(self.sums(weights[self.node] * self.residual[:, None]))
        return np.concatenate(parts, axis=1)

    @property
    def draws_sums(self) -> bool:
        """Whether there are so many nodes in so few cells that only sums are drawn."""
        return self.n_blocks == 1 and not self.is_smooth and self.n_nodes >= MANY_NODES

    def _draw_calibrated_sums(self, n_draws: int, generator: np.random.Generator) -> FloatArray:
        variance = self.sums(self.confidence * (1.0 - self.confidence))
        misses = self.sums(1.0 - self.confidence)  # expected
        drawn = np.empty((len(self.count), n_draws))
        for cell in range(len(self.count)):
            if self.count[cell] < LARGE_CELL:
                first, last = self.cells.indptr[cell : cell + 2]
                chances = self.confidence[self.cells.indices[first:last], None]
                hits = generator.random((len(chances), n_draws)) < chances
                drawn[cell] = (chances - hits).sum(axis=0)
            elif variance[cell] >= NORMAL_VARIANCE:
                drawn[cell] = generator.normal(0.0, np.sqrt(variance[cell]), n_draws)
            else:
                drawn[cell] = generator.poisson(misses[cell], n_draws) - misses[cell]
        return drawn

    def _widths(self, n_draws: int) -> Iterator[int]:
        entries = len(self.confidence) * (1 if self.n_blocks == 1 else 2)
        width = max(1, NUMBERS_PER_BLOCK // entries)
        for start in range(0, n_draws, width):
            yield min(width, n_draws - start)


def _interval(
    layout: _Layout, observed: FloatArray, noise: FloatArray, norm: Norm, level: float
) -> tuple[float, float]:
    value = float(layout.error(observed, norm)[0])
    direction = observed if value > SMALLEST_ERROR else noise.std(axis=1, keepdims=True)
    if not direction.any():
        return 0.0, 0.0

    def true_error(quantile: float, plug_in: float) -> float:
        """Return the true error at which this quantile of the plug-in error is the one seen."""
        gaps, chance = layout.linear(direction, plug_in), layout.linear(noise, plug_in)
        gaps = gaps / layout.size(gaps, norm)  # of size one

        def excess(true: float) -> float:
            return float(np.quantile(layout.size(true * gaps + chance, norm), quantile)) - plug_in

        if excess(0.0) >= 0:
            return 0.0
        scale = float(brentq(excess, 0.0, 1.0)) if excess(1.0) > 0 else 1.0
        if not layout.is_smooth:
            return scale
        size = layout.size(layout.linear(direction, plug_in), norm)
        return float(layout.error(scale / size * direction, norm)[0])

    tail = (1.0 - level) / 2.0
    typical = float(np.median(layout.error(noise, norm)))
    return true_error(1.0 - tail, value), true_error(tail, max(value, typical))
