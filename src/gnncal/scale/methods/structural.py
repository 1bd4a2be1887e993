"""The structural methods over tables: a pass for means over neighbours, a second for two hops."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnncal.calibrators.structural import FREE, LAW, Structural
from gnncal.data.ibis_backend import Columns
from gnncal.data.nodes import Nodes
from gnncal.math.structural import (
    COVARIATES,
    Neighbourhood,
    centred,
    covariates,
    describe_neighbourhoods,
    floored,
    limited,
    log_temperature,
    log_temperature_variance,
    three_temperatures,
)
from gnncal.scale import edges as passes
from gnncal.scale.blocks import blocks_of_sums, within
from gnncal.scale.measures import terms
from gnncal.scale.methods.base import (
    OUTCOME,
    Rows,
    ScaleMethod,
    Tables,
    join_by_node,
    union,
    value_bytes,
)
from gnncal.scale.methods.free import TEMPERATURE, FreeScores, Means, join_means, of_few
from gnncal.scale.methods.remainder import shares_of_rest, with_divided_rest
from gnncal.scale.nodes import at_class, names, probabilities, total


class ScaleStructural(ScaleMethod[Structural]):
    """The structural law: six numbers about the neighbourhood, two of which need a second pass."""

    covariates: tuple[str, ...] = ("entropy", "prediction", *COVARIATES)
    means: list[Means]

    @property
    def needs_means(self) -> bool:
        """Whether the neighbours' mean probabilities are part of the method."""
        return self.calibrator.without is None

    def describe(self, tables: Tables) -> Any:
        """Add means over the neighbours, then the support two hops away from these means."""
        nodes = tables.nodes
        ends = passes.both_ends(tables.edges, nodes, both=True)
        blocks = blocks_of_sums(
            tables.n_nodes, tables.n_classes, value_bytes(tables), tables.memory
        )
        if not blocks.is_one:
            ends = tables.keep("ends", passes.clustered(ends))
        every = blocks.classes[0] if blocks.is_one else range(0)
        neighbours = tables.keep("neighbours", self._first_pass(ends, nodes, every))
        tables.count(neighbours)
        if tables.is_undirected:  # then one end of each edge gives the same means
            ends = ends.filter(ends["inward"] == 1)
        supports, self.means = [], [Means(range(tables.n_classes))]
        if self.needs_means:
            self.means = [Means(blocks.classes[0], neighbours)] if blocks.is_one else []
            self.covariates += tuple(names("mean", tables.n_classes))
        for i, classes in enumerate(blocks.classes):
            means = neighbours
            if not blocks.is_one:
                means = self._means(tables, ends, classes, blocks.parts, f"means{i}")
            supports += self._supports(tables, ends, means, classes, f"support{i}")
            if not blocks.is_one and self.needs_means:
                self.means.append(Means(classes, means))
            elif not blocks.is_one:
                for part in range(blocks.parts):
                    tables.drop(f"means{i}_{part}")
        if not blocks.is_one:
            tables.drop("ends")
        return self._covariates(nodes, neighbours, union(supports), tables.n_classes)

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
            kept.append(tables.keep(f"{name}_{i}", join_by_node(own, two_hops)))
        return kept

    def _covariates(self, nodes: Any, neighbours: Any, supports: Any, n_classes: int) -> Any:
        """Put the six numbers beside the id of every node."""
        summaries = neighbours.select(
            "node", "in_degree", "out_degree", "mean_entropy", "mean_confidence"
        )
        joined = join_by_node(
            join_by_node(nodes.select("id", "mass"), summaries), supports.rename(node="id")
        )
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

    def calibration_rows(self, rows: Any) -> Any:
        """Add the neighbours' mean probabilities."""
        return join_means(rows, of_few(self.means, rows))

    def with_neighbourhoods(self, nodes: Nodes, rows: Rows) -> Nodes:
        """Add the neighbourhoods of the calibration rows."""
        s = np.stack([rows[name] for name in COVARIATES], axis=1)
        predictions = rows["prediction"].astype(np.int64)
        means = uniform = np.full((len(predictions), nodes.n_classes), 1.0 / nodes.n_classes)
        if self.needs_means:
            stated = np.stack([rows.pop(name) for name in names("mean", nodes.n_classes)], axis=1)
            means = np.where(np.isnan(stated), uniform, stated)
        neighbourhood = Neighbourhood(predictions, rows["entropy"], s, means)
        return nodes.with_result(neighbourhood, describe_neighbourhoods)

    @property
    def averaged(self) -> tuple[str, ...]:  # type: ignore[override]
        """Temperatures whose confidences are averaged with that of the most probable one."""
        fitted = self.calibrator
        is_mean = fitted.keep_predictions and fitted.without != "remainder"
        return ("high_temperature", "low_temperature") if is_mean and fitted.averaging_ else ()

    def temperature(self, table: Any) -> Any:
        """exp(ln[T_c (1 - e) + T_u e] + w s + o)."""
        return limited(self._log_temperature(table, "")).exp()

    def temperatures(self, table: Any) -> dict[str, Any]:
        """Add those of the mean confidence, and that of the free method, with a law of its own."""
        temperatures = super().temperatures(table)
        if self.averaged:
            fitted, e, classes = self.calibrator, table["entropy"], table["prediction"]
            variance = log_temperature_variance(
                e,
                self._centred(table),
                classes,
                fitted.certain_temperature_,
                fitted.uncertain_temperature_,
                fitted.covariance_,
            )
            log_T = self._log_temperature(table, "")
            _, *others = three_temperatures(log_T, variance, fitted.averaging_)
            temperatures |= dict(zip(self.averaged, others, strict=True))
        if self.calibrator.without != "remainder":
            temperatures[TEMPERATURE] = limited(
                self._log_temperature(table, self._free_prefix)
            ).exp()
        return temperatures

    def _log_temperature(self, table: Any, prefix: str) -> Any:
        learned = [getattr(self.calibrator, prefix + name) for name in LAW]
        return log_temperature(
            table["entropy"], self._centred(table), table["prediction"], *learned
        )

    def _centred(self, table: Any) -> Columns:
        return centred(Columns([table[name] for name in COVARIATES]), self.calibrator.centre_)

    @property
    def _free_prefix(self) -> str:
        return FREE if self.calibrator.keep_predictions else ""

    @property
    def _free(self) -> FreeScores:
        bias, weight = (
            getattr(self.calibrator, self._free_prefix + name)
            for name in ("bias_", "neighbour_weight_")
        )
        return FreeScores(bias, weight, self.means)

    def finished(self, tables: Tables, scaled: Any) -> Any:
        """Let the free method choose the prediction, or divide the rest after the kept one."""
        import ibis

        if self.calibrator.without == "remainder":
            return self._with_floor(scaled, tables.n_classes)
        sums = self._free.summed(tables, scaled.select("id", TEMPERATURE))
        if self.calibrator.keep_predictions:
            divided = with_divided_rest(tables, scaled, sums, self._free)
            return self._with_floor(divided, tables.n_classes)
        joined = scaled.join(sums.select("id", "top_score", "own", "others"), "id")
        joined = joined.mutate(mass=joined["own"] + joined["others"])
        rows = self._free.probabilities(tables, joined)
        classes = range(tables.n_classes)
        rows = rows.mutate(**self._floored({f"q{k}": rows[f"q{k}"] for k in classes}))
        probs = {k: rows[f"q{k}"] for k in classes}
        rows = rows.mutate(largest=ibis.greatest(*probs.values()))
        is_largest = ((p == rows["largest"], k) for k, p in probs.items())
        prediction = ibis.cases(*is_largest).cast("int32")
        after = terms(
            "after",
            hit=prediction == rows["label"],
            confidence=rows["largest"],
            at_label=at_class(rows["label"], probs),
            sum_of_squares=total([p * p for p in probs.values()]),
        )
        changed = (prediction != rows["prediction"]).cast("float64")
        columns = [*scaled.columns, "top_score", "mass"]
        result = rows.mutate(prediction=prediction, changed=changed, **after).select(*columns)
        return tables.keep("finished", result)

    def _with_floor(self, table: Any, n_classes: int) -> Any:
        """Bring the terms of the metrics to what the same floor of every class makes of them."""
        at_label = (-table["loss_after"]).exp()
        squares = table["square_after"] + 2.0 * at_label - 1.0
        weight = float(self.calibrator.floor_.sum())
        rest, each = 1.0 - weight, weight / n_classes
        after = terms(
            "after",
            hit=table["hit_after"],
            confidence=rest * table["confidence_after"] + each,
            at_label=rest * at_label + each,
            sum_of_squares=rest * rest * squares + (1.0 - rest * rest) / n_classes,
        )
        return table.mutate(**after)

    def _floored(self, columns: dict[str, Any]) -> dict[str, Any]:
        floor = self.calibrator.floor_
        mixed = floored(Columns(list(columns.values())), floor).parts
        return dict(zip(columns, mixed, strict=True))

    def class_probabilities(self, tables: Tables, finished: Any) -> Any:
        """Return p0..pK-1 of the method."""
        if not self.calibrator.keep_predictions:
            rows = self._free.probabilities(tables, finished)
            p = {f"p{k}": rows[f"q{k}"] for k in range(tables.n_classes)}
            return rows.select(*OUTCOME, **self._floored(p))
        floor, confidence = self.calibrator.floor_, finished["confidence_after"]
        bare = (confidence - float(floor[0])) / (1.0 - float(floor.sum()))
        unfloored = finished.mutate(confidence_after=bare)
        if self.calibrator.without == "remainder":
            rows = super().class_probabilities(tables, unfloored)
            p = {f"p{k}": rows[f"p{k}"] for k in range(tables.n_classes)}
        else:
            rows = self._free.probabilities(tables, unfloored)
            p = shares_of_rest(rows, tables.n_classes)
        bare = rows["confidence_after"]
        confidence = (1.0 - float(floor.sum())) * bare + float(floor[0])
        return rows.select(*OUTCOME, **self._floored(p)).mutate(confidence_after=confidence)


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
