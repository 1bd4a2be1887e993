"""Reliability of one class's probability, on logarithmic axes where a rare class has its nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from gnncal.core.arrays import FloatArray
from gnncal.core.constraints import number
from gnncal.core.errors import require
from gnncal.metrics import METRICS, NoiseFloor
from gnncal.metrics.binning import DEFAULT_BINS, N_BINS, ReliabilityBins, error_of
from gnncal.metrics.evaluation import check_view, shown_class
from gnncal.metrics.floor import calibrated_range, floor_of_bins
from gnncal.metrics.outcomes import Outcomes
from gnncal.metrics.positive import positive_bins_of
from gnncal.plotting.display import Display
from gnncal.plotting.style import BLUE, GAP, GREY, INK, PURPOSE, legend_below, open_frame

LEVEL = 0.95  # of the band
SMALLEST = 1e-6  # probability that an axis shows; smaller ones are drawn at its end
SHARE = number(above=0.0, below=1.0)  # what the level of the band may be
POINT_SIZE = 4.0
LABEL_WIDTH = 0.75  # inches that the longest label of the axis takes, "0.0001 %"


@dataclass(frozen=True)
class PositiveReliability:
    """How often nodes have a class, by the probability that they were given.

    Attributes
    ----------
    bins : ReliabilityBins
        Mean probability of the class (``confidence``) and the share of nodes that have it
        (``accuracy``), in bins of equally many nodes.
    low, high : ndarray of shape (n_bins,)
        Between which shares an honest probability would show in each bin.
    level : float
        Probability of that band.
    error : float
        The mean gap over bins.
    floor : NoiseFloor
        What an honest probability would show.

    Examples
    --------
    >>> from gnncal.plotting import PositiveReliabilityDisplay
    >>> probs = [[0.99, 0.01], [0.98, 0.02], [0.7, 0.3], [0.5, 0.5]]
    >>> display = PositiveReliabilityDisplay.from_predictions([0, 0, 1, 1], probs, positive=1)
    >>> round(display.reliability.error, 4)
    0.3075

    """

    bins: ReliabilityBins
    low: FloatArray
    high: FloatArray
    level: float
    error: float
    floor: NoiseFloor

    @classmethod
    def of(
        cls, outcomes: Outcomes, n_bins: int = DEFAULT_BINS, level: float = LEVEL
    ) -> PositiveReliability:
        """Compute everything that is drawn from outcomes with a class in view.

        Parameters
        ----------
        outcomes : Outcomes
            Labels, probabilities and the class in view.
        n_bins : int, default=15
            Number of bins.
        level : float, default=0.95
            Probability of the band.

        Returns
        -------
        PositiveReliability
            The record.

        """
        bins = positive_bins_of(outcomes, n_bins)
        edges = np.append(bins.lower, bins.upper[-1])
        low, high = calibrated_range(outcomes.positive_probability, edges, level)
        floor = floor_of_bins(outcomes.positive_probability, n_bins, "quantile")
        return cls(bins, low, high, level, error_of(bins), floor)


def draw_positive_reliability(
    reliability: PositiveReliability, *, ax: Any, title: str = "", label: str = "positive"
) -> None:
    """Draw the share of nodes that have a class against the probability that they were given.

    Both axes are logarithmic, so that nodes near zero can be told apart. A bin where no node has
    the class is drawn at the lower end.

    Parameters
    ----------
    reliability : PositiveReliability
        What to draw.
    ax : matplotlib.axes.Axes
        The axis to draw on.
    title : str, default=""
        Title above the diagram.
    label : str, default="positive"
        Name of the class.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from gnncal.plotting import PositiveReliabilityDisplay, draw_positive_reliability
    >>> probs = [[0.99, 0.01], [0.98, 0.02], [0.7, 0.3], [0.5, 0.5]]
    >>> display = PositiveReliabilityDisplay.from_predictions([0, 0, 1, 1], probs, positive=1)
    >>> ax = Figure().subplots()
    >>> draw_positive_reliability(display.reliability, ax=ax, label="fraud")
    >>> ax.get_xlabel(), ax.get_xscale()
    ('P(fraud)', 'log')

    """
    bins = reliability.bins
    filled = bins.count > 0
    mean, share = bins.confidence[filled], bins.accuracy[filled]
    low, high = reliability.low[filled], reliability.high[filled]
    lowest = _lower_end(mean, share)
    at = np.maximum(mean, lowest)
    ax.set(xscale="log", yscale="log", xlim=(lowest, 1.0), ylim=(lowest, 1.0))
    ax.fill_between(
        at,
        np.maximum(low, lowest),
        np.maximum(high, lowest),
        color=GREY,
        alpha=0.5,
        linewidth=0,
        label=f"{100 * reliability.level:g} % band, if honest",
    )
    ax.plot([lowest, 1], [lowest, 1], "--", color="black", linewidth=0.9)
    ax.plot(at, np.maximum(share, lowest), color=BLUE, linewidth=0.8)
    is_honest = (share >= low) & (share <= high)
    size = round(bins.count[filled].mean())
    for chosen, colour, where in ((is_honest, BLUE, ""), (~is_honest, GAP, ", outside")):
        for none, marker in ((False, "o"), (True, "v")):
            drawn = chosen & ((share == 0) == none)
            if not drawn.any():
                continue
            kind = f"no {label} in the bin" if none else f"bin of {size:,} nodes{where}"
            ax.plot(
                *(at[drawn], np.maximum(share[drawn], lowest)),
                marker,
                color=colour,
                markersize=POINT_SIZE,
                clip_on=False,
                label=kind,
            )
    weight = bins.count[filled] / bins.count.sum()
    ax.plot(
        *(weight @ mean, max(float(weight @ share), lowest)),
        "*",
        color=INK,
        markersize=2 * POINT_SIZE,
        label="all nodes",
    )
    ax.set(xlabel=f"P({label})", ylabel=f"share that is {label}", title=title, aspect="equal")
    ticker = require("matplotlib.ticker", extra="plot", purpose=PURPOSE)
    inches = ax.get_window_extent().width / ax.figure.dpi
    ax.xaxis.set_major_locator(ticker.LogLocator(numticks=max(2, int(inches / LABEL_WIDTH))))
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{100 * value:g} %"))
    open_frame(ax)


class PositiveReliabilityDisplay(Display):
    """Reliability of the probability of one class, with the band of an honest one.

    Parameters
    ----------
    reliability : PositiveReliability
        What to draw.
    label : str, default="positive"
        Name of the class.
    name : str, default=""
        Name of the method, for the title.

    Examples
    --------
    >>> from gnncal.plotting import PositiveReliabilityDisplay
    >>> probs = [[0.99, 0.01], [0.98, 0.02], [0.7, 0.3], [0.5, 0.5]]
    >>> display = PositiveReliabilityDisplay.from_predictions(
    ...     [0, 0, 1, 1], probs, positive="fraud", class_names=["fine", "fraud"], name="raw"
    ... )
    >>> display.ax_.get_title(loc="left")
    'raw: ECE of P 30.75 % (floor 24.47 %)'

    """

    height: ClassVar[float] = 3.8

    def __init__(
        self, reliability: PositiveReliability, *, label: str = "positive", name: str = ""
    ) -> None:
        self.reliability = reliability
        self.label = label
        self.name = name

    @classmethod
    def from_predictions(
        cls,
        labels: Any,
        probs: Any,
        *,
        positive: int | str,
        class_names: Any = None,
        n_bins: int = DEFAULT_BINS,
        name: str = "",
        ax: Any = None,
        level: float = LEVEL,
    ) -> Self:
        """Compute the bins of these predictions and draw them.

        Parameters
        ----------
        labels : array_like of shape (n_nodes,)
            Classes 0..K-1.
        probs : array_like of shape (n_nodes, n_classes)
            Probabilities; rows sum to one.
        positive : int or str
            The class, by its number or its name.
        class_names : sequence of str, optional
            A name for each class.
        n_bins : int, default=15
            Number of bins, with equally many nodes each.
        name : str, default=""
            Name of the method, for the title.
        ax : matplotlib.axes.Axes, optional
            The axis to draw on. Default: one of a new figure.
        level : float, default=0.95
            Probability of the band.

        Returns
        -------
        PositiveReliabilityDisplay
            The display, drawn.

        """
        N_BINS.check("n_bins", n_bins)
        SHARE.check("level", level)
        outcomes = Outcomes(labels, probs)
        names, outcomes.positive = check_view(positive, outcomes.probs.shape[1], class_names)
        label = "positive" if names is None else shown_class(outcomes.positive or 0, names)
        display = cls(PositiveReliability.of(outcomes, n_bins, level), label=label, name=name)
        return display.plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the diagram.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            The axis to draw on. Default: one of a new figure.

        Returns
        -------
        PositiveReliabilityDisplay
            The display itself; ``ax_`` and ``figure_`` say where it drew.

        """

        def draw(place: Any) -> None:
            draw_positive_reliability(
                self.reliability, ax=place, title=self._title(), label=self.label
            )
            legend_below(place)

        return self._draw_on(ax, draw)

    def _title(self) -> str:
        metric = METRICS["positive_ece"]
        error, floor = map(metric.shown, (self.reliability.error, self.reliability.floor.mean))
        words = f"{metric.title} {error} {metric.unit} (floor {floor} {metric.unit})"
        return f"{self.name}: {words}" if self.name else words


def _lower_end(mean: FloatArray, share: FloatArray) -> float:
    """Return the power of ten at or below everything that is drawn and not zero."""
    shown = np.concatenate([mean, share])
    least = max(float(shown[shown > 0].min(initial=1.0)), SMALLEST)
    return float(10.0 ** np.floor(min(np.log10(least), -1.0)))
