"""Nodes of the fitted graph that a saved calibrator refers to."""

from __future__ import annotations

from gnncal import InputError
from gnncal.calibrators import IntArray


def check_recalled_nodes(nodes: IntArray, n_nodes: int) -> None:
    """Raise unless the nodes that a saved calibrator refers to exist in the graph of its fit."""
    if nodes.size and nodes.max() >= n_nodes:
        raise InputError(
            f"the calibrator refers to node {int(nodes.max())} of the graph of its fit, but that "
            f"graph has {n_nodes} nodes; the saved file is damaged, so fit and save it again."
        )
