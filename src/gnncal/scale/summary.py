"""The summary of a run: metrics from sums over batches, before and after, in ``metrics.json``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gnncal.data.arrays import FloatArray, IntArray
from gnncal.data.errors import to_jsonable
from gnncal.data.probability import SMALLEST_PROBABILITY
from gnncal.data.tables import Cell, Table, Tabular, text_cell
from gnncal.metrics import binning
from gnncal.metrics.binning import DEFAULT_BINS, Cells, ReliabilityBins
from gnncal.metrics.degree import error_of_sums, shares_of, sums_of
from gnncal.metrics.evaluation import NORMAL_QUANTILE, Difference
from gnncal.metrics.floor import FINE_CELLS, LARGE_VARIANCE, HitCount, NoiseFloor, floor_of_hits
from gnncal.metrics.table import FLOOR_SUFFIX, METRICS

LOSSES = ("nll", "brier")
N_FINE = DEFAULT_BINS * FINE_CELLS
EDGES = binning.bin_edges(np.empty(0), DEFAULT_BINS, "uniform")
FINE_EDGES = binning.bin_edges(
    np.empty(0), N_FINE, "uniform"
)  # every 1,024th is one of EDGES, to the bit
HIT, CONFIDENCE = range(2)  # columns of what a node adds, before the losses
COUNT, HITS, CONFIDENCES, VARIANCE = range(4)  # rows of the sums of a cell
SHOWN = ("accuracy", "ece", "degree_ece", "nll", "brier")


@dataclass(frozen=True, repr=False)
class DegreeBlocks(Cells):
    """Cells that are blocks of equally many nodes of neighbouring in-degree."""

    lowest: FloatArray
    highest: FloatArray


@dataclass(frozen=True)
class Measured:
    """The metrics of one set of probabilities on the test nodes."""

    n_nodes: int
    accuracy: float
    ece: float
    ece_floor: float
    ece_floor_spread: float
    degree_ece: float
    degree_ece_floor: float
    degree_ece_floor_spread: float
    nll: float
    brier: float
    reliability: ReliabilityBins
    degree_blocks: DegreeBlocks


@dataclass(frozen=True, repr=False)
class ScaleSummary(Tabular):
    """Summary of a run at scale, with metrics on the test nodes; it prints as tables.

    Attributes
    ----------
    method, engine : str
        Names of the calibrator and of the engine.
    n_nodes, n_edges, n_classes, n_calibration_nodes, n_test_nodes : int
        Size of the graph and of the splits.
    is_undirected : bool or None
        Whether every edge is listed in both directions; None if this was not determined.
    class_names : list of str or None
        A name for each class.
    before, after : Measured or None
        Metrics before and after calibration; None without labelled test nodes.
    differences : mapping of str to Difference
        ``nll`` and ``brier`` after minus before, with 95% intervals.
    learned, seconds : mapping of str
        Learned values by name, and the seconds of each stage.
    skipped, notes : sequence
        Numbers of rows left out, by table and reason, and further notes.
    is_certified : bool
        False if a policy has guarantees and none of them is certified for the result.
    prediction_change_rate : float
        Share of the labelled test nodes whose predicted class changed.
    provenance : mapping of str to Any
        Version, date, and checksums of calibrator and policy.

    """

    method: str
    engine: str
    n_nodes: int
    n_edges: int
    n_classes: int
    n_calibration_nodes: int
    n_test_nodes: int
    is_undirected: bool | None
    class_names: list[str] | None
    before: Measured | None
    after: Measured | None
    differences: Mapping[str, Difference]
    learned: Mapping[str, Any]
    skipped: Sequence[Mapping[str, Any]]
    notes: Sequence[str]
    is_certified: bool
    seconds: Mapping[str, float]
    prediction_change_rate: float
    provenance: Mapping[str, Any]

    def _tables(self) -> Sequence[Table]:
        names = ("nodes", "edges", "classes", "calibration nodes")
        numbers = (self.n_nodes, self.n_edges, self.n_classes, self.n_calibration_nodes)
        facts = {name: f"{value:,}" for name, value in zip(names, numbers, strict=True)}
        facts["seconds"] = f"{sum(self.seconds.values()):,.1f}"
        if self.prediction_change_rate > 0:
            facts["changed predictions %"] = f"{100 * self.prediction_change_rate:.2f}"
        rows = [[text_cell(name), Cell(value, value)] for name, value in facts.items()]
        run = Table(f"{self.method} on {self.engine}", ("of the run", "value"), rows)
        return [run] if self.before is None else [self._metrics(), run]

    def _metrics(self) -> Table:
        rows = []
        for name in SHOWN:
            metric = METRICS[name]
            names = {name: metric.heading}
            if metric.floor is not None:
                names[f"{name}{FLOOR_SUFFIX}"] = "  if perfectly calibrated"
            for key, heading in names.items():
                sides = [getattr(side, key) for side in (self.before, self.after)]
                rows.append([text_cell(key, heading), *(Cell(v, metric.shown(v)) for v in sides)])
        return Table(f"{self.n_test_nodes:,} test nodes", ("metric", "before", "after"), rows)


def write_summary(summary: ScaleSummary, folder: Path) -> None:
    """Write ``metrics.json``."""
    content = json.dumps(to_jsonable(vars(summary)), indent=2, allow_nan=False)
    (folder / "metrics.json").write_text(f"{content}\n", encoding="utf-8")


# Sums


def terms_of(labels: IntArray, sides: list[FloatArray]) -> FloatArray:
    """Return hit, confidence, NLL, Brier and prediction of each node and side: (n, 2, 5)."""
    terms = np.empty((len(labels), len(sides), 5))
    rows = np.arange(len(labels))
    for side, p in enumerate(sides):
        predictions = p.argmax(axis=1)
        at_label = p[rows, labels].astype(np.float64)
        terms[:, side, HIT] = predictions == labels
        terms[:, side, CONFIDENCE] = np.minimum(p[rows, predictions], 1.0)
        terms[:, side, 2] = -np.log(np.maximum(at_label, SMALLEST_PROBABILITY))
        # |p - onehot|^2 = |p|^2 - 2 p_y + 1
        terms[:, side, 3] = np.einsum("ik,ik->i", p, p, dtype=np.float64) - 2 * at_label + 1
        terms[:, side, 4] = predictions
    return terms


class Degrees:
    """Blocks of equally many test nodes of neighbouring degree.

    Nodes of one degree at the border of two blocks count for both, by share.
    """

    def __init__(self, degree: IntArray, count: IntArray) -> None:
        share = shares_of(count)  # (n_blocks, n_degrees) of each degree's nodes
        # Degrees with equal shares make a run, which is all that sums need to tell apart: each of
        # several such degrees lies within one block.
        is_last = np.append((np.diff(share, axis=1) != 0).any(axis=0), True)[: len(degree)]
        self.last, self.share = degree[is_last], share[:, is_last]
        present = [degree[row > 0].astype(np.float64) for row in share]
        self.lowest = np.array([each.min() for each in present])
        self.highest = np.array([each.max() for each in present])


class Sums:
    """The sums of all metrics over some nodes; those of two sets of nodes can be added."""

    def __init__(self, degrees: Degrees) -> None:
        self.degrees = degrees
        self.totals: dict[str, FloatArray] = {
            "nodes": np.zeros(()),
            "changed": np.zeros(()),
            "losses": np.zeros((2, len(LOSSES))),  # by side
            "squared_changes": np.zeros(len(LOSSES)),
            # by side; count, hits, confidence, variance; run of degrees; fine cell of confidence
            "cells": np.zeros((2, 4, len(degrees.last), N_FINE)),
            "degrees": np.zeros((2, 3, 2, len(degrees.last))),  # by side; what sums_of returns
        }

    def add(self, degree: IntArray, terms: FloatArray) -> None:
        """Add nodes by their degree and what :func:`terms_of` says of them."""
        losses, totals = terms[:, :, 2:4], self.totals
        change = losses[:, 1] - losses[:, 0]
        totals["nodes"] += len(terms)
        totals["changed"] += (terms[:, 0, 4] != terms[:, 1, 4]).sum()
        totals["losses"] += losses.sum(axis=0)
        totals["squared_changes"] += (change * change).sum(axis=0)
        run = np.searchsorted(self.degrees.last, degree)
        for side, cells in enumerate(totals["cells"].reshape(2, 4, -1)):
            hit, p = terms[:, side, HIT], terms[:, side, CONFIDENCE]
            place = run * N_FINE + binning.bin_index(p, FINE_EDGES)
            for sums, values in zip(cells, (np.ones(1), hit, p, p * (1.0 - p)), strict=True):
                np.add.at(sums, place, values)
            totals["degrees"][side] += sums_of(hit, p, run, len(self.degrees.last))

    def merge(self, totals: Mapping[str, FloatArray]) -> None:
        """Add the sums of other nodes."""
        for name, values in self.totals.items():
            values += totals[name]

    @property
    def n_nodes(self) -> int:
        """Number of nodes that were added."""
        return int(self.totals["nodes"])

    @property
    def prediction_change_rate(self) -> float:
        """Share of nodes whose prediction changed."""
        return float(self.totals["changed"] / max(self.n_nodes, 1))

    def measured(self, side: int) -> Measured | None:
        """Return the metrics before (0) or after (1); None without test nodes."""
        if self.n_nodes == 0:
            return None
        n, cells, degrees = self.n_nodes, self.totals["cells"][side], self.degrees
        fine = cells.sum(axis=1).reshape(4, DEFAULT_BINS, FINE_CELLS)
        count, hits, confidence, _ = fine.sum(axis=2)
        blocks = cells.sum(axis=2) @ degrees.share.T  # (4, n_blocks)
        floor = _floor(np.eye(DEFAULT_BINS), fine, n)
        degree_floor = _floor(degrees.share, cells, n)
        with np.errstate(invalid="ignore"):  # 0 / 0 is the NaN of an empty bin
            bins = confidence / count, hits / count, EDGES[:-1], EDGES[1:]
        of_blocks = blocks[CONFIDENCES] / blocks[COUNT], blocks[HITS] / blocks[COUNT]
        return Measured(
            n_nodes=n,
            accuracy=float(hits.sum() / n),
            ece=float(np.abs(hits - confidence).sum() / n),
            ece_floor=floor.mean,
            ece_floor_spread=floor.spread,
            degree_ece=error_of_sums(degrees.share, self.totals["degrees"][side]),
            degree_ece_floor=degree_floor.mean,
            degree_ece_floor_spread=degree_floor.spread,
            **{name: float(self.totals["losses"][side, i] / n) for i, name in enumerate(LOSSES)},
            reliability=ReliabilityBins(count.astype(np.int64), *bins),
            degree_blocks=DegreeBlocks(
                np.rint(blocks[COUNT]).astype(np.int64),
                *of_blocks,
                degrees.lowest,
                degrees.highest,
            ),
        )

    def differences(self) -> dict[str, Difference]:
        """After minus before of NLL and Brier score, with paired 95% intervals."""
        n = self.n_nodes
        if n == 0:
            return {}
        mean = (self.totals["losses"][1] - self.totals["losses"][0]) / n
        variance = np.maximum(self.totals["squared_changes"] / n - mean**2, 0.0)
        margin = NORMAL_QUANTILE * np.sqrt(variance / (n - 1)) if n > 1 else mean * 0 + np.inf
        ends = zip(mean.tolist(), (mean - margin).tolist(), (mean + margin).tolist(), strict=True)
        return {name: Difference(*each) for name, each in zip(LOSSES, ends, strict=True)}


def _floor(share: FloatArray, cells: FloatArray, n_nodes: float) -> NoiseFloor:
    """Compute the error that perfect calibration would show.

    ``cells`` has the sums of runs (4, n_runs, n_fine), of which a cell has a share (n_runs,).
    """
    found = []
    variances = share @ cells[VARIANCE].sum(axis=1)
    for in_cell, variance in zip(share, variances.tolist(), strict=True):
        if variance >= LARGE_VARIANCE:  # then it is all that counts
            found.append(HitCount(variance, np.empty(0)))
            continue
        rows = np.flatnonzero(in_cell)
        count, confidence = cells[COUNT, rows], cells[CONFIDENCES, rows]
        filled = count > 0
        weight = np.broadcast_to(in_cell[rows, None], filled.shape)[filled]
        mean = np.minimum(confidence[filled] / count[filled], 1.0)
        found.append(HitCount(variance, mean, weight * count[filled]))
    return floor_of_hits(found, n_nodes)
