"""What the benchmark's page says: the opening table as HTML, everything else as data."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnncal.data.arrays import FloatArray
from gnncal.metrics.table import Metric
from gnncal.reporting.page import capital, render_page
from gnncal_lab.bench.leaderboard import OPENING_METRIC, Leaderboard, LeaderboardCell, Standing
from gnncal_lab.bench.plan import PAPER_METHODS
from gnncal_lab.bench.tables.model import TIES

SECTIONS = (
    ("leaderboard", "Leaderboard"),
    ("ranks", "Ranks"),
    ("paper", "Published values"),
    ("seeds", "Seeds"),
    ("made", "Provenance"),
)
SEED_DIGITS = 4  # significant digits of one seed's value, which is only drawn
PROTOCOLS = {"paper": "paper (early stopping)", "converged": "converged"}


def render_leaderboard(board: Leaderboard, *, title: str, command: str = "") -> str:
    """Draw a benchmark as a page."""
    # The metric that the page opens with stands first, as the script has it.
    metrics = sorted(board.metrics, key=lambda metric: metric.name != OPENING_METRIC)
    return render_page(
        "leaderboard.html",
        package=__package__ or "",
        title=title,
        sections=SECTIONS,
        scripts=("ranking.js", "leaderboard.js"),
        data={
            "protocols": board.protocols,
            "graphs": board.graphs,
            "backbones": list(board.backbones.values()),
            "methods": board.methods,
            "unranked": board.unranked,
            "metrics": [_metric_data(metric) for metric in metrics],
            "cells": [_cell_data(board, cell, metrics) for cell in board.cells],
            "nemenyi": board.nemenyi,
        },
        protocols={name: PROTOCOLS[name] for name in board.protocols},
        metrics=metrics,
        backbones=[
            (title, name in board.pooled_backbones) for name, title in board.backbones.items()
        ],
        graphs=board.graphs,
        graph_options=[(graph.name, True) for graph in board.graphs],
        methods=board.methods,
        graph_picks=_regimes(board),
        method_options=[(method, True) for method in board.methods],
        method_picks={
            "HoTS paper": [board.methods.index(m) for m in board.methods if m in PAPER_METHODS]
        },
        heads=["Method", "Mean rank", *(capital(m.heading) for m in metrics)],
        rows=[_row(line, metrics) for line in board.opening],
        ties=TIES if board.mixes_ties else "",
        n_records=sum(len(cell.seeds) for cell in board.cells),
        n_units=len({graph.unit for graph in board.graphs}),
        runs=board.runs,
        command=command,
    )


def _regimes(board: Leaderboard) -> dict[str, list[int]]:
    """Return the positions of the graphs of each regime, if there are several."""
    regimes: dict[str, list[int]] = {}
    for i, graph in enumerate(board.graphs):
        regimes.setdefault(graph.regime, []).append(i)
    return regimes if len(regimes) > 1 else {}


def _metric_data(metric: Metric) -> dict[str, Any]:
    return {
        "name": metric.name,
        "title": metric.title,
        "heading": metric.heading,
        "unit": metric.unit,
        "scale": metric.scale,
        "decimals": metric.decimals,
        "better": metric.better,
        "floor": metric.floor_name is not None,
    }


def _cell_data(board: Leaderboard, cell: LeaderboardCell, metrics: list[Metric]) -> dict[str, Any]:
    """Return the numbers in the order of the metrics, names as their positions in the lists."""
    found = [cell.metrics[metric.name] for metric in metrics]
    graphs = [graph.name for graph in board.graphs]
    return {
        "graph": graphs.index(cell.graph),
        "backbone": list(board.backbones).index(cell.backbone),
        "method": board.methods.index(cell.method),
        "protocols": [board.protocols.index(protocol) for protocol in cell.protocols],
        "n": len(cell.seeds),
        "fit": cell.fit_cpu_seconds,
        # In full, as text: in ranks nothing may be equal that is not equal in the records.
        "mean": [None if np.isnan(summary.mean) else repr(summary.mean) for summary in found],
        "spread": [summary.spread for summary in found],
        "floor": [summary.floor for summary in found],
        "paper": [None if s.paper is None else list(s.paper) for s in found],
        "values": [_rounded(summary.values) for summary in found],
    }


def _rounded(values: FloatArray) -> list[float]:
    return [float(f"{value:.{SEED_DIGITS}g}") for value in values]


def _row(line: Standing, metrics: list[Metric]) -> dict[str, Any]:
    """Return a line of the table as text, with the values that it sorts by."""
    rank = "" if np.isnan(line.mean_rank) else f"{line.mean_rank:.2f}"
    cells = [
        {
            "value": line.values[metric.name],
            "text": metric.shown(line.values[metric.name]),
            "floor": metric.shown(line.floors[metric.name]) if metric.floor_name else "",
        }
        for metric in metrics
    ]
    return {"line": line, "rank": rank, "cells": cells}
