"""Evidence: no bet gains while the claim holds, and alarms then are as rare as predicted."""

import numpy as np
import pytest

from gnncal.shift.betting import FIRST, START, Evidence, start_prior, start_survival


def stream(n_streams, n, gap=0.0, seed=0):
    generator = np.random.default_rng(seed)
    predicted = generator.choice([0.0, 1e-5, 0.03, 0.3, 0.6, 0.9, 0.9999, 1.0], size=(n_streams, n))
    return predicted, generator.random((n_streams, n)) < np.clip(predicted - gap, 0, 1)


def test_all_stakes_are_bet_once():
    starts = range(40)
    assert start_prior(0) == FIRST
    for last in starts:
        total = sum(start_prior(start) for start in range(last + 1)) + start_survival(last)
        assert total == pytest.approx(1.0)


def both_gains(evidence, p):
    """What an event that does not happen does to ln wealth of each bet, and one that does."""
    return (evidence._log_gains(np.array([p]), np.array([hit])) for hit in (False, True))


@pytest.mark.parametrize("tolerance", [0.0, 0.02])
def test_no_bet_gains_on_average_while_the_claim_holds(tolerance):
    evidence = Evidence(tolerance=tolerance)
    for p in (0.0, 1e-4, 0.03, 0.4, 0.8, 0.9995, 1.0):
        losses, gains = both_gains(evidence, p)
        for true in np.unique(np.clip([p - tolerance, p, p + tolerance], 0, 1)):
            mean = true * np.exp(gains) + (1 - true) * np.exp(losses)
            assert mean.max() <= 1 + 1e-12


def test_a_promise_that_is_more_than_kept_feeds_no_evidence():
    losses, gains = both_gains(Evidence(only_below=True), 0.9)
    for true in (0.9, 0.95, 1.0):
        assert (true * np.exp(gains) + (1 - true) * np.exp(losses)).max() <= 1 + 1e-12


def test_the_order_of_arrival_in_batches_does_not_matter():
    predicted, observed = stream(2, 333, gap=0.05)
    whole = Evidence(2).add(predicted, observed)
    parts, evidence = [], Evidence(2)
    for piece in np.array_split(np.arange(333), [1, 50, 51, 120, 300]):
        parts.append(evidence.add(predicted[:, piece], observed[:, piece]))
    np.testing.assert_allclose(np.concatenate(parts, axis=1), whole, atol=1e-9)


def alarms(gap, confidence, n_streams, n, tolerance=0.0, well_until=0):
    """Return the number of labels at the alarm of each stream; infinite without one."""
    generator = np.random.default_rng(0)
    predicted = generator.choice(confidence, size=(n_streams, n))
    truth = np.clip(predicted - gap * (np.arange(n) >= well_until), 0, 1)
    evidence = Evidence(n_streams, tolerance=tolerance)
    over = evidence.add(predicted, generator.random(predicted.shape) < truth) >= np.log(20.0)
    return np.where(over.any(axis=1), 1.0 + over.argmax(axis=1), np.inf)


def test_false_alarms_are_as_rare_as_stated_over_a_long_time():
    found = np.isfinite(alarms(0.0, [0.3, 0.7, 0.9], 250, 1000))
    # Ville: at most 1 in 20. Three standard errors above it are left to chance.
    assert found.mean() <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 250)


def test_a_gap_is_found_and_a_tolerated_one_is_not():
    confidence = [0.7, 0.8, 0.9]
    assert np.median(alarms(0.1, confidence, 60, 1000)) < 200
    assert np.isinf(alarms(0.02, confidence, 60, 2000, tolerance=0.03)).mean() > 0.9


def test_a_gap_that_begins_late_is_found_too():
    found = alarms(0.15, [0.8], 60, 2000, well_until=1000)
    assert np.median(found) - 1000 < 200 + START
