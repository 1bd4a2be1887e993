"""The loop, its stopping rules, its gradients, and what the options change."""

import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

import gnncal
import gnncal_lab
from gnncal_lab.methods.neural import base
from tests.gnncal_lab.methods.neural.test_formulas import EDGES, GRAPH, LABELS, LOGITS, SPLIT, N, X

torch = pytest.importorskip("torch")
METHODS = {
    "cagcn": gnncal_lab.CaGCN,
    "gats": gnncal_lab.GATS,
    "gets": gnncal_lab.GETS,
    "wats": gnncal_lab.WATS,
}
every_method = pytest.mark.parametrize("kind", METHODS.values(), ids=METHODS)


def probs_of(calibrator, graph=GRAPH, **split):
    calibrator.fit(LOGITS, LABELS, graph, **{**SPLIT, **split})
    return calibrator.predict_proba(LOGITS, graph)


# --- the loop


def bowl(monitor, **options):
    """Minimise (w - 1)² from w = 0 and note every w that the monitor sees."""
    from gnncal_lab.methods.neural.training import train

    w = torch.zeros(1, requires_grad=True)
    seen = []

    def watched():
        seen.append(w.item())
        return monitor(len(seen))

    settings = {"max_epochs": 50, "patience": 5, "learning_rate": 0.1, "weight_decay": 0.0}
    loss = lambda: (w - 1).square().sum()  # noqa: E731
    run = train({"w": w}, loss, monitor and watched, **{**settings, **options})
    return run, w.item(), seen


def test_the_best_copy_is_restored_and_patience_counts_from_it():
    run, w, seen = bowl(lambda epoch: abs(epoch - 7))
    assert (run.n_epochs, run.best_epoch) == (12, 7)
    assert w == seen[6] != seen[11]


def test_an_equal_score_refreshes_the_copy():
    run, w, seen = bowl(lambda epoch: 1.0 if epoch <= 4 else 2.0)
    assert run.best_epoch == 4
    assert w == seen[3]


def test_a_score_that_is_not_a_number_is_never_kept():
    run, w, seen = bowl(lambda epoch: float("nan") if epoch > 2 else 1.0)
    assert (run.best_epoch, w) == (2, seen[1])


def test_without_a_monitor_the_last_weights_stay():
    run, w, _ = bowl(None, max_epochs=400)
    assert run.n_epochs == 400
    assert w == pytest.approx(1.0, abs=1e-3)


def test_weight_decay_is_added_to_the_gradient():
    # (w - 1)² + w² / 2 has its minimum at 2/3.
    assert bowl(None, max_epochs=900, weight_decay=1.0)[1] == pytest.approx(2 / 3, abs=1e-3)


# --- who is watched


@pytest.fixture
def watched(monkeypatch):
    """The nodes that a fit trains on and watches."""
    found = {}
    objective, monitor = base.NeuralCalibrator._objective, base.NeuralCalibrator._monitor

    def note_trained(self, data, rows, *rest):
        found["trained"] = rows
        return objective(self, data, rows, *rest)

    def note_watched(self, data, rows, *rest):
        found["watched"] = rows
        return monitor(self, data, rows, *rest)

    monkeypatch.setattr(base.NeuralCalibrator, "_objective", note_trained)
    monkeypatch.setattr(base.NeuralCalibrator, "_monitor", note_watched)
    return found


def test_held_out_nodes_are_a_seeded_fifth_and_not_trained_on(watched):
    probs_of(gnncal_lab.CaGCN(max_epochs=2))
    first = watched["watched"]
    assert len(first) == len(SPLIT["calibration_nodes"]) // 5
    together = np.sort(np.concatenate([first, watched["trained"]]))
    np.testing.assert_array_equal(together, SPLIT["calibration_nodes"])
    probs_of(gnncal_lab.CaGCN(max_epochs=2, random_state=1))
    assert not np.array_equal(watched["watched"], first)


@pytest.mark.parametrize("params", [{"stop_on": "train"}, {"protocol": "paper"}])
def test_stopping_on_training_nodes_trains_on_all_calibration_nodes(watched, params):
    probs_of(gnncal_lab.CaGCN(max_epochs=2, **params))
    np.testing.assert_array_equal(watched["trained"], SPLIT["calibration_nodes"])
    np.testing.assert_array_equal(watched["watched"], SPLIT["train_nodes"])


def test_stopping_on_nothing_runs_every_epoch(watched):
    calibrator = gnncal_lab.CaGCN(max_epochs=70, patience=1, stop_on="none")
    probs_of(calibrator)
    assert "watched" not in watched
    assert calibrator.n_iter_ == 70


def test_too_few_nodes_to_hold_some_out_fall_back_with_a_warning(watched):
    for train, expected in ((SPLIT["train_nodes"], "train"), (None, "none")):
        with pytest.warns(gnncal.GnncalWarning, match=f"stop_on='{expected}' is used instead"):
            probs_of(gnncal_lab.CaGCN(max_epochs=2), calibration_nodes=[0, 2, 4], train_nodes=train)
        np.testing.assert_array_equal(watched["trained"], [0, 2, 4])


@every_method
def test_what_needs_training_nodes_says_so(kind):
    with pytest.raises(gnncal.InputError, match="the paper's protocol stops on the training nodes"):
        probs_of(kind(protocol="paper"), train_nodes=None)
    with pytest.raises(gnncal.InputError, match="stop_on='train' watches the training nodes"):
        probs_of(kind(stop_on="train"), train_nodes=None)


@every_method
@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"protocol": "fast"}, "protocol is 'fast'"),
        ({"stop_on": "test"}, "stop_on is 'test'; expected 'held-out', 'train' or 'none'"),
        ({"max_epochs": 0}, "max_epochs is 0"),
        ({"patience": 0}, "patience is 0"),
        ({"learning_rate": 0.0}, "learning_rate is 0.0"),
        ({"weight_decay": -1.0}, "weight_decay is -1.0"),
    ],
)
def test_bad_settings_are_refused(kind, params, message):
    with pytest.raises(gnncal.InputError, match=message):
        probs_of(kind(**params))


@pytest.mark.parametrize(
    ("calibrator", "message"),
    [
        (gnncal_lab.CaGCN(link="exp"), "link is 'exp'; expected 'softplus' or 'log-shifted'"),
        (gnncal_lab.CaGCN(dropout=1.0), "dropout is 1.0"),
        (gnncal_lab.CaGCN(margin_weight=-1), "margin_weight is -1"),
        (gnncal_lab.CaGCN(hidden=0), "hidden is 0"),
        (gnncal_lab.GATS(heads=0), "heads is 0"),
        (gnncal_lab.GATS(base_temperature=0.0), "base_temperature is 0.0"),
        (gnncal_lab.WATS(scale=0.0), "scale is 0.0"),
        (gnncal_lab.WATS(coefficients="haar"), "coefficients is 'haar'"),
        (
            gnncal_lab.GETS(experts_per_node=8),
            "experts_per_node is 8; expected a whole number from 1 to 7",
        ),
        (gnncal_lab.GETS(balance_weight=-0.1), "balance_weight is -0.1"),
    ],
)
def test_bad_parameters_are_refused(calibrator, message):
    with pytest.raises(gnncal.InputError, match=message):
        probs_of(calibrator)


# --- randomness


@every_method
def test_the_seed_decides_the_result_and_leaves_no_trace(kind):
    before = torch.get_rng_state()
    first = probs_of(kind(max_epochs=5))
    assert torch.equal(torch.get_rng_state(), before)
    np.testing.assert_array_equal(probs_of(kind(max_epochs=5)), first)
    assert not np.array_equal(probs_of(kind(max_epochs=5, random_state=1)), first)


# --- gradients


def test_sparse_products_and_attention_pass_gradcheck():
    from gnncal_lab.methods.neural.propagation import Attention, Neighbourhoods
    from gnncal_lab.methods.neural.sparse import SparseMatrix

    generator = np.random.default_rng(0)
    matrix = SparseMatrix(sparse.random_array((6, 9), density=0.4, rng=generator).tocsr())
    for shape in ((9,), (9, 3)):
        values = torch.tensor(generator.normal(size=shape), requires_grad=True)
        assert torch.autograd.gradcheck(lambda v: matrix @ v, [values])
    around = Neighbourhoods.of(GRAPH, np.array([0, 3, 8, 22]))
    attention = Attention(around, LOGITS[around.nodes] / 2)
    n = len(around.nodes)
    scale = torch.tensor(generator.uniform(0.5, 2, n), requires_grad=True)
    messages = torch.tensor(generator.normal(size=(n, 3)), requires_grad=True)
    assert torch.autograd.gradcheck(attention, [scale, messages])


@every_method
def test_every_weight_of_every_loss_has_the_gradient_of_finite_differences(kind):
    extra = {"margin_weight": 0.5} if kind is gnncal_lab.CaGCN else {}
    calibrator = kind(max_epochs=1, **extra).fit(LOGITS, LABELS, GRAPH, **SPLIT)
    generator = np.random.default_rng(1)
    weights = {
        name: torch.tensor(0.4 * generator.normal(size=value.shape), requires_grad=True)
        for name, value in calibrator.weights_.items()
    }
    rows = SPLIT["calibration_nodes"]
    inputs = calibrator._inputs(gnncal.Nodes(LOGITS, GRAPH), rows)
    z, y = torch.from_numpy(LOGITS[rows]), torch.from_numpy(LABELS[rows])

    def loss():  # the same dropout and noise each time
        return calibrator._loss(weights, inputs, z, y, np.random.default_rng(7))

    loss().backward()
    for name, weight in weights.items():
        direction = torch.tensor(generator.normal(size=tuple(weight.shape)))
        with torch.no_grad():
            ends = []
            for step in (1e-6, -2e-6):
                weight += step * direction
                ends.append(float(loss()))
            weight += 1e-6 * direction
        slope = (ends[0] - ends[1]) / 2e-6
        found = float((weight.grad * direction).sum())
        assert found == pytest.approx(slope, rel=1e-4, abs=1e-7), name


# --- what they learn


def planted():
    """Half of the nodes hang on a hub and have logits five times too large; the rest is calm."""
    generator = np.random.default_rng(0)
    n, n_classes = 1200, 4
    labels = generator.integers(n_classes, size=n)
    hangs = np.arange(n) % 2 == 0
    logits = generator.normal(size=(n, n_classes)) + np.eye(n_classes)[labels]
    logits[hangs] *= 5.0
    leaves = np.flatnonzero(hangs)
    on_hubs = np.stack([leaves, generator.integers(20, size=leaves.size) * 2 + 1])
    calm = generator.integers(n // 2, size=(2, 3 * n)) * 2 + 1
    edges = np.concatenate([on_hubs, on_hubs[::-1], calm, calm[::-1]], axis=1)
    features = np.stack([hangs, ~hangs], axis=1) + 0.1 * generator.normal(size=(n, 2))
    return logits, labels, gnncal.Graph(edges, n, features), np.arange(0, n, 3)


@pytest.mark.slow
@every_method
def test_a_planted_problem_is_learned_better_than_by_one_temperature(kind):
    logits, labels, graph, nodes = planted()
    settings = {"max_epochs": 300, "stop_on": "none", "learning_rate": 0.1, "weight_decay": 0.0}
    calibrator = kind(**settings).fit(logits, labels, graph, calibration_nodes=nodes)
    ts = gnncal.calibrators.TemperatureScaling().fit(logits, labels, calibration_nodes=nodes)
    assert calibrator.fit_report_.loss_after < ts.fit_report_.loss_after - 0.01


# --- options change what they claim to change


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        (gnncal_lab.CaGCN, {}, {"link": "log-shifted"}),
        (gnncal_lab.CaGCN, {}, {"margin_weight": 0.5}),
        (gnncal_lab.CaGCN, {}, {"initial": "uniform"}),
        (gnncal_lab.CaGCN, {}, {"add_self_loops": False}),
        (gnncal_lab.CaGCN, {}, {"normalisation": "out"}),
        (gnncal_lab.CaGCN, {}, {"dropout": 0.0}),
        (gnncal_lab.GATS, {}, {"heads": 2}),
        (gnncal_lab.GATS, {}, {"positive": False}),
        (gnncal_lab.GATS, {}, {"relative_to": "out"}),
        (gnncal_lab.GATS, {}, {"base_temperature": 1.5}),
        (gnncal_lab.WATS, {}, {"coefficients": "bessel"}),
        (gnncal_lab.WATS, {}, {"coefficients": "exponential"}),
        (gnncal_lab.WATS, {}, {"normalisation": "in"}),
        (gnncal_lab.GETS, {}, {"train_degrees": False}),
        (gnncal_lab.GETS, {}, {"experts_per_node": 1}),
        (gnncal_lab.GETS, {}, {"balance_weight": 0.0}),
        (gnncal_lab.GETS, {}, {"add_self_loops": False}),
    ],
)
def test_options_change_the_result(kind, one, other):
    first, second = (probs_of(kind(max_epochs=4, **params)) for params in (one, other))
    assert np.abs(first - second).max() > 1e-6


def test_frozen_degree_embeddings_stay_and_trained_ones_move():
    start = gnncal_lab.GETS(max_epochs=1, train_degrees=False)
    probs_of(start)
    frozen, trained = (gnncal_lab.GETS(max_epochs=4, train_degrees=t) for t in (False, True))
    probs_of(frozen)
    probs_of(trained)
    table = "degree_embedding"
    np.testing.assert_array_equal(frozen.weights_[table], start.weights_[table])
    assert not np.array_equal(trained.weights_[table], start.weights_[table])


def test_direction_only_matters_on_directed_graphs():
    both_ways = gnncal.Graph(np.concatenate([EDGES, EDGES[::-1]], axis=1), N, X)
    for kind, option in (
        (gnncal_lab.GATS, {"relative_to": "out"}),
        (gnncal_lab.WATS, {"normalisation": "in"}),
    ):
        usual, released = kind(max_epochs=4), kind(max_epochs=4, **option)
        np.testing.assert_allclose(probs_of(usual, both_ways), probs_of(released, both_ways))


def test_the_first_release_of_cagcn_differs_on_directed_graphs_and_where_there_are_loops_only():
    others = EDGES[:, EDGES[0] != EDGES[1]]
    undirected = gnncal.Graph(np.concatenate([others, others[::-1]], axis=1), N, X)
    usual, released = (gnncal_lab.CaGCN(max_epochs=4, normalisation=n) for n in ("in-out", "out"))
    np.testing.assert_allclose(probs_of(usual, undirected), probs_of(released, undirected))


def test_a_node_at_a_limit_of_the_temperature_gives_no_gradient():
    from gnncal_lab.methods.neural.base import within_range

    values = torch.tensor([1.0, 1e3, 1e-3], requires_grad=True)
    limited = within_range(values)
    limited.sum().backward()
    torch.testing.assert_close(limited, torch.tensor([1.0, np.exp(5), np.exp(-5)]).float())
    torch.testing.assert_close(values.grad, torch.tensor([1.0, 0.0, 0.0]))


@every_method
def test_training_parameters_are_those_of_every_method_and_shown_only_when_changed(kind):
    shared = ("protocol", "stop_on", "max_epochs", "patience", "learning_rate", "weight_decay")
    assert {*shared, "random_state"} < set(kind().get_params())
    assert repr(kind()) == f"{kind.__name__}()"
    changed = kind(patience=7, random_state=3)
    assert repr(changed) == f"{kind.__name__}(patience=7, random_state=3)"
    assert clone(changed).get_params() == changed.get_params()
    with pytest.raises(gnncal.InputError, match="patience is 'long'; expected a whole number"):
        kind(patience="long").fit(LOGITS, LABELS, GRAPH, **SPLIT)
    with pytest.raises(TypeError, match="unheard_of"):
        kind(unheard_of=1)


def test_initial_temperatures_are_those_of_the_releases():
    start = {"max_epochs": 1, "learning_rate": 1e-12, "stop_on": "none"}
    logits = 0.01 * LOGITS  # a small network output: what remains is the link at zero
    cagcn = gnncal_lab.CaGCN(**start).fit(logits, LABELS, GRAPH, **SPLIT)
    np.testing.assert_allclose(cagcn.temperature_, 1 / np.log(2), rtol=0.02)
    gats = gnncal_lab.GATS(**start).fit(LOGITS, LABELS, GRAPH, **SPLIT)
    assert abs(gats.temperature_.mean() - 1.7) < 0.3
    wats = gnncal_lab.WATS(**start).fit(LOGITS, LABELS, GRAPH, **SPLIT)
    assert 0.5 < wats.temperature_.mean() < 1.0


# --- corners


@every_method
@pytest.mark.parametrize("scale", [0.0, 1e4, 1e38])
def test_constant_and_extreme_logits_in_single_precision_are_finite(kind, scale):
    logits = (scale * np.sign(LOGITS)).astype(np.float32)
    calibrator = kind(max_epochs=5).fit(logits, LABELS, GRAPH, **SPLIT)
    assert np.isfinite(calibrator.predict_proba(logits, GRAPH)).all()
    assert all(np.isfinite(value).all() for value in calibrator.weights_.values())
    assert {value.dtype for value in calibrator.weights_.values()} == {np.dtype(np.float32)}


@every_method
def test_two_classes_and_a_missing_class_work(kind):
    labels = (LABELS > 1).astype(int)
    for logits, y in ((LOGITS[:, :2], labels), (LOGITS, labels)):
        calibrator = kind(max_epochs=5).fit(logits, y, GRAPH, **SPLIT)
        assert np.isfinite(calibrator.predict_proba(logits, GRAPH)).all()


@every_method
def test_a_graph_without_edges_works(kind):
    graph = gnncal.Graph(np.zeros((2, 0), dtype=int), N, X)
    assert np.isfinite(probs_of(kind(max_epochs=5), graph)).all()


# --- torch is loaded by those who use it


def python(script):
    command = [sys.executable, "-W", "ignore", "-c", script]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.slow
def test_listing_and_other_methods_do_not_load_torch():
    script = (
        "import sys, gnncal, gnncal_lab; gnncal.list_calibrators(); gnncal.get_calibrator('ts'); "
    )
    script += "gnncal_lab.settings_for('gats', 'Cora', 'gcn'); gnncal_lab.GATS(); "
    assert python(script + "assert 'torch' not in sys.modules").returncode == 0
    assert python(script + "gnncal.get_calibrator('gats'); sys.modules['torch']").returncode == 0


WITHOUT_TORCH = """
import sys

class Nothing:
    def find_spec(self, name, *_):
        if name.partition(".")[0] == "torch":
            raise ImportError(name)

sys.meta_path.insert(0, Nothing())
import gnncal, gnncal_lab
graph = gnncal.Graph([[0], [1]])
"""


@pytest.mark.parametrize(
    "use",
    ["gnncal.get_calibrator('gats')", "gnncal_lab.GATS().fit([[0, 1], [2, 0]], [0, -1], graph)"],
)
def test_without_torch_the_extra_is_named(use):
    done = python(WITHOUT_TORCH + use)
    assert "MissingExtraError" in done.stderr
    assert "pip install 'gnncal[neural]'" in done.stderr


@pytest.mark.parametrize("link", ["softplus", "log-shifted"])
def test_cagcn_trains_on_logits_that_drive_its_multiplier_to_zero(link):
    # softplus underflows in float32 below -100; the gradient there must be 0 and not NaN.
    generator = np.random.default_rng(0)
    logits = (60 * generator.normal(size=(200, 5))).astype(np.float32)
    labels = generator.integers(5, size=200)
    graph = gnncal.Graph(generator.integers(200, size=(2, 600)), 200)
    calibrator = gnncal_lab.CaGCN(link=link, stop_on="none", max_epochs=30, weight_decay=0.0)
    calibrator.fit(logits, labels, graph, calibration_nodes=np.arange(200))
    assert all(np.isfinite(weight).all() for weight in calibrator.weights_.values())
    assert calibrator.fit_report_.loss_after < calibrator.fit_report_.loss_before


def test_a_training_that_diverges_is_refused():
    logits, labels, graph, nodes = planted()
    calibrator = gnncal_lab.GETS(learning_rate=1e30, stop_on="none", max_epochs=3)
    with pytest.raises(gnncal.InputError, match=r"GETS's training diverged.*lower learning_rate"):
        calibrator.fit(logits.astype(np.float32), labels, graph, calibration_nodes=nodes)


@pytest.mark.parametrize(
    ("calibrator", "message"),
    [
        (
            gnncal_lab.CaGCN(margin_weight=float("nan")),
            "margin_weight is nan; expected a number of at least 0",
        ),
        (
            gnncal_lab.GETS(balance_weight=float("inf")),
            "balance_weight is inf; expected a number of at least 0",
        ),
        (gnncal_lab.GATS(learning_rate=float("inf")), "learning_rate is inf; expected a positive"),
        (gnncal_lab.GATS(heads=2.5), "heads is 2.5; expected a whole number"),
        (gnncal_lab.WATS(max_epochs=2.5), "max_epochs is 2.5; expected a whole number"),
        (gnncal_lab.HistogramBinning(n_bins=2.5), "n_bins is 2.5; expected a whole number"),
        (
            gnncal_lab.SplineCalibration(n_knots=1),
            "n_knots is 1; expected a whole number of",
        ),
        (gnncal_lab.RatioBinnedScaling(n_bins=0), "n_bins is 0; expected a whole number"),
    ],
)
def test_impossible_parameters_are_refused(calibrator, message):
    logits, labels, graph, nodes = planted()
    with pytest.raises(gnncal.InputError, match=message):
        calibrator.fit(logits, labels, graph, calibration_nodes=nodes)
