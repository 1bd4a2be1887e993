"""The structural law and its relatives that add a bias: structural, -vector, -graph."""

from __future__ import annotations

from typing import ClassVar, NamedTuple, Self

import torch
from torch import Tensor

from gnncal.calibrators.structural import StructuralLaw
from gnncal.calibrators.structural_base import LawHolder
from gnncal.calibrators.structural_scores import FLOOR, LOWEST_LOGIT, StructuralScores
from gnncal.fitting.law import LOG_TEMPERATURE
from gnncal.homophily.neighbourhood import DEGREE_SCALE
from gnncal.torch.module import CalibratorModule, TemperatureModule
from gnncal.torch.neighbours import Neighbours
from gnncal.torch.probability import normalised_homophily, read_rows, shifted


class Seen(NamedTuple):
    """Every node's prediction and what its neighbours say about it."""

    predictions: Tensor  # (n_nodes,)
    entropy: Tensor  # (n_nodes,)
    covariates: Tensor  # (n_nodes, 6) in the order of gnncal.homophily.COVARIATES
    is_known: Tensor  # (n_nodes, 6) False where a covariate needs a neighbour and there is none
    mean_probs: Tensor  # (n_nodes, n_classes) of the neighbours; uniform without neighbours


def describe(logits: Tensor, neighbours: Neighbours) -> Seen:
    """Look at the senders and receivers of each node together."""
    n_classes = logits.shape[1]
    predictions, probs, entropy = read_rows(logits)
    own = predictions[:, None]
    confidence = probs.gather(1, own)
    means = neighbours.mean(torch.cat([probs, entropy[:, None], confidence], dim=1), "both")
    has_neighbours = neighbours.counts("both") > 0
    # The mean over no neighbours is zero, so that adding 1/K makes it uniform.
    mean_probs = means[:, :n_classes] + (~has_neighbours)[:, None] / n_classes
    covariates = torch.stack(
        [
            normalised_homophily(mean_probs.gather(1, own)[:, 0], n_classes),
            normalised_homophily(neighbours.class_mean(mean_probs, predictions, "both"), n_classes),
            means[:, n_classes],
            confidence[:, 0] - means[:, n_classes + 1],
            neighbours.in_degree.log1p() / DEGREE_SCALE,
            neighbours.out_degree.log1p() / DEGREE_SCALE,
        ],
        dim=1,
    )
    always = torch.ones_like(has_neighbours)
    is_known = torch.stack([has_neighbours] * 4 + [always] * 2, dim=1)
    return Seen(predictions, entropy, covariates, is_known, mean_probs)


def law_of(calibrator: LawHolder) -> dict[str, object]:
    """Return the parameters of a fitted law, by the names of a module's buffers."""
    return {
        "certain_temperature": calibrator.certain_temperature_,
        "uncertain_temperature": calibrator.uncertain_temperature_,
        "weights": calibrator.weights_,
        "class_offsets": calibrator.class_offsets_,
        "centre": calibrator.centre_,
    }


class LawModule(TemperatureModule):
    """structural: T = [T_c (1 - e) + T_u e] exp(w . s + o) of each node."""

    hops: ClassVar[int] = 2

    @classmethod
    def of(cls, calibrator: StructuralLaw) -> Self:
        """Return the module of a fitted calibrator."""
        return cls(len(calibrator.classes_), **law_of(calibrator))

    def _temperature(self, logits: Tensor, neighbours: Neighbours | None) -> Tensor:
        assert neighbours is not None  # hops is not zero
        return self.temperature_of(describe(logits, neighbours))

    def temperature_of(self, seen: Seen) -> Tensor:
        """T of each node whose neighbourhood is described already, (n_nodes,)."""
        e = seen.entropy
        certain = self._like(e, "certain_temperature")
        uncertain = self._like(e, "uncertain_temperature")
        centred = seen.covariates - self._like(e, "centre")
        s = torch.where(seen.is_known, centred, torch.zeros_like(centred))
        log_temperature = (certain * (1.0 - e) + uncertain * e).log()
        log_temperature = log_temperature + s @ self._like(e, "weights")
        log_temperature = log_temperature + self._like(e, "class_offsets")[seen.predictions]
        return log_temperature.clamp(-LOG_TEMPERATURE, LOG_TEMPERATURE).exp()


class ScoresModule(CalibratorModule):
    """structural-vector, structural-graph: softmax(z / T + b + gamma ln(p of neighbours))."""

    hops: ClassVar[int] = 2

    def __init__(self, law: LawModule, **learned: object) -> None:
        super().__init__(law.n_classes, **learned)
        self.law = law

    @classmethod
    def of(cls, calibrator: StructuralScores) -> Self:
        """Return the module of a fitted calibrator."""
        law = LawModule(len(calibrator.bias_), **law_of(calibrator))
        return cls(law, bias=calibrator.bias_, neighbour_weight=calibrator.neighbour_weight_)

    def _probabilities(self, logits: Tensor, neighbours: Neighbours | None) -> Tensor:
        assert neighbours is not None  # hops is not zero
        return self.probabilities_of(logits, describe(logits, neighbours))

    def probabilities_of(self, logits: Tensor, seen: Seen) -> Tensor:
        """Return the probabilities of nodes whose neighbourhood is described already."""
        moved = shifted(logits)[0].clamp(min=LOWEST_LOGIT)
        scores = moved / self.law.temperature_of(seen)[:, None] + self._like(logits, "bias")
        heard = (seen.mean_probs + FLOOR).log()
        return torch.softmax(scores + self._like(logits, "neighbour_weight") * heard, dim=1)
