"""What was computed from logits and a large graph, for the next call with the same two.

``predict_proba`` after ``fit`` looks at the same neighbourhoods again. On a graph with many more
edges than logits, reading the logits once costs next to nothing beside that. So results are kept
with the graph under a digest of the logits: other logits, or the same array changed in place, have
another digest, and nothing stale is ever found. A graph cannot be changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from gnncal.core.arrays import FloatArray
from gnncal.core.graph import Graph

SMALLEST_GRAPH = 1 << 20  # edges; below, computing again takes no time
Results = dict[tuple[Any, ...], Any]  # by function and further arguments

# For each graph what belongs to the logits that were seen last; it goes when the graph goes.
_last: WeakKeyDictionary[Graph, tuple[bytes, Results]] = WeakKeyDictionary()


class RememberedResults(Results):
    """Results of one call; what will be of use to the next one is also put where it finds it."""

    def __init__(self, remembered: Results) -> None:
        super().__init__(remembered)
        self._remembered = remembered

    def __setitem__(self, key: tuple[Any, ...], value: Any) -> None:
        super().__setitem__(key, value)
        if _is_lasting(key[0]):
            self._remembered[key] = value


def results_of(logits: FloatArray, graph: Graph | None) -> Results:
    """Return what is known of these logits on this graph; what is added is remembered.

    Results are about as large as the logits. They are remembered only where that is little beside
    the graph itself.
    """
    if graph is None or graph.n_edges < SMALLEST_GRAPH or 2 * logits.nbytes > graph.indices.nbytes:
        return {}
    digest = hashlib.blake2b(f"{logits.shape} {logits.dtype}".encode(), digest_size=32)
    digest.update(np.ascontiguousarray(logits).data)
    key = digest.digest()
    last = _last.get(graph)
    if last is None or last[0] != key:
        last = _last[graph] = (key, {})
    return RememberedResults(last[1])


def _is_lasting(function: Callable[..., Any]) -> bool:
    """Whether a function is there in the next call too, and its result keeps no graph alive.

    That holds for gnncal's own, unlike functions made on the way or of other packages.
    """
    is_own = getattr(function, "__module__", "").partition(".")[0] == __name__.partition(".")[0]
    return is_own and "<" not in getattr(function, "__qualname__", "<")
