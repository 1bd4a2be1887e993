"""What goes into a bundle comes out of it, and what cannot be read is refused in one sentence."""

import io
import json
import os
import re
import sys
import tracemalloc
import zipfile
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import gnncal
from gnncal.files.bundle import read_probabilities, write_bundle, write_nodes

N, K = 120, 3
NAMES = ["cat", "dog", "naïve fish"]


def example(**changes):
    """The arrays of an .npz bundle; a change to None leaves an array out."""
    generator = np.random.default_rng(7)
    labels = generator.integers(K, size=N)
    logits = generator.normal(size=(N, K)) * 2
    logits[np.arange(N), labels] += 2
    part = np.arange(N) % 4
    arrays = {
        "logits": logits,
        "labels": labels,
        "edge_index": generator.integers(N - 3, size=(2, 4 * N)),  # the last nodes are isolated
        "train_mask": part == 0,
        "val_mask": part == 1,
        "test_mask": part >= 2,
        "x": generator.normal(size=(N, 5)).astype(np.float32),
        "node_ids": np.array([f"node-{i}" for i in generator.permutation(N)]),
        "class_names": np.array(NAMES),
    }
    return {name: array for name, array in (arrays | changes).items() if array is not None}


def write_npz(path, **changes):
    np.savez(path, **example(**changes))
    return path


def write_parquet(folder, *, metadata=True, **changes):
    """The same bundle as a folder; rows of both files are shuffled, ids are the only link."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    arrays = example()
    split = np.select([arrays[f"{s}_mask"] for s in ("train", "val", "test")], [0, 1, 2])
    ids, order = arrays["node_ids"], np.random.default_rng(1).permutation(N)
    nodes = {
        "id": ids,
        "label": arrays["labels"],
        "split": np.array(["train", "val", "test"])[split],
    }
    nodes |= {f"z{c}": arrays["logits"][:, c] for c in range(K)}
    edges = {"src": ids[arrays["edge_index"][0]], "dst": ids[arrays["edge_index"][1]]}
    nodes |= {name: value for name, value in changes.items() if name not in edges}
    edges |= {name: value for name, value in changes.items() if name in edges}
    table = pa.table({name: value for name, value in nodes.items() if value is not None})
    if metadata:
        names = json.dumps(NAMES) if metadata is True else metadata
        table = table.replace_schema_metadata({"class_names": names})
    folder.mkdir()
    pq.write_table(table.take(order), folder / "nodes.parquet")
    pq.write_table(
        pa.table({name: value for name, value in edges.items() if value is not None}),
        folder / "edges.parquet",
    )
    return folder


def assert_same(one, other):
    for name in ("logits", "labels", "train_nodes", "calibration_nodes", "test_nodes", "node_ids"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    assert one.graph.fingerprint == other.graph.fingerprint
    assert one.class_names == other.class_names


CSR = sparse.random_array((N, 40), density=0.05, format="csr", rng=np.random.default_rng(3))
CSR_PARTS = {
    "x_data": CSR.data,
    "x_indices": CSR.indices,
    "x_indptr": CSR.indptr,
    "x_shape": np.array(CSR.shape),
}


@pytest.mark.parametrize("changes", [{}, {"x": None, **CSR_PARTS}, {"x": None}, {"node_ids": None}])
def test_a_written_bundle_reads_back_the_same(tmp_path, changes):
    bundle = gnncal.read_bundle(write_npz(tmp_path / "in.npz", **changes))
    write_bundle(tmp_path / "out.npz", bundle)
    again = gnncal.read_bundle(tmp_path / "out.npz")
    assert_same(bundle, again)
    before, after = bundle.graph.features, again.graph.features
    assert type(before) is type(after)
    if before is not None:
        difference = before - after
        assert abs(difference).max() == 0


def test_masks_and_indices_say_the_same(tmp_path):
    splits = {s: np.flatnonzero(m) for s, m in example().items() if s.endswith("_mask")}
    masks = gnncal.read_bundle(write_npz(tmp_path / "masks.npz"))
    assert_same(masks, gnncal.read_bundle(write_npz(tmp_path / "indices.npz", **splits)))


def test_without_a_test_mask_every_other_labelled_node_is_tested(tmp_path):
    labels = example()["labels"]
    labels[100:] = -1
    bundle = gnncal.read_bundle(write_npz(tmp_path / "in.npz", test_mask=None, labels=labels))
    expected = [i for i in range(100) if i % 4 >= 2]
    np.testing.assert_array_equal(bundle.test_nodes, expected)
    unlabelled = gnncal.read_bundle(write_npz(tmp_path / "in.npz", labels=labels))
    np.testing.assert_array_equal(unlabelled.test_nodes, expected)


def test_class_names_are_text(tmp_path):
    names = np.array(["a", "b", "c"])
    bundle = gnncal.read_bundle(write_npz(tmp_path / "in.npz", class_names=names))
    assert bundle.class_names == ["a", "b", "c"]


def named(labels):
    return np.array(NAMES)[labels]


@pytest.mark.parametrize("labels", [example()["labels"], named(example()["labels"])])
def test_a_folder_means_the_same_as_a_file(tmp_path, labels):
    file = gnncal.read_bundle(write_npz(tmp_path / "in.npz"))
    folder = gnncal.read_bundle(write_parquet(tmp_path / "folder", label=labels))
    row = {name: i for i, name in enumerate(file.node_ids)}
    at = np.array([row[name] for name in folder.node_ids])
    np.testing.assert_array_equal(folder.logits, file.logits[at])
    np.testing.assert_array_equal(folder.labels, file.labels[at])
    for split in ("train_nodes", "calibration_nodes", "test_nodes"):
        np.testing.assert_array_equal(
            np.sort(at[getattr(folder, split)]), getattr(file, split), err_msg=split
        )
    edges = gnncal.Graph(at[folder.graph.edge_index], N)
    assert edges.fingerprint == file.graph.fingerprint
    assert folder.class_names == file.class_names == NAMES


def test_names_of_classes_may_stand_in_a_file_beside_the_tables(tmp_path):
    labels = named(example()["labels"])
    folder = write_parquet(tmp_path / "in", label=labels, metadata=False)
    (folder / "class_names.json").write_text(json.dumps(NAMES))
    inside = gnncal.read_bundle(write_parquet(tmp_path / "other", label=labels))
    beside = gnncal.read_bundle(folder)
    assert beside.class_names == NAMES
    np.testing.assert_array_equal(beside.labels, inside.labels)


@pytest.mark.parametrize("text", ["cat, dog", "7", json.dumps(NAMES[::-1])])
def test_a_file_of_names_that_is_no_list_or_contradicts_the_table_is_refused(tmp_path, text):
    folder = write_parquet(tmp_path / "in")
    (folder / "class_names.json").write_text(text)
    with pytest.raises(
        gnncal.InputError, match=r"names\.json (is not a list|is 7, which|has .* but)"
    ):
        gnncal.read_bundle(folder)


@pytest.mark.parametrize("names", ["[2, 1, 0]", '["2", "1", "0"]'])
def test_a_label_that_is_the_number_of_one_class_and_the_name_of_another_is_refused(
    tmp_path, names
):
    folder = write_parquet(tmp_path / "in", metadata=False)
    (folder / "class_names.json").write_text(names)
    with pytest.raises(gnncal.InputError, match="class 0 is called 2, the number of another class"):
        gnncal.read_bundle(folder)
    texts = np.array(["2", "1", "0"])[example()["labels"]]
    for place, metadata in (("beside", False), ("inside", '["2", "1", "0"]')):
        folder = write_parquet(tmp_path / place, label=texts, metadata=metadata)
        (folder / "class_names.json").write_text('["2", "1", "0"]')
        labels = gnncal.read_bundle(folder).labels
        assert (labels == gnncal.read_bundle(write_parquet(tmp_path / f"{place}-0")).labels).all()


def test_numbers_as_names_of_an_archive_may_not_be_those_of_other_classes(tmp_path):
    path = tmp_path / "in.npz"
    with pytest.raises(gnncal.InputError, match="class 0 is called 2, the number of another class"):
        gnncal.read_bundle(write_npz(path, class_names=np.array([2, 1, 0])))
    for names in (np.array([0, 1, 2]), np.array([2019, 2020, 2021])):
        read = gnncal.read_bundle(write_npz(path, class_names=names))
        assert read.class_names == list(map(str, names))


def test_one_table_is_told_to_be_a_folder(tmp_path):
    folder = write_parquet(tmp_path / "in")
    with pytest.raises(gnncal.InputError, match="pass the folder that has"):
        gnncal.read_bundle(folder / "nodes.parquet")


def test_null_labels_are_unknown_and_null_splits_unused(tmp_path):
    labels = [None if i % 4 == 2 else int(label) for i, label in enumerate(example()["labels"])]
    split = [("train", "val", None, "test")[i % 4] for i in range(N)]
    bundle = gnncal.read_bundle(write_parquet(tmp_path / "in", label=labels, split=split))
    assert (bundle.labels == -1).sum() == N // 4
    for nodes in (bundle.train_nodes, bundle.calibration_nodes, bundle.test_nodes):
        assert nodes.size == N // 4
        assert (bundle.labels[nodes] >= 0).all()


@pytest.mark.parametrize("kind", ["int64", "dictionary", "large_string"])
def test_ids_may_be_numbers_or_any_kind_of_text(tmp_path, kind):
    pa = pytest.importorskip("pyarrow")
    ids = np.arange(N)[::-1] * 7
    edge_index = example()["edge_index"]

    def encode(values):
        if kind == "int64":
            return pa.array(values)
        text = pa.array(values.astype(str))
        return text.dictionary_encode() if kind == "dictionary" else text.cast(kind)

    ends = {"src": encode(ids[edge_index[0]]), "dst": encode(ids[edge_index[1]])}
    bundle = gnncal.read_bundle(write_parquet(tmp_path / "in", id=encode(ids), **ends))
    at = (N - 1) - bundle.node_ids.astype(int) // 7
    expected = gnncal.Graph(edge_index, N).fingerprint
    assert gnncal.Graph(at[bundle.graph.edge_index], N).fingerprint == expected


def split_file(path, *, first=None, second=None, names=("a.parquet", "b.parquet")):
    """Replace a Parquet file by a folder with its rows in two files, which may be changed."""
    pq = pytest.importorskip("pyarrow.parquet")
    table = pq.read_table(path)
    path.unlink()
    parts = [table.slice(0, len(table) // 2), table.slice(len(table) // 2)]
    for part, change, name in zip(parts, (first, second), names, strict=True):
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(part if change is None else change(part), path / name)
    return table


def cast(column, kind):
    def change(table):
        return table.set_column(table.column_names.index(column), column, table[column].cast(kind))

    return change


def test_a_table_may_be_a_folder_of_files_and_leftovers_are_no_data(tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    expected = gnncal.read_bundle(write_parquet(tmp_path / "one"))
    folder = write_parquet(tmp_path / "many")
    split_file(folder / "nodes.parquet", second=cast("id", "large_string"))
    edges = split_file(folder / "edges.parquet", names=("x=1/w[1].parquet", "x=2/w1.parquet"))
    for left in ("_temporary/part.parquet", ".part.parquet", "x=2/_part/part.parquet"):
        (folder / "edges.parquet" / left).parent.mkdir(exist_ok=True)
        pq.write_table(edges, folder / "edges.parquet" / left)
    (folder / "edges.parquet" / "_SUCCESS").touch()
    assert_same(gnncal.read_bundle(folder), expected)


def test_folders_give_a_split_in_memory_too(tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    expected = gnncal.read_bundle(write_parquet(tmp_path / "one"))
    folder = write_parquet(tmp_path / "many")
    table = pq.read_table(folder / "nodes.parquet")
    (folder / "nodes.parquet").unlink()
    split = np.array(table["split"].to_pylist())
    for name in ("train", "val", "test"):
        (folder / "nodes.parquet" / f"split={name}").mkdir(parents=True)
        part = table.filter(split == name).drop(["split"])
        pq.write_table(part, folder / "nodes.parquet" / f"split={name}" / "part.parquet")
    found = gnncal.read_bundle(folder)
    for nodes in ("train_nodes", "calibration_nodes", "test_nodes"):
        ids = (bundle.node_ids[getattr(bundle, nodes)] for bundle in (found, expected))
        np.testing.assert_array_equal(*map(np.sort, ids))


def test_whole_numbers_before_floats_cast_nothing_in_memory(tmp_path):
    logits = np.round(example()["logits"][:, 1])
    expected = gnncal.read_bundle(write_parquet(tmp_path / "one", z1=logits))
    folder = write_parquet(tmp_path / "many", z1=logits)
    split_file(folder / "nodes.parquet", first=cast("z1", "int32"))
    assert_same(gnncal.read_bundle(folder), expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table.drop(["split"]), "lacks it"),
        (cast("z1", "string"), "z1 is double in .* and string in"),
        (
            lambda table: table.replace_schema_metadata({"class_names": json.dumps(NAMES[::-1])}),
            "classes are .* in",
        ),
    ],
)
def test_files_that_do_not_make_one_table_are_refused_in_memory(tmp_path, change, message):
    folder = write_parquet(tmp_path / "in")
    split_file(folder / "nodes.parquet", second=change)
    with pytest.raises(gnncal.InputError, match=message):
        gnncal.read_bundle(folder)


def test_a_folder_that_contradicts_a_column_is_refused_in_memory(tmp_path):
    folder = write_parquet(tmp_path / "in")
    split_file(folder / "nodes.parquet", names=("split=val/a.parquet", "split=val/b.parquet"))
    with pytest.raises(gnncal.InputError, match="below the folder split=val"):
        gnncal.read_bundle(folder)


def test_a_folder_may_have_no_edges(tmp_path):
    bundle = gnncal.read_bundle(write_parquet(tmp_path / "in", src=[], dst=[]))
    assert (bundle.graph.n_nodes, bundle.graph.n_edges) == (N, 0)


@pytest.mark.parametrize("as_parquet", [False, True])
def test_probabilities_are_matched_by_id_whatever_their_order(tmp_path, as_parquet):
    bundle = gnncal.read_bundle(write_npz(tmp_path / "in.npz"))
    probs = gnncal.calibrators.softmax(bundle.logits)
    order = np.random.default_rng(0).permutation(N)
    shuffled = replace(bundle, node_ids=bundle.node_ids[order])
    path = tmp_path / ("p.parquet" if as_parquet else "p.npz")
    write_nodes(path, shuffled, probs[order], {"probs": probs[order]}, {})
    np.testing.assert_array_equal(read_probabilities(path, bundle), probs)


def test_probabilities_without_ids_keep_their_order(tmp_path):
    bundle = gnncal.read_bundle(write_npz(tmp_path / "in.npz"))
    probs = gnncal.calibrators.softmax(bundle.logits)
    np.savez(tmp_path / "own.npz", probs=probs)
    np.testing.assert_array_equal(read_probabilities(tmp_path / "own.npz", bundle), probs)


def nan_logits():
    logits = example()["logits"]
    logits[4, 1] = np.nan
    return logits


def other_label(node, label):
    labels = example()["labels"]
    labels[node] = label
    return labels


BAD_ARRAYS = {
    "logits missing": ({"logits": None}, "lacks logits"),
    "edge_index missing": ({"edge_index": None}, "lacks edge_index"),
    "val_mask missing": ({"val_mask": None}, "lacks val_mask"),
    "NaN logits": ({"logits": nan_logits()}, "NaN or infinity in 1 of 120 rows"),
    "flat logits": ({"logits": np.ones(N)}, "one row for each node"),
    "one class": ({"logits": np.ones((N, 1))}, "stack [0, z]"),
    "text logits": ({"logits": np.full((N, K), "high")}, "expected numbers"),
    "pickled logits": ({"logits": np.full((N, K), None)}, "plain arrays"),
    "labels of another graph": ({"labels": np.zeros(N + 1, int)}, "labels has shape (121,)"),
    "label of a test node": ({"labels": other_label(2, K)}, "outside 0..2 (node 2 has 3)"),
    "float edge_index": (
        {"edge_index": np.ones((2, 9))},
        "edge_index has dtype float64; expected integers",
    ),
    "transposed edge_index": ({"edge_index": np.ones((9, 2), int)}, "Transpose"),
    "edges name missing nodes": ({"edge_index": np.full((2, 9), N)}, "names node 120"),
    "negative edges": ({"edge_index": np.full((2, 9), -1)}, "numbered from 0"),
    "short mask": ({"val_mask": np.ones(N - 1, bool)}, "val_mask is a mask of 119"),
    "empty val_mask": ({"val_mask": np.zeros(N, bool)}, "val_mask is empty"),
    "train meets val": ({"train_mask": np.arange(N) < 9}, "train_mask and val_mask share"),
    "val meets test": ({"test_mask": np.arange(N) < 9}, "share"),
    "float mask": ({"test_mask": np.ones(N)}, "boolean mask or indices"),
    "features of another graph": ({"x": np.ones((N - 1, 4))}, "119 rows"),
    "NaN features": ({"x": np.full((N, 4), np.nan)}, "features contains NaN"),
    "half a CSR matrix": ({"x": None, "x_data": CSR.data}, "lacks x_indices"),
    "wild CSR index": ({"x": None, **CSR_PARTS, "x_indices": CSR.indices + 99}, "fit together"),
    "float CSR index": ({"x": None, **CSR_PARTS, "x_indices": CSR.data}, "integers"),
    "decreasing CSR rows": (
        {"x": None, **CSR_PARTS, "x_indptr": np.r_[0, CSR.nnz, CSR.indptr[2:]]},
        "must be a non-decreasing sequence",
    ),
    "CSR rows that end at zero": (
        {"x": None, **CSR_PARTS, "x_indptr": np.r_[0, CSR.indptr[1:-1], 0]},
        "fit together",
    ),
    "CSR values missing": ({"x": None, **CSR_PARTS, "x_data": CSR.data[:-1]}, "fit together"),
    "CSR of complex values": ({"x": None, **CSR_PARTS, "x_data": CSR.data + 1j}, "complex128"),
    "names in two dimensions": ({"class_names": np.array([["a"], ["b"], ["c"]])}, "list of"),
    "ids as dates": ({"node_ids": np.arange(N).astype("datetime64[D]")}, "dtype datetime64"),
    "flat CSR shape": ({"x": None, **CSR_PARTS, "x_shape": np.array(N)}, "fit together"),
    "too few names": ({"class_names": np.array(["a", "b"])}, "2 names for 3 classes"),
    "one string of names": ({"class_names": np.array("a,b,c")}, "is not a list of names"),
    "a name twice": ({"class_names": np.array(["a", "b", "a"])}, "'a' more than once"),
    "too few ids": ({"node_ids": np.arange(N - 1)}, "expected 120"),
    "an id twice": (
        {"node_ids": np.minimum(np.arange(N), N - 2)},
        "node_ids has 118 more than once",
    ),
}


@pytest.mark.parametrize("case", BAD_ARRAYS)
def test_a_bad_file_is_refused_with_the_reason(tmp_path, case):
    changes, message = BAD_ARRAYS[case]
    with pytest.raises(gnncal.InputError, match=re.escape(message)):
        gnncal.read_bundle(write_npz(tmp_path / "in.npz", **changes))


BAD_TABLES = {
    "no ids": ({"id": None}, "the nodes lack the column id"),
    "an id twice": (
        {"id": np.minimum(np.arange(N), N - 2).astype(str), "src": [], "dst": []},
        "node_ids has '118' more than once",
    ),
    "null ids": ({"id": [None, *map(str, range(1, N))]}, "1 row of the nodes: the id is null"),
    "ids as bytes": ({"id": [b"\xff"] * N}, "expected whole numbers or text"),
    "ids of two types": ({"id": np.arange(N)}, "use one type"),
    "unknown id": (
        {"src": ["nobody"], "dst": ["nobody"]},
        "an end is not a node (edges nobody -> nobody)",
    ),
    "no dst": ({"dst": None}, "the edges lack the column dst"),
    "unknown split": ({"split": ["dev"] * N}, "the split is not train, val or test"),
    "nobody in val": ({"split": ["train"] * N}, "val_mask is empty"),
    "a gap in z": ({"z1": None}, "without gaps"),
    "null logits": ({"z1": [None] * N}, "a logit is null"),
    "text logits": ({"z1": ["high"] * N}, "is of type string; expected numbers"),
    "unknown name": ({"label": ["cow"] * N}, "the label is not a class"),
    "labels as lists": (
        {"label": [[1], [1, 2]] * (N // 2)},
        "expected whole numbers or class names",
    ),
    "names without a list": (
        {"metadata": False, "label": ["cat"] * N},
        "write class_names.json next to the nodes",
    ),
    "names no JSON": ({"metadata": "cat, dog"}, "is not a list of names"),
    "names no list": ({"metadata": "7"}, "is 7, which is not a list of names"),
    "nested names": ({"metadata": '[["a"], ["b"], ["c"]]'}, "is not a list of names"),
    "deeply nested names": ({"metadata": "[" * 10**5}, "is not a list of names"),
    **{
        f"{column} as timestamps": (
            {column: np.full(N, "2020-01-01", "datetime64[ns]")},
            f"the column {column} of",
        )
        for column in ("id", "label", "split", "z1")
    },
}


@pytest.mark.parametrize("case", BAD_TABLES)
def test_a_bad_folder_is_refused_with_the_reason(tmp_path, case):
    changes, message = BAD_TABLES[case]
    with pytest.raises(gnncal.InputError, match=re.escape(message)):
        gnncal.read_bundle(write_parquet(tmp_path / "in", **changes))


def test_text_that_is_no_unicode_is_refused(tmp_path):
    pa = pytest.importorskip("pyarrow")
    ids = pa.array([b"\xff%d" % i for i in range(N)]).view(pa.string())
    with pytest.raises(gnncal.InputError, match="cannot be read as Parquet"):
        gnncal.read_bundle(write_parquet(tmp_path / "in", id=ids))


def test_what_is_not_there_or_no_bundle_is_refused(tmp_path):
    np.save(tmp_path / "array.npy", np.ones(3))
    (tmp_path / "empty.npz").touch()
    (tmp_path / "text.npz").write_text("hello")
    with pytest.raises(gnncal.InputError, match="file or folder not found"):
        gnncal.read_bundle(tmp_path / "absent.npz")
    with pytest.raises(gnncal.InputError, match=r"no Parquet files for nodes at .*nodes\.parquet"):
        gnncal.read_bundle(tmp_path)
    with pytest.raises(gnncal.InputError, match="single array"):
        gnncal.read_bundle(tmp_path / "array.npy")
    for name in ("empty.npz", "text.npz"):
        with pytest.raises(gnncal.InputError, match=r"cannot be read as \.npz"):
            gnncal.read_bundle(tmp_path / name)


@pytest.fixture(scope="module")
def intact(tmp_path_factory):
    folder = tmp_path_factory.mktemp("intact")
    return write_npz(folder / "in.npz"), write_parquet(folder / "in")


@settings(max_examples=100)
@given(
    st.booleans(),
    st.booleans(),
    st.floats(0, 1, exclude_max=True),
    st.integers(min_value=1, max_value=255),
)
def test_a_damaged_bundle_is_read_or_refused_never_a_crash(intact, as_folder, cut, at, flip):
    source = intact[1] / "nodes.parquet" if as_folder else intact[0]
    whole = source.read_bytes()
    damaged, position = bytearray(whole), int(at * len(whole))
    damaged[position] ^= flip
    source.write_bytes(damaged[:position] if cut else damaged)
    with suppress(gnncal.InputError):
        gnncal.read_bundle(intact[as_folder])
    source.write_bytes(whole)


@pytest.mark.parametrize(
    ("probs", "message"),
    [
        (
            np.full((N - 1, K), 1 / K),
            r"shape \(119, 3\) but the logits of the input have \(120, 3\)",
        ),
        (np.full((N, K), 0.5), "do not sum to one"),
        (np.full((N, K), np.nan), "NaN"),
    ],
)
def test_probabilities_of_another_kind_are_refused(tmp_path, probs, message):
    bundle = gnncal.read_bundle(write_npz(tmp_path / "in.npz"))
    np.savez(tmp_path / "probs.npz", probs=probs)
    with pytest.raises(gnncal.InputError, match=message):
        read_probabilities(tmp_path / "probs.npz", bundle)


def test_probabilities_of_other_nodes_are_refused(tmp_path):
    bundle = gnncal.read_bundle(write_npz(tmp_path / "in.npz"))
    others = replace(bundle, node_ids=np.array([f"other-{i}" for i in range(N)]))
    path, probs = tmp_path / "p.npz", gnncal.calibrators.softmax(bundle.logits)
    write_nodes(path, others, probs, {"probs": probs}, {})
    with pytest.raises(gnncal.InputError, match=r"unknown ids: 120"):
        read_probabilities(path, bundle)
    np.savez(tmp_path / "none.npz", p=np.ones(3))
    with pytest.raises(gnncal.InputError, match="no array 'probs'; it has p"):
        read_probabilities(tmp_path / "none.npz", bundle)
    with pytest.raises(gnncal.InputError, match="file not found"):
        read_probabilities(tmp_path / "absent.npz", bundle)


def test_without_pyarrow_a_folder_names_the_extra(tmp_path, monkeypatch):
    folder = write_parquet(tmp_path / "in")
    for module in ("pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(gnncal.MissingExtraError, match=re.escape("gnncal[parquet]")):
        gnncal.read_bundle(folder)


def npy_header(shape, dtype):
    buffer = io.BytesIO()
    header = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(buffer, header)
    return buffer.getvalue()


def with_member(path, name, content):
    """Add a member to an .npz file, compressed."""
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{name}.npy", content)
    return path


ZEROS = 2**28 + 2**20  # bytes, just over the limit; compressed they are a quarter of a megabyte


def peak_of(action):
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_bomb_in_an_unrelated_member_is_not_read(tmp_path):
    path = write_npz(tmp_path / "in.npz")
    with_member(path, "comment", npy_header((ZEROS,), "u1") + bytes(ZEROS))
    assert peak_of(lambda: gnncal.read_bundle(path)) < 2**24


def test_a_bomb_in_a_wanted_member_is_refused_before_it_is_read(tmp_path):
    path = write_npz(tmp_path / "in.npz", x=None)
    with_member(path, "x", npy_header((ZEROS,), "u1") + bytes(ZEROS))

    def refuse():
        with pytest.raises(gnncal.InputError, match=r"would unpack to 269,\d+,\d+ bytes"):
            gnncal.read_bundle(path)

    assert peak_of(refuse) < 2**24


def test_a_member_that_declares_more_than_it_has_is_refused(tmp_path):
    path = write_npz(tmp_path / "in.npz", x=None)
    with_member(path, "x", npy_header((10**12, 4), "f8") + bytes(64))
    with pytest.raises(gnncal.InputError, match="cannot be read as"):
        gnncal.read_bundle(path)


def test_python_objects_are_refused_without_advice_to_load_them(tmp_path):
    path = write_npz(tmp_path / "in.npz", x=None)
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.array([{}, {}]), allow_pickle=True)
    with_member(path, "x", buffer.getvalue())
    with pytest.raises(gnncal.InputError, match="holds Python objects") as caught:
        gnncal.read_bundle(path)
    assert "allow_pickle" not in str(caught.value)


def test_a_parquet_file_that_unpacks_to_far_more_is_refused(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    folder = write_parquet(tmp_path / "in", id=np.arange(N))
    zeros = pa.array(np.zeros(2**25, dtype=np.int64))
    pq.write_table(pa.table({"src": zeros, "dst": zeros}), folder / "edges.parquet")
    with pytest.raises(gnncal.InputError, match="would unpack to"):
        gnncal.read_bundle(folder)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("id", "a text of 1,000,000 characters"),
        ("label", "the label is not a class"),
        ("split", "the split is not train"),
    ],
)
def test_a_small_file_with_a_huge_text_takes_no_memory_and_makes_no_long_sentence(
    tmp_path, column, message
):
    """As text of one width, the 120 rows of this column would take 480 MB."""
    values = np.array([f"node-{i}" for i in range(N)], dtype=object)
    values[0] = "x" * 1_000_000
    ends = {"src": [], "dst": []}
    folder = write_parquet(tmp_path / "in", **{column: values}, **ends)

    def refuse():
        with pytest.raises(gnncal.InputError, match=message) as caught:
            gnncal.read_bundle(folder)
        assert len(str(caught.value)) < 500

    assert peak_of(refuse) < 2**24


@pytest.mark.parametrize("name", ["in.npz", "in/nodes.parquet", "in/edges.parquet"])
def test_a_pipe_in_the_place_of_a_file_is_refused_and_hangs_nobody(tmp_path, name):
    if not hasattr(os, "mkfifo"):
        pytest.skip("this system has no pipes with names")
    write_parquet(tmp_path / "in")
    (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name)
    with pytest.raises(gnncal.InputError, match=r"not found|no Parquet files for"):
        gnncal.read_bundle(tmp_path / name.partition("/")[0])
