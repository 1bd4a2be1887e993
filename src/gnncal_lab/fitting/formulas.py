"""The softmax and the softplus that these methods' formulas are written with."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnncal.calibrators import backend_of

LINEAR_FROM = -float(np.log(np.finfo(np.float64).eps))  # ln(1 + e^x) is x to the last digit


def softmax(z: Any, T: Any = None) -> Any:
    """p_ik = exp(z_ik / T_i) / sum_j exp(z_ij / T_i) of arrays or tensors; T is (n,), or 1."""
    xp = backend_of(z)
    scores = xp.shifted(z)
    if T is not None:
        scores = xp.divide_(scores, xp.column(T))
    weights = xp.exp_(scores)
    return xp.divide_(weights, xp.column(xp.total(weights)))


def softplus(x: Any) -> Any:
    """ln(1 + e^x) of arrays or tensors."""
    if isinstance(x, np.ndarray):
        return np.logaddexp(0.0, x)
    from torch.nn import functional

    return functional.softplus(x, threshold=LINEAR_FROM)
