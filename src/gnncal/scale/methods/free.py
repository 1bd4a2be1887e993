"""The free structural method over tables: q = softmax(z / T + b + gamma ln(p̄ + delta)).

The neighbours' mean probabilities p̄ are tables beside the logits, each with a block of classes. A
pass over a block joins its means with the nodes and adds to sums that a table hands on, so that
nothing of the size nodes x classes is in memory.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from gnncal.data.arrays import FloatArray
from gnncal.data.ibis_backend import Columns
from gnncal.math.structural import scores_of_shifted
from gnncal.scale.methods.base import Tables, join_by_node
from gnncal.scale.nodes import at_class, names, shifted_logits, total

TEMPERATURE = "free_temperature"
SUMS = ("top_score", "own", "others", "other_squares", "other_largest", "at_label", "best")


class Means(NamedTuple):
    """The neighbours' mean probabilities of some classes; no table where they do not count."""

    classes: range
    table: Any = None  # node, mean{k} for each of the classes


class FreeScores(NamedTuple):
    """What is added to the scaled logits, and the tables that it takes."""

    bias: FloatArray  # (n_classes,)
    neighbour_weight: float
    means: list[Means]

    def summed(self, tables: Tables, temperatures: Any) -> Any:
        """Keep sums over the classes of e^score, less the largest score, for every node."""
        handed_on = temperatures
        for i, means in enumerate(self.means):
            handed_on = tables.keep(f"sums{i}", self._with_block(tables, handed_on, means, i == 0))
            if i > 0:
                tables.drop(f"sums{i - 1}")
        return handed_on

    def _with_block(self, tables: Tables, earlier: Any, means: Means, is_first: bool) -> Any:
        """Add the classes of a block to the sums of earlier ones."""
        import ibis

        classes = means.classes
        columns = ["id", "label", "prediction", "top", *(f"z{k}" for k in classes)]
        rows = join_means(tables.nodes.select(*columns).join(earlier, "id"), [means])
        handed_on = ["id", "label", "prediction", TEMPERATURE, *(() if is_first else SUMS)]
        # Each of these steps is a subquery, so that no expression is repeated for every class.
        scored = rows.select(*handed_on, **self.scores(rows, classes, tables.n_classes))
        scores = {k: scored[f"score{k}"] for k in classes}
        tops = list(scores.values()) if is_first else [scored["top_score"], *scores.values()]
        topped = scored.mutate(top=ibis.greatest(*tops))
        top = topped["top"]
        weights = {k: (topped[f"score{k}"] - top).exp() for k in classes}
        chosen = {
            name: (at_class(topped[column], {k: topped[f"score{k}"] for k in classes}) - top).exp()
            for name, column in (("block_own", "prediction"), ("block_label", "label"))
        }
        best = ibis.cases(*((topped[f"score{k}"] == top, k) for k in classes)).cast("int32")
        if not is_first:
            chosen["smaller"] = (topped["top_score"] - top).exp()
            best = ibis.ifelse(topped["top_score"] == top, topped["best"], best)
        weighed = topped.select(
            *handed_on[:4],
            *handed_on[5:-1],
            top=top,
            block_best=best,
            **chosen,
            **{
                f"weight{k}": ibis.ifelse(topped["prediction"] == k, 0.0, weight)
                for k, weight in weights.items()
            },
        )
        return self._sums(weighed, classes, is_first)

    def _sums(self, weighed: Any, classes: range, is_first: bool) -> Any:
        import ibis

        others = [weighed[f"weight{k}"] for k in classes]
        sums = {
            "own": weighed["block_own"].fill_null(0.0),
            "others": total(others),
            "other_squares": total([w * w for w in others]),
            "other_largest": ibis.greatest(*others) if len(others) > 1 else others[0],
            "at_label": weighed["block_label"],
        }
        if not is_first:
            smaller = weighed["smaller"]
            for name in ("own", "others"):
                sums[name] += weighed[name] * smaller
            sums["other_squares"] += weighed["other_squares"] * smaller * smaller
            sums["other_largest"] = ibis.greatest(
                sums["other_largest"], weighed["other_largest"] * smaller
            )
            sums["at_label"] = ibis.coalesce(sums["at_label"], weighed["at_label"] * smaller)
        return weighed.select(
            "id", TEMPERATURE, top_score=weighed["top"], best=weighed["block_best"], **sums
        )

    def scores(self, rows: Any, classes: range, n_classes: int) -> dict[str, Any]:
        """Return the columns ``score{k}`` of rows with logits, ``top`` and the means."""
        said = None
        if self.means[0].table is not None:
            said = Columns(
                [rows[f"mean{k}"].cast("float64").fill_null(1.0 / n_classes) for k in classes]
            )
        scores = scores_of_shifted(
            Columns(shifted_logits(rows, classes)),
            rows[TEMPERATURE],
            self.bias[classes.start : classes.stop],
            self.neighbour_weight,
            said,
        )
        return {f"score{k}": score for k, score in zip(classes, scores.parts, strict=True)}

    def probabilities(self, tables: Tables, finished: Any) -> Any:
        """Return ``q{k}`` of every class, beside the columns of a finished table."""
        classes = range(tables.n_classes)
        logits = tables.nodes.select("id", "top", *names("z", tables.n_classes))
        rows = join_means(logits.join(finished, "id"), self.means)
        scored = rows.select(*finished.columns, **self.scores(rows, classes, tables.n_classes))
        return scored.select(
            *finished.columns,
            **{
                f"q{k}": (scored[f"score{k}"] - scored["top_score"]).exp() / scored["mass"]
                for k in classes
            },
        )


def join_means(rows: Any, means: list[Means]) -> Any:
    """Return rows of nodes with the means of these blocks; null without neighbours."""
    for classes, table in means:
        if table is not None:
            rows = join_by_node(rows, table.select("node", *(f"mean{k}" for k in classes)))
    return rows


def of_few(means: list[Means], chosen: Any) -> list[Means]:
    """Return the means of some nodes alone: a small table with their ids is joined first."""
    few = chosen.select("id")
    return [
        Means(classes, None if table is None else table.join(few, table["node"] == few["id"]))
        for classes, table in means
    ]
