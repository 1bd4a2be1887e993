"""The paper's predictor: its gradient, its training and its frugality."""

import numpy as np
import pytest
from scipy import sparse

import gnncal
import gnncal_lab
from gnncal.calibrators.homophily import Network, Predictor, Propagation
from gnncal_lab.homophily.cross_fitted import CrossFitted

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def sample():
    model = gnncal_lab.simulation.CSBM(n_classes=3, mean_degree=5, n_features=6)
    homophily = np.random.default_rng(0).uniform(0.2, 0.95, 120)
    return model.sample(homophily, random_state=1)


@pytest.fixture(scope="module")
def known(sample):
    labels = sample.labels.copy()
    labels[60:] = -1
    return labels


def reference(graph, *, add_self_loops):
    """Dense Â and X in double precision."""
    adjacency = graph.normalised_adjacency(add_self_loops=add_self_loops, dtype=np.float64)
    features = graph.features.toarray() if sparse.issparse(graph.features) else graph.features
    return torch.tensor(adjacency.toarray()), torch.tensor(np.asarray(features, np.float64))


def forward(adjacency, features, w1, b1, w2, b2):
    hidden = torch.relu(adjacency @ features @ w1 + b1)
    return torch.sigmoid(adjacency @ (hidden @ w2) + b2)


def parameters(network, theta):
    return [
        torch.tensor(np.array(value, dtype=np.float64), requires_grad=True)
        for value in network.named(theta).values()
    ]


@pytest.mark.parametrize("form", ["dense", "sparse kept", "sparse split"])
def test_loss_and_gradient_equal_those_of_autograd(sample, known, form, monkeypatch):
    graph = sample.graph
    if form != "dense":
        graph = gnncal.Graph(graph.edge_index, features=sparse.csr_array(graph.features))
        budget = 1e9 if form == "sparse kept" else 0.0
        monkeypatch.setattr("gnncal.calibrators.homophily.SPARSITY_BUDGET", budget)
    propagation = Propagation(graph, add_self_loops=True)
    assert len(propagation.factors) == (2 if form == "sparse split" else 1)
    network = Network(propagation, hidden=4)
    theta = network.initial(np.random.default_rng(2))
    theta += 0.1 * np.random.default_rng(3).normal(size=theta.shape).astype(np.float32)
    targets = Predictor(side="out")._targets(graph, known)
    supervised = np.flatnonzero(~np.isnan(targets))
    loss, gradient = network.loss(supervised, targets[supervised])(theta)
    leaves = parameters(network, theta)
    estimate = forward(*reference(graph, add_self_loops=True), *leaves)
    expected = ((estimate[supervised] - torch.tensor(targets[supervised])) ** 2).mean()
    expected.backward()
    assert loss == pytest.approx(expected.item(), rel=1e-5)
    exact = np.concatenate([leaf.grad.numpy().ravel() for leaf in leaves])
    np.testing.assert_allclose(gradient, exact, rtol=1e-3, atol=1e-7)


def test_training_follows_a_straight_line_reimplementation(sample, known):
    settings = Predictor(max_epochs=60, patience=30)
    graph = sample.graph
    propagation = Propagation(graph, add_self_loops=True)
    trained = settings._run(settings._train(propagation, graph, known), propagation)

    network = Network(propagation, settings.hidden)
    leaves = parameters(network, network.initial(np.random.default_rng(settings.seed)))
    targets = Predictor(side="out")._targets(graph, known)
    supervised = np.flatnonzero(~np.isnan(targets))
    adjacency, features = reference(graph, add_self_loops=True)
    optimiser = torch.optim.Adam(leaves, lr=1e-2, weight_decay=1e-4)
    best, best_loss, waited = None, np.inf, 0
    for _ in range(60):
        optimiser.zero_grad()
        estimate = forward(adjacency, features, *leaves)
        loss = ((estimate[supervised] - torch.tensor(targets[supervised])) ** 2).mean()
        if loss.item() <= best_loss:
            best, best_loss, waited = estimate.detach().numpy().copy(), loss.item(), 0
        else:
            waited += 1
            if waited >= 30:
                break
        loss.backward()
        optimiser.step()
    np.testing.assert_allclose(trained, best, atol=2e-3)


def test_released_choices_change_what_they_claim(sample, known):
    propagation = Propagation(sample.graph, add_self_loops=True)

    def run(**options):
        settings = Predictor(max_epochs=5, **options)
        return settings._run(settings._train(propagation, sample.graph, known), propagation)

    base = run()
    for options in ({"checkpoint": "after-step"}, {"side": "in"}, {"random_state": 1}):
        assert np.abs(run(**options) - base).max() > 1e-4, options
    np.testing.assert_array_equal(run(), base)
    bare = gnncal.Graph(sample.graph.edge_index, features=sample.graph.features)
    assert Propagation(bare, add_self_loops=True).adjacency.diagonal().all()
    assert not Propagation(bare, add_self_loops=False).adjacency.diagonal().any()


def test_sparse_products_are_kept_only_while_they_stay_sparse():
    words = sparse.random_array((300, 200), density=0.02, rng=0, format="csr")
    ring = np.stack([np.arange(300), np.roll(np.arange(300), 1)])
    hub = np.random.default_rng(0).integers(0, 300, size=(2, 9000))
    nothing = np.zeros((2, 0), dtype=int)
    kept = Propagation(gnncal.Graph(nothing, 300, words), add_self_loops=True)
    assert len(kept.factors) == 1
    assert kept.factors[0].nnz == words.nnz
    assert len(Propagation(gnncal.Graph(ring, 300, words), add_self_loops=True).factors) == 1
    assert len(Propagation(gnncal.Graph(hub, 300, words), add_self_loops=True).factors) == 2


def nodes_of(sample, labels):
    logits = np.random.default_rng(5).normal(size=(120, 3))
    nodes = gnncal.Nodes(logits, sample.graph)
    return nodes.with_labels(labels, calibration_nodes=np.arange(30, 60), train_nodes=np.arange(30))


def test_a_calibration_label_never_reaches_its_own_cross_fitted_estimate(sample, known):
    estimator = CrossFitted(max_epochs=20)
    nodes = nodes_of(sample, known)
    weights = estimator.learn(nodes)
    for fold in range(5):
        members = weights["nodes"][weights["folds"] == fold]
        changed = known.copy()
        changed[members] = (changed[members] + 1) % 3
        again = estimator.learn(nodes_of(sample, changed))
        for name in ("input_weight", "output_weight"):
            np.testing.assert_array_equal(again[name][fold], weights[name][fold])


def test_other_nodes_get_the_mean_of_the_folds(sample, known):
    estimator = CrossFitted(max_epochs=20)
    nodes = nodes_of(sample, known)
    weights = estimator.learn(nodes)
    found = estimator.estimate(weights, nodes.unlabelled, is_fitted_graph=True)
    propagation = Propagation(sample.graph, add_self_loops=True)
    names = ("input_weight", "input_bias", "output_weight", "output_bias")
    runs = [estimator._run({n: weights[n][fold] for n in names}, propagation) for fold in range(5)]
    np.testing.assert_allclose(found[60:], np.mean(runs, axis=0)[60:])
    node, fold = weights["nodes"][3], weights["folds"][3]
    np.testing.assert_allclose(found[node], runs[fold][node])
