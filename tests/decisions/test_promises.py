"""Promises about one class are broken no more often than stated, and advice is worth following."""

import functools

import numpy as np
import pytest
from scipy import stats

from gnncal.decisions import certificate
from gnncal.decisions import promises as module
from gnncal.decisions.certificate import fewest_nodes, planned_ranks
from gnncal.decisions.promises import (
    allowed_misses,
    labels_for_precision,
    make_promises,
    two_digits,
)

DRAWS, LEVEL = 400, 0.9
ALLOWED = stats.binom.ppf(0.9999, DRAWS, 1 - LEVEL)
TARGETS = {"act": 0.6, "clear": 0.97, "catch": 0.85}


@pytest.fixture
def _without_advice(monkeypatch):
    """Thousands of draws need the plan once, and no advice."""
    monkeypatch.setattr(certificate, "planned_ranks", functools.cache(planned_ranks))
    monkeypatch.setattr(module, "best_target", lambda *_: 0.0)
    monkeypatch.setattr(module, "labels_for_precision", lambda *_: None)


def pool(kind, n=40_000):
    generator = np.random.default_rng(0)
    p, u = generator.beta(0.25, 2.25, size=n), generator.random(n)
    if kind == "ties":
        return np.round(p, 1), u < p
    if kind == "wrong at the top":
        return p, u < np.where(p > 0.9, 0.4, p)
    return p, u < p


def broken(promise, p, y):
    if not promise.is_certified or not np.isfinite(promise.threshold):
        return False
    t = promise.threshold
    found = {
        "act": lambda: y[p >= t].mean(),
        "clear": lambda: 1 - y[p <= t].mean(),
        "catch": lambda: (p[y] >= t).mean(),
    }[promise.kind]()
    return found < promise.target - 1e-12


@pytest.mark.usefixtures("_without_advice")
@pytest.mark.parametrize("n", [100, 600])
@pytest.mark.parametrize("kind", ["calibrated", "ties", "wrong at the top"])
def test_promises_together_are_broken_as_rarely_as_stated(kind, n):
    p, y = pool(kind)
    generator, bad, certified = np.random.default_rng(1), 0, 0
    for _ in range(DRAWS):
        nodes = generator.choice(p.size, size=n, replace=False, shuffle=False)
        made = make_promises(p[nodes], y[nodes], TARGETS, LEVEL).values()
        bad += any(broken(promise, p, y) for promise in made)
        certified += any(promise.is_certified for promise in made)
    assert certified > DRAWS / 2 or n == 100
    assert bad <= ALLOWED


@pytest.mark.usefixtures("_without_advice")
@pytest.mark.parametrize("kind", ["act", "clear"])
def test_where_precision_is_a_hair_below_the_target_it_is_rarely_certified(kind):
    generator, bad = np.random.default_rng(2), 0
    target = 0.1001 if kind == "act" else 0.9001
    for _ in range(DRAWS):
        p, y = generator.random(300), generator.random(300) < 0.1
        bad += make_promises(p, y, {kind: target}, LEVEL)[kind].is_certified
    assert 0 < bad <= ALLOWED


@pytest.mark.parametrize(("n_pool", "n"), [(30, 20), (60, 40), (400, 60), (5000, 22), (50, 49)])
@pytest.mark.parametrize("target", [0.5, 0.9, 0.95])
def test_catching_is_exact_for_finite_pools_with_and_without_ties(n_pool, n, target):
    """The threshold is bad if fewer than k of n drawn positives lie among the m that must not."""
    k = allowed_misses(n, target, LEVEL) + 1
    m = int(np.floor((1 - target) * n_pool + 1e-9)) + 1  # one more than may be missed
    if k:
        assert stats.hypergeom.cdf(k - 1, n_pool, m, n) <= 1 - LEVEL


@pytest.mark.parametrize("target", [0.8, 0.9, 0.99])
def test_catching_takes_as_many_positives_as_the_formula_says(target):
    fewest = fewest_nodes(target, LEVEL)
    assert allowed_misses(fewest, target, LEVEL) == 0
    assert allowed_misses(fewest - 1, target, LEVEL) == -1
    assert (fewest_nodes(0.9, 0.9), allowed_misses(0, 0.9, 0.9)) == (22, -1)


def test_what_is_acted_on_or_must_be_caught_is_not_cleared():
    generator = np.random.default_rng(3)
    y = generator.random(3000) < 0.3
    p = np.where(y, generator.beta(8, 1, 3000), generator.beta(1, 8, 3000))  # nearly separable
    made = make_promises(p, y, {"act": 0.6, "clear": 0.8, "catch": 0.9}, LEVEL)
    alone = make_promises(p, y, {"clear": 0.8}, LEVEL)["clear"]
    assert alone.threshold > made["act"].threshold
    assert all(promise.is_certified for promise in made.values())
    assert made["clear"].threshold < min(made["act"].threshold, made["catch"].threshold)
    cleared = p <= made["clear"].threshold
    assert made["clear"].n_counted == cleared.sum()
    assert made["clear"].n_right == (cleared & ~y).sum()
    assert made["catch"].n_right == (p[y] >= made["catch"].threshold).sum()


def test_a_catch_that_is_not_certified_clears_nothing():
    p, y = np.linspace(0, 1, 400), np.arange(400) > 395
    made = make_promises(p, y, {"clear": 0.9, "catch": 0.9}, LEVEL)
    assert not made["catch"].is_certified
    assert made["clear"].is_certified
    assert made["clear"].threshold == -np.inf
    assert made["catch"].best_target < 0.9
    assert "other promises leave no node" in made["clear"].sentence("P(x)")


def test_a_rare_class_can_be_acted_on_although_few_nodes_have_it():
    """With 30 positives of 1,000 the first test takes fewer than the 95 of the usual plan."""
    p = np.concatenate([np.linspace(0.9, 0.99, 30), np.linspace(0, 0.01, 970)])
    y = np.arange(1000) < 30
    assert make_promises(p, y, {"act": 0.9}, LEVEL)["act"].n_counted >= 22


@pytest.mark.usefixtures("_without_advice")
def test_with_the_labels_that_are_advised_the_promise_is_likely_certified():
    p, y = pool("calibrated")
    needed = labels_for_precision(p[:500], 0.5, LEVEL, 2**-3)
    assert needed is not None
    generator = np.random.default_rng(4)
    passed = 0
    for _ in range(100):
        nodes = generator.choice(p.size, size=needed, replace=False, shuffle=False)
        passed += make_promises(p[nodes], y[nodes], {"act": 0.5}, LEVEL)["act"].is_certified
    assert passed > 50
    assert labels_for_precision(np.full(100, 0.4), 0.5, LEVEL, 0.5) is None


def test_advice_names_the_best_target_and_the_labels():
    generator = np.random.default_rng(5)
    p = generator.beta(0.3, 3, size=300)
    y = generator.random(300) < p
    act = make_promises(p, y, {"act": 0.9}, LEVEL)["act"]
    assert not act.is_certified
    assert 0 < act.best_target < 0.9
    again = make_promises(p, y, {"act": act.best_target}, LEVEL)["act"]
    assert again.is_certified
    catch = make_promises(p, y, {"catch": 0.99}, LEVEL)["catch"]
    assert make_promises(p, y, {"catch": catch.best_target}, LEVEL)["catch"].is_certified
    assert catch.labels_needed == two_digits(230 * 300 / y.sum())
    assert f"about {catch.labels_needed:,} labelled nodes" in catch.sentence("P(x)")


def test_two_digits_count():
    assert [two_digits(value) for value in (7, 99, 1234, 1300, 99_001)] == [
        7,
        99,
        1300,
        1300,
        100_000,
    ]
