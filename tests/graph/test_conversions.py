"""The same graph, whatever library it comes from; the same numbers, whatever the array is."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

import gnncal
from tests.methods import each_of

EDGES = np.array([[0, 1, 2, 2, 3, 1], [1, 0, 1, 2, 0, 0]])  # directed, a loop, a double edge 1 -> 0
N = 6  # nodes 4 and 5 are isolated
GRAPH = gnncal.Graph(EDGES, N)
X = np.arange(12.0, dtype=np.float32).reshape(N, 2)


def same(graph, other=GRAPH):
    return graph.fingerprint == other.fingerprint


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


# --- PyTorch Geometric and DGL


def test_from_pyg_keeps_edges_features_and_isolated_nodes(torch):
    data_module = pytest.importorskip("torch_geometric.data")
    data = data_module.Data(x=torch.tensor(X), edge_index=torch.tensor(EDGES))
    graph = gnncal.Graph.from_pyg(data)
    assert same(graph)
    np.testing.assert_array_equal(graph.features, X)
    bare = gnncal.Graph.from_pyg(data_module.Data(edge_index=torch.tensor(EDGES), num_nodes=N))
    assert same(bare)
    assert bare.features is None
    with pytest.raises(gnncal.InputError, match="nodes of several types"):
        gnncal.Graph.from_pyg(data_module.HeteroData())


@pytest.mark.parametrize("layout", ["to_sparse_coo", "to_sparse_csr"])
@pytest.mark.filterwarnings("ignore:Sparse")
def test_from_pyg_reads_sparse_features(torch, layout):
    x = getattr(torch.tensor(X), layout)()
    graph = gnncal.Graph.from_pyg(SimpleNamespace(edge_index=torch.tensor(EDGES), num_nodes=N, x=x))
    np.testing.assert_array_equal(graph.features, X)
    scipy_x = SimpleNamespace(edge_index=EDGES, num_nodes=N, x=sparse.csr_matrix(X))
    np.testing.assert_array_equal(gnncal.Graph.from_pyg(scipy_x).features.toarray(), X)


def test_from_pyg_takes_anything_with_an_edge_index():
    assert same(gnncal.Graph.from_pyg(SimpleNamespace(edge_index=EDGES, num_nodes=N)))
    with pytest.raises(gnncal.InputError, match="SimpleNamespace has neither edge_index"):
        gnncal.Graph.from_pyg(SimpleNamespace(x=X))


def test_from_pyg_warns_that_weights_are_ignored():
    data = SimpleNamespace(edge_index=EDGES, num_nodes=N, edge_weight=np.ones(6))
    with pytest.warns(gnncal.GnncalWarning, match=r"edge_weight.* are ignored") as caught:
        assert same(gnncal.Graph.from_pyg(data))
    assert caught[0].filename == __file__


class FakeDGLGraph:
    """What gnncal uses of a DGLGraph."""

    def __init__(self, edges, n_nodes, ndata, edata):
        self._edges, self._n_nodes, self.ndata, self.edata = edges, n_nodes, ndata, edata

    def edges(self):
        return self._edges[0], self._edges[1]

    def num_nodes(self):
        return self._n_nodes


def test_from_dgl_keeps_edges_features_and_isolated_nodes(torch):
    tensors = torch.tensor(EDGES, dtype=torch.int32)
    graph = gnncal.Graph.from_dgl(FakeDGLGraph(tensors, N, {"feat": torch.tensor(X)}, {}))
    assert same(graph)
    np.testing.assert_array_equal(graph.features, X)
    assert gnncal.Graph.from_dgl(FakeDGLGraph(tensors, N, {}, {})).features is None
    renamed = FakeDGLGraph(tensors, N, {"h": torch.tensor(X)}, {"w": torch.ones(6)})
    with pytest.warns(gnncal.GnncalWarning, match="ignored"):
        graph = gnncal.Graph.from_dgl(renamed, feature_key="h")
    np.testing.assert_array_equal(graph.features, X)


# --- NetworkX and SciPy


def test_from_networkx_directed_keeps_direction_loops_and_isolated_nodes():
    nx = pytest.importorskip("networkx")
    graph = nx.MultiDiGraph(list(EDGES.T))
    graph.add_nodes_from(range(N))
    order = list(graph.nodes)
    expected = gnncal.Graph(np.argsort(order)[EDGES], N)
    assert same(gnncal.Graph.from_networkx(graph), expected)
    simple = gnncal.Graph.from_networkx(nx.DiGraph(graph))
    assert simple.n_edges == GRAPH.n_edges - 1  # a DiGraph has no double edges


def test_from_networkx_undirected_gives_both_directions_and_a_loop_once():
    nx = pytest.importorskip("networkx")
    graph = nx.MultiGraph([("a", "b"), ("a", "b"), ("b", "c"), ("c", "c")])
    converted = gnncal.Graph.from_networkx(graph)
    assert same(converted, gnncal.Graph([[0, 1, 0, 1, 1, 2, 2], [1, 0, 1, 0, 2, 1, 2]], 3))
    np.testing.assert_array_equal(converted.self_loops, [0, 0, 1])
    empty = gnncal.Graph.from_networkx(nx.empty_graph(4))
    assert (empty.n_nodes, empty.n_edges) == (4, 0)


@pytest.mark.parametrize("kind", ["Graph", "DiGraph", "MultiGraph", "MultiDiGraph"])
def test_from_networkx_warns_about_weights_that_say_something(kind):
    nx = pytest.importorskip("networkx")
    graph = getattr(nx, kind)()
    graph.add_edge(0, 1, weight=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gnncal.Graph.from_networkx(graph)
    graph.add_edge(1, 2, weight=0.5)
    with pytest.warns(gnncal.GnncalWarning, match="ignored"):
        gnncal.Graph.from_networkx(graph)


@pytest.mark.parametrize("kind", ["csr_array", "csc_array", "coo_array", "lil_array", "csr_matrix"])
def test_from_scipy_reads_row_to_column(kind):
    simple = gnncal.Graph(np.unique(EDGES, axis=1), N)
    dense = np.zeros((N, N))
    dense[EDGES[0], EDGES[1]] = 1
    adjacency = getattr(sparse, kind)(dense)
    graph = gnncal.Graph.from_scipy(adjacency, features=X)
    assert same(graph, simple)
    np.testing.assert_array_equal(graph.features, X)
    np.testing.assert_array_equal(adjacency.toarray(), dense)


def test_from_scipy_counts_repeated_entries_and_drops_explicit_zeros():
    rows, columns = EDGES
    assert same(
        gnncal.Graph.from_scipy(sparse.coo_array((np.ones(6), (rows, columns)), shape=(N, N)))
    )
    values = np.append(np.ones(6), 0.0)
    entries = (values, (np.append(rows, 4), np.append(columns, 5)))
    stored = sparse.coo_array(entries, shape=(N, N))
    assert same(gnncal.Graph.from_scipy(stored))
    assert stored.nnz == 7  # the caller's matrix is left alone


def test_from_scipy_warns_about_weights_and_refuses_other_shapes():
    adjacency = sparse.csr_array(np.diag([0.5, 1.0]))
    with pytest.warns(gnncal.GnncalWarning, match="entries other than 1"):
        graph = gnncal.Graph.from_scipy(adjacency)
    assert graph.n_edges == 2
    with pytest.raises(gnncal.InputError, match=r"\(2, 3\); expected a square matrix"):
        gnncal.Graph.from_scipy(sparse.csr_array((2, 3)))


# --- torch tensors wherever an array is expected


def task(n_nodes=60, n_classes=3):
    generator = np.random.default_rng(5)
    labels = generator.integers(n_classes, size=n_nodes)
    logits = generator.normal(size=(n_nodes, n_classes)).astype(np.float32)
    logits[np.arange(n_nodes), labels] += 1
    return logits, labels, generator.integers(n_nodes, size=(2, 200)), np.arange(n_nodes) % 2 == 0


@pytest.mark.parametrize("name", each_of(gnncal.list_calibrators()))
@pytest.mark.parametrize("kind", ["float32", "float64", "bfloat16", "float16"])
@pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning")
def test_tensors_give_the_numbers_that_arrays_give(torch, name, kind):
    logits, labels, edges, mask = task()
    tensor = torch.tensor(logits).to(getattr(torch, kind)).requires_grad_()
    logits = tensor.detach().to(torch.float64 if kind == "float64" else torch.float32).numpy()
    features = np.eye(3)[labels]  # which the paper's predictor needs
    graph = gnncal.Graph(edges, len(logits), features)
    # The numbers agree after any number of epochs, and in any number of folds.
    is_network = gnncal.get_calibrator(name).needs_torch
    short = {"max_epochs": 10} if is_network else {"n_folds": 2} if name == "auto" else {}
    splits = {"calibration_nodes": mask, "train_nodes": ~mask}
    expected = gnncal.get_calibrator(name, **short).fit(logits, labels, graph, **splits)
    expected = expected.predict_proba(logits, graph)
    torch_graph = gnncal.Graph(torch.tensor(edges), len(logits), torch.tensor(features))
    assert same(torch_graph, graph)
    calibrator = gnncal.get_calibrator(name, **short)
    torch_splits = {split: torch.tensor(nodes) for split, nodes in splits.items()}
    calibrator.fit(tensor, torch.tensor(labels), torch_graph, **torch_splits)
    probs = calibrator.predict_proba(tensor, torch_graph)
    assert isinstance(probs, np.ndarray)
    np.testing.assert_array_equal(probs, expected)
    assert tensor.requires_grad


@pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning")
def test_metrics_and_homophily_take_tensors(torch):
    logits, labels, edges, mask = task()
    probs, graph = gnncal.calibrators.softmax(logits), gnncal.Graph(edges, len(logits))
    measured = gnncal.evaluate(torch.tensor(labels), torch.tensor(probs))
    assert measured == gnncal.evaluate(labels, probs)
    shares = np.random.default_rng(0).random(len(logits))
    fits = [
        gnncal.HoTS(homophily=h).fit(logits, labels, graph, calibration_nodes=mask)
        for h in (shares, torch.tensor(shares))
    ]
    np.testing.assert_array_equal(fits[0].temperature_, fits[1].temperature_)


@pytest.mark.parametrize("remove_edge_index", [True, False])
def test_from_pyg_reads_the_transposed_adjacency_of_to_sparse_tensor(torch, remove_edge_index):
    data_module = pytest.importorskip("torch_geometric.data")
    transforms = pytest.importorskip("torch_geometric.transforms")
    edges = torch.tensor([[0, 1, 1, 3], [1, 2, 0, 2]])
    data = data_module.Data(edge_index=edges, x=torch.eye(5))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls its sparse tensors a beta
        data = transforms.ToSparseTensor(remove_edge_index=remove_edge_index)(data)
    graph = gnncal.Graph.from_pyg(data)
    expected = gnncal.Graph(edges, 5, np.eye(5))
    assert graph.fingerprint == expected.fingerprint
    np.testing.assert_array_equal(graph.features, np.eye(5))


def test_from_pyg_reads_a_transposed_adjacency_of_any_layout(torch):
    edges = np.array([[0, 1, 1, 3], [1, 2, 0, 2]])
    transposed = torch.zeros(5, 5)
    transposed[edges[1], edges[0]] = 1
    expected = gnncal.Graph(edges, 5).fingerprint
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse")
        layouts = [
            transposed.to_sparse_coo(),
            transposed.to_sparse_csr(),
            transposed.to_sparse_csc(),
        ]
        other_library = SimpleNamespace(coo=lambda: (edges[1], edges[0], None))
        for adj_t in (*layouts, other_library):
            data = SimpleNamespace(adj_t=adj_t, num_nodes=5)
            assert gnncal.Graph.from_pyg(data).fingerprint == expected
        with pytest.warns(gnncal.GnncalWarning, match=r"edge weights \(adj_t\)"):
            gnncal.Graph.from_pyg(
                SimpleNamespace(adj_t=(2 * transposed).to_sparse_csr(), num_nodes=5)
            )


@pytest.mark.parametrize("read", ["load", "read_bundle"])
@pytest.mark.parametrize("path", [None, {}, [], 5, b"x", "", "a\0b", True, object()])
def test_what_is_no_path_is_refused_in_one_sentence(read, path):
    with pytest.raises(gnncal.InputError, match="pass the name of a file"):
        getattr(gnncal, read)(path)


@pytest.mark.parametrize("library", ["networkx", "dgl", "scipy"])
def test_what_is_no_graph_of_a_library_is_refused_in_one_sentence(library):
    with pytest.raises(gnncal.InputError, match=rf"is a dict; Graph\.from_{library} reads a"):
        getattr(gnncal.Graph, f"from_{library}")({0: [1]})


@pytest.mark.parametrize("has_type", [False, True])
def test_typed_nodes_without_a_number_ask_for_it(torch, has_type):
    data = pytest.importorskip("torch_geometric.data").HeteroData()
    data["account", "pays", "account"].edge_index = torch.tensor([[0, 1], [1, 0]])
    if has_type:
        data["account"].name = "accounts"
    with pytest.raises(gnncal.InputError, match=r"set data\['account'\]\.num_nodes"):
        gnncal.Graph.of_type(data, "account")


def test_tensors_without_values_are_refused(torch):
    task = gnncal.example()
    empty = torch.zeros(task.logits.shape, device="meta")
    with pytest.raises(gnncal.InputError, match="device meta has a shape and no values"):
        gnncal.calibrate(empty, task.labels, task.graph, calibration_nodes=task.calibration_nodes)
    with pytest.raises(gnncal.InputError, match="device meta has a shape and no values"):
        gnncal.Graph(torch.zeros(2, 3, dtype=torch.long, device="meta"), 5)
