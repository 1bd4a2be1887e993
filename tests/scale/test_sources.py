"""Which files are data, and whether they make one table: the same for every engine."""

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
NODES, EDGES = pa.table(EXAMPLE.node_columns()), pa.table(EXAMPLE.edge_columns())
ENGINES = ["duckdb", pytest.param("spark", marks=pytest.mark.engines)]


@pytest.fixture(params=ENGINES)
def engine(request):
    if request.param == "spark":
        request.getfixturevalue("spark")
    return request.param


def write(table, *path):
    """Write a file and the folders above it."""
    place = path[0].joinpath(*path[1:])
    place.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, place)
    return place


def run(nodes, edges, folder, engine="duckdb"):
    """The summary of a run, after its result was compared with the example in memory."""
    method = "ts"  # quick; the number of edges shows which were read
    summary = calibrate(
        nodes, edges, folder / "out", method=method, all_probabilities=True, engine=engine
    )
    assert_same(result(folder / "out"), EXAMPLE.in_memory(method), EXAMPLE)
    assert summary.n_edges == len(EDGES)
    return summary


def refused(nodes, edges, folder, match):
    """No engine has started yet, so the sentence is the same for all."""
    with pytest.raises(InputError, match=match):
        calibrate(nodes, edges, folder / "out", method="ts")
    assert not (folder / "out").exists()


def halves(table):
    return table.slice(0, 90), table.slice(90)


def test_what_a_program_left_while_writing_is_no_data(engine, tmp_path):
    write(NODES, tmp_path, "nodes.parquet")
    write(EDGES, tmp_path, "edges", "part-0.parquet")
    for left in ("_temporary/0/part-0.parquet", ".part/part-1.parquet", ".part-2.parquet",
                 "_delta_log/0.checkpoint.parquet", "date=1/_tmp/part-0.parquet"):  # fmt: skip
        write(EDGES, tmp_path, "edges", left)
    (tmp_path / "edges" / "_SUCCESS").touch()
    (tmp_path / "edges" / ".part-9.parquet.crc").write_bytes(b"crc")
    (tmp_path / "edges" / "notes.txt").write_text("no table")
    run(tmp_path / "nodes.parquet", tmp_path / "edges", tmp_path, engine)


def test_folders_above_the_given_one_may_begin_with_anything(tmp_path):
    folder = tmp_path / "_data" / ".mine"
    run(write(NODES, folder, "n.parquet"), write(EDGES, folder, "e", "a.parquet").parent, folder)


def test_a_folder_without_data_is_refused(tmp_path):
    nodes = write(NODES, tmp_path, "nodes.parquet")
    write(EDGES, tmp_path, "edges", "_temporary", "part-0.parquet")
    (tmp_path / "edges" / "edges.csv").write_text("src,dst")
    refused(nodes, tmp_path / "edges", tmp_path, "no Parquet files for edges")


def test_a_name_that_exists_is_no_pattern(engine, tmp_path):
    """Each of these names would find its neighbour, which has other numbers, as a pattern."""
    wrong = NODES.set_column(3, "z0", pa.array(-EXAMPLE.logits[:, 0]))
    for name, other in (("w[1]", "w1"), ("a*?b", "aabb")):
        edges = write(EDGES, tmp_path, f"{name}-edges", "e[0].parquet").parent
        write(EDGES, tmp_path, f"{other}-edges", "e0.parquet")
        nodes = write(NODES, tmp_path, f"{name}.parquet")
        write(wrong, tmp_path, f"{other}.parquet")
        run(nodes, edges, tmp_path, engine)


def test_a_glob_below_a_folder_with_brackets_is_still_a_glob(tmp_path):
    nodes = write(NODES, tmp_path, "brk[1]", "n.parquet")
    for number, part in enumerate(halves(EDGES)):
        write(part, tmp_path, "brk[1]", "e", f"x={number}", "part.parquet")
        write(part, tmp_path, "brk1", "e", f"x={number}", "part.parquet")
    write(EDGES, tmp_path, "brk[1]", "e", "_x", "part.parquet")
    for pattern in ("x=*/part.parquet", "**/*.parquet", "x=?", "*"):
        run(nodes, tmp_path / "brk[1]" / "e" / pattern, tmp_path)


def test_folders_give_the_columns_that_the_files_lack(engine, tmp_path):
    for split in ("train", "val", "test"):
        part = NODES.filter(pa.array(EXAMPLE.split == split)).drop(["split"])
        write(part, tmp_path, "split=none", "nodes", f"split={split}", "part.parquet")
    labels = [f"label={label}" for label in EXAMPLE.labels]
    for name in set(labels):
        part = NODES.filter(pa.array(np.array(labels) == name)).drop(["label"])
        write(part, tmp_path, "labels", "date=2020-01-01", name, "part.parquet")
    edges = write(EDGES, tmp_path, "src=1", "edges", "date=2020-01-01", "part.parquet")
    for nodes in (tmp_path / "split=none" / "nodes", tmp_path / "labels"):
        run(nodes, edges, tmp_path, engine)


@pytest.mark.parametrize("folder", ["split=val", "label=1", "z0=7", "id=3"])
def test_a_folder_that_contradicts_a_column_of_the_nodes_is_refused(folder, tmp_path):
    for number, part in enumerate(halves(NODES)):
        write(part, tmp_path, "nodes", folder, f"part-{number}.parquet")
    edges = write(EDGES, tmp_path, "edges.parquet")
    refused(tmp_path / "nodes", edges, tmp_path, f"below the folder {folder}")


def test_a_folder_that_contradicts_a_column_of_the_edges_is_refused(tmp_path):
    nodes = write(NODES, tmp_path, "nodes.parquet")
    write(EDGES, tmp_path, "edges", "src=1", "part.parquet")
    refused(nodes, tmp_path / "edges", tmp_path, "below the folder src=1")


def test_a_folder_that_may_contradict_a_column_is_refused_even_if_it_repeats_it(tmp_path):
    for split in ("train", "val", "test"):
        part = NODES.filter(pa.array(EXAMPLE.split == split))
        write(part, tmp_path, "nodes", f"split={split}", "part.parquet")
    edges = write(EDGES, tmp_path, "edges.parquet")
    refused(tmp_path / "nodes", edges, tmp_path, "drop the column or rename the folder")


def test_files_of_whole_numbers_do_not_cast_those_of_floats(engine, tmp_path):
    whole, floats = halves(NODES)
    logits = EXAMPLE.logits.copy()
    logits[:90] = np.round(logits[:90])
    for k in range(4):
        whole = whole.set_column(3 + k, f"z{k}", pa.array(logits[:90, k].astype(np.int32)))
    write(whole, tmp_path, "nodes", "a.parquet")
    write(floats, tmp_path, "nodes", "b.parquet")
    edges = write(EDGES, tmp_path, "edges.parquet")
    rounded = type(EXAMPLE)(EXAMPLE.ids, logits, EXAMPLE.labels, EXAMPLE.split, EXAMPLE.edge_index)
    out = tmp_path / "out"
    calibrate(tmp_path / "nodes", edges, out, method="ts", all_probabilities=True, engine=engine)
    assert_same(result(out), rounded.in_memory("ts"), rounded)


def test_lists_labels_and_ids_of_several_widths_become_one_column(engine, tmp_path):
    narrow, wide = halves(pa.table(EXAMPLE.node_columns(as_list=True)))
    narrow = narrow.set_column(0, "id", narrow["id"].cast("int16"))
    narrow = narrow.set_column(1, "label", narrow["label"].cast("int8"))
    wide = wide.set_column(1, "label", wide["label"].cast("float64"))
    write(narrow, tmp_path, "nodes", "a.parquet")
    write(wide, tmp_path, "nodes", "b.parquet")
    first, second = halves(EDGES)
    second = pa.table({name: second[name].cast("uint64") for name in ("dst", "src")})
    write(first, tmp_path, "edges", "a.parquet")
    write(second, tmp_path, "edges", "b.parquet")
    run(tmp_path / "nodes", tmp_path / "edges", tmp_path, engine)


def test_ids_of_text_beside_whole_numbers_are_refused(tmp_path):
    numbers, others = halves(NODES)
    write(numbers, tmp_path, "nodes", "a.parquet")
    write(others.set_column(0, "id", others["id"].cast("string")), tmp_path, "nodes", "b.parquet")
    edges = write(EDGES, tmp_path, "edges.parquet")
    sentence = r"id is int64 in .*a\.parquet and string in .*b\.parquet; use one type"
    refused(tmp_path / "nodes", edges, tmp_path, sentence)


def test_a_column_that_some_files_lack_is_named(tmp_path):
    first, second = halves(NODES)
    write(first, tmp_path, "nodes", "a.parquet")
    write(second.drop(["split"]), tmp_path, "nodes", "b.parquet")
    edges = write(EDGES, tmp_path, "edges.parquet")
    sentence = r"a\.parquet has the column split, .*b\.parquet lacks it"
    refused(tmp_path / "nodes", edges, tmp_path, sentence)


def test_columns_that_are_not_used_need_not_agree(tmp_path):
    first, second = halves(NODES)
    write(first.append_column("note", pa.array(["x"] * len(first))), tmp_path, "nodes", "a.parquet")
    write(
        second.append_column("other", pa.array([1] * len(second))), tmp_path, "nodes", "b.parquet"
    )
    mixed = NODES.slice(0, 0).append_column("note", pa.array([], pa.int64()))
    write(mixed, tmp_path, "nodes", "c.parquet")
    run(tmp_path / "nodes", write(EDGES, tmp_path, "edges.parquet"), tmp_path)


def test_files_that_name_the_classes_in_different_orders_are_refused(tmp_path):
    names = ["ant", "bee", "cat", "dog"]
    for number, part in enumerate(halves(NODES)):
        order = names if number == 0 else names[::-1]
        named = part.replace_schema_metadata({"class_names": json.dumps(order)})
        write(named, tmp_path, "nodes", f"{number}.parquet")
    edges = write(EDGES, tmp_path, "edges.parquet")
    refused(tmp_path / "nodes", edges, tmp_path, r"classes are \['ant'.*'dog'\] in")
    one = NODES.replace_schema_metadata({"class_names": json.dumps(names)})
    write(one.slice(0, 90), tmp_path, "nodes", "0.parquet")
    write(one.slice(90), tmp_path, "nodes", "1.parquet")
    assert run(tmp_path / "nodes", edges, tmp_path).class_names == names


def test_a_file_that_is_no_parquet_is_named(tmp_path):
    write(NODES, tmp_path, "nodes", "a.parquet")
    (tmp_path / "nodes" / "b.parquet").write_bytes(b"")
    edges = write(EDGES, tmp_path, "edges.parquet")
    refused(tmp_path / "nodes", edges, tmp_path, r"b\.parquet cannot be read as Parquet")
