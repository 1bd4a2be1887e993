"""A policy does what it says, says what to expect, and is the same when it is loaded."""

import json
import struct
import warnings

import numpy as np
import pytest
from safetensors.numpy import load as tensors_of
from safetensors.numpy import save as to_bytes
from scipy.special import expit, logit
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import gnncal
from gnncal.decisions import ClassPolicy, Costs, class_curve, judge_policy
from gnncal.decisions.budget import hits_among_most_suspicious, most_suspicious
from gnncal.decisions.costs import cheapest_actions
from tests.test_persistence import refused, signed

GENERATOR = np.random.default_rng(0)
N = 4000
P = GENERATOR.beta(0.3, 2, size=N)
PROBS = np.column_stack([1 - P, P])
LABELS = (GENERATOR.random(N) < P).astype(int)
NODES = np.arange(1500)
NAMES = ["fine", "fraud"]
COSTS = Costs(missed=500, false_alarm=20, review=3)
EACH = Costs(missed=GENERATOR.uniform(10, 900, N), false_alarm=20, review=3)
KINDS = {
    "promises": {"act": 0.6, "clear": 0.97, "catch": 0.9},
    "act": {"act": 0.6},
    "catch": {"catch": 0.9},
    "costs": {"costs": COSTS},
    "costs of each node": {"costs": EACH},
    "budget": {"budget": 200},
    "act and budget": {"act": 0.6, "budget": 100},
}


def fitted(**params):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gnncal.GnncalWarning)
        return ClassPolicy("fraud", **params).fit(PROBS, LABELS, nodes=NODES, class_names=NAMES)


def test_actions_follow_the_thresholds():
    policy = fitted(**KINDS["promises"])
    actions = policy.decide(PROBS)
    np.testing.assert_array_equal(actions == "act", policy.act_threshold_ <= P)
    np.testing.assert_array_equal(actions == "clear", policy.clear_threshold_ >= P)
    counts = {name: int((actions[1500:] == name).sum()) for name in ("act", "clear", "review")}
    outlook = policy.outlook_
    assert counts == {
        "act": outlook.n_act,
        "clear": outlook.n_clear,
        "review": outlook.n_review,
    }
    assert min(counts.values()) > 0
    assert f"the rest, {counts['review']:,} of 2,500 nodes, goes to people" in str(policy)
    assert "Act on P(fraud) of at least" in str(policy)


def test_with_catch_alone_what_need_not_be_caught_is_cleared():
    policy = fitted(catch=0.9)
    threshold = policy.promises_["catch"].threshold
    np.testing.assert_array_equal(policy.decide(PROBS) == "clear", threshold > P)


def test_labels_outside_the_calibration_nodes_are_never_looked_at():
    hidden = LABELS.copy()
    hidden[1500:] = -1
    policy = ClassPolicy(1, clear=0.97).fit(PROBS, hidden, nodes=NODES)
    assert policy.clear_threshold_ == fitted(clear=0.97).clear_threshold_
    assert ClassPolicy(1, clear=0.97).fit(PROBS, hidden).clear_threshold_ == policy.clear_threshold_


def test_the_class_may_be_any_of_several():
    probs = np.column_stack([P / 2, 1 - P, P / 2])
    policy = ClassPolicy("b", clear=0.6, catch=0.5)
    policy.fit(probs, np.where(LABELS == 1, 2, 1), nodes=NODES, class_names=["a", "b", "c"])
    assert policy.positive_ == 1
    assert (policy.decide(probs)[P < 0.001] == "review").all()


def test_the_cheapest_action_is_taken():
    p = np.array([0.0, 0.005, 0.01, 0.5, 0.84, 0.86, 1.0])
    actions = COSTS.cheapest(p)
    assert actions.tolist() == ["clear"] * 2 + ["review"] * 3 + ["act"] * 2
    assert fitted(costs=COSTS).act_threshold_ == pytest.approx(0.85)
    assert fitted(costs=COSTS).clear_threshold_ == pytest.approx(0.006)
    every = np.stack([(1 - P) * 20, P * EACH.missed, np.full(N, 3.0)])
    chosen = cheapest_actions(EACH.checked(N), P)
    np.testing.assert_allclose(every[chosen, np.arange(N)], every.min(axis=0))
    assert "review" not in Costs(missed=1, false_alarm=1).cheapest(p)


def test_costs_of_each_node_belong_to_its_row():
    policy = fitted(costs=EACH)
    with pytest.raises(gnncal.InputError, match="missed has 4,000 values for 10 nodes"):
        policy.decide(PROBS[:10])
    some = Costs(missed=EACH.missed[:10], false_alarm=20, review=3)
    np.testing.assert_array_equal(policy.decide(PROBS[:10], costs=some), policy.decide(PROBS)[:10])
    with pytest.raises(gnncal.InputError, match="does not decide by costs"):
        fitted(budget=5).decide(PROBS, costs=some)


def test_a_budget_takes_the_most_suspicious_and_equal_ones_at_random():
    actions = fitted(budget=200).decide(PROBS[1500:])
    assert (actions == "review").sum() == 200
    assert P[1500:][actions == "review"].min() >= P[1500:][actions == "clear"].max()
    tied = np.repeat([0.9, 0.5, 0.1], [10, 1000, 10])
    chosen = most_suspicious(tied, 60)
    assert chosen[:10].all()
    assert 15 < np.flatnonzero(chosen[10:510]).size < 35  # not the first rows
    y = np.zeros(1020, bool)
    y[:110] = True
    assert hits_among_most_suspicious(tied, y, 60) == 10 + 50 * 0.1
    assert hits_among_most_suspicious(tied, y, 5000) == 110
    assert (fitted(budget=9999).decide(PROBS) == "review").all()


TRUTHS = {
    "right": lambda p: p,
    "class-weighted": lambda p: expit(logit(p) - 2),
    "overconfident": lambda p: expit(0.7 * logit(p) - 0.3),
}


@pytest.mark.parametrize("truth", TRUTHS)
def test_intervals_cover_what_is_found_even_where_probabilities_are_off(truth):
    """At 90 % an interval covers at least 20 of 30 with probability .9999."""
    generator = np.random.default_rng(6)
    covered, errors = np.zeros(3), []
    for _ in range(30):
        p = generator.beta(0.3, 2, size=2000)
        y = (generator.random(2000) < TRUTHS[truth](p)).astype(int)
        probs = np.column_stack([1 - p, p])
        kept = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", gnncal.GnncalWarning)
            for params in ({"budget": 80}, {"costs": COSTS}):
                policy = ClassPolicy(**params).fit(probs[:1000], y[:1000])
                kept += judge_policy(y[1000:], probs[1000:], policy).kept
        assert [each.what for each in kept] == ["precision", "recall", "cost"]
        covered += [each.is_kept for each in kept]
        errors.append(kept[0].promised - kept[0].found)
    assert (covered >= 20).all()
    assert abs(np.mean(errors)) < 0.04


def test_probabilities_far_off_are_told_where_costs_rely_on_them():
    p = np.clip(P + 0.2, 0, 1)
    with pytest.warns(gnncal.GnncalWarning, match="on average at the calibration nodes, but"):
        ClassPolicy(costs=COSTS).fit(np.column_stack([1 - p, p]), LABELS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ClassPolicy(costs=COSTS).fit(PROBS, LABELS)


def test_a_promise_that_cannot_be_certified_decides_nothing_and_says_what_could_be():
    with pytest.warns(gnncal.GnncalWarning, match="These labels certify"):
        policy = ClassPolicy(act=0.999).fit(PROBS, LABELS, nodes=NODES)
    assert (policy.decide(PROBS) == "review").all()
    assert policy.report_.certifies_nothing
    assert policy.report_.n_uncertified == 1
    assert not fitted(**KINDS["promises"]).report_.certifies_nothing
    assert not fitted(budget=3).report_.certifies_nothing


def test_promised_is_compared_with_found():
    policy = fitted(**KINDS["promises"])
    outcome = judge_policy(LABELS[1500:], PROBS[1500:], policy)
    actions, y = policy.decide(PROBS[1500:]), LABELS[1500:] == 1
    found = {each.what: each for each in outcome.kept}
    assert found["act"].found == y[actions == "act"].mean()
    assert found["clear"].found == 1 - y[actions == "clear"].mean()
    assert found["catch"].found == (actions[y] != "clear").mean()
    assert outcome.n_act_positive == y[actions == "act"].sum()
    assert found["catch"].found_low < found["catch"].found < found["catch"].found_high
    assert "kept" in repr(outcome)
    priced = judge_policy(LABELS, PROBS, fitted(costs=COSTS)).kept[0]
    actions = fitted(costs=COSTS).decide(PROBS)
    missed, alarms = (actions == "clear") & (LABELS == 1), (actions == "act") & (LABELS == 0)
    total = 500 * missed.sum() + 20 * alarms.sum() + 3 * (actions == "review").sum()
    assert priced.found == total


def test_the_curve_counts_and_weighs():
    curve = fitted(costs=COSTS).curve()
    p, y = P[:1500], LABELS[:1500] == 1
    for i in (0, 20, 200):
        above = p >= curve.threshold[i]
        assert curve.n_acted[i] == above.sum()
        assert curve.n_right[i] == y[above].sum()
        odds = curve.threshold[i] / (1 - curve.threshold[i])
        wrong = (above & ~y).sum()
        assert curve.net_benefit[i] == pytest.approx((y[above].sum() - wrong * odds) / 1500)
        assert curve.cost[i] == pytest.approx((20 * wrong + 500 * (y & ~above).sum()) / 1500)
    assert curve.threshold.size == 300
    assert fitted(costs=EACH).curve().cost is None
    same = class_curve(LABELS, PROBS, "fraud", nodes=NODES, costs=EACH, class_names=NAMES)
    assert same.cost.shape == (300,)
    np.testing.assert_array_equal(same.recall, curve.recall)


@pytest.mark.parametrize("kind", KINDS)
def test_a_loaded_policy_is_the_saved_one(tmp_path, kind):
    before, path = fitted(**KINDS[kind]), tmp_path / "p.safetensors"
    before.save(path)
    after = gnncal.load(path)
    assert type(after) is ClassPolicy
    assert after.class_names_ == NAMES
    assert after.report_ == before.report_ or "costs of" in kind  # NaN thresholds differ
    assert repr(after.report_) == repr(before.report_)
    np.testing.assert_array_equal(after.decide(PROBS), before.decide(PROBS))
    assert after.outlook(PROBS) == before.outlook(PROBS)
    assert not hasattr(after, "outlook_")
    assert str(after)
    again = tmp_path / "again"
    after.save(again)
    assert again.read_bytes() == path.read_bytes()


def test_a_policy_can_be_cloned_and_is_shown_before_it_is_fitted():
    policy = clone(ClassPolicy("fraud", act=0.9))
    assert policy.get_params()["act"] == 0.9
    assert str(policy) == "ClassPolicy(act=0.9, positive='fraud')"
    with pytest.raises(NotFittedError):
        policy.decide(PROBS)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({}, "nothing is asked for"),
        ({"act": 1.5}, "act is 1.5"),
        ({"catch": "0.9"}, "catch is '0.9'"),
        ({"budget": 0}, "budget is 0"),
        ({"budget": 10, "clear": 0.9}, "a budget clears what nobody has time for"),
        ({"costs": COSTS, "act": 0.9}, "nothing is left for act"),
        ({"costs": COSTS, "budget": 9}, "nothing is left for budget"),
        ({"costs": {"missed": 1}}, "expected costs such as"),
        ({"costs": Costs(-1, 2)}, "missed has values that are negative"),
        ({"costs": Costs(1, [1, 2])}, "false_alarm has 2 values for 4,000"),
        ({"costs": Costs(1, "2")}, "false_alarm is '2'"),
        ({"act": 0.9, "positive": "frauds"}, "did you mean 'fraud'?"),
        ({"act": 0.9, "positive": 2}, "positive is 2"),
        ({"act": 0.9, "positive": None}, "positive is None"),
    ],
)
def test_what_cannot_be_used_is_refused_in_a_sentence(params, message):
    with pytest.raises(gnncal.InputError, match=message.replace("?", r"\?")):
        ClassPolicy(**{"positive": 1, **params}).fit(PROBS, LABELS, class_names=NAMES)


def test_arrays_that_do_not_fit_are_refused():
    policy = fitted(catch=0.9)
    for bad in (np.full((3, 3), 1 / 3), P, None):
        with pytest.raises(gnncal.InputError):
            policy.decide(bad)
    with pytest.raises(gnncal.InputError, match="decision_nodes is empty"):
        ClassPolicy(catch=0.9).fit(PROBS, LABELS, decision_nodes=[])
    with pytest.raises(gnncal.InputError, match="labels has 3 entries"):
        ClassPolicy(costs=COSTS).fit(PROBS, LABELS, predictions=[1, 2, 3])


FACTS = [
    ({"positive": 2}, {}, "positive is 2"),
    ({"positive": "1"}, {}, "positive is '1'"),
    ({}, {"fit.p": np.full(1500, 2.0)}, "p has entries"),
    ({}, {"fit.p": np.ones(3)}, "expected"),
    ({}, {"fit.calibration_labels": np.full(1500, 2)}, "calibration_labels has entries"),
    ({}, {"fit.calibration_keys": np.zeros(1500, np.uint64)}, "calibration_keys are not those"),
    ({"n_rows": 3}, {}, "1500 of 3 nodes cannot be"),
    ({"has_ids": "no"}, {}, "has_ids is 'no'"),
    ({}, {"fit.p": np.full(1500, np.nan)}, "p has entries"),
]


@pytest.mark.parametrize(("changes", "arrays", "message"), FACTS)
def test_numbers_that_no_fit_leaves_are_refused(tmp_path, changes, arrays, message):
    path = tmp_path / "p"
    fitted(catch=0.9).save(path)
    whole = path.read_bytes()
    (size,) = struct.unpack("<Q", whole[:8])
    header = json.loads(json.loads(whole[8 : 8 + size])["__metadata__"]["gnncal"])
    header["fit"]["dict"] |= changes
    content = to_bytes(tensors_of(whole) | arrays, metadata={"gnncal": json.dumps(header)})
    refused(path, signed(content), message)


def test_probabilities_of_exactly_zero_or_one_are_worth_what_their_labels_say():
    generator = np.random.default_rng(7)
    p = np.repeat([0.0, 1.0], [4500, 500])
    y = (generator.random(5000) < np.where(p == 1, 0.7, 0.02)).astype(int)
    nodes = generator.choice(5000, size=1500, replace=False)
    policy = ClassPolicy(budget=200).fit(np.column_stack([1 - p, p]), y, nodes=nodes)
    precision = policy.outlook_.budget.precision
    assert precision.low < 0.7 < precision.high
    assert precision.high - precision.low < 0.25


def test_a_cost_that_overflows_is_refused():
    with pytest.raises(gnncal.InputError, match="the cost missed is"):
        Costs(missed=1e200, false_alarm=1.0).cheapest([0.5])
