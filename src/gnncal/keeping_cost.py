"""The cost of keeping predictions: a fit that keeps them against one that may change them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri, stdtrit

from gnncal.calibrators.affine import StructuredVectorScaling
from gnncal.calibrators.base import Calibrator, folds_of, trial_fit
from gnncal.calibrators.structural import Structural
from gnncal.calibrators.temperature import TemperatureScaling
from gnncal.data.arrays import FloatArray
from gnncal.data.nodes import Nodes, with_cached
from gnncal.data.probability import SMALLEST_PROBABILITY, log_losses
from gnncal.math.formulas import describe_neighbourhoods

MIN_COST_SHARE = 0.05  # of the log loss; benchmarks/keeping_predictions.py chose it
LEVEL = 0.01  # of the tests, one-sided
MIN_NODES = 20  # calibration nodes; fewer say nothing about a price
LARGEST_HALF = 1000  # nodes that a fit of the cross-validation sees
MIN_RATIO = 1.25  # a class is given this many times as much as there is of it
FREE_WITH_GRAPH, FREE_WITHOUT = "structural-free", "svs"


@dataclass(frozen=True)
class OverpredictedClass:
    """A class whose mean probability exceeds its base rate."""

    number: int
    mean: float  # of its probability, over the calibration nodes
    rate: float  # base rate among the calibration nodes


@dataclass(frozen=True)
class KeepingCost:
    """The cost of keeping every predicted class: the log loss that a free fit would save."""

    nats: float  # log loss with kept minus log loss with free predictions, cross-validated
    standard_error: float  # of nats
    n_nodes: int  # in the cross-validation
    share: float  # of the log loss with kept predictions
    given: OverpredictedClass | None  # most overpredicted rare class, if there is one
    instead: str  # name of a method that may change predictions
    has_free_variant: bool  # whether keep_predictions=False is the fix

    def advice(self, class_names: Sequence[str] | None = None) -> str:
        """Return the cost and the fix as sentences."""
        share = f"{100 * min(self.share, 1.0):.0f}% of the log loss"
        lost = f"Keeping predictions costs {self.nats:.2f} nats, {share}"
        if (given := self.given) is not None:
            name = f"class {given.number}" if class_names is None else class_names[given.number]
            lost += (
                f". With predictions kept, the mean probability of {name} is {given.mean:.1%}, but "
                f"its base rate is {given.rate:.1%}: the model looks class-weighted"
            )
        cure, option = f"method={self.instead!r}", f"--method {self.instead}"
        if self.has_free_variant:
            cure, option = "keep_predictions=False", "--free"
        return f"{lost}. Pass {cure} ({option} on the command line)."


def _free_variant(calibrator: Calibrator) -> Calibrator | None:
    """Return the same fit with predictions that may change, if the method has that variant."""
    return calibrator.unconstrained_variant() if isinstance(calibrator, Structural) else None


class Halves:
    """The calibration nodes of a comparison, at most two folds of them."""

    def __init__(self, nodes: Nodes) -> None:
        folds = folds_of(nodes, max(2, -(-nodes.calibration_nodes.size // LARGEST_HALF)))
        self.nodes = nodes.subset(folds < 2)
        self.is_second = folds[folds < 2] == 1

    @cached_property
    def losses_of_scaling(self) -> tuple[FloatArray, FloatArray]:
        """Log losses of temperature scaling, and of vector scaling fitted to the other half."""
        alone = self.nodes.without_graph
        unlabelled = alone.unlabelled
        scaled = trial_fit(TemperatureScaling(), alone).predict_proba(unlabelled)
        free = np.empty(len(self.is_second))
        for half in (self.is_second, ~self.is_second):
            fitted = trial_fit(StructuredVectorScaling(), alone.subset(half))
            free[~half] = log_losses(fitted.predict_proba(unlabelled), alone.labels)[~half]
        return log_losses(scaled, alone.labels), free


def cost_of_keeping_predictions(
    calibrator: Calibrator, nodes: Nodes, probs: FloatArray, halves: Halves | None = None
) -> KeepingCost | None:
    """Return the cost of keeping predictions, or None if it is small or may be chance."""
    if not calibrator.preserves_predictions or nodes.calibration_nodes.size < MIN_NODES:
        return None
    gain = gain_without_constraint(calibrator, halves or Halves(nodes), probs)
    chance = float(stdtrit(gain.n_nodes - 1, 1.0 - LEVEL)) * gain.standard_error
    if gain.share < MIN_COST_SHARE or gain.nats <= chance:
        return None
    return KeepingCost(
        *gain,
        _given_class(nodes, probs[nodes.calibration_nodes]),
        FREE_WITH_GRAPH if nodes.has_neighbourhoods else FREE_WITHOUT,
        _free_variant(calibrator) is not None,
    )


class Gain(NamedTuple):
    """Log loss with kept predictions minus log loss with free predictions."""

    nats: float
    standard_error: float  # paired over nodes
    n_nodes: int
    share: float  # of the log loss with predictions kept


def gain_without_constraint(
    used: Calibrator, halves: Halves, probs: FloatArray, worth: float = MIN_COST_SHARE
) -> Gain:
    """Return how much lower the log loss is if predictions may change."""
    nodes = halves.nodes
    kept = log_losses(probs[nodes.calibration_nodes], nodes.labels)
    if (own := _free_variant(used)) is None:  # then a scale and a shift of each class, no graph
        scaled, free = halves.losses_of_scaling
        gains: FloatArray = min(kept, scaled, key=nodes.mean) - free
    else:
        described = nodes.cached(describe_neighbourhoods).take(nodes.calibration_nodes)
        alone = with_cached(nodes.without_graph, described, describe_neighbourhoods)
        gains = kept - _log_losses(own, alone)
        is_worth = nodes.mean(gains) >= worth * nodes.mean(kept)
        for half in (halves.is_second, ~halves.is_second) if is_worth else ():
            fitted = trial_fit(used, alone.subset(half))  # one fit gives both forms
            both = [_log_losses(each, alone) for each in (fitted, _free_variant(fitted))]
            gains[~half] = (both[0] - both[1])[~half]
    nats, error = _mean_and_error(nodes, gains)
    return Gain(nats, error, gains.size, nats / max(nodes.mean(kept), SMALLEST_PROBABILITY))


def _log_losses(fitted: Calibrator | None, nodes: Nodes) -> FloatArray:
    assert fitted is not None
    return log_losses(fitted.predict_proba(nodes.unlabelled), nodes.labels)


def _given_class(nodes: Nodes, probs: FloatArray) -> OverpredictedClass | None:
    """Return the rare class whose mean probability most exceeds its rate, if significantly."""
    n_classes = nodes.n_classes
    mean = np.average(probs, axis=0, weights=nodes.weights).astype(np.float64)
    count = np.bincount(nodes.labels, nodes.weights, minlength=n_classes)
    rate = count / nodes.total_weight
    chosen = int(np.where(rate <= 1.0 / n_classes, mean - rate, -np.inf).argmax())
    more, error = _mean_and_error(nodes, probs[:, chosen] - (nodes.labels == chosen))
    chance = float(ndtri(1.0 - LEVEL / n_classes)) * error
    if more <= chance or mean[chosen] < MIN_RATIO * rate[chosen]:
        return None
    return OverpredictedClass(chosen, float(mean[chosen]), float(rate[chosen]))


def _mean_and_error(nodes: Nodes, values: FloatArray) -> tuple[float, float]:
    """Return the weighted mean of values of the calibration nodes, and its standard error."""
    mean = nodes.mean(values)
    shares = np.ones(values.size) if nodes.weights is None else nodes.weights
    spread = np.sqrt(np.sum((shares * (values - mean)) ** 2) * values.size / (values.size - 1))
    return mean, float(spread / shares.sum())
