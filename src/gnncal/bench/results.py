"""Records as numbers by dataset, backbone and method."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gnncal.bench import paper
from gnncal.bench.plan import PROTOCOLS, Protocol, knows_protocols, list_methods, protocols_of
from gnncal.bench.records import Record, read_records
from gnncal.bench.summary import sample_spread
from gnncal.core.arrays import FloatArray
from gnncal.core.errors import InputError
from gnncal.datasets import FACTS

PERCENT = {
    *("accuracy", "ece", "ece_floor", "degree_ece", "classwise_ece", "smooth_ece", "aurc"),
}
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
    def graph_rows(self) -> list[tuple[str, list[str]]]:
        """Every dataset with each of its backbones: the rows of paired tests."""
        present = {(dataset, backbone) for dataset, backbone, _ in self.runs}
        return [(d, [b]) for d in self.datasets for b in self.backbones if (d, b) in present]

    def records(self, method: str) -> list[Record]:
        """Every run of a method."""
        return [record for key, runs in self.runs.items() if key[2] == method for record in runs]

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
        """The sample standard deviation over all runs of the backbones together."""
        runs = [self.values(metric, dataset, backbone, method) for backbone in backbones]
        return sample_spread(np.concatenate(runs))

    def table(
        self, metric: str, rows: Sequence[tuple[str, Sequence[str]]], methods: Sequence[str]
    ) -> FloatArray:
        """Means (n_rows, n_methods) for rows of (dataset, backbones); NaN where absent."""
        return np.array(
            [[self.mean(metric, d, backbones, m) for m in methods] for d, backbones in rows]
        ).reshape(len(rows), len(methods))


def read_results(folder: Path, datasets: Collection[str] = ()) -> dict[Protocol, Results]:
    """The records of a run that did not fail, for each protocol that has any.

    Of these datasets only, where some are given.
    """
    known = set(list_methods())
    records = [
        record
        for record in read_records(folder).values()
        if record.error is None
        and record.method in known
        and (not datasets or record.dataset in datasets)
    ]
    missing = set(datasets) - {record.dataset for record in records}
    if missing or not records:
        of = f" of {sorted(missing)[0]}" if missing else ""
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
