"""A stress test: edges are added or removed, and the frozen classifier sees the changed graph.

TS and HoTS are fitted again on it. HoTS uses the agreement estimate of homophily, the share of the
nodes that send to a node (side "in") with the same prediction: it needs no training.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypedDict

import numpy as np

from gnncal.calibrators.base import Calibrator
from gnncal.calibrators.hots import HoTS
from gnncal.calibrators.temperature import TemperatureScaling
from gnncal.data.errors import InputError
from gnncal.files.bundle import Bundle
from gnncal.graph.graph import Graph
from gnncal_lab.bench.engines import workers
from gnncal_lab.bench.logits import load_dataset
from gnncal_lab.bench.measure import fit_bundle, measure
from gnncal_lab.bench.plan import PROTOCOLS, Protocol, Task
from gnncal_lab.bench.provenance import note_run
from gnncal_lab.bench.records import (
    append_lines,
    check_records_file,
    read_entries,
)
from gnncal_lab.bench.runner import DIED, Outcome, reason
from gnncal_lab.bench.structure import undirected

Operation = Literal["add", "remove"]
OPERATIONS: tuple[Operation, ...] = ("add", "remove")
RATES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5)
DATASETS = ("Cora", "CiteSeer", "CS", "Chameleon", "Squirrel")  # as in the paper
FILE = "perturbation.jsonl"


class PerturbedMetrics(TypedDict):
    """The metrics that are kept."""

    accuracy: float
    ece: float
    ece_floor: float
    nll: float


class PerturbationEntry(TypedDict):
    """A line of the file: one method on one changed graph."""

    dataset: str
    backbone: str
    seed: int
    operation: Operation
    rate: float
    method: str
    protocol: Protocol
    metrics: PerturbedMetrics


def perturb(graph: Graph, operation: Operation, rate: float, *, seed: int) -> Graph:
    """Add or remove ``rate`` times as many edges as there are, chosen uniformly."""
    if operation not in OPERATIONS or not 0 <= rate <= 1:
        raise InputError(
            f"operation is {operation!r} and rate {rate}; expected 'add' or 'remove' and a share."
        )
    generator = np.random.default_rng(seed)
    edges = graph.edge_index.astype(np.int64)
    loops = edges[:, edges[0] == edges[1]]
    others = edges[:, edges[0] != edges[1]]
    symmetric = undirected(graph).nnz == others.shape[1] and _is_symmetric(graph)
    movable = others[:, others[0] < others[1]] if symmetric else others
    count = round(rate * movable.shape[1])
    if operation == "remove":
        movable = movable[:, np.sort(generator.permutation(movable.shape[1])[count:])]
    else:
        new = _new_edges(movable, graph.n_nodes, count, generator, ordered=not symmetric)
        movable = np.concatenate([movable, new], axis=1)
    both = [movable, movable[::-1]] if symmetric else [movable]
    return Graph(np.concatenate([loops, *both], axis=1), graph.n_nodes, graph.features)


def run_perturbation(
    folder: Path,
    tasks: Sequence[Task],
    *,
    root: Path | None = None,
    jobs: int = 1,
    command: str = "",
    watch: Callable[[int, int], None] = lambda done, total: None,
) -> Outcome:
    """Append the entries of every task that lacks some; a task that fails stops no other."""
    check_records_file(folder / FILE)
    recorded = Counter(key[:3] for key in _entries(folder))
    whole = len(OPERATIONS) * len(RATES) * len(_calibrators())
    todo = [task for task in tasks if recorded[task] < whole]
    if not todo:
        return Outcome("", 0, 0, len(tasks))
    run = note_run(folder, command)
    failures = []
    with workers(jobs) as each:
        results = each(partial(_try_task, root), todo, lambda task: (task, [], DIED))
        for done, (task, entries, failure) in enumerate(results, 1):
            append_lines(folder / FILE, [{"run": run, **entry} for entry in entries])
            failures += [f"{' '.join(map(str, task))}: {failure}"] if failure else []
            watch(done, len(todo))
    first = failures[0] if failures else None
    return Outcome(run, len(todo), len(failures), len(tasks) - len(todo), first)


def read_perturbation(folder: Path) -> dict[tuple[str, Protocol], list[PerturbationEntry]]:
    """Entries by backbone and protocol, one for each dataset, seed, operation, rate and method."""
    found: dict[tuple[str, Protocol], list[PerturbationEntry]] = {}
    for entry in _entries(folder).values():
        found.setdefault((entry["backbone"], entry["protocol"]), []).append(entry)
    return dict(sorted(found.items(), key=lambda item: PROTOCOLS.index(item[0][1])))


def _entries(folder: Path) -> dict[tuple[Any, ...], PerturbationEntry]:
    """The last entry of each dataset, backbone, seed, operation, rate, method and protocol."""
    return {
        tuple(value for name, value in entry.items() if name != "metrics"): entry
        for entry in read_entries(folder / FILE, PerturbationEntry)
    }


def _try_task(root: Path | None, task: Task) -> tuple[Task, list[dict[str, Any]], str | None]:
    try:
        return task, _run_task(root, task), None
    except Exception as error:
        return task, [], reason(error)


def _run_task(root: Path | None, task: Task) -> list[dict[str, Any]]:
    from gnncal_lab.classifiers import train_classifier

    dataset = load_dataset(task.dataset, root)
    split = dataset.split_of(task.seed)
    classifier = train_classifier(task.backbone, dataset, split, seed=task.seed)
    entries = []
    for operation in OPERATIONS:
        for rate in RATES:
            graph = perturb(dataset.graph, operation, rate, seed=task.seed)
            bundle = Bundle(classifier.logits(graph), dataset.labels, graph, *split)
            for (method, protocol), calibrator in _calibrators().items():
                entries.append(
                    task._asdict()
                    | {"operation": operation, "rate": rate, "method": method}
                    | {"protocol": protocol, "metrics": _fitted_metrics(calibrator, bundle)}
                )
    return entries


def _calibrators() -> dict[tuple[str, str], Calibrator]:
    kinds: dict[str, Callable[..., Calibrator]] = {
        "ts": TemperatureScaling,
        "hots": partial(HoTS, homophily="agreement"),
    }
    return {(name, p): kind(protocol=p) for name, kind in kinds.items() for p in PROTOCOLS}


def _fitted_metrics(calibrator: Calibrator, bundle: Bundle) -> dict[str, float]:
    measured = measure(calibrator.predict_proba(fit_bundle(calibrator, bundle)), bundle)
    return {name: measured[name] for name in PerturbedMetrics.__annotations__}


def _is_symmetric(graph: Graph) -> bool:
    adjacency = graph.adjacency()
    return bool((adjacency != adjacency.T).nnz == 0)


def _new_edges(
    present: Any, n_nodes: int, count: int, generator: np.random.Generator, *, ordered: bool
) -> Any:
    """(2, count) distinct pairs of different nodes that are not there yet."""
    taken = np.unique(present[0] * n_nodes + present[1])
    free = n_nodes * (n_nodes - 1) // (1 if ordered else 2) - len(taken)
    if count > free:
        raise InputError(f"{count} edges cannot be added; only {free} pairs of nodes have none.")
    drawn = np.empty(0, dtype=np.int64)
    while len(drawn) < count:
        ends = generator.integers(n_nodes, size=(2, 2 * (count - len(drawn)) + 16))
        ends = ends if ordered else np.sort(ends, axis=0)
        ends = ends[:, ends[0] != ends[1]]
        fresh = np.concatenate([drawn, ends[0] * n_nodes + ends[1]])
        _, first = np.unique(fresh, return_index=True)
        fresh = fresh[np.sort(first)]
        drawn = fresh[~np.isin(fresh, taken)]
    return np.stack(np.divmod(drawn[:count], n_nodes))
