"""Passes over the edges: a join with what the neighbours have, and a sum for each node.

The build side of every join is the nodes' table, which an engine can broadcast or keep in memory;
edges only stream through. Nothing of the size of the edges is kept.
"""

from __future__ import annotations

from typing import Any

from gnncal.scale.nodes import at_class

PRIME = (1 << 31) - 1  # products of two numbers below it fit 64 bits


def both_ends(edges: Any, *, both: bool) -> Any:
    """Rows (node, other): each edge at its receiver and, if ``both``, again at its sender.

    ``inward`` is 1 where the other node sends.
    """
    inward = edges.select(node=edges["dst"], other=edges["src"])
    if not both:
        return inward
    outward = edges.select(node=edges["src"], other=edges["dst"])
    return inward.mutate(inward=1).union(outward.mutate(inward=0), distinct=False)


def degrees(ends: Any) -> dict[str, Any]:
    """Aggregates that every pass has: rows, self-loops among them and, with two ends, in-degree."""
    counted = {"rows": ends.count(), "loops": ends.count(where=ends["node"] == ends["other"])}
    if "inward" in ends.columns:
        counted["inward"] = ends.count(where=ends["inward"] == 1)
    return counted


def count_neighbours(ends: Any, known: Any) -> Any:
    """Degrees of each node, of edges whose other end is known; ``known`` has the column id."""
    joined = _joined(ends, known.select("id"))
    return joined.group_by("node").aggregate(**degrees(joined))


def sum_neighbours(ends: Any, values: Any, columns: list[str]) -> Any:
    """Sums of some columns of ``values`` (id and columns) over the other ends of each node."""
    joined = _joined(ends, values)
    sums = {name: joined[name].sum() for name in columns}
    return joined.group_by("node").aggregate(**degrees(joined), **sums)


def sum_at_own_class(
    ends: Any, values: Any, columns: list[str], own: Any, *, name: str, only_inward: bool | None
) -> Any:
    """Sum over the other ends of the column that belongs to the node's own predicted class.

    ``values`` has id and K columns, ``own`` id and prediction. ``only_inward`` counts senders
    (True) or receivers (False) alone.
    """
    receivers = own.select(node=own["id"], own_prediction=own["prediction"])
    joined = _joined(ends, values).join(receivers, "node")
    value = at_class(joined["own_prediction"], [joined[c] for c in columns])
    chosen = None
    if only_inward is not None and "inward" in ends.columns:
        chosen = joined["inward"] == int(only_inward)
    return joined.group_by("node").aggregate(**degrees(joined), **{name: value.sum(where=chosen)})


def direction_sums(edges: Any) -> Any:
    """Sums of the numeric ids at each end: they differ for almost every directed graph."""
    first, second = (edges[name] % PRIME for name in ("src", "dst"))
    return edges.aggregate(first=first.sum(), second=second.sum())


def pair_sums(edges: Any) -> Any:
    """Return the sums of a fingerprint of each edge, and of each edge turned around.

    The fingerprint depends on the order of the two ends. The sums agree if every edge is listed in
    both directions equally often, and otherwise with a chance of one in two billion.
    """
    src, dst = _code(edges["src"]), _code(edges["dst"])
    there, back = src * (dst * dst % PRIME) % PRIME, dst * (src * src % PRIME) % PRIME
    return edges.aggregate(first=there.sum(), second=back.sum())


def _code(column: Any) -> Any:
    """Return a number below 2^31 from the engine's hash of an id; Spark's hash has no more bits."""
    return (column.hash() % PRIME).cast("int32").cast("int64")


def _joined(ends: Any, values: Any) -> Any:
    return ends.join(values.rename(other="id"), "other")
