"""Hypothesis strategies: small calibration tasks on every kind of graph."""

import numpy as np
from hypothesis import strategies as st

from gnncal.testing.tasks import KINDS, LARGEST, MOST_CLASSES, make_task, small_task

__all__ = ["small_task", "tasks"]


@st.composite
def tasks(draw, kinds=KINDS, smallest=12, largest=LARGEST, max_classes=MOST_CLASSES, fewest=1):
    """Directed multigraphs with self-loops and isolated nodes; any split with two parts.

    There are at least ``fewest`` calibration nodes.
    """
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_nodes = draw(st.integers(smallest, largest))
    return make_task(
        generator,
        n_nodes,
        n_classes=draw(st.integers(2, max_classes)),
        kind=draw(st.sampled_from(kinds)),
        n_edges=draw(st.integers(0, 4 * n_nodes)),
        n_calibration=draw(st.integers(fewest, n_nodes // 2)),
    )
