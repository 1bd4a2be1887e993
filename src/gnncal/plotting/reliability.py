"""Pictures. Matplotlib is imported when something is drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from gnncal.core.errors import require
from gnncal.metrics import ReliabilityBins

BAR, GAP, GREY = "#88bbdd", "#aa3344", "#bbbbbb"  # told apart by every kind of colour vision
HISTOGRAM_HEIGHT = 0.12  # of the fullest bin, below the diagram


def draw_reliability(bins: ReliabilityBins, *, ax: Any, title: str = "") -> None:
    """Accuracy against confidence, with the gaps; empty bins are not drawn."""
    filled = bins.count > 0
    lower, width = bins.lower[filled], (bins.upper - bins.lower)[filled]
    accuracy, gap = bins.accuracy[filled], bins.gap[filled]
    ax.bar(lower, accuracy, width, align="edge", color=BAR, edgecolor="white", label="accuracy")
    ax.bar(
        lower,
        gap,
        width,
        bottom=accuracy,
        align="edge",
        facecolor="none",
        edgecolor=GAP,
        hatch="////",
        linewidth=0.8,
        label="gap to mean confidence",
    )
    depth = -HISTOGRAM_HEIGHT * bins.count[filled] / bins.count.max()
    ax.bar(lower, depth, width, align="edge", color=GREY, edgecolor="white", label="share of nodes")
    ax.plot([0, 1], [0, 1], "--", color="black", linewidth=1)
    ax.axhline(0, color="black", linewidth=0.6)
    ax.set(xlim=(0, 1), ylim=(-HISTOGRAM_HEIGHT - 0.02, 1), xlabel="confidence", title=title)
    ax.set_yticks(np.linspace(0, 1, 6))
    ax.set_aspect("equal")
    ax.spines[["top", "right"]].set_visible(False)


def save_reliability(rows: dict[str, dict[str, ReliabilityBins]], path: Path) -> None:
    """A grid of reliability diagrams, one row a group of nodes, as an image file."""
    figures = require("matplotlib.figure", extra="plot", purpose="drawing a reliability diagram")
    n_rows, n_columns = len(rows), max(len(panels) for panels in rows.values())
    size = (4.0 * n_columns, 4.3 * n_rows + 0.3)
    figure = figures.Figure(figsize=size, layout="constrained")
    axes = figure.subplots(n_rows, n_columns, squeeze=False, sharex=True, sharey=True)
    for line, (group, panels) in zip(axes, rows.items(), strict=True):
        for ax, (title, bins) in zip(line, panels.items(), strict=True):
            draw_reliability(bins, ax=ax, title=title)
            ax.set_xlabel("confidence" if line is axes[-1] else "")
        line[0].set_ylabel(f"{group}\naccuracy")
    handles, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=len(names), frameon=False)
    figure.savefig(path, dpi=150)
