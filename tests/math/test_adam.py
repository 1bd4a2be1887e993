"""The loop that fits everything the paper fits."""

import numpy as np
import pytest

from gnncal.math.solvers import adam

TARGET = np.array([1.0, -2.0, 3.0])


def bowl(theta):
    return float(((theta - TARGET) ** 2).sum()), 2 * (theta - TARGET)


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_steps_equal_those_of_torch(weight_decay):
    torch = pytest.importorskip("torch")
    theta = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.Adam([theta], lr=0.01, weight_decay=weight_decay)
    for _ in range(50):
        optimiser.zero_grad()
        ((theta - torch.tensor(TARGET)) ** 2).sum().backward()
        optimiser.step()
    run = adam(
        bowl,
        np.zeros(3),
        max_epochs=50,
        patience=None,
        monitor=lambda _: 0.0,  # equal scores: the last parameters are kept
        weight_decay=weight_decay,
    )
    np.testing.assert_allclose(run.parameters, theta.detach().numpy(), rtol=1e-10)


def test_the_matched_checkpoint_is_the_one_whose_loss_was_seen():
    matched = adam(bowl, np.zeros(3), max_epochs=20, patience=None)
    after = adam(bowl, np.zeros(3), max_epochs=20, patience=None, checkpoint="after-step")
    assert bowl(matched.parameters)[0] == pytest.approx(matched.loss)
    assert bowl(after.parameters)[0] < after.loss


def test_patience_ends_the_run_and_the_best_parameters_return():
    scores = iter([5.0, 3.0, 4.0, 3.0, 4.0, 4.0, 4.0, 1.0])
    seen = []

    def monitor(theta):
        seen.append(theta.copy())
        return next(scores)

    run = adam(bowl, np.zeros(3), max_epochs=100, patience=3, monitor=monitor)
    assert (run.n_iter, run.loss) == (7, 3.0)
    np.testing.assert_array_equal(run.parameters, seen[3])  # a tie refreshes the checkpoint


def test_the_start_is_not_changed():
    start = np.zeros(3)
    adam(bowl, start, max_epochs=5, patience=None)
    np.testing.assert_array_equal(start, 0.0)
