"""The choice among calibrators."""

from __future__ import annotations

import numpy as np
import pytest

import gnncal
from gnncal.calibrators.auto import _choose
from tests.calibrators.test_structural import planted_graph


def test_where_one_temperature_is_the_truth_temperature_scaling_is_chosen():
    graph, honest, labels, _ = planted_graph(n=800)
    auto = gnncal.calibrators.Auto().fit(
        2.0 * honest, labels, graph, calibration_nodes=np.arange(400)
    )
    assert auto.chosen_ == "ts"
    assert auto.reason_.startswith("ts ")


def test_where_the_degree_matters_the_law_is_chosen():
    graph, honest, labels, _ = planted_graph(n=4000)
    factor = np.exp(3.0 * (np.log1p(graph.in_degree) / 4 - 0.55))
    logits = honest * factor[:, None]
    auto = gnncal.calibrators.Auto().fit(logits, labels, graph, calibration_nodes=np.arange(2000))
    assert auto.chosen_ == "structural-temperature"
    alone = gnncal.get_calibrator("structural-temperature").fit(
        logits, labels, graph, calibration_nodes=np.arange(2000)
    )
    np.testing.assert_array_equal(
        auto.predict_proba(logits, graph), alone.predict_proba(logits, graph)
    )


def test_the_choice_by_hand():
    # b is lower on average by 0.1 with a standard error of 0.1: a is within it, and simpler.
    losses = np.array([[1.0, 1.2, 1.4], [1.1, 1.1, 1.1]])
    assert _choose(["a", "b"], losses)[0] == "a"
    # The same difference on every node has no error.
    assert _choose(["a", "b"], np.array([[1.2, 1.3, 1.4], [1.1, 1.2, 1.3]]))[0] == "b"


def test_nodes_in_any_order_give_the_same_choice_where_many_are_certain():
    graph, honest, labels, _ = planted_graph(n=200)
    logits = 40.0 * honest  # the entropy of most nodes is 0
    order = np.random.default_rng(1).permutation(len(labels))
    place = np.argsort(order)
    renumbered = gnncal.Graph(place[graph.edge_index], len(labels))
    make = gnncal.calibrators.Auto
    auto = make().fit(logits, labels, graph, calibration_nodes=np.arange(60))
    again = make().fit(logits[order], labels[order], renumbered, calibration_nodes=place[:60])
    assert again.chosen_ == auto.chosen_
    np.testing.assert_allclose(again.losses_, auto.losses_, rtol=1e-3)


def test_choosing_from_itself_is_refused():
    graph, honest, labels, _ = planted_graph(n=50)
    with pytest.raises(gnncal.InputError, match="contains 'auto' itself"):
        gnncal.calibrators.Auto(candidates=["ts", "auto"]).fit(
            honest, labels, graph, calibration_nodes=np.arange(20)
        )
    with pytest.raises(gnncal.InputError, match="unknown calibrator 'tss'"):
        gnncal.calibrators.Auto(candidates=["tss"]).fit(
            honest, labels, graph, calibration_nodes=np.arange(20)
        )


def test_a_result_says_what_was_chosen_and_why():
    graph, honest, labels, _ = planted_graph(n=200)
    result = gnncal.calibrate(
        honest, labels, graph, calibration_nodes=np.arange(100), method="auto"
    )
    name = gnncal.calibrators.registry.name_of(result.calibrator)
    assert result.calibrator.fit_report_.notes[0].startswith(f"{name} ")
    assert result.calibrator.fit_report_.notes[0] in " ".join(str(result).split())


def test_candidates_that_need_no_graph_are_chosen_from_without_one(tmp_path):
    _, logits, labels, _ = planted_graph(n=400)
    auto = gnncal.calibrators.Auto(candidates=["ts", "hts"]).fit(
        logits, labels, calibration_nodes=np.arange(200)
    )
    auto.save(tmp_path / "auto.safetensors")
    again = gnncal.load(tmp_path / "auto.safetensors")
    np.testing.assert_array_equal(auto.predict_proba(logits), again.predict_proba(logits))
    with pytest.raises(gnncal.InputError, match="Auto needs a graph"):
        gnncal.calibrators.Auto(candidates=["ts", "rbs"]).fit(
            logits, labels, calibration_nodes=np.arange(200)
        )


def test_predictions_are_kept_if_every_candidate_keeps_them():
    assert gnncal.calibrators.Auto().preserves_predictions
    assert not gnncal.calibrators.Auto(candidates=["ts", "svs"]).preserves_predictions
