"""Each experiment's claim at small size, and its parts against straight-line versions."""

import dataclasses
import re

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar
from scipy.special import log_softmax, softmax
from scipy.stats import norm

import gnncal
from gnncal.data.probability import normalised_entropy
from gnncal.graph.neighbours import neighbour_class_share
from gnncal_lab.pages.csbm.experiments import NAMES, get_experiment
from gnncal_lab.simulation import CSBM
from gnncal_lab.simulation.experiments.attenuation import power_law_exponent
from gnncal_lab.simulation.experiments.entropy import uncertainty_lost
from gnncal_lab.simulation.experiments.hots import hots
from gnncal_lab.simulation.experiments.kl import kl, shared_inputs, unit_kl
from gnncal_lab.simulation.experiments.leak import auc
from gnncal_lab.simulation.experiments.necessity import homophily_given_scores, necessity, solve_tau
from gnncal_lab.simulation.experiments.sweep import sweep
from tests.gnncal_lab.simulation.html import Balance

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", NAMES)
def test_records_are_frozen(records, name):
    with pytest.raises(dataclasses.FrozenInstanceError):
        records[name].n_seeds = 0


def test_records_do_not_depend_on_when_they_are_made(records):
    again = get_experiment("attenuation").run(small=True)
    np.testing.assert_array_equal(again.bayes.value, records["attenuation"].bayes.value)


def test_unknown_experiments_are_refused_with_the_names_of_all():
    with pytest.raises(gnncal.InputError, match="posterior, necessity, sweep"):
        get_experiment("theorem")


# --- posterior: Theorem 1


def test_posterior_the_fitted_inverse_temperature_is_gamma_over_v(records):
    record = records["posterior"]
    half_width = (record.fitted.high - record.fitted.low) / 2
    # within twice its 95% interval in all 13 groups
    assert (np.abs(record.fitted.value - record.inverse_temperature) < 2 * half_width).all()
    assert record.coverage > 0.85  # of 39 intervals, 95% expected


def test_posterior_is_calibrated_to_its_noise_floor(records):
    assert all(ece.p_value > 0.01 for ece in records["posterior"].ece)


def test_posterior_reverses_the_scores_below_h_0(records):
    record = records["posterior"]
    reversed_ = record.homophily < record.zero_signal - 0.01
    np.testing.assert_array_equal(record.fitted.value < 0, reversed_)
    assert (record.accuracy[reversed_] > record.accuracy_of_scores[reversed_]).all()
    assert record.accuracy_of_scores[0] < 1 / record.model.n_classes
    assert (record.nll_positive[reversed_] > record.nll[reversed_]).all()


# --- necessity: Proposition 1


def test_necessity_the_gap_is_zero_where_homophily_does_not_vary(records):
    record = records["necessity"]
    assert record.spread[0] == 0
    assert record.gap.value[0] == pytest.approx(0, abs=1e-14)
    assert record.formula.value[0] == pytest.approx(0, abs=1e-14)


def test_necessity_the_gap_is_the_variance_formula_while_the_spread_is_small(records):
    record = records["necessity"]
    assert record.ratio.value[1] == pytest.approx(1, abs=0.01)  # spread 0.02
    assert (np.diff(record.ratio.value[1:]) < 0).all()
    assert record.local_exponent.value == pytest.approx(2, abs=0.05)


def test_necessity_one_temperature_loses_at_least_as_much_as_the_best_logit_only_rule(records):
    record = records["necessity"]
    assert (np.diff(record.gap.value) > 0).all()
    assert (record.one_temperature_gap.value >= record.gap.value - 1e-12).all()


def test_necessity_one_temperature_loses_hardly_more_only_while_the_spread_is_small(records):
    record = records["necessity"]
    ratio = record.one_temperature_gap.value[1:] / record.gap.value[1:]
    small = record.spread[1:] <= 0.15
    assert ratio[small].max() < 1.06
    assert ratio[-1] > 1.2  # h = 0.5 ± 0.35


def test_necessity_is_strict_at_every_score_vector_once_homophily_varies(records):
    record = records["necessity"]
    np.testing.assert_array_equal(record.strict_share, record.spread > 0)
    assert (record.least_variance[1:] > 0).all()
    assert (record.least_gap[1:] > 0).all()
    assert (record.gap.low[1:] > 0).all()


def test_homophily_given_two_class_scores_is_a_ratio_of_normal_densities():
    bayes = CSBM(n_classes=2, n_features=2).bayes
    homophily = np.array([0.4, 0.8])
    s = np.linspace(-1, 1, 7)
    density = np.stack(
        [
            norm.pdf(s, bayes.signal(h), np.sqrt(bayes.v))
            + norm.pdf(s, -bayes.signal(h), np.sqrt(bayes.v))
            for h in homophily
        ],
        axis=1,
    )
    found = homophily_given_scores(bayes, np.stack([s, -s], axis=1), homophily)
    np.testing.assert_allclose(found, density / density.sum(axis=1, keepdims=True), rtol=1e-9)


def test_the_logit_only_temperature_minimises_the_expected_cross_entropy():
    generator = np.random.default_rng(0)
    scores = generator.normal(size=(4, 3))
    truth = 0.3 * softmax(0.5 * scores, axis=1) + 0.7 * softmax(3.0 * scores, axis=1)
    found = solve_tau(scores, (truth * scores).sum(axis=1), 0.5, 3.0)
    for row, p, tau in zip(scores, truth, found, strict=True):
        best = minimize_scalar(
            lambda t, row=row, p=p: -(p * log_softmax(t * row)).sum(),
            bounds=(0.5, 3.0),
            method="bounded",
            options={"xatol": 1e-9},
        )
        assert tau == pytest.approx(best.x, abs=1e-5)
    shared = solve_tau(scores, (truth * scores).sum(axis=1), 0.5, 3.0, shared=True)
    best = minimize_scalar(
        lambda t: -(truth * log_softmax(t * scores, axis=1)).sum(),
        bounds=(0.5, 3.0),
        method="bounded",
        options={"xatol": 1e-9},
    )
    assert shared[0] == pytest.approx(best.x, abs=1e-5)


def test_necessity_outside_the_positive_signal_region_is_refused():
    with pytest.raises(gnncal.InputError, match="no positive temperature"):
        necessity(centre=0.3, spreads=(0.0, 0.25), n_seeds=2)


def test_necessity_without_two_small_spreads_has_no_local_exponent():
    record = necessity(spreads=(0.0, 0.2), n_nodes=100, n_seeds=2)
    assert np.isnan(record.local_exponent.value)
    assert record.gap.value[1] > 0


# --- sweep: figure (a)


def test_sweep_temperature_falls_with_homophily(records):
    record = records["sweep"]
    rising = record.homophily >= 0.25 - 1e-9
    assert rising.sum() == 8
    for fitted in (record.template, record.learned):
        assert (np.diff(fitted.mean[rising][:5]) < 0).all()  # beyond, few mistakes are left
        assert fitted.pearson.value < -0.75  # the paper: -0.846
    assert record.bayes_pearson == pytest.approx(-0.869, abs=1e-3)


def test_sweep_template_temperatures_lie_above_the_bayes_law_while_there_are_mistakes(records):
    record = records["sweep"]
    inner = (record.homophily > 0.2) & (record.homophily < 0.7)
    bayes = record.model.bayes.temperature(record.homophily[inner])
    assert (record.template.mean[inner] > bayes).all()


def test_sweep_no_positive_temperature_helps_where_the_signal_is_negative(records):
    record = records["sweep"]
    assert record.homophily[0] < record.zero_signal
    assert record.template.at_bound[0] == 1.0
    assert record.zero_signal == pytest.approx(0.12)
    assert record.class_random == 0.2


def test_sweep_the_laws_are_the_stated_functions(records):
    record = records["sweep"]
    h = record.fine
    shown = h > 0.2 + 1e-9
    np.testing.assert_allclose(
        record.bayes[shown], 1 / ((1 + 10 * (5 * h[shown] - 1) / 4) * 2 * np.sqrt(0.8))
    )
    product = record.trend[shown] * (5 * h[shown] - 1)
    np.testing.assert_allclose(product, product[0])


def test_sweep_without_two_values_to_correlate_is_refused_before_it_runs():
    with pytest.raises(gnncal.InputError, match=r"0 values .* at least 0\.25 and above 1/K = 0\.2"):
        sweep(homophily=(0.1, 0.2))


def test_sweep_with_few_classes_correlates_above_class_random_homophily_only():
    model = CSBM(n_classes=3, mean_degree=8, means="simplex", separation=1.0)
    homophily = (0.25, 0.45, 0.65, 0.85)  # of which the first is below 1/3
    record = sweep(model=model, homophily=homophily, n_nodes=400, n_seeds=2)
    expected = np.corrcoef(homophily[1:], model.bayes.temperature(homophily[1:]))[0, 1]
    assert record.bayes_pearson == pytest.approx(expected)
    expected = np.corrcoef(homophily[1:], record.template.mean[1:])[0, 1]
    assert record.template.pearson.value == pytest.approx(expected)
    assert np.isfinite(record.trend[record.fine > 1 / 3 + 1e-9]).all()


# --- attenuation: Proposition 2


def test_attenuation_least_squares_meets_the_formula(records):
    record = records["attenuation"]
    tau = record.noise
    expected = record.signal_variance / (record.signal_variance + tau**2)
    np.testing.assert_allclose(record.formula, expected)
    np.testing.assert_allclose(record.least_squares.value, record.formula, atol=0.02)
    assert record.formula[-1] == pytest.approx(0.182, abs=0.01)  # the paper's last exponent


def test_attenuation_holds_for_the_cross_entropy_too(records):
    record = records["attenuation"]
    np.testing.assert_allclose(record.cross_entropy.value, record.formula, atol=0.15)
    for estimate in (record.cross_entropy, record.bayes):
        assert (np.diff(estimate.value) < 0).all()


def test_attenuation_finite_degree_alone_keeps_the_exponent_below_one(records):
    record = records["attenuation"]
    assert record.bayes_limit < 0.9
    assert record.bayes.value[0] == pytest.approx(record.bayes_limit, abs=0.1)


def test_the_power_law_exponent_is_that_of_a_general_optimiser():
    generator = np.random.default_rng(1)
    scores, u = generator.normal(size=(800, 3)), generator.normal(size=800)
    labels = np.where(generator.random(800) < 0.6, scores.argmax(axis=1), 0)

    def loss(theta):
        scaled = scores / np.exp(theta[0] - theta[1] * u)[:, None]
        return -log_softmax(scaled, axis=1)[np.arange(800), labels].mean()

    best = minimize(loss, [0.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-12})
    assert power_law_exponent(scores, labels, u) == pytest.approx(best.x[1], abs=1e-5)


# --- entropy: the two approximations


def test_entropy_the_remainder_has_order_one_and_three_halves_for_two_classes(records):
    record = records["entropy"]
    expected = [1.5 if k == 2 else 1.0 for k in record.n_classes]
    np.testing.assert_allclose(record.order.value, expected, atol=0.02)


def test_entropy_the_proxy_is_exact_for_small_logits_and_saturates(records):
    record = records["entropy"]
    assert record.error[:, 0].max() < 0.003  # typical logit 0.01
    assert record.error[:, -1].min() > 0.5  # typical logit 10
    assert (np.diff(record.error, axis=1) > 0).all()


def test_one_minus_the_entropy_is_computed_without_cancellation():
    logits = np.random.default_rng(0).normal(size=(5, 4))
    logits -= logits.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(uncertainty_lost(logits), 1 - normalised_entropy(logits), rtol=1e-9)
    tiny = 1e-6 * logits  # 1 - e = |z|^2 / (2 K ln K)
    expected = (tiny**2).sum(axis=1) / (8 * np.log(4))
    np.testing.assert_allclose(uncertainty_lost(tiny), expected, rtol=1e-4)


def test_entropy_the_line_is_the_logistic_probit_one(records):
    match = records["entropy"].match
    one = np.argmin(np.abs(match.x - 1.0))
    assert match.exact[one] == pytest.approx(np.log(0.8413447 / 0.1586553), abs=1e-5)
    assert match.linear[one] == pytest.approx(1.813799, abs=1e-6)
    moderate = (match.x > 0) & (match.x <= 2)
    assert np.abs(match.linear[moderate] / match.exact[moderate] - 1).max() < 0.14
    np.testing.assert_allclose(
        match.logit_q, np.log(q := match.model.bayes.correctness(match.homophily)) - np.log(1 - q)
    )


def test_entropy_matching_is_worse_than_bayes_and_the_line_costs_little(records):
    nll = {name: float(e.value) for name, e in records["entropy"].match.nll.items()}
    assert nll["bayes"] < nll["ts"] < nll["match"]
    assert nll["match, linear"] == pytest.approx(nll["match"], abs=0.005)


def test_the_table_of_q_is_the_normal_integral_and_what_is_drawn(records):
    table = records["entropy"].reliability
    # K = 2, d = 10: Gamma / sqrt v = rho_0 (1 + 10 h~) / sqrt 11, rho_0 = 1 / sqrt 2, h~ = 2 h - 1
    argument = (1 + 10 * (2 * table.homophily - 1)) / np.sqrt(22)
    np.testing.assert_allclose(table.q, norm.cdf(argument))
    np.testing.assert_allclose(table.linear, np.pi / np.sqrt(3) * argument)
    large_degree = np.pi / np.sqrt(3) * 10 * (2 * table.homophily - 1) / np.sqrt(22)
    np.testing.assert_allclose(table.large_degree, large_degree, atol=1e-12)
    zero = table.homophily == 0.45  # h_0: a guess
    np.testing.assert_allclose(table.q[zero], 0.5)
    np.testing.assert_allclose(table.logit_q[zero], 0, atol=1e-12)
    np.testing.assert_allclose(table.measured.value, table.q, atol=0.03)


# --- kl: sparse overlap


def test_kl_slopes_are_those_of_k2_d2_over_n(records):
    slopes = {name: float(e.value) for name, e in records["kl"].slopes.items()}
    assert slopes["n"] == pytest.approx(-1, abs=0.2)
    assert slopes["d"] == pytest.approx(2, abs=0.25)
    assert slopes["K"] == pytest.approx(2, abs=0.2)
    assert slopes["per class"] == pytest.approx(1, abs=0.25)  # 0 if the law were linear in K
    assert slopes["K, rank K"] < slopes["K"]


def test_kl_of_two_neighbours_by_hand():
    # d = 2 and 8, one shared input: R = 1/4, det = 15/16
    assert unit_kl(np.array([[2.0, 1.0], [1.0, 8.0]])) == pytest.approx(-0.5 * np.log(15 / 16))
    assert unit_kl(np.diag([3.0, 5.0])) == pytest.approx(0, abs=1e-14)
    assert unit_kl(np.array([[2.0, 2.0], [2.0, 2.0]])) == np.inf  # the very same inputs


@pytest.mark.parametrize("own", [True, False])
def test_shared_inputs_are_set_intersections(own):
    graph = CSBM(mean_degree=8).sample_undirected(60, 0.5, random_state=2).graph
    heard = [set(graph.indices[graph.indptr[j] : graph.indptr[j + 1]].tolist()) for j in range(60)]
    for centre in range(10):
        closed = [(heard[j] | ({j} if own else set())) - {centre} for j in sorted(heard[centre])]
        closed = [inputs for inputs in closed if inputs]
        expected = [[len(a & b) for b in closed] for a in closed]
        np.testing.assert_array_equal(shared_inputs(graph, centre, own=own), expected)


def test_whitening_by_own_degrees_keeps_the_correlation_matrix_positive():
    graph = CSBM(mean_degree=25).sample_undirected(150, 0.9, random_state=0).graph  # dense overlap
    assert all(unit_kl(shared_inputs(graph, i)) > 0 for i in range(100))


SMALL_KL = {
    "n_sweep": (300, 600),
    "d_sweep": (6.0, 12.0),
    "k_sweep": (2, 4),
    "per_class_sweep": (3, 4),
    "n_nodes": 300,
    "per_class": 100,
    "n_centres": 30,
    "n_seeds": 2,
}


def test_kl_without_two_large_class_counts_has_no_slope_there():
    slopes = {name: float(e.value) for name, e in kl(**SMALL_KL).slopes.items()}
    unknown = {name for name, value in slopes.items() if np.isnan(value)}
    assert unknown == {"K >= 8", "K >= 8, rank K"}


def test_kl_cannot_sample_more_centres_than_the_smallest_graph_has_nodes():
    with pytest.raises(gnncal.InputError, match="n_centres is 500; expected 1 to 100"):
        kl(n_sweep=(100, 200), n_centres=500)


def test_kl_where_no_neighbours_share_anything_is_refused():
    with pytest.raises(gnncal.InputError, match="take more centres"):
        kl(**SMALL_KL | {"d_sweep": (0.01, 0.02)})


# --- hots: what is recovered


def test_hots_closes_most_of_the_gap_when_told_the_homophily(records):
    population = records["hots"].worlds["population"].closed
    assert population["bayes temperature"].value > 0.9
    assert population["homophily-only, true h"].value > 0.7
    assert population["hots, true h"].value > 0.6


def test_hots_noise_on_the_homophily_costs_what_it_gains(records):
    for world in records["hots"].worlds.values():
        shares = [float(world.closed[f"hots, {h}"].value) for h in ("true h", "h ± 0.1", "h ± 0.3")]
        assert shares[0] > shares[2]
        assert shares[1] > shares[2]


def test_hots_makes_every_homophily_level_more_honest_than_one_temperature(records):
    for name in ("population", "sampled"):
        gap = records["hots"].worlds[name].gap_by_homophily
        assert gap["hots, true h"].value < 0.6 * gap["ts"].value
    assert records["hots"].worlds["sampled"].closed["hots, support"].value > 0.2


def test_hots_below_the_positive_signal_region_is_refused():
    with pytest.raises(gnncal.InputError, match="no positive temperature"):
        hots(levels=(0.05, 0.9), n_seeds=2)


def test_realised_homophily_is_the_share_of_equal_labels():
    sample = CSBM().sample(np.full(400, 0.7), random_state=0)
    found = neighbour_class_share(sample.graph, sample.labels, sample.labels, side="in")
    assert np.nanmean(found) == pytest.approx(0.7, abs=0.02)


# --- leak


def test_leak_the_predictor_knows_calibration_nodes_and_not_test_nodes(records):
    estimates = records["leak"].estimates

    def difference(name):
        seen = estimates[name]
        return float(seen["val"].correlation.value - seen["test"].correlation.value)

    # 300 calibration nodes: a correlation is known to about 0.06
    assert difference("predictor") > 0.35
    assert abs(difference("cross-fitted")) < 0.2
    assert abs(difference("support")) < 0.2


def test_leak_raises_the_test_loss_above_that_of_one_temperature(records):
    record = records["leak"]
    loss = {name: float(e.value) for name, e in record.nll_against_ts.items()}
    assert loss["hots, predictor"] > 0.02
    assert loss["hots, predictor"] > loss["hots, cross-fitted"] + 0.02
    assert loss["hots, support"] < 0
    fitted, unseen = (record.losses["hots, predictor"][part].nll.value for part in ("val", "test"))
    assert fitted < unseen  # the fit looks good where the labels were seen


def test_leak_densities_integrate_to_one(records):
    record = records["leak"]
    for seen in record.estimates.values():
        for part in seen.values():
            assert (part.density * np.diff(record.edges)).sum() == pytest.approx(1)


def test_auc_is_the_share_of_ordered_pairs():
    values, positive = np.array([0.1, 0.4, 0.4, 0.9]), np.array([False, True, False, True])
    # pairs: (.4, .1) and (.9, .1), (.9, .4) ordered, (.4, .4) half
    assert auc(values, positive) == pytest.approx(3.5 / 4)


# --- limit: what could be known at all


def test_limit_no_method_is_below_the_posterior_given_everything(records):
    for world in records["limit"].worlds.values():
        lowest = world.nll["posterior given the whole graph"].value
        assert all(lowest < loss.value for name, loss in world.nll.items() if "whole" not in name)


def test_limit_no_temperature_is_below_the_best_temperature_given_everything(records):
    temperatures = ("ts", "rbs", "structural", "best temperature by true h")
    for world in records["limit"].worlds.values():
        lowest = world.nll["best temperature given the whole graph"].value
        assert all(lowest < world.nll[name].value for name in temperatures)


def test_limit_falls_with_every_step_that_is_seen(records):
    for world in records["limit"].worlds.values():
        for kind in ("posterior", "best temperature"):
            steps = [
                float(world.nll[f"{kind} given {name}"].value)
                for name in ("1 step", "2 steps", "the whole graph")
            ]
            assert steps == sorted(steps, reverse=True)


def test_limit_temperatures_keep_the_predictions(records):
    for world in records["limit"].worlds.values():
        kept = [name for name in world.accuracy if "temperature" in name or name == "structural"]
        for name in kept:
            assert world.accuracy[name].value == world.accuracy["ts"].value


def test_limit_shares_are_of_the_gap_to_the_best_temperature_by_level(records):
    for world in records["limit"].worlds.values():
        np.testing.assert_allclose(world.closed["best temperature by true h"].value, 1.0)


def test_limit_the_law_knows_more_than_the_homophily_of_a_node(records):
    for world in records["limit"].worlds.values():
        assert world.closed["structural"].value > 1.5
        assert world.closed["structural"].value > world.closed["hots, support of senders"].value
        assert world.reached["structural-free"].value > 0.4


def test_limit_both_sides_are_one_on_undirected_graphs(records):
    worlds = records["limit"].worlds
    for name, same in (("undirected", True), ("directed", False)):
        nll = worlds[f"{name}, template scores"].nll
        senders, both = (
            nll[f"hots, support of {side}"] for side in ("senders", "senders and receivers")
        )
        assert (senders.value == pytest.approx(both.value, rel=1e-4)) == same


# --- the page of all of them (here, because a file's tests share the records)


def test_the_page_shows_every_experiment(records):
    pytest.importorskip("matplotlib")
    from gnncal_lab.pages.csbm.page import csbm_page

    results = [(get_experiment(name), records[name]) for name in NAMES]
    page = csbm_page(results, version="0", command="gnncal csbm all")
    assert "describe gnncal csbm all at full size" not in page
    parser = Balance()
    parser.feed(page)
    assert parser.open == []
    assert len(parser.images) == len(NAMES)
    assert "nan" not in re.sub(r'src="[^"]*"', "", page)
    for name in NAMES:
        assert f'id="{name}"' in page
