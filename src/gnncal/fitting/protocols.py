"""The two ways to fit: to convergence, or by the paper's early-stopped Adam."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from gnncal.core.arrays import FloatArray
from gnncal.core.constraints import choice
from gnncal.fitting.adam import Objective, adam
from gnncal.fitting.solvers import Solution

Protocol = Literal["converged", "paper"]
PROTOCOLS = choice("converged", "paper")  # what the parameter may be
PAPER_EPOCHS = 1000
PAPER_PATIENCE = 50
PAPER_GRADIENT = 1e-3  # below it, Adam's end counts as a minimum


def solve_like_the_paper(
    objective: Objective,
    monitor: Callable[[FloatArray], float],
    start: FloatArray,
    *,
    max_epochs: int | None = None,
    patience: int | None = None,
    learning_rate: float = 1e-2,
) -> Solution:
    """Take Adam's steps on the calibration nodes, stopped by the training nodes' loss.

    This is the loop of the HoTS paper; a publication with a loop of its own gives its numbers.

    Parameters
    ----------
    objective : callable
        Gives the loss of the calibration nodes and its gradient.
    monitor : callable
        Gives the loss of the training nodes, which decides what is kept and when to stop.
    start : ndarray of shape (p,)
        Where the parameters begin.
    max_epochs : int, optional
        Largest number of steps. Default: 1000.
    patience : int, optional
        Steps without a lower loss of the training nodes after which it stops. Default: 50.
    learning_rate : float, default=0.01
        Step size of Adam.

    Returns
    -------
    Solution
        The parameters with the lowest loss of the training nodes.

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal.calibrators import solve_like_the_paper
    >>> def squares(theta):
    ...     return float(theta @ theta), 2 * theta
    >>> solve_like_the_paper(squares, lambda theta: squares(theta)[0], np.ones(2)).converged
    True

    """
    run = adam(
        objective,
        start,
        monitor=monitor,
        max_epochs=max_epochs or PAPER_EPOCHS,
        patience=patience or PAPER_PATIENCE,
        learning_rate=learning_rate,
    )
    loss, gradient = objective(run.parameters)
    converged = float(np.abs(gradient).max()) < PAPER_GRADIENT  # where it stopped may be anywhere
    return Solution(run.parameters, loss, run.n_epochs, converged)
