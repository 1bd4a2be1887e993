"""Affine maps of scores: vs, svs, sms and dirichlet; and the mixture ets."""

from __future__ import annotations

import math
from typing import Self

import torch
from torch import Tensor

from gnncal.calibrators.affine import SMALLEST_NORMAL
from gnncal.calibrators.dirichlet import DirichletCalibration
from gnncal.calibrators.ensemble import EnsembleTemperatureScaling
from gnncal.calibrators.structured import StructuredScaling
from gnncal.calibrators.vector import VectorScaling
from gnncal.torch.module import CalibratorModule
from gnncal.torch.neighbours import Neighbours
from gnncal.torch.probability import keep_predictions, softmax


class AffineModule(CalibratorModule):
    """softmax(W x + b) of scores x that a subclass computes from the logits."""

    def _probabilities(self, logits: Tensor, neighbours: Neighbours | None) -> Tensor:
        x = self._scores(logits)
        weight = self._like(x, "weight")
        moved = weight * x if weight.ndim == 1 else x @ weight.T
        limit = torch.finfo(x.dtype).max
        return torch.softmax((moved + self._like(x, "bias")).clamp(-limit, limit), dim=1)

    def _scores(self, logits: Tensor) -> Tensor:
        return logits


class VectorModule(AffineModule):
    """vs: a scale and a shift for each class."""

    @classmethod
    def of(cls, calibrator: VectorScaling) -> Self:
        """Return the module of a fitted calibrator."""
        weight, bias = calibrator.weight_, calibrator.bias_
        return cls(len(calibrator.classes_), weight=weight, bias=bias)


class DirichletModule(AffineModule):
    """dirichlet: a linear map of the log-probabilities."""

    @classmethod
    def of(cls, calibrator: DirichletCalibration) -> Self:
        """Return the module of a fitted calibrator."""
        weight, bias = calibrator.weight_, calibrator.bias_
        return cls(len(calibrator.classes_), weight=weight, bias=bias)

    def _scores(self, logits: Tensor) -> Tensor:
        return torch.softmax(logits, dim=1).clamp(min=float(SMALLEST_NORMAL)).log()


class StructuredModule(AffineModule):
    """svs and sms: an affine map after temperature scaling."""

    @classmethod
    def of(cls, calibrator: StructuredScaling) -> CalibratorModule:
        """Return the module of a fitted calibrator; two classes have a formula of their own."""
        learned = {"weight": calibrator.weight_, "bias": calibrator.bias_}
        if len(calibrator.classes_) == 2:
            return QuadraticModule(2, **learned)
        return cls(
            len(calibrator.classes_),
            **learned,
            base_temperature=calibrator.base_temperature_,
            uniform_weight=calibrator.uniform_weight_,
        )

    def _scores(self, logits: Tensor) -> Tensor:
        share = self._like(logits, "uniform_weight")
        scaled = softmax(logits, self._like(logits, "base_temperature"))
        return (scaled * (1.0 - share) + share / self.n_classes).log()


class QuadraticModule(CalibratorModule):
    """svs and sms with two classes: sigma(b + w_1 s + w_2 s^2) of the log-odds s."""

    def _probabilities(self, logits: Tensor, neighbours: Neighbours | None) -> Tensor:
        limit = -math.log(float(SMALLEST_NORMAL))
        s = (logits[:, 1] - logits[:, 0]).clamp(-limit, limit)
        weight = self._like(logits, "weight")
        score = self._like(logits, "bias") + weight[0] * s + weight[1] * s**2
        return torch.softmax(torch.stack([torch.zeros_like(score), score], dim=1), dim=1)


class MixtureModule(CalibratorModule):
    """ets: a mixture of the scaled, the raw and the uniform distribution."""

    @classmethod
    def of(cls, calibrator: EnsembleTemperatureScaling) -> Self:
        """Return the module of a fitted calibrator."""
        return cls(
            len(calibrator.classes_),
            base_temperature=calibrator.base_temperature_,
            weights=calibrator.weights_,
        )

    def _probabilities(self, logits: Tensor, neighbours: Neighbours | None) -> Tensor:
        weights = self._like(logits, "weights")
        scaled = softmax(logits, self._like(logits, "base_temperature"))
        mixed = weights[0] * scaled + weights[1] * torch.softmax(logits, dim=1)
        mixed = mixed + weights[2] / self.n_classes
        return keep_predictions(mixed / mixed.sum(dim=1, keepdim=True), logits.argmax(dim=1))
