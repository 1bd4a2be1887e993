"""Every table that the records of a folder can fill."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from gnncal.bench import comparisons, paper
from gnncal.bench.diagnosis import read_diagnosis, structural_correlations
from gnncal.bench.perturbation import OPERATIONS, RATES, read_perturbation
from gnncal.bench.plan import PROTOCOLS, Protocol
from gnncal.bench.results import EVERYTHING, Selection, read_results
from gnncal.bench.structure import STATISTICS
from gnncal.bench.summary import spread_of_runs
from gnncal.bench.table import FLOORS, NAN, Entry, ResultTable, Row
from gnncal.bench.tables import paper_tables
from gnncal.core.errors import InputError

TESTED = ("ece", "nll")
PAPERS_BACKBONE = "gcn"  # of its structural statistics and perturbation


def all_tables(
    folder: Path, reference: str, wanted: Selection = EVERYTHING
) -> Iterator[tuple[Protocol | None, ResultTable]]:
    """The paper's tables and ours, each with the protocol it is about, if with one.

    Structure and perturbation are told of everything, not of a selection.
    """
    results = read_results(folder, wanted)
    methods = dict.fromkeys(method for found in results.values() for method in found.methods)
    if reference not in methods:
        raise InputError(
            f"the reference {reference!r} has no records; choose among {', '.join(methods)}."
        )
    for protocol, found in results.items():
        tables = [*paper_tables(found), comparisons.overview(found)]
        for metric in TESTED:
            tables.append(comparisons.by_dataset(found, metric))
            if reference in found.methods:
                tables.append(comparisons.against_reference(found, metric, reference))
            tables.append(comparisons.ranks(found, metric))
        tables.append(comparisons.reproduction(found))
        yield from ((protocol, table) for table in tables if table.rows)
    if len(results) == len(PROTOCOLS):
        yield from ((None, comparisons.protocols(results, metric)) for metric in TESTED)
    if wanted != EVERYTHING:
        return
    for backbone, diagnosis in read_diagnosis(folder).items():
        yield None, structure(backbone, diagnosis)
    for (backbone, protocol), entries in read_perturbation(folder).items():
        yield protocol, perturbation(backbone, entries)


def structure(backbone: str, diagnosis: dict[str, dict[str, Any]]) -> ResultTable:
    """Partial correlations with correctness."""
    figures = paper.summary("structure") if backbone == PAPERS_BACKBONE else {}
    ours = structural_correlations(diagnosis)
    columns = ("pooled", "macro")
    rows = [
        Row(
            name,
            tuple(
                Entry(value, paper=figures.get((name, column), NAN))
                for value, column in zip(ours[name], columns, strict=True)
            ),
        )
        for name in STATISTICS
    ]
    seeds = max(len(entry["moments"]) for entry in diagnosis.values())
    name = paper.BACKBONES.get(backbone, backbone)
    return ResultTable(
        "structure" if backbone == PAPERS_BACKBONE else f"structure_{backbone}",
        f"Correlation of structural statistics with correctness of {name}, given confidence and "
        "degree",
        columns,
        tuple(rows),
        decimals=3,
        corner="statistic",
        note=(
            f"{len(diagnosis)} datasets, up to {seeds} seeds; the paper: 18, GCN, 5. A node that "
            "sends to none has homophily 0, as in the paper, or is left out."
        ),
    )


def perturbation(backbone: str, entries: list[dict[str, Any]]) -> ResultTable:
    """ECE when edges are added or removed."""
    figures = paper.summary("perturbation") if backbone == PAPERS_BACKBONE else {}
    names = {ours: theirs for theirs, ours in paper.METHODS.items()}
    rows = []
    for dataset in dict.fromkeys(entry["dataset"] for entry in entries):
        for operation in OPERATIONS:
            for method in ("hots", "ts"):
                line = f"{dataset} {names[method]}"
                cells = tuple(
                    _perturbed(
                        [e for e in entries if _is(e, dataset, operation, method, rate)],
                        figures.get((line, f"{100 * rate:.0f} %"), NAN),
                    )
                    for rate in RATES
                )
                rows.append(Row(f"{dataset}, {operation}, {method}", cells))
    return ResultTable(
        "perturbation" if backbone == PAPERS_BACKBONE else f"perturbation_{backbone}",
        f"ECE (%) of {paper.BACKBONES.get(backbone, backbone)} when a share of the edges is added "
        "or removed",
        tuple(f"{100 * rate:.0f} %" for rate in RATES),
        tuple(rows),
        corner="dataset, change, method",
        note=(
            f"{FLOORS} The frozen classifier sees the changed graph and both are fitted again, "
            f"hots with the agreement estimate; {len({entry['seed'] for entry in entries})} seeds. "
            "The paper does not tell additions from removals."
        ),
    )


def _is(entry: dict[str, Any], dataset: str, operation: str, method: str, rate: float) -> bool:
    wanted = {"dataset": dataset, "operation": operation, "method": method, "rate": rate}
    return all(entry[key] == value for key, value in wanted.items())


def _perturbed(entries: list[dict[str, Any]], figure: float) -> Entry:
    ece = 100 * np.array([entry["metrics"]["ece"] for entry in entries])
    floor = 100 * np.array([entry["metrics"]["ece_floor"] for entry in entries])
    if not ece.size:
        return Entry(paper=figure)
    return Entry(float(ece.mean()), spread_of_runs(ece), float(floor.mean()), figure)
