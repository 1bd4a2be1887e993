"""Ratio-binned scaling (Liu et al. 2022): one temperature for each level of neighbour support."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from gnncal import Graph, InputError, Nodes
from gnncal.calibrators import (
    Array,
    FitReport,
    Formula,
    TemperatureCalibrator,
    TemperatureLoss,
    TemperatureScaling,
    backend_of,
    integer,
)
from gnncal_lab.arrays import FloatArray, IntArray, Side
from gnncal_lab.fitting.formulas import softmax
from gnncal_lab.fitting.groups import (
    NARROW_RANGE,
    best_number_of_groups,
    groups_at_bounds,
    weak_groups,
)
from gnncal_lab.fitting.parts import FLAG, NONE

FLOAT32_DIGITS = 5  # the same for sums of float32
RATIO_DIGITS = 9  # of a ratio times the number of bins: sums in another order fall into one bin
CANDIDATES = (2, 3, 4)  # numbers of bins that cross-validation chooses from


class RatioBinnedScaling(TemperatureCalibrator):
    r"""A temperature for each group of nodes with similar support from their neighbours (RBS).

    .. math:: r_i = \frac1{|N(i)|} \sum_{j \in N(i)} p_{j,\hat y_i}, \qquad
              T_i = T_b \text{ for } r_i \in (b/B, (b+1)/B]

    Here r_i is the mean probability that the neighbours N(i) give to node i's predicted class
    :math:`\hat y_i`. Neighbours are senders and receivers, self-loops included; for a node without
    neighbours, r_i is 1. B is the number of bins. Each T_b comes from temperature scaling on the
    calibration nodes of bin b, limited to [0.05, 20]. An empty bin has T_b = 1.

    Parameters
    ----------
    n_bins : int, optional
        The number of bins B. By default cross-validation with five folds chooses 2, 3 or 4 by log
        loss.
    merge_duplicate_edges : bool, default=False
        Whether several edges from one node to another count as one, as in the authors' release. By
        default each counts. Edges in opposite directions always count twice.

    Attributes
    ----------
    bin_temperatures_ : ndarray of shape (n_bins,)
        Temperature of each bin, from low to high r.
    temperature_ : ndarray of shape (n_nodes,)
        Temperature of each node of the fitted graph.

    Notes
    -----
    Use it where you want a rule with a handful of temperatures. ``structural`` uses the support
    without bins and had a lower log loss on all eleven graphs with at least 100 calibration nodes
    (docs/evidence.md).

    The release sets B for each data set and merges duplicate edges.

    References
    ----------
    Liu et al., "On calibration of graph neural networks for node classification" (IJCNN 2022).

    Examples
    --------
    Nodes that their neighbours contradict are less often right, so they get the higher temperature:

    >>> import numpy as np
    >>> from gnncal_lab import RatioBinnedScaling
    >>> from gnncal_lab.simulation import CSBM
    >>> sample = CSBM(n_classes=3, separation=1).sample(np.full(1000, 0.5))
    >>> logits, graph = 4 * sample.graph.features[:, :3], sample.graph
    >>> calibrator = RatioBinnedScaling(n_bins=2)
    >>> calibrator.fit(
    ...     logits, sample.labels, graph, calibration_nodes=range(500)
    ... ).bin_temperatures_.round(1)
    array([4.5, 1.2])

    """

    needs_graph = True
    constraints: ClassVar = {
        "n_bins": integer(at_least=1) | NONE,
        "merge_duplicate_edges": FLAG,
    }
    learned: ClassVar = {
        "bin_temperatures_": Array("n_bins", low=NARROW_RANGE[0], high=NARROW_RANGE[1])
    }
    bin_temperatures_: FloatArray

    def __init__(self, *, n_bins: int | None = None, merge_duplicate_edges: bool = False) -> None:
        self.n_bins = n_bins
        self.merge_duplicate_edges = merge_duplicate_edges

    def _fit(self, nodes: Nodes) -> None:
        ratio = self._ratio(nodes)
        logits, on_nodes = nodes.calibration_logits, ratio[nodes.calibration_nodes]
        n_bins = self.n_bins or _best_n_bins(logits, nodes.labels, on_nodes)
        self.bin_temperatures_ = _fit_bins(logits, nodes.labels, _bins(on_nodes, n_bins), n_bins)
        self.temperature_ = self.bin_temperatures_[_bins(ratio, n_bins)]
        loss = TemperatureLoss(logits, nodes.labels).value(
            self.temperature_[nodes.calibration_nodes]
        )
        name, fitted, bins = "bin_temperatures", self.bin_temperatures_, _bins(on_nodes, n_bins)
        self.fit_report_ = FitReport.of(
            nodes,
            loss,
            groups_at_bounds(fitted, name),
            undetermined=tuple(weak_groups(logits, nodes.labels, bins, fitted, name)),
        )

    def _temperature(self, nodes: Nodes) -> FloatArray:
        return self.bin_temperatures_[_bins(self._ratio(nodes), len(self.bin_temperatures_))]

    def _temperature_at(self, entropy: FloatArray, homophily: FloatArray) -> FloatArray:
        return self.bin_temperatures_[_bins(homophily, len(self.bin_temperatures_))]

    def _reach(self) -> tuple[int, Side] | None:
        return None if self.merge_duplicate_edges else (1, "both")

    def _as_formula(self) -> Formula:
        if self.merge_duplicate_edges:
            raise InputError(
                "RatioBinnedScaling with merge_duplicate_edges=True cannot become a torch module, "
                "because it does not count every edge; remove duplicates from the "
                "edges yourself and fit with merge_duplicate_edges=False."
            )
        return Formula(rbs_temperature, {"bin_temperatures": self.bin_temperatures_}, hops=1)

    def _ratio(self, nodes: Nodes) -> FloatArray:
        return nodes.cached(ratio_of, self.merge_duplicate_edges)


def ratio_of(nodes: Nodes, merge_duplicate_edges: bool) -> FloatArray:
    """r of every node, shape (n_nodes,), in [0, 1]."""
    if merge_duplicate_edges:
        nodes = Nodes(nodes.logits, _without_duplicates(nodes.required_graph))
    return same_class_ratio(nodes)


def _without_duplicates(graph: Graph) -> Graph:
    """Return the same graph in which no two edges have the same sender and receiver."""
    sender, receiver = graph.edge_index.astype(np.int64)
    keys = np.unique(sender * graph.n_nodes + receiver)
    return Graph(np.stack(np.divmod(keys, graph.n_nodes)), graph.n_nodes)


def _bins(ratio: FloatArray, n_bins: int) -> IntArray:
    return ratio_bin(ratio, n_bins).astype(np.int64)


def _fit_bins(logits: FloatArray, labels: IntArray, bins: IntArray, n_bins: int) -> FloatArray:
    temperatures = np.ones(n_bins)
    for b in np.unique(bins):
        in_bin = bins == b
        temperatures[b] = np.clip(
            TemperatureScaling.best_temperature(logits[in_bin], labels[in_bin]), *NARROW_RANGE
        )
    return temperatures


def _best_n_bins(logits: FloatArray, labels: IntArray, ratio: FloatArray) -> int:
    """Return the number of bins with the lowest log loss on held-out folds, or the smallest."""
    confidence = softmax(logits).max(axis=1)
    order = np.lexsort((confidence, np.round(ratio, RATIO_DIGITS)))
    candidates = {n: _bins(ratio, n) for n in CANDIDATES}
    return best_number_of_groups(logits, labels, candidates, order, _fit_bins)


def same_class_ratio(nodes: Any) -> Any:
    """RBS: the mean probability (n,) that neighbours and self-loops give to the predicted class."""
    xp, neighbours = backend_of(nodes.logits), nodes.neighbours
    probs = softmax(nodes.logits)
    own = xp.as_float64(xp.take_class(probs, nodes.predictions))
    counts, loops = neighbours.counts("both"), neighbours.in_degree - neighbours.counts("in")
    degree = counts + 2 * loops  # a self-loop sends and receives
    others = neighbours.class_mean(probs, nodes.predictions, "both") * counts
    sums = others + 2 * loops * own
    return xp.where(degree > 0, sums / xp.maximum(degree, 1), 1.0)


def rbs_temperature(nodes: Any, bin_temperatures: Any) -> Any:
    """RBS: the temperature of the bin in which the ratio lies."""
    xp, ratio = backend_of(nodes.logits), same_class_ratio(nodes)
    n_bins = len(bin_temperatures)
    digits = RATIO_DIGITS if "float64" in str(ratio.dtype) else FLOAT32_DIGITS
    place = xp.nan_to_zero(ratio_bin(ratio, n_bins, digits))
    is_array = isinstance(place, np.ndarray)
    return xp.lookup(bin_temperatures, place.astype(np.int64) if is_array else place.long())


def ratio_bin(ratio: Any, n_bins: int, digits: int = RATIO_DIGITS) -> Any:
    """RBS: the bin b of each ratio in (b/B, (b+1)/B]; the first one contains 0."""
    xp = backend_of(ratio)
    rounded = (ratio * n_bins * 10.0**digits).round() / 10.0**digits
    edge = -(-rounded // 1)  # the next whole number
    return xp.minimum(xp.maximum(edge - 1, 0), n_bins - 1)
