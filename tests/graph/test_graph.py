"""The graph: who sends to whom, and every kind of edge."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import gnncal


@st.composite
def edge_lists(draw):
    n_nodes = draw(st.integers(1, 12))
    pairs = draw(st.lists(st.tuples(*[st.integers(0, n_nodes - 1)] * 2), max_size=40))
    return np.array(pairs, dtype=np.int64).reshape(-1, 2).T, n_nodes


def dense(edges, n_nodes):
    """A[i, j] = number of edges from j to i, one edge at a time."""
    matrix = np.zeros((n_nodes, n_nodes))
    for sender, receiver in edges.T:
        matrix[receiver, sender] += 1
    return matrix


@given(edge_lists())
def test_adjacency_counts_every_edge_from_sender_to_receiver(case):
    edges, n_nodes = case
    graph = gnncal.Graph(edges, n_nodes)
    expected = dense(edges, n_nodes)
    np.testing.assert_array_equal(graph.adjacency().toarray(), expected)
    np.testing.assert_array_equal(graph.in_degree, expected.sum(axis=1))
    np.testing.assert_array_equal(graph.out_degree, expected.sum(axis=0))
    np.testing.assert_array_equal(graph.self_loops, np.diag(expected))
    np.testing.assert_array_equal(graph.reversed.adjacency().toarray(), expected.T)


@given(edge_lists(), st.integers(0, 99))
def test_the_order_of_edges_never_matters(case, seed):
    edges, n_nodes = case
    shuffled = edges[:, np.random.default_rng(seed).permutation(edges.shape[1])]
    first, second = gnncal.Graph(edges, n_nodes), gnncal.Graph(shuffled, n_nodes)
    np.testing.assert_array_equal(first.indices, second.indices)
    assert first.fingerprint == second.fingerprint


@given(edge_lists())
def test_fingerprints_tell_graphs_apart(case):
    edges, n_nodes = case
    graph = gnncal.Graph(edges, n_nodes)
    assert graph.fingerprint != gnncal.Graph(edges, n_nodes + 1).fingerprint
    more = np.concatenate([edges, [[0], [0]]], axis=1)
    assert graph.fingerprint != gnncal.Graph(more, n_nodes).fingerprint


@given(edge_lists())
def test_neighbour_means_leave_self_loops_out_and_count_multi_edges(case):
    edges, n_nodes = case
    values = np.arange(2.0 * n_nodes).reshape(n_nodes, 2)
    sent = dense(edges, n_nodes)
    for side, matrix in (("in", sent.copy()), ("out", sent.T.copy()), ("both", sent + sent.T)):
        np.fill_diagonal(matrix, 0)
        found = gnncal.Graph(edges, n_nodes).neighbour_mean(values, side=side)
        for node in range(n_nodes):
            if matrix[node].sum() == 0:
                assert np.isnan(found[node]).all()
            else:
                np.testing.assert_allclose(found[node], np.average(values, 0, matrix[node]))


@given(edge_lists(), st.booleans())
def test_normalised_adjacency_has_in_degree_left_and_out_degree_right(case, add_self_loops):
    edges, n_nodes = case
    matrix = dense(edges, n_nodes)
    if add_self_loops:
        matrix += np.diag(np.diag(matrix) == 0)
    receiving = np.maximum(matrix.sum(axis=1), 1) ** -0.5
    sending = np.maximum(matrix.sum(axis=0), 1) ** -0.5
    graph = gnncal.Graph(edges, n_nodes)
    found = graph.normalised_adjacency(add_self_loops=add_self_loops, dtype=np.float64)
    np.testing.assert_allclose(found.toarray(), receiving[:, None] * matrix * sending)


def test_a_directed_path_by_hand():
    graph = gnncal.Graph([[0, 1, 1], [1, 2, 2]])  # 0 -> 1, 1 => 2 twice
    assert (graph.n_nodes, graph.n_edges) == (3, 3)
    assert graph.in_degree.tolist() == [0, 1, 2]
    assert graph.out_degree.tolist() == [1, 2, 0]
    # 1 / sqrt(in 1 * out 1) and 2 / sqrt(in 2 * out 2)
    matrix = graph.normalised_adjacency(add_self_loops=False).toarray()
    np.testing.assert_allclose(matrix[1, 0], 1.0)
    np.testing.assert_allclose(matrix[2, 1], 1.0)


def test_the_graph_is_frozen_and_small():
    graph = gnncal.Graph([[0], [1]], features=np.eye(2))
    with pytest.raises(AttributeError):
        graph.n_nodes = 3
    with pytest.raises(ValueError, match="read-only"):
        graph.indices[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        graph.features[0, 0] = 5
    assert graph.indices.dtype == graph.indptr.dtype == np.int32
    assert repr(graph) == "Graph(n_nodes=2, n_edges=1, n_features=2)"


def test_the_caller_keeps_a_writable_array_of_features():
    features = np.eye(2)
    gnncal.Graph([[0], [1]], features=features)
    features[0, 0] = 7


def test_features_may_be_sparse_and_set_the_number_of_nodes():
    graph = gnncal.Graph([[0], [1]], features=sparse.eye_array(5, format="coo"))
    assert graph.n_nodes == 5
    assert isinstance(graph.features, sparse.csr_array)


@pytest.mark.parametrize(
    ("edges", "options", "message"),
    [
        ([[0.0], [1.0]], {}, "float64; expected integer"),
        ([[0, 1]], {}, r"shape \(1, 2\); expected \(2, n_edges\)"),
        ([[0, 1], [1, 2], [2, 0]], {}, "Transpose"),
        ([[0], [-1]], {}, "names node -1"),
        ([[0], [5]], {"n_nodes": 3}, "names node 5 but there are 3 nodes"),
        (np.zeros((2, 0), int), {}, "pass n_nodes"),
        ([[0], [1]], {"n_nodes": 2, "features": np.eye(3)}, "features has 3 rows but the graph"),
        ([[0], [1]], {"features": np.array([[np.nan], [0]])}, "NaN"),
        ([[0], [1]], {"features": np.zeros(2)}, "expected \\(n_nodes, n_features\\)"),
        ([[0], [1]], {"features": np.array([["a"], ["b"]])}, "expected real numbers"),
    ],
)
def test_bad_graphs_are_refused_with_a_reason(edges, options, message):
    with pytest.raises(gnncal.InputError, match=message):
        gnncal.Graph(edges, **options)


@pytest.mark.parametrize("n_nodes", [10**12, 10**400])
def test_more_nodes_than_can_be_are_refused_before_any_memory_is_taken(n_nodes):
    with pytest.raises(gnncal.InputError, match="at most 2\\*\\*31 nodes are supported"):
        gnncal.Graph([[0, 1], [1, 0]], n_nodes)


def test_ids_that_are_taken_for_node_numbers_are_told_how_to_become_numbers():
    with pytest.raises(gnncal.InputError, match=r"a node is called 1000000000000; .*np\.unique"):
        gnncal.Graph([[0, 1], [1, 10**12]])


@pytest.mark.parametrize(
    "edges",
    [None, {}, "x", 5, object(), [[0, 1], [1]], [["a"], ["b"]], [[0.5], [1.5]], [0, 1], {1}],
)
def test_what_is_no_edge_index_is_refused(edges):
    with pytest.raises(gnncal.InputError):
        gnncal.Graph(edges, 3)


@pytest.mark.parametrize("features", [{}, "x", 5, [[1], [2, 3]], [["a"]], [[None]], object()])
def test_what_is_no_feature_matrix_is_refused(features):
    with pytest.raises(gnncal.InputError):
        gnncal.Graph([[0], [0]], 1, features)


def test_nobody_can_write_to_the_edges_of_a_graph():
    edges = np.array([[0, 1, 2], [1, 2, 0]], dtype=np.int32)
    graph = gnncal.Graph(edges, 3)
    edges[:] = 99
    for name in ("indptr", "indices", "in_degree", "out_degree", "self_loops"):
        array = getattr(graph, name)
        with pytest.raises(ValueError, match="cannot set WRITEABLE"):
            array.flags.writeable = True
        assert not isinstance(array.base, np.ndarray)  # whose entries could be set
    assert graph.edge_index.tolist() == [[2, 0, 1], [0, 1, 2]]


def test_a_pickle_is_read_like_any_list_of_edges():
    graph = gnncal.Graph([[0, 1, 1], [1, 0, 0]], 3, features=np.ones((3, 2)))
    again = pickle.loads(pickle.dumps(graph))
    assert again.fingerprint == graph.fingerprint
    assert not again.indices.flags.writeable
    forged = gnncal.Graph.__new__(gnncal.Graph)
    with pytest.raises(gnncal.InputError, match="edge_index names node 7"):
        forged.__setstate__({**graph.__getstate__(), "edge_index": np.array([[0], [7]])})
    bad = pickle.dumps(graph).replace(graph.edge_index.tobytes(), b"\x7f" * 24)
    with pytest.raises(gnncal.InputError, match="edge_index names node"):
        pickle.loads(bad)
