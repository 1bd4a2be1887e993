"""The two ways to fit: to convergence, or by the paper's early-stopped Adam."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from gnncal.core.arrays import FloatArray
from gnncal.core.constraints import choice
from gnncal.core.errors import InputError, warn
from gnncal.fitting.adam import Objective, adam
from gnncal.fitting.solvers import Solution
from gnncal.nodes import Nodes

Protocol = Literal["converged", "paper"]
PROTOCOLS = choice("converged", "paper")  # what the parameter may be
PAPER_EPOCHS = 1000
PAPER_PATIENCE = 50
PAPER_GRADIENT = 1e-3  # below it, Adam's end counts as a minimum


def check_protocol(protocol: str, nodes: Nodes) -> None:
    """A known protocol, with the nodes that it needs."""
    if protocol not in ("converged", "paper"):
        raise InputError(f"protocol is {protocol!r}; expected 'converged' or 'paper'.")
    if protocol == "paper" and nodes.train_nodes.size == 0:
        raise InputError(
            "the paper's protocol stops on the training nodes' loss; pass train_nodes."
        )


def warn_unless_converged(method: object, solution: Solution) -> None:
    """Say that a fit which should have reached its minimum did not."""
    if not solution.converged:
        warn(
            f"{type(method).__name__}: the fit stopped before convergence after "
            f"{solution.n_iter} iterations; check the logits' scale, or use a method "
            "with fewer parameters."
        )


def solve_like_the_paper(
    objective: Objective,
    monitor: Callable[[FloatArray], float],
    start: FloatArray,
    *,
    max_epochs: int | None = None,
    patience: int | None = None,
) -> Solution:
    """Adam on the calibration nodes, stopped and checkpointed on the training nodes' loss.

    A publication with a loop of its own gives its numbers.
    """
    run = adam(
        objective,
        start,
        monitor=monitor,
        max_epochs=max_epochs or PAPER_EPOCHS,
        patience=patience or PAPER_PATIENCE,
    )
    loss, gradient = objective(run.parameters)
    converged = float(np.abs(gradient).max()) < PAPER_GRADIENT  # where it stopped may be anywhere
    return Solution(run.parameters, loss, run.n_epochs, converged)
