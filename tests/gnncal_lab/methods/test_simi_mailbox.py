"""Simi-Mailbox against its definition, written out node by node and group by group."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from sklearn.cluster import KMeans

import gnncal
import gnncal_lab
from gnncal_lab.fitting import similarity
from gnncal_lab.fitting.gap_loss import GapLoss
from gnncal_lab.fitting.similarity import neighbour_similarity
from gnncal_lab.methods import simi_mailbox
from tests.calibrators.planted import draw, mean_log_loss
from tests.strategies import small_task, tasks

pytestmark = pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning")


def sigmoid(x):
    return 0.5 * (1 + np.tanh(x / 2))


def similarity_by_hand(logits, edges):
    heard = {i: [] for i in range(len(logits))}
    for sender, receiver in edges.T:
        if sender != receiver:
            heard[receiver].append(sigmoid(float(logits[receiver] @ logits[sender])))
    return np.array([np.mean(each) if each else 0.0 for each in heard.values()])


def group_loss_by_hand(u, logits, labels, share, weight):
    log_probs = log_softmax(logits / np.exp(u), axis=1)  # finite where a probability is zero
    gap = np.exp(log_probs).max(axis=1).mean() - (logits.argmax(axis=1) == labels).mean()
    return -share * log_probs[np.arange(len(labels)), labels].mean() + weight * gap**2


def best_by_hand(logits, labels, share, weight):
    """The best of a fine grid, then a scalar search beside it."""
    low, high = np.log([0.05, 20])
    grid = np.linspace(low, high, 61)
    values = [group_loss_by_hand(u, logits, labels, share, weight) for u in grid]
    best = grid[int(np.argmin(values))]
    return minimize_scalar(
        lambda u: group_loss_by_hand(u, logits, labels, share, weight),
        bounds=(max(low, best - 0.1), min(high, best + 0.1)),
        method="bounded",
        options={"xatol": 1e-9},
    )


def points_by_hand(logits, edges):
    confidence = gnncal.calibrators.softmax(logits.astype(float)).max(axis=1)
    return np.stack([confidence, similarity_by_hand(logits, edges)], axis=1)


def groups_by_hand(points, n_groups):
    """Group of each node, centres in rising order."""
    low, high = points.min(axis=0), points.max(axis=0)
    scaled = (points - low) / (high - low)
    in_order = scaled[np.lexsort(scaled.T)]
    centres = KMeans(n_groups, random_state=0, n_init=1).fit(in_order).cluster_centers_
    centres = np.array(sorted(centres.tolist()))
    return np.linalg.norm(scaled[:, None] - centres, axis=2).argmin(axis=1)


@pytest.fixture(scope="module")
def planted():
    """Nodes whose logits are overconfident where they are certain."""
    generator = np.random.default_rng(0)
    logits, _ = draw(900, 3, 0, temperature=1.0)
    confidence = gnncal.calibrators.softmax(logits).max(axis=1)
    truth = gnncal.calibrators.softmax(logits, np.where(confidence > 0.7, 3.0, 0.8))
    labels = (generator.random((900, 1)) > np.cumsum(truth, axis=1)[:, :-1]).sum(axis=1)
    return logits, labels, generator.integers(0, 900, size=(2, 1800))


@given(task=tasks(kinds=("plain", "float32", "sharp", "tied", "constant")))
def test_similarity_is_the_mean_over_senders_without_loops_and_zero_without_any(task):
    found = neighbour_similarity(task.logits, task.graph)
    expected = similarity_by_hand(task.logits.astype(float), task.edges)
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_similarities_of_four_nodes_by_hand():
    # 0 and 2 send to 1, 1 has a loop, 0 sends to 2 twice and 1 once; 0 and 3 hear nobody.
    logits = np.array([[1.0, 0.0], [np.log(3), 0.0], [0.0, np.log(2)], [5.0, 5.0]])
    graph = gnncal.Graph([[0, 2, 1, 0, 0, 1], [1, 1, 1, 2, 2, 2]], 4)
    # sigmoid(ln 3) = 3/4 between 0 and 1; the others' products are 0: one half.
    expected = [0.0, (3 / 4 + 1 / 2) / 2, 1 / 2, 0.0]
    np.testing.assert_allclose(neighbour_similarity(logits, graph), expected, rtol=1e-12)


def test_the_blocks_that_edges_are_taken_in_do_not_matter(monkeypatch):
    task = small_task()
    expected = neighbour_similarity(task.logits, task.graph)
    monkeypatch.setattr(similarity, "NUMBERS_AT_ONCE", 21)  # seven edges of three classes
    np.testing.assert_allclose(neighbour_similarity(task.logits, task.graph), expected, rtol=1e-12)


def test_huge_logits_are_similar_or_not_and_nothing_else():
    logits = np.array([[1e300, -1e300], [1e300, 0.0], [-1e300, 1e300]])
    graph = gnncal.Graph([[1, 2], [0, 1]], 3)
    np.testing.assert_array_equal(neighbour_similarity(logits, graph), [1.0, 0.0, 0.0])


def test_nothing_of_size_edges_by_classes_is_kept():
    generator = np.random.default_rng(0)
    n, n_classes, n_edges = 1000, 100, 300_000
    logits = generator.normal(size=(n, n_classes)).astype(np.float32)
    graph = gnncal.Graph(generator.integers(0, n, size=(2, n_edges)), n)
    tracemalloc.start()
    neighbour_similarity(logits, graph)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < n_edges * n_classes * 4 / 3


def test_a_group_of_equal_nodes_gets_the_temperature_of_its_accuracy():
    # Three of four are right, so softmax((2, 0) / T) must say 3/4: T = 2 / ln 3. There both parts
    # of the loss are lowest, so their weights do not matter.
    logits, labels = np.tile([2.0, 0.0], (8, 1)), np.array([0, 0, 0, 1] * 2)
    graph = gnncal.Graph([[0, 1], [1, 0]], 8)
    for weight in (0.0, 1.0, 50.0):
        calibrator = gnncal_lab.SimiMailbox(n_groups=1, gap_weight=weight)
        calibrator.fit(logits, labels, graph, calibration_nodes=range(8))
        np.testing.assert_allclose(calibrator.group_temperatures_, 2 / np.log(3), rtol=1e-6)


@given(seed=st.integers(0, 2**32 - 1), weight=st.sampled_from([0.0, 1.0, 50.0]))
@example(seed=1703, weight=0.0)  # a probability of zero at the lowest temperature
def test_the_temperature_of_a_group_has_the_lowest_loss_of_all(seed, weight):
    generator = np.random.default_rng(seed)
    logits = generator.normal(size=(generator.integers(1, 30), 3)) * generator.choice([0.3, 2, 10])
    labels = generator.integers(0, 3, size=len(logits))
    run = GapLoss(logits, labels, 0.3, weight).solved()
    assert run.converged
    assert run.loss == pytest.approx(
        group_loss_by_hand(run.parameters[0], logits, labels, 0.3, weight), abs=1e-9
    )
    assert run.loss <= best_by_hand(logits, labels, 0.3, weight).fun + 1e-9


def test_derivatives_are_those_of_finite_differences():
    generator = np.random.default_rng(1)
    loss = GapLoss(generator.normal(size=(20, 4)), generator.integers(0, 4, 20), 0.4, 50.0)
    code, step = np.linspace(-2, 2, 9)[:, None], 1e-5
    _, gradient, hessian = loss.derivatives(code)
    above, below = loss.derivatives(code + step), loss.derivatives(code - step)
    slope = (above[0] - below[0])[:, None] / (2 * step)
    np.testing.assert_allclose(gradient, slope, atol=1e-6)
    np.testing.assert_allclose(hessian[:, 0], (above[1] - below[1]) / (2 * step), atol=1e-5)


def test_the_whole_method_is_what_a_straight_line_of_its_definition_gives(planted):
    logits, labels, edges = planted
    nodes = np.arange(0, 900, 3)
    calibrator = gnncal_lab.SimiMailbox(n_groups=3)
    calibrator.fit(logits, labels, gnncal.Graph(edges, 900), calibration_nodes=nodes)
    groups = groups_by_hand(points_by_hand(logits, edges), 3)
    for g in range(3):
        own = nodes[groups[nodes] == g]
        best = best_by_hand(logits[own], labels[own], len(own) / len(nodes), 50.0)
        assert np.log(calibrator.group_temperatures_[g]) == pytest.approx(best.x, abs=1e-4)
        np.testing.assert_array_equal(
            calibrator.temperature_[groups == g], calibrator.group_temperatures_[g]
        )


def test_planted_groups_are_found_and_beat_one_temperature(planted):
    logits, labels, edges = planted
    calibrator = gnncal_lab.SimiMailbox()
    calibrator.fit(logits, labels, gnncal.Graph(edges, 900), calibration_nodes=np.arange(900))
    single = gnncal.calibrators.TemperatureScaling().fit(logits, labels)
    assert calibrator.fit_report_.loss_after < single.fit_report_.loss_after - 0.005
    certain = gnncal.calibrators.softmax(logits).max(axis=1) > 0.9
    assert np.median(calibrator.temperature_[certain]) == pytest.approx(3.0, rel=0.3)


def test_the_number_of_groups_has_the_lowest_loss_on_held_out_folds(planted, monkeypatch):
    monkeypatch.setattr(simi_mailbox, "CANDIDATES", (1, 2, 5))
    logits, labels, edges = planted
    nodes = np.arange(0, 900, 4)
    points = points_by_hand(logits, edges)
    z, y = logits[nodes], labels[nodes]
    fold = np.argsort(np.lexsort((points[nodes, 1], points[nodes, 0]))) % 5
    losses = {}
    for n_groups in simi_mailbox.CANDIDATES:
        groups = groups_by_hand(points, n_groups)[nodes]
        temperature = np.ones(len(y))
        for f in range(5):
            rest = fold != f
            for g in range(n_groups):
                own, held = rest & (groups == g), ~rest & (groups == g)
                share = own.sum() / rest.sum()
                if held.any() and own.any():
                    temperature[held] = np.exp(best_by_hand(z[own], y[own], share, 50.0).x)
                elif held.any():
                    temperature[held] = np.exp(best_by_hand(z[rest], y[rest], 1.0, 50.0).x)
        losses[n_groups] = mean_log_loss(y, gnncal.calibrators.softmax(z, temperature))
    calibrator = gnncal_lab.SimiMailbox().fit(
        logits, labels, gnncal.Graph(edges, 900), calibration_nodes=nodes
    )
    assert len(calibrator.centres_) == min(losses, key=losses.get)


def test_a_group_without_calibration_nodes_gets_the_temperature_of_all(planted):
    logits, labels, edges = planted
    graph = gnncal.Graph(edges, 900)
    groups = gnncal_lab.SimiMailbox(n_groups=4).fit(
        logits, labels, graph, calibration_nodes=range(900)
    )
    empty = 2
    nodes = np.flatnonzero(groups._groups(gnncal.Nodes(logits, graph)) != empty)
    fitted = gnncal_lab.SimiMailbox(n_groups=4).fit(logits, labels, graph, calibration_nodes=nodes)
    together = gnncal_lab.SimiMailbox(n_groups=1).fit(
        logits, labels, graph, calibration_nodes=nodes
    )
    assert fitted.group_temperatures_[empty] == pytest.approx(together.group_temperatures_[0])
    assert len(set(fitted.group_temperatures_)) == 4


def test_nodes_of_another_graph_are_scaled_as_in_the_fit_and_join_the_nearest_centre(planted):
    logits, labels, edges = planted
    calibrator = gnncal_lab.SimiMailbox(n_groups=3)
    calibrator.fit(logits, labels, gnncal.Graph(edges, 900), calibration_nodes=range(300))
    generator = np.random.default_rng(5)
    others, between = 3 * generator.normal(size=(40, 3)), generator.integers(0, 40, (2, 90))
    low, high = calibrator.ranges_.T
    scaled = (points_by_hand(others, between) - low) / (high - low)
    nearest = np.linalg.norm(scaled[:, None] - calibrator.centres_, axis=2).argmin(axis=1)
    found = calibrator.predict_temperature(others, gnncal.Graph(between, 40))
    np.testing.assert_array_equal(found, calibrator.group_temperatures_[nearest])


def test_there_are_no_more_groups_than_different_nodes():
    logits = np.tile(np.array([[1.0, 0.0], [3.0, 0.0]]), (10, 1))
    labels = np.tile([0, 0, 1, 0], 5)
    graph = gnncal.Graph(np.zeros((2, 0), int), 20)
    calibrator = gnncal_lab.SimiMailbox(n_groups=7).fit(
        logits, labels, graph, calibration_nodes=range(20)
    )
    np.testing.assert_allclose(calibrator.centres_, [[0, 0], [1, 0]])
    assert calibrator.temperature_[0] != calibrator.temperature_[1]


def test_the_publications_loop_is_that_of_torch_with_labels_of_calibration_nodes_only(
    planted, monkeypatch
):
    monkeypatch.setattr(simi_mailbox, "PUBLISHED_EPOCHS", 150)
    torch = pytest.importorskip("torch")
    logits, labels, edges = planted
    nodes, train = np.arange(0, 400), np.arange(500, 700)
    calibrator = gnncal_lab.SimiMailbox(n_groups=3, protocol="paper")
    calibrator.fit(
        logits, labels, gnncal.Graph(edges, 900), calibration_nodes=nodes, train_nodes=train
    )
    groups = torch.from_numpy(groups_by_hand(points_by_hand(logits, edges), 3))
    z, y = torch.from_numpy(logits), torch.from_numpy(labels)
    correct = (z.argmax(1) == y).double()
    tau = torch.ones(3, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.Adam([tau], lr=0.01)
    best, lowest, waited = None, np.inf, 0
    for epoch in range(1, 151):  # noqa: B007 the number of epochs is compared below
        scaled = z / (torch.relu(tau) + 1e-8)[groups][:, None]
        confidence = torch.softmax(scaled, 1).max(1).values
        gaps = [
            (confidence[nodes] - correct[nodes])[groups[nodes] == g].mean() ** 2 for g in range(3)
        ]
        loss = torch.nn.functional.cross_entropy(scaled[nodes], y[nodes]) + 50 * sum(gaps)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        with torch.no_grad():
            after = torch.softmax(z / (torch.relu(tau) + 1e-8)[groups][:, None], 1).max(1).values
        probs = np.stack([after[train], 1 - after[train]], axis=1)
        ece = sum(
            abs((probs[inside, 0] - correct[train].numpy()[inside]).sum())
            for b in range(10)
            for inside in [(probs[:, 0] > b / 10) & (probs[:, 0] <= (b + 1) / 10)]
        )
        if ece <= lowest:
            best, lowest, waited = tau.detach().numpy().copy(), ece, 0
        else:
            waited += 1
            if waited >= 100:
                break
    assert calibrator.n_iter_ == epoch
    np.testing.assert_allclose(calibrator.group_temperatures_, best, rtol=1e-6)


def test_the_publications_loop_leaves_a_group_without_calibration_nodes_at_one(planted):
    logits, labels, edges = planted
    graph = gnncal.Graph(edges, 900)
    whole = gnncal_lab.SimiMailbox(n_groups=3).fit(
        logits, labels, graph, calibration_nodes=range(900)
    )
    groups = whole._groups(gnncal.Nodes(logits, graph))
    nodes, train = np.flatnonzero(groups == 0), np.flatnonzero(groups != 0)[:50]
    fitted = gnncal_lab.SimiMailbox(n_groups=3, protocol="paper")
    fitted.fit(logits, labels, graph, calibration_nodes=nodes, train_nodes=train)
    np.testing.assert_array_equal(fitted.group_temperatures_[1:], 1.0)


def test_a_weak_group_is_named(planted):
    logits, _, edges = planted
    labels = logits.argmax(axis=1)
    labels[0] = (labels[0] + 1) % 3
    calibrator = gnncal_lab.SimiMailbox(n_groups=2)
    calibrator.fit(logits, labels, gnncal.Graph(edges, 900), calibration_nodes=range(300))
    assert any("nodes without a mistake" in r for r in calibrator.fit_report_.undetermined)
    assert calibrator.fit_report_.bounds_hit


def test_it_says_that_it_has_no_torch_module_and_works_in_memory_only():
    from gnncal.scale.batches import Reach

    fitted = small_task().fit(gnncal_lab.SimiMailbox())
    with pytest.raises(gnncal.InputError, match="cannot become a torch module of logits and edges"):
        fitted.to_torch()
    with pytest.raises(gnncal.InputError, match="simi-mailbox needs the graph in memory"):
        Reach.of(fitted)
