"""Metrics from sums over batches: by bin of confidence and by degree, before and after."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gnncal.data.arrays import FloatArray, IntArray
from gnncal.data.probability import SMALLEST_PROBABILITY
from gnncal.metrics.binning import (
    DEFAULT_BINS,
    DEGREE_BLOCKS,
    ReliabilityBins,
    bin_edges,
    bin_index,
)
from gnncal.metrics.evaluation import NORMAL_QUANTILE, Difference
from gnncal.metrics.floor import FINE_CELLS, LARGE_VARIANCE, HitCount, NoiseFloor, floor_of_hits
from gnncal.scale.summary import DegreeBlocks, Measured

SIDES = ("before", "after")
LOSSES = {"loss": "nll", "square": "brier"}
N_FINE = DEFAULT_BINS * FINE_CELLS
EDGES = bin_edges(np.empty(0), DEFAULT_BINS, "uniform")
FINE_EDGES = bin_edges(np.empty(0), N_FINE, "uniform")  # every 1,024th is one of EDGES, to the bit


@dataclass(frozen=True)
class Terms:
    """What each test node of a batch adds to the metrics."""

    degree: IntArray
    values: dict[str, FloatArray]  # hit, confidence, loss and square of each side
    names: ClassVar = (
        *(f"{name}_{side}" for side in SIDES for name in ("hit", "confidence", "loss", "square")),
        "changed",
    )

    @classmethod
    def of(cls, labels: IntArray, probs: dict[str, FloatArray], degree: IntArray) -> Terms:
        """Return the terms of nodes with these labels and probabilities of each side."""
        values: dict[str, FloatArray] = {}
        rows = np.arange(len(labels))
        for side, p in probs.items():
            predictions = p.argmax(axis=1)
            confidence, at_label = (
                p[rows, classes].astype(np.float64) for classes in (predictions, labels)
            )
            values |= {
                f"hit_{side}": (predictions == labels).astype(np.float64),
                f"confidence_{side}": np.minimum(confidence, 1.0),
                f"loss_{side}": -np.log(np.maximum(at_label, SMALLEST_PROBABILITY)),
                # |p - onehot|^2 = |p|^2 - 2 p_y + 1
                f"square_{side}": np.einsum("ik,ik->i", p, p, dtype=np.float64) - 2 * at_label + 1,
            }
        changed = probs["before"].argmax(axis=1) != probs["after"].argmax(axis=1)
        return cls(degree, {**values, "changed": changed.astype(np.float64)})


class Degrees:
    """Blocks of equally many test nodes of neighbouring degree.

    Nodes of one degree at the border of two blocks count for both, by share: rows of a table have
    no order that could split them.
    """

    def __init__(self, degree: IntArray, count: IntArray) -> None:
        self.degree = degree  # those that occur, sorted
        end = np.cumsum(count, dtype=np.float64)
        start = end - count
        size = np.ceil(end[-1] / DEGREE_BLOCKS) if len(end) else 1.0
        borders = np.arange(int(np.ceil(end[-1] / size)) if len(end) else 0) * size
        overlap = np.minimum(end, borders[:, None] + size) - np.maximum(start, borders[:, None])
        share = np.maximum(overlap, 0.0) / count  # (n_blocks, n_degrees) of each degree's nodes
        # Degrees with equal shares make a run, which is all that sums need to tell apart.
        is_last = np.append((np.diff(share, axis=1) != 0).any(axis=0), True)[: len(degree)]
        self.last, self.share = degree[is_last], share[:, is_last]
        present = share > 0
        self.lowest = np.array([degree[row].min() for row in present], dtype=np.float64)
        self.highest = np.array([degree[row].max() for row in present], dtype=np.float64)

    def run_of(self, degree: IntArray) -> IntArray:
        """Return the run of each node."""
        return np.searchsorted(self.last, degree)


class Sums:
    """The sums of all metrics over some nodes; those of two sets of nodes can be added."""

    def __init__(self, degrees: Degrees) -> None:
        self.degrees = degrees
        n_cells = {"bin": 1, "run": len(degrees.last)}
        self.totals: dict[str, FloatArray] = {"count": np.zeros(1), "changed": np.zeros(1)}
        for name in LOSSES:
            self.totals[f"{name}_change_squared"] = np.zeros(1)
        for side in SIDES:
            for name in LOSSES:
                self.totals[f"{name}_{side}"] = np.zeros(1)
            for cells, n in n_cells.items():  # bins are every 1,024 fine cells of one run
                for name in ("count", "confidence"):
                    self.totals[f"{name}_{cells}_{side}"] = np.zeros((n, N_FINE))
                n_rows = DEFAULT_BINS if cells == "bin" else n
                for name in ("hit", "variance"):
                    self.totals[f"{name}_{cells}_{side}"] = np.zeros(n_rows)

    def add(self, terms: Terms) -> None:
        """Add the terms of a batch."""
        n, values, totals = len(terms.degree), terms.values, self.totals
        if n == 0:
            return
        totals["count"] += n
        totals["changed"] += values["changed"].sum()
        for name in LOSSES:
            change = values[f"{name}_after"] - values[f"{name}_before"]
            totals[f"{name}_change_squared"] += change @ change
        run = self.degrees.run_of(terms.degree)
        for side in SIDES:
            for name in LOSSES:
                totals[f"{name}_{side}"] += values[f"{name}_{side}"].sum()
            confidence, hit = values[f"confidence_{side}"], values[f"hit_{side}"]
            fine = bin_index(confidence, FINE_EDGES)
            rows = {"bin": fine // FINE_CELLS, "run": run}
            for cells, fine_cell in (("bin", fine), ("run", run * N_FINE + fine)):
                for name, weights in (("count", None), ("confidence", confidence)):
                    _add(totals[f"{name}_{cells}_{side}"], fine_cell, weights)
                for name, weights in (("hit", hit), ("variance", confidence * (1.0 - confidence))):
                    _add(totals[f"{name}_{cells}_{side}"], rows[cells], weights)

    def merge(self, totals: dict[str, FloatArray]) -> None:
        """Add the sums of other nodes."""
        for name, values in totals.items():
            self.totals[name] += values

    @property
    def n_nodes(self) -> int:
        """Number of nodes that were added."""
        return int(self.totals["count"][0])

    @property
    def changed(self) -> float:
        """Share of nodes whose prediction changed."""
        return float(self.totals["changed"][0] / max(self.n_nodes, 1))

    def measured(self, side: str) -> Measured | None:
        """Return the metrics of one side; None without test nodes."""
        if self.n_nodes == 0:
            return None
        n = self.totals["count"][0]
        of_bin, of_run = (
            {name: self.totals[f"{name}_{cells}_{side}"] for name in NAMES}
            for cells in ("bin", "run")
        )
        fine = {name: of_bin[name].reshape(DEFAULT_BINS, FINE_CELLS) for name in NAMES[:2]}
        count, confidence = (fine[name].sum(axis=1) for name in NAMES[:2])
        floor = _floor(np.eye(DEFAULT_BINS), fine, of_bin["variance"], n)
        share, degrees = self.degrees.share, self.degrees
        runs = {name: share @ of_run[name].sum(axis=1) for name in NAMES[:2]}
        runs |= {name: share @ of_run[name] for name in NAMES[2:]}
        degree_floor = _floor(share, of_run, runs["variance"], n)
        with np.errstate(invalid="ignore"):  # 0 / 0 is the NaN of an empty bin
            reliability = ReliabilityBins(
                count.astype(np.int64),
                confidence / count,
                of_bin["hit"] / count,
                EDGES[:-1],
                EDGES[1:],
            )
        return Measured(
            n_nodes=int(n),
            accuracy=float(of_bin["hit"].sum() / n),
            ece=float(np.abs(of_bin["hit"] - confidence).sum() / n),
            ece_floor=floor.mean,
            ece_floor_spread=floor.spread,
            degree_ece=float(np.abs(runs["hit"] - runs["confidence"]).sum() / n),
            degree_ece_floor=degree_floor.mean,
            degree_ece_floor_spread=degree_floor.spread,
            **{metric: float(self.totals[f"{x}_{side}"][0] / n) for x, metric in LOSSES.items()},
            reliability=reliability,
            degree_blocks=DegreeBlocks(
                np.rint(runs["count"]).astype(np.int64),
                runs["confidence"] / runs["count"],
                runs["hit"] / runs["count"],
                degrees.lowest,
                degrees.highest,
            ),
        )

    def differences(self) -> dict[str, Difference]:
        """After minus before of NLL and Brier score, with paired 95% intervals."""
        n, result, totals = float(self.n_nodes), {}, self.totals
        for name, metric in LOSSES.items() if n else ():
            mean = float((totals[f"{name}_after"] - totals[f"{name}_before"])[0] / n)
            variance = max(float(totals[f"{name}_change_squared"][0]) / n - mean**2, 0.0)
            margin = float(NORMAL_QUANTILE * np.sqrt(variance / (n - 1))) if n > 1 else np.inf
            result[metric] = Difference(mean, mean - margin, mean + margin)
        return result


NAMES = ("count", "confidence", "hit", "variance")


def _add(sums: FloatArray, cells: IntArray, weights: FloatArray | None) -> None:
    sums += np.bincount(cells, weights, minlength=sums.size).reshape(sums.shape)


def _floor(share: FloatArray, fine: Any, variance: FloatArray, n_nodes: float) -> NoiseFloor:
    """Compute the error that perfect calibration would show in cells of this variance.

    ``fine`` has counts and confidences (n_runs, n_fine), of which a cell has a share (n_runs,).
    """
    cells = []
    for in_cell, spread in zip(share, variance, strict=True):
        if spread >= LARGE_VARIANCE:  # then it is all that counts
            cells.append(HitCount(float(spread), np.empty(0)))
            continue
        rows = np.flatnonzero(in_cell)
        filled = fine["count"][rows] > 0
        count, confidence = (fine[name][rows][filled] for name in ("count", "confidence"))
        weight = np.broadcast_to(in_cell[rows, None], filled.shape)[filled]
        cells.append(HitCount(float(spread), np.minimum(confidence / count, 1.0), weight * count))
    return floor_of_hits(cells, n_nodes)
