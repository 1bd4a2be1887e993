"""Random number generators that are independent of each other, one for each purpose."""

from __future__ import annotations

import numpy as np


def stream(purpose: str, seed: int) -> np.random.Generator:
    """Return a generator for one purpose of an experiment."""
    return np.random.default_rng([seed, *purpose.encode()])
