"""Training: deterministic, blind to test labels, stopped and restored as it says."""

import sys
from dataclasses import replace

import numpy as np
import pytest

import gnncal
from gnncal_lab.classifiers import (
    TrainingSettings,
    list_classifiers,
    train_classifier,
    training_settings,
)
from gnncal_lab.datasets import Dataset, Split, random_split
from gnncal_lab.simulation import CSBM

torch = pytest.importorskip("torch")

from gnncal_lab.classifiers.training import training_loss  # noqa: E402

SHORT = TrainingSettings(max_epochs=12)


@pytest.fixture(scope="module")
def data():
    sample = CSBM(n_classes=3).sample(np.full(300, 0.8), random_state=0)
    return Dataset("planted", sample.graph, sample.labels)


@pytest.fixture(scope="module")
def split():
    return random_split(300, 0)


@pytest.fixture(scope="module")
def noise(data):
    """Labels that cannot be learned, so that the validation loss soon rises."""
    return Dataset("noise", data.graph, np.random.default_rng(0).permutation(data.labels))


@pytest.mark.parametrize("backbone", list_classifiers())
def test_every_classifier_learns_a_planted_partition(backbone, data, split):
    logits = train_classifier(backbone, data, split, seed=0).logits()
    assert logits.shape == (300, 3)
    assert logits.dtype == np.float32
    assert (logits.argmax(axis=1) == data.labels)[split.test_nodes].mean() > 0.85


@pytest.mark.parametrize("backbone", list_classifiers())
def test_the_seed_decides_everything_and_torch_keeps_its_state(backbone, data, split):
    torch.manual_seed(99)
    state = torch.get_rng_state()
    first = train_classifier(backbone, data, split, seed=1, settings=SHORT).logits()
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(100)
    again = train_classifier(backbone, data, split, seed=1, settings=SHORT).logits()
    other = train_classifier(backbone, data, split, seed=2, settings=SHORT).logits()
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 1e-3


def test_labels_of_test_nodes_never_matter(data, split):
    labels = data.labels.copy()
    labels[split.test_nodes] = (labels[split.test_nodes] + 1) % 3
    changed = Dataset("planted", data.graph, labels)
    logits = [
        train_classifier("gcn", d, split, seed=0, settings=SHORT).logits() for d in (data, changed)
    ]
    np.testing.assert_array_equal(*logits)


def test_a_frozen_classifier_runs_on_another_graph(data, split):
    classifier = train_classifier("gcn", data, split, seed=0, settings=SHORT)
    graph = data.graph
    same = gnncal.Graph(graph.edge_index[:, ::-1], graph.n_nodes, graph.features)
    np.testing.assert_array_equal(classifier.logits(same), classifier.logits())
    thinned = gnncal.Graph(graph.edge_index[:, ::2], graph.n_nodes, graph.features)
    assert np.abs(classifier.logits(thinned) - classifier.logits()).max() > 1e-3
    np.testing.assert_array_equal(classifier.logits(same), classifier.logits())


def test_another_graph_needs_the_same_columns(data, split):
    classifier = train_classifier("gcn", data, split, seed=0, settings=SHORT)
    with pytest.raises(gnncal.InputError, match="trained on 16 features"):
        classifier.logits(gnncal.Graph(data.graph.edge_index, 300))


# --- Early stopping


def losses_by_epoch(data, split, n_epochs, **changes):
    """Validation loss of the weights after 1, 2, ... epochs."""
    return [
        train_classifier(
            "gcn", data, split, seed=0, settings=replace(SHORT, max_epochs=epoch, **changes)
        ).validation_loss
        for epoch in range(1, n_epochs + 1)
    ]


def test_matched_keeps_the_weights_of_the_smallest_validation_loss(noise, split):
    losses = losses_by_epoch(noise, split, 8, checkpoint="last", learning_rate=0.3)
    assert np.argmin(losses) < 7  # so that keeping the best differs from keeping the last
    settings = replace(SHORT, max_epochs=8, checkpoint="matched", learning_rate=0.3)
    best = train_classifier("gcn", noise, split, seed=0, settings=settings)
    assert best.validation_loss == min(losses)


def test_patience_counts_epochs_since_the_best(noise, split):
    losses = losses_by_epoch(noise, split, 8, checkpoint="last", learning_rate=0.3)
    best_so_far = [int(np.argmin(losses[:epoch])) + 1 for epoch in range(1, 9)]
    waited = [epoch - best for epoch, best in enumerate(best_so_far, start=1)]
    assert 2 in waited
    settings = TrainingSettings(patience=2, checkpoint="matched", learning_rate=0.3)
    assert (
        train_classifier("gcn", noise, split, seed=0, settings=settings).n_epochs
        == waited.index(2) + 1
    )


def test_without_patience_all_epochs_run(noise, split):
    settings = replace(SHORT, patience=None, learning_rate=0.5, checkpoint="matched")
    assert train_classifier("gcn", noise, split, seed=0, settings=settings).n_epochs == 12


def test_the_release_scores_before_a_step_and_keeps_the_weights_after_it(data, split):
    # without dropout the training-mode score before step t is the loss after step t - 1
    losses = losses_by_epoch(
        data, split, 8, checkpoint="last", learning_rate=0.3, dropout=0.0, patience=None
    )
    scores = losses[:-1]  # of steps 2 .. 8
    assert np.argmin(scores) < 6
    settings = replace(SHORT, max_epochs=8, learning_rate=0.3, dropout=0.0)
    kept = train_classifier("gcn", data, split, seed=0, settings=settings)
    assert kept.validation_loss == losses[int(np.argmin(scores)) + 1]


def test_stopping_on_accuracy_stops_once_it_stands_still(noise, split):
    settings = TrainingSettings(stop_on="accuracy", patience=3, checkpoint="matched", max_epochs=60)
    assert train_classifier("gcn", noise, split, seed=0, settings=settings).n_epochs < 60


# --- Losses and settings


def test_the_graph_calibration_loss_by_hand():
    logits, labels = torch.tensor([[0.0, 0.0], [np.log(3.0), 0.0]]), torch.tensor([0, 0])
    expected = -((1 + 2 * 0.5) * np.log(0.5) + (1 + 2 * 0.75) * np.log(0.75)) / 2
    loss = training_loss(logits, labels, TrainingSettings(loss="gcl", gamma=2.0))
    assert loss.item() == pytest.approx(expected, rel=1e-6)


def test_the_weighted_loss_gives_every_class_the_same_weight():
    logits, labels = (
        torch.tensor([[0.0, 0.0]] * 3 + [[np.log(3.0), 0.0]]),
        torch.tensor([0, 0, 0, 1]),
    )
    expected = -(np.log(0.5) + np.log(0.25)) / 2
    loss = training_loss(logits, labels, TrainingSettings(loss="weighted"))
    assert loss.item() == pytest.approx(expected, rel=1e-6)


def test_without_gamma_the_graph_calibration_loss_is_cross_entropy():
    logits, labels = torch.randn(5, 3), torch.tensor([0, 1, 2, 0, 1])
    plain = training_loss(logits, labels, TrainingSettings())
    calibrated = training_loss(logits, labels, TrainingSettings(loss="gcl", gamma=0.0))
    torch.testing.assert_close(plain, calibrated)


def test_settings_follow_the_papers_groups():
    assert training_settings("gcn", "Cora") == TrainingSettings()
    assert training_settings("gat", "my own graph") == TrainingSettings()
    assert training_settings("gin", "PubMed") == TrainingSettings(patience=None)
    physics = TrainingSettings(hidden=64, weight_decay=1e-3, dropout=0.8)
    assert training_settings("gcn", "Physics") == physics
    arxiv = TrainingSettings(hidden=256, weight_decay=0.0, batch_norm=True, patience=None)
    assert training_settings("sage", "ogbn-arxiv") == arxiv


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"patience": 0}, "patience is 0"),
        ({"dropout": 1.0}, "dropout is 1.0"),
        ({"checkpoint": "best"}, "checkpoint is 'best'; expected one of release, matched, last"),
    ],
)
def test_impossible_settings_are_refused(changes, message):
    with pytest.raises(gnncal.InputError, match=message):
        TrainingSettings(**changes)


# --- Wrong input


def test_wrong_input_is_named(data, split):
    with pytest.raises(
        gnncal.InputError, match="unknown classifier 'mlp'; expected one of gcn, gat"
    ):
        train_classifier("mlp", data, split, seed=0)
    empty = Split(split.train_nodes, split.calibration_nodes[:0], split.test_nodes)
    with pytest.raises(gnncal.InputError, match=r"split\.calibration_nodes is empty"):
        train_classifier("gcn", data, empty, seed=0)
    outside = Split(np.array([0, 300]), split.calibration_nodes, split.test_nodes)
    with pytest.raises(gnncal.InputError, match=r"split\.train_nodes must hold node numbers"):
        train_classifier("gcn", data, outside, seed=0)
    labels = data.labels.copy()
    labels[split.train_nodes[:2]] = -1
    with pytest.raises(gnncal.InputError, match=r"2 of the 60 nodes .*train_nodes have no label"):
        train_classifier("gcn", Dataset("planted", data.graph, labels), split, seed=0)
    bare = Dataset("bare", gnncal.Graph(data.graph.edge_index, 300), data.labels)
    with pytest.raises(gnncal.InputError, match="bare has no node features"):
        train_classifier("gcn", bare, split, seed=0)


def test_without_torch_the_error_names_the_extra(data, split, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(gnncal.MissingExtraError, match=r"gnncal\[neural\]"):
        train_classifier("gcn", data, split, seed=0)
