"""Every table that the records of a folder can fill."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gnncal.data.errors import InputError
from gnncal_lab.bench.diagnosis import read_diagnosis
from gnncal_lab.bench.perturbation import read_perturbation
from gnncal_lab.bench.plan import PROTOCOLS, Protocol
from gnncal_lab.bench.results import EVERYTHING, Selection, read_results
from gnncal_lab.bench.tables import comparisons
from gnncal_lab.bench.tables.graphs import perturbation, structure
from gnncal_lab.bench.tables.model import ResultTable
from gnncal_lab.bench.tables.paper import paper_tables
from gnncal_lab.bench.tables.treatments import treatments

TESTED = ("ece", "nll")  # the metrics of paired tests and ranks


def all_tables(
    folder: Path, reference: str, wanted: Selection = EVERYTHING
) -> Iterator[tuple[Protocol | None, ResultTable]]:
    """Yield the paper's tables and ours, each with its protocol, or None if it covers both."""
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
        if protocol == "converged":  # the calibrators that follow a treatment are run once
            tables.append(treatments(found))
        yield from ((protocol, table) for table in tables if table.rows)
    if len(results) == len(PROTOCOLS):
        yield from ((None, comparisons.protocols(results, metric)) for metric in TESTED)
    if wanted != EVERYTHING:
        return
    for backbone, diagnosis in read_diagnosis(folder).items():
        yield None, structure(backbone, diagnosis)
    for (backbone, protocol), entries in read_perturbation(folder).items():
        yield protocol, perturbation(backbone, entries)
