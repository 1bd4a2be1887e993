"""A calibrated model gives the probabilities of its calibrator, from the model's own inputs."""

import copy
import warnings

import numpy as np
import pytest

import gnncal

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from torch_geometric.data import Data, HeteroData  # noqa: E402
from torch_geometric.nn import GCN, GraphSAGE, SAGEConv, to_hetero  # noqa: E402
from torch_geometric.transforms import ToSparseTensor  # noqa: E402
from torch_geometric.utils import k_hop_subgraph, subgraph, to_undirected  # noqa: E402

from gnncal.torch import CalibratedModel  # noqa: E402
from gnncal.torch.inputs import hops_of  # noqa: E402
from tests.fraud import fraud_task  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning", "ignore:Sparse")
N_NODES, N_CLASSES = 90, 3
METHODS = ("ts", "vs", "hots", "rbs", "structural-temperature", "structural")


def make_data():
    generator = np.random.default_rng(3)
    labels = generator.integers(N_CLASSES, size=N_NODES)
    pairs = generator.integers(N_NODES, size=(2, 150))
    edges = np.unique(np.concatenate([pairs, pairs[::-1]], axis=1), axis=1)
    x = np.eye(N_CLASSES)[labels] + generator.normal(size=(N_NODES, N_CLASSES))
    masks = np.arange(N_NODES) % 3
    return Data(
        x=torch.tensor(x, dtype=torch.float32),
        y=torch.from_numpy(labels),
        edge_index=torch.from_numpy(edges),
        train_mask=torch.from_numpy(masks == 0),
        val_mask=torch.from_numpy(masks == 1),
    )


@pytest.fixture(scope="module")
def data():
    return make_data()


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return GCN(N_CLASSES, 16, 2, N_CLASSES, dropout=0.5)


def logits_of(model, data):
    model = copy.deepcopy(model).eval()
    with torch.no_grad():
        return model(data.x, data.edge_index)


@pytest.mark.parametrize("method", METHODS)
def test_a_calibrated_model_gives_the_calibrators_probabilities(model, data, method):
    calibrated = CalibratedModel.fit(model, data, method=method).eval()
    logits = logits_of(model, data).numpy()
    calibrator = gnncal.get_calibrator(method)
    calibrator.fit(
        logits, data.y, data, calibration_nodes=data.val_mask, train_nodes=data.train_mask
    )
    expected = calibrator.predict_proba(logits, data)
    np.testing.assert_allclose(calibrated.predict(data), expected, atol=1e-5)
    found = calibrated(data.x, data.edge_index).detach()
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_one_answer_says_whether_predictions_may_change(model, data):
    assert CalibratedModel.fit(model, data, keep_predictions=True).fitted.keep_predictions
    assert not CalibratedModel.fit(model, data, keep_predictions=False).fitted.keep_predictions
    with pytest.raises(gnncal.InputError, match="ts keeps every prediction"):
        CalibratedModel.fit(model, data, method="ts", keep_predictions=False)


def test_fitting_trains_nothing_and_leaves_every_mode_as_it_was(data):
    net = torch.nn.Sequential(torch.nn.BatchNorm1d(N_CLASSES), torch.nn.Dropout(), torch.nn.ReLU())

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net, self.calls = net, 0

        def forward(self, x, edge_index):
            self.calls += 1
            assert not self.training
            assert not torch.is_grad_enabled()
            return self.net(x) + x

    model = Model().train()
    model.net[1].eval()
    before = copy.deepcopy(model.state_dict())
    modes = [part.training for part in model.modules()]
    CalibratedModel.fit(model, data)
    assert model.calls == 1
    assert [part.training for part in model.modules()] == modes
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_gradients_reach_the_model_through_the_calibrator(model, data):
    calibrated = CalibratedModel.fit(copy.deepcopy(model), data).train()
    probs = calibrated(data.x, data.edge_index)
    torch.nn.functional.nll_loss(probs.log(), data.y).backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in calibrated.model.parameters())


def test_what_is_missing_is_told(model, data):
    without_labels, without_mask = copy.copy(data), copy.copy(data)
    without_labels.y = without_mask.val_mask = None
    with pytest.raises(gnncal.InputError, match=r"has no val_mask.*RandomNodeSplit"):
        CalibratedModel.fit(None, without_mask)  # before the model runs
    with pytest.raises(gnncal.InputError, match="labels is missing"):
        CalibratedModel.fit(model, without_labels)


def test_a_method_without_a_module_is_refused(model, data):
    with pytest.raises(gnncal.InputError, match="cannot become a torch module"):
        CalibratedModel.fit(model, data, method="isotonic")


def test_a_model_that_needs_more_inputs_is_called_by_the_user(model, data):
    plain = CalibratedModel.fit(model, data)
    own = CalibratedModel.fit(model, data, forward=lambda m, d: m(d.x, edge_index=d.edge_index))
    assert torch.equal(plain.predict(data), own.predict(data))


@pytest.mark.parametrize("method", ["hots", "structural"])
def test_a_sparse_adjacency_serves_like_its_edges(model, data, method):
    sparse = ToSparseTensor(layout=torch.sparse_csr)(copy.copy(data))
    assert "edge_index" not in sparse
    from_list = CalibratedModel.fit(model, data, method=method)
    from_adjacency = CalibratedModel.fit(model, sparse, method=method)
    np.testing.assert_allclose(from_adjacency.predict(sparse), from_list.predict(data), atol=1e-5)


def hetero_data(data):
    hetero = HeteroData()
    for name in ("x", "y", "train_mask", "val_mask"):
        hetero["paper"][name] = data[name]
    hetero["author"].x = torch.ones(5, 2)
    hetero["paper", "cites", "paper"].edge_index = data.edge_index
    written = torch.stack([torch.arange(N_NODES) % 5, torch.arange(N_NODES)])
    hetero["author", "writes", "paper"].edge_index = written
    hetero["paper", "written_by", "author"].edge_index = written.flip(0)
    return hetero


class TwoLayers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = SAGEConv((-1, -1), 8), SAGEConv((-1, -1), N_CLASSES)

    def forward(self, x, edge_index):
        return self.second(self.first(x, edge_index).relu(), edge_index)


def test_one_node_type_of_a_heterogeneous_graph_is_calibrated(data):
    hetero = hetero_data(data)
    model = to_hetero(TwoLayers(), hetero.metadata())
    calibrated = CalibratedModel.fit(model, hetero, method="hots")
    with torch.no_grad():
        logits = model.eval()(hetero.x_dict, hetero.edge_index_dict)["paper"].numpy()
    expected = calibrated.fitted.predict_proba(logits, gnncal.Graph(data.edge_index, N_NODES))
    np.testing.assert_allclose(calibrated.predict(hetero), expected, atol=1e-5)
    del hetero["paper", "cites", "paper"]
    model = to_hetero(TwoLayers(), hetero.metadata())
    calibrated = CalibratedModel.fit(model, hetero)  # neighbours have an author in common
    with torch.no_grad():
        logits = model.eval()(hetero.x_dict, hetero.edge_index_dict)["paper"].numpy()
    graph = gnncal.Graph.of_type(hetero, "paper")
    expected = calibrated.fitted.predict_proba(logits, graph)
    np.testing.assert_allclose(calibrated.predict(hetero), expected, atol=1e-5)
    with pytest.raises(gnncal.InputError, match=r"node_type is 'papper' .did you mean 'paper'"):
        CalibratedModel.fit(model, hetero, node_type="papper")


def test_saved_together_model_and_calibrator_come_back_together(model, data, tmp_path):
    calibrated = CalibratedModel.fit(model, data)
    calibrated.save(tmp_path / "run")
    blank = GCN(N_CLASSES, 16, 2, N_CLASSES, dropout=0.5)
    loaded = CalibratedModel.load(tmp_path / "run", blank)
    assert torch.equal(loaded.predict(data), calibrated.predict(data))
    assert set(loaded.state_dict()) == set(calibrated.state_dict())


def batch_of(data, seeds, n_hops):
    """The neighbourhood of some nodes, with every edge inside it; the seeds come first."""
    reached, _, _, _ = k_hop_subgraph(seeds, n_hops, data.edge_index)
    others = reached[~torch.isin(reached, seeds)]
    n_id = torch.cat([seeds, others])
    place = torch.full((N_NODES,), -1)
    place[n_id] = torch.arange(len(n_id))
    edges = place[data.edge_index]
    edges = edges[:, (edges >= 0).all(0)]
    return Data(x=data.x[n_id], edge_index=edges, n_id=n_id, batch_size=len(seeds))


@pytest.mark.parametrize("method", METHODS)
def test_a_batch_with_the_hops_of_model_and_calibrator_is_exact(model, data, method):
    calibrated = CalibratedModel.fit(model, data, method=method)
    seeds = torch.tensor([5, 17, 60])
    whole = calibrated.predict(data)[seeds]
    n_hops = 3 + calibrated.calibrator.hops  # two layers, and the degrees of their senders
    batch = batch_of(data, seeds, n_hops)
    calibrated.check_batch(batch, data)
    np.testing.assert_allclose(calibrated.predict(batch), whole, atol=1e-6)
    with pytest.raises(gnncal.InputError, match=rf"num_neighbors=\[-1\] \* {n_hops}"):
        calibrated.check_batch(batch_of(data, seeds, 1), data)


def test_a_one_hop_neighbourhood_reproduces_hots_and_an_isolated_seed_does_not():
    star = gnncal.Graph([[1, 2, 3], [0, 0, 0]], 4)  # three nodes send to the seed
    logits = np.array([[2.0, 0.0], [-3.0, 0.0], [-3.0, 0.0], [3.0, 0.0]])
    calibrator = gnncal.HoTS().fit(logits, [0, 1, 0, 1], star, calibration_nodes=np.arange(4))
    calibrator.base_temperature_, calibrator.beta_, calibrator.alpha_ = 0.5, 0.5, 1.0
    calibrator.isolated_homophily_ = 1.0
    module, z = calibrator.to_torch(), torch.from_numpy(logits)
    exact = calibrator.predict_proba(logits, star)[0]
    neighbourhood = torch.tensor([[1, 2, 3], [0, 0, 0]])
    alone = module(z[:1], torch.zeros(2, 0, dtype=torch.long))[0]
    np.testing.assert_allclose(module(z, neighbourhood)[0], exact, atol=1e-12)
    assert abs(alone[0] - exact[0]) > 0.15


@pytest.mark.parametrize("method", ["ts", "structural"])
def test_a_batch_of_graphsage_needs_no_degrees_of_senders(data, method):
    torch.manual_seed(0)
    calibrated = CalibratedModel.fit(GraphSAGE(N_CLASSES, 16, 2, N_CLASSES), data, method=method)
    seeds, n_hops = torch.tensor([5, 17, 60]), 2 + calibrated.calibrator.hops
    batch = batch_of(data, seeds, n_hops)
    calibrated.check_batch(batch, data)
    np.testing.assert_allclose(
        calibrated.predict(batch), calibrated.predict(data)[seeds], atol=1e-6
    )
    with pytest.raises(gnncal.InputError, match=rf"num_neighbors=\[-1\] \* {n_hops}"):
        calibrated.check_batch(batch_of(data, seeds, n_hops - 1), data)


def test_predict_calls_the_forward_that_fit_was_given(model, data, tmp_path):
    def forward(model, data):
        return 3 * model(data.x, data.edge_index)

    calibrated = CalibratedModel.fit(model, data, method="ts", forward=forward)
    expected = calibrated.fitted.predict_proba(3 * logits_of(model, data).numpy())
    np.testing.assert_allclose(calibrated.predict(data), expected, atol=1e-6)
    calibrated.save(tmp_path)
    again = CalibratedModel.load(tmp_path, copy.deepcopy(model), forward=forward)
    np.testing.assert_allclose(again.predict(data), expected, atol=1e-6)


class Loader:
    """What NeighborLoader gives, without its compiled sampler: all neighbours of each batch."""

    def __init__(self, data, nodes):
        self.data, self.nodes = data, nodes

    def __iter__(self):
        for seeds in self.nodes.split(40):
            yield batch_of(self.data, seeds, 4)


@pytest.mark.parametrize("method", ["svs", "structural"])
def test_a_loader_over_all_nodes_serves_like_the_whole_graph(model, data, method):
    loader = Loader(data, torch.randperm(N_NODES))
    whole = CalibratedModel.fit(model, data, method=method)
    found = CalibratedModel.fit(model, loader, method=method)
    np.testing.assert_allclose(found.predict(loader), whole.predict(data), atol=1e-5)


def test_a_loader_over_some_nodes_is_refused(model, data):
    with pytest.raises(gnncal.InputError, match=r"50 of 90 nodes as seed nodes.*input_nodes=None"):
        CalibratedModel.fit(model, Loader(data, torch.arange(50)))


@pytest.mark.filterwarnings("error:.*neighbours seem to be missing")
def test_seed_nodes_without_their_neighbours_are_noticed(model, data):
    calibrated = CalibratedModel.fit(model, data)
    seeds = torch.arange(30)
    calibrated.predict(data)
    calibrated.predict(batch_of(data, seeds, 5))
    logits = logits_of(model, data)
    calibrated.calibrator(logits, data.edge_index)
    no_edges = data.edge_index[:, :0]
    with pytest.warns(gnncal.GnncalWarning, match=r"100% of these 90 nodes have no neighbour"):
        calibrated.calibrator(logits, no_edges)
    sampled = batch_of(data, seeds, 5)
    kept = np.unique(sampled.edge_index[1], return_index=True)[1]  # one sender for each node
    sampled.edge_index = sampled.edge_index[:, kept]
    with pytest.warns(
        gnncal.GnncalWarning, match=r"0% of these 30 nodes have \d neighbours or more"
    ):
        calibrated.predict(sampled)


def neighbourhood_of(edges, seeds, hops):
    """Nodes within some hops along edges in both directions, and all edges among them."""
    nodes = k_hop_subgraph(
        seeds, hops, to_undirected(edges), num_nodes=N_NODES, relabel_nodes=True
    )[0]
    return nodes, subgraph(nodes, edges, relabel_nodes=True, num_nodes=N_NODES)[0]


def in_edges_of(edges, seeds, hops):
    """Edges to the nodes of fewer hops, as NeighborLoader gives them."""
    nodes, is_loaded = seeds, torch.zeros(edges.shape[1], dtype=torch.bool)
    for _ in range(hops):
        is_loaded |= torch.isin(edges[1], nodes)
        nodes = torch.cat([nodes, edges[0, is_loaded]]).unique()
    return nodes, torch.searchsorted(nodes, edges[:, is_loaded])


def graphs(data):
    """The undirected graph of the data, with a self-loop and a double edge, and a directed one."""
    more = torch.tensor([[5, 7, 8, 7, 8], [5, 8, 7, 8, 7]])
    edges = torch.cat([data.edge_index, more], dim=1)
    return {"undirected": edges, "directed": edges[:, torch.arange(edges.shape[1]) % 3 > 0]}


@pytest.mark.parametrize("kind", ["undirected", "directed"])
@pytest.mark.parametrize("method", ["hots", "rbs", "structural", "structural-free"])
def test_nodes_within_the_hops_in_both_directions_and_all_edges_among_them_are_exact(
    data, method, kind
):
    edges, logits = graphs(data)[kind], 3 * data.x.double()
    calibrator = gnncal.get_calibrator(method)
    calibrator.fit(logits, data.y, gnncal.Graph(edges, N_NODES), calibration_nodes=range(45))
    module = calibrator.to_torch()
    whole, worst = module(logits, edges), {"in-edges": 0.0, "one hop more": 0.0}
    assert module.num_neighbors == [-1] * (module.hops + 1)
    for node in range(N_NODES):
        nodes, among = neighbourhood_of(edges, torch.tensor([node]), module.hops)
        found = module(logits[nodes], among)[nodes == node]
        np.testing.assert_allclose(found, whole[[node]], atol=1e-9)
        for name, hops in zip(worst, (module.hops, len(module.num_neighbors)), strict=True):
            nodes, loaded = in_edges_of(edges, torch.tensor([node]), hops)
            found = module(logits[nodes], loaded)[nodes == node]
            worst[name] = max(worst[name], float((found - whole[[node]]).abs().max()))
    # Only senders count in hots, and senders are receivers in the bins of an undirected graph.
    are_enough = method == "hots" or (method, kind) == ("rbs", "undirected")
    assert (worst["in-edges"] < 1e-3) == are_enough
    assert (worst["one hop more"] < 1e-9) == (method == "hots" or kind == "undirected")


ONE_WAY = "without its reverse, and every edge of the fit had"


@pytest.mark.parametrize("method", ["rbs", "structural", "structural-free"])
def test_a_batch_without_the_reverse_edges_of_the_fit_is_noticed(data, method, tmp_path):
    edges, logits = graphs(data)["undirected"], 3 * data.x.double()
    calibrator = gnncal.get_calibrator(method)
    calibrator.fit(logits, data.y, gnncal.Graph(edges, N_NODES), calibration_nodes=range(45))
    calibrator.save(tmp_path / "c")
    linked = edges[1, edges[0] != edges[1]].unique()
    for module in (calibrator.to_torch(), gnncal.load(tmp_path / "c").to_torch()):
        for seeds in (linked[:1], linked[20:26]):
            nodes, loaded = in_edges_of(edges, seeds, module.hops)
            with pytest.warns(gnncal.GnncalWarning, match=ONE_WAY):
                module(logits[nodes], loaded)
            with warnings.catch_warnings():
                warnings.filterwarnings("error", f".*{ONE_WAY}")
                for nodes, exact in (
                    in_edges_of(edges, seeds, len(module.num_neighbors)),
                    neighbourhood_of(edges, seeds, module.hops),
                    (torch.arange(N_NODES), edges),
                ):
                    module(logits[nodes], exact)


@pytest.mark.filterwarnings(f"error:.*{ONE_WAY}")
@pytest.mark.parametrize("method", ["hots", "structural"])
def test_edges_in_one_direction_are_no_surprise_after_such_a_fit_nor_where_only_senders_count(
    data, method
):
    kinds, logits = graphs(data), 3 * data.x.double()
    edges = kinds["directed" if method == "structural" else "undirected"]
    calibrator = gnncal.get_calibrator(method)
    calibrator.fit(logits, data.y, gnncal.Graph(edges, N_NODES), calibration_nodes=range(45))
    module = calibrator.to_torch()
    module(logits, kinds["directed"])
    nodes, loaded = in_edges_of(edges, torch.tensor([3, 4]), module.hops)
    module(logits[nodes], loaded)


def test_seed_nodes_whose_neighbours_lack_reverse_edges_are_noticed(model, data):
    calibrated = CalibratedModel.fit(model, data)
    batch = Data(n_id=torch.arange(N_NODES), x=data.x, batch_size=30)
    is_kept = (data.edge_index[1] != 60) | (torch.arange(data.edge_index.shape[1]) % 2 > 0)
    for edges, is_noticed in ((data.edge_index, False), (data.edge_index[:, is_kept], True)):
        batch.edge_index = edges
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            calibrated.predict(batch)
        assert any(ONE_WAY in str(each.message) for each in caught) == is_noticed


def batch(data, n_id, edges, seeds):
    """Some nodes and edges as NeighborLoader gives them: the seed nodes come first."""
    first = torch.cat([seeds, n_id[~torch.isin(n_id, seeds)]])
    place = torch.searchsorted(n_id, first).argsort()
    return Data(x=data.x[first], edge_index=place[edges], n_id=first, batch_size=len(seeds))


def test_on_a_directed_graph_a_short_batch_is_told_what_is_exact(model, data):
    directed = data.clone()
    directed.edge_index = graphs(data)["directed"]
    calibrated = CalibratedModel.fit(model, directed)
    seeds, n_hops = torch.tensor([5, 17, 60]), 3 + calibrated.calibrator.hops

    told = rf"within {n_hops} hops, along edges in both directions, and all edges among them"
    short = batch(directed, *in_edges_of(directed.edge_index, seeds, 5), seeds)
    with pytest.raises(gnncal.InputError, match=told):
        calibrated.check_batch(short, directed)
    exact = batch(directed, *neighbourhood_of(directed.edge_index, seeds, n_hops), seeds)
    calibrated.check_batch(exact, directed)
    np.testing.assert_allclose(
        calibrated.predict(exact), calibrated.predict(directed)[seeds], atol=1e-6
    )


def test_a_batch_of_a_model_without_neighbours_is_told_one_hop_more(data):
    calibrated = CalibratedModel.fit(torch.nn.Linear(N_CLASSES, N_CLASSES), data, forward=of_x)
    seeds, n_hops = torch.tensor([5, 17, 60]), len(calibrated.calibrator.num_neighbors)
    short = batch(data, *in_edges_of(data.edge_index, seeds, n_hops - 1), seeds)
    with pytest.raises(gnncal.InputError, match=rf"num_neighbors=\[-1\] \* {n_hops}\."):
        calibrated.check_batch(short, data, model_hops=0)
    enough = batch(data, *in_edges_of(data.edge_index, seeds, n_hops), seeds)
    calibrated.check_batch(enough, data, model_hops=0)


def of_x(model, data):
    return model(data.x)


@pytest.mark.parametrize("given", [None, np.zeros((N_NODES, N_CLASSES)), {"account": None}])
def test_a_forward_that_returns_no_tensor_is_told_what_is_expected(model, data, given):
    options = {"forward": lambda *_: given}
    if isinstance(given, dict):
        hetero = HeteroData({"account": {"x": data.x, "y": data.y, "val_mask": data.val_mask}})
        hetero["account", "to", "account"].edge_index = data.edge_index
        data = hetero
    with pytest.raises(gnncal.InputError, match=r"the model gives .*; expected logits, a tensor"):
        CalibratedModel.fit(model, data, **options)


def test_hops_of_a_model_are_those_that_change_its_answer(data):
    class Deep(torch.nn.Module):
        """Its message passing is no layer that a list of names could know."""

        def forward(self, x, edge_index):
            for _ in range(3):
                x = x + torch.zeros_like(x).index_add(0, edge_index[1], x[edge_index[0]])
            return x

    torch.manual_seed(0)
    for model, hops in (
        (GCN(N_CLASSES, 16, 2, N_CLASSES), 3),  # two layers, and the degrees of senders
        (GraphSAGE(N_CLASSES, 16, 2, N_CLASSES), 2),
        (Deep(), 3),
        (torch.nn.Identity(), None),
    ):
        if hops is None:
            with pytest.raises(gnncal.InputError, match="does not run on features and edges"):
                hops_of(model, data.x)
        else:
            assert hops_of(model.eval(), data.x) == hops


def test_a_batch_of_neighbor_loader_is_exact(model, data):
    from torch_geometric.loader import NeighborLoader
    from torch_geometric.typing import WITH_PYG_LIB, WITH_TORCH_SPARSE

    if not (WITH_PYG_LIB or WITH_TORCH_SPARSE):
        pytest.skip("NeighborLoader needs pyg-lib or torch-sparse, and neither is installed")
    calibrated = CalibratedModel.fit(model, data)
    whole = calibrated.predict(data)
    for batch in NeighborLoader(data, [-1] * 5, batch_size=30):
        calibrated.check_batch(batch, data)
        seeds = batch.n_id[: batch.batch_size]
        np.testing.assert_allclose(calibrated.predict(batch), whole[seeds], atol=1e-6)


def test_a_batch_whose_seeds_are_unknown_is_refused(model, data):
    with pytest.raises(gnncal.InputError, match="no n_id"):
        CalibratedModel.fit(model, data).check_batch(data, data)


@pytest.mark.parametrize("batch_size", [-1, 0, 91])
def test_a_batch_with_an_impossible_number_of_seeds_is_refused(model, data, batch_size):
    batch = batch_of(data, torch.arange(N_NODES), 0)
    batch.batch_size = batch_size
    with pytest.raises(gnncal.InputError, match=f"batch_size is {batch_size} but the batch has 90"):
        CalibratedModel.fit(model, data).check_batch(batch, data)


def test_a_model_that_gives_a_tuple_is_told_what_is_expected(data):
    class Both(torch.nn.Module):
        def forward(self, x, edge_index):
            return x, x

    with pytest.raises(gnncal.InputError, match="gives a tuple of 2; expected logits"):
        CalibratedModel.fit(Both(), data)


# --- what a folder of a stranger may hold


@pytest.fixture
def saved(model, data, tmp_path):
    CalibratedModel.fit(copy.deepcopy(model), data, method="ts").save(tmp_path / "run")
    return tmp_path / "run"


def damaged_model_files(content, model):
    from safetensors.torch import save

    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    first = next(iter(weights))
    return {
        "absent": None,
        "empty": b"",
        "cut": content[: len(content) // 2],
        "text": b"not a model",
        "a huge header": (2**63 - 1).to_bytes(8, "little") + b"{}",
        "another header": content[:8] + b"[" * 20 + content[28:],
        "a weight less": save({n: t for n, t in weights.items() if n != first}),
        "a weight more": save({**weights, "extra": torch.zeros(1)}),
        "another shape": save({**weights, first: torch.zeros(3, 3, 3)}),
    }


@pytest.mark.parametrize("file", ["model", "calibrator"])
@pytest.mark.parametrize(
    "damage",
    [
        *("absent", "empty", "cut", "text", "a huge header", "another header", "a weight less"),
        *("a weight more", "another shape"),
    ],
)
def test_a_bad_folder_is_refused_with_the_file_and_the_model_stays(saved, model, file, damage):
    path = saved / f"{file}.safetensors"
    content = damaged_model_files(path.read_bytes(), model)[damage]
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    target = copy.deepcopy(model)
    for parameter in target.parameters():
        torch.nn.init.constant_(parameter, 0.5)
    with pytest.raises(gnncal.InputError, match=path.name):
        CalibratedModel.load(saved, target)
    assert all((parameter == 0.5).all() for parameter in target.parameters())


def test_a_calibrator_that_is_not_fitted_is_named(model):
    with pytest.raises(gnncal.InputError, match=r"calibrator is HoTS\(\); pass a fitted"):
        CalibratedModel(model, gnncal.HoTS())


def test_a_lazy_model_takes_the_saved_shapes(saved, model, data):
    lazy = GCN(-1, 16, 2, N_CLASSES, dropout=0.5)
    loaded = CalibratedModel.load(saved, lazy)
    expected = CalibratedModel.load(saved, copy.deepcopy(model))
    assert torch.equal(loaded.predict(data), expected.predict(data))


class Given(torch.nn.Module):
    """A model whose logits are its features."""

    def forward(self, x, edge_index):
        return x


def fraud_data(*, is_weighted):
    (logits, labels, graph), splits = fraud_task(is_weighted=is_weighted)
    val_mask = torch.zeros(len(labels), dtype=torch.bool)
    val_mask[np.array(splits["calibration_nodes"])] = True
    x, edges = torch.from_numpy(logits), torch.from_numpy(graph.edge_index.astype(np.int64))
    return Data(x=x, y=torch.from_numpy(labels), edge_index=edges, val_mask=val_mask)


def test_a_class_weighted_model_gets_the_advice_of_calibrate():
    (logits, labels, graph), splits = fraud_task(is_weighted=True)
    expected = gnncal.calibrate(
        logits, labels, graph, calibration_nodes=splits["calibration_nodes"]
    ).advice
    with pytest.warns(gnncal.GnncalWarning, match="Keeping predictions costs"):
        calibrated = CalibratedModel.fit(Given(), fraud_data(is_weighted=True))
    assert calibrated.advice == expected
    assert CalibratedModel.fit(Given(), fraud_data(is_weighted=False)).advice is None


def test_with_a_class_in_view_predictions_may_change_and_it_is_saved(tmp_path):
    data = fraud_data(is_weighted=True)
    calibrated = CalibratedModel.fit(Given(), data, positive=1)
    assert not calibrated.fitted.keep_predictions
    assert calibrated.advice is None
    calibrated.save(tmp_path)
    assert CalibratedModel.load(tmp_path, Given()).fitted.positive_ == 1
    with pytest.raises(gnncal.InputError, match="positive"):
        CalibratedModel.fit(Given(), data, positive=2)
