"""The paper's figures from records: reliability grids, homophily splits, node-level scatter."""

from __future__ import annotations

from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from gnncal.data.errors import InputError, require
from gnncal.files.output import result_folder
from gnncal.metrics.binning import ReliabilityBins
from gnncal.plotting.reliability import draw_reliability
from gnncal.plotting.style import BLUE, GREY, MIDDLE, ORANGE, open_frame
from gnncal_lab.bench.diagnosis import DiagnosisEntry, read_diagnosis
from gnncal_lab.bench.published import BACKBONES
from gnncal_lab.bench.records import ReliabilitySums
from gnncal_lab.bench.results import Results, read_results
from gnncal_lab.datasets import FACTS

COMPARED = ("uncalibrated", "ts", "hots")
GROUP_NAMES = {2: ("low h", "high h"), 3: ("low h", "middle h", "high h")}
GROUP_COLOURS = {2: (ORANGE, BLUE), 3: (ORANGE, MIDDLE, BLUE)}
GROUP_MARKERS = "osD"
FILES = ("reliability-*.png", "homophily_split-*.png", "scatter-*.png")
COLUMNS = 5
POINT = {"s": 5, "alpha": 0.7, "linewidths": 0}


def save_figures(folder: Path) -> list[str]:
    """Draw what the folder has data for; the names of the files."""
    require("matplotlib.figure", extra="plot", purpose="drawing figures")
    drawn: dict[str, Any] = {}
    for protocol, results in read_results(folder).items():
        for backbone in results.backbones:
            if not any(_binned(results, *key) for key in results.records if key[1] == backbone):
                continue  # nothing to draw
            drawn[f"reliability-{backbone}-{protocol}"] = reliability_grid(results, backbone)
    for backbone, entries in read_diagnosis(folder).items():
        shown = BACKBONES.get(backbone, backbone), _in_order(entries)
        for n_groups in GROUP_NAMES:
            drawn[f"homophily_split-{n_groups}-{backbone}"] = homophily_grid(*shown, n_groups)
        for colour in ("homophily", "certainty"):
            drawn[f"scatter-{colour}-{backbone}"] = scatter_grid(*shown, colour)
    files = [f"{name}.png" for name in drawn]
    with result_folder(folder / "figures", "bench figures", earlier=FILES) as staging:
        for file, figure in zip(files, drawn.values(), strict=True):
            figure.savefig(staging / file, dpi=110)
    return files


def pooled_bins(results: Results, dataset: str, backbone: str, method: str) -> ReliabilityBins:
    """Return the reliability bins of all seeds together."""
    found = _binned(results, dataset, backbone, method)
    if len({len(bins["count"]) for bins in found}) > 1:
        raise InputError(
            f"records of {method} on {dataset} with {backbone} have different numbers of bins; "
            "compute them again with `gnncal bench run --again`."
        )
    sums = {
        name: np.sum([bins[name] for bins in found], axis=0)
        for name in ("count", "confidence", "correct")
    }
    count = sums["count"]
    edges = np.arange(len(count) + 1) / len(count)
    filled = np.maximum(count, 1)
    return ReliabilityBins(
        count=count,
        confidence=np.where(count > 0, sums["confidence"] / filled, np.nan),
        accuracy=np.where(count > 0, sums["correct"] / filled, np.nan),
        lower=edges[:-1],
        upper=edges[1:],
    )


def _binned(results: Results, dataset: str, backbone: str, method: str) -> list[ReliabilitySums]:
    """Return the sums by bin of each seed that has them, of a method that is compared."""
    records = results.records.get((dataset, backbone, method), [])
    known = [record.metrics.get("reliability") for record in records if method in COMPARED]
    return [bins for bins in known if bins is not None]


def reliability_grid(results: Results, backbone: str) -> Any:
    """Two datasets in a row, one panel for each method; the mean ECE over seeds in each title."""
    methods = [method for method in COMPARED if method in results.methods]
    datasets = [
        dataset
        for dataset in results.datasets
        if any(_binned(results, dataset, backbone, method) for method in methods)
    ]
    panels = [(dataset, method) for dataset in datasets for method in methods]
    figure, axes = _grid(len(panels), 2 * len(methods), width=2.3, height=2.5)
    for ax, (dataset, method) in zip(axes, panels, strict=False):
        if not _binned(results, dataset, backbone, method):
            ax.set_visible(False)
            continue
        bins = pooled_bins(results, dataset, backbone, method)
        error = 100 * results.mean("ece", dataset, [backbone], method)
        title = f"{dataset}, {method}\nECE {error:.1f}%"
        draw_reliability(bins, ax=ax, title=title, level=None)  # seeds share nodes: no interval
        _quiet(ax)
    name = BACKBONES.get(backbone, backbone)
    _frame(
        figure,
        f"confidence ({name}, protocol {results.protocol}; test nodes of all seeds; in the titles: "
        "mean ECE over seeds)",
        "accuracy",
    )
    return figure


def homophily_grid(backbone: str, diagnosis: dict[str, DiagnosisEntry], n_groups: int) -> Any:
    """Accuracy against confidence by homophily of the nodes, one panel for each dataset."""
    figure, axes = _grid(len(diagnosis), COLUMNS, width=2.4, height=2.3)
    for ax, (dataset, entry) in zip(axes, diagnosis.items(), strict=False):
        split = entry["splits"][str(n_groups)]
        accuracy = np.array(split["accuracy"])
        ax.plot([0, 1], [0, 1], "--", color=GREY, linewidth=1)
        for g, name in enumerate(GROUP_NAMES[n_groups]):
            colour, marker = GROUP_COLOURS[n_groups][g], GROUP_MARKERS[g]
            ax.plot(
                *(split["confidence"], accuracy[:, g]),
                marker=marker,
                markersize=4,
                color=colour,
                label=name,
            )
        ax.set(xlim=(0, 1.02), ylim=(0, 1.02))
        ax.set_title(f"{dataset}  {100 * split['gap']:+.1f}", fontsize=9)
        _quiet(ax)
    _frame(
        figure,
        f"mean confidence of each quantile ({backbone}, all seeds; h: homophily; in the titles: "
        "accuracy at high h minus low h, in points)",
        "accuracy",
    )
    return figure


def scatter_grid(backbone: str, diagnosis: dict[str, DiagnosisEntry], colour: str) -> Any:
    """Confidence gap of nodes against the correction of the paper's HoTS with oracle homophily."""
    names = {"homophily": "oracle normalised homophily", "certainty": "1 - normalised entropy"}
    figure, axes = _grid(len(diagnosis), COLUMNS, width=2.4, height=2.3)
    lowest = -1.0 if colour == "homophily" else 0.0
    points = None
    for ax, (dataset, entry) in zip(axes, diagnosis.items(), strict=False):
        nodes = {name: np.array(values) for name, values in entry["nodes"].items()}
        points = ax.scatter(
            nodes["correction"],
            nodes["gap"],
            c=nodes[colour],
            cmap="viridis",
            vmin=lowest,
            vmax=1.0,
            **POINT,
        )
        ax.axhline(0, color=GREY, linewidth=0.8, zorder=0)
        ax.set(xscale="log", ylim=(-1.02, 1.02))
        _few_ticks(ax.xaxis)
        ax.set_title(dataset, fontsize=9)
        _quiet(ax)
    _frame(
        figure,
        f"temperature correction of the paper's HoTS, with oracle homophily ({backbone}, some test "
        "nodes of one seed)",
        "confidence minus correctness",
    )
    figure.colorbar(points, ax=list(axes[: len(diagnosis)]), label=names[colour], shrink=0.7)
    return figure


def _grid(n_panels: int, n_columns: int, *, width: float, height: float) -> tuple[Any, Any]:
    figures = require("matplotlib.figure", extra="plot", purpose="drawing figures")
    columns = min(n_columns, n_panels)
    lines = ceil(n_panels / columns)
    size = (width * columns + 0.6, height * lines + 0.8)
    figure = figures.Figure(figsize=size, layout="constrained")
    axes = figure.subplots(lines, columns, squeeze=False).ravel()
    for ax in axes[n_panels:]:
        ax.set_visible(False)
    return figure, axes


def _frame(figure: Any, x: str, y: str) -> None:
    """What all panels share: the names of the axes, and a legend where the first has labels."""
    first = next(ax for ax in figure.axes if ax.get_visible())
    handles, names = first.get_legend_handles_labels()
    if names:
        figure.legend(handles, names, loc="outside upper center", ncols=len(names), frameon=False)
    figure.supxlabel(x, fontsize=10)
    figure.supylabel(y, fontsize=10)


def _few_ticks(axis: Any) -> None:
    """Put plain numbers on a logarithmic axis, few enough to be read."""
    ticker = require("matplotlib.ticker", extra="plot", purpose="drawing figures")
    low, high = axis.get_view_interval()
    axis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5) if high < 30 * low else (1,)))
    axis.set_major_formatter(ticker.FormatStrFormatter("%g"))
    axis.set_minor_formatter(ticker.NullFormatter())


def _quiet(ax: Any) -> None:
    ax.title.set_fontsize(8)
    ax.tick_params(labelsize=7)
    ax.set(xlabel="", ylabel="")
    open_frame(ax)


def _in_order(diagnosis: dict[str, DiagnosisEntry]) -> dict[str, DiagnosisEntry]:
    order = [name for name in FACTS if name in diagnosis]
    return {name: diagnosis[name] for name in [*order, *sorted(set(diagnosis) - set(order))]}
