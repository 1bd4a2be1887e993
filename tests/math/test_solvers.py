"""The bounded Newton solver: from many starts as from one, never uphill, exact at bounds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from gnncal.math.solvers import newton


def quartic(seed):
    """A smooth loss of three parameters with several minima, and its derivatives."""
    generator = np.random.default_rng(seed)
    root = generator.normal(size=(3, 3))
    matrix, shift = root @ root.T + 0.1 * np.eye(3), generator.normal(size=3)

    def derivatives(theta):
        away = theta - shift
        loss = np.einsum("sp,pq,sq->s", away, matrix, away) / 2 + np.cos(3 * theta).sum(axis=1)
        gradient = away @ matrix - 3 * np.sin(3 * theta)
        hessian = matrix - 9 * np.cos(3 * theta)[:, :, None] * np.eye(3)
        return loss, gradient, hessian

    return derivatives


LOWER, UPPER = -np.ones(3), np.ones(3)


@given(st.integers(0, 10**6))
def test_many_starts_at_once_end_where_each_ends_alone(seed):
    derivatives = quartic(seed)
    starts = np.random.default_rng(seed).uniform(-1, 1, size=(5, 3))
    together = newton(derivatives, starts, LOWER, UPPER)
    for start, run in zip(starts, together, strict=True):
        (alone,) = newton(derivatives, start[None], LOWER, UPPER)
        np.testing.assert_allclose(run.parameters, alone.parameters, atol=1e-9)
        assert run.n_iter == alone.n_iter


@given(st.integers(0, 10**6))
def test_newton_ends_at_a_local_minimum_inside_the_bounds(seed):
    derivatives = quartic(seed)
    start = np.random.default_rng(seed).uniform(-1, 1, size=(1, 3))
    (run,) = newton(derivatives, start, LOWER, UPPER)
    assert run.converged
    assert (np.abs(run.parameters) <= 1).all()
    assert run.loss <= derivatives(start)[0][0]

    def value_and_gradient(theta):
        loss, gradient, _ = derivatives(theta[None])
        return loss[0], gradient[0]

    bounds = [(-1, 1)] * 3
    further = minimize(value_and_gradient, run.parameters, jac=True, bounds=bounds)
    assert further.fun >= run.loss - 1e-9


def test_only_the_most_promising_starts_are_followed():
    derivatives = quartic(1)
    starts = np.random.default_rng(1).uniform(-1, 1, size=(6, 3))
    followed = newton(derivatives, starts, LOWER, UPPER, n_kept=2)
    losses = derivatives(starts)[0]
    kept = sorted(np.argsort(losses)[:2])
    expected = newton(derivatives, starts[kept], LOWER, UPPER)
    assert [run.loss for run in followed] == pytest.approx([run.loss for run in expected])
