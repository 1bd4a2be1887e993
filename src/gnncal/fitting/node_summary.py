"""What a fit remembers of its calibration nodes: counts in bins, and no node's own data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from gnncal.backends.class_share import neighbour_class_share
from gnncal.core.arrays import FloatArray, IntArray
from gnncal.core.errors import InputError
from gnncal.core.learned import Array, LearnedTable, check_learned
from gnncal.formulas.probability import normalised_entropy, shifted, softmax
from gnncal.nodes import Nodes

OF_LOGITS = ("confidence", "entropy")
OF_NEIGHBOURS = ("support", "degree")
QUANTITIES = (*OF_LOGITS, *OF_NEIGHBOURS)
N_CUTS = 20  # quantiles that part the calibration nodes into 21 bins of about the same size
MOST_NODES = 20_000  # of a fit that are looked at, so that a summary costs next to nothing
SMALLEST_SAMPLE = 20  # nodes; of fewer, almost any difference is chance
DECIMALS = 6  # logits in single and in double precision fall into the same bin
BINS: LearnedTable = {
    "cuts": Array(str(N_CUTS), rising="rows"),
    "counts": Array(str(N_CUTS + 1), low=0, whole=True),
}


@dataclass(frozen=True, eq=False)
class Bins:
    """How the values of one quantity are spread."""

    cuts: FloatArray
    counts: IntArray

    @classmethod
    def of(cls, values: FloatArray) -> Self:
        """Part some values, NaN left out, into bins of about the same size."""
        known = values[~np.isnan(values)]
        if not known.size:
            return cls(np.zeros(N_CUTS), np.zeros(N_CUTS + 1, dtype=np.int64))
        levels = np.arange(1, N_CUTS + 1) / (N_CUTS + 1)
        cuts = np.quantile(known, levels, method="inverted_cdf")
        return cls(cuts, count_in(cuts, values))


@dataclass(frozen=True, eq=False)
class NodeSummary:
    """What a calibrator remembers of the nodes it was fitted on."""

    n_nodes: int
    predicted: IntArray
    bins: dict[str, Bins]
    all_nodes: NodeSummary | None = None

    @classmethod
    def of(cls, nodes: Nodes, rows: IntArray) -> Self:
        """Summarise some nodes of a record, and all of them outside training."""
        among = np.setdiff1d(np.arange(nodes.n_nodes), nodes.train_nodes, assume_unique=True)
        sets = [rows] if np.array_equal(rows, among) else [rows, among]
        some = [each[:: -(-each.size // MOST_NODES)].astype(np.int64).tobytes() for each in sets]
        # It depends on no label, so all methods that are fitted to these nodes share it.
        counts, *others = nodes.once(_counts_of, *some)
        return cls(*counts, *(cls(*each) for each in others))

    def to_plain(self) -> dict[str, Any]:
        """Return the summary as numbers and arrays, for files."""
        return {
            "predicted": self.predicted,
            **{name: {"cuts": b.cuts, "counts": b.counts} for name, b in self.bins.items()},
            **({} if self.all_nodes is None else {"all_nodes": self.all_nodes.to_plain()}),
        }

    @classmethod
    def from_plain(cls, plain: Any, n_classes: int) -> Self:
        """Return the summary of such values, each of which is checked."""
        others = None
        if isinstance(plain, Mapping) and "all_nodes" in plain:
            plain = dict(plain)
            others = cls.from_plain(plain.pop("all_nodes"), n_classes)
        names = [name for name in QUANTITIES if isinstance(plain, Mapping) and name in plain]
        table = {"predicted": Array("K", low=0, whole=True), **dict.fromkeys(names, BINS)}
        check_learned(table, plain, {"K": n_classes}, where="fitted_on")
        n_nodes = int(plain["predicted"].sum())
        if n_nodes == 0 or any(plain[name]["counts"].sum() > n_nodes for name in names):
            raise InputError("fitted_on has counts that contradict each other.")
        bins = {name: Bins(**plain[name]) for name in names}
        return cls(n_nodes, plain["predicted"], bins, others)


def _counts_of(nodes: Nodes, *sets: bytes) -> list[tuple[int, IntArray, dict[str, Bins]]]:
    """Return what summaries of some sets of nodes hold; their numbers are bytes, to be a key."""
    each: list[IntArray] = [np.frombuffer(some, dtype=np.int64) for some in sets]
    rows = np.unique(np.concatenate(each))
    quantities = quantities_of(nodes, rows)
    counts = []
    for some in each:
        at = np.searchsorted(rows, some)
        bins = {name: Bins.of(values[at]) for name, values in quantities.items()}
        counts.append((int(some.size), predicted_counts(nodes, some), bins))
    return counts


def quantities_of(nodes: Nodes, rows: IntArray) -> dict[str, FloatArray]:
    """Return confidence, entropy and, with a graph, support and in-degree of some nodes."""
    logits = nodes.logits[rows]
    # The largest logit is 0 once shifted, so the confidence is one over the sum.
    confidence = 1.0 / np.exp(shifted(logits)).sum(axis=1, dtype=np.float64)
    values = {"confidence": confidence, "entropy": normalised_entropy(logits)}
    if nodes.has_neighbourhoods:
        support = _support(nodes, rows)
        values |= {} if support is None else {"support": support}
        values["degree"] = nodes.neighbours.in_degree[rows]
    return {name: np.round(v.astype(np.float64), DECIMALS) for name, v in values.items()}


def predicted_counts(nodes: Nodes, rows: IntArray) -> IntArray:
    """Return how many of some nodes the model gives each class, (n_classes,)."""
    return np.bincount(nodes.logits[rows].argmax(axis=1), minlength=nodes.n_classes)


def count_in(cuts: FloatArray, values: FloatArray) -> IntArray:
    """Return how many values lie in each bin, the upper end of a bin included; NaN in none."""
    places = np.searchsorted(cuts, values[~np.isnan(values)], side="left")
    return np.bincount(places, minlength=cuts.size + 1)


def _support(nodes: Nodes, rows: IntArray) -> FloatArray | None:
    """Mean probability that the senders of some nodes give to the class predicted for the node."""
    if nodes.graph is None:  # then others have looked at the neighbours, perhaps at this too
        known = getattr(nodes.neighbours, "support", None)
        return None if known is None else known[rows]
    classes = np.full(nodes.n_nodes, -1)
    classes[rows] = nodes.logits[rows].argmax(axis=1)
    probs = softmax(nodes.logits)
    return neighbour_class_share(nodes.required_graph, classes, probs, side="in")[rows]
