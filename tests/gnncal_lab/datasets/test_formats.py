"""Each raw format, on files small enough to see the answer."""

import os
import pickle

import numpy as np
import pytest
from scipy import sparse

import gnncal
from gnncal_lab.datasets import load
from tests.gnncal_lab.datasets import files


def edges_of(dataset):
    return sorted(zip(*dataset.graph.edge_index.tolist(), strict=True))


def features_of(dataset):
    x = dataset.graph.features
    return x.toarray() if sparse.issparse(x) else x


def test_planetoid_places_test_rows_normalises_them_and_keeps_one_loop_a_node(tmp_path):
    files.write_planetoid(tmp_path)
    data = load("Cora", tmp_path)
    expected = [[0.5, 0.5, 0], [0, 1, 0], [0, 0, 0], [0, 0, 1], [0, 0, 0], [0.25, 0, 0.75]]
    np.testing.assert_array_equal(features_of(data), np.array(expected, dtype=np.float32))
    assert data.labels.tolist() == [0, 1, 2, 1, 0, 2]  # the node without a row gets class 0
    pairs = [(0, 1), (1, 2), (0, 3), (3, 5)]
    expected = [*pairs, *((v, u) for u, v in pairs), *((i, i) for i in range(6))]
    assert edges_of(data) == sorted(expected)


def test_a_pickle_that_asks_for_more_than_arrays_is_refused_and_not_run(tmp_path):
    files.write_planetoid(tmp_path)
    trace = tmp_path / "trace"

    class Intruder:
        def __reduce__(self):
            return os.mkdir, (str(trace),)

    path = tmp_path / "Cora/raw/ind.cora.graph"
    path.write_bytes(pickle.dumps(Intruder(), protocol=3))
    with pytest.raises(gnncal.InputError, match="not data"):
        load("Cora", tmp_path)
    assert not trace.exists()


def test_a_pickled_matrix_with_a_wild_index_is_refused(tmp_path):
    files.write_planetoid(tmp_path)
    matrix = sparse.csr_matrix(np.eye(3))
    matrix.indices[1] = 10**6
    (tmp_path / "Cora/raw/ind.cora.allx").write_bytes(pickle.dumps(matrix, protocol=3))
    with pytest.raises(gnncal.InputError, match=r"Cora in .* cannot be read"):
        load("Cora", tmp_path)


def test_geom_gcn_edges_run_from_the_second_column_to_the_first(tmp_path):
    rows = [(1, "0,0,3", 0), (0, "1,0,0", 2), (2, "0,0,0", 1)]  # rows in any order
    files.write_geom_gcn(tmp_path, "Chameleon", rows, [(0, 1), (0, 1), (2, 2), (1, 2)])
    data = load("Chameleon", tmp_path)
    assert edges_of(data) == [(1, 0), (1, 0), (2, 1), (2, 2)]  # duplicates and loops stay
    np.testing.assert_array_equal(features_of(data), [[1, 0, 0], [0, 0, 3], [0, 0, 0]])
    assert data.labels.tolist() == [2, 0, 1]
    assert data.n_classes == 3


def test_actor_lists_positions_keeps_duplicate_edges_and_gets_loops(tmp_path):
    rows = [(0, "2,4", 1), (1, "0,0", 0)]
    header = "node_id\tfeature_amount_932\tlabel"
    files.write_geom_gcn(tmp_path, "Actor", rows, [(0, 1), (0, 1), (1, 1)], header)
    data = load("Actor", tmp_path)
    np.testing.assert_array_equal(features_of(data), [[0, 0, 1, 0, 1], [1, 0, 0, 0, 0]])
    assert edges_of(data) == [(0, 0), (1, 0), (1, 0), (1, 1)]


@pytest.mark.parametrize(
    ("name", "loops"), [("CS", [(0, 0)]), ("CoraFull", [(0, 0), (1, 1), (2, 2)])]
)
def test_gnnbench_keeps_the_largest_component_and_counts_of_words(tmp_path, name, loops):
    adjacency = np.zeros((5, 5))
    adjacency[[1, 3, 1, 0, 4], [3, 1, 1, 4, 0]] = 1  # components {1, 3} with 2 -> 3, and {0, 4}
    adjacency[2, 3] = 1
    features = np.array([[9, 9], [4, 0], [0, 0], [0, 7], [9, 9]])
    files.write_gnnbench(tmp_path, name, adjacency, features, [0, 1, 2, 1, 0])
    data = load(name, tmp_path)
    assert edges_of(data) == sorted([(0, 2), (2, 0), (1, 2), (2, 1), *loops])
    np.testing.assert_array_equal(features_of(data), [[4, 0], [0, 0], [0, 7]])
    assert data.labels.tolist() == [1, 2, 1]


def test_roman_empire_lists_each_pair_once(tmp_path):
    x = np.array([[0.5, -1], [2, 0.1], [3, 3]], dtype=np.float32)
    files.write_heterophilous(tmp_path, "Roman-Empire", x, [2, 0, 1], np.array([[0, 1], [2, 1]]))
    data = load("roman-empire", tmp_path)  # case does not matter
    assert data.name == "Roman-Empire"
    assert edges_of(data) == [(0, 1), (1, 0), (1, 2), (2, 1)]
    np.testing.assert_array_equal(features_of(data), x)


def test_arxiv_appends_reverse_edges_and_keeps_duplicates(tmp_path):
    edges = [(0, 1), (1, 0), (2, 0)]
    files.write_ogb(tmp_path, [(0.25, -1), (1, 2), (3, 4)], [(3,), (0,), (1,)], edges)
    data = load("ogbn-arxiv", tmp_path)
    loops = [(i, i) for i in range(3)]
    assert edges_of(data) == sorted([*edges, *((v, u) for u, v in edges), *loops])
    np.testing.assert_array_equal(features_of(data), [[0.25, -1], [1, 2], [3, 4]])
    assert data.labels.tolist() == [3, 0, 1]


def test_reddit_comes_in_two_files(tmp_path):
    x = np.array([[0.5, 1], [2, 3], [4, 5]])
    files.write_reddit(tmp_path, x, [1, 0, 1], [(0, 1), (1, 0)])
    data = load("Reddit", tmp_path)
    assert edges_of(data) == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 2)]
    np.testing.assert_array_equal(features_of(data), x)
    assert data.graph.features.dtype == np.float32


# --- files that say something impossible


def refused(name, root):
    with pytest.raises(gnncal.InputError, match=rf"{name} in .* cannot be read") as caught:
        load(name, root)
    return str(caught.value)


@pytest.mark.parametrize("indptr", [[0, 10**9, 2, 2], [0, 2, 1, 2], [0, 10**9, 0, 0]])
def test_a_matrix_of_edges_with_wild_rows_is_refused(tmp_path, indptr):
    files.write_reddit(tmp_path, np.eye(3), [1, 0, 1], [(0, 1), (1, 0)])
    parts = {"indices": [1, 0], "indptr": indptr, "data": [1.0, 1.0], "shape": [3, 3]}
    np.savez(tmp_path / "Reddit/raw/reddit_graph.npz", format=b"csr", **parts)
    refused("Reddit", tmp_path)


def test_a_matrix_of_edges_may_be_csr_but_nothing_else(tmp_path):
    files.write_reddit(tmp_path, np.eye(3), [1, 0, 1], [(0, 1), (1, 0)])
    graph = tmp_path / "Reddit/raw/reddit_graph.npz"
    edges = edges_of(load("Reddit", tmp_path))
    matrix = sparse.load_npz(graph)
    sparse.save_npz(graph, matrix.tocsr())
    assert edges_of(load("Reddit", tmp_path)) == edges
    sparse.save_npz(graph, matrix.tocsc())
    assert "csc" in refused("Reddit", tmp_path)


def test_a_negative_position_is_refused(tmp_path):
    rows = [(0, "2,4", 1), (1, "0,-4", 0)]
    files.write_geom_gcn(tmp_path, "Actor", rows, [(0, 1)], "node_id\tfeature_amount_932\tlabel")
    refused("Actor", tmp_path)


@pytest.mark.parametrize("ids", [(0, 1, 1), (0, 1, 3), (1, 2, 3), (-1, 0, 1)])
def test_node_ids_are_all_there_once(tmp_path, ids):
    rows = [(i, "0,1", 0) for i in ids]
    files.write_geom_gcn(tmp_path, "Texas", rows, [(0, 1)])
    assert "node ids" in refused("Texas", tmp_path)


def test_features_that_are_no_numbers_are_refused(tmp_path):
    rows = [(0, "1,x,3", 0), (1, "1,x,3", 1)]  # read up to the x, both have one feature
    files.write_geom_gcn(tmp_path, "Texas", rows, [(0, 1)])
    refused("Texas", tmp_path)


@pytest.mark.parametrize("index", ["5\n5\n", "5\n0\n", "5\n6\n", "5\n3\n4\n"])
def test_test_rows_belong_to_one_node_each(tmp_path, index):
    files.write_planetoid(tmp_path)
    (tmp_path / "Cora/raw/ind.cora.test.index").write_text(index)
    refused("Cora", tmp_path)


def test_planetoid_labels_stand_beside_their_features(tmp_path):
    files.write_planetoid(tmp_path)
    for part, classes in (("ally", [0, 1]), ("ty", [2, 1, 0])):  # five of both in total
        payload = pickle.dumps(np.eye(3)[classes], protocol=3)
        (tmp_path / f"Cora/raw/ind.cora.{part}").write_bytes(payload)
    refused("Cora", tmp_path)


@pytest.mark.parametrize("neighbour", [-1, 6])
def test_an_edge_to_a_node_that_is_not_there_becomes_no_other_edge(tmp_path, neighbour):
    files.write_planetoid(tmp_path)
    graph = {0: [1], 1: [neighbour], 2: [], 3: [], 4: [], 5: []}
    (tmp_path / "Cora/raw/ind.cora.graph").write_bytes(pickle.dumps(graph, protocol=3))
    assert "an edge names a node" in refused("Cora", tmp_path)


@pytest.mark.parametrize("name", ["CS", "tolokers", "ogbn-arxiv", "Reddit"])
@pytest.mark.parametrize("n_rows", [2, 4])
def test_there_are_as_many_rows_of_features_as_labels(tmp_path, name, n_rows):
    x, labels, pairs = np.ones((n_rows, 2)), [0, 1, 0], [(0, 1), (1, 2), (2, 0)]
    if name == "CS":
        files.write_gnnbench(tmp_path, name, np.ones((3, 3)), x, labels)
    elif name == "tolokers":
        files.write_heterophilous(tmp_path, name, x, labels, np.array(pairs))
    elif name == "ogbn-arxiv":
        files.write_ogb(tmp_path, x.tolist(), [(label,) for label in labels], pairs)
    else:
        files.write_reddit(tmp_path, x, labels, pairs)
    assert f"{n_rows} rows of features but 3 labels" in refused(name, tmp_path)


def test_a_damaged_raw_file_is_an_input_error(tmp_path):
    files.folder_of("CS", tmp_path).joinpath("ms_academic_cs.npz").write_bytes(b"PK half a file")
    with pytest.raises(gnncal.InputError, match=r"raw files of CS in .*CS/raw cannot be read"):
        load("CS", tmp_path)


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(
        gnncal.InputError, match=r"unknown data set 'Korah'; expected one of Cora, Cite"
    ):
        load("Korah")
