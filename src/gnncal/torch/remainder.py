"""structural-remainder: the law's confidence, and a better guess for the other classes."""

from __future__ import annotations

from typing import ClassVar, Self

import torch
from torch import Tensor

from gnncal.calibrators.structural import StructuralLaw
from gnncal.calibrators.structural_graph import StructuralGraph
from gnncal.calibrators.structural_remainder import StructuralRemainder
from gnncal.torch.module import CalibratorModule
from gnncal.torch.neighbours import Neighbours
from gnncal.torch.probability import keep_predictions, softmax
from gnncal.torch.structural import LawModule, ScoresModule, describe, law_of


class RemainderModule(CalibratorModule):
    """The predicted class gets the law's confidence; the others divide the rest."""

    hops: ClassVar[int] = 2

    def __init__(self, law: LawModule, scores: ScoresModule) -> None:
        super().__init__(law.n_classes)
        self.law, self.scores = law, scores

    @classmethod
    def of(cls, calibrator: StructuralRemainder) -> Self:
        """Return the module of a fitted calibrator."""
        fitted = calibrator._restored(StructuralLaw, "law")
        law = LawModule(len(calibrator.classes_), **law_of(fitted))
        return cls(law, ScoresModule.of(calibrator._restored(StructuralGraph, "graph")))

    def _probabilities(self, logits: Tensor, neighbours: Neighbours | None) -> Tensor:
        assert neighbours is not None  # hops is not zero
        seen = describe(logits, neighbours)
        confidence = softmax(logits, self.law.temperature_of(seen)).amax(dim=1)
        others = self.scores.probabilities_of(logits, seen)
        return keep_predictions(divide_rest(others, seen.predictions, confidence), seen.predictions)


def divide_rest(probs: Tensor, predictions: Tensor, confidence: Tensor) -> Tensor:
    """Give each predicted class its confidence c, and the others the rest, none of them more.

    The others get min(lambda p, c). With the m largest at the limit, lambda is what is left for
    the remaining ones divided by their sum; the smallest m that no other class exceeds is right.
    Classes of probability zero share what no other class may take.
    """
    own, n_classes = predictions[:, None], probs.shape[1]
    limit = confidence[:, None]
    rest = probs.scatter(1, own, 0.0)
    tiny = torch.finfo(probs.dtype).tiny
    largest = rest.sort(dim=1, descending=True).values
    tail = largest.flip(1).cumsum(1).flip(1)  # (n_nodes, K): sum of the (m+1)-th and smaller
    n_full = torch.arange(n_classes, device=probs.device, dtype=probs.dtype)
    factor = ((1.0 - limit - n_full * limit) / tail.clamp(min=tiny)).clamp(min=0.0)
    fits = (factor * largest <= limit) | (tail <= tiny)
    first = fits.to(torch.uint8).argmax(dim=1, keepdim=True)
    share = torch.minimum(factor.gather(1, first) * rest, limit)
    share = torch.where(rest > 0, share, torch.zeros_like(share))
    hopeless = (rest <= 0).scatter(1, own, False).to(probs.dtype)
    missing = (1.0 - limit - share.sum(dim=1, keepdim=True)).clamp(min=0.0)
    share = share + hopeless * missing / hopeless.sum(dim=1, keepdim=True).clamp(min=1.0)
    share = share.scatter(1, own, limit)
    return share / share.sum(dim=1, keepdim=True)
