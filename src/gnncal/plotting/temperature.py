"""Temperatures of single nodes against homophily or entropy, with the law through them."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from gnncal.calibrators.base import Calibrator
from gnncal.data.errors import InputError, require
from gnncal.plotting.style import GREY, LINES, POINT, PURPOSE, Display, legend_below, open_frame
from gnncal.reporting.temperature import TemperatureProfile, temperature_profile

COVARIATES = ("homophily", "entropy")


def draw_temperature(profile: TemperatureProfile, *, ax: Any, against: str) -> None:
    """Draw each node's temperature on a logarithmic scale, and the curves of the profile."""
    by_homophily = against == "homophily"
    x = profile.homophily if by_homophily else profile.entropy
    curves = profile.by_homophily if by_homophily else profile.by_entropy
    look = {"s": float(np.clip(8000 / max(len(x), 1), 2.5, 14)), "color": POINT, "alpha": 0.5}
    ax.scatter(x, profile.temperature, linewidths=0, label="nodes", rasterized=True, **look)
    ax.axhline(1.0, color=GREY, linewidth=0.8, zorder=0)
    for curve, line in zip(curves, LINES, strict=False):
        colour = "black" if len(curves) == 1 else line.colour
        look = {"linestyle": line.dashes, "color": colour, "linewidth": 1.5}
        ax.plot(curve.x, curve.temperature, label=curve.label, **look)
    ax.set(xlim=(-0.02, 1.02), yscale="log")
    ax.set_xlabel(profile.homophily_name if by_homophily else "entropy of the raw prediction")
    ax.set_ylabel("temperature")
    _plain_numbers(ax.yaxis)
    open_frame(ax)


def _plain_numbers(axis: Any) -> None:
    """Show 0.5, 1, 2 on a logarithmic axis, few enough to be read."""
    ticker = require("matplotlib.ticker", extra="plot", purpose=PURPOSE)
    low, high = axis.get_view_interval()
    steps = (1, 2, 3, 5, 7) if high < 10 * low else (1, 2, 5) if high < 100 * low else (1,)
    axis.set_major_locator(ticker.LogLocator(subs=steps))
    axis.set_major_formatter(ticker.FormatStrFormatter("%g"))
    axis.set_minor_formatter(ticker.NullFormatter())


class TemperatureDisplay(Display):
    """Node temperatures against homophily and entropy, with the formula or a running median.

    If there are more than 4,000 nodes, a fixed random sample is drawn. Without a graph, there is no
    panel for homophily.

    Parameters
    ----------
    profile : TemperatureProfile
        Temperature, homophily and entropy of each node.

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal.calibrators import EntropyScaling
    >>> from gnncal.plotting import TemperatureDisplay
    >>> logits, noise = np.random.default_rng(0).normal(size=(2, 80, 3))
    >>> labels = (logits + noise).argmax(axis=1)
    >>> calibrator = EntropyScaling().fit(logits, labels, calibration_nodes=range(80))
    >>> display = TemperatureDisplay.from_estimator(calibrator, logits)
    >>> display.ax_.get_xlabel()
    'entropy of the raw prediction'

    """

    height: ClassVar[float] = 3.1

    def __init__(self, profile: TemperatureProfile) -> None:
        self.profile = profile
        self.covariates = COVARIATES if np.isfinite(profile.homophily).any() else COVARIATES[1:]
        self.n_panels = len(self.covariates)

    @classmethod
    def from_estimator(
        cls,
        calibrator: Calibrator,
        logits: Any,
        graph: Any = None,
        *,
        nodes: Any = None,
        ax: Any = None,
    ) -> Self:
        """Make a chart of a fitted calibrator and draw it.

        Parameters
        ----------
        calibrator : Calibrator
            A fitted calibrator that has temperatures.
        graph, nodes : Graph and array_like, optional
            The graph, for the panel of homophily, and the nodes to draw. Default: all.
        ax : array of matplotlib.axes.Axes, optional
            Two axes, or one without a graph. Default: a new figure.

        """
        return cls(temperature_profile(calibrator, logits, graph, nodes=nodes)).plot(ax)

    def _draw(self, ax: Any) -> None:
        places = np.atleast_1d(ax)
        if len(places) != self.n_panels:
            raise InputError(f"ax has {len(places)} axes; this chart needs {self.n_panels}.")
        for place, covariate in zip(places, self.covariates, strict=True):
            draw_temperature(self.profile, ax=place, against=covariate)
            legend_below(place, n_columns=1)
        for place in places[1:]:
            place.set_ylabel("")
