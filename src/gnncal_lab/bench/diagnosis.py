"""Structural diagnosis: read the frozen logits again, write a small entry for each dataset."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from gnncal.calibrators.hots import HoTS
from gnncal.data.arrays import FloatArray
from gnncal.data.probability import concentration, normalised_entropy, softmax
from gnncal.files.bundle import Bundle
from gnncal_lab.bench.logits import LogitProvider
from gnncal_lab.bench.measure import fit_bundle, ordered_test_nodes
from gnncal_lab.bench.plan import Task
from gnncal_lab.bench.provenance import note_run
from gnncal_lab.bench.records import (
    append_lines,
    check_records_file,
    read_entries,
)
from gnncal_lab.bench.structure import (
    STATISTICS,
    ResidualMoments,
    correlation,
    homophily_split,
    node_statistics,
    oracle_homophily,
    residual_moments,
)

FILE = "diagnosis.jsonl"
STRUCTURE_SEEDS = 5  # as in the paper
SAMPLED_NODES = 600  # of each dataset's scatter
QUANTILES = 5  # of confidence, within which nodes are split by homophily
GROUPS = (2, 3)  # that they are split into


class SplitEntry(TypedDict):
    """A split by homophily, as :class:`~gnncal_lab.bench.structure.HomophilySplit` has it."""

    confidence: list[float]
    accuracy: list[list[float]]
    gap: float


class SampledNodes(TypedDict):
    """What the scatter shows of some nodes."""

    correction: list[float]
    gap: list[float]
    homophily: list[float]
    certainty: list[float]


class DiagnosisEntry(TypedDict):
    """A line of the file: what was found on one dataset."""

    run: str
    dataset: str
    backbone: str
    seeds: list[int]
    moments: list[dict[str, ResidualMoments]]  # of each seed, by statistic
    splits: dict[str, SplitEntry]  # by the number of groups
    nodes: SampledNodes


def diagnose(
    folder: Path,
    provider: LogitProvider,
    backbone: str,
    seeds: Mapping[str, Sequence[int]],
    *,
    command: str = "",
    watch: Callable[[str], None] = lambda dataset: None,
) -> list[str]:
    """Diagnose each dataset without a current entry for its seeds; returns their names."""
    check_records_file(folder / FILE)
    known = read_diagnosis(folder).get(backbone, {})
    todo = [d for d in seeds if not _is_current(known.get(d), seeds[d])]
    run = note_run(folder, command) if todo else ""
    for dataset in todo:
        watch(dataset)
        tasks = [Task(dataset, backbone, seed) for seed in seeds[dataset]]
        entry = _entry(tasks, [provider.load(task) for task in tasks])
        append_lines(folder / FILE, [{"run": run, **entry}])
    return todo


def read_diagnosis(folder: Path) -> dict[str, dict[str, DiagnosisEntry]]:
    """Return the last entry of each dataset, by backbone and dataset."""
    found: dict[str, dict[str, DiagnosisEntry]] = {}
    for entry in read_entries(folder / FILE, DiagnosisEntry):
        every: list[Any] = entry["moments"]
        entry["moments"] = [{n: ResidualMoments(**m[n]) for n in STATISTICS} for m in every]
        found.setdefault(entry["backbone"], {})[entry["dataset"]] = entry
    return found


def structural_correlations(
    diagnosis: Mapping[str, DiagnosisEntry],
) -> dict[str, tuple[float, float]]:
    """Return each statistic's correlation with correctness, pooled and averaged over datasets."""
    found = {}
    for name in STATISTICS:
        by_dataset = [
            [moments[name] for moments in entry["moments"]] for entry in diagnosis.values()
        ]
        macro = np.nanmean([correlation(runs) for runs in by_dataset])
        found[name] = (correlation([m for runs in by_dataset for m in runs]), float(macro))
    return found


def _is_current(entry: DiagnosisEntry | None, seeds: Sequence[int]) -> bool:
    """Return whether an entry was made from these seeds."""
    return entry is not None and entry["seeds"] == [*seeds]


def _entry(tasks: Sequence[Task], bundles: Sequence[Bundle]) -> dict[str, Any]:
    first = bundles[0]
    statistics = node_statistics(first.graph, first.labels, first.logits.shape[1])
    outcomes = [_outcomes(bundle) for bundle in bundles]
    homophily = oracle_homophily(first.graph, first.labels)
    confidence, correct = (np.concatenate(parts) for parts in zip(*outcomes, strict=True))
    pooled = np.concatenate([homophily[ordered_test_nodes(bundle)] for bundle in bundles])
    return {
        "dataset": tasks[0].dataset,
        "backbone": tasks[0].backbone,
        "seeds": [task.seed for task in tasks],
        "moments": [
            _moments(statistics, bundle, *outcome)
            for bundle, outcome in list(zip(bundles, outcomes, strict=True))[:STRUCTURE_SEEDS]
        ],
        "splits": {
            str(n): asdict(
                homophily_split(confidence, correct, pooled, n_groups=n, n_bins=QUANTILES)
            )
            for n in GROUPS
        },
        "nodes": _sampled_nodes(first, statistics["homophily"], tasks[0].seed),
    }


def _outcomes(bundle: Bundle) -> tuple[FloatArray, FloatArray]:
    """Return the raw confidence and correctness of the test nodes."""
    test = ordered_test_nodes(bundle)
    probs = softmax(bundle.logits[test])
    return probs.max(axis=1), (probs.argmax(axis=1) == bundle.labels[test]).astype(np.float64)


def _moments(
    statistics: dict[str, FloatArray], bundle: Bundle, confidence: FloatArray, correct: FloatArray
) -> dict[str, dict[str, float]]:
    test = ordered_test_nodes(bundle)
    in_degree = bundle.graph.in_degree[test]
    return {
        name: asdict(residual_moments(values[test], correct, confidence, in_degree))
        for name, values in statistics.items()
    }


def _sampled_nodes(
    bundle: Bundle, normalised_homophily: FloatArray, seed: int
) -> dict[str, list[float]]:
    """Return the raw confidence gap of some test nodes, and the correction of the paper's HoTS."""
    hots = HoTS.paper(random_state=seed)
    fit_bundle(hots, bundle)
    generator = np.random.default_rng(0)
    chosen = np.sort(generator.permutation(ordered_test_nodes(bundle))[:SAMPLED_NODES])
    logits, h = bundle.logits[chosen], normalised_homophily[chosen]
    probs, n_classes = softmax(logits), logits.shape[1]
    entropy = normalised_entropy(logits).astype(np.float64)
    numerator = concentration(entropy, n_classes, minimum=0.0)
    columns = {
        "correction": hots.beta_ * numerator / (np.abs(h) + hots.epsilon) ** hots.alpha_,
        "gap": probs.max(axis=1) - (probs.argmax(axis=1) == bundle.labels[chosen]),
        "homophily": h,
        "certainty": 1.0 - entropy,
    }
    return {
        name: np.round(values.astype(np.float64), 4).tolist() for name, values in columns.items()
    }
