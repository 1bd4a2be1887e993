"""What a fit remembers of its calibration nodes: counts in bins, and no node's own data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from gnncal.data.arrays import BoolArray, FloatArray, IntArray
from gnncal.data.constraints import Array, LearnedTable, check_learned
from gnncal.data.errors import InputError
from gnncal.data.nodes import NO_NODES, Nodes
from gnncal.data.probability import normalised_entropy, shifted, softmax
from gnncal.graph.neighbours import neighbour_class_share

OF_NEIGHBOURS = ("support", "degree")
QUANTITIES = ("confidence", "entropy", *OF_NEIGHBOURS)
N_CUTS = 20  # quantiles that part the calibration nodes into 21 bins of about the same size
MOST_NODES = 20_000  # of a fit that are looked at, so that a summary costs next to nothing
SMALLEST_SAMPLE = 20  # nodes; of fewer, almost any difference is chance
ALONE = 0.2  # share of nodes without neighbours, beyond that of the fit, if some are missing
REACHING = 0.1  # share of nodes with a typical degree of the fit, 0.5 there, below which they are
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
        counts, *others = nodes.cached(_counts_of, *some)
        return cls(*counts, *(cls(*each) for each in others))

    def to_plain(self) -> dict[str, Any]:
        """Return the summary as numbers and arrays, for files."""
        return {
            "predicted": self.predicted,
            **{name: vars(bins) for name, bins in self.bins.items()},
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


def missing_neighbours(
    summary: NodeSummary, n_neighbours: IntArray, in_degree: IntArray | None = None
) -> str | None:
    """Say that some nodes lack the neighbours that the nodes of a fit had, if they do.

    ``n_neighbours`` counts senders and receivers, so that rows which only lend their neighbourhood
    do not look alone. In-degrees are those of nodes whose senders should all be there.
    """
    summaries = [each for each in (summary, summary.all_nodes) if each and "support" in each.bins]
    n = len(n_neighbours)
    if not summaries or n < SMALLEST_SAMPLE:
        return None
    alone = float(np.mean(n_neighbours == 0))
    usual = max(1.0 - each.bins["support"].counts.sum() / each.n_nodes for each in summaries)
    typical = min(each.bins["degree"].cuts[N_CUTS // 2] for each in summaries)
    if alone - usual >= ALONE:
        found = f"{alone:.0%} of these {n:,} nodes have no neighbour, and {usual:.0%} in the fit"
    elif in_degree is not None and np.mean(in_degree >= typical) < REACHING:
        share = float(np.mean(in_degree >= typical))
        found = (
            f"{share:.0%} of these {n:,} nodes have {typical:.0f} neighbours or more that send to "
            "them, and half in the fit"
        )
    else:
        return None
    return (
        f"{found}: neighbours seem to be missing, which changes the probabilities; pass all nodes "
        "within two hops of the nodes in question, along edges in both directions, and all edges "
        "among them."
    )


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
    if nodes.knows_degrees:
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
    return neighbour_class_share(nodes.graph, classes, probs, side="in")[rows]


KEYS: LearnedTable = {
    "rows": Array("n_rows", low=0, whole=True, rising="rows"),
    "ids": Array("n_ids", low=0, whole=True, rising="rows"),
}
GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # of splitmix64, as are the numbers below


@dataclass(frozen=True, eq=False)
class LearnedNodes:
    """Keys of labelled nodes: 63-bit hashes from which no node's data can be read."""

    rows: IntArray  # of number and logits: on another graph the same number is another node
    ids: IntArray

    @classmethod
    def of(cls, nodes: Nodes, before: LearnedNodes | None = None) -> Self:
        """Return the keys of the calibration nodes, and of those that were learned before."""
        old = cls(NO_NODES, NO_NODES) if before is None else before
        return cls(
            np.unique(np.append(old.rows, _keys_of_rows(nodes))),
            np.unique(np.append(old.ids, _keys_of_ids(nodes))),
        )

    def holds(self, nodes: Nodes) -> BoolArray:
        """Return which calibration nodes of a record are among these."""
        if nodes.node_ids is not None and self.ids.size:
            return np.isin(_keys_of_ids(nodes), self.ids)
        return np.isin(_keys_of_rows(nodes), self.rows)

    def to_plain(self) -> dict[str, Any]:
        """Return the keys for a file."""
        return {"rows": self.rows, **({"ids": self.ids} if self.ids.size else {})}

    @classmethod
    def from_plain(cls, plain: Any) -> Self:
        """Return the record of such values, each of which is checked."""
        has_ids = isinstance(plain, dict) and "ids" in plain
        table = KEYS if has_ids else {"rows": KEYS["rows"]}
        check_learned(table, plain, {}, where="learned_nodes")
        return cls(**{"ids": NO_NODES, **plain})


def _keys_of_rows(nodes: Nodes) -> IntArray:
    """Return a key for number and logits of each calibration node; float32 and float64 agree."""
    logits = nodes.calibration_logits.astype(np.float32) + np.float32(0.0)  # -0 is 0
    numbers = nodes.calibration_nodes.astype(np.uint32)[:, None]
    return _hashed(np.hstack([logits.view(np.uint32), numbers]))


def _keys_of_ids(nodes: Nodes) -> IntArray:
    if nodes.node_ids is None or not nodes.calibration_nodes.size:
        return NO_NODES
    texts = nodes.node_ids[nodes.calibration_nodes].astype(str)
    return _hashed(np.ascontiguousarray(texts).view(np.uint32).reshape(texts.size, -1))


def _hashed(words: npt.NDArray[np.uint32]) -> IntArray:
    """Return a hash (n,) of the words of each row; zeros at its end, which fill texts, add none."""
    factors = _mixed(np.arange(1, words.shape[1] + 1, dtype=np.uint64) * GOLDEN) | np.uint64(1)
    return (_mixed(words.astype(np.uint64) @ factors) >> np.uint64(1)).view(np.int64)


def _mixed(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return the values with their bits mixed, as splitmix64 does."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
