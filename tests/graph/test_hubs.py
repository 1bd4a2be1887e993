"""Means over very many neighbours keep the digits of their numbers, on every path."""

import numpy as np
import pytest

import gnncal
from gnncal.graph import compiled

MANY = 1_000_000


def star(n_leaves):
    """Leaves 1..n that send to the hub 0 and hear from it."""
    leaves = np.arange(1, n_leaves + 1)
    hub = np.zeros_like(leaves)
    return np.stack([np.append(leaves, hub), np.append(hub, leaves)])


@pytest.fixture(params=["scipy", "compiled"])
def path(request, monkeypatch):
    if request.param == "compiled":
        pytest.importorskip("numba", reason="the extra 'fast' is not installed")
        monkeypatch.setattr(compiled, "SMALLEST_GRAPH", 0)
    return request.param


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("side", ["in", "out", "both"])
def test_the_mean_of_a_tenth_over_a_million_leaves_is_a_tenth(side):
    graph = gnncal.Graph(star(MANY), MANY + 1)
    values = np.full((MANY + 1, 2), 0.1, dtype=np.float32)
    mean = graph.neighbour_mean(values, side=side)
    assert mean.dtype == np.float32
    np.testing.assert_allclose(mean[0], 0.1, rtol=1e-7)


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("n_leaves", [31, 33, 1000, 20_000])
def test_means_in_float32_are_those_of_float64(n_leaves):
    generator = np.random.default_rng(0)
    edges = np.append(star(n_leaves), generator.integers(n_leaves, size=(2, 3 * n_leaves)), axis=1)
    graph = gnncal.Graph(edges, n_leaves + 2)
    values = generator.random((n_leaves + 2, 5), dtype=np.float32)
    for side in ("in", "out", "both"):
        expected = graph.neighbour_mean(values.astype(np.float64), side=side)
        np.testing.assert_allclose(
            graph.neighbour_mean(values, side=side), expected, rtol=5e-7, err_msg=side
        )


@pytest.mark.usefixtures("path")
def test_structural_on_a_star_in_float32_is_that_of_float64():
    generator = np.random.default_rng(0)
    n_leaves = 100_000
    graph = gnncal.Graph(star(n_leaves), n_leaves + 1)
    logits = np.full((n_leaves + 1, 2), [0.3, -0.4]) + generator.normal(size=(n_leaves + 1, 1))
    logits[:, 1] -= generator.normal(size=n_leaves + 1) / 10
    labels = generator.integers(2, size=n_leaves + 1)
    logits = logits.astype(np.float32)
    precise = logits.astype(np.float64)
    nodes = np.arange(500)
    probs = [
        gnncal.calibrators.Structural()
        .fit(z, labels, graph, calibration_nodes=nodes)
        .predict_proba(z, graph)
        for z in (logits, precise)
    ]
    np.testing.assert_allclose(*probs, rtol=0, atol=1e-6)


def test_torch_sums_at_a_hub_in_float64():
    torch = pytest.importorskip("torch")
    from gnncal.torch.neighbours import EdgeList, neighbours_of

    edges = star(MANY)
    values = torch.full((MANY + 1, 2), 0.1)
    graph = gnncal.Graph(edges, MANY + 1)
    listed = EdgeList(torch.from_numpy(edges), values)
    for neighbours in (neighbours_of(graph, values, checks_values=True), listed):
        for side in ("in", "out", "both"):
            assert float(neighbours.mean(values, side)[0, 0]) == pytest.approx(0.1, rel=1e-7)
        classes = torch.zeros(MANY + 1, dtype=torch.int64)
        of_class = neighbours.class_mean(values, classes, "in")[0]
        assert float(of_class) == pytest.approx(0.1, rel=1e-7)
