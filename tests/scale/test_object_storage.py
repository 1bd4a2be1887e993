"""Buckets are read by the rules of folders; results are written to folders only."""

import json
import sys

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from gnncal import InputError, MissingExtraError
from gnncal.__main__ import app
from gnncal.scale import calibrate
from tests.scale.graphs import make_example
from tests.scale.test_equals_memory import assert_same, result

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
EXAMPLE = make_example(n_nodes=200)
NODES, EDGES = pa.table(EXAMPLE.node_columns()), pa.table(EXAMPLE.edge_columns())
NAMES = ["ant", "bee", "cat", "dog"]


def put(storage, table, path):
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    storage.pipe_file(path, sink.getvalue().to_pybytes())


@pytest.fixture(scope="module")
def tables(storage_files):
    """The addresses of a table of nodes with class names, and of a folder of edges."""
    storage_files.mkdir("inputs")
    nodes = NODES.replace_schema_metadata({"class_names": json.dumps(NAMES)})
    put(storage_files, nodes, "inputs/nodes[1].parquet")
    put(storage_files, NODES.slice(0, 3), "inputs/nodes1.parquet")
    put(storage_files, EDGES.slice(0, 500), "inputs/edges/part-0.parquet")
    put(storage_files, EDGES.slice(500), "inputs/edges/date=1/part-1.parquet")
    put(storage_files, EDGES, "inputs/edges/_temporary/part-2.parquet")
    yield "s3://inputs/nodes[1].parquet", "s3://inputs/edges"
    storage_files.rm("inputs", recursive=True)


def test_tables_are_read_from_a_bucket_without_an_extension(storage, tables, tmp_path, monkeypatch):
    connect = duckdb.connect
    refused = {"autoinstall_known_extensions": False, "autoload_known_extensions": False}
    monkeypatch.setattr(duckdb, "connect", lambda config: connect(config={**config, **refused}))
    nodes, edges = tables
    for source in (edges, "s3://inputs/edges/**/part-*.parquet"):
        summary = calibrate(nodes, source, tmp_path / "out", method="ts", all_probabilities=True)
        assert summary.n_edges == len(EDGES)
        assert summary.class_names == NAMES
        assert_same(result(tmp_path / "out"), EXAMPLE.in_memory("ts"), EXAMPLE)


def test_folders_give_columns_in_a_bucket_too(storage, tables, tmp_path):
    for split in ("train", "val", "test"):
        part = NODES.filter(pa.array(EXAMPLE.split == split)).drop(["split"])
        put(storage, part, f"bucket/nodes/split={split}/a.parquet")
    out = tmp_path / "out"
    calibrate("s3://bucket/nodes/", tables[1], out, method="ts", all_probabilities=True)
    assert_same(result(out), EXAMPLE.in_memory("ts"), EXAMPLE)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ("s3://bucket/absent", "no Parquet files for nodes at s3://bucket/abs"),
        ("s3://elsewhere/nodes*", "elsewhere/nodes* cannot be reached"),
        ("nowhere://bucket/nodes", "nowhere:// is not known"),
    ],
)
def test_what_cannot_be_read_is_said_in_one_line(nodes, message, storage, tables, tmp_path):
    found = CliRunner().invoke(app, ["scale", nodes, tables[1], "--out", str(tmp_path / "out")])
    assert found.exit_code == 2
    assert message in found.stderr
    assert len(found.stderr.splitlines()) == 1


def test_an_object_that_disappears_during_a_run_is_said_in_one_line(
    storage, tables, tmp_path, monkeypatch
):
    from gnncal.scale import run

    find = run.find_tables
    put(storage, NODES, "bucket/nodes[1].parquet")

    def find_and_lose(*arguments):
        found = find(*arguments)
        storage.rm_file("bucket/nodes[1].parquet")
        return found

    monkeypatch.setattr(run, "find_tables", find_and_lose)
    said = r"^bucket/nodes\[1\]\.parquet cannot be read as Parquet"
    with pytest.raises(InputError, match=said):
        calibrate("s3://bucket/nodes[1].parquet", tables[1], tmp_path / "out", method="ts")


@pytest.mark.parametrize("place", ["nodes", "out"])
def test_a_secret_in_an_address_is_never_repeated(place, tmp_path):
    nodes, edges = map(str, EXAMPLE.write(tmp_path))
    address = "s3://AKIAKEY:wJalr/XUt+nFEMI@bucket/x"
    out = address if place == "out" else str(tmp_path / "out")
    found = CliRunner().invoke(
        app, ["scale", address if place == "nodes" else nodes, edges, "--out", out]
    )
    assert found.exit_code == 2
    assert "AKIA" not in found.stderr
    assert "wJalr" not in found.stderr
    assert "FEMI" not in found.stderr


def test_results_are_written_to_folders_only(tmp_path):
    with pytest.raises(InputError, match="results are written to a local folder"):
        calibrate(*EXAMPLE.write(tmp_path), "s3://bucket/out")


def test_without_the_package_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'gnncal\[s3\]'"):
        calibrate("s3://bucket/nodes", "s3://bucket/edges", tmp_path / "out")
    assert not (tmp_path / "out").exists()
