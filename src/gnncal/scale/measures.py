"""Metrics from sums: by bin of confidence and by degree, before and after calibration.

Everything is a sum over test nodes, so an engine adds it up wherever the rows are, and a few
hundred numbers come back; more only for the floors of cells with few doubtful nodes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gnncal.data.arrays import FloatArray
from gnncal.data.probability import SMALLEST_PROBABILITY
from gnncal.math.structural import mean_of_three
from gnncal.metrics.binning import DEFAULT_BINS, ReliabilityBins, bin_edges
from gnncal.metrics.evaluation import NORMAL_QUANTILE, Difference
from gnncal.metrics.floor import FINE_CELLS, LARGE_VARIANCE, Hits, NoiseFloor, floor_of_hits
from gnncal.metrics.groups import DEGREE_BLOCKS
from gnncal.scale.engines import Engine
from gnncal.scale.nodes import at_class, shifted_logits, total
from gnncal.scale.summary import DegreeBlocks, Measured

SIDES = ("before", "after")
Sums = dict[str, FloatArray]
EDGES = bin_edges(np.empty(0), DEFAULT_BINS, "uniform")


def scaled(
    table: Any,
    n_classes: int,
    is_test: Any,
    further: tuple[str, ...] = (),
    averaged: tuple[str, ...] = (),
) -> Any:
    """Return id, prediction, temperature and confidence, and the terms of every metric."""
    import ibis

    before = shifted_logits(table, range(n_classes))
    after = [s / table["temperature"] for s in before]
    logit = at_class(table["label"], {k: table[f"z{k}"] for k in range(n_classes)})

    def squares(shifted: list[Any]) -> Any:
        return ibis.ifelse(is_test, total([(s * 2.0).exp() for s in shifted]), None)

    weighed = table.select(
        *("id", "prediction", "label", "temperature", "in_degree", *further),
        is_test=is_test,
        label_before=logit.cast("float64") - table["top"].cast("float64"),
        mass_before=table["mass"],
        mass_after=total([s.exp() for s in after]),
        squares_before=squares(before),
        squares_after=squares(after),
        **{f"mass_{T}": total([(s / table[T]).exp() for s in before]) for T in averaged},
    )
    weighed = weighed.mutate(label_after=weighed["label_before"] / weighed["temperature"])
    columns: dict[str, Any] = {"changed": ibis.literal(0.0)}
    for side in SIDES:
        mass = weighed[f"mass_{side}"]
        confidence = 1.0 / mass
        if averaged and side == "after":
            confidence = mean_of_three(
                [confidence, *(1.0 / weighed[f"mass_{T}"] for T in averaged)]
            )
        columns |= terms(
            side,
            hit=weighed["prediction"] == weighed["label"],
            confidence=confidence,
            at_label=weighed[f"label_{side}"].exp() / mass,
            sum_of_squares=weighed[f"squares_{side}"] / (mass * mass),
        )
    return weighed.select(
        *("id", "prediction", "label", "temperature", "is_test", "in_degree", *further), **columns
    )


def terms(
    side: str, *, hit: Any, confidence: Any, at_label: Any, sum_of_squares: Any
) -> dict[str, Any]:
    """Return a node's terms of every metric, from what its probabilities say."""
    return {
        f"hit_{side}": hit.cast("float64"),
        f"confidence_{side}": confidence,
        f"loss_{side}": -_at_least(at_label, SMALLEST_PROBABILITY).ln(),
        # |p - onehot|^2 = |p|^2 - 2 p_y + 1
        f"square_{side}": sum_of_squares - 2.0 * at_label + 1.0,
    }


def measure(engine: Engine, rows: Any) -> tuple[dict[str, Measured], dict[str, Difference], float]:
    """Return metrics of both sides, paired differences, and the share of changed predictions."""
    by_degree = _fetch(engine, rows, rows["in_degree"], SIDES)
    measured: dict[str, Measured] = {}
    if by_degree["key"].size == 0:
        return measured, {}, 0.0
    n = float(by_degree["count"].sum())
    for side in SIDES:
        in_bin = _cell(rows[f"confidence_{side}"], EDGES[1:-1])
        bins = _fetch(engine, rows, in_bin, (side,))
        share = np.eye(DEFAULT_BINS)[bins["key"].astype(np.int64)]
        floor = _floor(engine, rows, side, in_bin, share, bins[f"variance_{side}"], n)
        blocks = degree_blocks_of(by_degree, side)
        last, shares = blocks.runs()
        in_run = _cell(rows["in_degree"], last)
        degree_floor = _floor(engine, rows, side, in_run, shares, blocks.variance, n)
        measured[side] = _measured(side, bins, blocks, floor, degree_floor)
    changed = float(by_degree["changed"].sum() / n)
    return measured, differences_of(by_degree), changed


def _at_least(value: Any, floor: float) -> Any:
    import ibis

    return ibis.greatest(value, floor)


def _cell(values: Any, edges: FloatArray) -> Any:
    """Return how many edges lie below: the cell of each value, whose upper end belongs to it."""
    return total([(values > float(edge)).cast("int32") for edge in edges])


def _fetch(engine: Engine, rows: Any, key: Any, sides: tuple[str, ...]) -> Sums:
    """Return sums by key, sorted by key."""
    keyed = rows.mutate(key=key)
    sums = {"count": keyed.count(), "changed": keyed["changed"].sum()}
    for side in sides:
        sums[f"hit_{side}"] = keyed[f"hit_{side}"].sum()
        confidence = keyed[f"confidence_{side}"]
        sums[f"confidence_{side}"] = confidence.sum()
        sums[f"variance_{side}"] = (confidence * (1.0 - confidence)).sum()
        sums[f"loss_{side}"] = keyed[f"loss_{side}"].sum()
        sums[f"square_{side}"] = keyed[f"square_{side}"].sum()
    if len(sides) == 2:
        for name in ("loss", "square"):
            change = keyed[f"{name}_after"] - keyed[f"{name}_before"]
            sums[f"{name}_change_squared"] = (change * change).sum()
    table = engine.fetch(keyed.group_by("key").aggregate(**sums).order_by("key"))
    return {name: table[name].to_numpy().astype(np.float64) for name in table.column_names}


def _measured(
    side: str, bins: Sums, blocks: _Blocks, floor: NoiseFloor, degree_floor: NoiseFloor
) -> Measured:
    n = float(bins["count"].sum())
    filled = bins["key"].astype(np.int64)

    def spread(values: FloatArray) -> FloatArray:
        """Return one entry for each bin; empty bins were not among the groups."""
        result = np.zeros(DEFAULT_BINS)
        result[filled] = values
        return result

    count = spread(bins["count"])
    with np.errstate(invalid="ignore"):  # 0 / 0 is the NaN of an empty bin
        reliability = ReliabilityBins(
            count.astype(np.int64),
            spread(bins[f"confidence_{side}"]) / count,
            spread(bins[f"hit_{side}"]) / count,
            EDGES[:-1],
            EDGES[1:],
        )
    return Measured(
        n_nodes=int(n),
        accuracy=float(bins[f"hit_{side}"].sum() / n),
        ece=float(np.abs(bins[f"hit_{side}"] - bins[f"confidence_{side}"]).sum() / n),
        ece_floor=floor.mean,
        ece_floor_spread=floor.spread,
        degree_ece=float(np.abs(blocks.hit - blocks.confidence).sum() / n),
        degree_ece_floor=degree_floor.mean,
        degree_ece_floor_spread=degree_floor.spread,
        nll=float(bins[f"loss_{side}"].sum() / n),
        brier=float(bins[f"square_{side}"].sum() / n),
        reliability=reliability,
        degree_blocks=blocks.as_cells(),
    )


class _Blocks:
    """Sums in blocks of equally many nodes of neighbouring degree."""

    def __init__(self, share: FloatArray, sums: Sums, side: str) -> None:
        self.share = share  # (n_blocks, n_degrees) of each degree's nodes
        self.degree = sums["key"]
        self.count = share @ sums["count"]
        self.hit = share @ sums[f"hit_{side}"]
        self.confidence = share @ sums[f"confidence_{side}"]
        self.variance = share @ sums[f"variance_{side}"]

    def runs(self) -> tuple[FloatArray, FloatArray]:
        """Return the last of each run of degrees with equal shares, and these by block and run."""
        is_last = np.append((np.diff(self.share, axis=1) != 0).any(axis=0), True)
        return self.degree[is_last], self.share[:, is_last]

    def as_cells(self) -> DegreeBlocks:
        present = self.share > 0
        low = [float(self.degree[row].min()) for row in present]
        high = [float(self.degree[row].max()) for row in present]
        return DegreeBlocks(
            np.rint(self.count).astype(np.int64),
            self.confidence / self.count,
            self.hit / self.count,
            np.array(low),
            np.array(high),
        )


def degree_blocks_of(sums: Sums, side: str) -> _Blocks:
    """Blocks of ceil(n / 10) nodes; nodes of one degree at a border count for both, by share."""
    end = np.cumsum(sums["count"])
    start = end - sums["count"]
    size = np.ceil(end[-1] / DEGREE_BLOCKS)
    borders = np.arange(int(np.ceil(end[-1] / size))) * size
    overlap = np.minimum(end, borders[:, None] + size) - np.maximum(start, borders[:, None])
    return _Blocks(np.maximum(overlap, 0.0) / sums["count"], sums, side)


def _floor(
    engine: Engine,
    rows: Any,
    side: str,
    key: Any,
    share: FloatArray,
    variance: FloatArray,
    n_nodes: float,
) -> NoiseFloor:
    """Compute the error that perfect calibration would show in cells of this variance."""
    small = share[variance < LARGE_VARIANCE].any(axis=0)
    index, chance, count = np.empty(0, np.int64), np.empty(0), np.empty(0)
    if small.any():
        confidence = rows[f"confidence_{side}"]
        fine = (confidence * float(DEFAULT_BINS * FINE_CELLS)).floor().cast("int64")
        keyed = rows.mutate(key=key, fine=fine, confidence=confidence)
        keyed = keyed.filter(keyed["key"].isin(np.flatnonzero(small).tolist()))
        sums = {"count": keyed.count(), "confidence": keyed["confidence"].sum()}
        table = engine.fetch(keyed.group_by("key", "fine").aggregate(**sums))
        index = table["key"].to_numpy()
        count = table["count"].to_numpy().astype(np.float64)
        chance = np.minimum(table["confidence"].to_numpy() / count, 1.0)
    cells = []
    for in_cell, spread in zip(share, variance, strict=True):
        chosen = in_cell[index] > 0
        cells.append(Hits(float(spread), chance[chosen], (in_cell[index] * count)[chosen]))
    return floor_of_hits(cells, n_nodes)


def differences_of(sums: Sums) -> dict[str, Difference]:
    """After minus before of NLL and Brier score, with paired 95 % intervals."""
    n, result = float(sums["count"].sum()), {}
    for name, metric in (("loss", "nll"), ("square", "brier")):
        mean = float((sums[f"{name}_after"] - sums[f"{name}_before"]).sum() / n)
        variance = max(float(sums[f"{name}_change_squared"].sum()) / n - mean**2, 0.0)
        margin = float(NORMAL_QUANTILE * np.sqrt(variance / (n - 1))) if n > 1 else np.inf
        result[metric] = Difference(mean, mean - margin, mean + margin)
    return result
