"""`update`: new labels move a calibrator as far as they must, and rates move it exactly."""

import warnings
from datetime import date

import numpy as np
import pytest

import gnncal
import gnncal_lab
from gnncal.calibrators.auto import chosen_of
from gnncal.data.nodes import Nodes
from gnncal_lab.simulation import CSBM
from gnncal_lab.simulation.estimate import fit_without_warnings
from tests.calibrators.planted import draw, mean_log_loss

UPDATABLE = (
    *("ts", "hts", "hts-log", "vs", "matrix", "svs", "sms", "dirichlet"),
    *("structural", "structural-free", "structural-temperature", "structural-vector"),
    *("hots", "entropy-only", "homophily-only", "hots-alpha1", "auto"),
)
WITH_BIAS = ("vs", "matrix", "svs", "sms", "dirichlet", "structural-free", "structural-vector")
LABELLED = range(60)


def world(homophily, n_nodes, seed, shift=0.0, n_classes=3, scale=3.0):
    """Logits, labels and graph; a shift is added to the logits of the last class."""
    sample = CSBM(n_classes=n_classes, separation=1).sample(
        np.full(n_nodes, homophily), random_state=seed
    )
    logits = scale * sample.graph.features[:, :n_classes].astype(np.float64)
    logits[:, -1] += shift
    return logits, sample.labels, sample.graph


@pytest.fixture(scope="module")
def here():
    return world(0.8, 800, 0)


@pytest.fixture(scope="module")
def there():
    return world(0.6, 700, 1, shift=2.0, scale=9.0)  # a model that leans, and far too certain


@pytest.fixture(scope="module")
def fitted(here):
    logits, labels, graph = here
    nodes = Nodes(logits, graph)
    return {
        name: fit_without_warnings(
            gnncal.get_calibrator(name), nodes, labels, calibration_nodes=range(400)
        )
        for name in UPDATABLE
    }


def learned(calibrator):
    values = {name: getattr(calibrator, name) for name in calibrator.learned}
    return repr([*values.items(), *calibrator.posterior_.items(), calibrator.fit_report_])


@pytest.mark.parametrize("name", UPDATABLE)
def test_an_update_is_another_calibrator_of_the_same_class(fitted, there, name):
    logits, labels, graph = there
    before = learned(fitted[name])
    updated = fitted[name].update(logits, labels, graph, calibration_nodes=LABELLED)
    used = chosen_of(fitted[name])
    assert type(updated) is type(used)
    assert updated.get_params() == used.get_params()
    assert learned(fitted[name]) == before != learned(updated)
    assert len(fitted[name].history_) == 0
    assert updated.history_[0].n_labels == len(LABELLED)
    assert 0 < updated.history_[0].moved < 0.5


@pytest.mark.parametrize("name", UPDATABLE)
def test_an_updated_calibrator_is_saved_with_its_history_and_can_be_updated_again(
    fitted, there, name, tmp_path
):
    logits, labels, graph = there
    updated = fitted[name].update(logits, labels, graph, calibration_nodes=LABELLED)
    updated.save(tmp_path / "c.safetensors")
    again = gnncal.load(tmp_path / "c.safetensors")
    np.testing.assert_array_equal(
        again.predict_proba(logits, graph), updated.predict_proba(logits, graph)
    )
    assert again.history_ == updated.history_
    assert str(again.history_[0]).startswith(date.today().isoformat())
    twice = [
        each.update(logits, labels, graph, calibration_nodes=range(60, 90))
        for each in (again, updated)
    ]
    np.testing.assert_array_equal(*[each.predict_proba(logits, graph) for each in twice])
    assert [update.n_labels for update in twice[0].history_] == [60, 30]


@pytest.mark.parametrize("name", ["structural", "structural-free", "hots", "sms"])
def test_an_updated_calibrator_is_a_torch_module_as_any_other(fitted, there, name):
    torch = pytest.importorskip("torch")
    logits, labels, graph = there
    updated = fitted[name].update(logits, labels, graph, calibration_nodes=LABELLED)
    module = updated.to_torch()
    edges = torch.from_numpy(np.array(graph.edge_index))
    probs = module(torch.from_numpy(logits), edges).numpy()
    np.testing.assert_allclose(probs, updated.predict_proba(logits, graph), atol=1e-6)


@pytest.mark.parametrize("name", UPDATABLE)
def test_labels_of_another_world_make_the_loss_there_smaller(fitted, there, name):
    logits, labels, graph = there
    updated = fitted[name].update(logits, labels, graph, calibration_nodes=LABELLED)
    was, now = (
        mean_log_loss(labels[60:], each.predict_proba(logits, graph)[60:])
        for each in (fitted[name], updated)
    )
    assert now < was


@pytest.mark.parametrize("name", ["ts", "hts", "hots", "vs", "structural", "structural-free"])
def test_labels_of_the_same_world_move_it_less_than_those_of_another(fitted, here, there, name):
    same, other = (
        fitted[name].update(*nodes, calibration_nodes=range(400, 600)).history_[0].moved
        for nodes in (here, there)
    )
    assert same < other / 2


@pytest.mark.parametrize("name", ["ts", "hts", "vs"])
def test_very_many_labels_leave_nothing_of_the_source(name):
    source = gnncal.get_calibrator(name).fit(*draw(300, 3, 0, temperature=1.0))
    logits, labels = draw(40_000, 3, 1, temperature=3.0, bias=np.array([0.0, 0.5, -0.5]))
    updated, afresh = source.update(logits, labels), gnncal.get_calibrator(name).fit(logits, labels)
    gap = updated.predict_proba(logits) - afresh.predict_proba(logits)
    assert np.abs(gap).max() < 0.02


@pytest.mark.parametrize("name", ["ts", "vs", "matrix", "sms", "dirichlet"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_node_of_weight_two_counts_as_two_nodes(name, n_classes):
    source = gnncal.get_calibrator(name).fit(*draw(300, n_classes, 0))
    logits, labels = draw(80, n_classes, 1, temperature=0.5)
    weights = np.random.default_rng(0).integers(0, 4, size=80)
    weighted = source.update(logits, labels, sample_weight=weights)
    repeated = source.update(np.repeat(logits, weights, axis=0), np.repeat(labels, weights))
    gap = weighted.predict_proba(logits) - repeated.predict_proba(logits)
    assert np.abs(gap).max() < 0.01  # the typical size of a logit is that of all nodes


@pytest.mark.parametrize("name", UPDATABLE)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_gradients_are_those_of_the_loss_and_information_is_a_covariance(name, n_classes):
    logits, labels, graph = world(0.7, 120, 3, shift=0.5, n_classes=n_classes)
    nodes = Nodes(logits, graph).with_labels(labels, calibration_nodes=range(100))
    calibrator = fit_without_warnings(gnncal.get_calibrator(name), nodes, None)
    calibrator = chosen_of(calibrator)
    for part in calibrator._posterior_blocks(nodes):
        theta = part.theta + 0.01 * np.random.default_rng(0).normal(size=part.theta.size)
        slopes = part.labelled.slopes(theta)
        for i in range(theta.size):
            step = np.zeros(theta.size)
            step[i] = 1e-5
            ends = [part.labelled.losses(theta + s).sum() for s in (step, -step)]
            assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(slopes.gradient[i], abs=1e-3)
        assert slopes.loss == pytest.approx(part.labelled.losses(theta).sum())
        assert np.linalg.eigvalsh(slopes.information).min() > -1e-8
        assert np.linalg.eigvalsh(part.covariance).min() > 0


def test_information_is_the_expected_curvature():
    """Labels drawn from the fitted probabilities bend the loss as the information says."""
    logits, labels = draw(20_000, 3, 0, bias=np.array([0.0, 1.0, -1.0]))
    nodes = Nodes(logits).with_labels(labels)
    for name in ("ts", "vs", "sms"):
        (part,) = gnncal.get_calibrator(name).fit(nodes)._posterior_blocks(nodes)
        slopes = part.labelled.slopes(part.theta)
        step = 1e-4 * np.ones(part.theta.size)
        moved = part.labelled.slopes(part.theta + step)
        curvature = (moved.gradient - slopes.gradient) / 1e-4
        scale = np.abs(slopes.information).sum(axis=1).max()
        np.testing.assert_allclose(
            curvature, slopes.information.sum(axis=1), atol=0.05 * scale, rtol=0
        )


@pytest.mark.parametrize("name", UPDATABLE)
def test_some_nodes_have_the_probabilities_that_they_have_among_all(fitted, there, name):
    logits, _, graph = there
    nodes, rows = Nodes(logits, graph), np.arange(5, 700, 7)
    np.testing.assert_allclose(
        fitted[name]._predict_rows(nodes, rows), fitted[name]._predict(nodes)[rows], atol=1e-12
    )


def test_methods_without_a_posterior_say_that_they_must_be_fitted_again(here):
    logits, labels, graph = here
    for name in ("isotonic", "histogram", "rbs", "simi-mailbox", "platt", "beta", "uncalibrated"):
        calibrator = fit_without_warnings(
            gnncal.get_calibrator(name), logits, labels, graph, calibration_nodes=LABELLED
        )
        with pytest.raises(gnncal.InputError, match="fit it again on the new labels"):
            calibrator.update(logits, labels, graph, calibration_nodes=range(60, 90))
    early = gnncal.calibrators.TemperatureScaling(protocol="paper")
    early.fit(logits, labels, calibration_nodes=range(100), train_nodes=range(100, 200))
    with pytest.raises(gnncal.InputError, match="stopped early"):
        early.update(logits, labels, calibration_nodes=range(200, 230))


def bare_probabilities(calibrator, logits, graph):
    """The probabilities before a floor is mixed in, where the method has one."""
    floor = getattr(calibrator, "floor_", np.zeros(1))
    return (calibrator.predict_proba(logits, graph) - floor) / (1 - floor.sum())


def test_given_rates_move_the_floor_with_them(fitted):
    before, floor = fitted["structural-free"], fitted["structural-free"].floor_
    moved = before.update(rates={0: 0.07})
    assert moved.floor_.sum() == pytest.approx(floor.sum())
    ratio = np.array(moved.history_[0].rates) / before.base_rates_
    np.testing.assert_allclose(moved.floor_, floor * ratio * floor.sum() / (floor @ ratio))


@pytest.mark.parametrize("name", WITH_BIAS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_given_rates_multiply_every_probability_by_their_ratio(name, n_classes):
    logits, labels, graph = world(0.8, 500, 2, n_classes=n_classes)
    calibrator = fit_without_warnings(
        gnncal.get_calibrator(name), logits, labels, graph, calibration_nodes=range(300)
    )
    before = np.bincount(labels[:300]) / 300
    after = np.append(0.07, before[1:] / before[1:].sum() * 0.93)
    probs = bare_probabilities(calibrator, logits, graph) * after / before
    expected = probs / probs.sum(axis=1, keepdims=True)
    moved = calibrator.update(rates={0: 0.07})
    np.testing.assert_allclose(bare_probabilities(moved, logits, graph), expected, atol=1e-9)
    np.testing.assert_allclose(moved.history_[0].rates, after)
    back = moved.update(rates=dict(enumerate(before)))
    np.testing.assert_allclose(
        back.predict_proba(logits, graph), calibrator.predict_proba(logits, graph), atol=1e-9
    )


def test_rates_are_named_by_class(fitted):
    calibrator = fitted["structural-free"].update(rates={0: 0.2, 1: 0.3, 2: 0.5})
    calibrator.class_names_ = ["fine", "odd", "fraud"]
    assert calibrator.update(rates={"fraud": 0.06}).history_[-1].rates[2] == 0.06
    for rates, message in (
        ({"frud": 0.06}, "unknown class 'frud'"),
        ({"fraud": 0.06, 2: 0.07}, "names a class twice"),
        ({"fraud": 1.0}, "the rate of class 2 is 1.0"),
        ({"fraud": float("nan")}, "the rate of class 2"),
        ({"fraud": 0.6, "odd": 0.4}, "leaves nothing for the other classes"),
        ({0: 0.5, 1: 0.5, 2: 0.5}, "sum to 1.5"),
        ({7: 0.5}, "a class of rates is 7"),
        ([0.5, 0.5], "expected rates by class"),
        ("estimate", "expected rates by class"),
        ({}, "expected rates by class"),
    ):
        with pytest.raises(gnncal.InputError, match=message):
            calibrator.update(rates=rates)


def test_methods_that_keep_predictions_or_have_no_bias_refuse_rates(fitted, here):
    logits, labels, _ = here
    for name in ("structural", "ts", "hots"):
        with pytest.raises(gnncal.InputError, match="keeps the predicted class of every node"):
            fitted[name].update(rates={0: 0.1})
    for calibrator in (gnncal_lab.IsotonicCalibration(), gnncal_lab.VectorScaling(bias=False)):
        with pytest.raises(gnncal.InputError, match="no bias for each class"):
            calibrator.fit(logits, labels, calibration_nodes=range(400)).update(rates={0: 0.1})


def test_bad_requests_get_one_sentence(fitted, there):
    logits, labels, graph = there
    calibrator = fitted["structural-free"]
    with pytest.raises(gnncal.InputError, match="update needs labels or rates"):
        calibrator.update(logits, graph=graph)
    with pytest.raises(gnncal.InputError, match="needs a graph"):
        calibrator.update(logits, labels, calibration_nodes=LABELLED)
    with pytest.raises(gnncal.InputError, match="fitted to 3 classes"):
        calibrator.update(logits[:, :2], labels % 2, graph, calibration_nodes=LABELLED)


def test_a_check_works_after_an_update_with_a_handful_of_labels(fitted, there):
    """The summary is then of the nodes that the labels were drawn from, without training nodes."""
    logits, labels, graph = there
    train = range(600, 700)
    new = fitted["structural"].update(
        logits, labels, graph, calibration_nodes=range(10), train_nodes=train
    )
    assert gnncal.check(new, logits, graph, nodes=range(600)).verdict == "same"
    assert new.fitted_on_.n_nodes == 600
    many = fitted["structural"].update(logits, labels, graph, calibration_nodes=LABELLED)
    assert many.fitted_on_.n_nodes == len(LABELLED)


def test_labels_of_the_fit_do_not_count_twice(fitted, here, tmp_path):
    logits, labels, graph = here
    fitted["ts"].save(tmp_path / "c.safetensors")
    for calibrator in (fitted["ts"], gnncal.load(tmp_path / "c.safetensors")):
        with pytest.raises(gnncal.InputError, match="learned from all 60 labelled nodes"):
            calibrator.update(logits, labels, graph, calibration_nodes=LABELLED)
        with pytest.warns(gnncal.GnncalWarning, match="100 of the 150 labelled nodes are left out"):
            some = calibrator.update(logits, labels, graph, calibration_nodes=range(300, 450))
        alone = calibrator.update(
            logits.astype(np.float32), labels, graph, calibration_nodes=range(400, 450)
        )
        assert some.history_[0].n_labels == 50
        assert some.temperature_[0] == pytest.approx(alone.temperature_[0], rel=1e-6)
        with pytest.raises(gnncal.InputError, match="learned from all 50"):
            some.update(logits, labels, graph, calibration_nodes=range(400, 450))


def test_the_same_numbers_on_another_graph_are_other_nodes(fitted, there):
    logits, labels, graph = there
    assert (
        fitted["ts"].update(logits, labels, graph, calibration_nodes=LABELLED).history_[0].n_labels
    )


@pytest.mark.parametrize(
    "ids", [np.char.add("acct_", np.arange(800).astype(str)), np.arange(800) + 7]
)
def test_nodes_are_known_by_their_ids_whatever_the_model_says_of_them_today(here, ids):
    logits, labels, graph = here
    order = np.random.default_rng(0).permutation(800)
    known = Nodes(logits, graph, node_ids=ids)
    calibrator = gnncal.calibrators.TemperatureScaling().fit(
        known, labels, calibration_nodes=range(400)
    )
    today = Nodes(2 * logits[order], node_ids=ids[order])
    with pytest.warns(gnncal.GnncalWarning, match="400 of the 800 labelled nodes are left out"):
        updated = calibrator.update(today, labels[order])
    assert updated.history_[0].n_labels == 400
    numbered = Nodes(2 * logits, node_ids=np.arange(800))  # numbers of rows are no ids
    assert calibrator.update(numbered, labels).history_[0].n_labels == 800


def homophilous(share, seed, n=600, n_classes=4):
    """Logits that look at neighbours, labels, and a graph with this share of edges in a class."""
    generator = np.random.default_rng(seed)
    labels = np.arange(n) % n_classes
    receivers = np.repeat(np.arange(n), 8)
    other = generator.random(receivers.size) >= share
    shift = other * generator.integers(1, n_classes, receivers.size)
    senders = n_classes * generator.integers(n // n_classes, size=receivers.size)
    senders += (labels[receivers] + shift) % n_classes
    graph = gnncal.Graph(np.stack([senders, receivers]), n).to_undirected()
    scores = generator.normal(size=(n, n_classes)) + 1.2 * np.eye(n_classes)[labels]
    return 3 * (scores + graph.neighbour_mean(scores, side=graph.all_sides)), labels, graph


@pytest.mark.parametrize("name", ["ts", "structural", "structural-free"])
def test_many_small_updates_learn_what_one_large_update_does(name):
    """Each starts from the posterior of the fit, with all labels since."""
    source, (logits, labels, graph) = homophilous(0.7, 0), homophilous(0.7, 1)
    fitted = gnncal.get_calibrator(name).fit(*source, calibration_nodes=range(300))
    once = many = fitted
    once = once.update(logits, labels, graph, calibration_nodes=range(200))
    for start in range(0, 200, 20):
        many = many.update(logits, labels, graph, calibration_nodes=range(start, start + 20))
    gap = many.predict_proba(logits, graph) - once.predict_proba(logits, graph)
    assert np.abs(gap).mean() < 0.01
    # Earlier labels are kept as a quadratic, so tau agrees less closely than the probabilities do.
    assert many.history_[-1].tau == pytest.approx(once.history_[-1].tau, abs=0.1)


def test_what_updates_start_from_is_saved(tmp_path):
    source, (logits, labels, graph) = homophilous(0.7, 0), homophilous(0.7, 1)
    once = gnncal.get_calibrator("structural").fit(*source, calibration_nodes=range(300))
    once = once.update(logits, labels, graph, calibration_nodes=range(40))
    once.save(tmp_path / "c")
    twice = [
        each.update(logits, labels, graph, calibration_nodes=range(40, 80))
        for each in (once, gnncal.load(tmp_path / "c"))
    ]
    np.testing.assert_array_equal(*(each.predict_proba(logits, graph) for each in twice))


def weak(share, seed):
    """The same of a model that looks at no neighbour and is right on 63% of the nodes."""
    _, labels, graph = homophilous(share, seed, n=2400)
    noise = np.random.default_rng(seed).normal(size=(2400, 4))
    return 3 * (np.eye(4)[labels] + 0.8 * noise), labels, graph


@pytest.mark.parametrize("world", [homophilous, weak])
def test_changed_homophily_is_said_and_unchanged_is_not(world):
    fitted = gnncal.get_calibrator("structural").fit(*world(0.75, 0), calibration_nodes=range(300))
    with pytest.warns(gnncal.GnncalWarning, match="homophily itself seems to have changed"):
        fitted.update(*world(0.3, 1), calibration_nodes=range(30))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted.update(*world(0.75, 1), calibration_nodes=range(30))


def test_the_standard_error_is_how_far_fits_on_other_labels_are_apart():
    """The root mean square of what one temperature of 200 labels changes in a probability."""
    generator = np.random.default_rng(0)
    logits = 3 * generator.normal(size=(4000, 2))
    chance = 1 / (1 + np.exp((logits[:, 1] - logits[:, 0]) / 2))
    labels = (generator.random(4000) > chance).astype(int)
    fits = [
        gnncal.calibrators.TemperatureScaling().fit(logits, labels, calibration_nodes=nodes)
        for nodes in np.split(generator.permutation(4000), 20)
    ]
    apart = np.std([fit.predict_proba(logits)[:, 0] for fit in fits], axis=0)
    expected = np.mean([fit.standard_error_ for fit in fits])
    assert np.sqrt(np.mean(apart**2)) == pytest.approx(expected, rel=0.3)
