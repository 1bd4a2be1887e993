"""What a run at scale leaves behind next to the probabilities: metrics, bins, costs, bad rows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from gnncal.data.arrays import FloatArray
from gnncal.data.errors import InputError, to_jsonable
from gnncal.data.tables import Cell, Table, Tabular, number, text
from gnncal.files.output import check_finished, is_sealed, seal
from gnncal.metrics.binning import Cells, ReliabilityBins
from gnncal.metrics.evaluation import Difference
from gnncal.metrics.table import FLOOR_SUFFIX, METRICS

FORMAT = 1
FILE = "metrics.json"
LARGEST_FILE = 1 << 26  # bytes; the names of a million classes fit
SHOWN = ("accuracy", "ece", "degree_ece", "nll", "brier")


@dataclass(frozen=True, repr=False)
class DegreeBlocks(Cells):
    """Cells that are blocks of equally many nodes of neighbouring in-degree."""

    lowest: FloatArray
    highest: FloatArray

    def _names(self) -> dict[str, list[Cell]]:
        return {
            "block": [Cell(i, str(i + 1)) for i in range(len(self.count))],
            "lowest": [number(float(value), 0) for value in self.lowest],
            "highest": [number(float(value), 0) for value in self.highest],
        }


@dataclass(frozen=True)
class Measured:
    """The metrics of one set of probabilities on the test nodes."""

    n_nodes: int
    accuracy: float
    ece: float
    ece_floor: float
    ece_floor_spread: float
    degree_ece: float
    degree_ece_floor: float
    degree_ece_floor_spread: float
    nll: float
    brier: float
    reliability: ReliabilityBins
    degree_blocks: DegreeBlocks


@dataclass(frozen=True, repr=False)
class ScaleSummary(Tabular):
    """What a run at scale read, what it fitted, and metrics on the test nodes; prints as a table."""

    method: str
    engine: str
    n_nodes: int
    n_edges: int
    n_classes: int
    n_calibration_nodes: int
    n_test_nodes: int
    is_undirected: bool | None  # None where the method did not ask
    class_names: list[str] | None
    before: Measured | None  # of softmax(logits); None without labelled test nodes
    after: Measured | None
    differences: Mapping[str, Difference]  # after - before of nll and brier
    learned: Mapping[str, Any]  # the fitted numbers by name
    skipped: Sequence[Mapping[str, Any]]  # rows that were left out, by table and reason
    notes: Sequence[str]
    seconds: Mapping[str, float]  # of each stage
    prediction_change_rate: float  # share of the labelled test nodes

    def _tables(self) -> Sequence[Table]:
        names = ("nodes", "edges", "classes", "calibration nodes")
        numbers = (self.n_nodes, self.n_edges, self.n_classes, self.n_calibration_nodes)
        facts = {name: f"{value:,}" for name, value in zip(names, numbers, strict=True)}
        facts["seconds"] = f"{sum(self.seconds.values()):,.1f}"
        if self.prediction_change_rate > 0:
            facts["changed predictions %"] = f"{100 * self.prediction_change_rate:.2f}"
        rows = [[text(name), Cell(value, value)] for name, value in facts.items()]
        run = Table(f"{self.method} on {self.engine}", ("of the run", "value"), rows)
        return [run] if self.before is None else [self._metrics(), run]

    def _metrics(self) -> Table:
        rows = []
        for name in SHOWN:
            metric = METRICS[name]
            names = {name: metric.heading}
            if metric.floor is not None:
                names[f"{name}{FLOOR_SUFFIX}"] = "  if perfectly calibrated"
            for key, heading in names.items():
                sides = [getattr(side, key) for side in (self.before, self.after)]
                rows.append([text(key, heading), *(Cell(v, metric.shown(v)) for v in sides)])
        return Table(f"{self.n_test_nodes:,} test nodes", ("metric", "before", "after"), rows)


def write_summary(summary: ScaleSummary, folder: Path) -> None:
    """Write ``metrics.json``, which ends with its own checksum."""
    values = {"format": FORMAT, **to_jsonable(vars(summary))}
    content = json.dumps(values, indent=2, allow_nan=False).encode()
    (folder / FILE).write_bytes(seal(content, "json"))


def is_summary(path: str | Path) -> bool:
    """Tell whether a path is a result folder of ``gnncal scale``, or its ``metrics.json``."""
    place = Path(path)
    return (place / FILE).is_file() if place.is_dir() else place.name == FILE


def read_summary(folder: str | Path) -> ScaleSummary:
    """Read the summary of a result folder.

    Parameters
    ----------
    folder : str or Path
        The folder that ``gnncal scale`` wrote, or its ``metrics.json``.

    Returns
    -------
    ScaleSummary
        The summary, with bins and blocks as arrays.

    Raises
    ------
    InputError
        If there is no such file, or it was changed or written by something else.

    Examples
    --------
    >>> import gnncal
    >>> from gnncal.scale import read_summary
    >>> try:
    ...     read_summary("nowhere")
    ... except gnncal.InputError as error:
    ...     print(error)
    there is no file nowhere; pass a folder of gnncal scale.

    """
    path = Path(folder)
    path = path / FILE if path.is_dir() else path
    if not path.is_file():
        raise InputError(f"there is no file {path}; pass a folder of gnncal scale.")
    check_finished(path)
    with path.open("rb") as file:
        content = file.read(LARGEST_FILE + 1)
    try:
        # What the checksum belongs to was written by `write_summary`, value by value.
        if len(content) > LARGEST_FILE or not is_sealed(content):
            raise ValueError("its checksum is missing or wrong")
        values = json.loads(content)
        if values["format"] != FORMAT:
            raise ValueError(f"its format is not {FORMAT}")
        return _summary_of(values)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise InputError(
            f"{path} is not a summary of gnncal scale, or was changed ({error}); run it again."
        ) from error


def _summary_of(values: dict[str, Any]) -> ScaleSummary:
    run = {field.name: values[field.name] for field in fields(ScaleSummary)}
    for name in ("before", "after"):
        if (side := run[name]) is not None:
            side["reliability"] = _cells(ReliabilityBins, side["reliability"])
            side["degree_blocks"] = _cells(DegreeBlocks, side["degree_blocks"])
            run[name] = Measured(**side)
    run["differences"] = {
        name: Difference(
            each["mean"],  # JSON has no infinite numbers
            -np.inf if each["low"] is None else each["low"],
            np.inf if each["high"] is None else each["high"],
        )
        for name, each in run["differences"].items()
    }
    return ScaleSummary(**run)


def _cells(kind: type[Any], columns: dict[str, Any]) -> Any:
    """Return bins or blocks; null, which is None here, becomes NaN."""
    dtypes = {name: np.int64 if name == "count" else np.float64 for name in columns}
    return kind(**{name: np.array(column, dtypes[name]) for name, column in columns.items()})
