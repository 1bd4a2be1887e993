"""Reliability diagrams: accuracy against confidence, or one class against its probability."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from gnncal.data.arrays import FloatArray
from gnncal.data.errors import InputError, require
from gnncal.metrics.binning import (
    DEFAULT_BINS,
    N_BINS,
    ReliabilityBins,
    Strategy,
    bins_of,
    positive_bins_of,
)
from gnncal.metrics.evaluation import check_positive_class, shown_class
from gnncal.metrics.floor import calibrated_range, floor_of_bins
from gnncal.metrics.outcomes import Outcomes
from gnncal.plotting.style import (
    BAR,
    BLUE,
    GAP,
    GREY,
    INK,
    PURPOSE,
    Display,
    legend_below,
    metric_title,
    open_frame,
)

HISTOGRAM_HEIGHT = 0.12  # of the fullest bin, below the diagram
LEVEL = 0.95  # of the intervals, and of the band
SMALLEST = 1e-6  # probability that an axis shows; smaller ones are drawn at its end
POINT_SIZE = 4.0
LABEL_WIDTH = 0.75  # inches that the longest label of the axis takes, "0.0001%"


class Band(NamedTuple):
    """Where the share of each bin would lie if the probability were calibrated."""

    low: FloatArray
    high: FloatArray


def draw_reliability(
    bins: ReliabilityBins, *, ax: Any, title: str = "", level: float | None = LEVEL
) -> None:
    """Draw the accuracy of each bin of confidence that has nodes, its interval, and the gap."""
    filled = bins.count > 0
    lower, width = bins.lower[filled], (bins.upper - bins.lower)[filled]
    accuracy, gap = bins.accuracy[filled], bins.gap[filled]
    bars = {"align": "edge", "edgecolor": "white", "linewidth": 0.6}
    ax.bar(lower, accuracy, width, color=BAR, label="accuracy", **bars)
    hatched = {"align": "edge", "facecolor": "none", "edgecolor": GAP, "hatch": "////"}
    label = "gap to mean confidence"
    ax.bar(lower, gap, width, bottom=accuracy, linewidth=0.8, label=label, **hatched)
    if level is not None:
        low, high = (end[filled] for end in bins.accuracy_interval(level))
        ends = np.maximum([accuracy - low, high - accuracy], 0.0)
        label = f"{100 * level:g}% interval"
        lines = {"fmt": "none", "ecolor": INK, "elinewidth": 1.0, "capsize": 1.8, "capthick": 0.8}
        ax.errorbar(lower + 0.5 * width, accuracy, yerr=ends, label=label, **lines)
    depth = -HISTOGRAM_HEIGHT * bins.count[filled] / bins.count.max()
    ax.bar(lower, depth, width, color=GREY, label="share of nodes", **bars)
    ax.plot([0, 1], [0, 1], "--", color="black", linewidth=0.9)
    ax.axhline(0, color="black", linewidth=0.6)
    ax.set(xlim=(0, 1), ylim=(-HISTOGRAM_HEIGHT - 0.02, 1), xlabel="confidence", title=title)
    ax.set_yticks(np.linspace(0, 1, 6))
    ax.set_aspect("equal")
    open_frame(ax)


def draw_class_reliability(
    bins: ReliabilityBins, band: Band, *, ax: Any, log: bool, title: str = "", label: str
) -> None:
    """Draw the share of nodes that have a class against its probability; a triangle for none."""
    filled = bins.count > 0
    mean, share = bins.confidence[filled], bins.accuracy[filled]
    low, high = (end[filled] for end in band)
    lowest = _lower_end(mean, share) if log else 0.0
    scale = "log" if log else "linear"
    at = np.maximum(mean, lowest)
    ax.set(xscale=scale, yscale=scale, xlim=(lowest, 1.0), ylim=(lowest, 1.0))
    ends, name = np.maximum([low, high], lowest), f"{100 * LEVEL:g}% band, if calibrated"
    ax.fill_between(at, *ends, color=GREY, alpha=0.5, linewidth=0, label=name)
    ax.plot([lowest, 1], [lowest, 1], "--", color="black", linewidth=0.9)
    ax.plot(at, np.maximum(share, lowest), color=BLUE, linewidth=0.8)
    is_honest = (share >= low) & (share <= high)
    size = round(bins.count[filled].mean())
    kinds = f"bin of {size:,} nodes", "bin outside the band"
    for chosen, colour, kind in zip((is_honest, ~is_honest), (BLUE, GAP), kinds, strict=True):
        for none, marker in ((False, "o"), (True, "v")):
            drawn = chosen & ((share == 0) == none)
            if not drawn.any():
                continue
            name = f"bin without {label}" if none else kind
            look = {"color": colour, "markersize": POINT_SIZE, "clip_on": False}
            ax.plot(at[drawn], np.maximum(share[drawn], lowest), marker, label=name, **look)
    weight = bins.count[filled] / bins.count.sum()
    centre = weight @ mean, max(float(weight @ share), lowest)
    ax.plot(*centre, "*", color=INK, markersize=2 * POINT_SIZE, label="all nodes")
    ax.set(xlabel=f"P({label})", ylabel=f"share that is {label}", title=title, aspect="equal")
    ticker = require("matplotlib.ticker", extra="plot", purpose=PURPOSE)
    if log:  # as many labels as do not overlap
        inches = ax.get_window_extent().width / ax.figure.dpi
        ax.xaxis.set_major_locator(ticker.LogLocator(numticks=max(2, int(inches / LABEL_WIDTH))))
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{100 * value:g}%"))
    open_frame(ax)


def _lower_end(mean: FloatArray, share: FloatArray) -> float:
    """Return the power of ten at or below everything that is drawn and not zero."""
    shown = np.concatenate([mean, share])
    least = max(float(shown[shown > 0].min(initial=1.0)), SMALLEST)
    return float(10.0 ** np.floor(min(np.log10(least), -1.0)))


class ReliabilityDisplay(Display):
    """A reliability diagram, titled with the calibration error and its noise floor.

    Parameters
    ----------
    bins : ReliabilityBins
        Mean confidence and accuracy of each bin; for one class, its mean probability and share.
    title : str, default=""
        Title of the diagram.
    label : str, optional
        Name of the class in a diagram of one class.
    band : Band, optional
        Range of the share under perfect calibration, ``low`` and ``high``; only for one class.
    log : bool, default=False
        Whether the axes are logarithmic; only for one class.

    Examples
    --------
    >>> from gnncal.plotting import ReliabilityDisplay
    >>> probs = [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.3, 0.7]]
    >>> display = ReliabilityDisplay.from_predictions([0, 1, 1, 1], probs, name="raw")
    >>> display.ax_.get_title(loc="left")
    'raw: ECE 30.00% (floor 35.00%)'
    >>> names = ["fine", "fraud"]
    >>> display = ReliabilityDisplay.from_predictions(
    ...     [0, 1, 1, 1], probs, positive="fraud", class_names=names, log=True
    ... )
    >>> display.ax_.get_xlabel(), display.ax_.get_xscale()
    ('P(fraud)', 'log')

    """

    height: ClassVar[float] = 4.0

    def __init__(
        self,
        bins: ReliabilityBins,
        *,
        title: str = "",
        label: str | None = None,
        band: Band | None = None,
        log: bool = False,
    ) -> None:
        self.bins, self.title, self.label, self.band, self.log = bins, title, label, band, log

    @classmethod
    def from_predictions(
        cls,
        labels: Any,
        probs: Any,
        *,
        positive: int | str | None = None,
        class_names: Any = None,
        log: bool = False,
        n_bins: int = DEFAULT_BINS,
        strategy: Strategy = "uniform",
        name: str = "",
        ax: Any = None,
    ) -> Self:
        """Make a diagram of predictions and draw it, with 95% intervals.

        Parameters
        ----------
        positive : int or str, optional
            The class to draw, by number or name. Default: the predicted class of each node.
        log : bool, default=False
            Whether the axes are logarithmic, to show small probabilities; needs ``positive``.
        n_bins : int, default=15
            Number of bins.
        strategy : {"uniform", "quantile"}, default="uniform"
            Bins of equal width or of equally many nodes; with ``positive`` always the latter.
        name : str, default=""
            Name of the method, for the title.
        ax : matplotlib.axes.Axes, optional
            The axes to draw on. Default: a new figure.

        """
        N_BINS.check("n_bins", n_bins)
        outcomes = Outcomes(labels, probs)
        names, view = check_positive_class(positive, outcomes.probs.shape[1], class_names)
        if view is None:
            if log:
                raise InputError("log=True is for the probability of one class; pass positive.")
            bins = bins_of(outcomes, n_bins, strategy)
            floor = floor_of_bins(outcomes.confidence, n_bins, strategy)
            return cls(bins, title=metric_title(name, "ece", bins.error, floor.mean)).plot(ax)
        outcomes.positive = view
        bins, p = positive_bins_of(outcomes, n_bins), outcomes.positive_probability
        floor = floor_of_bins(p, n_bins, "quantile")
        title = metric_title(name, "positive_ece", bins.error, floor.mean)
        label = "positive" if names is None else shown_class(view, names)
        band = Band(*calibrated_range(p, np.append(bins.lower, bins.upper[-1]), LEVEL))
        return cls(bins, title=title, label=label, band=band, log=log).plot(ax)

    def _draw(self, ax: Any) -> None:
        if self.band is None:
            draw_reliability(self.bins, ax=ax, title=self.title)
            ax.set_ylabel("accuracy")
        else:
            about = {"title": self.title, "label": self.label or "positive"}
            draw_class_reliability(self.bins, self.band, ax=ax, log=self.log, **about)
        legend_below(ax)
