"""The structural law over tables: a pass for means over neighbours, a second for two hops."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnncal.calibrators.structural import Structural
from gnncal.formulas.structural import (
    COVARIATES,
    Neighbourhood,
    centred,
    covariates,
    describe_neighbourhoods,
    limited,
    log_temperature,
)
from gnncal.nodes import Nodes
from gnncal.scale import edges as passes
from gnncal.scale.blocks import blocks_of_sums, within
from gnncal.scale.methods.base import Rows, ScaleMethod, Tables, beside, union, value_bytes
from gnncal.scale.nodes import at_class, probabilities


class ScaleStructural(ScaleMethod[Structural]):
    """The structural law: six numbers about the neighbourhood, two of which need a second pass."""

    covariates = ("entropy", "prediction", *COVARIATES)

    def describe(self, tables: Tables) -> Any:
        """Add means over the neighbours, then the support two hops away from these means.

        Where the sums fit in memory, there are two passes over the edges. Otherwise the first one
        keeps the ends sorted, and the passes for each block of classes read these.
        """
        nodes = tables.nodes
        ends = passes.both_ends(tables.edges, nodes, both=True)
        blocks = blocks_of_sums(
            tables.n_nodes, tables.n_classes, value_bytes(tables), tables.memory
        )
        if not blocks.is_one:
            ends = tables.keep("ends", passes.clustered(ends))
        every = blocks.classes[0] if blocks.is_one else range(0)
        found = tables.keep("neighbours", self._first_pass(ends, nodes, every))
        tables.count(found)
        if tables.is_undirected:  # then one end of each edge gives the same means
            ends = ends.filter(ends["inward"] == 1)
        supports = []
        for i, classes in enumerate(blocks.classes):
            means = found
            if not blocks.is_one:
                means = self._means(tables, ends, classes, blocks.parts, f"means{i}")
            supports += self._supports(tables, ends, means, classes, f"support{i}")
            if not blocks.is_one:
                for part in range(blocks.parts):
                    tables.drop(f"means{i}_{part}")
        if not blocks.is_one:
            tables.drop("ends")
        return self._covariates(nodes, found, union(supports), tables.n_classes)

    def _first_pass(self, ends: Any, nodes: Any, classes: range) -> Any:
        """Degrees, mean entropy and confidence, and the mean probabilities of some classes."""
        values = nodes.select(
            "id",
            other_entropy=nodes["entropy"],
            other_confidence=1.0 / nodes["mass"],
            **_probabilities(nodes, classes),
        )
        rows = passes.joined(ends, values)
        return rows.group_by("node").aggregate(
            **passes.degrees(rows),
            turned=passes.turned(rows),
            own=rows["own"].max(),
            mean_entropy=rows["other_entropy"].mean(),
            mean_confidence=rows["other_confidence"].mean(),
            **_means(rows, classes),
        )

    def _means(self, tables: Tables, ends: Any, classes: range, parts: int, name: str) -> Any:
        """Keep the mean probabilities of a block of classes, for a part of the nodes at a time."""
        values = tables.nodes.select("id", **_probabilities(tables.nodes, classes))
        kept = []
        for part in range(parts):
            rows = passes.joined(passes.part_of(ends, part, parts), values)
            sums = rows.group_by("node").aggregate(own=rows["own"].max(), **_means(rows, classes))
            kept.append(tables.keep(f"{name}_{part}", sums))
        return union(kept)

    def _supports(
        self, tables: Tables, ends: Any, means: Any, classes: range, name: str
    ) -> list[Any]:
        """Keep the support one and two hops away of the nodes that are predicted these classes."""
        means = means.filter(means["own"].notnull())  # an end that is not a node has sums too
        kept = []
        is_all = len(classes) == tables.n_classes
        for i, few in enumerate([classes] if is_all else within(classes)):
            some = ends if is_all else passes.of_classes(ends, few)
            columns = {f"mean{k}": means[f"mean{k}"] for k in few}
            rows = passes.joined(some, means.select(id=means["node"], **columns))
            two_hops = rows.group_by("node").aggregate(reached=_at_own_class(rows, few).mean())
            own = means.filter((means["own"] >= few.start) & (means["own"] < few.stop))
            own = own.select(id=own["node"], support=_at_own_class(own, few))
            kept.append(tables.keep(f"{name}_{i}", beside(own, two_hops)))
        return kept

    def _covariates(self, nodes: Any, found: Any, supports: Any, n_classes: int) -> Any:
        """Put the six numbers beside the id of every node."""
        summaries = found.select(
            "node", "in_degree", "out_degree", "mean_entropy", "mean_confidence"
        )
        joined = beside(beside(nodes.select("id", "mass"), summaries), supports.rename(node="id"))
        in_degree, out_degree = (joined[name].fill_null(0) for name in ("in_degree", "out_degree"))
        s = covariates(
            support=joined["support"],
            two_hop_support=joined["reached"],
            neighbour_entropy=joined["mean_entropy"],
            confidence=1.0 / joined["mass"],
            neighbour_confidence=joined["mean_confidence"],
            in_degree=in_degree,
            out_degree=out_degree,
            n_classes=n_classes,
        )
        named = dict(zip(COVARIATES, s.parts, strict=True))
        return joined.select("id", in_degree=in_degree, **named)

    def with_neighbourhoods(self, nodes: Nodes, rows: Rows) -> Nodes:
        """Add the neighbourhoods of the calibration rows."""
        s = np.stack([rows[name] for name in COVARIATES], axis=1)
        predictions = rows["prediction"].astype(np.int64)
        no_means = np.empty((len(predictions), 0))
        neighbourhood = Neighbourhood(predictions, rows["entropy"], s, no_means)
        return nodes.with_result(neighbourhood, describe_neighbourhoods)

    def temperature(self, table: Any) -> Any:
        """exp(ln[T_c (1 - e) + T_u e] + w s + o)."""
        from gnncal.backends.ibis import Columns

        fitted = self.calibrator
        s = centred(Columns([table[name] for name in COVARIATES]), fitted.centre_)
        log_T = log_temperature(
            table["entropy"],
            s,
            table["prediction"],
            fitted.certain_temperature_,
            fitted.uncertain_temperature_,
            fitted.weights_,
            fitted.class_offsets_,
        )
        return limited(log_T).exp()


def _probabilities(nodes: Any, classes: range) -> dict[str, Any]:
    """Probabilities in the precision of the logits, as in memory."""
    kind = nodes.schema()["z0"]
    return {
        f"p{k}": p.cast(kind) for k, p in zip(classes, probabilities(nodes, classes), strict=True)
    }


def _means(rows: Any, classes: range) -> dict[str, Any]:
    """Means of the other ends' probabilities, in the same precision; sums are float64."""
    return {f"mean{k}": rows[f"p{k}"].mean().cast(rows.schema()[f"p{k}"]) for k in classes}


def _at_own_class(rows: Any, classes: range) -> Any:
    """The mean that belongs to the node's own predicted class."""
    return at_class(rows["own"], {k: rows[f"mean{k}"] for k in classes}).cast("float64")
