"""A model of a rare class on a graph, as it is or trained with class weights."""

import numpy as np

import gnncal
from gnncal.files.bundle import Bundle, write_bundle

NAMES = ["honest", "fraud"]


def fraud_task(*, is_weighted, n_nodes=2000, n_calibration=600, rate=0.05, seed=0):
    """Logits, labels and graph, and the splits by the names that ``calibrate`` gives them.

    The logits of the unweighted model are the exact log odds. Weights that make both classes
    count alike add the log odds of the rate: the boundary lies elsewhere than the nodes do.
    """
    generator = np.random.default_rng(seed)
    labels = (generator.random(n_nodes) < rate).astype(int)
    edges = generator.integers(n_nodes, size=(2, 4 * n_nodes))
    alike = labels[edges[0]] == labels[edges[1]]
    edges = edges[:, alike | (generator.random(edges.shape[1]) < 0.5)]
    log_odds = 2 * (2 * labels + generator.normal(size=n_nodes)) - 2
    if not is_weighted:
        log_odds += np.log(rate / (1 - rate))
    logits = np.column_stack([np.zeros(n_nodes), log_odds])
    graph = gnncal.Graph(np.hstack([edges, edges[::-1]]), n_nodes)
    splits = {
        "calibration_nodes": range(n_calibration),
        "test_nodes": range(n_calibration, n_nodes),
    }
    return (logits, labels, graph), splits


def write_fraud_bundle(path, *, is_weighted):
    """Write the task as a file for the command line; returns its path."""
    (logits, labels, graph), splits = fraud_task(is_weighted=is_weighted)
    parts = (
        np.empty(0, dtype=np.int64),
        np.array(splits["calibration_nodes"]),
        np.array(splits["test_nodes"]),
    )
    write_bundle(path, Bundle(logits, labels, graph, *parts, class_names=NAMES))
    return path
