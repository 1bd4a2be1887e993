"""RBS over tables: one pass over the edges for the ratio of every node."""

from __future__ import annotations

from typing import Any

from gnncal.calibrators.ratio_binned import RatioBinnedScaling, ratio_of
from gnncal.core.errors import InputError
from gnncal.formulas.temperatures import ratio_bin
from gnncal.nodes import Nodes
from gnncal.scale.methods.base import Rows, ScaleMethod, Tables, join_by_node, mean_support
from gnncal.scale.nodes import at_class, exact


class ScaleRatioBinned(ScaleMethod[RatioBinnedScaling]):
    """RBS: senders and receivers both count, self-loops too."""

    covariates = ("ratio",)

    def check(self) -> None:
        """Refuse to merge duplicate edges, which would need all edges sorted."""
        super().check()
        if self.calibrator.merge_duplicate_edges:
            raise InputError(
                "rbs with merge_duplicate_edges=True works in memory only; remove duplicate edges "
                "from the input, or leave the parameter out."
            )

    def describe(self, tables: Tables) -> Any:
        """Pass over the edges once, with both ends.

        If every edge is listed in both directions, both ends give the same mean as one.
        """
        support = mean_support(tables, both=True, loops=True, only_inward=None, direction=True)
        joined = join_by_node(tables.nodes, support)
        return joined.select(
            "id",
            in_degree=joined["in_degree"].fill_null(0),
            ratio=joined["support"].fill_null(1.0),
        )

    def with_neighbourhoods(self, nodes: Nodes, rows: Rows) -> Nodes:
        """Add r, 1 without neighbours."""
        return nodes.with_result(rows["ratio"], ratio_of, False)

    def temperature(self, table: Any) -> Any:
        """Return T_b of the bin that r lies in."""
        temperatures = {b: exact(T) for b, T in enumerate(self.calibrator.bin_temperatures_)}
        bins = ratio_bin(table["ratio"], len(temperatures)).cast("int64")
        return at_class(bins, temperatures)
