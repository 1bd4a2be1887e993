"""The contract of a method over tables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from gnncal.calibrators.base import Calibrator
from gnncal.calibrators.registry import name_of
from gnncal.data.arrays import FloatArray
from gnncal.data.errors import InputError
from gnncal.data.nodes import Nodes
from gnncal.scale import edges as passes
from gnncal.scale.blocks import blocks_of_values
from gnncal.scale.nodes import names, probability_at, shifted_logits

C = TypeVar("C", bound=Calibrator)
Rows = dict[str, FloatArray]
OUTCOME = ("id", "prediction", "confidence_after", "temperature")


class Tables(Protocol):
    """The nodes and edges of a run, and where results of a pass are kept."""

    nodes: Any  # id, label, split, z0..zK-1, top, mass, prediction, entropy
    edges: Any  # src, dst
    n_classes: int
    n_nodes: int

    @property
    def memory(self) -> int | None:
        """Bytes that tables may take; None if the engine divides its work by itself."""

    @property
    def is_undirected(self) -> bool | None:
        """Whether every edge is listed in both directions; None before a pass that asked."""

    def keep(self, name: str, expression: Any) -> Any:
        """Compute a table and keep it until the run ends."""

    def keep_computed(
        self, name: str, expression: Any, compute: Callable[[Rows], Rows], results: list[str]
    ) -> Any:
        """Keep what a function makes of the columns of some rows, beside their ids."""

    def drop(self, name: str) -> None:
        """Give back the disk of a kept table."""

    def count(self, neighbours: Any) -> None:
        """Remember what a first pass tells about all edges: ``listed`` and perhaps ``turned``."""


class ScaleMethod(ABC, Generic[C]):
    """A method over tables: a temperature for each node, and perhaps more."""

    covariates: tuple[str, ...] = ()  # columns that a fit reads beside the logits
    averaged: tuple[str, ...] = ()  # further temperatures that the confidence is a mean over

    def __init__(self, calibrator: C) -> None:
        self.calibrator = calibrator
        self.check()

    def check(self) -> None:
        """Raise an InputError where the calibrator has a parameter that only works in memory."""
        if getattr(self.calibrator, "protocol", "converged") == "paper" and not self._is_fitted:
            raise InputError(
                f"{name_of(self.calibrator)} with protocol='paper' is fitted in memory only; use "
                "protocol='converged', or fit it with gnncal calibrate and pass --calibrator."
            )

    @property
    def _is_fitted(self) -> bool:
        return hasattr(self.calibrator, "fit_report_")

    def describe(self, tables: Tables) -> Any:
        """Return id, ``in_degree`` and the covariates of every node; null without neighbours."""
        ends = passes.both_ends(tables.edges, tables.nodes, both=False)
        rows = passes.joined(ends, tables.nodes.select("id"))
        counted = rows.group_by("node").aggregate(**passes.degrees(rows))
        neighbours = tables.keep("neighbours", counted)
        tables.count(neighbours)
        joined = join_by_node(tables.nodes, neighbours)
        return joined.select("id", in_degree=joined["in_degree"].fill_null(0))

    def calibration_rows(self, rows: Any) -> Any:
        """Return the rows of a fit with everything that :attr:`covariates` names."""
        return rows

    def with_neighbourhoods(self, nodes: Nodes, rows: Rows) -> Nodes:
        """Return the calibration nodes with what a fit needs to know of their neighbours."""
        return nodes

    @abstractmethod
    def temperature(self, table: Any) -> Any:
        """T of each node, from the fitted calibrator's parameters."""

    def temperatures(self, table: Any) -> dict[str, Any]:
        """Return the column ``temperature``, and those of further temperatures."""
        return {"temperature": self.temperature(table)}

    def finished(self, tables: Tables, scaled: Any) -> Any:
        """Return prediction, confidence and terms of the metrics of every node."""
        return scaled

    def class_probabilities(self, tables: Tables, finished: Any) -> Any:
        """Return every node with p0..pK-1, beside prediction, confidence and temperature."""
        classes = range(tables.n_classes)
        logits = tables.nodes.select("id", "top", *names("z", tables.n_classes))
        table = logits.join(finished.select(*OUTCOME), "id")
        shifted = shifted_logits(table, classes)
        p = [(s / table["temperature"]).exp() * table["confidence_after"] for s in shifted]
        return table.select(*OUTCOME, **dict(zip(names("p", tables.n_classes), p, strict=True)))


def join_by_node(rows: Any, sums: Any) -> Any:
    """Return all rows of nodes with the columns of ``sums``; null where it lacks a node."""
    return rows.left_join(sums, rows["id"] == sums["node"]).drop("node")


def union(tables: list[Any]) -> Any:
    """Return the rows of several tables with the same columns."""
    import ibis

    return ibis.union(*tables) if len(tables) > 1 else tables[0]


def value_bytes(tables: Tables) -> int:
    """Return the bytes of one logit, and so of one mean of probabilities."""
    return 4 if tables.nodes.schema()["z0"].is_float32() else 8


def mean_support(
    tables: Tables, *, both: bool, loops: bool, only_inward: bool | None, direction: bool
) -> Any:
    """Find the mean probability that the other ends give to each node's predicted class."""
    nodes = tables.nodes
    blocks = blocks_of_values(tables.n_nodes, tables.n_classes, value_bytes(tables), tables.memory)
    ends = passes.both_ends(tables.edges, nodes, both=both, loops=loops)
    if not blocks.is_one:
        ends = tables.keep("ends", ends)
    parts = []
    for i, classes in enumerate(blocks.classes):
        part = ends if blocks.is_one else passes.of_classes(ends, classes)
        zs = [f"z{k}" for k in classes]
        rows = passes.joined(part, nodes.select("id", "top", "mass", *zs))
        chosen = None if only_inward is None else rows["inward"] == int(only_inward)
        sums = passes.degrees(rows)
        sums["support"] = probability_at(rows, rows["own"], classes).mean(where=chosen)
        if direction:
            sums["turned"] = passes.turned(rows)
        parts.append(tables.keep(f"neighbours{i}", rows.group_by("node").aggregate(**sums)))
    if not blocks.is_one:
        tables.drop("ends")
    together = union(parts)
    tables.count(together)
    return together
