"""One policy: guarantees hold together, thresholds are safe, budgets last, files agree."""

import warnings

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import gnncal
from gnncal import GnncalWarning, InputError
from gnncal.decisions import (
    ConformalClassifier,
    Costs,
    Guarantee,
    Policy,
    cross_fit,
    fit_by_group,
    hold_out,
    nodes_to_label,
)
from gnncal.decisions.costs import misfit

NAMES = ["fine", "fraud"]


def world(n, *, rate=0.1, apart=3.0, seed=0):
    """Probabilities that are exactly right, and labels."""
    generator = np.random.default_rng(seed)
    labels = (generator.random(n) < rate).astype(int)
    z = generator.normal(size=n) + apart * labels
    p = 1 / (1 + np.exp(-(apart * z - apart**2 / 2 + np.log(rate / (1 - rate)))))
    return np.column_stack([1 - p, p]), labels


PROBS, LABELS = world(3000)
NODES = np.arange(600)


def fitted(*, probs=PROBS, labels=LABELS, calibration_nodes=NODES, **wishes):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GnncalWarning)
        given = {} if "accuracy" in wishes else {"positive": 1}
        return Policy(**given, **wishes).fit(probs, labels, calibration_nodes=calibration_nodes)


@pytest.mark.parametrize("n_draws", [40, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["continuous", "eight levels", "float32 levels"])
def test_guarantees_hold_together_as_often_as_stated(n_draws, kind):
    """All three guarantees of one policy, judged on the whole pool."""
    probs, labels = world(4000, apart=2.5)
    if kind != "continuous":
        steps = np.quantile(probs[:, 1], np.linspace(0, 1, 9)[1:-1])
        level = np.searchsorted(steps, probs[:, 1])
        p = np.array([labels[level == k].mean() for k in range(8)])[level] * 0.999 + 1e-4
        probs = np.column_stack([1 - p, p])
    asked = probs.astype(np.float32) if "float32" in kind else probs
    generator, missed = np.random.default_rng(0), 0
    for _ in range(n_draws):
        nodes = generator.choice(4000, 400, replace=False)
        policy = fitted(
            probs=probs, labels=labels, calibration_nodes=nodes, act=0.6, clear=0.95, recall=0.8
        )
        missed += not all(check.is_kept for check in policy.judge(labels, asked).checks)
    assert missed <= stats.binom.ppf(0.9999, n_draws, 0.1)


@pytest.mark.parametrize(
    ("n", "n_draws"), [(1000, 5), pytest.param(1000, 40, marks=pytest.mark.slow)]
)
def test_tied_scores_that_reach_the_target_are_decided_in_most_draws(n, n_draws):
    """44% of the nodes have the highest of three values, which reaches the target."""
    generator, n_decided = np.random.default_rng(0), 0
    p = generator.choice([0.98, 0.85, 0.6], size=5000, p=[0.44, 0.3, 0.26])
    labels = (generator.random(5000) < p).astype(int)
    probs = np.column_stack([1 - p, p])
    for _ in range(n_draws):
        policy = fitted(
            probs=probs,
            labels=labels,
            calibration_nodes=generator.choice(5000, n, replace=False),
            accuracy=0.95,
        )
        n_decided += (policy.decide(probs) == "decide").mean() > 0.4
    assert n_decided >= 0.8 * n_draws


@pytest.mark.parametrize(
    "wish", [{"recall": 0.9}, {"clear": 0.97}, {"act": 0.7}, {"accuracy": 0.9}]
)
def test_float32_probabilities_get_the_decisions_of_float64_ones(wish):
    p = np.round(PROBS[:, 1] * 8) / 8 * 0.87 + 0.0613  # ties, at values float32 does not have
    probs = np.column_stack([1 - p, p])
    policy = fitted(probs=probs, **wish)
    np.testing.assert_array_equal(policy.decide(probs.astype(np.float32)), policy.decide(probs))
    nearly = np.nextafter(probs.astype(np.float32), 0)  # a rounding away
    np.testing.assert_array_equal(policy.decide(nearly), policy.decide(probs))


def test_nothing_is_acted_on_and_cleared_and_what_needs_recall_is_not_cleared():
    policy = fitted(act=0.6, clear=0.9, recall=0.99)
    assert policy.clear_threshold_ < policy.act_threshold_
    certified = policy.guarantees_["recall"]
    assert certified.threshold == policy.clear_threshold_
    assert certified.n_right / certified.n_counted >= 0.99


def test_a_false_positive_rate_limits_acting():
    free, limited = fitted(act=0.5), fitted(act=0.5, false_positive_rate=0.02)
    assert limited.act_threshold_ > free.act_threshold_
    (_, rate) = limited.judge(LABELS[600:], PROBS[600:]).checks
    assert rate.asked == pytest.approx(0.98)
    assert rate.sentence == f"false-positive rate {1 - rate.found:.1%} (target at most 2%)"
    alone = fitted(false_positive_rate=0.05)
    share = (alone.decide(PROBS[LABELS == 0]) == "act").mean()
    assert 0.01 < share <= 0.05


def test_a_guarantee_of_ones_own_is_certified_like_the_named_ones():
    own = Guarantee("innocent", 0.97, "clear", ("fine",))
    kwargs = {"calibration_nodes": NODES, "class_names": NAMES}
    mine = Policy(positive="fraud", also=(own,)).fit(PROBS, LABELS, **kwargs)
    named = Policy(positive="fraud", clear=0.97).fit(PROBS, LABELS, **kwargs)
    assert mine.clear_threshold_ == named.clear_threshold_
    assert "at least 97% are innocent" in mine.report_.sentence


@pytest.mark.parametrize("name", ["act", "clear", "recall", "accuracy"])
def test_asking_for_less_never_decides_fewer_nodes(name):
    targets = np.linspace(0.5, 0.995, 25).tolist()
    review = [fitted(**{name: t}).forecast_.counts["review"] for t in targets]
    assert (np.diff(review) >= 0).all()


def test_a_hopeless_guarantee_gives_its_share_to_the_others():
    probs, labels = world(3000, rate=0.03, apart=4.0, seed=1)
    alone = fitted(probs=probs, labels=labels, clear=0.995, calibration_nodes=np.arange(700))
    both = fitted(
        probs=probs, labels=labels, clear=0.995, act=0.999, calibration_nodes=np.arange(700)
    )
    assert not both.guarantees_["act"].is_certified
    assert both.clear_threshold_ == alone.clear_threshold_
    assert both.guarantees_["clear"].confidence_level == pytest.approx(0.9)


def test_calibration_nodes_must_be_named_and_not_those_of_the_calibrator():
    with pytest.raises(TypeError, match="calibration_nodes"):
        Policy(accuracy=0.9).fit(PROBS, LABELS)
    logits = np.log(PROBS)
    calibrator = gnncal.calibrators.TemperatureScaling().fit(
        logits, LABELS, calibration_nodes=np.arange(300)
    )
    with pytest.raises(InputError, match="100 of 200 calibration nodes were used to fit"):
        Policy(accuracy=0.9).fit(
            PROBS, LABELS, calibration_nodes=np.arange(200, 400), calibrator=calibrator
        )
    policy = Policy(accuracy=0.9).fit(
        PROBS, LABELS, calibration_nodes=np.arange(300, 600), calibrator=calibrator
    )
    assert policy.calibrator_ is not None


def test_labels_needed_counts_the_nodes_of_the_calibrator():
    logits = np.log(PROBS)
    calibrator = gnncal.calibrators.TemperatureScaling().fit(
        logits, LABELS, calibration_nodes=np.arange(2000, 2100)
    )
    with pytest.warns(GnncalWarning, match="labelled nodes certify 97% in 4 of 5 draws"):
        with_it = Policy(positive=1, act=0.97).fit(
            PROBS, LABELS, calibration_nodes=np.arange(100), calibrator=calibrator
        )
    without = fitted(act=0.97, calibration_nodes=np.arange(100))
    needed = with_it.guarantees_["act"].labels_needed
    assert needed == pytest.approx(2 * without.guarantees_["act"].labels_needed, rel=0.1)


def test_where_a_quarter_is_labelled_the_rest_is_spoken_of():
    few, many = fitted(accuracy=0.8), fitted(accuracy=0.8, calibration_nodes=np.arange(1500))
    assert "are calibration nodes" not in few.report_.sentence
    assert "50% are calibration nodes" in many.report_.sentence


@pytest.mark.parametrize("amounts", [False, True])
def test_a_budget_lasts_over_all_batches(amounts):
    """Nodes that come in hourly batches are reviewed as often as in one call."""
    wish = {"budget": 100}
    if amounts:
        wish["costs"] = Costs(missed=np.random.default_rng(0).gamma(1, 100, 3000), false_alarm=9)
    policy = fitted(**wish)
    rest, n = np.arange(600, 3000), 0
    for batch in np.array_split(rest, 24):
        costs = policy.costs._checked(3000)._of(batch) if amounts else None
        n += (policy.decide(PROBS[batch], costs=costs) == "review").sum()
    assert n == 100


def test_a_share_is_a_budget_and_ties_at_its_end_are_drawn():
    assert fitted(budget=0.05).forecast_.counts["review"] == 120
    p = np.where(PROBS[:, 1] > 0.5, 0.8, 0.1)
    tied = fitted(probs=np.column_stack([1 - p, p]), budget=50)
    assert tied.forecast_.counts["review"] == 50


def test_a_budget_with_costs_reviews_what_saves_most():
    amounts = np.random.default_rng(0).gamma(1, 100, 3000)
    policy = fitted(costs=Costs(missed=amounts, false_alarm=50, review=1), budget=80)
    rest = np.arange(600, 3000)
    actions = policy.decide(PROBS[rest], costs=policy.costs._checked(3000)._of(rest))
    p = PROBS[rest, 1]
    saving = np.minimum(p * amounts[rest], (1 - p) * 50)
    reviewed = actions == "review"
    assert reviewed.sum() == 80
    assert saving[reviewed].min() >= saving[~reviewed].max() - 1e-3


@pytest.mark.parametrize("value", [1e200, -1.0, np.nan, "x"])
def test_costs_that_cannot_be_summed_are_refused_with_one_sentence(value):
    with pytest.raises(InputError, match="the cost missed"):
        fitted(costs=Costs(missed=value, false_alarm=1))


def test_expected_and_found_costs_agree_and_the_cheapest_actions_are_cheap():
    probs, labels = world(3000, seed=3)
    policy = fitted(probs=probs, labels=labels, costs=Costs(missed=50, false_alarm=20, review=3))
    outcome = policy.judge(labels[600:], probs[600:])
    assert outcome.checks[0].what == "cost"
    assert outcome.checks[0].is_kept
    estimates = policy.forecast_.estimates
    assert estimates["cost"].expected < estimates["cost of doing nothing"].expected


def test_the_interval_of_a_cost_has_totals_that_can_occur():
    costs = Costs(missed=500, false_alarm=20, review=3)
    policy = fitted(costs=costs, budget=300)
    found = policy.forecast_
    assert found.estimates["cost"].low >= 3 * found.counts["review"]
    assert found.estimates["cost of reviewing everyone"].low == 3 * found.n_nodes


def test_probabilities_that_do_not_fit_the_labels_are_said():
    p = PROBS[:, 1] ** 2
    with pytest.warns(GnncalWarning, match="does not fit the labels"):
        Policy(positive=1, budget=50).fit(
            np.column_stack([1 - p, p]), LABELS, calibration_nodes=NODES
        )


def test_the_test_of_fit_is_exact_where_probabilities_are_right():
    generator = np.random.default_rng(0)
    p = generator.beta(0.5, 2, size=400)
    values = [misfit(p, generator.random(400) < p) for _ in range(400)]
    assert stats.kstest(values, "uniform").pvalue > 1e-3


def test_selecting_on_average_keeps_the_expected_share_and_acts_on_more():
    probs, labels = world(60_000, apart=2.5)
    generator, wrong, n_acted, n_selected = np.random.default_rng(0), [], 0, 0
    for _ in range(40):
        nodes = generator.choice(60_000, 850, replace=False)
        policy = fitted(
            probs=probs[nodes], labels=labels[nodes], calibration_nodes=np.arange(250), act=0.8
        )
        chosen = policy.select(probs[nodes[250:]])
        truth = labels[nodes[250:]]
        wrong.append(1 - truth[chosen].mean() if chosen.any() else 0.0)
        n_selected += chosen.sum()
        n_acted += (policy.decide(probs[nodes[250:]]) == "act").sum()
    assert np.mean(wrong) < 0.2 + 3 * np.std(wrong) / np.sqrt(40)
    assert n_selected > n_acted


def test_labels_from_the_region_certify_with_fewer_of_them():
    probs, labels = world(20_000, apart=2.5)
    nodes, region = nodes_to_label(probs, 1, act=0.8, n=200)
    assert (probs[nodes, 1] >= region - 1e-6).all()
    near = Policy(positive=1, act=0.8).fit(probs, labels, calibration_nodes=nodes, region=region)
    assert near.guarantees_["act"].is_certified
    assert near.act_threshold_ >= region
    far = fitted(probs=probs, labels=labels, act=0.8, calibration_nodes=np.arange(200))
    assert (far.decide(probs) == "act").sum() < (near.decide(probs) == "act").sum()
    with pytest.raises(InputError, match="lie below the region"):
        Policy(positive=1, act=0.8).fit(
            probs, labels, calibration_nodes=np.arange(50), region=region
        )


def test_cross_fitting_certifies_every_node_by_a_fit_that_has_not_seen_it():
    task = gnncal.example()
    seen = []

    class Recording(gnncal.calibrators.TemperatureScaling):
        def _fit(self, nodes):
            seen.append(set(nodes.calibration_nodes.tolist()))
            super()._fit(nodes)

    arrays = task.logits, task.labels, task.graph
    probs, cross_fitted = cross_fit(Recording(), *arrays, calibration_nodes=task.calibration_nodes)
    assert sorted(map(len, seen)) == [400] * 5 + [500]
    differs = np.flatnonzero((probs != cross_fitted).any(axis=1))
    assert set(differs.tolist()) <= set(task.calibration_nodes.tolist())
    policy = Policy(accuracy=0.97).fit(
        probs, task.labels, calibration_nodes=task.calibration_nodes, cross_fitted=cross_fitted
    )
    assert "cross-fitting: tested in experiments, not proven" in policy.report_.sentence
    with pytest.raises(InputError, match="cannot be refreshed"):
        policy.refresh(probs)


@pytest.mark.parametrize("sizes", [(80, 20), (400, 100), (450, 50), (10, 10, 10)])
def test_every_fold_of_cross_fitting_has_its_share_of_every_class(sizes):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    logits = np.random.default_rng(0).normal(size=(labels.size, len(sizes)))
    seen = []

    class Recording(gnncal.calibrators.TemperatureScaling):
        def _fit(self, nodes):
            seen.append(np.bincount(nodes.labels, minlength=len(sizes)))
            super()._fit(nodes)

    cross_fit(Recording(), logits, labels, calibration_nodes=np.arange(labels.size))
    for counts in seen[1:]:
        np.testing.assert_array_equal(counts, np.multiply(sizes, 0.8))


def test_one_label_cannot_fit_and_certify():
    with pytest.raises(InputError, match="label more nodes"):
        cross_fit(gnncal.calibrators.TemperatureScaling(), PROBS, LABELS, calibration_nodes=[3])


def test_weights_are_refused_with_the_reason():
    with pytest.raises(InputError, match="labels are final"):
        Policy(accuracy=0.9).fit(
            PROBS, LABELS, calibration_nodes=NODES, sample_weight=np.ones(3000)
        )


WISHES = [
    {"accuracy": 0.9},
    {"act": 0.6, "clear": 0.95, "recall": 0.8},
    {"false_positive_rate": 0.05},
    {"budget": 40},
    {"act": 0.6, "budget": 0.02},
    {"costs": Costs(missed=5, false_alarm=1, review=0.3)},
    {"costs": Costs(missed=5, false_alarm=1), "budget": 9},
    {"act": 0.9999},
    {"also": (Guarantee("innocent", 0.97, "clear", (0,)),)},
]


@pytest.mark.parametrize("wish", WISHES, ids=str)
def test_a_loaded_policy_is_the_saved_one(tmp_path, wish):
    before = fitted(**wish)
    before.save(tmp_path / "p")
    after = gnncal.load(tmp_path / "p")
    np.testing.assert_array_equal(after.decide(PROBS), before.decide(PROBS))
    np.testing.assert_equal(
        {name: vars(each) for name, each in after.guarantees_.items()},
        {name: vars(each) for name, each in before.guarantees_.items()},
    )
    after.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "p").read_bytes()
    refreshed = after.refresh(PROBS)
    np.testing.assert_array_equal(refreshed.decide(PROBS), before.decide(PROBS))


def test_a_fit_is_the_same_whatever_labels_lie_outside_its_nodes():
    changed = LABELS.copy()
    changed[600:] = 1 - changed[600:]
    assert fitted(act=0.6).report_ == fitted(act=0.6, labels=changed).report_


def test_scikit_learn_conventions_hold():
    policy = Policy(positive="fraud", act=0.9)
    assert clone(policy).get_params() == policy.get_params()
    with pytest.raises(NotFittedError):
        policy.decide(PROBS)
    assert "act=0.9" in str(policy)


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ({}, "nothing is asked for"),
        ({"positive": 1}, "nothing is asked for"),
        ({"act": 0.9}, "act is asked for, with positive=None"),
        ({"accuracy": 0.9, "positive": 1, "act": 0.9}, "accuracy, act is asked for"),
        ({"accuracy": 1.2}, "accuracy is 1.2"),
        ({"positive": 1, "budget": 9, "recall": 0.9}, "a budget clears"),
        ({"positive": 1, "costs": Costs(1, 1), "act": 0.9}, "nothing is left for act"),
        ({"positive": 2, "act": 0.9}, "positive is 2"),
        ({"positive": "frauds", "act": 0.9}, "did you mean 'fraud'"),
        ({"positive": 1, "act": 0.9, "also": (Guarantee("act", 0.9, "act", (1,)),)}, "one name"),
    ],
)
def test_wishes_that_do_not_go_together_are_refused_with_one_sentence(wish, message):
    with pytest.raises(InputError, match=message):
        Policy(**wish).fit(PROBS, LABELS, calibration_nodes=NODES, class_names=NAMES)


def test_the_demo_sends_few_images_to_review():
    task = gnncal.example()
    fit_nodes, held = hold_out(task.calibration_nodes, labels=task.labels)
    result = gnncal.calibrate(
        task.logits, task.labels, task.graph, calibration_nodes=fit_nodes, positive=8
    )
    policy = Policy(positive=8, act=0.8, clear=0.98).fit(
        *(result.probabilities, task.labels),
        calibration_nodes=held,
        decision_nodes=task.test_nodes,
        calibrator=result.calibrator,
    )
    assert policy.forecast_.counts["review"] < 60
    assert all(
        k.is_kept
        for k in policy.judge(
            task.labels[task.test_nodes], result.probabilities[task.test_nodes]
        ).checks
    )


GROUPS = np.where(np.arange(3000) % 3 == 0, "north", "south")


def test_each_group_has_a_policy_of_its_own_nodes():
    policy = Policy(positive=1, clear=0.97)
    grouped = fit_by_group(policy, PROBS, LABELS, groups=GROUPS, calibration_nodes=NODES)
    assert list(grouped) == ["north", "south"]
    for name, each in grouped.items():
        inside = np.flatnonzero(name == GROUPS)
        mine = np.intersect1d(NODES, inside)
        others = np.setdiff1d(inside, mine)
        alone = clone(policy).fit(PROBS, LABELS, calibration_nodes=mine, decision_nodes=others)
        assert each.report_ == alone.report_
    with pytest.raises(InputError, match="for each node"):
        fit_by_group(policy, PROBS, LABELS, groups=["north"], calibration_nodes=NODES)


def test_sets_by_group_cover_each_group_where_common_ones_do_not():
    """In one group the probabilities are worth nothing."""
    generator = np.random.default_rng(0)
    labels = LABELS.copy()
    labels[GROUPS == "north"] = generator.integers(2, size=(GROUPS == "north").sum())
    sets = ConformalClassifier(0.9)
    grouped = fit_by_group(sets, PROBS, labels, groups=GROUPS, calibration_nodes=NODES)
    common = sets.fit(PROBS, labels, calibration_nodes=NODES)
    north = np.flatnonzero(GROUPS == "north")
    assert grouped["north"].judge(labels[north], PROBS[north]).coverage > 0.85
    assert common.judge(labels[north], PROBS[north]).coverage < 0.85


@pytest.mark.slow
@pytest.mark.parametrize("slope", [0.5, 1.0, 2.0])
def test_intervals_cover_where_probabilities_are_too_sure_or_too_timid(slope):
    """Of 90% intervals at least 80% hold what is found; without a slope 48% did."""
    held = {"cost": 0, "precision": 0, "recall": 0}
    for seed in range(100):
        probs, labels = world(2250, apart=2.5, seed=seed)
        odds = probs**slope
        probs = odds / odds.sum(axis=1, keepdims=True)
        for wish in ({"budget": 100}, {"costs": Costs(missed=50, false_alarm=20, review=3)}):
            policy = fitted(probs=probs, labels=labels, calibration_nodes=np.arange(250), **wish)
            for check in policy.judge(labels[250:], probs[250:]).checks:
                held[check.what] += check.is_kept
    assert min(held.values()) >= 75


def test_cross_fitted_probabilities_of_another_graph_are_refused():
    with pytest.raises(InputError, match=r"cross_fitted has 5,000 rows but probs has 3,000"):
        Policy(positive=1, act=0.6).fit(
            PROBS, LABELS, calibration_nodes=NODES, cross_fitted=world(5000)[0]
        )


def test_training_nodes_are_never_counted_by_a_guarantee():
    """Others at the place of the training nodes change nothing, and a file keeps that."""
    train = np.arange(600, 2000)
    other = PROBS.copy()
    other[train] = [0.02, 0.98]
    given = {"calibration_nodes": NODES, "ids": np.arange(3000) + 7}
    for wish in (
        {"train_nodes": train},
        {"train_nodes": train, "decision_nodes": range(600, 3000)},
    ):
        one, two = (
            Policy(positive=1, act=0.6).fit(probs, LABELS, **given, **wish)
            for probs in (PROBS, other)
        )
        assert one.report_ == two.report_
        assert one.report_.labelled_share == pytest.approx(600 / 1600)
        assert "training nodes" not in one.report_.sentence
    alone = Policy(positive=1, act=0.6).fit(PROBS, LABELS, **given)
    assert alone.report_.labelled_share == pytest.approx(600 / 3000)
    assert "training nodes may be among these" in alone.report_.sentence


def test_training_nodes_stay_out_when_a_saved_policy_is_refreshed(tmp_path):
    train, ids = np.arange(600, 2000), np.arange(3000) + 7
    policy = Policy(positive=1, act=0.6)
    policy.fit(PROBS, LABELS, calibration_nodes=NODES, train_nodes=train, ids=ids).save(
        tmp_path / "p"
    )
    order = np.random.default_rng(0).permutation(3000)
    again = gnncal.load(tmp_path / "p").refresh(PROBS[order], ids=ids[order])
    assert again.report_ == policy.report_


def test_a_calibration_node_that_the_model_was_trained_on_is_refused():
    with pytest.raises(InputError, match="nodes and train_nodes share 1 nodes"):
        Policy(positive=1, act=0.6).fit(
            PROBS, LABELS, calibration_nodes=NODES, train_nodes=[599, 600]
        )


def test_a_false_positive_rate_that_nothing_can_tell_from_zero_is_refused():
    with pytest.raises(InputError, match="false_positive_rate is 1e-300"):
        fitted(false_positive_rate=1e-300)
    assert not fitted(false_positive_rate=1e-15).guarantees_["false_positive_rate"].is_certified


def test_advice_does_not_rule_out_what_a_new_fit_to_more_labels_can_reach():
    """No probability is above 0.97, as the least probability of a fit to few labels has it."""
    p = np.minimum(PROBS.max(axis=1), 0.97)
    with pytest.warns(GnncalWarning, match="more labels help only through a new fit"):
        Policy(accuracy=0.99).fit(np.column_stack([p, 1 - p]), LABELS, calibration_nodes=NODES)


@pytest.mark.parametrize("kind", ["object", "str", "category", "array of objects"])
def test_groups_are_any_column_of_a_data_frame(kind):
    pd = pytest.importorskip("pandas")
    names = np.array(["at", "be", "ch"])[np.arange(3000) % 3]
    column = names.astype(object)
    if kind != "array of objects":
        column = pd.DataFrame({"country": pd.Series(column).astype(kind)})["country"]
    given = {"groups": column, "calibration_nodes": NODES}
    found = fit_by_group(Policy(positive=1, act=0.3), PROBS, LABELS, **given)
    assert list(found) == ["at", "be", "ch"]
    for value, policy in found.items():
        assert policy.report_.n_calibration == (names[NODES] == value).sum()


def test_groups_with_missing_values_are_refused_with_one_sentence():
    column = np.array(["at", None, "ch"] * 1000, dtype=object)
    with pytest.raises(InputError, match="groups has values that cannot be sorted"):
        fit_by_group(Policy(accuracy=0.9), PROBS, LABELS, groups=column, calibration_nodes=NODES)


@pytest.mark.parametrize("nodes", [[], np.zeros(3000, dtype=bool)])
def test_groups_without_any_calibration_node_are_refused(nodes):
    with pytest.raises(InputError, match="the calibration set is empty"):
        fit_by_group(
            Policy(accuracy=0.9), PROBS, LABELS, groups=[0, 1, 2] * 1000, calibration_nodes=nodes
        )
