"""A bad threshold is certified no more often than stated, and asking for less gives no less."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from gnncal.decisions.certificate import (
    TARGETS,
    RankedNodes,
    allowed_mistakes,
    best_target,
    certified_ranks,
    chance_to_certify,
    fewest_nodes,
    labels_for_precision,
    labels_for_share,
    make_plan,
    missed_on_the_rest,
)

POOL = np.sort(np.random.default_rng(0).beta(2, 0.4, size=1000))[::-1]


def test_allowed_mistakes_are_those_of_the_binomial_test():
    ranks = np.arange(1, 400)
    for target, delta in itertools.product((0.1, 0.5, 0.9, 0.995), (0.01, 0.1, 0.5)):
        allowed = allowed_mistakes(ranks, target, delta)
        assert (stats.binom.cdf(allowed, ranks, 1 - target)[allowed >= 0] <= delta + 1e-12).all()
        more = np.minimum(allowed + 1, ranks)
        assert (stats.binom.cdf(more, ranks, 1 - target) > delta - 1e-12).all()
        assert ((allowed >= 0) == (ranks >= fewest_nodes(target, delta))).all()


@pytest.mark.parametrize("delta", [1e-300, 1e-12, 0.1, 0.5, 1 - 1e-12])
@pytest.mark.parametrize("target", [1e-12, 0.5, 0.999999, 1 - 1e-15])
def test_extreme_targets_and_levels_give_an_answer(target, delta):
    ranked = RankedNodes.of(np.linspace(1, 0, 50), np.ones(50, bool))
    plan = make_plan(POOL, ranked.ends, delta)
    last = certified_ranks(ranked, plan, target, delta)[1, 0]
    assert last in (0, 50)


scores_and_labels = st.integers(20, 150).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(0, 30), min_size=n, max_size=n),
        st.lists(st.floats(0, 1), min_size=n, max_size=n),
        st.sampled_from([0.5, 1.0, 2.0, 6.0]),
    )
)


@settings(max_examples=60, deadline=None)
@given(scores_and_labels, st.sampled_from([0.05, 0.1, 0.3]))
def test_asking_for_less_never_certifies_less(drawn, delta):
    score, luck, power = drawn
    score = np.array(score) / 30
    right = np.array(luck) < (0.3 + 0.7 * score) ** (1 / power)
    ranked = RankedNodes.of(score, right)
    plan = make_plan(np.sort(0.3 + 0.7 * score)[::-1], ranked.ends, delta)
    targets = np.append(np.linspace(0.01, 0.995, 60), [0.9, 0.95, 0.99])
    decided = [certified_ranks(ranked, plan, t, delta)[1, 0] for t in np.sort(targets).tolist()]
    assert (np.diff(decided) <= 0).all()


@pytest.mark.parametrize("n_rounds", [3, pytest.param(40, marks=pytest.mark.slow)])
def test_asking_for_less_never_certifies_less_with_few_values(n_rounds):
    generator = np.random.default_rng(4)
    for _ in range(n_rounds):
        n_values = int(generator.integers(2, 7))
        value = np.sort(generator.uniform(0.3, 1, n_values))
        score = generator.choice(value, int(generator.integers(30, 600)))
        power = generator.choice([0.5, 1.0, 2.0])
        ranked = RankedNodes.of(score, generator.random(score.size) < score**power)
        plan = make_plan(np.sort(score)[::-1], ranked.ends, 0.1)
        targets = np.sort([*np.linspace(0.01, 0.995, 60), *TARGETS])
        decided = [certified_ranks(ranked, plan, t, 0.1)[1, 0] for t in targets.tolist()]
        assert (np.diff(decided) <= 0).all()


def above(accuracy):
    """True accuracy above each threshold, by the midpoint rule."""
    grid = (np.arange(20000) + 0.5) / 20000
    tails = np.cumsum(accuracy(grid)[::-1])[::-1] / np.arange(20000, 0, -1)
    return lambda threshold: float(np.interp(threshold, grid, tails))


PROFILES = {  # accuracy at a score; the rest of the name says what is hard about it
    "calibrated": lambda c: c,
    "just below the target everywhere": lambda c: np.full_like(c, 0.8999),
    "wrong at the top": lambda c: np.where(c > 0.9, 0.6, 0.95),
    "up and down": lambda c: 0.9 + 0.09 * np.sin(25 * c),
    "falls at once": lambda c: np.where(c > 0.75, 1.0, 0.7),
}


@pytest.mark.parametrize("n_draws", [400, pytest.param(4000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("n", [22, 60, 300])
@pytest.mark.parametrize("profile", PROFILES)
def test_violations_are_as_rare_as_stated_for_any_accuracy_profile(profile, n, n_draws):
    """The threshold lies halfway to the next score; the pool believes the scores."""
    accuracy, generator = PROFILES[profile], np.random.default_rng(0)
    plan = make_plan(np.linspace(1, 0, 1000), np.arange(1, n + 1), 0.1)
    true, bad = above(accuracy), 0
    for _ in range(n_draws):
        score = generator.uniform(size=n)
        ranked = RankedNodes.of(score, generator.random(n) < accuracy(score))
        last = certified_ranks(ranked, plan, 0.9, 0.1)[1, 0]
        falling = np.append(np.sort(score)[::-1], 0.0)
        bad += last > 0 and true((falling[last - 1] + falling[last]) / 2) < 0.9
    assert bad <= stats.binom.ppf(0.9999, n_draws, 0.1)


def chance_to_pass_the_first_bad_test(n, target, delta, weights, accuracy, start):
    """Exact, for scores with few values, the highest first: a sum over all outcomes."""
    below = np.cumsum(np.multiply(weights, accuracy)) / np.cumsum(weights) < target
    total = 0.0
    for counts in itertools.product(range(n + 1), repeat=len(weights) - 1):
        if sum(counts) > n:
            continue
        counts = [*counts, n - sum(counts)]
        ends = np.cumsum(counts)
        tested = np.unique(np.searchsorted(ends, np.arange(start, n + 1)))
        if not below[tested].any():
            continue
        first_bad = tested[below[tested]][0]
        chance = np.array([stats.multinomial.pmf(counts, n, weights)])  # by number of mistakes
        for value in range(first_bad + 1):
            here = np.arange(counts[value] + 1)
            chance = np.convolve(chance, stats.binom.pmf(here, counts[value], 1 - accuracy[value]))
            if value in tested:
                passed = np.arange(len(chance)) <= allowed_mistakes(ends[[value]], target, delta)
                chance = np.where(passed, chance, 0.0)
        total += chance.sum()
    return total


HARD = [  # found by a random search for the largest chance
    (40, 0.7, 0.2, (0.024, 0.976), (0.09, 0.714)),
    (40, 0.7, 0.2, (0.732, 0.268), (0.9155, 0.111)),
    (50, 0.8, 0.2, (0.038, 0.962), (1.0, 0.792)),
    (50, 0.9, 0.1, (0.517, 0.483), (0.8999, 0.754)),
    (30, 0.5, 0.2, (0.261, 0.739), (0.84, 0.3795)),
    (12, 0.5, 0.2, (0.217, 0.372, 0.411), (1.0, 0.457, 0.274)),
]


@pytest.mark.parametrize("part", [0.0, 0.3, 0.8])
@pytest.mark.parametrize(("n", "target", "delta", "weights", "accuracy"), HARD)
def test_with_ties_the_exact_chance_of_a_violation_is_below_what_is_allowed(
    n, target, delta, weights, accuracy, part
):
    start = max(round(part * n), fewest_nodes(target, delta))
    chance = chance_to_pass_the_first_bad_test(n, target, delta, weights, accuracy, start)
    assert chance <= delta


def divided(n, k):
    """All ways to divide n nodes among k values."""
    cuts = itertools.combinations(range(n + k - 1), k - 1)
    return [np.diff([-1, *cut, n + k - 1]) - 1 for cut in cuts]


def mistakes_of(counts, accuracy):
    """All numbers of mistakes up to each value, (n_outcomes, k), and the chance of each outcome."""
    every = np.array(list(itertools.product(*(range(count + 1) for count in counts))))
    chance = stats.binom.pmf(every, counts, 1 - np.array(accuracy)).prod(axis=1)
    return np.cumsum(every, axis=1), chance


SLOW = pytest.mark.slow
TIED = [  # nodes, target, delta, weights and accuracies of the values; the highest value first
    pytest.param(40, 0.9, 0.1, (0.9, 0.1), (0.91, 0.8), marks=SLOW),
    (10, 0.8, 0.3758, (0.3234, 0.6766), (0.5562, 0.9165)),
    pytest.param(8, 0.6, 0.1064, (0.162, 0.6987, 0.1393), (0.5509, 0.575, 0.7823), marks=SLOW),
    pytest.param(51, 0.9, 0.2364, (0.5889, 0.4111), (0.8911, 0.9127), marks=SLOW),
    pytest.param(17, 0.7, 0.0774, (0.2647, 0.0084, 0.7269), (0.999, 0.658, 0.5916), marks=SLOW),
    pytest.param(19, 0.9, 0.1351, (0.0265, 0.3286, 0.6449), (0.8932, 0.9085, 0.8959), marks=SLOW),
    pytest.param(21, 0.7, 0.02713, (0.4291, 0.3739, 0.197), (0.6406, 0.936, 0.3816), marks=SLOW),
    pytest.param(10, 0.6, 0.2, (0.1, 0.3, 0.2, 0.4), (0.9, 0.55, 0.599, 0.5), marks=SLOW),
    pytest.param(8, 0.5, 0.2, (0.2,) * 5, (0.49, 0.7, 0.3, 0.5, 0.45), marks=SLOW),
]


@pytest.mark.parametrize(("n", "target", "delta", "weights", "accuracy"), TIED)
def test_with_ties_the_certificate_is_wrong_no_more_often_than_stated(
    n, target, delta, weights, accuracy
):
    """Exact: a sum over all outcomes. The threshold may lie on either side of an unseen value."""
    is_bad = np.cumsum(np.multiply(weights, accuracy)) < target * np.cumsum(weights) - 1e-12
    believed, missed = np.sort(np.linspace(0.3, 1, 100))[::-1], 0.0
    for counts in divided(n, len(weights)):
        mistakes, chance = mistakes_of(counts, accuracy)
        upto = np.cumsum(counts)
        seen = np.flatnonzero(counts)
        ranked = RankedNodes(upto[seen], mistakes[:, seen])
        plan = make_plan(believed, ranked.ends, delta)
        first, last = certified_ranks(ranked, plan, target, delta)
        certified = (upto >= first[:, None]) & (upto <= last[:, None]) & (last > 0)[:, None]
        missed += (
            stats.multinomial.pmf(counts, n, weights)
            * chance[(certified & is_bad).any(axis=1)].sum()
        )
    assert missed <= delta


def test_the_advised_target_is_certified_and_the_next_one_is_not():
    generator = np.random.default_rng(2)
    score = generator.beta(2, 0.4, size=200)
    ranked = RankedNodes.of(score, generator.random(200) < score)
    plan = make_plan(POOL, ranked.ends, 0.1)
    best = best_target(ranked, plan, 0.999, 0.1)
    assert 0.8 < best < 0.999
    assert certified_ranks(ranked, plan, best, 0.1)[1, 0] > 0
    assert certified_ranks(ranked, plan, best + 0.001, 0.1)[1, 0] == 0


def test_the_advised_number_of_labels_certifies_in_four_of_five_draws():
    pool = np.sort(np.random.default_rng(1).beta(0.3, 1.5, size=5000))[::-1]
    n = labels_for_precision(pool, 60, 0.8, 0.1)
    plan = make_plan(pool, np.arange(1, n + 1), 0.1)
    generator, certified = np.random.default_rng(2), 0
    for _ in range(100):
        score = generator.choice(pool, n)
        ranked = RankedNodes.of(score, generator.random(n) < score)
        certified += certified_ranks(ranked, plan, 0.8, 0.1)[1, 0] > 0
    assert 60 <= certified <= 95
    assert labels_for_precision(pool, 60, 0.9999, 0.1) is None or n > 60
    assert chance_to_certify(pool, n // 4, 0.8, 0.1, (0, 0)) < 0.8


def test_enough_nodes_of_a_rare_class_are_among_the_advised_labels():
    n, fewest = labels_for_share(0.05, 0.9, 0.1), fewest_nodes(0.9, 0.1)
    assert stats.binom.sf(fewest - 1, n, 0.05) >= 0.8
    assert stats.binom.sf(fewest - 1, round(0.8 * n), 0.05) < 0.8


def test_the_more_nodes_are_labelled_the_oftener_the_rest_misses_the_target():
    assert missed_on_the_rest(0.0, 0.1) == pytest.approx(0.1)
    assert 0.14 < missed_on_the_rest(0.5, 0.1) < 0.20
