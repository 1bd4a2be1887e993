"""Training-time calibration, alone and before post-hoc calibration."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gnncal.data.arrays import FloatArray
from gnncal_lab.bench.results import Results, metric_of
from gnncal_lab.bench.summary import compare_paired, unit_means
from gnncal_lab.bench.tables.model import NAN, Entry, ResultTable, Row
from gnncal_lab.classifiers.treatments import SEPARATOR, TREATED, parts_of

METHODS = ("uncalibrated", "ts", "structural")
REFERENCE = "structural"  # on the untreated network
METRICS = ("nll", "ece", "accuracy")
PARTS = ("", ", difference", ", low", ", high")  # of the columns of a metric
UNTREATED = "standard"
TITLES = {UNTREATED: "standard", "dcgc": "DCGC", "gcl": "GCL"}


def treatments(results: Results) -> ResultTable:
    """Compare treated and untreated networks under the same calibrators, with graphs as units."""
    present = {parts_of(b)[1] for b in results.backbones if b in TREATED}
    kinds = [kind for kind in TITLES if kind == UNTREATED or kind in present]
    keys = [(kind, method) for kind in kinds for method in METHODS]
    tasks = list(_complete(results, keys)) if present else []
    graphs = [dataset for dataset, _, _ in tasks]
    rows = []
    for kind, method in keys if tasks else []:
        entries: list[Entry] = []
        for metric in METRICS:
            scale = metric_of(metric).scale
            ours = _values(results, metric, tasks, kind, method)
            theirs = _values(results, metric, tasks, UNTREATED, REFERENCE)
            found = compare_paired(ours, theirs, graphs)
            is_reference = (kind, method) == (UNTREATED, REFERENCE)
            differences = (found.mean_difference, found.low, found.high)
            entries.append(Entry(scale * float(unit_means(ours, graphs).mean())))
            entries += [Entry(NAN if is_reference else scale * value) for value in differences]
        rows.append(Row(method, tuple(entries), TITLES[kind]))
    n_units = len(unit_means(np.zeros(len(graphs)), graphs)) if graphs else 0
    headings = [metric_of(metric).heading for metric in METRICS]
    return ResultTable(
        "treatments",
        "Training-time calibration, before and after post-hoc calibration",
        tuple(f"{heading}{part}" for heading in headings for part in PARTS),
        tuple(rows),
        decimals=tuple(4 if metric == "nll" else 2 for metric in METRICS for _ in range(4)),
        corner="method",
        note=(
            "Groups of rows: training of the classifier. "
            f"Means over {n_units} graphs ({', '.join(dict.fromkeys(graphs))}; Texas and Cornell "
            f"count as one). Trained {_counted(tasks)}. Difference: minus {REFERENCE} after "
            "standard training (negative: better for NLL and ECE; positive: better for accuracy). "
            "Low, high: ends of the 95% bootstrap interval over graphs."
        ),
    )


Task = tuple[str, str, int]  # graph, network, seed


def _backbone(network: str, kind: str) -> str:
    return network if kind == UNTREATED else f"{network}{SEPARATOR}{kind}"


def _complete(results: Results, keys: list[tuple[str, str]]) -> Iterator[Task]:
    """Yield the classifiers that have a record in every row of the table."""
    for network in dict.fromkeys(parts_of(name)[0] for name in TREATED):
        for dataset in results.datasets:
            seeds = [
                set(_by_seed(results, "nll", dataset, _backbone(network, kind), method))
                for kind, method in keys
            ]
            yield from ((dataset, network, seed) for seed in sorted(set.intersection(*seeds)))


def _values(results: Results, metric: str, tasks: list[Task], kind: str, method: str) -> FloatArray:
    """Return a metric of each classifier after a treatment and a calibrator."""
    found = [
        _by_seed(results, metric, dataset, _backbone(network, kind), method)[seed]
        for dataset, network, seed in tasks
    ]
    return np.array(found)


def _by_seed(
    results: Results, metric: str, dataset: str, backbone: str, method: str
) -> dict[int, float]:
    records = results.records.get((dataset, backbone, method), [])
    return {record.seed: record.metric(metric) for record in records}


def _counted(tasks: list[Task]) -> str:
    """Return how many classifiers of each network there are."""
    networks = [network for _, network, _ in tasks]
    counts = (f"{networks.count(name)} {name.upper()}s" for name in dict.fromkeys(networks))
    return f"classifiers: {', '.join(counts)}"
