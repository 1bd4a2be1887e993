"""Structural statistics against networkx, straight loops and values by hand."""

import networkx as nx
import numpy as np
import pytest

import gnncal
from gnncal.data.errors import InputError
from gnncal_lab.bench import structure
from gnncal_lab.bench.diagnosis import diagnose, read_diagnosis, structural_correlations
from gnncal_lab.bench.plan import Task
from gnncal_lab.bench.records import read_lines
from gnncal_lab.bench.structure import (
    LINKED,
    correlation,
    homophily_split,
    node_statistics,
    oracle_homophily,
    residual_moments,
)
from tests.gnncal_lab.bench.graphs import write_bundles


@pytest.fixture
def graph():
    """Directed, with a self-loop, a doubled edge, a pair of opposite edges and a lone node."""
    generator = np.random.default_rng(0)
    edges = generator.integers(30, size=(2, 120))
    edges = np.concatenate([edges, edges[:, :2], edges[::-1, 5:7], [[4], [4]]], axis=1)
    return gnncal.Graph(edges, 31)


def as_networkx(graph):
    other = nx.Graph()
    other.add_nodes_from(range(graph.n_nodes))
    other.add_edges_from((int(u), int(v)) for u, v in graph.edge_index.T if u != v)
    return other


def test_clustering_and_pagerank_are_those_of_networkx(graph):
    found = node_statistics(graph, np.zeros(31, dtype=int), 2)
    other = as_networkx(graph)
    expected = nx.clustering(other)
    np.testing.assert_allclose(found["clustering"], [expected[i] for i in range(31)])
    expected = nx.pagerank(other, alpha=0.85, tol=1e-13, max_iter=1000)
    np.testing.assert_allclose(found["pagerank"], [expected[i] for i in range(31)], rtol=1e-8)


def test_curvature_is_the_mean_over_incident_edges(graph, monkeypatch):
    monkeypatch.setattr(structure, "PATHS_PER_BLOCK", 64)  # several blocks
    found = node_statistics(graph, np.zeros(31, dtype=int), 2)["curvature"]
    other = as_networkx(graph)
    for node in range(30):
        edges = [
            4
            - other.degree(node)
            - other.degree(v)
            + 3 * len([*nx.common_neighbors(other, node, v)])
            for v in other[node]
        ]
        assert found[node] == pytest.approx(np.mean(edges))
    assert np.isnan(found[30])


def test_oracle_homophily_looks_at_receivers_and_counts_loops():
    graph = gnncal.Graph(np.array([[0, 0, 0, 1, 2], [0, 1, 2, 0, 2]]), 4)
    labels = np.array([0, 0, 1, 0])
    np.testing.assert_allclose(oracle_homophily(graph, labels), [2 / 3, 1.0, 1.0, 0.0])
    found = node_statistics(graph, labels, 2)
    np.testing.assert_allclose(found["homophily"], [1 / 3, 1.0, 1.0, -1.0])
    np.testing.assert_allclose(found[LINKED], [1 / 3, 1.0, 1.0, np.nan])


def test_partial_correlation_is_that_of_regression_residuals():
    generator = np.random.default_rng(2)
    confidence, statistic = generator.random((2, 400))
    degree = generator.integers(0, 30, 400)
    correct = (generator.random(400) < confidence).astype(float)
    statistic = statistic + confidence + 0.3 * correct
    statistic[:7] = np.nan
    design = np.stack([np.ones(393), confidence[7:], np.log(1.0 + degree[7:])], axis=1)
    hat = design @ np.linalg.inv(design.T @ design) @ design.T
    residuals = [values[7:] - hat @ values[7:] for values in (statistic, correct)]
    moments = residual_moments(statistic, correct, confidence, degree)
    assert moments.n_nodes == 393
    assert correlation([moments]) == pytest.approx(np.corrcoef(*residuals)[0, 1], abs=1e-10)
    # Two equal runs put together correlate as one.
    assert correlation([moments, moments]) == pytest.approx(correlation([moments]))


def test_a_statistic_that_never_varies_has_no_correlation():
    ones = np.ones(10)
    moments = residual_moments(np.zeros(10), ones, np.linspace(0, 1, 10), np.arange(10))
    assert np.isnan(correlation([moments]))


def test_homophily_split_by_hand():
    confidence = np.array([0.1, 0.2, 0.3, 0.4, 0.9, 0.8, 0.7, 0.6])
    homophily = np.array([0.0, 1.0, 0.5, 0.7, 0.2, 0.2, 0.9, 0.1])
    correct = np.array([0, 1, 0, 1, 1, 0, 1, 0.0])
    split = homophily_split(confidence, correct, homophily, n_groups=2, n_bins=2)
    # Low confidence: nodes 0-3, homophily ranks 0, 2 | 3, 1. High: 7, then 4 before 5, then 6.
    assert split.accuracy == [[0.0, 1.0], [0.5, 0.5]]
    np.testing.assert_allclose(split.confidence, [0.25, 0.75])
    assert split.gap == pytest.approx(0.5)
    with pytest.raises(InputError, match="there are 8 test nodes; 5 quantiles of 2 groups need"):
        homophily_split(confidence, correct, homophily, n_groups=2)


def test_a_diagnosis_is_made_once(tmp_path):
    source = write_bundles(tmp_path / "bundles")
    assert diagnose(tmp_path, source, "gcn", {"A": [0, 1], "B": [0, 1]}) == ["A", "B"]
    assert diagnose(tmp_path, source, "gcn", {"A": [0, 1], "B": [0, 1]}) == []
    assert diagnose(tmp_path, source, "gcn", {"A": [0]}) == ["A"]
    assert diagnose(tmp_path, source, "gcn", {"A": [0, 1]}) == ["A"]  # the last one counts
    found = read_diagnosis(tmp_path)["gcn"]
    assert list(found) == ["A", "B"]
    noted = [entry["run"] for entry in read_lines(tmp_path / "runs.jsonl")]
    assert (len(noted), found["A"]["run"]) == (3, noted[-1])
    assert len(found["A"]["moments"]) == 2
    assert np.array(found["A"]["splits"]["3"]["accuracy"]).shape == (5, 3)
    assert {len(column) for column in found["A"]["nodes"].values()} <= {*range(1, 101)}


def test_pooled_joins_all_residuals_and_macro_averages_datasets(tmp_path):
    source = write_bundles(tmp_path / "bundles")
    diagnose(tmp_path, source, "gcn", {"A": [0, 1], "B": [0, 1]})
    pooled, macro = structural_correlations(read_diagnosis(tmp_path)["gcn"])["clustering"]
    residuals = {"A": [], "B": []}
    for dataset in residuals:
        statistic = None
        for seed in (0, 1):
            run = source.load(Task(dataset, "gcn", seed))
            if statistic is None:  # one graph a dataset; these bundles have one a seed
                statistic = node_statistics(run.graph, run.labels, 3)["clustering"]
            probs = gnncal.calibrators.softmax(run.logits[run.test_nodes])
            both = np.stack(
                [statistic[run.test_nodes], probs.argmax(axis=1) == run.labels[run.test_nodes]]
            )
            degree = np.log(1.0 + run.graph.in_degree[run.test_nodes])
            design = np.stack([np.ones(len(degree)), probs.max(axis=1), degree], axis=1)
            hat = design @ np.linalg.pinv(design)
            residuals[dataset].append(both - both @ hat.T)
    by_dataset = {name: np.concatenate(parts, axis=1) for name, parts in residuals.items()}
    expected = [np.corrcoef(values)[0, 1] for values in by_dataset.values()]
    assert macro == pytest.approx(np.mean(expected), abs=1e-9)
    together = np.concatenate([*by_dataset.values()], axis=1)
    assert pooled == pytest.approx(np.corrcoef(together)[0, 1], abs=1e-9)
