"""Rows that cannot be used are counted and refused, or skipped and reported."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gnncal import InputError
from gnncal.scale import calibrate
from tests.scale.graphs import make_example
from tests.scale.test_equals_memory import assert_same, result

pytestmark = [
    pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
EXAMPLE = make_example(n_nodes=200)


def write(folder, *, nodes=(), edges=()):
    """The example with more rows at the end of its tables; returns both files."""
    good = pa.table(EXAMPLE.node_columns())
    good = good.set_column(1, "label", pa.array(EXAMPLE.labels))
    more = pa.Table.from_pylist(list(nodes), schema=good.schema)
    pq.write_table(pa.concat_tables([good, more]), folder / "nodes.parquet")
    good = pa.table(EXAMPLE.edge_columns())
    more = pa.Table.from_pylist(list(edges), schema=good.schema)
    pq.write_table(pa.concat_tables([good, more]), folder / "edges.parquet")
    return folder / "nodes.parquet", folder / "edges.parquet"


def row(**changes):
    return {"id": 1000, "label": 1, "split": None, "z0": 1.0, "z1": 0.0, "z2": 0, "z3": 0} | changes


BAD_NODES = {
    "the id is null": [row(id=None)],
    "a logit is null": [row(z1=None), row(id=1001, z2=np.nan), row(id=1002, z0=np.inf)],
    "the label is not a class": [row(label=4), row(id=1001, label=-2)],
    "the split is not train": [row(split="validation")],
    "the split is val but the label is missing": [row(split="val", label=None)],
}


@pytest.mark.parametrize("reason", BAD_NODES)
def test_bad_rows_of_the_nodes_are_counted_and_refused(reason, tmp_path):
    bad = BAD_NODES[reason]
    n = "1 row" if len(bad) == 1 else f"{len(bad)} rows"
    with pytest.raises(InputError, match=f"^{n} of the nodes: {reason}"):
        calibrate(*write(tmp_path, nodes=bad), tmp_path / "out", method="ts")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["edges.parquet", "nodes.parquet"]


def test_an_id_that_stands_twice_is_refused_and_named(tmp_path):
    with pytest.raises(
        InputError, match=r"2 rows of the nodes: the id occurs more than.*\(ids 7\)"
    ):
        calibrate(*write(tmp_path, nodes=[row(id=7)]), tmp_path / "out", method="ts")


def test_edges_that_name_no_node_are_refused_and_shown(tmp_path):
    bad = [{"src": 5000, "dst": 1}, {"src": 2, "dst": -7}, {"src": None, "dst": 3}]
    for method in ("ts", "structural"):
        with pytest.raises(InputError) as raised:
            calibrate(*write(tmp_path, edges=bad), tmp_path / "out", method=method)
        message = str(raised.value)
        assert "1 row of the edges: an end is null (edges None -> 3)" in message
        assert "2 rows of the edges: an end is not a node" in message
        assert "5000 -> 1" in message
        assert "2 -> -7" in message
        assert "--skip-bad" in message


@pytest.mark.parametrize("method", ["hots", "structural"])
def test_skipping_bad_rows_gives_the_result_without_them(method, tmp_path):
    bad = [rows[0] | {"id": None if rows[0]["id"] is None else 1000 + i}
           for i, rows in enumerate(BAD_NODES.values())]  # fmt: skip
    twice = [row(id=3000), row(id=3000)]
    edges = [{"src": 1001, "dst": 1}, {"src": 3000, "dst": 2}, {"src": 2, "dst": 9999}]
    files = write(tmp_path, nodes=[*bad, *twice], edges=edges)
    summary = calibrate(
        *files, tmp_path / "out", method=method, all_probabilities=True, skip_bad=True
    )
    assert_same(result(tmp_path / "out"), EXAMPLE.in_memory(method), EXAMPLE)
    counts = {(entry["table"], entry["reason"]): entry["count"] for entry in summary.skipped}
    assert counts[("nodes", "the id occurs more than once")] == 2
    assert counts[("edges", "an end is not a node")] == 3
    assert len(counts) == 7
    assert summary.n_nodes == 200


def test_lists_of_another_length_are_bad_rows(tmp_path):
    columns = EXAMPLE.node_columns(as_list=True)
    columns["logits"] = [*columns["logits"][:-1], np.array([1.0, 2.0])]
    pq.write_table(pa.table(columns), tmp_path / "nodes.parquet")
    pq.write_table(pa.table(EXAMPLE.edge_columns()), tmp_path / "edges.parquet")
    files = tmp_path / "nodes.parquet", tmp_path / "edges.parquet"
    with pytest.raises(InputError, match="another length"):
        calibrate(*files, tmp_path / "out", method="ts")


def rewrite(folder, *, nodes=None, edges=None):
    columns = {**EXAMPLE.node_columns(), **(nodes or {})}
    kept = {name: values for name, values in columns.items() if values is not None}
    pq.write_table(pa.table(kept), folder / "nodes.parquet")
    pq.write_table(pa.table({**EXAMPLE.edge_columns(), **(edges or {})}), folder / "edges.parquet")
    return folder / "nodes.parquet", folder / "edges.parquet"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nodes": {"id": None}}, "lack the column id"),
        ({"nodes": {"z1": None}}, "z0, z1, ... without gaps"),
        (
            {"nodes": {"id": np.linspace(0, 1, 200)}},
            "id of the nodes is of type double; expected whole numbers or text",
        ),
        ({"nodes": {"id": [str(i) for i in range(200)]}}, "use one type"),
        ({"nodes": {"split": ["test"] * 200}}, "no node has the split val"),
        ({"nodes": {"label": ["cat"] * 200}}, "labels are names"),
    ],
)
def test_tables_that_cannot_be_used_are_refused_in_one_sentence(changes, message, tmp_path):
    with pytest.raises(InputError, match=message):
        calibrate(*rewrite(tmp_path, **changes), tmp_path / "out", method="ts")


@pytest.mark.parametrize("place", ["metadata", "file"])
def test_labels_may_be_names_if_something_says_which_class_each_is(place, tmp_path):
    names = ["ant", "bee", "cat", "dog"]
    columns = EXAMPLE.node_columns() | {"label": [names[c] for c in EXAMPLE.labels]}
    table = pa.table(columns)
    if place == "metadata":
        table = table.replace_schema_metadata({"class_names": json.dumps(names)})
    else:
        (tmp_path / "class_names.json").write_text(json.dumps(names))
    pq.write_table(table, tmp_path / "nodes.parquet")
    pq.write_table(pa.table(EXAMPLE.edge_columns()), tmp_path / "edges.parquet")
    files = tmp_path / "nodes.parquet", tmp_path / "edges.parquet"
    summary = calibrate(*files, tmp_path / "out", method="ts", all_probabilities=True)
    assert summary.class_names == names
    assert_same(result(tmp_path / "out"), EXAMPLE.in_memory("ts"), EXAMPLE)


@pytest.mark.parametrize("first", [0, 17, np.iinfo(np.int64).min])
@pytest.mark.parametrize("kind", [pa.int64(), pa.uint32()])
def test_null_and_far_ends_of_any_kind_of_numbers_are_no_nodes(kind, first, tmp_path):
    if first < 0 and kind == pa.uint32():
        return
    columns = EXAMPLE.edge_columns()
    ends = {name: [int(value) + first for value in values] for name, values in columns.items()}
    ends["src"] += [None, first + 3]
    ends["dst"] += [first + 3, 2**31]
    edges = pa.table({name: pa.array(values, kind) for name, values in ends.items()})
    nodes = pa.table(EXAMPLE.node_columns() | {"id": [i + first for i in range(200)]})
    pq.write_table(nodes, tmp_path / "nodes.parquet")
    pq.write_table(edges, tmp_path / "edges.parquet")
    files = tmp_path / "nodes.parquet", tmp_path / "edges.parquet"
    summary = calibrate(*files, tmp_path / "out", method="hots", skip_bad=True)
    assert [(bad["reason"], bad["count"]) for bad in summary.skipped] == [
        ("an end is null", 1),
        ("an end is not a node", 1),
    ]
    assert summary.n_edges == len(columns["src"])
