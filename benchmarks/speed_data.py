"""What scripts on speed and size share: generated graphs, stopwatches, and the environment.

The graphs have communities and uneven homophily.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import resource
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import numpy as np
import numpy.typing as npt

from gnncal import Graph

Floats = npt.NDArray[np.floating]
Integers = npt.NDArray[np.int64]
N_NODES, N_CLASSES, REDDIT_EDGES = 233_000, 41, 115_000_000  # of a graph of Reddit's size
PAIRS_PER_CHUNK = 1 << 20  # keeps temporaries far below the edge list


@dataclass(frozen=True)
class Problem:
    """What a user would hand to ``fit``; the first tenth of ``order`` calibrates."""

    edge_index: Integers  # (2, n_edges), symmetric, random order
    logits: Floats  # (n_nodes, n_classes) float32, overconfident where homophily is low
    labels: Integers  # (n_nodes,)
    order: Integers  # (n_nodes,) a permutation, to draw splits from

    def split(self, calibration: float = 0.1, training: float = 0.2) -> tuple[Integers, Integers]:
        """Calibration and training nodes, as shares of all nodes."""
        first, last = int(calibration * len(self.order)), int(training * len(self.order))
        return self.order[:first], self.order[first : first + last]

    @property
    def n_bytes(self) -> int:
        """The size of the inputs: edge list, logits and labels."""
        return self.edge_index.nbytes + self.logits.nbytes + self.labels.nbytes


def make_problem(n_nodes: int, n_edges: int, n_classes: int, *, seed: int = 0) -> Problem:
    """``n_edges`` directed edges, both directions of each pair listed.

    Communities have unequal sizes; each node keeps to its own community with its own
    probability, and popular nodes are named far more often than others.
    """
    generator = np.random.default_rng(seed)
    order = generator.permutation(n_nodes)
    shares = np.linspace(0.5, 1.5, n_classes)
    labels = generator.choice(n_classes, size=n_nodes, p=shares / shares.sum())
    homophily = generator.beta(2.0, 1.0, n_nodes)
    edges = np.empty((2, 2 * (n_edges // 2)), dtype=np.int64)
    members = np.argsort(labels, kind="stable")  # nodes by community
    count = np.bincount(labels, minlength=n_classes)
    first = np.cumsum(count) - count
    for start in range(0, edges.shape[1], 2 * PAIRS_PER_CHUNK):
        size = min(PAIRS_PER_CHUNK, (edges.shape[1] - start) // 2)
        one = generator.integers(n_nodes, size=size)
        at_home = generator.random(size) < homophily[one]
        place = generator.random(size) ** 2  # towards the popular members
        inside = first[labels[one]] + (place * count[labels[one]]).astype(np.int64)
        other = members[np.where(at_home, inside, (place * n_nodes).astype(np.int64))]
        middle, end = start + size, start + 2 * size
        edges[0, start:middle], edges[1, start:middle] = one, other
        edges[0, middle:end], edges[1, middle:end] = other, one
    logits = overconfident_logits(labels, homophily, n_classes, generator)
    return Problem(edges, logits, labels, order)


def overconfident_logits(
    labels: Integers, homophily: Floats, n_classes: int, generator: np.random.Generator
) -> Floats:
    """Gaussian noise plus a signal s of 1 to 4 that grows with homophily, all times six.

    The posterior of z would be softmax(s z), so the right temperature is 6 / s: 1.5 to 6.
    """
    logits = generator.standard_normal((len(labels), n_classes), dtype=np.float32)
    logits[np.arange(len(labels)), labels] += (1.0 + 3.0 * homophily).astype(np.float32)
    logits *= 6.0
    return logits


def fresh(graph: Graph) -> Graph:
    """Return the graph as another object, of which nothing is known."""
    other = object.__new__(Graph)
    other.__dict__.update(graph.__dict__)
    for name in ("is_undirected", "fingerprint"):
        other.__dict__.pop(name, None)
    return other


def peak_bytes() -> int:
    """The largest resident size of this process so far.

    ``ru_maxrss`` starts at the size of the process that called exec, so Linux's own high-water
    mark is read where there is one.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = next(text for text in status.read_text().splitlines() if text.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def seconds_of(run: Callable[[], Any]) -> float:
    start = perf_counter()
    run()
    return perf_counter() - start


def clock_and_cpu_in_turn(
    contestants: dict[str, Callable[[], Any]], rounds: int
) -> dict[str, tuple[float, float]]:
    """Median seconds on the clock and of all cores together, one after the other in every round.

    Those of the cores say something on a busy machine too.
    """
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, run in contestants.items():
            cpu = process_time()
            times[name].append((seconds_of(run), process_time() - cpu))
    return {name: (median(c for c, _ in t), median(p for _, p in t)) for name, t in times.items()}


def in_turn(contestants: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Median seconds of each, one after the other in every round."""
    times = [{name: seconds_of(run) for name, run in contestants.items()} for _ in range(rounds)]
    return {name: median(turn[name] for turn in times) for name in contestants}


def version_of(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def environment() -> dict[str, Any]:
    names = ("gnncal", "numpy", "scipy", "scikit-learn", "torch", "torch-geometric", "numba")
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        **{name: version_of(name) for name in names},
    }
