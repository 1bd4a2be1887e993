"""Records of one protocol as numbers by dataset, backbone and method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gnncal.data.arrays import FloatArray
from gnncal.data.errors import InputError, warn
from gnncal.metrics.table import FLOOR_SUFFIX, METRICS, Metric
from gnncal_lab.bench import published
from gnncal_lab.bench.plan import PROTOCOLS, Protocol, knows_protocols, list_methods, protocols_of
from gnncal_lab.bench.records import Record, read_records
from gnncal_lab.bench.summary import spread_of_seeds
from gnncal_lab.datasets import FACTS

MOST_NAMED = 8  # unknown methods in one warning
POOLED = ("gcn", "gat")  # the backbones that the paper's averages are over
Grouped = dict[tuple[str, str, str], list[Record]]  # by (dataset, backbone, method), in seed order


@dataclass(frozen=True)
class Results:
    """Records of one protocol; methods that know no protocol belong to both."""

    protocol: Protocol
    records: Grouped

    @property
    def datasets(self) -> list[str]:
        """Datasets with records: the paper's in its order, then others."""
        present = {dataset for dataset, _, _ in self.records}
        return [d for d in FACTS if d in present] + sorted(present - set(FACTS))

    @property
    def backbones(self) -> list[str]:
        """Backbones with records: the paper's in its order, then others."""
        present = {backbone for _, backbone, _ in self.records}
        known = published.BACKBONES
        return [b for b in known if b in present] + sorted(present - set(known))

    @property
    def methods(self) -> list[str]:
        """Methods with records, in the order of the catalogue."""
        present = {method for _, _, method in self.records}
        return [method for method in list_methods() if method in present]

    @property
    def metrics(self) -> list[str]:
        """Metrics of the catalogue that every record has."""
        records = [record for found in self.records.values() for record in found]
        return [name for name in METRICS if all(name in record.metrics for record in records)]

    @property
    def mixes_ties(self) -> bool:
        """Whether some degree-stratified ECE is of one order of nodes of equal degree."""
        records = [record for found in self.records.values() for record in found]
        return any("degree_ece" in r.metrics and "degree_ties" not in r.metrics for r in records)

    @property
    def pooled_backbones(self) -> list[str]:
        """GCN and GAT, as in the paper; all backbones with records where neither has any."""
        return [b for b in self.backbones if b in POOLED] or self.backbones

    @property
    def pooled_names(self) -> str:
        """Names of the pooled backbones as titles have them."""
        return ", ".join(published.BACKBONES.get(b, b) for b in self.pooled_backbones)

    @property
    def pairs(self) -> list[tuple[str, list[str]]]:
        """Every dataset with each pooled backbone: the rows of averages and paired tests."""
        present = {(dataset, backbone) for dataset, backbone, _ in self.records}
        return [(d, [b]) for d in self.datasets for b in self.pooled_backbones if (d, b) in present]

    @property
    def graphs(self) -> list[str]:
        """The dataset of each of the pairs."""
        return [dataset for dataset, _ in self.pairs]

    def records_of(self, method: str) -> list[Record]:
        """Return every record of a method with a pooled backbone."""
        pooled = self.pooled_backbones
        return [
            record
            for (_, backbone, m), records in self.records.items()
            if m == method and backbone in pooled
            for record in records
        ]

    def values(self, metric: str, dataset: str, backbone: str, method: str) -> FloatArray:
        """Return a metric of each record that has it, by seed; empty where there is none."""
        return np.array([*self._by_seed(metric, dataset, backbone, method).values()])

    def mean(self, metric: str, dataset: str, backbones: Sequence[str], method: str) -> float:
        """Return the mean over the seeds of each backbone, then over the backbones present."""
        means = [
            values.mean()
            for backbone in backbones
            if (values := self.values(metric, dataset, backbone, method)).size
        ]
        return float(np.mean(means)) if means else float("nan")

    def spread(self, metric: str, dataset: str, backbones: Sequence[str], method: str) -> float:
        """Return the standard deviation over all seeds of the backbones together."""
        values = [self.values(metric, dataset, backbone, method) for backbone in backbones]
        return spread_of_seeds(np.concatenate(values))

    def matrix(
        self, metric: str, rows: Sequence[tuple[str, Sequence[str]]], methods: Sequence[str]
    ) -> FloatArray:
        """Means (n_rows, n_methods) for rows of (dataset, backbones); NaN where absent."""
        return np.array(
            [[self.mean(metric, d, backbones, m) for m in methods] for d, backbones in rows]
        ).reshape(len(rows), len(methods))

    def fit_cpu_seconds(
        self, rows: Sequence[tuple[str, Sequence[str]]], methods: Sequence[str]
    ) -> FloatArray:
        """Return the mean CPU seconds of a fit (n_rows, n_methods), as in :meth:`matrix`."""

        def mean(dataset: str, backbones: Sequence[str], method: str) -> float:
            found = [self.records.get((dataset, backbone, method), []) for backbone in backbones]
            means = [np.mean([record.fit_cpu_seconds for record in part]) for part in found if part]
            return float(np.mean(means)) if means else float("nan")

        return np.array([[mean(d, backbones, m) for m in methods] for d, backbones in rows])

    def matched(
        self, metric: str, method: str, reference: str, other: Results | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Means of both methods in each of the pairs, over the seeds that both have; else NaN."""
        means = np.full((2, len(self.pairs)), np.nan)
        for i, (dataset, [backbone]) in enumerate(self.pairs):
            ours = self._by_seed(metric, dataset, backbone, method)
            theirs = (other or self)._by_seed(metric, dataset, backbone, reference)
            if seeds := sorted(ours.keys() & theirs.keys()):
                means[:, i] = [np.mean([found[s] for s in seeds]) for found in (ours, theirs)]
        return means[0], means[1]

    def _by_seed(self, metric: str, dataset: str, backbone: str, method: str) -> dict[int, float]:
        records = self.records.get((dataset, backbone, method), [])
        values = {record.seed: record.metric(metric) for record in records}
        return {seed: value for seed, value in values.items() if not np.isnan(value)}


@dataclass(frozen=True)
class Selection:
    """Which records to look at; an empty part means all."""

    datasets: tuple[str, ...] = ()
    backbones: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()

    def includes(self, record: Record) -> bool:
        """Return whether a record is to be looked at."""
        return (
            (not self.datasets or record.dataset in self.datasets)
            and (not self.backbones or record.backbone in self.backbones)
            and (not self.methods or record.method in self.methods)
            and (not self.seeds or record.seed in self.seeds)
        )


EVERYTHING = Selection()


def read_results(folder: Path, wanted: Selection = EVERYTHING) -> dict[Protocol, Results]:
    """Return the wanted records of a folder that did not fail, for each protocol that has any."""
    known = set(list_methods())
    every = [record for record in read_records(folder).values() if record.error is None]
    strangers = sorted({record.method for record in every} - known)
    if strangers:
        warn(
            f"records of {_some(strangers)} are left out, because no installed package has a "
            "calibrator of that name; install it to see them."
        )
    records = [record for record in every if record.method in known]
    missing = sorted(
        set(wanted.datasets).difference(record.dataset for record in records)
        | set(wanted.backbones).difference(record.backbone for record in records)
    )
    records = [record for record in records if wanted.includes(record)]
    if missing or not records:
        of = f" of {missing[0]}" if missing else ""
        raise InputError(f"{folder} has no records{of}; make some with `gnncal bench run --out`.")
    protocols = {record.protocol for record in records if knows_protocols(record.method)}
    return {
        protocol: Results(protocol, _grouped(records, protocol))
        for protocol in PROTOCOLS
        if protocol in (protocols or {"converged"})
    }


def _some(names: Sequence[str]) -> str:
    """Return the first few of many names."""
    left = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {left} others" if left > 0 else "")


def _grouped(records: Sequence[Record], protocol: Protocol) -> Grouped:
    grouped: Grouped = {}
    for record in sorted(records, key=lambda record: record.cell):
        if record.protocol in protocols_of(record.method, [protocol]):
            key = (record.dataset, record.backbone, record.method)
            grouped.setdefault(key, []).append(record)
    return grouped


def metric_of(name: str) -> Metric:
    """Return the metric that a name in a record belongs to; floors belong to their metric."""
    return METRICS[name.removesuffix("_spread").removesuffix(FLOOR_SUFFIX)]
