"""Risk-coverage curves: the error rate among the most confident nodes."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from gnncal.metrics import risk_coverage_curve
from gnncal.metrics.ranking import RiskCoverage
from gnncal.plotting.style import GREY, LINES, Display, Line, legend_below, metric_title, open_frame

LEVEL = 0.95  # of the band
UNSETTLED = 0.05  # below this coverage the curve rests on few nodes and may leave the picture
CURVE = "risk-coverage"  # what a curve is marked with, so that the next one looks different


def draw_risk_coverage(
    curve: RiskCoverage, *, ax: Any, label: str, line: Line = LINES[0], references: bool = True
) -> None:
    """Draw the error rate of the most confident nodes against their share."""
    highest = ax.get_ylim()[1] if ax.lines else 0.0  # of curves that are there already
    percent = 100 * curve.coverage
    low, high = curve.interval(LEVEL)
    name = f"{100 * LEVEL:g}% interval, pointwise" if references else None
    look: dict[str, Any] = {"color": line.colour, "alpha": 0.2, "linewidth": 0}
    ax.fill_between(percent, 100 * low, 100 * high, label=name, **look)
    look = {"color": line.colour, "linewidth": 1.4, "gid": CURVE}
    ax.plot(percent, 100 * curve.risk, line.dashes, label=label, **look)
    if references:
        look = {"color": "black", "linestyle": (0, (4, 2)), "linewidth": 0.9}
        ax.plot(percent, 100 * curve.optimal_risk, label="best possible order", **look)
        ax.axhline(100 * curve.risk[-1], color=GREY, linewidth=0.9, label="random order")
    ax.set(xlim=(0, 100), xlabel="nodes kept, most confident first (%)", ylabel="mistakes (%)")
    top = 1.2 * 100 * curve.risk[curve.coverage >= UNSETTLED].max()
    ax.set_ylim(0, max(top, highest, 1.0))
    open_frame(ax)


class RiskCoverageDisplay(Display):
    """A risk-coverage curve, with the curves of the best possible and of a random order.

    Parameters
    ----------
    curve : RiskCoverage
        Error rate by coverage.
    name, title : str, default=""
        Name of the method, for the legend, and title of the chart.

    Examples
    --------
    >>> from gnncal.plotting import RiskCoverageDisplay
    >>> probs = [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.3, 0.7]]
    >>> display = RiskCoverageDisplay.from_predictions([0, 1, 1, 1], probs, name="raw")
    >>> display.ax_.get_title(loc="left")
    'raw: AURC 6.25%'

    """

    height: ClassVar[float] = 3.2

    def __init__(self, curve: RiskCoverage, *, name: str = "", title: str = "") -> None:
        self.curve, self.name, self.title = curve, name, title

    @classmethod
    def from_predictions(cls, labels: Any, probs: Any, *, name: str = "", ax: Any = None) -> Self:
        """Make a curve of predictions and draw it; axes with other curves are allowed.

        Parameters
        ----------
        name : str, default=""
            Name of the method, for legend and title.
        ax : matplotlib.axes.Axes, optional
            The axes to draw on. Default: a new figure.

        """
        curve = risk_coverage_curve(labels, probs)
        title = metric_title(name, "aurc", float(curve.risk.mean()))
        return cls(curve.thinned(), name=name, title=title).plot(ax)

    def _draw(self, ax: Any) -> None:
        before = sum(line.get_gid() == CURVE for line in ax.lines)
        label, line = self.name or "mistakes among the nodes kept", LINES[before % len(LINES)]
        draw_risk_coverage(self.curve, ax=ax, label=label, line=line, references=not before)
        ax.set_title("" if before else self.title)
        legend_below(ax)
