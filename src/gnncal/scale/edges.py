"""Passes over the edges: a join with what the neighbours have, and a sum for each node.

The build side of every join is a table of nodes, which an engine can broadcast or keep in memory;
edges stream through. Both joins of a pass keep edges without a partner (left joins), so the same
scan that sums also counts the edges that are listed, and tells whether they are symmetric.
"""

from __future__ import annotations

from typing import Any

PRIME = (1 << 31) - 1  # products of two numbers below it fit 64 bits


def both_ends(edges: Any, nodes: Any, *, both: bool, loops: bool = False) -> Any:
    """Rows (node, other): each edge at its receiver and, if ``both``, again at its sender."""
    import ibis

    if both:  # a product with two rows, because a union would read the edges twice
        turned = edges.cross_join(ibis.memtable({"inward": [1, 0]}))
        is_in = turned["inward"] == 1
        ends = turned.select(
            node=ibis.ifelse(is_in, turned["dst"], turned["src"]),
            other=ibis.ifelse(is_in, turned["src"], turned["dst"]),
            inward=turned["inward"].cast("int8"),
        )
    else:
        ends = edges.select(node=edges["dst"], other=edges["src"], inward=ibis.literal(1, "int8"))
    ends = ends.mutate(loop=(ends["node"] == ends["other"]).fill_null(False))
    if not loops:
        ends = ends.mutate(other=ibis.ifelse(ends["loop"], None, ends["other"]))
    own = nodes.select(own_id=nodes["id"], own=nodes["prediction"])
    return ends.left_join(own, ends["node"] == own["own_id"]).drop("own_id")


def clustered(ends: Any) -> Any:
    """Sort by a hash of the node, in the column ``code``: the ends of a node stand together."""
    return ends.mutate(code=_code(ends["node"]).abs().fill_null(0)).order_by("code")


def part_of(ends: Any, part: int, n_parts: int) -> Any:
    """Choose the ends of every ``n_parts``-th of the nodes, among ends with a ``code``."""
    low, high = (p * PRIME // n_parts for p in (part, part + 1))
    return ends.filter((ends["code"] >= low) & (ends["code"] < high))


def of_classes(ends: Any, classes: range) -> Any:
    """Choose the ends at nodes of some predicted classes; ends without a node go with class 0."""
    chosen = (ends["own"] >= classes.start) & (ends["own"] < classes.stop)
    return ends.filter(chosen | ends["own"].isnull()) if classes.start == 0 else ends.filter(chosen)


def joined(ends: Any, values: Any) -> Any:
    """Every end, with the columns of ``values`` (id and others) of its other node, or nulls."""
    values = values.rename(other_id="id")
    return ends.left_join(values, ends["other"] == values["other_id"])


def degrees(ends: Any) -> dict[str, Any]:
    """Aggregates of joined ends that every first pass has."""
    inward = ends["inward"] == 1
    known = ends["other_id"].notnull() | ends["loop"]
    return {
        "listed": ends.count(where=inward),
        "in_degree": ends.count(where=inward & known),
        "out_degree": ends.count(where=~inward & known),
    }


def turned(ends: Any) -> Any:
    """Sum of a fingerprint of each edge minus that of the edge turned around."""
    import ibis

    there, back = _code(ends["other_id"]), _code(ends["node"])
    difference = there * (back * back % PRIME) % PRIME - back * (there * there % PRIME) % PRIME
    # The codes of both ends are known only where both are nodes.
    counts = (ends["inward"] == 1) & ends["other_id"].notnull() & ends["own"].notnull()
    return ibis.coalesce(difference.sum(where=counts), 0)


def _code(column: Any) -> Any:
    """Return a number between -2^31 and 2^31 from the hash of an id; Spark's has no more bits."""
    return (column.hash() % PRIME).cast("int32").cast("int64")
