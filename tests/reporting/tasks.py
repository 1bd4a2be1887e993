"""A small graph with a model that is too sure of itself."""

from unittest.mock import patch

import numpy as np

import gnncal
from gnncal_lab.simulation import CSBM


def task(n_nodes=600, n_classes=4):
    """Logits, labels and graph, and the splits by the names that ``calibrate`` gives them."""
    generator = np.random.default_rng(0)
    homophily = np.where(generator.random(n_nodes) < 0.5, 0.3, 0.9)
    model = CSBM(n_classes=n_classes, mean_degree=8, separation=1.0)
    sample = model.sample(homophily, random_state=0)
    logits = generator.normal(size=(n_nodes, n_classes))
    logits[np.arange(n_nodes), sample.labels] += 1.2
    parts = np.split(generator.permutation(n_nodes), [n_nodes // 10, n_nodes // 2])
    train, val, test = map(np.sort, parts)
    return (3 * logits, sample.labels, sample.graph), {
        "train_nodes": train,
        "calibration_nodes": val,
        "test_nodes": test,
    }


def subject_of(*data, **asked):
    """What a report is about, checked; nothing is fitted."""
    with patch("gnncal.reporting.report.find") as find, patch("gnncal.reporting.report.render"):
        gnncal.report(*data, **asked)
    return find.call_args.args[0]
