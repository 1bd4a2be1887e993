"""The softmax that these methods' formulas are written with."""

from __future__ import annotations

from typing import Any

from gnncal.calibrators import backend_of


def softmax(z: Any, T: Any = None) -> Any:
    """p_ik = exp(z_ik / T_i) / sum_j exp(z_ij / T_i) of arrays or tensors; T is (n,), or 1."""
    xp = backend_of(z)
    scores = xp.shifted(z)
    if T is not None:
        scores = xp.divide_(scores, xp.column(T))
    weights = xp.exp_(scores)
    return xp.divide_(weights, xp.column(xp.total(weights)))
