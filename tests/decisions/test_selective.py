import warnings
from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from gnncal import GnncalWarning, InputError
from gnncal.decisions import SelectiveClassifier, selective_curve
from gnncal.decisions.certificate import fewest_nodes, planned_ranks
from gnncal.decisions.outcomes import sums_above


def two_classes(confidence, correct):
    """Probabilities with these confidences of class 0, and labels that make them right or not."""
    confidence = np.asarray(confidence, dtype=float)
    return np.column_stack([confidence, 1 - confidence]), np.where(correct, 0, 1)


def fit_quietly(selective, *args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GnncalWarning)
        return selective.fit(*args, **kwargs)


def sample(seed, n, *, accuracy=lambda confidence: confidence, values=None):
    generator = np.random.default_rng(seed)
    confidence = generator.uniform(0.5, 1, n) if values is None else generator.choice(values, n)
    return two_classes(confidence, generator.random(n) < accuracy(confidence))


def test_three_right_nodes_certify_one_half_at_seven_eighths():
    # 1/2 * 1/2 * 1/2 = 1/8: a coin shows three heads no more often than that.
    probs, labels = two_classes([0.9, 0.8, 0.7], [True, True, True])
    selective = SelectiveClassifier(target_accuracy=0.5, confidence_level=0.875)
    assert fewest_nodes(0.5, 0.875) == 3
    assert selective.fit(probs, labels).threshold_ == 0.7
    assert (selective.n_decided_, selective.coverage_) == (3, 1.0)
    assert selective.accuracy_bound_ == pytest.approx(0.5)  # the p with p ** 3 = 1/8
    with pytest.warns(GnncalWarning, match="at least 3 of them"):
        selective.fit(probs[:2], labels[:2])


def test_the_sequence_ends_at_the_first_test_that_fails():
    # At 95 % and level 90 %, 132 nodes may have 3 mistakes, 158 may have 4 and 184 may have 5.
    correct = np.ones(1000, dtype=bool)
    correct[140:145] = False  # so the third test fails, and the fourth would pass again
    probs, labels = two_classes(np.linspace(0.99, 0.6, 1000), correct)
    found = SelectiveClassifier().fit(probs, labels)
    assert found.n_decided_ == 132
    assert found.threshold_ == probs[131, 0]


def straight_line(confidence, correct, target, level, ranks):
    """The same sequence with fractions and loops."""
    order = sorted(range(len(confidence)), key=lambda i: -confidence[i])
    answer = (np.inf, 0)
    for rank in ranks:
        lowest = confidence[order[rank - 1]]
        decided = [i for i in order if confidence[i] >= lowest]
        wrong = sum(not correct[i] for i in decided)
        n, miss = len(decided), 1 - Fraction(target)
        tail = sum(comb(n, k) * miss**k * (1 - miss) ** (n - k) for k in range(wrong + 1))
        if tail > 1 - Fraction(level):
            break
        answer = (lowest, n)
    return answer


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.5, 0.8, 0.9]), st.booleans())
def test_a_straight_line_reimplementation_finds_the_same_threshold(seed, target, tied):
    generator = np.random.default_rng(seed)
    n = int(generator.integers(10, 90))
    confidence = generator.uniform(0.5, 1, n)
    confidence = np.round(confidence, 1) if tied else confidence
    correct = generator.random(n) < 0.5 + confidence / 2
    ranks = planned_ranks(n, target, 0.9)
    selective = SelectiveClassifier(target_accuracy=target)
    fit_quietly(selective, *two_classes(confidence, correct))
    expected = straight_line(confidence, correct, target, 0.9, ranks)
    assert (selective.threshold_, selective.n_decided_) == expected


def test_planned_numbers_of_nodes_depend_on_no_label_and_rise():
    ranks = planned_ranks(1000, 0.95, 0.9)
    assert ranks[:4].tolist() == [105, 132, 158, 184]  # 2, 3, 4 and 5 mistakes allowed
    assert ranks[-1] == 1000
    assert (np.diff(ranks) > 0).all()
    assert planned_ranks(44, 0.95, 0.9).size == 0
    assert planned_ranks(45, 0.95, 0.9).tolist() == [45]


def test_where_nothing_is_certified_nothing_is_decided_and_a_sentence_says_why():
    probs, labels = sample(0, 20)
    selective = SelectiveClassifier()
    with pytest.warns(GnncalWarning, match="at least 45 of them above the threshold"):
        selective.fit(probs, labels)
    assert selective.threshold_ == np.inf
    assert not selective.decide(probs).any()
    assert np.isnan(selective.accuracy_bound_)
    assert "No node can be decided automatically" in repr(selective.report_)


def test_where_nothing_is_certified_the_highest_target_that_is_stands_in_the_sentence():
    probs, labels = sample(7, 300)
    selective = SelectiveClassifier(target_accuracy=0.99)
    with pytest.warns(GnncalWarning, match=r"Lower the target to [\d.]+ %, the highest"):
        selective.fit(probs, labels)
    best = selective.report_.best_target
    assert f"Lower the target to {100 * best:g} %" in selective.report_.sentence
    targets = np.arange(1, 990) / 1000
    certified = selective_curve(probs, labels, targets).n_certified > 0
    assert best == targets[certified].max()
    assert SelectiveClassifier(target_accuracy=best).fit(probs, labels).n_decided_ > 0
    assert selective.fit(probs, np.zeros(300)).report_.best_target == 0.99


def test_where_no_target_is_certified_the_sentence_says_so():
    probs, labels = two_classes([0.9] * 3, [False] * 3)
    selective = fit_quietly(SelectiveClassifier(), probs, labels)
    assert selective.report_.best_target == 0
    assert "No lower target is certified either. Label more nodes." in selective.report_.sentence


def test_calibration_nodes_of_one_predicted_class_say_what_is_decided_of_that_class():
    generator = np.random.default_rng(5)
    p = generator.random(2000)
    probs, labels = np.column_stack([p, 1 - p]), (generator.random(2000) > p).astype(int)
    ones = probs.argmax(axis=1) == 1
    nodes = np.flatnonzero(ones)[:400]
    curve = selective_curve(probs, labels, [0.7, 0.8], nodes=nodes)
    others = ones.copy()
    others[nodes] = False
    assert curve.n_nodes == others.sum()
    confidence = probs[others].max(axis=1)
    expected = [(confidence >= threshold).sum() for threshold in curve.threshold]
    assert curve.n_decided.tolist() == expected
    everyone = selective_curve(probs, labels, [0.7], nodes=nodes, decision_nodes=np.arange(2000))
    assert everyone.n_nodes == 2000


def test_nodes_at_the_threshold_are_decided_also_in_single_precision():
    probs, labels = sample(1, 500)
    probs = probs.astype(np.float32)
    selective = SelectiveClassifier(target_accuracy=0.8).fit(probs, labels)
    assert selective.decide(probs).sum() == selective.n_decided_ > 0


def test_labels_outside_the_calibration_nodes_never_matter():
    probs, labels = sample(2, 600)
    nodes = np.arange(0, 600, 2)
    hidden = labels.copy()
    hidden[1::2] = -1
    chosen = SelectiveClassifier(target_accuracy=0.8)
    reports = [
        chosen.fit(probs, labels, nodes=nodes).report_,
        chosen.fit(probs, hidden).report_,
        chosen.fit(probs[nodes], labels[nodes]).report_,
    ]
    assert reports[0] == reports[1] == reports[2]


def test_relabelling_nodes_changes_nothing():
    probs, labels = sample(3, 400, values=[0.6, 0.7, 0.8, 0.9, 0.99])
    order = np.random.default_rng(0).permutation(400)
    chosen = SelectiveClassifier(target_accuracy=0.7)
    assert chosen.fit(probs, labels).report_ == chosen.fit(probs[order], labels[order]).report_


def test_scikit_learn_conventions_hold():
    selective = SelectiveClassifier(target_accuracy=0.8, confidence_level=0.7)
    assert selective.get_params() == {"target_accuracy": 0.8, "confidence_level": 0.7}
    assert clone(selective).get_params() == selective.get_params()
    assert repr(selective) == "SelectiveClassifier(confidence_level=0.7, target_accuracy=0.8)"
    with pytest.raises(Exception, match="not fitted"):
        selective.decide([[0.5, 0.5]])


@pytest.mark.parametrize("value", [0, 1, -1, 1.5, np.nan, "0.9", None, True])
@pytest.mark.parametrize("name", ["target_accuracy", "confidence_level"])
def test_shares_outside_zero_and_one_are_refused(name, value):
    with pytest.raises(InputError, match=f"{name} is"):
        SelectiveClassifier(**{name: value}).fit(*sample(0, 50))


def test_hostile_input_is_refused_with_one_sentence():
    probs, labels = sample(0, 100)
    for bad, match in [
        ((probs * 3, labels), "sum to one"),
        ((np.full((100, 2), np.nan), labels), "NaN"),
        ((probs, labels[:50]), "50 entries"),
        ((probs, labels + 7), "lie outside"),
        ((probs, np.full(100, -1)), "no calibration node"),
        ((probs, np.where(np.arange(100) == 3, -2, labels)), r"node 3 has -2"),
        ((probs, np.array([2**64 - 1, *labels[1:]], np.uint64)), "18446744073709551615, which is"),
        ((probs, np.eye(2)[labels]), r"one-hot: pass labels.argmax\(axis=1\)"),
    ]:
        with pytest.raises(InputError, match=match):
            SelectiveClassifier().fit(*bad)
    fitted = SelectiveClassifier(target_accuracy=0.5).fit(probs, labels)
    with pytest.raises(InputError, match="3 columns"):
        fitted.decide([[0.2, 0.3, 0.5]])
    with pytest.raises(InputError, match=r"targets is 1\.0"):
        selective_curve(probs, labels, [0.5, 1.0])
    with pytest.raises(InputError, match="decision_nodes is empty"):
        selective_curve(probs, labels, [0.5], decision_nodes=[])


def test_each_row_of_the_curve_is_what_the_classifier_finds():
    probs, labels = sample(4, 3000)
    nodes = np.arange(1000)
    targets = [0.6, 0.8, 0.9, 0.99]
    curve = selective_curve(probs, labels, targets, nodes=nodes)
    for i, target in enumerate(targets):
        selective = fit_quietly(
            SelectiveClassifier(target_accuracy=target), probs, labels, nodes=nodes
        )
        assert curve.threshold[i] == selective.threshold_
        assert curve.n_certified[i] == selective.n_decided_
        assert curve.n_decided[i] == selective.decide(probs[1000:]).sum()
        np.testing.assert_equal(curve.accuracy_bound[i], selective.accuracy_bound_)
    assert curve.n_nodes == 2000
    assert len(curve.to_frame()) == 4
    everyone = selective_curve(probs, labels, targets, nodes=nodes, decision_nodes=np.arange(3000))
    assert everyone.n_nodes == 3000


SHARES = st.sampled_from([0.5, 0.6, 0.7, 0.8, 0.9])


@given(st.lists(SHARES | st.just(np.inf), min_size=1), st.lists(SHARES, min_size=1))
def test_nodes_at_or_above_each_threshold_are_counted(thresholds, confidences):
    threshold, confidence = np.array(thresholds), np.array(confidences)
    reach = confidence >= threshold[:, None]
    np.testing.assert_array_equal(sums_above(threshold, confidence), reach.sum(axis=1))
    right = (confidence > 0.6).astype(np.float64)
    np.testing.assert_array_equal(sums_above(threshold, confidence, right), reach @ right)
