"""HoTS against formulas written out node by node, and the paper's protocol against torch."""

import math

import numpy as np
import pytest
from hypothesis import given

import gnncal
import gnncal_lab
from gnncal.calibrators.registry import every_calibrator, name_of
from gnncal.calibrators.temperature import ParametricTemperature
from gnncal.testing.tasks import small_task
from tests.strategies import tasks

CALIBRATORS = every_calibrator()

pytestmark = pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning")


def temperature_of(calibrator, logits, homophily, form):
    """T_i in plain Python, as the paper prints it."""
    found = []
    n_classes = logits.shape[1]
    for z, h in zip(logits.tolist(), homophily.tolist(), strict=True):
        top = max(z)
        weights = [math.exp(value - top) for value in z]
        p = [w / sum(weights) for w in weights]
        e = -sum(q * math.log(q) for q in p if q > 0) / math.log(n_classes)
        numerator = math.sqrt(2 * n_classes * math.log(n_classes) * max(1 - e, 0.0))
        signal = abs((n_classes * h - 1) / (n_classes - 1)) + 0.02
        base, beta = calibrator.base_temperature_, calibrator.beta_
        if form == "hots":
            found.append(base + beta * numerator / signal**calibrator.alpha_)
        elif form == "homophily-only":
            found.append(base + beta / signal**calibrator.alpha_)
        elif form == "hots-alpha1":
            found.append(base + beta * numerator / signal)
        else:
            found.append(base + beta * numerator)
    return np.array(found)


@pytest.mark.parametrize("form", ["hots", "homophily-only", "hots-alpha1", "entropy-only"])
@given(task=tasks(kinds=("plain", "sharp")))
def test_temperatures_follow_the_printed_formula(form, task):
    calibrator = task.fit(gnncal.get_calibrator(form))
    homophily = getattr(calibrator, "homophily_", np.ones(len(task.labels)))
    expected = temperature_of(calibrator, task.logits, homophily, form)
    np.testing.assert_allclose(calibrator.temperature_, expected, rtol=1e-5)


@pytest.mark.parametrize(
    "name", [n for n, kind in CALIBRATORS.items() if issubclass(kind, ParametricTemperature)]
)
@given(task=tasks(kinds=("plain",)))
def test_gradients_equal_finite_differences(name, task):
    calibrator = task.fit(gnncal.get_calibrator(name))
    from gnncal.math.losses import TemperatureLoss

    graph = task.graph
    covariates = calibrator._covariates(gnncal.Nodes(task.logits, graph))[task.calibration_nodes]
    loss = TemperatureLoss(task.logits[task.calibration_nodes], task.labels[task.calibration_nodes])
    theta = np.array([0.8, 0.6, 0.9][: len(calibrator.parameters)])
    _, gradient, hessian = calibrator._derivatives(theta, covariates, loss)
    raw = np.array(calibrator.paper_start) + 0.1
    _, link = calibrator._paper_link(raw)
    for i in range(len(theta)):
        step = np.zeros_like(theta)
        step[i] = 1e-6
        ends = [calibrator._derivatives(theta + s * step, covariates, loss)[0] for s in (1, -1)]
        assert gradient[i] == pytest.approx((ends[0] - ends[1]) / 2e-6, abs=1e-5)
        ends = [calibrator._derivatives(theta + s * step, covariates, loss)[1] for s in (1, -1)]
        np.testing.assert_allclose(hessian[i], (ends[0] - ends[1]) / 2e-6, atol=1e-4)
        ends = [calibrator._paper_link(raw + s * step)[0] for s in (1, -1)]
        np.testing.assert_allclose(link[:, i], (ends[0] - ends[1]) / 2e-6, atol=1e-6)


@pytest.fixture(scope="module")
def problem():
    generator = np.random.default_rng(0)
    homophily = np.where(generator.random(1500) < 0.5, 0.3, 0.95)
    sample = gnncal_lab.simulation.CSBM(mean_degree=12).sample(homophily, random_state=0)
    logits = 1.5 * sample.graph.features[:, :5] + sample.graph.neighbour_mean(
        sample.graph.features[:, :5]
    )
    logits = np.nan_to_num(3 * logits)
    nodes, train = np.arange(600), np.arange(600, 1000)
    return sample, logits, nodes, train


def test_softplus_parametrisation_starts_where_the_paper_says():
    theta, _ = gnncal.HoTS()._paper_link(np.array(gnncal.HoTS.paper_start))
    np.testing.assert_allclose(theta, [1.07, 0.98, 0.70], atol=0.006)


@pytest.mark.parametrize("preset", ["text", "release"])
def test_the_papers_temperature_fit_follows_a_straight_line_torch_loop(problem, preset):
    torch = pytest.importorskip("torch")
    sample, logits, nodes, train = problem
    calibrator = gnncal.HoTS.paper(preset).fit(
        logits, sample.labels, sample.graph, calibration_nodes=nodes, train_nodes=train
    )
    z, y = torch.tensor(logits), torch.tensor(sample.labels)
    n_classes = z.shape[1]
    p = torch.softmax(z, 1)
    e = -(p * torch.log(p + 1e-300)).sum(1) / math.log(n_classes)
    h = torch.tensor(np.asarray(calibrator.homophily_, dtype=np.float64))
    signal = ((n_classes * h - 1) / (n_classes - 1)).abs() + 0.02
    raw = torch.tensor([0.5, 0.5, 0.0], dtype=torch.float64, requires_grad=True)
    floors = torch.tensor([0.1, 0.01, 0.01], dtype=torch.float64)

    def loss(index):
        base, beta, alpha = torch.nn.functional.softplus(raw) + floors
        certainty = (1 - e).clamp(min=0.001 if preset == "release" else 0.0)
        numerator = torch.sqrt(2 * n_classes * math.log(n_classes) * certainty)
        temperature = base + beta * numerator / signal**alpha
        if preset == "release":
            temperature = temperature.clamp(0.05, 50)
        scaled = z[index] / temperature[index, None]
        return torch.nn.functional.cross_entropy(scaled, y[index])

    optimiser = torch.optim.Adam([raw], lr=0.01)
    best, best_loss, waited, epoch = None, np.inf, 0, 0
    while epoch < 1000:
        epoch += 1
        optimiser.zero_grad()
        loss(nodes).backward()
        optimiser.step()
        with torch.no_grad():
            current = loss(train).item()
        if current <= best_loss:
            best, best_loss, waited = raw.detach().clone(), current, 0
        else:
            waited += 1
            if waited >= 50:
                break
    expected = torch.nn.functional.softplus(best) + floors
    found = [calibrator.base_temperature_, calibrator.beta_, calibrator.alpha_]
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-4)
    assert calibrator.n_iter_ == epoch


def test_converged_fits_beat_the_papers_loop_on_the_calibration_loss(problem):
    sample, logits, nodes, train = problem
    for name in ("ts", "hts", "hts-log", "entropy-only", "homophily-only", "hots"):
        losses = {}
        for protocol in ("converged", "paper"):
            calibrator = gnncal.get_calibrator(name, protocol=protocol)
            calibrator.fit(
                logits, sample.labels, sample.graph, calibration_nodes=nodes, train_nodes=train
            )
            losses[protocol] = calibrator.fit_report_.loss_after
        assert losses["converged"] <= losses["paper"] + 1e-9, name


@pytest.mark.parametrize("name", ["ts", "entropy-only", "homophily-only", "hots-alpha1", "hots"])
def test_converged_fits_are_never_above_a_thousand_epochs_of_adam(name):
    from gnncal.math.losses import TemperatureLoss
    from gnncal.math.solvers import adam

    for seed in range(8):
        generator = np.random.default_rng(seed)
        n, n_classes = (60, 300, 1000)[seed % 3], (2, 3, 5, 10)[seed % 4]
        logits = generator.choice([0.5, 2.0, 8.0]) * generator.normal(size=(n, n_classes))
        homophily = generator.uniform(0, 1, n)
        labels = logits.argmax(axis=1)
        wrong = generator.random(n) > homophily
        labels[wrong] = generator.integers(0, n_classes, wrong.sum())
        graph = gnncal.Graph(np.zeros((2, 0), int), n)
        needs = gnncal.get_calibrator(name).needs_graph
        calibrator = gnncal.get_calibrator(name, **({"homophily": homophily} if needs else {}))
        calibrator.fit(logits, labels, graph, calibration_nodes=np.arange(n))
        covariates = calibrator._covariates(gnncal.Nodes(logits, graph))
        loss = TemperatureLoss(logits, labels)

        def objective(raw, calibrator=calibrator, covariates=covariates, loss=loss):
            theta, link = calibrator._paper_link(raw)
            value, gradient, _ = calibrator._derivatives(theta, covariates, loss)
            return value, gradient @ link

        slow = adam(objective, np.array(calibrator.paper_start), max_epochs=1000, patience=None)
        assert calibrator.fit_report_.loss_after <= slow.loss + 1e-9, seed
        assert calibrator.converged_


def test_richer_models_never_fit_worse(problem):
    sample, logits, nodes, train = problem

    def loss(name):
        calibrator = gnncal.get_calibrator(name)
        calibrator.fit(
            logits, sample.labels, sample.graph, calibration_nodes=nodes, train_nodes=train
        )
        return calibrator.fit_report_.loss_after

    # The floors alpha >= .01 and beta >= .01 keep the smaller models a hair outside.
    assert loss("hots") <= loss("entropy-only") + 1e-3
    assert loss("entropy-only") <= loss("ts") + 1e-3
    assert loss("hots") <= loss("hots-alpha1") + 1e-9


def test_the_fit_finds_the_global_minimum_of_a_grid(problem):
    sample, logits, nodes, train = problem
    calibrator = gnncal.HoTS().fit(
        logits, sample.labels, sample.graph, calibration_nodes=nodes, train_nodes=train
    )
    from gnncal.math.losses import TemperatureLoss

    covariates = calibrator._covariates(gnncal.Nodes(logits, sample.graph))[nodes]
    loss = TemperatureLoss(logits[nodes], sample.labels[nodes])
    grid = [
        loss.value(calibrator._formula(np.array([base, beta, alpha]), covariates)[0])
        for base in np.geomspace(0.1, 10, 12)
        for beta in np.geomspace(0.01, 10, 12)
        for alpha in np.geomspace(0.01, 4, 8)
    ]
    assert calibrator.fit_report_.loss_after <= min(grid) + 1e-9
    assert calibrator.converged_
    assert calibrator.n_iter_ > 0


def test_isolated_nodes_take_the_calibration_nodes_mean_signal():
    generator = np.random.default_rng(0)
    logits, labels = generator.normal(size=(80, 3)), generator.integers(0, 3, 80)
    edges = generator.integers(0, 70, size=(2, 400))  # the last ten nodes are isolated
    graph = gnncal.Graph(edges, 80)
    nodes = np.arange(10, 75)
    calibrator = gnncal.HoTS().fit(logits, labels, graph, calibration_nodes=nodes)
    connected = nodes[nodes < 70]
    signal = np.abs((3 * calibrator.homophily_[connected] - 1) / 2).mean()  # |h~|, K = 3
    expected = (1 + 2 * signal) / 3
    np.testing.assert_allclose(calibrator.homophily_[70:], expected)
    lonely = gnncal.Graph(np.zeros((2, 0), int), 2)
    found = calibrator.predict_temperature(logits[:2], lonely)
    np.testing.assert_allclose(
        found, temperature_of(calibrator, logits[:2], np.full(2, expected), "hots"), rtol=1e-6
    )


def test_isolated_nodes_never_sit_at_the_pole_of_the_correction():
    # Homophily .05 and .95 in equal shares: their mean is h~ = 0, which no node has.
    generator = np.random.default_rng(0)
    logits, labels = generator.normal(size=(200, 2)), generator.integers(0, 2, 200)
    homophily = np.where(np.arange(200) % 2, 0.05, 0.95)
    homophily[150:] = np.nan
    graph = gnncal.Graph(np.zeros((2, 0), int), 200)
    calibrator = gnncal.HoTS(homophily=homophily).fit(
        logits, labels, graph, calibration_nodes=np.arange(150)
    )
    np.testing.assert_allclose(calibrator.homophily_[150:], 0.95)


def test_without_any_neighbour_hots_is_entropy_only():
    generator = np.random.default_rng(1)
    logits, labels = 3 * generator.normal(size=(200, 3)), generator.integers(0, 3, 200)
    graph = gnncal.Graph(np.zeros((2, 0), int), 200)
    found = gnncal.HoTS().fit(logits, labels, graph, calibration_nodes=np.arange(200))
    expected = gnncal.get_calibrator("entropy-only").fit(logits, labels)
    np.testing.assert_array_equal(found.homophily_, 1.0)
    np.testing.assert_allclose(
        found.predict_proba(logits, graph), expected.predict_proba(logits), atol=2e-3
    )


def test_a_known_homophily_can_be_given_as_an_array(problem):
    sample, logits, nodes, train = problem
    calibrator = gnncal.HoTS(homophily=sample.homophily)
    calibrator.fit(logits, sample.labels, sample.graph, calibration_nodes=nodes, train_nodes=train)
    np.testing.assert_array_equal(calibrator.homophily_, sample.homophily)
    estimated = gnncal.calibrators.TemperatureScaling().fit(
        logits, sample.labels, calibration_nodes=nodes
    )
    assert calibrator.fit_report_.loss_after < estimated.fit_report_.loss_after
    other = gnncal.Graph(sample.graph.edge_index[:, :-1], 1500, sample.graph.features)
    with pytest.raises(gnncal.InputError, match="given as an array for the fitted graph"):
        calibrator.predict_proba(logits, other)


@pytest.mark.parametrize(
    ("homophily", "message"),
    [
        ("magic", "expected one of support"),
        (np.zeros(3), r"shape \(3,\) but there are 1500"),
        (np.full(1500, 1.5), "outside"),
    ],
)
def test_a_bad_homophily_is_refused(problem, homophily, message):
    sample, logits, nodes, _ = problem
    with pytest.raises(gnncal.InputError, match=message):
        gnncal.HoTS(homophily=homophily).fit(
            logits, sample.labels, sample.graph, calibration_nodes=nodes
        )


@pytest.mark.parametrize(
    "options",
    [
        {"epsilon": 0.0},
        {"minimum_certainty": -1},
        {"temperature_range": (0.0, 5.0)},
    ],
)
def test_a_bad_parameter_is_refused(problem, options):
    sample, logits, nodes, _ = problem
    with pytest.raises(gnncal.InputError, match=f"{next(iter(options))} is"):
        gnncal.HoTS(**options).fit(logits, sample.labels, sample.graph, calibration_nodes=nodes)


def test_clamped_labels_are_recalled_on_the_fitted_graph_only(problem):
    sample, logits, nodes, train = problem
    calibrator = gnncal.HoTS(homophily="clamped-support")
    calibrator.fit(logits, sample.labels, sample.graph, calibration_nodes=nodes, train_nodes=train)
    known = np.full(1500, -1)
    known[train] = sample.labels[train]
    recalled = calibrator.predict_temperature(logits, sample.graph)
    np.testing.assert_array_equal(
        calibrator.predict_temperature(gnncal.Nodes(logits, sample.graph, known_labels=known)),
        recalled,
    )
    nothing = gnncal.Nodes(logits, sample.graph, known_labels=np.full(1500, -1))
    none = calibrator.predict_temperature(nothing)
    assert np.abs(none - recalled).max() > 1e-3
    more = np.concatenate([sample.graph.edge_index, [[0], [0]]], axis=1)  # a self-loop: ignored
    other = gnncal.Graph(more, 1500, sample.graph.features)
    np.testing.assert_allclose(calibrator.predict_temperature(logits, other), none)
    with pytest.raises(gnncal.InputError, match="pass train_nodes"):
        gnncal.HoTS(homophily="clamped-support").fit(
            logits, sample.labels, sample.graph, calibration_nodes=nodes
        )


@pytest.mark.parametrize("homophily", ["support", "agreement", "predictor", "cross-fitted"])
def test_prediction_works_on_a_graph_with_other_nodes(problem, homophily):
    sample, logits, nodes, train = problem
    calibrator = gnncal.HoTS(homophily=homophily)
    calibrator.fit(logits, sample.labels, sample.graph, calibration_nodes=nodes, train_nodes=train)
    new = gnncal_lab.simulation.CSBM(mean_degree=12).sample(np.full(70, 0.8), random_state=9)
    new_logits = 3.0 * new.graph.features[:, :5]
    probs = calibrator.predict_proba(new_logits, new.graph)
    np.testing.assert_array_equal(probs.argmax(axis=1), new_logits.argmax(axis=1))
    if homophily in ("predictor", "cross-fitted"):
        narrow = gnncal.Graph(new.graph.edge_index, 70, new.graph.features[:, :3])
        with pytest.raises(gnncal.InputError, match="trained on 16 features but this graph has 3"):
            calibrator.predict_proba(new_logits, narrow)
        bare = gnncal.Graph(new.graph.edge_index, 70)
        with pytest.raises(gnncal.InputError, match="needs node features"):
            calibrator.predict_proba(new_logits, bare)


@pytest.mark.filterwarnings("default::gnncal.GnncalWarning")
def test_fallbacks_say_so(problem):
    sample, logits, nodes, _ = problem
    bare = gnncal.Graph(sample.graph.edge_index, 1500)
    for homophily in ("predictor", "cross-fitted"):
        with pytest.warns(gnncal.GnncalWarning, match="no features; 'support' is used"):
            fitted = gnncal.HoTS(homophily=homophily).fit(
                logits, sample.labels, bare, calibration_nodes=nodes
            )
        assert fitted.homophily_method_ == "support"
    with pytest.warns(gnncal.GnncalWarning, match="labelled nodes have a labelled neighbour"):
        fitted = gnncal.HoTS(homophily="cross-fitted").fit(
            logits, sample.labels, sample.graph, calibration_nodes=nodes[:15]
        )
    assert fitted.homophily_method_ == "support"
    # A star whose hub is in some fold: that fold's predictor has no target left.
    hub = np.stack([np.zeros(40, int), np.arange(1, 41)])
    star = gnncal.Graph(np.concatenate([hub, hub[::-1]], axis=1), 1500, sample.graph.features)
    with pytest.warns(gnncal.GnncalWarning, match="no labelled node has a labelled neighbour"):
        gnncal.HoTS(homophily="cross-fitted").fit(
            logits, sample.labels, star, calibration_nodes=nodes[:60]
        )
    with pytest.warns(gnncal.GnncalWarning, match="only 15 calibration nodes"):
        gnncal.HoTS().fit(logits, sample.labels, sample.graph, calibration_nodes=nodes[:15])


@pytest.mark.filterwarnings("default::gnncal.GnncalWarning")
def test_a_fit_that_ends_at_a_bound_says_so():
    logits = 2 * np.random.default_rng(0).normal(size=(100, 3))
    with pytest.warns(
        gnncal.GnncalWarning, match="not determined by the calibration labels"
    ) as caught:
        calibrator = gnncal.calibrators.TemperatureScaling().fit(logits, logits.argmax(axis=1))
    assert caught[0].filename == __file__
    assert calibrator.fit_report_.bounds_hit == ("base_temperature",)
    assert calibrator.base_temperature_ == pytest.approx(math.exp(-5))


def test_the_papers_protocol_needs_training_nodes(problem):
    sample, logits, nodes, _ = problem
    for name in ("ts", "vs", "ets", "hts", "hts-log", "hots", "entropy-only"):
        calibrator = gnncal.get_calibrator(name, protocol="paper")
        with pytest.raises(gnncal.InputError, match="pass train_nodes"):
            calibrator.fit(logits, sample.labels, sample.graph, calibration_nodes=nodes)
        with pytest.raises(gnncal.InputError, match="expected 'converged' or 'paper'"):
            gnncal.get_calibrator(name, protocol="x").fit(
                logits, sample.labels, sample.graph, calibration_nodes=nodes
            )


def test_presets_differ_where_text_and_release_differ():
    text, release = gnncal.HoTS.paper().get_params(), gnncal.HoTS.paper("release").get_params()
    changed = {name for name in text if text[name] != release[name]}
    assert changed == {"homophily", "minimum_certainty", "temperature_range"}
    with pytest.raises(gnncal.InputError, match="expected 'text' or 'release'"):
        gnncal.HoTS.paper("draft")


def test_hots_paper_is_the_papers_own_fit_by_name(tmp_path):
    task = small_task()
    splits = {"calibration_nodes": task.calibration_nodes, "train_nodes": task.train_nodes}
    by_hand = gnncal.HoTS.paper().fit(task.logits, task.labels, task.graph, **splits)
    named = gnncal.calibrate(
        task.logits, task.labels, task.graph, **splits, method="hots-paper"
    ).calibrator
    assert named.get_params() == by_hand.get_params()
    np.testing.assert_array_equal(named.temperature_, by_hand.temperature_)
    assert name_of(by_hand) == name_of(named) == "hots-paper"
    assert name_of(gnncal.HoTS.paper(random_state=1)) == "hots"
    assert name_of(gnncal.HoTS(homophily=np.ones(3), protocol="paper")) == "hots"
    named.save(tmp_path / "c")
    again = gnncal.load(tmp_path / "c").predict_proba(task.logits, task.graph)
    np.testing.assert_array_equal(again, named.predict_proba(task.logits, task.graph))
    with pytest.raises(gnncal.InputError, match="hots-paper is HoTS with protocol='paper'"):
        gnncal.get_calibrator("hots-paper", protocol="converged")
