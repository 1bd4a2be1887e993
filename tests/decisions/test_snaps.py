"""SNAPS: scores averaged with nodes of similar features and with neighbours."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from gnncal import Graph, InputError
from gnncal.decisions import ConformalClassifier
from gnncal.decisions import scores as similar_nodes
from tests.decisions.test_conformal import pool

NO_EDGES = np.zeros((2, 0), dtype=int)


def by_hand(features, values, k):
    """Means over the k most similar nodes, one node after the other; ties share the last places."""
    means = np.full(values.shape, np.nan)
    for i, row in enumerate(features):
        cosine = np.zeros(len(features))
        for j, other in enumerate(features):
            lengths = np.linalg.norm(row) * np.linalg.norm(other)
            if i != j and lengths > 0:
                cosine[j] = max(np.dot(row, other) / lengths, 0.0)
        ranked = np.sort(cosine)[::-1]
        last = ranked[min(k, len(ranked)) - 1]
        weights = np.where(cosine > last + 1e-5, cosine, 0.0)
        tied = np.abs(cosine - last) <= 1e-5
        weights[tied] = cosine[tied] * (k - (cosine > last + 1e-5).sum()) / tied.sum()
        if k >= len(features):
            weights = cosine
        if weights.sum() > 1e-4:
            means[i] = weights @ values / weights.sum()
    return means


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.booleans(), st.booleans())
def test_means_over_similar_nodes_are_those_by_hand(seed, k, whole, is_sparse):
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(9, 3))
    if whole:  # many ties, rows of zeros, opposite rows
        features = generator.integers(-1, 2, size=(9, 3)).astype(float)
    values = generator.normal(size=(9, 2))
    graph = Graph(NO_EDGES, 9, sparse.csr_array(features) if is_sparse else features)
    found = similar_nodes.similar_mean(graph, values, k)
    np.testing.assert_allclose(found, by_hand(features, values, k), atol=1e-6)


def test_blocks_change_nothing_and_hold_few_similarities(monkeypatch):
    generator = np.random.default_rng(0)
    features, values = generator.normal(size=(300, 8)), generator.normal(size=(300, 3))
    whole = similar_nodes.similar_mean(Graph(NO_EDGES, 300, features), values, 7)
    held = []
    inner = similar_nodes._most_similar
    monkeypatch.setattr(similar_nodes, "ENTRIES_PER_BLOCK", 2500)
    monkeypatch.setattr(
        similar_nodes, "_most_similar", lambda dense, k: held.append(dense.size) or inner(dense, k)
    )
    in_blocks = similar_nodes.similar_mean(Graph(NO_EDGES, 300, features), values, 7)
    np.testing.assert_allclose(in_blocks, whole)
    assert max(held) <= 2500


def test_scores_of_a_small_graph_by_hand():
    # 0 - 1, 2 and 3 alone; 0 and 2 have the same direction of features, 3 has none
    probs = np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.5, 0.5]])
    features = [[2, 0], [0, 1], [1, 0], [0, 0]]
    own = similar_nodes.aps(probs, np.zeros(4), None)
    params = {"similar": 0.5, "neighbours": 0.2, "k": 1}
    expected = [
        0.3 * own[0] + 0.5 * own[2] + 0.2 * own[1],
        0.8 * own[1] + 0.2 * own[0],
        0.5 * own[2] + 0.5 * own[0],
        own[3],
    ]
    for edges in ([[0, 1], [1, 0]], [[0], [1]]):
        graph = Graph(edges, 4, features)
        np.testing.assert_allclose(
            similar_nodes.snaps(probs, np.zeros(4), graph, **params), expected
        )


def test_sets_are_smaller_where_features_tell_what_edges_do_not():
    probs, labels, _ = pool(n_nodes=600)
    generator = np.random.default_rng(0)
    features = np.eye(4)[labels] + 0.3 * generator.normal(size=(600, 4))
    graph = Graph(generator.integers(600, size=(2, 3000)), 600, features)  # edges at random
    sizes = {
        score: ConformalClassifier(0.9, score=score)
        .fit(probs, labels, graph, calibration_nodes=range(300))
        .predict_set(probs, graph)[300:]
        .sum(axis=1)
        .mean()
        for score in ("aps", "daps", "snaps")
    }
    assert sizes["snaps"] < sizes["aps"] - 0.2
    assert sizes["snaps"] < sizes["daps"] - 0.2


def test_what_cannot_be_used_is_refused_with_one_sentence():
    probs, labels, graph = pool()
    without = Graph(graph.edge_index, graph.n_nodes)
    snaps = ConformalClassifier(score="snaps")
    with pytest.raises(InputError, match="snaps needs features of the nodes; pass Graph"):
        snaps.fit(probs, labels, without, calibration_nodes=range(len(probs)))
    with pytest.raises(InputError, match="needs a graph; pass that"):
        snaps.fit(probs, labels, calibration_nodes=range(len(probs)))
    with pytest.raises(InputError, match="k of snaps is 0"):
        snaps.set_params(score_params={"k": 0}).fit(
            probs, labels, graph, calibration_nodes=range(len(probs))
        )
