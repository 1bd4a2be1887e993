"""Nodes that are neighbours through the entities they share."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gnncal
from gnncal.graph.entities import EntityGraph
from gnncal.graph.neighbours import neighbour_class_share
from tests.cli.terminal import run

TASK = gnncal.example()


def straight_line_means(touching, values):
    """The formula of the class, entity by entity, from a dense matrix of who touches what."""
    n_items = touching.sum(axis=0)
    means = np.full(values.shape, np.nan)
    for i, entities in enumerate(touching):
        shared = [e for e in np.flatnonzero(entities) if n_items[e] > 1]
        if shared:
            others = [(touching[:, e] @ values - values[i]) / (n_items[e] - 1) for e in shared]
            means[i] = np.mean(others, axis=0)
    return means


def as_entities(graph):
    """The undirected edges of a graph, each as an entity that two nodes touch."""
    first, second = graph.edge_index[:, graph.edge_index[0] < graph.edge_index[1]]
    each = np.arange(first.size)
    return EntityGraph(
        [np.concatenate([first, second]), np.concatenate([each, each])], graph.n_nodes
    )


@given(st.integers(0, 10_000), st.integers(1, 4))
def test_means_are_those_of_the_formula(seed, n_columns):
    rng = np.random.default_rng(seed)
    touching = (rng.random((rng.integers(1, 15), rng.integers(1, 8))) < 0.3).astype(float)
    values = rng.random((len(touching), n_columns))
    graph = EntityGraph(np.stack(np.nonzero(touching)), len(touching))
    expected = straight_line_means(touching, values)
    np.testing.assert_allclose(graph.neighbour_mean(values), expected, rtol=1e-12, atol=1e-14)
    classes = rng.integers(n_columns, size=len(values))
    share = neighbour_class_share(graph, classes, values, side="in")
    np.testing.assert_allclose(share, expected[np.arange(len(values)), classes], rtol=1e-12)


@pytest.mark.parametrize("method", ["structural", "structural-free", "hots", "rbs"])
def test_an_edge_is_an_entity_with_two_nodes(method):
    graph = TASK.graph.to_undirected()
    both = [
        gnncal.calibrate(TASK.logits, TASK.labels, each, method=method, **TASK.splits).probabilities
        for each in (graph, as_entities(graph))
    ]
    np.testing.assert_allclose(*both, rtol=1e-6)


def test_pairs_listed_twice_count_once_and_lonely_entities_do_not_count():
    once = EntityGraph([[0, 1, 2], [5, 5, 9]])
    twice = EntityGraph([[0, 1, 1, 0, 2], [5, 5, 5, 5, 9]])
    assert once.fingerprint == twice.fingerprint
    assert once.in_degree.tolist() == [1, 1, 0]
    assert repr(once) == "EntityGraph(2 of 3 nodes (67%) share one of 1 entities)"


def test_edges_that_share_an_end_are_neighbours():
    graph = gnncal.Graph.of_edges([[0, 0, 1, 3], [1, 2, 2, 4]])
    values = np.array([1.0, 2.0, 4.0, 8.0])
    # Edge 0 = (0, 1): edge 1 through node 0, edge 2 through node 1.
    assert graph.neighbour_mean(values).tolist()[:3] == [3.0, 2.5, 1.5]
    assert np.isnan(graph.neighbour_mean(values)[3])
    accounts_and_shops = gnncal.Graph.of_edges([[0, 0, 1], [0, 1, 1]], bipartite=True)
    assert accounts_and_shops.in_degree.tolist() == [1, 2, 1]


@pytest.mark.parametrize("method", ["structural", "structural-free", "hots"])
def test_a_module_gives_what_memory_gives(method):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    cards = EntityGraph(np.stack([np.arange(1797), rng.integers(300, size=1797)]), 1797)
    made = gnncal.calibrate(TASK.logits, TASK.labels, cards, method=method, **TASK.splits)
    module = made.calibrator.to_torch()
    probs = module(torch.from_numpy(np.asarray(TASK.logits)), cards)
    np.testing.assert_allclose(probs.detach().numpy(), made.probabilities, atol=1e-6)


def test_rbs_on_entities_of_many_nodes_is_rbs_on_their_cliques():
    card = np.random.default_rng(2).integers(600, size=1797)
    first, second = np.nonzero((card[:, None] == card) & ~np.eye(1797, dtype=bool))
    graphs = EntityGraph([np.arange(1797), card], 1797), gnncal.Graph([first, second], 1797)
    both = [
        gnncal.calibrate(TASK.logits, TASK.labels, each, method="rbs", **TASK.splits).probabilities
        for each in graphs
    ]
    np.testing.assert_allclose(*both, rtol=1e-6)


CARDS = EntityGraph(
    np.stack([np.arange(1797), np.random.default_rng(3).integers(300, size=1797)]), 1797
)
KINDS = {"entities": (CARDS, TASK.graph), "edges": (TASK.graph, CARDS)}


def fitted_on(kind, method="structural"):
    graph, other = KINDS[kind]
    given = (TASK.logits, TASK.labels, graph)
    return gnncal.calibrate(*given, method=method, **TASK.splits).calibrator, graph, other


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["structural", "hots", "rbs"])
def test_a_calibrator_refuses_another_kind_of_graph_than_its_fit_had(kind, method, tmp_path):
    calibrator, graph, other = fitted_on(kind, method)
    calibrator.save(tmp_path / "c")
    for each in (calibrator, gnncal.load(tmp_path / "c")):
        each.predict_proba(TASK.logits, graph)
        with pytest.raises(gnncal.InputError, match=rf"was fitted on .*{kind}.*fit again"):
            each.predict_proba(TASK.logits, other)
        with pytest.raises(gnncal.InputError, match="was fitted on"):
            each.update(TASK.logits, TASK.labels, other, calibration_nodes=TASK.test_nodes)


@pytest.mark.parametrize("kind", KINDS)
def test_a_module_refuses_another_kind_of_graph_than_the_fit_had(kind):
    torch = pytest.importorskip("torch")
    calibrator, graph, other = fitted_on(kind)
    module, logits = calibrator.to_torch(), torch.from_numpy(np.asarray(TASK.logits))
    module(logits, graph)
    others = [other]
    if kind == "entities":
        others += [torch.from_numpy(TASK.graph.edge_index.astype(np.int64))]
    for each in others:
        with pytest.raises(gnncal.InputError, match=rf"was fitted on .*{kind}"):
            module(logits, each)


def test_a_method_without_a_graph_takes_any_kind():
    calibrator, graph, other = fitted_on("entities", "ts")
    calibrator.predict_proba(TASK.logits, graph)
    calibrator.predict_proba(TASK.logits, other)


@pytest.mark.parametrize("name", ["c.onnx", "c.pt2"])
def test_a_calibrator_of_shared_entities_is_not_exported_to_a_file_that_takes_edges(name, tmp_path):
    pytest.importorskip("torch")
    from gnncal.torch import export

    calibrator, _, _ = fitted_on("entities")
    with pytest.raises(gnncal.InputError, match="fitted on shared entities and an exported file"):
        export(calibrator.to_torch(), tmp_path / name)
    calibrator.save(tmp_path / "c.safetensors")
    refused = run("export", tmp_path / "c.safetensors", "--out", tmp_path / name)
    assert refused.exit_code == 2
    assert "fitted on shared entities" in refused.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["c.safetensors"]


def test_the_command_line_refuses_a_calibrator_of_shared_entities(tmp_path):
    calibrator, _, _ = fitted_on("entities")
    calibrator.save(tmp_path / "c")
    np.savez(tmp_path / "new.npz", logits=TASK.logits, edge_index=TASK.graph.edge_index)
    refused = run("apply", tmp_path / "c", tmp_path / "new.npz", "--out", tmp_path / "out")
    assert refused.exit_code == 2
    assert "was fitted on shared entities" in refused.stderr
    assert not (tmp_path / "out").exists()


def test_a_method_that_needs_edges_says_so():
    cards = EntityGraph([np.arange(1797), np.arange(1797) // 2], 1797)
    with pytest.raises(gnncal.InputError, match=r"needs edges between nodes.*'structural'"):
        gnncal.calibrate(TASK.logits, TASK.labels, cards, method="cagcn", **TASK.splits)


def payments(n_accounts=1797, n_cards=600):
    torch = pytest.importorskip("torch")
    data = pytest.importorskip("torch_geometric.data").HeteroData()
    rng = np.random.default_rng(1)
    uses = np.stack([np.arange(n_accounts), rng.integers(n_cards, size=n_accounts)])
    data["account"].num_nodes = n_accounts
    data["card"].num_nodes = n_cards
    data["account", "uses", "card"].edge_index = torch.from_numpy(uses)
    return data, uses


def test_accounts_are_neighbours_through_their_cards():
    data, uses = payments()
    told = gnncal.calibrate(
        TASK.logits, TASK.labels, data, node_type="account", **TASK.splits
    ).probabilities
    cards = EntityGraph(uses, 1797)
    made = gnncal.calibrate(TASK.logits, TASK.labels, cards, **TASK.splits).probabilities
    np.testing.assert_array_equal(told, made)


def test_edges_among_nodes_of_the_type_come_first_and_both_can_be_named():
    torch = pytest.importorskip("torch")
    data, _ = payments(n_accounts=4, n_cards=2)
    data["account", "pays", "account"].edge_index = torch.tensor([[0, 1], [1, 0]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        own = gnncal.Graph.of_type(data, "account")
        both = gnncal.Graph.of_type(data, "account", through=["pays", "uses"])
    assert isinstance(own, gnncal.Graph)
    assert own.n_edges == 2
    assert set(both.kinds) == {"account-pays-account", "account-uses-card"}


def test_typing_errors_in_types_are_named():
    data, _ = payments(n_accounts=4, n_cards=2)
    with pytest.raises(gnncal.InputError, match="did you mean 'account'"):
        gnncal.Graph.of_type(data, "acount")
    with pytest.raises(gnncal.InputError, match="through names 'owns'"):
        gnncal.Graph.of_type(data, "account", through=["owns"])


def test_a_user_is_told_where_few_nodes_have_a_neighbour():
    data, _ = payments(n_accounts=40, n_cards=4000)
    with pytest.warns(gnncal.GnncalWarning, match=r"nodes of type 'account' have a neighbour"):
        gnncal.Graph.of_type(data, "account")


def test_a_report_takes_shared_entities():
    pytest.importorskip("jinja2")
    cards = EntityGraph([np.arange(1797), np.arange(1797) // 3], 1797)
    made = gnncal.report(TASK.logits, TASK.labels, cards, methods=["structural"], **TASK.splits)
    assert "structural" in made.findings.methods


def test_what_follows_a_fit_takes_shared_entities(tmp_path):
    """A saved calibrator, a check, an update and prediction sets with a graph's score."""
    cards = EntityGraph([np.arange(1797), np.arange(1797) // 3], 1797)
    made = gnncal.calibrate(TASK.logits, TASK.labels, cards, **TASK.splits)
    made.calibrator.save(tmp_path / "c.safetensors")
    again = gnncal.load(tmp_path / "c.safetensors")
    np.testing.assert_array_equal(again.predict_proba(TASK.logits, cards), made.probabilities)
    assert gnncal.check(again, TASK.logits, cards).verdict == "same"
    labelled, others = np.split(TASK.test_nodes, [300])
    updated = again.update(TASK.logits, TASK.labels, cards, calibration_nodes=labelled)
    assert updated.history_[0].n_labels == 300
    sets = gnncal.decisions.ConformalClassifier(0.9, score="daps", random_state=0)
    sets.fit(made.probabilities, TASK.labels, cards, calibration_nodes=labelled)
    held = sets.predict_set(made.probabilities, cards)[others, TASK.labels[others]]
    assert 0.85 < held.mean() <= 1.0
