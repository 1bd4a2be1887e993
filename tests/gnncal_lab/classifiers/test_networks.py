"""Each architecture at the same weights as PyTorch Geometric's layers, or as dense NumPy."""

import numpy as np
import pytest
from scipy import sparse

import gnncal
from gnncal_lab.classifiers import TrainingSettings

torch = pytest.importorskip("torch")

from gnncal_lab.classifiers.gat import GAT  # noqa: E402
from gnncal_lab.classifiers.gcn import GCN  # noqa: E402
from gnncal_lab.classifiers.gcnii import GCNII  # noqa: E402
from gnncal_lab.classifiers.gin import GIN  # noqa: E402
from gnncal_lab.classifiers.gprgnn import GPRGNN  # noqa: E402
from gnncal_lab.classifiers.inputs import GraphInput  # noqa: E402
from gnncal_lab.classifiers.sage import SAGE  # noqa: E402

NETWORKS = [GCN, GAT, GIN, SAGE, GCNII, GPRGNN]
N, F, K = 12, 7, 3
SETTINGS = TrainingSettings(hidden=4, n_layers=3, dropout=0.6)


def directed_edges():
    """A double edge, a loop, node 10 without senders, node 11 isolated."""
    edges = np.random.default_rng(0).integers(10, size=(2, 40))
    return np.concatenate([edges, [[0, 0, 3, 10], [1, 1, 3, 2]]], axis=1)


def undirected_edges():
    edges = directed_edges()
    return np.concatenate([edges, edges[::-1, edges[0] != edges[1]]], axis=1)


def features():
    x = np.random.default_rng(1).normal(size=(N, F)).astype(np.float32)
    x[x < 0.3] = 0
    return x


def graph_input(edges, x=None, *, as_sparse=False):
    x = features() if x is None else x
    return GraphInput(gnncal.Graph(edges, N, sparse.csr_array(x) if as_sparse else x))


def network(kind, settings=SETTINGS):
    """Evaluation mode; random weights everywhere, biases included."""
    generator = torch.Generator().manual_seed(3)
    made = kind(F, K, settings).eval()
    for parameter in made.parameters():
        parameter.data.normal_(generator=generator)
    return made


def dense_symmetric(edges):
    """D_in^-1/2 A D_out^-1/2 with degrees of zero counted as one."""
    adjacency = np.zeros((N, N))
    for u, v in edges.T:
        adjacency[v, u] += 1
    received, sent = (np.maximum(adjacency.sum(axis), 1) for axis in (1, 0))
    return adjacency / np.sqrt(np.outer(received, sent))


def arrays(parameters):
    return [p.detach().numpy().astype(float) for p in parameters]


def assert_same(ours, theirs):
    theirs = theirs.detach().numpy() if torch.is_tensor(theirs) else theirs
    np.testing.assert_allclose(ours.detach().numpy(), theirs, rtol=2e-4, atol=2e-4)


@pytest.fixture
def pyg():
    return pytest.importorskip("torch_geometric.nn")


def linear(layer, weight, bias=None):
    layer.weight.data = weight.data
    if bias is not None:
        layer.bias.data = bias.data
    return layer


# --- PyTorch Geometric


def test_gcn_is_pygs_on_an_undirected_graph(pyg):
    net, edges = network(GCN), undirected_edges()
    h, index = torch.from_numpy(features()), torch.from_numpy(edges)
    for i, (weight, bias) in enumerate(zip(net.weights, net.biases, strict=True)):
        layer = pyg.GCNConv(*weight.shape, add_self_loops=False)
        linear(layer.lin, weight.T)
        layer.bias.data = bias.data
        h = layer(h.relu() if i else h, index)
    assert_same(net(graph_input(edges)), h)


def test_gat_is_pygs(pyg):
    net, edges = network(GAT), directed_edges()
    layer = pyg.GATConv(F, 4, heads=2, add_self_loops=False)
    linear(layer.lin, net.weight.T)
    layer.att_src.data, layer.att_dst.data = net.a_source.data, net.a_target.data
    layer.bias.data = net.bias.data
    h = layer(torch.from_numpy(features()), torch.from_numpy(edges))
    assert_same(net(graph_input(edges)), net.out(h))


def test_gin_is_pygs(pyg):
    net, edges = network(GIN), directed_edges()
    h = torch.from_numpy(features())
    for i, layer in enumerate(net.layers):
        h = pyg.GINConv(layer, aggr="mean")(h.relu() if i else h, torch.from_numpy(edges))
    assert_same(net(graph_input(edges)), h)


def test_sage_is_pygs(pyg):
    net, edges = network(SAGE), directed_edges()
    h = torch.from_numpy(features())
    layers = zip(net.own, net.neighbours, net.biases, strict=True)
    for i, (own, neighbours, bias) in enumerate(layers):
        layer = pyg.SAGEConv(*own.shape, aggr="mean")
        linear(layer.lin_l, neighbours.T, bias)
        linear(layer.lin_r, own.T)
        h = layer(h.relu() if i else h, torch.from_numpy(edges))
    assert_same(net(graph_input(edges)), h)


def test_gcnii_is_pygs_on_an_undirected_graph(pyg):
    net, edges = network(GCNII), undirected_edges()
    initial = net.input(torch.from_numpy(features())).relu()
    h, index = initial, torch.from_numpy(edges)
    for depth, ours in enumerate(net.layers, start=1):
        layer = pyg.GCN2Conv(4, alpha=0.1, theta=0.5, layer=depth, add_self_loops=False)
        layer.weight1.data = ours.weight.T.data
        h = layer(h, initial, index).relu()
    assert_same(net(graph_input(edges)), net.output(h))


# --- Dense NumPy, on a directed graph


def test_gcn_divides_by_the_degree_of_each_side():
    net, edges = network(GCN), directed_edges()
    P, h = dense_symmetric(edges), features()
    for i, (W, b) in enumerate(zip(arrays(net.weights), arrays(net.biases), strict=True)):
        h = P @ (np.maximum(h, 0) if i else h) @ W + b
    assert_same(net(graph_input(edges)), h)


def test_gprgnn_is_a_weighted_sum_of_powers():
    net, edges = network(GPRGNN), directed_edges()
    P = dense_symmetric(edges)
    W1, b1, W2, b2 = arrays([*net.input.parameters(), *net.output.parameters()])
    h = np.maximum(features() @ W1.T + b1, 0) @ W2.T + b2
    gamma = net.gamma.detach().numpy()
    expected = sum(gamma[k] * np.linalg.matrix_power(P, k) @ h for k in range(11))
    assert_same(net(graph_input(edges)), expected)


def test_gprgnn_starts_from_pagerank_weights():
    gamma = GPRGNN(F, K, SETTINGS).gamma.detach().numpy()
    assert gamma.sum() == pytest.approx(1, abs=1e-6)
    np.testing.assert_allclose(gamma[:3], [0.1, 0.09, 0.081], rtol=1e-6)
    assert gamma[10] == pytest.approx(0.9**10)


# --- Laws of all


@pytest.mark.parametrize("kind", NETWORKS)
def test_sparse_and_dense_features_give_the_same_logits(kind):
    net, edges = network(kind), directed_edges()
    assert_same(net(graph_input(edges)), net(graph_input(edges, as_sparse=True)))


@pytest.mark.parametrize("kind", NETWORKS)
def test_renumbering_the_nodes_permutes_the_logits(kind):
    net, edges = network(kind), directed_edges()
    order = np.random.default_rng(5).permutation(N)  # node i becomes order[i]
    x = np.empty_like(features())
    x[order] = features()
    assert_same(net(graph_input(order[edges], x))[order], net(graph_input(edges)))


@pytest.mark.parametrize("kind", NETWORKS)
@pytest.mark.parametrize("as_sparse", [False, True])
def test_dropout_keeps_the_gradient_of_every_parameter_finite(kind, as_sparse):
    net, graph = network(kind).train(), graph_input(directed_edges(), as_sparse=as_sparse)
    reached = dict.fromkeys(net.parameters(), False)
    for _ in range(20):  # one draw may drop every path to a parameter
        net.zero_grad()
        net(graph).square().sum().backward()
        for parameter in reached:
            assert torch.isfinite(parameter.grad).all()
            reached[parameter] |= bool(parameter.grad.any())
    assert all(reached.values())


@pytest.mark.parametrize("kind", [GCN, GIN, SAGE])
def test_batch_norm_standardises_each_hidden_layer(kind):
    settings = TrainingSettings(hidden=4, n_layers=2, dropout=0.0, batch_norm=True)
    net = kind(F, K, settings).train()
    seen = []
    net.norms[0].register_forward_hook(lambda _, __, out: seen.append(out.detach()))
    net(graph_input(directed_edges()))
    torch.testing.assert_close(seen[0].mean(0), torch.zeros(4), atol=1e-5, rtol=0)
