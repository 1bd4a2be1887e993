"""Temperatures from entropy and local homophily: hots and its ablations."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from gnncal.calibrators.homophily_temperature import HomophilyTemperature
from gnncal.core.errors import InputError
from gnncal.core.graph import Side
from gnncal.homophily import Agreement, HomophilyEstimator, Shared, Support
from gnncal.torch.module import TemperatureModule
from gnncal.torch.neighbours import Neighbours
from gnncal.torch.probability import Rows, concentration, normalised_homophily, read_rows


class HomophilyModule(TemperatureModule):
    """A temperature from [sqrt(2 K ln K (1 - e)), ln(|h~| + epsilon)] of each node."""

    hops: ClassVar[int] = 1

    def __init__(self, n_classes: int, *, side: Side, counts_votes: bool, **learned: float) -> None:
        super().__init__(n_classes, **learned)
        self.side, self.counts_votes = side, counts_votes

    @classmethod
    def of(cls, calibrator: HomophilyTemperature) -> Self:
        """Return the module of a fitted calibrator whose homophily is support or agreement."""
        estimator = _estimator_of(calibrator)
        lowest, highest = calibrator.temperature_range or (0.0, np.inf)
        return cls(
            len(calibrator.classes_),
            side=estimator.side,
            counts_votes=isinstance(estimator, Agreement),
            **{p.name: getattr(calibrator, f"{p.name}_") for p in calibrator.parameters},
            isolated_homophily=calibrator.isolated_homophily_,
            epsilon=calibrator.epsilon,
            minimum_certainty=calibrator.minimum_certainty,
            lowest=lowest,
            highest=highest,
        )

    def extra_repr(self) -> str:
        """Say also whose probabilities or votes are counted."""
        counted = "agreement" if self.counts_votes else "support"
        return f"{super().extra_repr()}, homophily={counted!r}, side={self.side!r}"

    def _temperature(self, logits: Tensor, neighbours: Neighbours | None) -> Tensor:
        assert neighbours is not None  # hops is not zero
        rows = read_rows(logits)
        minimum = self._like(logits, "minimum_certainty")
        numerator = concentration(rows.entropy, self.n_classes, minimum)
        homophily = self._homophily(rows, neighbours)
        signal = normalised_homophily(homophily, self.n_classes).abs()
        log_signal = (signal + self._like(logits, "epsilon")).log()
        temperature = self._formula(numerator, log_signal)
        return temperature.clamp(self._like(logits, "lowest"), self._like(logits, "highest"))

    def _homophily(self, rows: Rows, neighbours: Neighbours) -> Tensor:
        """h^ of each node, (n_nodes,); the typical value where a node has no neighbour."""
        values = rows.probs
        if self.counts_votes:
            values = one_hot(rows.predictions, self.n_classes).to(values.dtype)
        share = neighbours.class_mean(values, rows.predictions, self.side)
        isolated = self._like(share, "isolated_homophily")
        return torch.where(neighbours.counts(self.side) > 0, share, isolated)

    @abstractmethod
    def _formula(self, numerator: Tensor, log_signal: Tensor) -> Tensor:
        """T (n_nodes,) from the two covariates."""


class HoTSModule(HomophilyModule):
    """hots: T = T_base + beta numerator / (|h~| + epsilon)^alpha."""

    def _formula(self, numerator: Tensor, log_signal: Tensor) -> Tensor:
        ratio = numerator * (-self._like(numerator, "alpha") * log_signal).exp()
        return self._like(ratio, "base_temperature") + self._like(ratio, "beta") * ratio


class AlphaOneModule(HomophilyModule):
    """hots-alpha1: hots with alpha = 1."""

    def _formula(self, numerator: Tensor, log_signal: Tensor) -> Tensor:
        ratio = numerator * (-log_signal).exp()
        return self._like(ratio, "base_temperature") + self._like(ratio, "beta") * ratio


class HomophilyOnlyModule(HomophilyModule):
    """homophily-only: hots without the entropy term."""

    def _formula(self, numerator: Tensor, log_signal: Tensor) -> Tensor:
        ratio = (-self._like(log_signal, "alpha") * log_signal).exp()
        return self._like(ratio, "base_temperature") + self._like(ratio, "beta") * ratio


def _estimator_of(calibrator: HomophilyTemperature) -> Support | Agreement:
    """Return the estimator that was used, if logits and edges are all that it needs."""
    estimator: HomophilyEstimator = calibrator._estimator
    if isinstance(estimator, Shared):
        estimator = estimator.estimator
    name = type(calibrator).__name__
    if not isinstance(estimator, Support | Agreement):
        raise InputError(
            f"{name} with homophily={calibrator.homophily_method_!r} cannot become a torch module, "
            "because that needs more than logits and edges; call its predict_proba, or fit with "
            "homophily='support' or 'agreement'."
        )
    if estimator.clamp_train_labels:
        raise InputError(
            f"{name} with clamp_train_labels=True cannot become a torch module, because it relies "
            "on the training labels of its graph; call its predict_proba, or fit with "
            "clamp_train_labels=False."
        )
    return estimator
