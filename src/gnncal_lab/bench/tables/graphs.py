"""Tables about graphs: structure against correctness, and added or removed edges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gnncal_lab.bench import published
from gnncal_lab.bench.diagnosis import DiagnosisEntry, structural_correlations
from gnncal_lab.bench.perturbation import OPERATIONS, RATES, PerturbationEntry
from gnncal_lab.bench.structure import STATISTICS
from gnncal_lab.bench.summary import spread_of_seeds
from gnncal_lab.bench.tables.model import FLOORS, NAN, Entry, ResultTable, Row

PAPERS_BACKBONE = "gcn"  # of its structural statistics and perturbation


def structure(backbone: str, diagnosis: Mapping[str, DiagnosisEntry]) -> ResultTable:
    """Return the partial correlations of structural statistics with correctness."""
    paper = published.summary("structure") if backbone == PAPERS_BACKBONE else {}
    ours = structural_correlations(diagnosis)
    published_as = ("pooled", "macro")
    rows = [
        Row(
            name,
            tuple(
                Entry(value, published=paper.get((name, column), NAN))
                for value, column in zip(ours[name], published_as, strict=True)
            ),
        )
        for name in STATISTICS
    ]
    seeds = max(len(entry["moments"]) for entry in diagnosis.values())
    name = published.BACKBONES.get(backbone, backbone)
    return ResultTable(
        "structure" if backbone == PAPERS_BACKBONE else f"structure_{backbone}",
        f"Partial correlation of structural statistics with the correctness of {name}, given "
        "confidence and degree",
        ("all nodes pooled", "mean over datasets"),
        tuple(rows),
        decimals=3,
        corner="statistic",
        note=(
            f"Ours: {len(diagnosis)} datasets, up to {seeds} seeds. The paper: GCN, 18 datasets, 5 "
            "seeds. In the first row, nodes without outgoing edges have homophily 0, as in the "
            "paper. The second row leaves these nodes out."
        ),
    )


def perturbation(backbone: str, entries: Sequence[PerturbationEntry]) -> ResultTable:
    """ECE when a share of the edges is added or removed."""
    paper = published.summary("perturbation") if backbone == PAPERS_BACKBONE else {}
    names = {ours: theirs for theirs, ours in published.METHODS.items()}
    name = published.BACKBONES.get(backbone, backbone)
    n_seeds = len({entry["seed"] for entry in entries})
    rows = []
    for dataset in dict.fromkeys(entry["dataset"] for entry in entries):
        for operation in OPERATIONS:
            for method in ("hots", "ts"):
                line = f"{dataset} {names[method]}"
                at_each_rate = tuple(
                    _perturbed(
                        [e for e in entries if _is(e, dataset, operation, method, rate)],
                        paper.get((line, f"{100 * rate:.0f} %"), NAN),
                    )
                    for rate in RATES
                )
                rows.append(Row(f"{dataset}, {operation}, {method}", at_each_rate))
    return ResultTable(
        "perturbation" if backbone == PAPERS_BACKBONE else f"perturbation_{backbone}",
        f"ECE (%) of {name} after a share of the edges is added or removed",
        tuple(f"{100 * rate:.0f}%" for rate in RATES),
        tuple(rows),
        corner="dataset, change, method",
        note=(
            f"{FLOORS} Means ± standard deviations over {n_seeds} seeds. Columns: share of edges "
            "changed. The trained classifier is applied to the changed graph, then ts and hots are "
            "fitted again. hots estimates homophily by agreement with in-neighbours. The paper "
            "does not distinguish additions from removals, so both have the same published values."
        ),
    )


def _is(entry: PerturbationEntry, *wanted: str | float) -> bool:
    return (entry["dataset"], entry["operation"], entry["method"], entry["rate"]) == wanted


def _perturbed(entries: Sequence[PerturbationEntry], theirs: float) -> Entry:
    ece = 100 * np.array([entry["metrics"]["ece"] for entry in entries])
    floor = 100 * np.array([entry["metrics"]["ece_floor"] for entry in entries])
    if not ece.size:
        return Entry(published=theirs)
    return Entry(float(ece.mean()), spread_of_seeds(ece), float(floor.mean()), theirs)
