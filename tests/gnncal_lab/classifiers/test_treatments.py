"""DCGC and GCL: laws, and straight-line computations of their formulas."""

from dataclasses import replace

import numpy as np
import pytest

from gnncal import Graph, InputError
from gnncal_lab.classifiers import TrainingSettings, train_classifier
from gnncal_lab.classifiers.treatments import TREATED, parts_of, train_logits
from gnncal_lab.datasets import Dataset, random_split
from gnncal_lab.simulation import CSBM

torch = pytest.importorskip("torch")

from gnncal_lab.classifiers import dcgc, gcl  # noqa: E402

SHORT = TrainingSettings(max_epochs=15)
FEW = replace(dcgc.LEARNING, max_epochs=15)
WEIGHED = ("gcn", "gat")


def with_loops_and_lonely(sample):
    """A loop at every third node, a node without senders, a double edge."""
    edges = sample.graph.edge_index
    edges = edges[:, edges[1] != 7]
    loops = np.tile(np.arange(0, sample.graph.n_nodes, 3), (2, 1))
    edges = np.concatenate([edges, loops, edges[:, :1]], axis=1)
    return Graph(edges, sample.graph.n_nodes, sample.graph.features)


@pytest.fixture(scope="module")
def data():
    sample = CSBM(n_classes=3).sample(np.full(200, 0.8), random_state=0)
    return Dataset("planted", with_loops_and_lonely(sample), sample.labels)


@pytest.fixture(scope="module")
def split():
    return random_split(200, 0)


@pytest.fixture(scope="module")
def trained(data, split):
    return {
        name: train_classifier(name, data, split, seed=0, settings=SHORT)
        for name in (*WEIGHED, "sage")
    }


def softmax(rows):
    powers = np.exp(rows - rows.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def some_weights(n_edges):
    return np.random.default_rng(0).uniform(0.2, 3.0, n_edges).astype(np.float32)


# --- DCGC


@pytest.mark.parametrize("backbone", WEIGHED)
def test_weights_of_one_give_the_frozen_logits_back(backbone, trained):
    forward = dcgc.as_function_of_weights(trained[backbone])
    ones = torch.ones(trained[backbone].inputs.graph.n_edges)
    np.testing.assert_allclose(forward(ones).numpy(), trained[backbone].logits(), atol=2e-5)


def test_a_gcn_is_normalised_again_with_the_weights(trained, data):
    weights = some_weights(data.graph.n_edges)
    adjacency = np.zeros((200, 200))
    for w, u, v in zip(weights, *data.graph.edge_index, strict=True):
        adjacency[v, u] += w
    received, sent = (np.where(d > 0, d, 1.0) for d in (adjacency.sum(1), adjacency.sum(0)))
    matrix = adjacency / np.sqrt(np.outer(received, sent))
    network = trained["gcn"].network
    (W0, W1), (b0, b1) = (
        [p.detach().numpy() for p in part] for part in (network.weights, network.biases)
    )
    hidden = np.maximum(matrix @ data.graph.features @ W0 + b0, 0)
    found = dcgc.as_function_of_weights(trained["gcn"])(torch.from_numpy(weights)).numpy()
    np.testing.assert_allclose(found, matrix @ hidden @ W1 + b1, rtol=1e-4, atol=1e-4)


def test_the_scale_of_the_weights_does_not_matter_to_a_gcn(trained, data):
    forward = dcgc.as_function_of_weights(trained["gcn"])
    weights = torch.from_numpy(some_weights(data.graph.n_edges))
    torch.testing.assert_close(forward(weights), forward(3 * weights), rtol=1e-4, atol=1e-4)


def test_attention_is_multiplied_and_not_normalised_again(trained, data):
    """Halved weights halve what arrives, so the logits move half way to those without edges."""
    forward = dcgc.as_function_of_weights(trained["gat"])
    ones = torch.ones(data.graph.n_edges)
    whole, half, none = (forward(share * ones) for share in (1.0, 0.5, 0.0))
    torch.testing.assert_close(half, (whole + none) / 2, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("backbone", WEIGHED)
def test_the_gradient_of_a_weight_is_its_difference_quotient(backbone, trained, data):
    forward = dcgc.as_function_of_weights(trained[backbone])
    weights = torch.from_numpy(some_weights(data.graph.n_edges)).requires_grad_()
    forward(weights).square().mean().backward()
    edge = int(weights.grad.abs().argmax())
    step = torch.zeros(len(weights))
    step[edge] = 0.05
    with torch.no_grad():
        up, down = (forward(weights + s * step).square().mean().item() for s in (1, -1))
    assert weights.grad[edge].item() == pytest.approx((up - down) / 0.1, rel=0.05)


def test_homophily_weights_by_hand():
    probs = softmax(np.random.default_rng(3).normal(size=(5, 3)))
    senders, receivers = [0, 1, 2, 2, 4], [1, 2, 2, 3, 0]
    pairs = zip(senders, receivers, strict=True)
    expected = []
    for u, v in pairs:
        Q = [np.exp(10 * probs[i]) / sum(np.exp(10 * p) for p in probs[i]) for i in (u, v)]
        distance = sum((a - b) ** 2 for a, b in zip(*Q, strict=True)) ** 0.5
        expected.append(1.0 if u == v else 1 / (distance + 0.5))
    edges = dcgc.Edges(torch.tensor(senders), torch.tensor(receivers), torch.tensor([0, 1, 3, 4]))
    found = dcgc.homophily_weights(torch.tensor(probs), edges).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_the_new_logits_are_those_of_decisive_times_homophily_weights(trained, data, split):
    """Learned weights from the module, everything after them in NumPy."""
    made = trained["gcn"]
    kept = []

    class Kept(dcgc.DecisiveWeights):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            kept.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dcgc, "DecisiveWeights", Kept)
        found = dcgc.reweighted_logits(made, data, split, seed=0, learning=FEW)
    senders, receivers = data.graph.edge_index
    pairs = np.concatenate([made.logits()[senders], made.logits()[receivers]], axis=1)
    first, norm, _, _, last = kept[0].perceptron
    hidden = pairs @ first.weight.detach().numpy().T + first.bias.detach().numpy()
    spread = np.sqrt(norm.running_var.numpy() + norm.eps)
    hidden = (hidden - norm.running_mean.numpy()) / spread * norm.weight.detach().numpy()
    hidden = np.maximum(hidden + norm.bias.detach().numpy(), 0)
    score = (hidden @ last.weight.detach().numpy().T + last.bias.detach().numpy())[:, 0]
    loops = senders == receivers
    w = np.where(loops, 1.0, np.maximum(score, 1e-6)).astype(np.float32)
    forward = dcgc.as_function_of_weights(made)
    Q = softmax(10 * softmax(forward(torch.from_numpy(w)).numpy().astype(float)))
    h = np.where(loops, 1.0, 1 / (np.linalg.norm(Q[senders] - Q[receivers], axis=1) + 0.5))
    expected = forward(torch.from_numpy((w * h).astype(np.float32))).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)
    assert np.abs(found - made.logits()).max() > 1e-2


@pytest.mark.parametrize("backbone", WEIGHED)
def test_dcgc_changes_neither_the_classifier_nor_the_state_of_torch(backbone, trained, data, split):
    before = trained[backbone].logits()
    state = torch.get_rng_state()
    first = dcgc.reweighted_logits(trained[backbone], data, split, seed=1, learning=FEW)
    again = dcgc.reweighted_logits(trained[backbone], data, split, seed=1, learning=FEW)
    assert torch.equal(torch.get_rng_state(), state)
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(before, trained[backbone].logits())
    assert all(p.requires_grad for p in trained[backbone].network.parameters())


def test_dcgc_never_sees_labels_of_test_nodes(trained, data, split):
    labels = data.labels.copy()
    labels[split.test_nodes] = (labels[split.test_nodes] + 1) % 3
    changed = Dataset("planted", data.graph, labels)
    found = [
        dcgc.reweighted_logits(trained["gat"], d, split, seed=0, learning=FEW)
        for d in (data, changed)
    ]
    np.testing.assert_array_equal(*found)


def test_a_graph_of_loops_alone_keeps_its_logits(data, split):
    loops = Graph(np.tile(np.arange(200), (2, 1)), 200, data.graph.features)
    alone = Dataset("loops", loops, data.labels)
    classifier = train_classifier("gcn", alone, split, seed=0, settings=SHORT)
    found = dcgc.reweighted_logits(classifier, alone, split, seed=0)
    np.testing.assert_array_equal(found, classifier.logits())


def test_other_networks_and_graphs_that_are_too_large_are_refused(
    trained, data, split, monkeypatch
):
    with pytest.raises(InputError, match="knows gcn and gat; got a classifier 'sage'"):
        dcgc.reweighted_logits(trained["sage"], data, split, seed=0)
    monkeypatch.setattr(dcgc, "MOST_NUMBERS", 1000)
    with pytest.raises(InputError, match="expected at most 1,000 numbers"):
        dcgc.reweighted_logits(trained["gcn"], data, split, seed=0)


# --- GCL


def test_gamma_has_the_smallest_validation_loss_of_the_grid(data, split):
    chosen = gcl.train_with_gcl("gcn", data, split, seed=0, settings=SHORT)
    losses = {
        gamma: train_classifier(
            "gcn", data, split, seed=0, settings=replace(SHORT, loss="gcl", gamma=gamma)
        ).validation_loss
        for gamma in gcl.GAMMAS
    }
    assert chosen.settings.gamma == min(losses, key=losses.get)
    assert chosen.validation_loss == min(losses.values())


def test_training_without_gamma_is_training_by_cross_entropy(data, split):
    settings = replace(SHORT, loss="gcl", gamma=0.0)
    found = train_classifier("gcn", data, split, seed=0, settings=settings).logits()
    plain = train_classifier("gcn", data, split, seed=0, settings=SHORT).logits()
    np.testing.assert_allclose(found, plain, atol=1e-4)


# --- As backbones


def test_a_treated_backbone_is_a_network_and_a_treatment():
    assert [parts_of(name) for name in TREATED] == [
        ["gcn", "dcgc"],
        ["gat", "dcgc"],
        ["gcn", "gcl"],
        ["gat", "gcl"],
    ]
    assert parts_of("a+b") == ["a+b"]  # somebody else's backbone


@pytest.mark.parametrize("backbone", ["gcn", *TREATED])
def test_every_treated_backbone_gives_logits_of_its_own(backbone, data, split, monkeypatch):
    monkeypatch.setattr(gcl, "GAMMAS", (2.0,))
    logits = train_logits(backbone, data, split, seed=0)
    assert logits.shape == (200, 3)
    assert (logits.argmax(axis=1) == data.labels)[split.test_nodes].mean() > 0.8
    plain = train_classifier(parts_of(backbone)[0], data, split, seed=0).logits()
    assert (np.abs(logits - plain).max() > 1e-2) == (backbone != "gcn")
