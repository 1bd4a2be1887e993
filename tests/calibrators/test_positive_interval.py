"""The interval of a class's probability holds the true one about as often as it says."""

import numpy as np
import pytest

import gnncal
from gnncal.calibrators import Structural
from gnncal.calibrators.structural import centre_of
from gnncal.math.formulas import describe_neighbourhoods


def drawn(seed, n=1500, n_classes=2):
    """A graph, logits, and labels drawn from a planted model with its probabilities."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, n_classes, n)
    edges = rng.integers(0, n, (2, 8 * n))
    edges = edges[:, (kind[edges[0]] == kind[edges[1]]) | (rng.random(8 * n) < 0.3)]
    graph = gnncal.Graph(np.hstack([edges, edges[::-1]]), n)
    logits = 1.5 * rng.normal(size=(n, n_classes)) + 2.0 * np.eye(n_classes)[kind]
    true = Structural(keep_predictions=False)
    true.classes_, true.floor_ = np.arange(n_classes), np.zeros(n_classes)
    true.certain_temperature_, true.uncertain_temperature_ = np.exp(rng.normal([0.5, -0.2], 0.3))
    true.weights_, true.class_offsets_ = rng.normal(0, 0.4, 6), rng.normal(0, 0.15, n_classes)
    true.bias_, true.neighbour_weight_ = rng.normal(0, 0.5, n_classes), rng.normal(0.6, 0.3)
    nodes = gnncal.Nodes(logits, graph)
    true.centre_ = centre_of(nodes.cached(describe_neighbourhoods).covariates)
    probs = true.predict_proba(nodes)
    labels = (rng.random(n)[:, None] > probs.cumsum(axis=1)).sum(axis=1)
    return logits, labels.clip(0, n_classes - 1), graph, probs


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_interval_holds_the_true_probability_as_often_as_it_says(n_classes):
    held = []
    for seed in range(20):
        logits, labels, graph, probs = drawn(seed, n_classes=n_classes)
        fitted = Structural(keep_predictions=False).fit(
            logits, labels, graph, calibration_nodes=range(500)
        )
        low, high = fitted.positive_interval(logits, graph, positive=1, level=0.9).T
        held.append(((low <= probs[:, 1]) & (probs[:, 1] <= high))[500:].mean())
    assert 0.82 < np.mean(held) < 0.97


def test_the_interval_holds_the_probability_and_widens_with_the_level():
    logits, labels, graph, _ = drawn(0, n=600, n_classes=3)
    fitted = Structural(keep_predictions=False).fit(
        logits, labels, graph, calibration_nodes=range(200)
    )
    probs = fitted.predict_proba(logits, graph)[:, 2]
    narrow, wide = (
        fitted.positive_interval(logits, graph, positive=2, level=level) for level in (0.5, 0.95)
    )
    assert (wide[:, 0] <= narrow[:, 0]).all()
    assert (narrow[:, 0] <= probs).all()
    assert (probs <= narrow[:, 1] + 1e-12).all()
    assert (narrow[:, 1] <= wide[:, 1]).all()
    assert ((wide >= 0) & (wide <= 1)).all()


def test_what_an_interval_cannot_say_is_refused_or_warned_of():
    logits, labels, graph, _ = drawn(1, n=600)
    nodes = np.append(np.flatnonzero(labels == 0)[:100], np.flatnonzero(labels == 1)[:4])
    fitted = Structural(keep_predictions=False).fit(logits, labels, graph, calibration_nodes=nodes)
    with pytest.warns(gnncal.GnncalWarning, match="only 4 calibration nodes have class 1"):
        fitted.positive_interval(logits, graph, positive=1)
    with pytest.raises(gnncal.InputError, match="level is 2"):
        fitted.positive_interval(logits, graph, positive=0, level=2)
    kept = Structural().fit(logits, labels, graph, calibration_nodes=range(200))
    with pytest.raises(gnncal.InputError, match="predictions may change"):
        kept.positive_interval(logits, graph, positive=1)
