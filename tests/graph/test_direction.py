"""Edges that come in one direction only are noticed, once; others are not."""

import os
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gnncal
from gnncal.graph.checks import reciprocal_edge_share
from tests.strategies import small_task

PATH = np.array([np.arange(99), np.arange(1, 100)])  # 0 -> 1 -> ... -> 99
MESSAGE = "almost no edge of the graph is listed in both directions"


def notices(graph, method="structural"):
    generator = np.random.default_rng(0)
    logits = 2 * generator.normal(size=(graph.n_nodes, 3))
    labels = (logits + 3 * generator.gumbel(size=logits.shape)).argmax(1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        calibrator = gnncal.get_calibrator(method)
        calibrator.fit(logits, labels, graph, calibration_nodes=range(graph.n_nodes))
    return [w for w in caught if MESSAGE in str(w.message)]


@pytest.mark.parametrize("method", ["structural", "hots", "rbs"])
def test_one_direction_of_each_edge_is_noticed_where_the_user_called(method):
    (notice,) = notices(gnncal.Graph(PATH), method)
    assert "so 1 of 100 nodes send messages but receive none" in str(notice.message)
    assert issubclass(notice.category, gnncal.GnncalWarning)
    assert notice.filename == __file__


def test_a_graph_is_noticed_once():
    graph = gnncal.Graph(PATH)
    assert len(notices(graph)) == 1
    assert notices(graph, "hots") == []


def test_methods_without_a_graph_are_silent():
    assert notices(gnncal.Graph(PATH), "ts") == []


def test_both_directions_a_directed_graph_and_a_few_edges_are_silent():
    directed = np.concatenate([PATH, PATH[::-1, :5]], axis=1)  # 10% of the edges are answered
    for graph in (
        gnncal.Graph(PATH).to_undirected(),
        gnncal.Graph(directed),
        gnncal.Graph(PATH[:, :19], 100),
        gnncal.Graph(np.zeros((2, 0), dtype=int), 100),
        gnncal.Graph(np.array([np.arange(100)] * 2)),
    ):
        assert notices(graph) == []


def load_or_skip(name):
    datasets = pytest.importorskip("gnncal_lab.datasets")
    if not os.environ.get("GNNCAL_DATA"):
        pytest.skip("GNNCAL_DATA does not say where raw data are")
    return datasets.load(name).graph


def test_one_direction_of_cora_leaves_679_nodes_without_neighbours():
    sender, receiver = load_or_skip("Cora").edge_index
    one_way = gnncal.Graph(np.stack([sender, receiver])[:, sender < receiver], 2708)
    (notice,) = notices(one_way, "hots")
    assert "so 679 of 2,708 nodes send messages but receive none" in str(notice.message)


@pytest.mark.parametrize("name", ["Chameleon", "Squirrel", "Actor"])
def test_directed_graphs_are_silent(name):
    assert reciprocal_edge_share(load_or_skip(name)) > 0.1


@given(st.integers(0, 2**32 - 1))
def test_the_share_of_answered_edges_is_that_of_counting_pairs(seed):
    generator = np.random.default_rng(seed)
    edges = generator.integers(0, 15, size=(2, 60))
    pairs = {(int(s), int(r)) for s, r in edges.T}
    expected = np.mean([(r, s) in pairs for s, r in edges.T.tolist() if s != r])
    assert reciprocal_edge_share(gnncal.Graph(edges, 15)) == pytest.approx(expected)


@given(st.integers(0, 2**32 - 1))
def test_to_undirected_lists_each_edge_and_its_reverse_once(seed):
    edges = np.random.default_rng(seed).integers(0, 9, size=(2, 20))
    graph = gnncal.Graph(edges, 9, np.ones((9, 2))).to_undirected()
    expected = sorted({(s, r) for a, b in edges.T.tolist() for s, r in ((a, b), (b, a))})
    assert sorted(map(tuple, graph.edge_index.T.tolist())) == expected
    assert graph.is_undirected
    assert graph.features.shape == (9, 2)


def test_a_data_object_serves_wherever_a_graph_does():
    data_module = pytest.importorskip("torch_geometric.data")
    torch = pytest.importorskip("torch")
    task = small_task()
    data = data_module.Data(edge_index=torch.from_numpy(task.edges), num_nodes=60)
    graph = gnncal.Graph(task.edges, 60)
    for name in ("structural", "hots", "ts"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", gnncal.GnncalWarning)
            calibrator = task.fit(gnncal.get_calibrator(name), graph=data)
        for answer in ("predict_proba", "predict", "predict_temperature"):
            found, expected = (getattr(calibrator, answer)(task.logits, g) for g in (data, graph))
            np.testing.assert_array_equal(found, expected)


def test_hetero_data_is_refused_with_the_way_out():
    torch = pytest.importorskip("torch")
    task, data = small_task(), pytest.importorskip("torch_geometric.data").HeteroData()
    data["account"].num_nodes = task.logits.shape[0]
    data["account", "to", "payment"].edge_index = torch.tensor([[0], [0]])
    with pytest.raises(gnncal.InputError, match=r"Graph.of_type.* method='svs'") as refused:
        task.fit(gnncal.HoTS(), graph=data)
    assert "to_homogeneous" not in str(refused.value)


def test_training_nodes_of_the_data_are_not_taken_for_calibration_nodes():
    torch = pytest.importorskip("torch")
    task, data_module = small_task(), pytest.importorskip("torch_geometric.data")
    n_nodes = len(task.logits)
    mask = torch.arange(n_nodes) < n_nodes // 2
    edges = torch.from_numpy(task.graph.edge_index.copy())
    data = data_module.Data(edge_index=edges, num_nodes=n_nodes, train_mask=mask)
    given, other = (task.logits, task.labels, data), {"test_nodes": range(n_nodes // 2, n_nodes)}
    wrong = r"nodes and train_mask of the graph share \d+ nodes .* pass those as train_nodes"
    with pytest.raises(gnncal.InputError, match=wrong):
        gnncal.calibrate(*given, calibration_nodes=mask)
    with pytest.raises(gnncal.InputError, match=wrong):
        gnncal.calibrators.TemperatureScaling().fit(*given, calibration_nodes=range(3))
    with pytest.raises(gnncal.InputError, match=wrong):
        gnncal.report(*given, calibration_nodes=mask, **other)
    later = range(n_nodes // 2, n_nodes)
    gnncal.calibrators.TemperatureScaling().fit(*given, calibration_nodes=~mask)
    gnncal.calibrators.TemperatureScaling().fit(
        *given, calibration_nodes=mask, train_nodes=later
    )  # the user says so
    data.train_mask = torch.stack([mask, ~mask], dim=1)  # of several splits nobody knows which
    gnncal.calibrators.TemperatureScaling().fit(*given, calibration_nodes=mask)


def test_edges_that_number_the_nodes_in_another_order_are_noticed():
    task = gnncal.example()
    given = {"calibration_nodes": task.calibration_nodes, "train_nodes": task.train_nodes}
    place = np.random.default_rng(0).permutation(task.graph.n_nodes)
    other = gnncal.Graph(place[task.graph.edge_index], task.graph.n_nodes)
    with pytest.warns(gnncal.GnncalWarning, match=r"in the order of the rows of logits"):
        gnncal.HoTS().fit(task.logits, task.labels, other, **given)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        right = gnncal.Graph(task.graph.edge_index, task.graph.n_nodes)
        gnncal.HoTS().fit(task.logits, task.labels, right, **given)


@pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning")
@pytest.mark.parametrize("positive", [None, 8])
def test_the_verdict_on_edges_in_another_order_is_to_check_them_first(positive):
    task = gnncal.example()
    place = np.random.default_rng(0).permutation(task.graph.n_nodes)
    other = gnncal.Graph(place[task.graph.edge_index], task.graph.n_nodes)
    for graph, is_wrong in ((other, True), (other, True), (task.graph, False)):  # also when known
        given = (task.logits, task.labels, graph)
        result = gnncal.calibrate(*given, **task.splits, positive=positive)
        found = result.verdict
        assert (found.label == "Check the order of the edges first") == is_wrong
        assert ("the edges seem not to follow the order of the logits" in found.text) == is_wrong
        assert found.grade == ("bad" if is_wrong else "good")
    methods = ["ts", type(result.calibrator)(**result.calibrator.get_params())]
    report = gnncal.report(
        task.logits, task.labels, other, **task.splits, methods=methods, positive=positive
    )
    assert report.findings.verdict.label == "Check the order of the edges first"
    alone = gnncal.calibrate(*given[:2], other, **task.splits, method="ts")
    assert alone.verdict.label == "You can act on this confidence"  # ts reads no edges
