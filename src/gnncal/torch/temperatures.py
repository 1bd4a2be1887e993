"""Temperatures from a node's own logits: ts, hts, hts-log, entropy-only."""

from __future__ import annotations

import math
from typing import Self

import torch
from torch import Tensor
from torch.nn.functional import softplus

from gnncal.calibrators.ablations import EntropyOnly
from gnncal.calibrators.entropy import (
    RELEASE_FLOOR,
    SMALLEST_ENTROPY,
    EntropyScaling,
    LogEntropyScaling,
)
from gnncal.calibrators.temperature import TemperatureScaling
from gnncal.calibrators.uncalibrated import Uncalibrated
from gnncal.fitting.parameters import TEMPERATURE_RANGE
from gnncal.torch.module import TemperatureModule
from gnncal.torch.neighbours import Neighbours
from gnncal.torch.probability import concentration, read_rows


class OneTemperature(TemperatureModule):
    """One temperature for every node: ts, and T = 1 for uncalibrated."""

    @classmethod
    def of(cls, calibrator: TemperatureScaling | Uncalibrated) -> Self:
        """Return the module of a fitted calibrator."""
        return cls(
            len(calibrator.classes_), base_temperature=getattr(calibrator, "base_temperature_", 1.0)
        )

    def _temperature(self, logits: Tensor, neighbours: Neighbours | None) -> Tensor:
        return self._like(logits, "base_temperature").expand(logits.shape[0])


class EntropyTemperature(TemperatureModule):
    """hts: T = (1 - e) T_0 + e T_1, kept above a floor where the release has one."""

    @classmethod
    def of(cls, calibrator: EntropyScaling) -> Self:
        """Return the module of a fitted calibrator."""
        has_floor = calibrator.protocol == "paper"
        return cls(
            len(calibrator.classes_),
            certain_temperature=calibrator.certain_temperature_,
            uncertain_temperature=calibrator.uncertain_temperature_,
            floor=RELEASE_FLOOR if has_floor else 0.0,
        )

    def _temperature(self, logits: Tensor, neighbours: Neighbours | None) -> Tensor:
        entropy = read_rows(logits).entropy
        certain = self._like(logits, "certain_temperature") * (1.0 - entropy)
        uncertain = self._like(logits, "uncertain_temperature") * entropy
        return torch.maximum(certain + uncertain, self._like(logits, "floor"))


class LogEntropyTemperature(TemperatureModule):
    """hts-log: T = softplus(w ln e + b)."""

    @classmethod
    def of(cls, calibrator: LogEntropyScaling) -> Self:
        """Return the module of a fitted calibrator."""
        return cls(
            len(calibrator.classes_), slope=calibrator.slope_, intercept=calibrator.intercept_
        )

    def _temperature(self, logits: Tensor, neighbours: Neighbours | None) -> Tensor:
        log_entropy = read_rows(logits).entropy.clamp(min=SMALLEST_ENTROPY).log()
        score = self._like(logits, "slope") * log_entropy + self._like(logits, "intercept")
        return _softplus(score).clamp(min=TEMPERATURE_RANGE[0])


class ConcentrationTemperature(TemperatureModule):
    """entropy-only: T = T_base + beta sqrt(2 K ln K (1 - e))."""

    @classmethod
    def of(cls, calibrator: EntropyOnly) -> Self:
        """Return the module of a fitted calibrator."""
        return cls(
            len(calibrator.classes_),
            base_temperature=calibrator.base_temperature_,
            beta=calibrator.beta_,
        )

    def _temperature(self, logits: Tensor, neighbours: Neighbours | None) -> Tensor:
        entropy = read_rows(logits).entropy
        numerator = concentration(entropy, self.n_classes, torch.zeros_like(entropy[:1]))
        return self._like(logits, "base_temperature") + self._like(logits, "beta") * numerator


def _softplus(score: Tensor) -> Tensor:
    """ln(1 + e^x), linear from where the difference is below the last digit of a float64."""
    return softplus(score, threshold=-math.log(torch.finfo(torch.float64).eps))
