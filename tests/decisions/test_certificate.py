"""A bad threshold is chosen no more often than the confidence level allows."""

import functools
import itertools

import numpy as np
import pytest
from scipy import stats

from gnncal.decisions import certificate
from gnncal.decisions.certificate import (
    certify,
    fewest_nodes,
    p_values,
    planned_ranks,
    ranks_allowing,
)
from gnncal.decisions.outcomes import RankedNodes

DRAWS = 2000


@pytest.fixture(autouse=True)
def _planned_once(monkeypatch):
    """The plan is the same in every draw, so thousands of draws need it once."""
    monkeypatch.setattr(certificate, "planned_ranks", functools.cache(planned_ranks))


def violations(draw, true_accuracy, n, target, level, n_draws=DRAWS):
    """How many of the draws end with a threshold whose true accuracy is below the target."""
    generator = np.random.default_rng(0)
    bad = 0
    for _ in range(n_draws):
        found = certify(RankedNodes.of(*draw(generator, n)), target, level)
        bad += found.n_decided > 0 and true_accuracy(found.threshold) < target - 1e-12
    return bad


def uniform_draw(accuracy):
    def draw(generator, n):
        confidence = generator.uniform(size=n)
        return confidence, generator.random(n) < accuracy(confidence)

    return draw


def above(accuracy):
    """True accuracy above each threshold, by the midpoint rule."""
    grid = (np.arange(20000) + 0.5) / 20000
    tails = np.cumsum(accuracy(grid)[::-1])[::-1] / np.arange(20000, 0, -1)
    return lambda threshold: float(np.interp(threshold, grid, tails))


PROFILES = {  # accuracy at a confidence; the rest of the name says what is hard about it
    "calibrated": lambda c: c,
    "just below the target everywhere": lambda c: np.full_like(c, 0.8999),
    "wrong where it is most confident": lambda c: np.where(c > 0.9, 0.6, 0.95),
    "up and down": lambda c: 0.9 + 0.09 * np.sin(25 * c),
    "falls at once": lambda c: np.where(c > 0.75, 1.0, 0.7),
}


@pytest.mark.parametrize("n", [22, 60, 300])
@pytest.mark.parametrize("profile", PROFILES)
def test_violations_are_as_rare_as_promised_for_any_accuracy_profile(profile, n):
    accuracy = PROFILES[profile]
    bad = violations(uniform_draw(accuracy), above(accuracy), n, target=0.9, level=0.9)
    assert bad <= stats.binom.ppf(0.9999, DRAWS, 0.1)


def test_the_promise_is_nearly_used_up_where_accuracy_is_just_below_the_target():
    accuracy = PROFILES["just below the target everywhere"]
    n = int(
        ranks_allowing(np.array([1]), 100, 0.9, 0.9)[0]
    )  # 38, where the test is least conservative
    allowed = stats.binom.cdf(1, n, 0.1)
    bad = violations(uniform_draw(accuracy), above(accuracy), n, target=0.9, level=0.9)
    assert abs(bad - allowed * DRAWS) < 4 * np.sqrt(allowed * DRAWS)
    assert allowed > 0.09


def chance_to_pass_the_first_bad_test(n, target, level, weights, accuracy):
    """Exact, for confidences with few values, the highest first: a sum over all outcomes."""
    ranks = planned_ranks(n, target, level)
    below = np.cumsum(np.multiply(weights, accuracy)) / np.cumsum(weights) < target
    total = 0.0
    for counts in itertools.product(range(n + 1), repeat=len(weights) - 1):
        if sum(counts) > n:
            continue
        counts = [*counts, n - sum(counts)]
        ends = np.cumsum(counts)
        tested = np.unique(np.searchsorted(ends, ranks))
        if not below[tested].any():
            continue
        first_bad = tested[below[tested]][0]
        chance = np.array([stats.multinomial.pmf(counts, n, weights)])  # by number of mistakes
        for value in range(first_bad + 1):
            here = np.arange(counts[value] + 1)
            chance = np.convolve(chance, stats.binom.pmf(here, counts[value], 1 - accuracy[value]))
            if value in tested:
                mistakes = np.arange(len(chance))
                passed = p_values(np.full(len(chance), ends[value]), mistakes, target) <= 1 - level
                chance = np.where(passed, chance, 0.0)
        total += chance.sum()
    return total


HARD = [  # found by a random search for the largest chance
    (80, 0.7, 0.8, (0.024, 0.976), (0.09, 0.714)),
    (80, 0.7, 0.8, (0.732, 0.268), (0.9155, 0.111)),
    (50, 0.8, 0.8, (0.038, 0.962), (1.0, 0.792)),
    (50, 0.9, 0.9, (0.517, 0.483), (0.8999, 0.754)),
    (30, 0.5, 0.8, (0.261, 0.739), (0.84, 0.3795)),
    (12, 0.5, 0.8, (0.217, 0.372, 0.411), (1.0, 0.457, 0.274)),
    (20, 0.9, 0.8, (0.186, 0.7, 0.114), (1.0, 0.857, 1.0)),
]


@pytest.mark.parametrize(("n", "target", "level", "weights", "accuracy"), HARD)
def test_with_ties_the_exact_chance_of_a_violation_is_below_what_is_allowed(
    n, target, level, weights, accuracy
):
    chance = chance_to_pass_the_first_bad_test(n, target, level, weights, accuracy)
    assert 0.05 < chance <= 1 - level


def test_allowed_mistakes_are_those_of_the_binomial_test():
    mistakes = np.arange(30)
    ranks = ranks_allowing(mistakes, 2000, 0.95, 0.9)
    assert (stats.binom.cdf(mistakes, ranks, 0.05) <= 0.1).all()
    assert (stats.binom.cdf(mistakes, ranks - 1, 0.05) > 0.1).all()
    assert (ranks_allowing(mistakes[:3], 90, 0.95, 0.9) == [45, 77, 91]).all()  # 91: not with 90


@pytest.mark.parametrize("level", [1e-12, 0.5, 0.9, 1 - 1e-15])
@pytest.mark.parametrize("target", [1e-12, 0.5, 0.999999, 1 - 1e-15])
def test_extreme_targets_and_levels_give_an_answer(target, level):
    ranks = planned_ranks(50, target, level)
    assert (ranks.size == 0) == (fewest_nodes(target, level) > 50)
    assert (np.diff(ranks) > 0).all()
