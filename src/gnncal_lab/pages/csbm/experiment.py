"""A block-model experiment as one object: what computes it and what shows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np

from gnncal.data.errors import require
from gnncal_lab.pages.csbm.style import STYLE
from gnncal_lab.simulation.estimate import Estimate


@dataclass(frozen=True)
class Finding:
    """One row of an experiment's table."""

    quantity: str
    ours: str  # with its 95% interval where it has one
    reference: str  # "theory ..." or "paper ...", empty where there is none


@dataclass(frozen=True)
class Experiment:
    """One statement of the paper: the function that tests it, its figure, table and text."""

    name: str
    compute: Callable[..., Any]  # keyword arguments to a frozen record; defaults are full size
    small: dict[str, Any]  # arguments with which it takes a second or two
    title: str
    statement: str  # what the paper says
    procedure: str  # what is done here
    reading: str  # what to see, and how it compares with the paper
    draw: Callable[[Any, Any], None]  # the record into an array of axes
    figure_size: tuple[float, float]  # inches
    n_panels: int
    findings: Callable[[Any], list[Finding]]
    nodes_unit: str = "nodes"  # what `n_nodes` of the record counts

    def run(self, *, small: bool = False, n_seeds: int | None = None) -> Any:
        """Compute the record at full or small size, with the usual or another number of seeds."""
        options = dict(self.small) if small else {}
        if n_seeds is not None:
            options["n_seeds"] = n_seeds
        return self.compute(**options)

    def figure(self, record: Any, *, image_format: str) -> bytes:
        """Draw the record as ``"png"`` or ``"svg"``."""
        matplotlib = require("matplotlib", extra="plot", purpose="drawing an experiment")
        figures = require("matplotlib.figure", extra="plot", purpose="drawing an experiment")
        payload = BytesIO()
        with matplotlib.rc_context(STYLE):
            figure = figures.Figure(figsize=self.figure_size, layout="constrained")
            self.draw(record, figure.subplots(1, self.n_panels, squeeze=False)[0])
            metadata = {"Date" if image_format == "svg" else "Software": None}
            figure.savefig(payload, format=image_format, dpi=120, metadata=metadata)
        return payload.getvalue()

    def constants(self, record: Any) -> str:
        """Return the model and the sizes of the record, as text."""
        parts = []
        match = getattr(record, "match", None)
        model = getattr(record, "model", None) or getattr(match, "model", None)
        if model is not None:
            parts.append(
                f"K = {model.n_classes}, mean degree {model.mean_degree:g}, {model.means} means "
                f"of length {model.separation:g}, σ = {model.sigma:g}, {model.n_features} features"
            )
        if hasattr(record, "n_centres"):
            parts.append(f"h = {record.homophily:g}, {record.n_centres} centre nodes per graph")
        if hasattr(record, "n_nodes"):
            parts.append(f"{record.n_nodes:,} {self.nodes_unit}")
        parts.append(f"{record.n_seeds} seeds")
        return "; ".join(parts)


def with_interval(
    estimate: Estimate, digits: int = 3, *, scale: float = 1.0, unit: str = ""
) -> str:
    """Format a number with its interval."""
    if np.isnan(estimate.value):
        return "too few values to tell"
    value, low, high = (scale * float(x) for x in (estimate.value, estimate.low, estimate.high))
    return f"{value:.{digits}f}{unit} [{low:.{digits}f}, {high:.{digits}f}]"


def entry(estimate: Estimate, position: int) -> Estimate:
    """One number of an estimate that holds an array."""
    return Estimate(estimate.value[position], estimate.low[position], estimate.high[position])
