"""rbs: one temperature for each level of neighbour support."""

from __future__ import annotations

from typing import ClassVar, Self

import torch
from torch import Tensor

from gnncal.calibrators.ratio_binned import DIGITS, RatioBinnedScaling
from gnncal.core.errors import InputError
from gnncal.torch.module import TemperatureModule
from gnncal.torch.neighbours import Neighbours
from gnncal.torch.probability import read_rows

FLOAT32_DIGITS = 5  # of a ratio: sums of float32 in another order fall into the same bin


class RatioBinnedModule(TemperatureModule):
    """The temperature of the bin in which the neighbours' mean probability lies.

    A node whose ratio lies on the edge of two bins in float32 may fall on either side of it.
    """

    hops: ClassVar[int] = 1

    @classmethod
    def of(cls, calibrator: RatioBinnedScaling) -> Self:
        """Return the module of a fitted calibrator."""
        if calibrator.merge_duplicate_edges:
            raise InputError(
                "RatioBinnedScaling with merge_duplicate_edges=True cannot become a torch module, "
                "because it does not count every edge; remove duplicates from the "
                "edges yourself and fit with merge_duplicate_edges=False."
            )
        return cls(len(calibrator.classes_), bin_temperatures=calibrator.bin_temperatures_)

    def _temperature(self, logits: Tensor, neighbours: Neighbours | None) -> Tensor:
        assert neighbours is not None  # hops is not zero
        predictions, probs, _ = read_rows(logits)
        own = probs.gather(1, predictions[:, None])[:, 0]
        others = neighbours.class_mean(probs, predictions, "both") * neighbours.counts("both")
        degree = neighbours.in_degree + neighbours.out_degree
        sums = others + 2.0 * neighbours.self_loops * own
        ratio = torch.where(degree > 0, sums / degree.clamp(min=1), torch.ones_like(sums))
        temperatures = self._like(logits, "bin_temperatures")
        return temperatures[_bins(ratio, temperatures.shape[0])]


def _bins(ratio: Tensor, n_bins: int) -> Tensor:
    """Return the bin (b/B, (b+1)/B] of each ratio; the first one contains 0."""
    unit = 10.0 ** (DIGITS if ratio.dtype == torch.float64 else FLOAT32_DIGITS)
    rounded = (ratio * n_bins * unit).round() / unit
    return (rounded.ceil().long() - 1).clamp(0, n_bins - 1)
