"""RBS over tables: one pass over the edges for the ratio of every node."""

from __future__ import annotations

from typing import Any

from gnncal.calibrators.ratio_binned import DIGITS, RatioBinnedScaling, same_class_ratio
from gnncal.core.errors import InputError
from gnncal.nodes import Nodes
from gnncal.scale import edges as passes
from gnncal.scale.methods.base import Rows, ScaleMethod, Tables, beside
from gnncal.scale.nodes import at_class, exact, names, probabilities


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
        """Pass over the edges once, with both ends unless the graph is undirected."""
        K, nodes, both = tables.n_classes, tables.nodes, not tables.is_undirected
        ps = names("p", K)
        found = tables.keep(
            "neighbours",
            passes.sum_at_own_class(
                passes.both_ends(tables.edges, both=both),
                nodes.select("id", **dict(zip(ps, probabilities(nodes, K), strict=True))),
                ps,
                nodes,
                name="support",
                only_inward=None,
            ),
        )
        joined = beside(nodes, found)
        inward = joined["inward" if both else "rows"].fill_null(0)
        ratio = (joined["support"] / joined["rows"]).fill_null(1.0)
        return joined.mutate(in_degree=inward, ratio=ratio).drop(*found.columns[1:])

    def with_neighbourhoods(self, nodes: Nodes, rows: Rows) -> Nodes:
        """Add r, 1 without neighbours."""
        return nodes.with_result(rows["ratio"], same_class_ratio, False)

    def temperature(self, table: Any) -> Any:
        """Return T_b of the bin that r lies in."""
        temperatures = [exact(T) for T in self.calibrator.bin_temperatures_]
        B = len(temperatures)
        edge = (table["ratio"] * B).round(DIGITS).ceil().cast("int64")
        return at_class((edge - 1).clip(0, B - 1), temperatures)
