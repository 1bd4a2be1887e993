"""Calibration by homophily: are nodes of low homophily as well calibrated as the others?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gnncal.core.arrays import FloatArray, as_numpy
from gnncal.core.constraints import whole_number
from gnncal.core.errors import InputError, shown
from gnncal.homophily.support import support_of
from gnncal.metrics.binning import (
    Cells,
    bin_edges,
    bin_index,
    fill_cells,
)
from gnncal.metrics.outcomes import confidence_and_correctness
from gnncal.nodes import as_nodes

DEFAULT_GROUPS = 5


@dataclass(frozen=True)
class HomophilyGroups:
    """Groups of nodes of similar homophily, and how well each is calibrated.

    Attributes
    ----------
    lower, upper : ndarray of shape (n_groups,)
        Ends of each group's homophily; a value on an edge belongs below it.
    homophily : ndarray of shape (n_groups,)
        Mean homophily of the group.
    sides : mapping of str to Cells
        Confidence and accuracy by group, for each set of probabilities by name.
    n_unknown : int
        Number of nodes whose homophily is not known; they are in no group.

    Examples
    --------
    >>> from gnncal.inspection import homophily_groups
    >>> probs = [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]]
    >>> groups = homophily_groups([1, 0, 0, 0], {"raw": probs}, [0.1, 0.3, 0.8, 1.0], n_groups=2)
    >>> groups.homophily, groups.n_unknown
    (array([0.2, 0.9]), 0)

    """

    lower: FloatArray
    upper: FloatArray
    homophily: FloatArray
    sides: Mapping[str, Cells]
    n_unknown: int


def neighbour_support(logits: Any, graph: Any = None) -> FloatArray:
    """Return the mean probability that a node's neighbours give to its predicted class.

    It estimates homophily without any label. Senders and receivers both count as neighbours.

    Parameters
    ----------
    logits : array_like of shape (n_nodes, n_classes) or Nodes
        Raw scores of every node; or a record of nodes with their graph.
    graph : Graph or torch_geometric.data.Data, optional
        The graph of these nodes.

    Returns
    -------
    ndarray of shape (n_nodes,)
        Numbers in [0, 1]; NaN for a node that has no neighbours.

    Raises
    ------
    InputError
        If there is no graph, or it has another number of nodes.

    Examples
    --------
    >>> import numpy as np, gnncal
    >>> from gnncal.inspection import neighbour_support
    >>> graph = gnncal.Graph([[0, 1], [1, 0]], 3)
    >>> neighbour_support(np.log([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]]), graph).round(2)
    array([0.2, 0.1, nan])

    """
    nodes = as_nodes(logits, graph)
    if nodes.graph is None:
        raise InputError(f"graph is {shown(graph)}; expected the graph of {nodes.n_nodes} nodes.")
    return nodes.once(support_of, nodes.graph.all_sides)


def homophily_groups(
    labels: Any, sides: Mapping[str, Any], homophily: Any, *, n_groups: int = DEFAULT_GROUPS
) -> HomophilyGroups:
    """Sort nodes into equally large groups by homophily, and look at the calibration of each.

    Parameters
    ----------
    labels : array_like of shape (n_nodes,)
        Classes 0..K-1.
    sides : mapping of str to array_like of shape (n_nodes, n_classes)
        Probabilities by name, for instance before and after calibration.
    homophily : array_like of shape (n_nodes,)
        Numbers in [0, 1], such as :func:`neighbour_support`; NaN where unknown.
    n_groups : int, default=5
        Number of groups; there are fewer where many nodes have the same homophily.

    Returns
    -------
    HomophilyGroups
        The groups, with confidence and accuracy of each.

    Raises
    ------
    InputError
        If the arrays do not fit together, or no homophily is known.

    Examples
    --------
    >>> from gnncal.inspection import homophily_groups
    >>> probs = [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]]
    >>> groups = homophily_groups([1, 0, 0, 0], {"raw": probs}, [0.1, 0.3, 0.8, 1.0], n_groups=2)
    >>> groups.upper, groups.sides["raw"].gap.round(2)
    (array([0.3, 1. ]), array([ 0.35, -0.35]))

    """
    whole_number(at_least=1).check("n_groups", n_groups)
    values = as_numpy(homophily).astype(np.float64)
    outcomes = {name: confidence_and_correctness(labels, probs) for name, probs in sides.items()}
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
