"""Temperatures of single nodes against homophily or entropy, with the law through them."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

import numpy as np

from gnncal.calibrators.base import Calibrator
from gnncal.data.errors import InputError, require
from gnncal.plotting.style import (
    GREY,
    LINES,
    POINT,
    PURPOSE,
    Display,
    legend_below,
    open_frame,
)
from gnncal.reporting.temperature import TemperatureProfile, temperature_profile

Against = Literal["homophily", "entropy"]
BOTH: tuple[Against, Against] = ("homophily", "entropy")


def draw_temperature(
    profile: TemperatureProfile, *, ax: Any, against: Against = "homophily"
) -> None:
    """Draw each node's temperature on a logarithmic scale, and the curves of the profile."""
    if against not in BOTH:
        raise InputError(f"against is {against!r}; expected 'homophily' or 'entropy'.")
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
    ax.set_ylabel("effective temperature" if profile.is_effective else "temperature")
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
    """Temperatures of single nodes against homophily and entropy, with the law through them.

    Of more than 4,000 nodes a random sample is drawn, always the same one.

    Parameters
    ----------
    profile : TemperatureProfile
        The temperatures and what they depend on.

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal.calibrators import EntropyScaling
    >>> from gnncal.plotting import TemperatureDisplay
    >>> logits, noise = np.random.default_rng(0).normal(size=(2, 80, 3))
    >>> labels = (logits + noise).argmax(axis=1)
    >>> calibrator = EntropyScaling().fit(logits, labels, nodes=range(80))
    >>> display = TemperatureDisplay.from_estimator(calibrator, logits, against="entropy")
    >>> display.ax_.get_xlabel()
    'entropy of the raw prediction'

    """

    height: ClassVar[float] = 3.1

    def __init__(self, profile: TemperatureProfile) -> None:
        self.profile = profile

    @classmethod
    def from_estimator(
        cls,
        calibrator: Calibrator,
        logits: Any,
        graph: Any = None,
        *,
        nodes: Any = None,
        against: Against | Literal["both"] = "both",
        ax: Any = None,
    ) -> Self:
        """Draw the temperatures of a fitted calibrator, and its law where it has one.

        Parameters
        ----------
        calibrator : Calibrator
            A fitted calibrator.
        logits : array_like of shape (n_nodes, n_classes)
            Raw scores of every node.
        graph, nodes : Graph and array_like, optional
            The graph, without which there is no homophily, and the nodes to draw. Default: all.
        against : {"homophily", "entropy", "both"}, default="both"
            What the temperature is drawn against.
        ax : matplotlib.axes.Axes, optional
            The axis, or two for both. Default: of a new figure.

        Returns
        -------
        TemperatureDisplay
            The display, drawn.

        """
        profile = temperature_profile(calibrator, logits, graph, nodes=nodes)
        return cls(profile).plot(ax, against=against)

    @classmethod
    def from_predictions(
        cls,
        logits: Any,
        probs: Any,
        graph: Any = None,
        *,
        nodes: Any = None,
        against: Against | Literal["both"] = "both",
        ax: Any = None,
    ) -> Self:
        """Draw the temperatures that would turn the logits' confidence into that of ``probs``.

        Parameters
        ----------
        logits, probs : array_like of shape (n_nodes, n_classes)
            Raw scores of every node, and calibrated probabilities from any method.
        graph, nodes : Graph and array_like, optional
            The graph, and the nodes to draw. Default: all.
        against : {"homophily", "entropy", "both"}, default="both"
            What the temperature is drawn against.
        ax : matplotlib.axes.Axes, optional
            The axis, or two for both. Default: of a new figure.

        Returns
        -------
        TemperatureDisplay
            The display, drawn.

        """
        profile = temperature_profile(None, logits, graph, nodes=nodes, probabilities=probs)
        return cls(profile).plot(ax, against=against)

    def plot(self, ax: Any = None, *, against: Against | Literal["both"] = "both") -> Self:
        """Draw the temperatures.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            The axis, or two for both. Default: of a new figure.
        against : {"homophily", "entropy", "both"}, default="both"
            What the temperature is drawn against. After ``"both"``, ``ax_`` is two axes.

        Returns
        -------
        TemperatureDisplay
            The display itself; ``ax_`` and ``figure_`` say where it drew.

        """
        panels = BOTH if against == "both" else (against,)
        if ax is not None and np.size(ax) != len(panels):
            raise InputError("ax is one axis but against is 'both'; pass two axes or choose one.")

        def draw(places: Any) -> None:
            for place, covariate in zip(np.atleast_1d(places), panels, strict=True):
                draw_temperature(self.profile, ax=place, against=covariate)
                legend_below(place, n_columns=1)
            if len(panels) > 1:
                places[1].set_ylabel("")

        return self._draw_on(ax, draw, len(panels))
