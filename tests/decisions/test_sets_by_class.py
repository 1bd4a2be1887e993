"""Sets of classes with a promise for each class, and the LAC score."""

import warnings
from math import ceil

import numpy as np
import pytest

from gnncal import GnncalWarning, InputError
from gnncal.decisions import ConformalClassifier
from gnncal.decisions.scores import lac

SPLITS = 1000
COVERAGE = 0.9


def rare_pool(n_nodes, n_positives, seed=0, decimals=None):
    """A model of two classes, one of them rare; with ``decimals`` many probabilities are tied."""
    generator = np.random.default_rng(seed)
    labels = (np.arange(n_nodes) < n_positives).astype(int)
    logit = 2.0 * labels - 3.0 + generator.normal(size=n_nodes)
    p = 1 / (1 + np.exp(-logit))
    p = p if decimals is None else np.round(p, decimals)
    return np.column_stack([1 - p, p]), labels


def excess_by_class(probs, labels, score, n, **params):
    """Coverage of each class in a thousand draws of n calibration nodes, minus its exact mean.

    Given that n_c of the calibration nodes have a class, the sets of its other nodes have it with
    probability rank / (n_c + 1) if no scores are tied.
    """
    generator = np.random.default_rng(1)
    conformal = ConformalClassifier(
        COVERAGE, score=score, by_class=True, **{"nonempty": False} | params
    )
    excess = []
    for draw in range(SPLITS):
        order = generator.permutation(len(labels))
        held, others = order[:n], order[n:]
        counts = np.bincount(labels[held], minlength=2)
        conformal.random_state = draw
        sets = conformal.fit(probs, labels, calibration_nodes=held).predict_set(probs)[others]
        row = []
        for c in range(2):
            mine = labels[others] == c
            rank = min(ceil((counts[c] + 1) * COVERAGE - 1e-9), counts[c] + 1)
            row.append(sets[mine, c].mean() - rank / (counts[c] + 1))
        excess.append(row)
    return np.array(excess)


@pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning")
@pytest.mark.parametrize(
    ("score", "n_nodes", "n_positives", "n"),
    [
        ("aps", 240, 60, 120),
        ("lac", 240, 60, 120),
        ("lac", 200, 20, 100),  # about ten positives to calibrate with, often fewer than nine
        ("raps", 400, 40, 300),
    ],
)
def test_the_coverage_of_each_class_over_a_thousand_draws_is_exact(score, n_nodes, n_positives, n):
    probs, labels = rare_pool(n_nodes, n_positives)
    excess = excess_by_class(probs, labels, score, n)
    error = excess.std(axis=0) / np.sqrt(SPLITS)
    assert (np.abs(excess.mean(axis=0)) < 4 * error + 1e-12).all(), (excess.mean(axis=0), error)


@pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning")
@pytest.mark.parametrize(("n_positives", "decimals"), [(60, 1), (60, 2), (20, 1)])
@pytest.mark.parametrize("nonempty", [True, False])
def test_ties_and_filled_sets_only_add_coverage(n_positives, decimals, nonempty):
    probs, labels = rare_pool(240, n_positives, decimals=decimals)
    excess = excess_by_class(probs, labels, "lac", 120, nonempty=nonempty)
    error = excess.std(axis=0) / np.sqrt(SPLITS)
    assert (excess.mean(axis=0) > -4 * error - 1e-12).all()


def test_a_promise_for_all_nodes_is_none_for_a_rare_class():
    probs, labels = rare_pool(4000, 200)
    held, others = np.arange(0, 4000, 2), np.arange(1, 4000, 2)
    positives = others[labels[others] == 1]
    shares = [
        ConformalClassifier(0.9, score="lac", by_class=by_class)
        .fit(probs, labels, calibration_nodes=held)
        .predict_set(probs)[positives, 1]
        .mean()
        for by_class in (False, True)
    ]
    assert shares[0] < 0.5
    assert shares[1] > 0.85


def test_thresholds_are_the_quantiles_of_each_class_by_hand():
    probs, labels = rare_pool(60, 25)
    conformal = ConformalClassifier(0.8, score="lac", by_class=True, nonempty=False)
    conformal.fit(probs, labels, calibration_nodes=range(10, 50))
    for c in range(2):
        scores = sorted(1 - probs[i, c] for i in range(10, 50) if labels[i] == c)
        threshold = scores[int(np.ceil((len(scores) + 1) * 0.8 - 1e-9)) - 1]
        assert conformal.threshold_[c] == threshold
        np.testing.assert_array_equal(
            conformal.predict_set(probs)[:, c], 1 - probs[:, c] <= threshold
        )


def test_a_class_with_too_few_calibration_nodes_is_in_every_set_and_is_named():
    generator = np.random.default_rng(0)
    probs = generator.dirichlet([1, 1, 1, 1], size=100)
    labels = np.repeat([0, 1, 2], [88, 8, 4])
    conformal = ConformalClassifier(0.9, score="lac", by_class=True)
    names = ["legitimate", "fraud", "spam", "other"]
    with pytest.warns(
        GnncalWarning, match=r"3 classes, which have .*: fraud \(8\), spam \(4\), ot"
    ):
        conformal.fit(probs, labels, class_names=names, calibration_nodes=range(len(probs)))
    sets = conformal.predict_set(probs)
    assert sets[:, 1:].all()
    assert not sets[:, 0].all()
    np.testing.assert_array_equal(np.isinf(conformal.threshold_), [False, True, True, True])
    report = conformal.report_
    assert list(report.counts.values()) == [88, 8, 4, 0]
    assert "at least 9 nodes of a class" in report.sentence
    assert list(report.counts) == names
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        conformal.fit(probs[:96], np.arange(96) % 4, calibration_nodes=range(len(probs[:96])))
    assert next(iter(conformal.report_.counts)) == "class 0"
    assert conformal.class_names_ is None


def test_lac_scores_of_float32_probabilities_tell_the_smallest_apart():
    probs = np.array([[1.0, 1e-12], [1.0, 2e-12]], dtype=np.float32)
    scores = lac(probs, np.zeros(2), None)
    assert scores[0, 1] > scores[1, 1]


def test_coverage_may_be_given_by_position():
    assert ConformalClassifier(0.8).coverage == 0.8
    with pytest.raises(InputError, match="by_class is 1"):
        ConformalClassifier(0.8, by_class=1).fit(*rare_pool(40, 20), calibration_nodes=range(40))
    with pytest.raises(InputError, match="1 names for 2 classes"):
        ConformalClassifier(0.8).fit(
            *rare_pool(40, 20), class_names=["a"], calibration_nodes=range(40)
        )
