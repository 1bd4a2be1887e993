"""Reliability diagrams: accuracy against confidence, bin by bin."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from gnncal.core.errors import require
from gnncal.files.output import seal, write_file
from gnncal.metrics import (
    METRICS,
    NoiseFloor,
    calibration_floor,
    expected_calibration_error,
    reliability_bins,
)
from gnncal.metrics.binning import DEFAULT_BINS, ReliabilityBins, Strategy
from gnncal.plotting.display import Display
from gnncal.plotting.style import BAR, GAP, GREY, INK, legend_below, open_frame

HISTOGRAM_HEIGHT = 0.12  # of the fullest bin, below the diagram
LEVEL = 0.95  # of the intervals


def draw_reliability(
    bins: ReliabilityBins, *, ax: Any, title: str = "", level: float | None = LEVEL
) -> None:
    """Draw the accuracy of each bin of confidence, its interval, and the gap to the confidence.

    Empty bins are not drawn.

    Parameters
    ----------
    bins : ReliabilityBins
        What :func:`gnncal.metrics.reliability_bins` returns.
    ax : matplotlib.axes.Axes
        The axis to draw on.
    title : str, default=""
        Title above the diagram.
    level : float or None, default=0.95
        Probability of the Clopper-Pearson interval of each bin's accuracy; None draws none.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from gnncal.metrics import reliability_bins
    >>> from gnncal.plotting import draw_reliability
    >>> ax = Figure().subplots()
    >>> draw_reliability(reliability_bins([0, 1], [[0.9, 0.1], [0.8, 0.2]]), ax=ax, title="raw")
    >>> ax.get_xlabel()
    'confidence'

    """
    filled = bins.count > 0
    lower, width = bins.lower[filled], (bins.upper - bins.lower)[filled]
    accuracy, gap = bins.accuracy[filled], bins.gap[filled]
    bars = {"align": "edge", "edgecolor": "white", "linewidth": 0.6}
    ax.bar(lower, accuracy, width, color=BAR, label="accuracy", **bars)
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
    if level is not None:
        low, high = (end[filled] for end in bins.accuracy_interval(level))
        ax.errorbar(
            lower + 0.5 * width,
            accuracy,
            yerr=np.maximum([accuracy - low, high - accuracy], 0.0),
            fmt="none",
            ecolor=INK,
            elinewidth=1.0,
            capsize=1.8,
            capthick=0.8,
            label=f"{100 * level:g} % interval",
        )
    depth = -HISTOGRAM_HEIGHT * bins.count[filled] / bins.count.max()
    ax.bar(lower, depth, width, color=GREY, label="share of nodes", **bars)
    ax.plot([0, 1], [0, 1], "--", color="black", linewidth=0.9)
    ax.axhline(0, color="black", linewidth=0.6)
    ax.set(xlim=(0, 1), ylim=(-HISTOGRAM_HEIGHT - 0.02, 1), xlabel="confidence", title=title)
    ax.set_yticks(np.linspace(0, 1, 6))
    ax.set_aspect("equal")
    open_frame(ax)


def save_reliability(rows: dict[str, dict[str, ReliabilityBins]], path: Path) -> None:
    """Write a grid of reliability diagrams as an image file, one row for each group of nodes.

    Parameters
    ----------
    rows : dict of str to dict of str to ReliabilityBins
        For each group of nodes, the bins of each diagram by its title.
    path : Path
        The file to write; its suffix decides the format. A file that is there already is
        replaced only if this function wrote it.

    Examples
    --------
    >>> from pathlib import Path
    >>> from gnncal.metrics import reliability_bins
    >>> from gnncal.plotting import save_reliability
    >>> bins = reliability_bins([0, 1], [[0.9, 0.1], [0.8, 0.2]])
    >>> save_reliability({"all nodes": {"raw": bins}}, Path("reliability.png"))
    >>> Path("reliability.png").exists()
    True

    """
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
    content = io.BytesIO()
    form = path.suffix[1:].lower() or "png"
    figure.savefig(
        content,
        dpi=150,
        format=form,
    )
    write_file(path, seal(content.getvalue(), "html" if form == "svg" else "image"))


class ReliabilityDisplay(Display):
    """A reliability diagram with its calibration error and the noise floor of that error.

    Parameters
    ----------
    bins : ReliabilityBins
        Confidence and accuracy by bin.
    ece : float, optional
        The expected calibration error; None if it is not known.
    floor : NoiseFloor, optional
        What it would be under perfect calibration; None if it is not known.
    name : str, default=""
        Name of the method, for the title.

    Examples
    --------
    >>> from gnncal.plotting import ReliabilityDisplay
    >>> probs = [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.3, 0.7]]
    >>> display = ReliabilityDisplay.from_predictions([0, 1, 1, 1], probs, name="raw")
    >>> display.ax_.get_title(loc="left")
    'raw: ECE 30.00 % (floor 35.00 %)'

    """

    height: ClassVar[float] = 4.0

    def __init__(
        self,
        bins: ReliabilityBins,
        *,
        ece: float | None = None,
        floor: NoiseFloor | None = None,
        name: str = "",
    ) -> None:
        self.bins = bins
        self.ece = ece
        self.floor = floor
        self.name = name

    @classmethod
    def from_predictions(
        cls,
        labels: Any,
        probs: Any,
        *,
        n_bins: int = DEFAULT_BINS,
        strategy: Strategy = "uniform",
        name: str = "",
        ax: Any = None,
        level: float | None = LEVEL,
    ) -> Self:
        """Compute the bins of these predictions and draw them.

        Parameters
        ----------
        labels : array_like of shape (n_nodes,)
            Classes 0..K-1.
        probs : array_like of shape (n_nodes, n_classes)
            Probabilities; rows sum to one.
        n_bins : int, default=15
            Number of bins.
        strategy : {"uniform", "quantile"}, default="uniform"
            Bins of equal width, or with equally many nodes.
        name : str, default=""
            Name of the method, for the title.
        ax : matplotlib.axes.Axes, optional
            The axis to draw on. Default: one of a new figure.
        level : float or None, default=0.95
            Probability of the Clopper-Pearson intervals; None draws none.

        Returns
        -------
        ReliabilityDisplay
            The display, drawn.

        """
        display = cls(
            reliability_bins(labels, probs, n_bins=n_bins, strategy=strategy),
            ece=expected_calibration_error(labels, probs, n_bins=n_bins, strategy=strategy),
            floor=calibration_floor(probs, n_bins=n_bins, strategy=strategy),
            name=name,
        )
        return display.plot(ax, level=level)

    def plot(self, ax: Any = None, *, level: float | None = LEVEL) -> Self:
        """Draw the diagram.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            The axis to draw on. Default: one of a new figure.
        level : float or None, default=0.95
            Probability of the Clopper-Pearson intervals; None draws none.

        Returns
        -------
        ReliabilityDisplay
            The display itself; ``ax_`` and ``figure_`` say where it drew.

        """

        def draw(place: Any) -> None:
            draw_reliability(self.bins, ax=place, title=self._title(), level=level)
            place.set_ylabel("accuracy")
            legend_below(place)

        return self._draw_on(ax, draw)

    def _title(self) -> str:
        ece = METRICS["ece"]
        parts = [] if self.ece is None else [f"{ece.title} {ece.shown(self.ece)} {ece.unit}"]
        if self.floor is not None:
            parts.append(f"(floor {ece.shown(self.floor.mean)} {ece.unit})")
        return ": ".join(part for part in (self.name, " ".join(parts)) if part)
