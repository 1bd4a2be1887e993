"""A stress test: edges are added or removed, the frozen classifier sees the changed graph.

TS and HoTS (with the agreement estimate, which needs no training) are fitted anew on it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from gnncal.bench.engines import workers
from gnncal.bench.logits import FrozenLogits, load_dataset
from gnncal.bench.measure import fit_quietly, measure
from gnncal.bench.plan import PROTOCOLS, Protocol
from gnncal.bench.records import append_lines, read_lines
from gnncal.bench.run import DIED, Outcome, reason
from gnncal.bench.runs import note_run
from gnncal.bench.structure import undirected
from gnncal.calibrators.base import Calibrator
from gnncal.calibrators.hots import HoTS
from gnncal.calibrators.temperature import TemperatureScaling
from gnncal.core.errors import InputError
from gnncal.core.graph import Graph
from gnncal.datasets import random_split

Operation = Literal["add", "remove"]
OPERATIONS: tuple[Operation, ...] = ("add", "remove")
RATES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5)
DATASETS = ("Cora", "CiteSeer", "CS", "Chameleon", "Squirrel")  # the paper's
METRICS = ("accuracy", "ece", "ece_floor", "nll")
FILE = "perturbation.jsonl"


class Unit(NamedTuple):
    """One classifier, all of its perturbed graphs."""

    dataset: str
    backbone: str
    seed: int


def perturb(graph: Graph, operation: Operation, rate: float, *, seed: int) -> Graph:
    """Add or remove ``rate`` times as many edges as there are, chosen uniformly.

    An undirected graph is changed by pairs, both directions together. Self-loops stay; new edges
    join nodes that had none between them in that direction.
    """
    if operation not in OPERATIONS or not 0 <= rate <= 1:
        raise InputError(
            f"operation is {operation!r} and rate {rate}; expected 'add' or 'remove' and a share."
        )
    generator = np.random.default_rng(seed)
    edges = graph.edge_index.astype(np.int64)
    loops = edges[:, edges[0] == edges[1]]
    others = edges[:, edges[0] != edges[1]]
    symmetric = undirected(graph).nnz == others.shape[1] and _is_symmetric(graph)
    units = others[:, others[0] < others[1]] if symmetric else others
    count = round(rate * units.shape[1])
    if operation == "remove":
        units = units[:, np.sort(generator.permutation(units.shape[1])[count:])]
    else:
        new = _new_edges(units, graph.n_nodes, count, generator, ordered=not symmetric)
        units = np.concatenate([units, new], axis=1)
    both = [units, units[::-1]] if symmetric else [units]
    return Graph(np.concatenate([loops, *both], axis=1), graph.n_nodes, graph.features)


def run_perturbation(
    folder: Path,
    units: Sequence[Unit],
    *,
    root: Path | None = None,
    jobs: int = 1,
    command: str = "",
    watch: Callable[[int, int], None] = lambda done, total: None,
) -> Outcome:
    """Append the entries of every unit that has not all of them; one that fails stops no other."""
    recorded = Counter(key[:3] for key in _entries(folder))
    whole = len(OPERATIONS) * len(RATES) * len(_calibrators())
    todo = [unit for unit in units if recorded[unit] < whole]
    if not todo:
        return Outcome("", 0, 0, len(units))
    run = note_run(folder, command)
    failures = []
    with workers(jobs) as each:
        results = each(partial(_try_unit, root), todo, lambda unit: (unit, [], DIED))
        for done, (unit, entries, failure) in enumerate(results, 1):
            append_lines(folder / FILE, [{"run": run, **entry} for entry in entries])
            failures += [f"{' '.join(map(str, unit))}: {failure}"] if failure else []
            watch(done, len(todo))
    first = failures[0] if failures else None
    return Outcome(run, len(todo), len(failures), len(units) - len(todo), first)


def read_perturbation(folder: Path) -> dict[tuple[str, Protocol], list[dict[str, Any]]]:
    """Backbone and protocol -> one entry a dataset, seed, operation, rate and method."""
    found: dict[tuple[str, Protocol], list[dict[str, Any]]] = {}
    for entry in _entries(folder).values():
        found.setdefault((entry["backbone"], entry["protocol"]), []).append(entry)
    return dict(sorted(found.items(), key=lambda item: PROTOCOLS.index(item[0][1])))


def _entries(folder: Path) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The last of those that are of the same."""
    of = ("dataset", "backbone", "seed", "operation", "rate", "method", "protocol")
    return {tuple(entry[name] for name in of): entry for entry in read_lines(folder / FILE)}


def _try_unit(root: Path | None, unit: Unit) -> tuple[Unit, list[dict[str, Any]], str | None]:
    try:
        return unit, _run_unit(root, unit), None
    except Exception as error:
        return unit, [], reason(error)


def _run_unit(root: Path | None, unit: Unit) -> list[dict[str, Any]]:
    from gnncal.classifiers import train_classifier

    dataset = load_dataset(unit.dataset, root)
    split = random_split(dataset.graph.n_nodes, unit.seed)
    classifier = train_classifier(unit.backbone, dataset, split, seed=unit.seed)
    entries = []
    for operation in OPERATIONS:
        for rate in RATES:
            graph = perturb(dataset.graph, operation, rate, seed=unit.seed)
            frozen = FrozenLogits(classifier.logits(graph), dataset.labels, graph, *split)
            for (method, protocol), calibrator in _calibrators().items():
                entries.append(
                    unit._asdict()
                    | {"operation": operation, "rate": rate, "method": method}
                    | {"protocol": protocol, "metrics": _fitted_metrics(calibrator, frozen)}
                )
    return entries


def _calibrators() -> dict[tuple[str, str], Calibrator]:
    kinds: dict[str, Callable[..., Calibrator]] = {
        "ts": TemperatureScaling,
        "hots": partial(HoTS, homophily="agreement"),
    }
    return {(name, p): kind(protocol=p) for name, kind in kinds.items() for p in PROTOCOLS}


def _fitted_metrics(calibrator: Calibrator, frozen: FrozenLogits) -> dict[str, float]:
    fit_quietly(calibrator, frozen)
    measured = measure(calibrator.predict_proba(frozen.logits, frozen.graph), frozen)
    return {name: measured[name] for name in METRICS}


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
