"""The contract of a method over tables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import log
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from gnncal.calibrators.base import Calibrator
from gnncal.calibrators.catalogue import name_of
from gnncal.core.arrays import FloatArray
from gnncal.core.errors import InputError
from gnncal.nodes import Nodes
from gnncal.scale import edges as passes

C = TypeVar("C", bound=Calibrator)
Rows = dict[str, FloatArray]


class Tables(Protocol):
    """The nodes and edges of a run, and where results of a pass are kept."""

    nodes: Any  # id, label, split, z0..zK-1, top, mass, prediction, entropy
    edges: Any  # src, dst
    n_classes: int

    @property
    def is_undirected(self) -> bool:
        """Whether every edge is listed in both directions equally often."""

    def keep(self, name: str, expression: Any) -> Any:
        """Compute a table and keep it until the run ends."""


class ScaleMethod(ABC, Generic[C]):
    """A temperature method over tables."""

    covariates: ClassVar[tuple[str, ...]] = ()  # columns that a fit reads beside the logits

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
        """The nodes' table with ``in_degree`` and the covariates; null without neighbours."""
        ends = passes.both_ends(tables.edges, both=False)
        found = tables.keep("neighbours", passes.count_neighbours(ends, tables.nodes))
        joined = beside(tables.nodes, found)
        return joined.mutate(in_degree=joined["rows"].fill_null(0)).drop("rows", "loops")

    def with_neighbourhoods(self, nodes: Nodes, rows: Rows) -> Nodes:
        """Return the calibration nodes with what a fit needs to know of their neighbours."""
        return nodes

    @abstractmethod
    def temperature(self, table: Any) -> Any:
        """T of each node, from the fitted calibrator's parameters."""


def concentration(table: Any, n_classes: int, minimum: float = 0.0) -> Any:
    """sqrt(2 K ln K (1 - e))."""
    import ibis

    certainty = ibis.greatest(1.0 - table["entropy"], minimum)
    return (certainty * (2.0 * n_classes * log(n_classes))).sqrt()


def beside(nodes: Any, found: Any) -> Any:
    """Return every node, with what a pass found; null where it found nothing."""
    return nodes.left_join(found, nodes["id"] == found["node"]).drop("node")
