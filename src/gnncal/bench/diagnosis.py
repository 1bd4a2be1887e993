"""Structural diagnosis of a run: read the frozen logits again, write a few small records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from gnncal.bench.logits import FrozenLogits, Source
from gnncal.bench.measure import fit_quietly
from gnncal.bench.plan import Task
from gnncal.bench.records import append_lines, read_lines
from gnncal.bench.runs import note_run
from gnncal.bench.structure import (
    STATISTICS,
    ResidualMoments,
    correlation,
    homophily_split,
    node_statistics,
    oracle_homophily,
    residual_moments,
)
from gnncal.calibrators.hots import HoTS
from gnncal.core.arrays import FloatArray
from gnncal.core.probability import concentration, normalised_entropy, softmax

FILE = "diagnosis.jsonl"
STRUCTURE_SEEDS = 5  # as in the paper
SAMPLED_NODES = 600  # of each dataset's scatter


def diagnose(
    folder: Path,
    source: Source,
    backbone: str,
    seeds: Mapping[str, Sequence[int]],
    *,
    command: str = "",
    watch: Callable[[str], None] = lambda dataset: None,
) -> list[str]:
    """Diagnose each dataset that has no entry yet for its seeds; the names of those done."""
    known = read_diagnosis(folder).get(backbone, {})
    todo = [d for d in seeds if d not in known or known[d]["seeds"] != list(seeds[d])]
    run = note_run(folder, command) if todo else ""
    for dataset in todo:
        watch(dataset)
        tasks = [Task(dataset, backbone, seed) for seed in seeds[dataset]]
        entry = _entry(tasks, [source.load(task) for task in tasks])
        append_lines(folder / FILE, [{"run": run, **entry}])
    return todo


def read_diagnosis(folder: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """Backbone -> dataset -> the last entry of both."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for entry in read_lines(folder / FILE):
        found.setdefault(entry["backbone"], {})[entry["dataset"]] = entry
    return found


def structural_correlations(diagnosis: dict[str, dict[str, Any]]) -> dict[str, tuple[float, float]]:
    """Statistic -> correlation with correctness, pooled over datasets and averaged over them."""
    found = {}
    for name in STATISTICS:
        by_dataset = [
            [ResidualMoments(**moments[name]) for moments in entry["moments"]]
            for entry in diagnosis.values()
        ]
        macro = np.nanmean([correlation(runs) for runs in by_dataset])
        found[name] = (correlation([m for runs in by_dataset for m in runs]), float(macro))
    return found


def _entry(tasks: Sequence[Task], runs: Sequence[FrozenLogits]) -> dict[str, Any]:
    first = runs[0]
    statistics = node_statistics(first.graph, first.labels, first.logits.shape[1])
    outcomes = [_outcomes(run) for run in runs]
    homophily = oracle_homophily(first.graph, first.labels)
    confidence, correct = (np.concatenate(parts) for parts in zip(*outcomes, strict=True))
    pooled = np.concatenate([homophily[run.test] for run in runs])
    return {
        "dataset": tasks[0].dataset,
        "backbone": tasks[0].backbone,
        "seeds": [task.seed for task in tasks],
        "moments": [
            {
                name: asdict(
                    residual_moments(
                        values[run.test], outcome[1], outcome[0], run.graph.in_degree[run.test]
                    )
                )
                for name, values in statistics.items()
            }
            for run, outcome in list(zip(runs, outcomes, strict=True))[:STRUCTURE_SEEDS]
        ],
        "splits": {
            str(n): asdict(homophily_split(confidence, correct, pooled, n_groups=n)) for n in (2, 3)
        },
        "nodes": _sampled_nodes(first, statistics["homophily"]),
    }


def _outcomes(run: FrozenLogits) -> tuple[FloatArray, FloatArray]:
    """Raw confidence and correctness of the test nodes."""
    probs = softmax(run.logits[run.test])
    return probs.max(axis=1), (probs.argmax(axis=1) == run.labels[run.test]).astype(np.float64)


def _sampled_nodes(run: FrozenLogits, normalised_homophily: FloatArray) -> dict[str, list[float]]:
    """Raw confidence gap against HoTS's correction with oracle homophily, on some test nodes."""
    hots = HoTS()
    fit_quietly(hots, run)
    generator = np.random.default_rng(0)
    chosen = np.sort(generator.permutation(run.test)[:SAMPLED_NODES])
    logits, h = run.logits[chosen], normalised_homophily[chosen]
    probs, n_classes = softmax(logits), logits.shape[1]
    entropy = normalised_entropy(logits).astype(np.float64)
    numerator = concentration(entropy, n_classes, minimum=0.0)
    columns = {
        "correction": hots.beta_ * numerator / (np.abs(h) + hots.epsilon) ** hots.alpha_,
        "gap": probs.max(axis=1) - (probs.argmax(axis=1) == run.labels[chosen]),
        "homophily": h,
        "certainty": 1.0 - entropy,
    }
    return {
        name: np.round(values.astype(np.float64), 4).tolist() for name, values in columns.items()
    }
