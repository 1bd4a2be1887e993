"""Records as numbers by dataset, backbone and method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gnncal.bench import paper
from gnncal.bench.plan import PROTOCOLS, Protocol, knows_protocols, list_methods, protocols_of
from gnncal.bench.records import Record, read_records
from gnncal.bench.summary import spread_of_runs
from gnncal.core.arrays import FloatArray
from gnncal.core.errors import InputError
from gnncal.datasets import FACTS

PERCENT = {
    *("accuracy", "ece", "ece_floor", "degree_ece", "degree_ece_floor"),
    *("classwise_ece", "smooth_ece", "aurc"),
}
FLOOR_OF = {"ece": "ece_floor", "degree_ece": "degree_ece_floor"}  # under perfect calibration
POOLED = ("gcn", "gat")  # the backbones that the paper's averages are over
Runs = dict[tuple[str, str, str], list[Record]]  # (dataset, backbone, method) -> its seeds


def scale(metric: str) -> float:
    """Shares and calibration errors are shown in percent."""
    return 100.0 if metric in PERCENT else 1.0


@dataclass(frozen=True)
class Results:
    """Records of one protocol; methods that know no protocol belong to both."""

    protocol: Protocol
    runs: Runs

    @property
    def datasets(self) -> list[str]:
        """In the order of the paper's main table, others after."""
        present = {dataset for dataset, _, _ in self.runs}
        return [d for d in FACTS if d in present] + sorted(present - set(FACTS))

    @property
    def backbones(self) -> list[str]:
        """In the order of the paper, others after."""
        present = {backbone for _, backbone, _ in self.runs}
        return [b for b in paper.BACKBONES if b in present] + sorted(present - set(paper.BACKBONES))

    @property
    def methods(self) -> list[str]:
        """In the order of the catalogue."""
        present = {method for _, _, method in self.runs}
        return [method for method in list_methods() if method in present]

    @property
    def pooled_backbones(self) -> list[str]:
        """GCN and GAT, as in the paper; those present where neither is."""
        return [b for b in self.backbones if b in POOLED] or self.backbones

    @property
    def pooled_names(self) -> str:
        """As titles have them."""
        return ", ".join(paper.BACKBONES.get(b, b) for b in self.pooled_backbones)

    @property
    def graph_rows(self) -> list[tuple[str, list[str]]]:
        """Every dataset with each pooled backbone: the rows of averages and paired tests.

        Other backbones may have been run with other methods, whose averages would then be over
        other rows.
        """
        present = {(dataset, backbone) for dataset, backbone, _ in self.runs}
        return [(d, [b]) for d in self.datasets for b in self.pooled_backbones if (d, b) in present]

    @property
    def graphs(self) -> list[str]:
        """The dataset of each of the graph rows."""
        return [dataset for dataset, _ in self.graph_rows]

    def records(self, method: str) -> list[Record]:
        """Every run of a method with a pooled backbone."""
        pooled = self.pooled_backbones
        return [
            record
            for (_, backbone, m), runs in self.runs.items()
            if m == method and backbone in pooled
            for record in runs
        ]

    def values(self, metric: str, dataset: str, backbone: str, method: str) -> FloatArray:
        """The metric of each run, by seed; empty where there is none."""
        records = self.runs.get((dataset, backbone, method), [])
        return np.array([record.metrics[metric] for record in records], dtype=np.float64)

    def mean(self, metric: str, dataset: str, backbones: Sequence[str], method: str) -> float:
        """The mean over the seeds of each backbone, then over the backbones present."""
        means = [
            values.mean()
            for backbone in backbones
            if (values := self.values(metric, dataset, backbone, method)).size
        ]
        return float(np.mean(means)) if means else float("nan")

    def spread(self, metric: str, dataset: str, backbones: Sequence[str], method: str) -> float:
        """The standard deviation over all runs of the backbones together."""
        runs = [self.values(metric, dataset, backbone, method) for backbone in backbones]
        return spread_of_runs(np.concatenate(runs))

    def table(
        self, metric: str, rows: Sequence[tuple[str, Sequence[str]]], methods: Sequence[str]
    ) -> FloatArray:
        """Means (n_rows, n_methods) for rows of (dataset, backbones); NaN where absent."""
        return np.array(
            [[self.mean(metric, d, backbones, m) for m in methods] for d, backbones in rows]
        ).reshape(len(rows), len(methods))

    def pairs(
        self, metric: str, method: str, reference: str, other: Results | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Means of both in each of the graph rows, over the seeds that both have; else NaN.

        The reference may be of other results.
        """
        rows = self.graph_rows
        means = np.full((2, len(rows)), np.nan)
        for i, (dataset, [backbone]) in enumerate(rows):
            runs = [
                {r.seed: r.metrics[metric] for r in source.runs.get((dataset, backbone, m), [])}
                for source, m in ((self, method), (other or self, reference))
            ]
            if seeds := sorted(runs[0].keys() & runs[1].keys()):
                means[:, i] = [np.mean([run[seed] for seed in seeds]) for run in runs]
        return means[0], means[1]


@dataclass(frozen=True)
class Selection:
    """Which records to look at; an empty part means all."""

    datasets: tuple[str, ...] = ()
    backbones: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()

    def includes(self, record: Record) -> bool:
        """Whether a record is to be looked at."""
        return (
            (not self.datasets or record.dataset in self.datasets)
            and (not self.backbones or record.backbone in self.backbones)
            and (not self.methods or record.method in self.methods)
            and (not self.seeds or record.seed in self.seeds)
        )


EVERYTHING = Selection()


def read_results(folder: Path, wanted: Selection = EVERYTHING) -> dict[Protocol, Results]:
    """The wanted records of a run that did not fail, for each protocol that has any."""
    known = set(list_methods())
    records = [r for r in read_records(folder).values() if r.error is None and r.method in known]
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
        protocol: Results(protocol, _runs(records, protocol))
        for protocol in PROTOCOLS
        if protocol in (protocols or {"converged"})
    }


def _runs(records: Sequence[Record], protocol: Protocol) -> Runs:
    runs: Runs = {}
    for record in sorted(records, key=lambda record: record.cell):
        if record.protocol in protocols_of(record.method, [protocol]):
            key = (record.dataset, record.backbone, record.method)
            runs.setdefault(key, []).append(record)
    return runs
