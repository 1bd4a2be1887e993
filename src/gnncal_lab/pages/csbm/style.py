"""What the figures of the block-model experiments share: colours, fonts, bands, points."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnncal.data.arrays import FloatArray
from gnncal.plotting.style import BAR, BLUE, GAP, GREEN, GREY, PURPLE, SAND, SHADE
from gnncal_lab.simulation.estimate import Estimate
from gnncal_lab.simulation.experiments.kl import Curve
from gnncal_lab.simulation.experiments.sweep import Temperatures

SERIES = (BLUE, GAP, SAND, GREEN, PURPLE)
STYLE = {
    "font.size": 9.5,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "svg.hashsalt": "gnncal",
}


def mark_signal(ax: Any, zero_signal: float, class_random: float) -> None:
    """Shade Gamma < 0, mark h_0 and 1/K."""
    top = ax.get_xaxis_transform()
    if zero_signal > 0:
        ax.axvspan(-0.05, zero_signal, color=SHADE, zorder=0, linewidth=0)
        ax.text(zero_signal, 0.01, "h₀ ", transform=top, ha="right", va="bottom", fontsize=8)
    ax.axvline(class_random, color=GREY, linewidth=0.8, linestyle=":")
    ax.text(class_random, 0.01, " 1/K", transform=top, ha="left", va="bottom", fontsize=8)


def band(ax: Any, x: FloatArray, fitted: Temperatures, height: float) -> None:
    """Mean and one standard deviation; what lies above the picture is an arrow with its mean."""
    inside = fitted.mean < height
    mean = np.where(inside, fitted.mean, np.nan)
    low, high = mean - fitted.deviation, mean + fitted.deviation
    ax.fill_between(x, low, high, color=BAR, alpha=0.5, linewidth=0)
    ax.plot(x, mean, color=BLUE, marker="o", markersize=4, label="mean ± 1 sd")
    for where, value in zip(x[~inside], fitted.mean[~inside], strict=True):
        ax.plot(where, 0.96 * height, "^", color=BLUE, markersize=5)
        ax.text(where, 0.93 * height, f"{value:.3g}", color=BLUE, ha="center", va="top", fontsize=8)


def points(ax: Any, x: FloatArray, estimate: Estimate, colour: str, label: str) -> None:
    """Values as dots with their intervals."""
    value, low, high = parts(estimate)
    error = np.stack([value - low, high - value])
    ax.errorbar(x, value, yerr=error, fmt="o", color=colour, markersize=4, linewidth=1, label=label)


def parts(estimate: Estimate) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Value, lower and upper end."""
    return estimate.value, estimate.low, estimate.high


def plain_ticks(ax: Any, curve: Curve) -> None:
    """Name the values of a sweep on a logarithmic axis, and nothing between."""
    ax.set_xticks(curve.values, [f"{value:.0f}" for value in curve.values])
    ax.minorticks_off()
