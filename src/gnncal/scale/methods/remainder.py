"""Predictions that are kept: the law gives their confidence, the free method divides the rest.

The other classes get min(lambda q, c). Where none of them is at the limit c, which is so for almost
every node, lambda comes from a sum. Otherwise their q must be sorted, which is left to NumPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gnncal.backends.ibis import Columns
from gnncal.formulas.probability import softmax
from gnncal.formulas.structural import (
    SMALLEST_SUM,
    divided_rest,
    factor_of_sum,
    limited_share,
    rest_factor,
    scores,
)
from gnncal.scale.measures import terms
from gnncal.scale.methods.base import Rows, Tables
from gnncal.scale.methods.free import TEMPERATURE, FreeScores, beside_means, of_few
from gnncal.scale.nodes import names

SORTED = ["factor", "empty", "sum_of_squares"]  # what NumPy finds for nodes with a class at c


def with_divided_rest(tables: Tables, scaled: Any, sums: Any, free: FreeScores) -> Any:
    """Keep the scaled table with the terms of the divided rest in place of its own.

    It has what :func:`shares_of_rest` needs too: ``factor`` is lambda, and ``empty`` what each
    class gets whose q is zero.
    """
    rest = _rest(scaled, sums)
    is_short = (rest["factor"] * rest["largest"] > rest["confidence_after"]) | (
        rest["total"] <= SMALLEST_SUM
    )
    short = tables.keep(
        "short", rest.filter(is_short).select("id", TEMPERATURE, "confidence_after")
    )
    logits = tables.nodes.select("id", "prediction", *names("z", tables.n_classes))
    rows = beside_means(short.join(logits, "id"), of_few(free.means, short))

    def sort(columns: Rows) -> Rows:
        return _sorted(columns, free, tables.n_classes)

    found = tables.keep_computed("sorted", rows, sort, SORTED).rename(
        node="id", **{f"sorted_{name}": name for name in SORTED}
    )
    joined = rest.left_join(found, rest["id"] == found["node"])
    joined = joined.mutate(
        factor=joined["sorted_factor"].fill_null(joined["factor"]),
        empty=joined["sorted_empty"].fill_null(0.0),
    )
    c, is_hit = joined["confidence_after"], joined["prediction"] == joined["label"]
    unlimited = c * c + joined["factor"] * joined["factor"] * joined["squares"]
    after = terms(
        "after",
        hit=is_hit,
        confidence=c,
        at_label=is_hit.ifelse(c, _share(joined["at_label"], joined)),
        sum_of_squares=joined["sorted_sum_of_squares"].fill_null(unlimited),
    )
    columns = [*scaled.columns, "top_score", "mass", "factor", "empty"]
    return tables.keep("finished", joined.mutate(**after).select(*columns))


def shares_of_rest(rows: Any, n_classes: int) -> dict[str, Any]:
    """Return p0..pK-1 of rows that have q0..qK-1."""
    return {
        f"p{k}": (rows["prediction"] == k).ifelse(
            rows["confidence_after"], _share(rows[f"q{k}"], rows)
        )
        for k in range(n_classes)
    }


def _rest(scaled: Any, sums: Any) -> Any:
    """Add what q gives to the classes that are not predicted, and lambda if none is at c."""
    joined = scaled.join(sums.drop(TEMPERATURE), "id")
    joined = joined.mutate(mass=joined["own"] + joined["others"])
    mass = joined["mass"]
    rest = joined.mutate(
        total=joined["others"] / mass,
        squares=joined["other_squares"] / (mass * mass),
        largest=joined["other_largest"] / mass,
        at_label=joined["at_label"] / mass,
    )
    return rest.mutate(factor=factor_of_sum(rest["total"], rest["confidence_after"]))


def _share(q: Any, rows: Any) -> Any:
    """Return what a class that is not predicted gets."""
    (share,) = limited_share(Columns([q]), rows["factor"], rows["confidence_after"]).parts
    return share + (q <= 0.0).ifelse(rows["empty"], 0.0)


def _sorted(columns: Rows, free: FreeScores, n_classes: int) -> Rows:
    """Divide the rest of some nodes as it is done in memory."""
    z = np.stack([columns[name] for name in names("z", n_classes)], axis=1).astype(np.float64)
    said = None
    if free.means[0].table is not None:
        means = [columns[name] for name in names("mean", n_classes)]
        said = np.nan_to_num(np.stack(means, axis=1).astype(np.float64), nan=1.0 / n_classes)
    q = softmax(scores(z, columns[TEMPERATURE], free.bias, free.neighbour_weight, said))
    predictions, c = columns["prediction"].astype(np.int64), columns["confidence_after"]
    q[np.arange(len(q)), predictions] = 0.0
    p = divided_rest(q, predictions, c)
    is_empty = q <= 0.0
    is_empty[np.arange(len(q)), predictions] = False
    return {
        "factor": rest_factor(q, c),
        "empty": np.where(is_empty, p, 0.0).max(axis=1),
        "sum_of_squares": (p * p).sum(axis=1),
    }
