"""Calibration by homophily: the gap between confidence and accuracy, group by group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from gnncal.calibrators.homophily import support_of
from gnncal.data.arrays import FloatArray, as_numpy
from gnncal.data.constraints import integer
from gnncal.data.errors import InputError, short_repr
from gnncal.data.nodes import as_nodes
from gnncal.metrics.binning import Cells, bin_edges, bin_index, fill_cells
from gnncal.metrics.outcomes import Outcomes
from gnncal.plotting.style import INK, LINES, Display, legend_below, open_frame

LEVEL = 0.95  # of the intervals
SPREAD = 0.5  # of the distance between groups that the sides of one group take up
DEFAULT_GROUPS = 5


@dataclass(frozen=True)
class HomophilyGroups:
    """Groups of nodes of similar homophily, and the calibration of each group."""

    lower: FloatArray
    upper: FloatArray
    homophily: FloatArray
    sides: Mapping[str, Cells]
    n_unknown: int


def neighbour_support(logits: Any, graph: Any = None) -> FloatArray:
    """Return the mean probability that a node's neighbours give to its predicted class.

    This support estimates homophily without labels. Senders and receivers count as neighbours.

    Parameters
    ----------
    logits : array_like of shape (n_nodes, n_classes) or Nodes
        Raw scores of every node; or a record of nodes with their graph.
    graph : Graph or torch_geometric.data.Data, optional
        The graph of these nodes.

    Returns
    -------
    ndarray of shape (n_nodes,)
        Numbers in [0, 1]; NaN for a node without neighbours.

    Examples
    --------
    >>> import numpy as np, gnncal
    >>> from gnncal_lab import neighbour_support
    >>> graph = gnncal.Graph([[0, 1], [1, 0]], 3)
    >>> neighbour_support(np.log([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]]), graph).round(2)
    array([0.2, 0.1, nan])

    """
    nodes = as_nodes(logits, graph)
    if nodes.graph is None:
        raise InputError(
            f"graph is {short_repr(graph)}; expected the graph of {nodes.n_nodes} nodes."
        )
    return nodes.cached(support_of, nodes.graph.all_sides)


def homophily_groups(
    labels: Any, sides: Mapping[str, Any], homophily: Any, *, n_groups: int = DEFAULT_GROUPS
) -> HomophilyGroups:
    """Sort nodes into equally large groups by homophily, with confidence and accuracy of each."""
    integer(at_least=1).check("n_groups", n_groups)
    values = as_numpy(homophily).astype(np.float64)
    judged = {name: Outcomes(labels, probs) for name, probs in sides.items()}
    outcomes = {name: (each.confidence, each.correct) for name, each in judged.items()}
    for confidence, _ in outcomes.values():
        if values.shape != confidence.shape:
            raise InputError(
                f"homophily has shape {values.shape} but there are {len(confidence)} labels; pass "
                "one value for each node."
            )
    known = ~np.isnan(values)
    values = values[known]
    if values.size == 0 or values.min() < 0 or values.max() > 1:
        raise InputError(
            "homophily has no value, or values outside [0, 1]; pass shares, NaN if unknown."
        )
    edges = bin_edges(values, n_groups, "quantile")
    filled, group = np.unique(bin_index(values, edges), return_inverse=True)
    counts = np.bincount(group)
    return HomophilyGroups(
        edges[filled],
        edges[filled + 1],
        np.bincount(group, weights=values) / counts,
        {
            name: fill_cells(confidence[known], correct[known], group, len(filled))
            for name, (confidence, correct) in outcomes.items()
        },
        int((~known).sum()),
    )


def draw_homophily_split(groups: HomophilyGroups, *, ax: Any) -> None:
    """Draw confidence minus accuracy of each homophily group, one marker for each side."""
    places = np.arange(len(groups.lower))
    ax.axhline(0, color=INK, linewidth=0.8)
    offsets = np.linspace(-0.5, 0.5, len(groups.sides)) * SPREAD if len(groups.sides) > 1 else [0.0]
    for (name, cells), line, offset in zip(groups.sides.items(), LINES, offsets, strict=False):
        gap, (low, high) = 100 * cells.gap, cells.accuracy_interval(LEVEL)
        errors = 100 * np.maximum([high - cells.accuracy, cells.accuracy - low], 0.0)
        ax.errorbar(
            places + offset,
            gap,
            yerr=errors,
            fmt=line.marker,
            color=line.colour,
            markersize=4,
            elinewidth=1.1,
            capsize=2,
            label=name,
        )
    ends = zip(groups.lower, groups.upper, strict=True)
    ax.set_xticks(places, [f"{low:.2f}\nto {high:.2f}" for low, high in ends])
    ax.set(xlim=(-0.6, len(places) - 0.4), xlabel="homophily, or an estimate of it")
    ax.set_ylabel("confidence − accuracy (points)")
    open_frame(ax)


class HomophilySplitDisplay(Display):
    """Overconfidence by homophily, before and after calibration.

    Parameters
    ----------
    groups : HomophilyGroups
        Groups of nodes of similar homophily with their confidence and accuracy.

    Examples
    --------
    >>> from gnncal_lab.pages.homophily_split import HomophilySplitDisplay
    >>> probs = [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]]
    >>> display = HomophilySplitDisplay.from_predictions(
    ...     [1, 0, 0, 0], probs, [0.1, 0.3, 0.8, 1.0], n_groups=2
    ... )
    >>> [tick.get_text().split()[0] for tick in display.ax_.get_xticklabels()]
    ['0.00', '0.30']

    """

    height: ClassVar[float] = 2.9

    def __init__(self, groups: HomophilyGroups) -> None:
        self.groups = groups

    @classmethod
    def from_predictions(
        cls,
        labels: Any,
        probs: Any,
        homophily: Any,
        *,
        before: Any = None,
        n_groups: int = DEFAULT_GROUPS,
        ax: Any = None,
    ) -> Self:
        """Make a plot of confidence minus accuracy for groups of nodes of similar homophily.

        Parameters
        ----------
        labels : array_like of shape (n_nodes,)
            Classes 0..K-1.
        probs : array_like of shape (n_nodes, n_classes)
            Probabilities; rows sum to one.
        homophily : array_like of shape (n_nodes,)
            Numbers in [0, 1], NaN where unknown, such as
            :func:`gnncal_lab.neighbour_support`.
        before : array_like of shape (n_nodes, n_classes), optional
            Probabilities before calibration, to be drawn as well.
        n_groups : int, default=5
            Number of groups, equally large.
        ax : matplotlib.axes.Axes, optional
            The axes to draw on. Default: axes of a new figure.

        """
        sides = {"probabilities": probs} if before is None else {"before": before, "after": probs}
        groups = homophily_groups(labels, sides, homophily, n_groups=n_groups)
        return cls(groups).plot(ax)

    def _draw(self, ax: Any) -> None:
        draw_homophily_split(self.groups, ax=ax)
        if len(self.groups.sides) > 1:
            legend_below(ax, n_lines=2)
