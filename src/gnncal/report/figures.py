"""Pictures. Matplotlib is imported when something is drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from gnncal.core.errors import require
from gnncal.metrics import ReliabilityBins

BAR, GAP, DIAGONAL = "#4477aa", "#ee6677", "#888888"


def draw_reliability(bins: ReliabilityBins, *, ax: Any, title: str = "") -> None:
    """Accuracy against confidence, with the gaps; empty bins are not drawn."""
    filled = bins.count > 0
    lower, upper = bins.lower[filled], bins.upper[filled]
    accuracy, confidence = bins.accuracy[filled], bins.confidence[filled]
    width = upper - lower
    ax.bar(lower, accuracy, width, align="edge", color=BAR, edgecolor="white", label="accuracy")
    ax.bar(
        lower,
        confidence - accuracy,
        width,
        bottom=accuracy,
        align="edge",
        color=GAP,
        alpha=0.35,
        hatch="//",
        edgecolor=GAP,
        label="gap to confidence",
    )
    ax.plot([0, 1], [0, 1], "--", color=DIAGONAL, linewidth=1)
    share = bins.count[filled] / bins.count.sum()
    ax.bar(lower, -0.12 * share / share.max(), width, align="edge", color=DIAGONAL, alpha=0.5)
    ax.axhline(0, color="black", linewidth=0.6)
    ax.set(xlim=(0, 1), ylim=(-0.13, 1), xlabel="confidence", ylabel="accuracy", title=title)
    ax.set_yticks(np.linspace(0, 1, 6))
    ax.set_aspect("equal")


def save_reliability(panels: dict[str, ReliabilityBins], path: Path) -> None:
    """One reliability diagram a panel, side by side, as an image file."""
    figures = require("matplotlib.figure", extra="plot", purpose="drawing a reliability diagram")
    figure = figures.Figure(figsize=(4.2 * len(panels), 4.6), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for ax, (title, bins) in zip(axes, panels.items(), strict=True):
        draw_reliability(bins, ax=ax, title=title)
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=2, frameon=False)
    figure.savefig(path, dpi=150)
