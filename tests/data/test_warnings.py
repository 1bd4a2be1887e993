"""A warning points at the user's line: the one that called into gnncal."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone

import gnncal
from gnncal.decisions import Policy

LOGITS = np.random.default_rng(0).normal(size=(40, 3))
LABELS = LOGITS.argmax(axis=1)
LABELS[::3] = (LABELS[::3] + 1) % 3
PROBS = gnncal.calibrators.softmax(LOGITS)
ONE_WAY = gnncal.Graph([np.arange(39), np.arange(1, 40)], 40)
SPLITS = {"calibration_nodes": range(20), "test_nodes": range(20, 40)}


def few(name="hots"):
    """A fit that has too few nodes for HoTS, and a graph with one direction of each edge."""
    gnncal.get_calibrator(name).fit(LOGITS, LABELS, fresh(ONE_WAY), calibration_nodes=range(8))


def fresh(graph):
    """The same graph as a new object, whose user has not been told anything yet."""
    return gnncal.Graph(graph.edge_index, graph.n_nodes)


CALLS = {
    "calibrate": lambda: gnncal.calibrate(LOGITS, LABELS, fresh(ONE_WAY), **SPLITS),
    "calibrate, probabilities": lambda: gnncal.calibrate(PROBS, LABELS, method="ts", **SPLITS),
    "fit": few,
    "fit, one label": lambda: gnncal.calibrators.TemperatureScaling().fit(
        LOGITS, LABELS, calibration_nodes=[0]
    ),
    "fit of a copy": lambda: clone(gnncal.calibrators.TemperatureScaling()).fit(PROBS, LABELS),
    "predict_proba": lambda: (
        gnncal.calibrators.Uncalibrated().fit(LOGITS, LABELS).predict_proba(PROBS)
    ),
    "Nodes": lambda: gnncal.Nodes(PROBS),
    "report": lambda: gnncal.report(PROBS, LABELS, methods=["ts"], **SPLITS),
    "policy": lambda: Policy(accuracy=0.99).fit(PROBS, LABELS, calibration_nodes=range(20)),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_warning_names_the_file_that_called_gnncal(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        CALLS[call]()
    notices = [each for each in caught if issubclass(each.category, gnncal.GnncalWarning)]
    assert notices
    assert {each.filename for each in notices} == {__file__}


def test_a_warning_about_a_graph_of_another_library_names_the_file_that_hands_it_over():
    data = pytest.importorskip("torch_geometric.data").Data
    torch = pytest.importorskip("torch")
    edges = torch.tensor(ONE_WAY.edge_index)
    weighted = data(edge_index=edges, edge_weight=torch.full((39,), 0.5), num_nodes=40)
    with pytest.warns(gnncal.GnncalWarning, match="edge weights") as caught:
        gnncal.calibrate(LOGITS, LABELS, weighted, method="ts", calibration_nodes=range(20))
    assert {each.filename for each in caught} == {__file__}
