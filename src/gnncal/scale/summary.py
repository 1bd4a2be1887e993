"""What a run at scale leaves behind next to the probabilities: metrics, bins, costs, bad rows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from gnncal.data.arrays import FloatArray
from gnncal.data.constraints import FLAG, NONE, TEXT, Constraint, integer
from gnncal.data.constraints import number as number_within
from gnncal.data.errors import InputError, short_repr, to_jsonable
from gnncal.data.tables import Cell, Table, Tabular, number, text
from gnncal.files.output import check_finished
from gnncal.metrics.binning import Cells, ReliabilityBins
from gnncal.metrics.evaluation import Difference
from gnncal.metrics.table import FLOOR_SUFFIX, METRICS

FORMAT = 1
FILE = "metrics.json"
LARGEST_FILE = 1 << 26  # bytes; the names of a million classes fit
MOST_CELLS = 1000  # bins or blocks
ROUNDING = 1e-6  # by which a share that is a sum of many numbers may leave its range
LARGEST_NUMBER = 1e30  # nothing that is measured gets near it, and products of two are finite
SHOWN = ("accuracy", "ece", "degree_ece", "nll", "brier")
CellsT = TypeVar("CellsT", bound=Cells)


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
    """The result of a run at scale: what was read, what was fitted, and metrics on the test nodes.

    It prints as a table.

    Attributes
    ----------
    method : str
        Name of the calibrator.
    engine : str
        ``"duckdb"`` or ``"spark"``.
    n_nodes, n_edges, n_classes : int
        Size of the graph.
    n_calibration_nodes, n_test_nodes : int
        Number of nodes of the splits.
    is_undirected : bool or None
        Whether every edge is listed in both directions; None where the method did not ask.
    class_names : list of str or None
        A name for each class.
    before : Measured or None
        Metrics of softmax(logits); None without labelled test nodes.
    after : Measured or None
        Metrics of the calibrated probabilities.
    differences : mapping of str to Difference
        Mean of after - before of ``nll`` and ``brier``, with intervals.
    learned : mapping of str to Any
        The fitted numbers by name.
    skipped : sequence of mapping
        Rows that were left out, by table and reason.
    notes : sequence of str
        Further remarks about the run.
    seconds : mapping of str to float
        Time of each stage.
    prediction_change_rate : float
        Share of the labelled test nodes whose predicted class changed.

    Examples
    --------
    :func:`gnncal.scale.calibrate` returns one and writes it to its folder:

    >>> from gnncal.scale import calibrate
    >>> print(calibrate("nodes.parquet", "edges.parquet", "out"))  # doctest: +SKIP

    """

    method: str
    engine: str
    n_nodes: int
    n_edges: int
    n_classes: int
    n_calibration_nodes: int
    n_test_nodes: int
    is_undirected: bool | None
    class_names: list[str] | None
    before: Measured | None
    after: Measured | None
    differences: Mapping[str, Difference]
    learned: Mapping[str, Any]
    skipped: Sequence[Mapping[str, Any]]
    notes: Sequence[str]
    seconds: Mapping[str, float]
    prediction_change_rate: float

    def write(self, folder: Path) -> None:
        """Write ``metrics.json`` into a folder.

        Parameters
        ----------
        folder : Path
            The folder.

        """
        values = {"format": FORMAT, **to_jsonable(asdict(self))}
        (folder / FILE).write_text(json.dumps(values, indent=2, allow_nan=False) + "\n")

    def _tables(self) -> Sequence[Table]:
        facts = {
            "nodes": f"{self.n_nodes:,}",
            "edges": f"{self.n_edges:,}",
            "classes": f"{self.n_classes:,}",
            "calibration nodes": f"{self.n_calibration_nodes:,}",
            "seconds": f"{sum(self.seconds.values()):,.1f}",
        }
        if self.prediction_change_rate > 0:
            facts["changed predictions %"] = f"{100 * self.prediction_change_rate:.2f}"
        rows = [[text(name), Cell(value, value)] for name, value in facts.items()]
        run = Table(f"{self.method} on {self.engine}", ("of the run", "value"), rows)
        return [run] if self.before is None else [self._metrics(), run]

    def _metrics(self) -> Table:
        assert self.before is not None
        assert self.after is not None
        rows = []
        for name in SHOWN:
            metric = METRICS[name]
            sides = [getattr(side, name) for side in (self.before, self.after)]
            rows.append([text(name, metric.heading), *(Cell(v, metric.shown(v)) for v in sides)])
            if metric.floor is not None:
                key = f"{name}{FLOOR_SUFFIX}"
                floors = [getattr(side, key) for side in (self.before, self.after)]
                rows.append(
                    [
                        text(key, "  if perfectly calibrated"),
                        *(Cell(v, metric.shown(v)) for v in floors),
                    ]
                )
        return Table(f"{self.n_test_nodes:,} test nodes", ("metric", "before", "after"), rows)


def _list_of(entry: Constraint) -> Constraint:
    return Constraint(
        f"a list, each entry {entry.expected}",
        lambda value: isinstance(value, list) and all(map(entry.holds, value)),
    )


def _object_of(entry: Constraint) -> Constraint:
    return Constraint(
        f"an object, each entry {entry.expected}",
        lambda value: isinstance(value, dict) and all(map(entry.holds, value.values())),
    )


COUNT = integer(at_least=0, at_most=2**63 - 1)
AMOUNT = number_within(at_least=0, at_most=LARGEST_NUMBER)
SHARE = number_within(at_least=-ROUNDING, at_most=1 + ROUNDING)
NUMBER = number_within(at_least=-LARGEST_NUMBER, at_most=LARGEST_NUMBER) | NONE
OBJECT = Constraint("an object", lambda value: isinstance(value, dict))
# What each entry of the file may be.
RUN = {
    **dict.fromkeys(("method", "engine"), TEXT),
    **dict.fromkeys(("n_nodes", "n_edges", "n_classes"), COUNT),
    **dict.fromkeys(("n_calibration_nodes", "n_test_nodes"), COUNT),
    "is_undirected": FLAG | NONE,
    "class_names": _list_of(TEXT) | NONE,
    **dict.fromkeys(("before", "after"), OBJECT | NONE),
    **dict.fromkeys(("differences", "learned"), OBJECT),
    "skipped": _list_of(OBJECT),
    "notes": _list_of(TEXT),
    "seconds": _object_of(AMOUNT),
    "prediction_change_rate": SHARE,
}
SIDE = {
    "n_nodes": COUNT,
    **dict.fromkeys(("accuracy", "ece", "degree_ece"), SHARE),
    **dict.fromkeys(("ece_floor", "ece_floor_spread"), AMOUNT),
    **dict.fromkeys(("degree_ece_floor", "degree_ece_floor_spread"), AMOUNT),
    **dict.fromkeys(("nll", "brier"), AMOUNT | NONE),  # null where a loss is infinite
    **dict.fromkeys(("reliability", "degree_blocks"), OBJECT),
}
DIFFERENCE = dict.fromkeys(("mean", "low", "high"), NUMBER)


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
        If there is no such file, or it was written by something else.

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
    try:
        summary = _summary_of(_read_json(path))
        _check_consistency(summary)
    except InputError as error:
        raise InputError(f"{path} is not a summary of gnncal scale: {error}") from None
    differences = {name: _unbounded(difference) for name, difference in summary.differences.items()}
    return replace(summary, differences=differences)


def _read_json(path: Path) -> Any:
    """Return what the file holds, if it is JSON that a page can show."""
    with path.open("rb") as file:
        content = file.read(LARGEST_FILE + 1)
    if len(content) > LARGEST_FILE:
        raise InputError(f"it has more than {LARGEST_FILE:,} bytes.")
    try:
        values = json.loads(content)
        # Refuses NaN and nesting beyond measure; half a surrogate pair cannot be encoded.
        json.dumps(values, ensure_ascii=False, allow_nan=False).encode()
    except RecursionError:
        raise InputError("it is not JSON (too deep).") from None
    except ValueError as error:
        raise InputError(f"it is not JSON ({short_repr(str(error))}).") from None
    return values


def _summary_of(values: Any) -> ScaleSummary:
    """Return the summary of these values, each of which is checked."""
    if not isinstance(values, dict) or "format" not in values:
        raise InputError("it does not say which format it has.")
    if type(version := values["format"]) is not int or version != FORMAT:
        raise InputError(f"its format is {short_repr(version)}, not {FORMAT}; use another gnncal.")
    run = _checked(RUN, values, "")
    for name in ("before", "after"):
        if run[name] is not None:
            side = _checked(SIDE, run[name], f"{name}.")
            for part, kind in (("reliability", ReliabilityBins), ("degree_blocks", DegreeBlocks)):
                side[part] = _cells_of(kind, side[part], f"{name}.{part}.")
            run[name] = Measured(**side)
    run["differences"] = {
        name: Difference(**_checked(DIFFERENCE, each, f"differences.{name}."))
        for name, each in run["differences"].items()
    }
    return ScaleSummary(**run)


def _checked(table: Mapping[str, Constraint], values: Any, where: str) -> dict[str, Any]:
    """Return the entries of a table, numbers that are null as NaN; others are ignored."""
    OBJECT.check(where.removesuffix("."), values)
    for name, constraint in table.items():
        if name not in values:
            raise InputError(f"{where}{name} is missing.")
        constraint.check(f"{where}{name}", values[name])
    numbers = {n for n, each in table.items() if each is NUMBER or n in ("nll", "brier")}
    found = {n: values[n] for n in table}
    return found | {n: np.nan if found[n] is None else float(found[n]) for n in numbers}


def _cells_of(kind: type[CellsT], values: Any, where: str) -> CellsT:
    """Return bins or blocks, each of whose columns is a list in the file."""
    columns = [field.name for field in fields(kind)]
    table = {name: _list_of(COUNT if name == "count" else NUMBER) for name in columns}
    found = _checked(table, values, where)
    dtypes: dict[str, Any] = dict.fromkeys(columns, float) | {"count": np.int64}
    return kind(**{name: np.array(found[name], dtype=dtypes[name]) for name in columns})


def _check_consistency(summary: ScaleSummary) -> None:
    """Raise unless the parts of a summary, each of them right, belong together."""
    names, before, after = summary.class_names, summary.before, summary.after
    if names is not None and len(names) != summary.n_classes:
        raise InputError(f"there are {len(names)} class_names for {summary.n_classes} classes.")
    if before is None or after is None:
        if before is not after:
            raise InputError("it has metrics of one side only, before or after.")
        return
    for name, side in (("before", before), ("after", after)):
        _check_cells(f"{name}.reliability", side.reliability)
        _check_cells(f"{name}.degree_blocks", side.degree_blocks)
        if not side.n_nodes == summary.n_test_nodes == side.reliability.count.sum() > 0:
            raise InputError(
                f"{name} has {side.n_nodes} nodes and {side.reliability.count.sum()} in its bins; "
                f"expected the {summary.n_test_nodes} test nodes, at least one."
            )
    for part in ("reliability", "degree_blocks"):
        if len(getattr(before, part).count) != len(getattr(after, part).count):
            raise InputError(f"before.{part} and after.{part} have different lengths.")
    for name in ("nll", "brier"):
        difference = summary.differences.get(name)
        if difference is None or np.isnan(difference.mean) or difference.low > difference.high:
            raise InputError(f"differences.{name} is missing, or not a mean with its interval.")


def _check_cells(name: str, cells: Cells) -> None:
    """Raise unless each column has one entry for each bin or block, within its range."""
    columns = {key: value for key, value in vars(cells).items() if isinstance(value, np.ndarray)}
    lengths = {len(column) for column in columns.values()}
    if len(lengths) > 1 or not 0 < len(cells.count) <= MOST_CELLS:
        raise InputError(f"{name} has lists of {sorted(lengths)} entries; expected equally many.")
    if cells.count.min() < 0:
        raise InputError(f"{name}.count has negative entries.")
    filled = cells.count > 0
    for key, column in columns.items():
        is_share = key in ("confidence", "accuracy", "lower", "upper")
        known = column[filled] if key in ("confidence", "accuracy") else column
        high = 1 + ROUNDING if is_share else np.inf
        if not ((known >= -ROUNDING) & (known <= high)).all():
            kind = "shares" if is_share else "numbers that are not negative"
            raise InputError(f"{name}.{key} has entries that are not {kind}.")


def _unbounded(difference: Difference) -> Difference:
    """Return an interval whose ends are infinite where the file, like all JSON, has none."""
    low = -np.inf if np.isnan(difference.low) else difference.low
    return replace(
        difference, low=low, high=np.inf if np.isnan(difference.high) else difference.high
    )
