"""Colours, sizes and axes of every chart, in one place.

Colours are told apart by every kind of colour vision. In greyscale lines differ by their dashes
and points by their markers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from gnncal.data.errors import require
from gnncal.metrics import METRICS

BAR, GAP, GREY = "#88bbdd", "#aa3344", "#bbbbbb"  # areas, what is wrong, what is secondary
INK = "#222222"
BLUE, SAND, GREEN, PURPLE = "#3377aa", "#cc9922", "#448855", "#775599"  # lines
ORANGE, MIDDLE = "#cc6644", "#999999"  # low and middle homophily; BLUE is high
SHADE = "#eeeeee"  # a region
POINT = "#7799bb"  # one of thousands

COLUMN_WIDTH = 3.4  # inches, of a two-column paper
PAPER = {
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.titlelocation": "left",
    "axes.labelsize": 8,
    "axes.linewidth": 0.7,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "legend.handlelength": 1.8,
    "hatch.linewidth": 0.7,
    "figure.dpi": 150,
}
PURPOSE = "drawing a chart"
POINTS = 72  # of an inch


class Line(NamedTuple):
    """How one line of several is drawn."""

    colour: str
    dashes: str
    marker: str


LINES = (
    Line(BLUE, "-", "o"),
    Line(GAP, "--", "s"),
    Line(SAND, "-.", "D"),
    Line(GREEN, ":", "^"),
    Line(PURPLE, (0, (5, 1, 1, 1, 1, 1)), "v"),  # type: ignore[arg-type]
)


def open_frame(ax: Any) -> None:
    """Leave only the two lines that carry a scale."""
    ax.spines[["top", "right"]].set_visible(False)


def legend_below(ax: Any, *, n_columns: int = 2, n_lines: int = 1) -> None:
    """A legend under the axis and its name, where it hides no data."""
    transforms = require("matplotlib.transforms", extra="plot", purpose=PURPOSE)
    height = (2.6 + 1.2 * n_lines) * ax.xaxis.label.get_fontsize()  # of numbers and name
    shift = transforms.ScaledTranslation(0, -height / POINTS, ax.figure.dpi_scale_trans)
    ax.legend(
        loc="upper center",
        bbox_to_anchor=(0.5, 0.0),
        bbox_transform=ax.transAxes + shift,
        ncols=n_columns,
        frameon=False,
        columnspacing=1.2,
        borderaxespad=0.0,
    )


def metric_title(name: str, metric: str, value: float, floor: float | None = None) -> str:
    """Return the title of a chart: the method's name, and a metric with its noise floor."""
    shown, unit = METRICS[metric].shown, METRICS[metric].unit
    said = f"{METRICS[metric].title} {shown(value)}{unit}"
    said += "" if floor is None else f" (floor {shown(floor)}{unit})"
    return f"{name}: {said}" if name else said


class Display(ABC):
    """Base of the displays, which have the interface of scikit-learn's displays.

    A display holds the data of one chart. ``plot`` draws them and can be called again; ``ax_`` and
    ``figure_`` are the axes and the figure of the last call.
    """

    height: ClassVar[float]  # inches, of a figure that the display makes itself
    n_panels = 1
    ax_: Any
    figure_: Any

    @abstractmethod
    def _draw(self, ax: Any) -> None:
        """Draw on an axis, or on an array with one for each panel."""

    def plot(self, ax: Any = None) -> Self:
        """Draw on the given axes, or on a new figure in the style of a paper.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            The axes to draw on; an array of two for a chart of two panels. Default: a new figure.

        Returns
        -------
        Display
            This display, with the attributes ``ax_`` and ``figure_``.

        """
        if ax is None:
            pyplot = require("matplotlib.pyplot", extra="plot", purpose=PURPOSE)
            with require("matplotlib", extra="plot", purpose=PURPOSE).rc_context(PAPER):
                size = (self.n_panels * COLUMN_WIDTH, self.height)
                given = {"figsize": size, "layout": "constrained", "sharey": True}
                _, ax = pyplot.subplots(1, self.n_panels, **given)
                self._draw(ax)
        else:
            self._draw(ax)
        self.ax_, self.figure_ = ax, np.ravel(ax)[0].figure
        return self
