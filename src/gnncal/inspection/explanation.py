"""Explain a node's temperature as a product of parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gnncal.calibrators.base import Calibrator
from gnncal.calibrators.hots import HoTS
from gnncal.calibrators.structural import Structural
from gnncal.calibrators.temperature import TemperatureScaling
from gnncal.core.arrays import FloatArray, IntArray
from gnncal.formulas.structural import Neighbourhood, centred
from gnncal.formulas.temperatures import entropy_temperature

COVARIATE_TITLES = (
    "support among the neighbours",
    "support two hops away",
    "neighbours' uncertainty",
    "confidence relative to the neighbours",
    "in-degree",
    "out-degree",
)


@dataclass(frozen=True)
class Explanation:
    """A temperature as a product of parts, for some nodes."""

    parts: tuple[str, ...]  # what each factor is
    factors: FloatArray  # (n_nodes, n_parts) their product is the temperature
    note: str


def explain(
    calibrator: Calibrator, around: Neighbourhood, temperature: FloatArray, nodes: IntArray
) -> Explanation | None:
    """Take the temperatures of ``nodes`` apart, or return None for methods without a law."""
    for kind, explained in _LAWS.items():
        if isinstance(calibrator, kind):
            return explained(calibrator, around, temperature, nodes)
    return None


def _one_for_all(
    calibrator: TemperatureScaling,
    around: Neighbourhood,
    temperature: FloatArray,
    nodes: IntArray,
) -> Explanation:
    return Explanation(
        ("one temperature for every node",),
        temperature[nodes, None],
        "This method does not look at the node or its neighbours.",
    )


def _structural(
    calibrator: Structural, around: Neighbourhood, temperature: FloatArray, nodes: IntArray
) -> Explanation:
    entropy = around.entropy[nodes]
    certain, uncertain = calibrator.certain_temperature_, calibrator.uncertain_temperature_
    level = entropy_temperature(entropy, certain, uncertain)
    s = centred(around.covariates[nodes], calibrator.centre_)
    neighbourhood = np.exp(s * calibrator.weights_)
    offset = np.exp(calibrator.class_offsets_[around.predictions[nodes]])
    return Explanation(
        ("the model's own certainty", *COVARIATE_TITLES, "predicted class"),
        np.column_stack([level, neighbourhood, offset]),
        "Factors above 1 lower the confidence, factors below 1 raise it. A typical neighbourhood "
        "has factors of 1. The product is kept between 1/148 and 148.",
    )


def _homophily(
    calibrator: HoTS, around: Neighbourhood, temperature: FloatArray, nodes: IntArray
) -> Explanation:
    base = calibrator.base_temperature_
    return Explanation(
        ("base temperature", "certainty and homophily"),
        np.column_stack([np.full(len(nodes), base), temperature[nodes] / base]),
        "The less the neighbours agree and the more certain the model is, the higher the second "
        "factor.",
    )


_LAWS: dict[type, Callable[..., Explanation]] = {
    Structural: _structural,
    HoTS: _homophily,
    TemperatureScaling: _one_for_all,
}
