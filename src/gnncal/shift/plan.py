"""How many labels find a gap: the watch itself, simulated."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gnncal.core.arrays import FloatArray
from gnncal.shift.betting import START, Evidence

N_SIMULATED = 200
MOST_LABELS = 20_000  # a simulation ends there


@dataclass(frozen=True)
class Plan:
    """How many labels find a gap."""

    gap: float
    half: int | None
    most: int | None

    @property
    def sentence(self) -> str:
        """The same in words."""
        points = f"{100 * self.gap:g} {'point' if self.gap == 0.01 else 'points'}"
        if self.half is None:
            return f"A gap of {points} takes more than {MOST_LABELS:,} labels to find."
        most = f"more than {MOST_LABELS:,}" if self.most is None else f"{self.most:,}"
        return (
            f"A gap of {points} is found with {self.half:,} labels in half of the cases, and with "
            f"{most} in nine of ten."
        )


def plan_of(gap: float, confidence: FloatArray, log_limit: float, tolerance: float) -> Plan:
    """Simulate watches on nodes with these confidences, all right less often by the gap."""
    n_labels = np.sort(labels_needed(gap, confidence, log_limit, tolerance, N_SIMULATED))
    half, most = (n_labels[round(share * N_SIMULATED) - 1] for share in (0.5, 0.9))
    return Plan(gap, *(None if np.isinf(n) else int(n) for n in (half, most)))


def labels_needed(
    gap: float,
    confidence: FloatArray,
    log_limit: float,
    tolerance: float,
    n_streams: int,
    *,
    well_until: int = 0,
    most: int = MOST_LABELS,
    enough: float = 0.9,
) -> FloatArray:
    """Return the number of labels at the alarm of each stream; infinite without one."""
    generator = np.random.default_rng(0)
    evidence = Evidence(n_streams, tolerance=tolerance)
    n_labels = np.full(n_streams, np.inf)
    for before in range(0, most, START):
        stated = generator.choice(confidence, size=(n_streams, START))
        is_well = before + np.arange(START) < well_until
        truth = np.clip(stated - np.where(is_well, 0.0, gap), 0.0, 1.0)
        over = evidence.add(stated, generator.random(stated.shape) < truth) >= log_limit
        first = np.where(over.any(axis=1), before + 1.0 + over.argmax(axis=1), np.inf)
        n_labels = np.minimum(n_labels, first)
        if np.isfinite(n_labels).mean() >= enough:
            break
    return n_labels
