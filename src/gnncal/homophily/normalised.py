"""Homophily on a scale where a class-random neighbourhood is 0 and a pure one is 1."""

from __future__ import annotations

from typing import TypeVar

from gnncal.core.arrays import FloatArray

Homophily = TypeVar("Homophily", float, FloatArray)


def normalised_homophily(homophily: Homophily, n_classes: int) -> Homophily:
    """h~ = (K h - 1) / (K - 1)."""
    return (n_classes * homophily - 1.0) / (n_classes - 1.0)


def homophily_of(normalised: Homophily, n_classes: int) -> Homophily:
    """h = (1 + (K - 1) h~) / K, the inverse of :func:`normalised_homophily`."""
    return (1.0 + (n_classes - 1.0) * normalised) / n_classes
