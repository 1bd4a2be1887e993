"""The check sees moves that are larger than chance, and says what it cannot know."""

import numpy as np
import pytest

import gnncal
from gnncal_lab.simulation import CSBM

N, K = 2400, 3


@pytest.fixture(scope="module")
def sample():
    homophily = np.random.default_rng(0).uniform(0.4, 1, N)
    return CSBM(n_classes=K, separation=1).sample(homophily)


@pytest.fixture(scope="module")
def task(sample):
    return 3 * sample.graph.features[:, :K], sample.labels, sample.graph


@pytest.fixture(scope="module")
def fitted(task):
    logits, labels, graph = task
    return gnncal.calibrators.Structural().fit(logits, labels, graph, calibration_nodes=range(800))


def test_other_nodes_of_the_same_graph_are_of_the_same_kind(fitted, task):
    logits, _, graph = task
    found = gnncal.check(fitted, logits, graph, nodes=range(800, N))
    assert found.verdict == "same"
    assert found.n_labels == 0
    assert [move.name for move in found.moves] == [
        "predicted classes",
        "confidence",
        "entropy",
        "support",
        "degree",
    ]
    assert "nothing to do" in found.sentence
    assert "cannot be detected without labels" in found.sentence


@pytest.fixture(scope="module")
def suspicious(task):
    """A fit on the nodes of which the model is least sure, as where people label those first."""
    logits, labels, graph = task
    confidence = gnncal.calibrators.softmax(logits).max(axis=1)
    chosen = np.flatnonzero(confidence < np.quantile(confidence, 0.3))
    return gnncal.calibrators.Structural().fit(
        logits, labels, graph, calibration_nodes=chosen
    ), chosen


def test_the_graph_of_the_fit_has_not_moved_even_if_its_labelled_nodes_are_unlike_the_rest(
    suspicious, task, tmp_path
):
    (fitted, _), (logits, _, graph) = suspicious, task
    fitted.save(tmp_path / "c")
    for calibrator in (fitted, gnncal.load(tmp_path / "c")):
        found = gnncal.check(calibrator, logits, graph)
        assert (found.verdict, found.compared_with) == ("same", "graph of the fit")
        assert f"compared {N:,} nodes of the graph of the fit and {N:,} new ones" in found.sentence
        assert "calibration nodes differ from the new nodes (" in found.sentence
        assert found.n_labels == 50
        assert not any(move.is_moved for move in found.moves)


def test_nodes_like_the_calibration_nodes_are_compared_with_those(suspicious, task):
    (fitted, chosen), (logits, _, graph) = suspicious, task
    found = gnncal.check(fitted, logits, graph, nodes=chosen[::2])
    assert (found.verdict, found.compared_with) == ("same", "calibration nodes")
    assert f"{len(chosen)} calibration nodes and" in found.sentence


def test_nodes_that_moved_from_both_have_moved(suspicious, task):
    (fitted, _), (logits, _, graph) = suspicious, task
    assert gnncal.check(fitted, 4 * logits, graph).verdict != "same"


def test_training_nodes_are_not_part_of_the_graph_that_is_compared(task):
    logits, labels, graph = task
    trained = logits.copy()
    trained[1600:] *= 20  # the model is sure of what it was trained on
    low = np.flatnonzero(gnncal.calibrators.softmax(logits[:1600]).max(axis=1) < 0.7)
    given = {"calibration_nodes": low, "train_nodes": range(1600, N)}
    fitted = gnncal.calibrators.Structural().fit(trained, labels, graph, **given)
    assert gnncal.check(fitted, trained, graph, nodes=range(1600)).verdict == "same"
    assert fitted.fitted_on_.all_nodes.n_nodes == 1600


def test_what_moved_is_named_with_its_direction(fitted, task):
    logits, _, graph = task
    softer = gnncal.check(fitted, logits / 2, graph, nodes=range(800, N))
    assert softer.verdict == "moved"
    assert "confidence is lower" in softer.sentence
    assert softer.n_labels == 50
    assert not {move.name: move.is_moved for move in softer.moves}["predicted classes"]
    favoured = gnncal.check(fitted, logits + np.array([3.0, 0, 0]), graph)
    assert "predicted classes differ" in favoured.sentence
    lonely = gnncal.check(fitted, logits, gnncal.Graph(graph.edge_index[:, ::3], N))
    assert "degree is lower" in lonely.sentence


def test_nodes_that_are_all_different_are_far_and_the_calibrator_is_not_to_be_used(fitted, task):
    logits, _, graph = task
    found = gnncal.check(fitted, 30 * np.eye(K)[np.zeros(N, int)] + 0 * logits, graph)
    assert found.verdict == "far"
    assert "Do not use this calibrator here" in found.sentence


def test_chance_shows_a_move_in_at_most_one_check_of_twenty(task, monkeypatch):
    monkeypatch.setattr("gnncal.shift.check.N_DRAWS", 200)
    logits, labels, graph = task
    moved = 0
    for seed in range(40):
        order = np.random.default_rng(seed).permutation(N)
        fitted = gnncal.calibrators.TemperatureScaling().fit(
            logits, labels, graph, calibration_nodes=np.sort(order[:300])
        )
        found = gnncal.check(fitted, logits, graph, nodes=np.sort(order[300:]))
        moved += any(move.is_moved for move in found.moves)
    assert moved <= 6  # 2 expected; more than 6 in one case of five hundred


def test_a_small_drift_outside_the_core_asks_for_nothing(fitted, task):
    logits, _, graph = task
    first = np.flatnonzero(logits.argmax(axis=1) == 0)
    new = np.setdiff1d(np.arange(N), first[::3])  # a third fewer of one class, otherwise the same
    found = gnncal.check(fitted, logits, graph, nodes=new)
    assert {move.name for move in found.moves if move.is_moved} == {"predicted classes"}
    assert found.verdict == "same"
    assert "small drift only (predicted classes differ)" in found.sentence


def test_it_never_states_an_accuracy(fitted, task):
    logits, _, graph = task
    for scale in (1, 0.5, 20):
        assert "accura" not in gnncal.check(fitted, scale * logits, graph).sentence


def test_single_precision_and_order_do_not_matter(fitted, task):
    logits, _, graph = task
    double = gnncal.check(fitted, logits, graph)
    single = gnncal.check(fitted, logits.astype(np.float32), graph)
    assert [m.distance for m in double.moves] == pytest.approx(
        [m.distance for m in single.moves], abs=0.002
    )


def test_without_a_graph_the_logits_alone_are_compared(fitted, task):
    logits, labels, graph = task
    found = gnncal.check(fitted, logits)
    assert [move.name for move in found.moves] == ["predicted classes", "confidence", "entropy"]
    assert "support and degree were not compared" in found.sentence
    without = gnncal.calibrators.TemperatureScaling().fit(
        logits, labels, calibration_nodes=range(800)
    )
    assert "support" not in without.fitted_on_.bins
    assert "not compared" not in gnncal.check(without, logits, graph).sentence


def test_a_saved_calibrator_gives_the_same_answer(fitted, task, tmp_path):
    logits, _, graph = task
    fitted.save(tmp_path / "c")
    assert repr(gnncal.check(gnncal.load(tmp_path / "c"), logits, graph)) == repr(
        gnncal.check(fitted, logits, graph)
    )


def test_bad_input_is_refused_in_one_sentence(fitted, task):
    logits, _, graph = task
    with pytest.raises(gnncal.InputError, match="2 columns but the calibrator was fitted for 3"):
        gnncal.check(fitted, logits[:, :2], graph)
    with pytest.raises(gnncal.InputError, match="there are 5 new nodes"):
        gnncal.check(fitted, logits, graph, nodes=range(5))


def test_a_summary_holds_counts_and_no_array_of_the_size_of_the_graph(fitted):
    seen = fitted.fitted_on_
    assert seen.n_nodes == seen.predicted.sum() == 800
    for bins in seen.bins.values():
        assert bins.cuts.shape == (20,)
        assert bins.counts.shape == (21,)
        assert bins.counts.sum() <= 800


def test_a_summary_of_very_many_nodes_looks_at_some(monkeypatch, task):
    logits, labels, _ = task
    monkeypatch.setattr("gnncal.math.node_summary.MOST_NODES", 100)
    seen = gnncal.calibrators.TemperatureScaling().fit(logits, labels).fitted_on_
    assert seen.n_nodes == 100


def test_nodes_without_neighbours_have_no_support(task):
    logits, labels, _ = task
    empty = gnncal.Graph(np.empty((2, 0), int), N)
    fitted = gnncal.calibrators.TemperatureScaling().fit(
        logits, labels, empty, calibration_nodes=range(800)
    )
    assert fitted.fitted_on_.bins["support"].counts.sum() == 0
    assert gnncal.check(fitted, logits, empty).verdict == "same"
