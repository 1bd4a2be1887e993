"""Buckets work as folders do: read by the same rules, written whole or not at all."""

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
from gnncal.scale.results import scale_result
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
WRITTEN = {".gnncal.json", "calibrator.safetensors", "metrics.json", "probabilities/part-0.parquet"}


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


def written(storage, prefix="bucket/out"):
    return {path.removeprefix(f"{prefix}/") for path in storage.find(prefix)}


def make(address, text, name="part-0"):
    """Make a small result at an address; its metrics.json holds a text."""
    with scale_result(address, []) as result:
        for file in ("metrics.json", "calibrator.safetensors", f"probabilities/{name}.parquet"):
            (result / file).parent.mkdir(exist_ok=True)
            (result / file).write_text(text)


class StopError(Exception):
    """Ends a run in the middle."""


def stop(*_, **__):
    raise StopError("the cable was cut")


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


def test_the_command_line_reads_and_writes_buckets(storage, tables, tmp_path):
    command = ["scale", *tables, "--out", "s3://bucket/out", "--method", "ts", "--probabilities"]
    found = CliRunner().invoke(app, command)
    assert found.exit_code == 0, found.stderr
    assert "written to s3://bucket/out" in found.stdout
    assert written(storage) == WRITTEN
    storage.get("bucket/out/", str(tmp_path / "out"), recursive=True)
    assert_same(result(tmp_path / "out"), EXAMPLE.in_memory("ts"), EXAMPLE)
    assert json.loads((tmp_path / "out" / "metrics.json").read_text())["method"] == "ts"


def test_a_result_replaces_an_earlier_one_and_nothing_of_it_stays(storage):
    make("s3://bucket/out", "old", name="part-1")
    make("s3://bucket/out", "new")
    assert written(storage) == WRITTEN
    assert storage.cat_file("bucket/out/metrics.json") == b"new"


def test_objects_of_others_are_never_replaced(storage):
    storage.pipe_file("bucket/out/thesis.tex", b"years of work")
    storage.pipe_file("bucket/out/metrics.json", b"{}")
    with pytest.raises(InputError, match=r"has metrics\.json, thesis\.tex and no \.gnncal"):
        make("s3://bucket/out", "new")
    assert written(storage) == {"metrics.json", "thesis.tex"}
    make("s3://bucket/mine", "old")
    storage.pipe_file("bucket/mine/probabilities/notes.txt", b"mine")
    with pytest.raises(InputError, match=r"notes\.txt, which gnncal did not write"):
        make("s3://bucket/mine", "new")
    assert written(storage, "bucket/mine") == WRITTEN | {"probabilities/notes.txt"}
    assert storage.cat_file("bucket/mine/metrics.json") == b"old"


def test_what_others_put_there_during_a_run_is_not_replaced_either(storage):
    def run():
        with scale_result("s3://bucket/out", []):
            storage.pipe_file("bucket/out/thesis.tex", b"years of work")

    with pytest.raises(InputError, match=r"has thesis\.tex and no \.gnncal"):
        run()
    assert written(storage) == {"thesis.tex"}


def test_an_upload_that_fails_leaves_the_earlier_result(storage, monkeypatch):
    make("s3://bucket/out", "old")
    monkeypatch.setattr("s3fs.S3FileSystem.put_file", stop)
    for prefix in ("out", "new"):
        with pytest.raises(InputError, match="the cable was cut"):
            make(f"s3://bucket/{prefix}", "new")
    assert written(storage) == WRITTEN
    assert storage.cat_file("bucket/out/metrics.json") == b"old"
    assert not written(storage, "bucket/new")


def test_an_exchange_that_is_cut_short_is_incomplete_and_the_next_run_repairs_it(
    storage, monkeypatch
):
    make("s3://bucket/out", "old")
    with monkeypatch.context() as broken:
        broken.setattr("s3fs.S3FileSystem.copy", stop)
        broken.setattr("s3fs.S3FileSystem.rm_file", stop)  # as if killed
        with pytest.raises(InputError, match="the cable was cut"):
            make("s3://bucket/out", "new")
    assert any(name.startswith(".gnncal-") for name in written(storage))
    assert b"unfinished" in storage.cat_file("bucket/out/.gnncal.json")
    make("s3://bucket/out", "newer")
    assert written(storage) == WRITTEN
    assert storage.cat_file("bucket/out/metrics.json") == b"newer"


def test_a_run_that_fails_leaves_nothing_in_the_bucket(storage):
    with pytest.raises(StopError), scale_result("s3://bucket/out", []):
        stop()
    assert not written(storage)


@pytest.mark.parametrize(
    ("nodes", "out", "message"),
    [
        ("s3://bucket/absent", "s3://bucket/out", "no Parquet files for nodes at s3://bucket/abs"),
        ("s3://elsewhere/nodes*", "s3://bucket/out", "elsewhere/nodes* cannot be reached"),
        ("s3://inputs/nodes1.parquet", "s3://bucket", "is a whole bucket"),
        ("s3://inputs/nodes1.parquet", "s3://inputs/edges/x", "lies in the input"),
        ("s3://inputs/nodes1.parquet", "s3://elsewhere/out", "elsewhere/out cannot be reached"),
        ("s3://inputs/nodes1.parquet", "nowhere://bucket/out", "nowhere:// is not known"),
    ],
)
def test_what_cannot_be_read_or_written_is_said_in_one_line(nodes, out, message, storage, tables):
    found = CliRunner().invoke(app, ["scale", nodes, tables[1], "--out", out, "--method", "ts"])
    assert found.exit_code == 2
    assert message in found.stderr
    assert len(found.stderr.splitlines()) == 1
    assert not written(storage)


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


def test_spark_writes_to_folders_only(tmp_path):
    files = EXAMPLE.write(tmp_path)
    with pytest.raises(InputError, match="all of its executors see"):
        calibrate(*files, "s3://bucket/out", engine="spark")


def test_without_the_package_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'gnncal\[s3\]'"):
        calibrate("s3://bucket/nodes", "s3://bucket/edges", tmp_path / "out")
    assert not (tmp_path / "out").exists()
