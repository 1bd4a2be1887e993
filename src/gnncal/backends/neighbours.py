"""What formulas ask about the neighbours of every node: the protocol, and its form on a CPU.

:class:`GraphNeighbours` is SciPy's on a :class:`gnncal.Graph`. torch has its own
(:mod:`gnncal.torch.neighbours`), and so have batches of a table (:mod:`gnncal.scale.batches`).
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from gnncal.backends.class_share import neighbour_class_share
from gnncal.core.arrays import FloatArray, IntArray
from gnncal.core.graph import Graph, Side


class Neighbours(Protocol):
    """What can be asked about the neighbours of every node."""

    @property
    def in_degree(self) -> Any:
        """Number of edges to each node, self-loops included, (n_nodes,)."""

    @property
    def out_degree(self) -> Any:
        """Number of edges from each node, self-loops included, (n_nodes,)."""

    @property
    def self_loops(self) -> Any:
        """Number of self-loops of each node, (n_nodes,)."""

    def counts(self, side: Side) -> Any:
        """Return how many neighbours each node has, (n_nodes,)."""

    def mean(self, values: Any, side: Side) -> Any:
        """Return the mean of ``values`` (n_nodes, k) over the neighbours; zero without any."""

    def class_mean(self, values: Any, classes: Any, side: Side) -> Any:
        """Mean of column ``classes[i]`` of ``values`` over the neighbours of i; zero without."""


class GraphNeighbours:
    """The neighbours in a graph, by SciPy's sparse products."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.in_degree: IntArray = graph.in_degree
        self.out_degree: IntArray = graph.out_degree
        self.self_loops: IntArray = graph.self_loops

    def counts(self, side: Side) -> IntArray:
        """Return how many neighbours each node has, (n_nodes,)."""
        return self.graph.neighbour_counts(side=side)

    def mean(self, values: FloatArray, side: Side) -> FloatArray:
        """Return the mean of ``values`` (n_nodes, k) over the neighbours; zero without any."""
        means = self.graph.neighbour_mean(values, side=self._needed(side))
        means[self.counts(side) == 0] = 0.0
        return means

    def class_mean(self, values: FloatArray, classes: IntArray, side: Side) -> FloatArray:
        """Mean of column ``classes[i]`` of ``values`` over the neighbours of i; zero without."""
        share = neighbour_class_share(self.graph, classes, values, side=self._needed(side))
        return np.nan_to_num(share, copy=False, nan=0.0)

    def _needed(self, side: Side) -> Side:
        """Return the directions to sum over; one is enough in an undirected graph."""
        return self.graph.all_sides if side == "both" else side
