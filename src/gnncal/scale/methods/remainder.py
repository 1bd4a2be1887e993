"""Predictions that are kept: the law gives their confidence, the free method divides the rest.

The other classes get min(lambda q, c). From c = 1/3 on, at most one of them can be at the limit c,
and lambda comes from the sum of all q and the largest of them. Below, it does too if no class is at
the limit. Otherwise the q of a node must be sorted, which is left to NumPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gnncal.data.ibis_backend import Columns, maximum
from gnncal.data.ibis_backend import where as ifelse
from gnncal.data.probability import softmax
from gnncal.math.structural import (
    SMALLEST_SUM,
    divided_rest,
    factor_of_sum,
    limited_share,
    rest_factor,
    scores,
)
from gnncal.scale.measures import terms
from gnncal.scale.methods.base import Rows, Tables
from gnncal.scale.methods.free import TEMPERATURE, FreeScores, join_means, of_few
from gnncal.scale.nodes import names

SORTED = ["factor", "empty", "sum_of_squares"]  # what NumPy finds where q must be sorted
SAFE_SHARE = 1e-6  # of a sum: a difference is precise while it is more than this


def with_divided_rest(tables: Tables, scaled: Any, sums: Any, free: FreeScores) -> Any:
    """Keep the scaled table with the terms of the divided rest in place of its own."""
    rest = _rest(scaled, sums)
    short = tables.keep(
        "short", rest.filter("is_short").select("id", TEMPERATURE, "confidence_after")
    )
    logits = tables.nodes.select("id", "prediction", *names("z", tables.n_classes))
    rows = join_means(short.join(logits, "id"), of_few(free.means, short))

    def sort(columns: Rows) -> Rows:
        return _sorted(columns, free, tables.n_classes)

    ordered = tables.keep_computed("sorted", rows, sort, SORTED).rename(
        node="id", **{f"sorted_{name}": name for name in SORTED}
    )
    joined = rest.left_join(ordered, rest["id"] == ordered["node"])
    joined = joined.mutate(
        factor=joined["sorted_factor"].fill_null(joined["factor"]),
        empty=joined["sorted_empty"].fill_null(0.0),
    )
    c, is_hit = joined["confidence_after"], joined["prediction"] == joined["label"]
    limited = _share(joined["largest"], joined)
    squares = c * c + limited * limited + joined["factor"] * joined["factor"] * joined["squares"]
    after = terms(
        "after",
        hit=is_hit,
        confidence=c,
        at_label=is_hit.ifelse(c, _share(joined["at_label"], joined)),
        sum_of_squares=joined["sorted_sum_of_squares"].fill_null(squares),
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
    """Add what q gives to the classes that are not predicted, lambda, and where q must be
    sorted."""
    joined = scaled.join(sums.drop(TEMPERATURE), "id")
    joined = joined.mutate(mass=joined["own"] + joined["others"])
    mass, largest = joined["mass"], joined["other_largest"]
    rest = joined.mutate(
        total=joined["others"] / mass,
        smaller=(joined["others"] - largest) / mass,
        squares=maximum(joined["other_squares"] - largest * largest, 0.0) / (mass * mass),
        largest=largest / mass,
        at_label=joined["at_label"] / mass,
    )
    c = rest["confidence_after"]
    rest = rest.mutate(factor=factor_of_sum(rest["total"], c))
    is_full = rest["factor"] * rest["largest"] > c
    is_one = (c >= 1.0 / 3.0) & (rest["smaller"] > SAFE_SHARE * rest["total"])
    return rest.mutate(
        factor=ifelse(is_full & is_one, (1.0 - 2.0 * c) / rest["smaller"], rest["factor"]),
        is_short=(is_full & ~is_one) | (rest["total"] <= SMALLEST_SUM),
    )


def _share(q: Any, rows: Any) -> Any:
    """Return what a class that is not predicted gets."""
    (share,) = limited_share(Columns([q]), rows["factor"], rows["confidence_after"]).parts
    return share + (share <= 0.0).ifelse(rows["empty"], 0.0)


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
    p, factor = divided_rest(q, predictions, c), rest_factor(q, c)
    is_empty = limited_share(q, factor, c) <= 0.0
    is_empty[np.arange(len(q)), predictions] = False
    return {
        "factor": factor,
        "empty": np.where(is_empty, p, 0.0).max(axis=1),
        "sum_of_squares": (p * p).sum(axis=1),
    }
