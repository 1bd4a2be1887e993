"""Each network equals its formula, written a second time without gnncal, at the same weights."""

import numpy as np
import pytest
from scipy import sparse

import gnncal
import gnncal_lab
from gnncal_lab.methods.neural.wats import wavelet_coefficients
from tests.gnncal_lab.methods.neural import plain

pytestmark = pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning")
N, K, F = 23, 4, 5
GENERATOR = np.random.default_rng(3)
LOGITS = 2 * GENERATOR.normal(size=(N, K))
LABELS = (LOGITS + 2 * GENERATOR.gumbel(size=(N, K))).argmax(axis=1)
X = GENERATOR.normal(size=(N, F))
# Directed, with two-fold edges and self-loops; the last two nodes have no edges.
EDGES = GENERATOR.integers(N - 2, size=(2, 70))
EDGES = np.concatenate([EDGES, EDGES[:, :4], [[0, 0, 1], [0, 0, 1]]], axis=1)
A = plain.counts(EDGES, N)
GRAPH = gnncal.Graph(EDGES, N, X)
SPLIT = {"calibration_nodes": np.arange(0, N, 2), "train_nodes": np.arange(1, 10, 2)}
IS_TRAIN = np.isin(np.arange(N), SPLIT["train_nodes"])


def fitted(kind, graph=GRAPH, logits=LOGITS, **params):
    """A few epochs, then weights that are all away from their start."""
    calibrator = kind(max_epochs=3, **params).fit(logits, LABELS, graph, **SPLIT)
    generator = np.random.default_rng(8)
    calibrator.weights_ = {
        name: 0.6 * generator.normal(size=value.shape).astype(value.dtype)
        for name, value in calibrator.weights_.items()
    }
    return calibrator


@pytest.mark.parametrize("link", ["softplus", "log-shifted"])
@pytest.mark.parametrize("loops", [True, False])
@pytest.mark.parametrize("normalisation", ["in-out", "out"])
def test_cagcn(link, loops, normalisation):
    options = {"link": link, "add_self_loops": loops, "normalisation": normalisation}
    calibrator = fitted(gnncal_lab.CaGCN, **options)
    expected = plain.cagcn(calibrator.weights_, LOGITS, A, **options)
    found = calibrator.predict_temperature(LOGITS, GRAPH)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


@pytest.mark.parametrize("relative_to", ["in", "out"])
@pytest.mark.parametrize("positive", [True, False])
def test_gats(positive, relative_to):
    calibrator = fitted(gnncal_lab.GATS, heads=3, positive=positive, relative_to=relative_to)
    if not positive:
        for name in ("base_temperature", "train_factor", "neighbour_factor"):
            calibrator.weights_[name] = np.abs(calibrator.weights_[name]) + 0.3
    options = {"positive": positive, "relative_to": relative_to}
    expected = plain.gats(calibrator.weights_, LOGITS, A, IS_TRAIN, **options)
    found = calibrator.predict_temperature(LOGITS, GRAPH)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


@pytest.mark.parametrize("n_edges", [7, 1 << 20])
def test_gats_in_blocks_is_the_same(monkeypatch, n_edges):
    from gnncal_lab.methods.neural import propagation

    monkeypatch.setattr(propagation, "EDGES_PER_BLOCK", n_edges)
    monkeypatch.setattr(propagation, "EDGES_PER_PRODUCT", n_edges)
    calibrator = fitted(gnncal_lab.GATS)
    expected = plain.gats(calibrator.weights_, LOGITS, A, IS_TRAIN)
    found = calibrator.predict_temperature(LOGITS, GRAPH)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_gats_knows_training_nodes_on_its_graph_or_through_known_labels():
    calibrator = fitted(gnncal_lab.GATS)
    other = gnncal.Graph(np.concatenate([EDGES, [[3], [4]]], axis=1), N, X)
    B = plain.counts(other.edge_index, N)
    nobody = np.zeros(N, dtype=bool)
    found = calibrator.predict_temperature(LOGITS, other)
    np.testing.assert_allclose(found, plain.gats(calibrator.weights_, LOGITS, B, nobody))
    known = np.where(IS_TRAIN, LABELS, -1)
    found = calibrator.predict_temperature(gnncal.Nodes(LOGITS, other, known_labels=known))
    np.testing.assert_allclose(found, plain.gats(calibrator.weights_, LOGITS, B, IS_TRAIN))


@pytest.mark.parametrize("normalisation", ["in-out", "in"])
@pytest.mark.parametrize("coefficients", ["heat-kernel", "bessel", "exponential"])
def test_wats(coefficients, normalisation):
    params = {"order": 4, "scale": 0.7, "coefficients": coefficients}
    calibrator = fitted(gnncal_lab.WATS, normalisation=normalisation, **params)
    c = plain.heat_kernel_coefficients(4, 0.7)
    if coefficients == "heat-kernel":
        c[0] /= 2
    elif coefficients == "exponential":
        c = np.exp(-0.7 * np.arange(5))
    found = calibrator.predict_temperature(LOGITS, GRAPH)
    expected = plain.wats(calibrator.weights_, A, c, normalisation)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_wats_coefficients_of_the_first_release_by_hand():
    found = wavelet_coefficients("bessel", 2, 1.2)
    np.testing.assert_allclose(found, [0.8396, -0.4305, 0.1220], atol=1e-4)


def test_halved_heat_kernel_coefficients_are_an_expansion():
    eigenvalues = np.linspace(0, 2, 9)
    c = wavelet_coefficients("heat-kernel", 12, 2.0)
    series = np.polynomial.chebyshev.chebval(eigenvalues - 1, c)
    np.testing.assert_allclose(series, np.exp(-2.0 * eigenvalues), atol=1e-8)


@pytest.mark.parametrize("k", [1, 2, 7])
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_gets(layout, k):
    graph = gnncal.Graph(EDGES, N, layout(X))
    calibrator = fitted(gnncal_lab.GETS, graph, experts_per_node=k)
    expected = plain.softmax(plain.gets(calibrator.weights_, LOGITS, A, X, k))
    np.testing.assert_allclose(calibrator.predict_proba(LOGITS, graph), expected, rtol=1e-8)


def test_gets_without_features_runs_the_experts_that_need_none():
    bare = gnncal.Graph(EDGES, N)
    calibrator = fitted(gnncal_lab.GETS, bare, experts_per_node=2)
    expected = plain.softmax(plain.gets(calibrator.weights_, LOGITS, A, None, 2))
    np.testing.assert_allclose(calibrator.predict_proba(LOGITS, bare), expected, rtol=1e-8)
    # It never saw features, so those of another graph play no part.
    np.testing.assert_array_equal(
        calibrator.predict_proba(LOGITS, GRAPH), calibrator.predict_proba(LOGITS, bare)
    )


def test_gets_clips_degrees_it_has_not_seen():
    calibrator = fitted(gnncal_lab.GETS)
    hub = np.stack([np.zeros(60, dtype=int), np.arange(60) % N])
    edges = np.concatenate([EDGES, hub], axis=1)
    B = plain.counts(edges, N)
    assert (B.sum(axis=0) + B.sum(axis=1)).max() >= calibrator.weights_["degree_embedding"].shape[1]
    expected = plain.softmax(plain.gets(calibrator.weights_, LOGITS, B, X, 2))
    found = calibrator.predict_proba(LOGITS, gnncal.Graph(edges, N, X))
    np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_gets_asks_for_the_features_it_was_fitted_with():
    calibrator = fitted(gnncal_lab.GETS)
    for features, width in ((None, "none"), (X[:, :2], "2")):
        with pytest.raises(gnncal.InputError, match=f"fitted with 5 .* this graph has {width}"):
            calibrator.predict_proba(LOGITS, gnncal.Graph(EDGES, N, features))


def test_rows_that_are_wanted_are_the_rows_of_the_whole():
    import torch

    rows = np.array([2, 5, 11, 22])
    for kind in (gnncal_lab.CaGCN, gnncal_lab.GATS, gnncal_lab.WATS):
        calibrator = fitted(kind)
        inputs = calibrator._inputs(gnncal.Nodes(LOGITS, GRAPH), rows)
        part = calibrator._network(calibrator._tensors(LOGITS.dtype), inputs, None)
        whole = calibrator.predict_temperature(LOGITS, GRAPH)
        np.testing.assert_allclose(part.numpy(), whole[rows], rtol=1e-12)
    gets = fitted(gnncal_lab.GETS)
    inputs = gets._inputs(gnncal.Nodes(LOGITS, GRAPH), rows)
    z = torch.from_numpy(LOGITS[rows])
    part = gets._scores(gets._tensors(LOGITS.dtype), inputs, z, None).softmax(dim=1)
    np.testing.assert_allclose(part.numpy(), gets.predict_proba(LOGITS, GRAPH)[rows], rtol=1e-12)


def test_the_load_of_experts_by_hand():
    import torch

    from gnncal_lab.methods.neural.gate import noisy_top_k

    generator = np.random.default_rng(0)
    clean, spread = generator.normal(size=(2, 30, 7))
    epsilon = np.random.default_rng(5).standard_normal((30, 7), dtype=np.float32)
    sigma = plain.softplus(spread) + 0.01
    for k in (1, 2, 6):
        gates = noisy_top_k(
            torch.from_numpy(clean), torch.from_numpy(spread), k, np.random.default_rng(5)
        )
        expected = plain.imbalance(clean, sigma, epsilon, k)
        assert float(gates.imbalance) == pytest.approx(expected, rel=1e-6)
        assert (gates.weights > 0).sum(dim=1).unique().tolist() == [k]


def test_the_margin_by_hand():
    import torch

    calibrator = fitted(gnncal_lab.CaGCN, margin_weight=0.5, dropout=0.0)
    rows = SPLIT["calibration_nodes"]
    labels = LABELS[rows]
    inputs = calibrator._inputs(gnncal.Nodes(LOGITS, GRAPH), rows)
    T = calibrator.predict_temperature(LOGITS, GRAPH)[rows]
    z, y = torch.from_numpy(LOGITS[rows]), torch.from_numpy(labels)
    weights = calibrator._tensors(LOGITS.dtype)
    loss = calibrator._loss(weights, inputs, z, y, np.random.default_rng(0))
    probs = plain.softmax(LOGITS[rows] / T[:, None])
    expected = -np.log(probs[np.arange(len(rows)), labels]).mean()
    expected += 0.5 * plain.margin(LOGITS[rows], T, labels)
    assert float(loss) == pytest.approx(expected, rel=1e-10)
