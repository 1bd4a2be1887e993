"""The temperature of each node against its homophily and its entropy, and the law behind it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gnncal.calibrators.auto import Auto
from gnncal.calibrators.base import Calibrator, TemperatureMixin
from gnncal.calibrators.homophily import support_of
from gnncal.calibrators.hots import HoTS
from gnncal.data.arrays import FloatArray, IntArray
from gnncal.data.checks import check_nodes
from gnncal.data.errors import InputError
from gnncal.data.nodes import Nodes, as_nodes

MAX_NODES = 4000  # more points hide one another
CURVE_POINTS = 161
SUPPORT = "support among the neighbours"
LEVELS = {10: "10th percentile", 50: "median", 90: "90th percentile"}  # of the other covariate
NODES_PER_MEDIAN = 25  # a running median rests on at least that many nodes each
MOST_MEDIANS = 30
LOG_TEMPERATURE = 5.0  # |ln T| of an effective temperature stays below
BISECTIONS = 50


@dataclass(frozen=True)
class Curve:
    """A line through the temperatures of the nodes, with the name that a legend gives it."""

    label: str
    x: FloatArray
    temperature: FloatArray


@dataclass(frozen=True)
class TemperatureProfile:
    """Temperatures of some nodes, what they depend on, and curves to draw through them."""

    nodes: IntArray
    entropy: FloatArray
    homophily: FloatArray
    temperature: FloatArray
    by_homophily: tuple[Curve, ...]
    by_entropy: tuple[Curve, ...]
    has_law: bool
    is_effective: bool
    homophily_name: str
    n_candidates: int
    n_without: int


def temperature_profile(
    calibrator: Calibrator | None,
    logits: Any,
    graph: Any = None,
    *,
    nodes: Any = None,
    probabilities: Any = None,
) -> TemperatureProfile:
    """Look at the temperatures that a fitted calibrator gives to the nodes of a graph."""
    record = as_nodes(logits, graph)
    every: IntArray = np.arange(record.n_nodes)
    candidates = every if nodes is None else check_nodes(nodes, record.n_nodes)
    if candidates.size == 0:
        raise InputError("there is no node to look at; pass at least one in nodes.")
    if isinstance(calibrator, Auto):
        calibrator = calibrator.calibrator_
    chosen = candidates
    if candidates.size > MAX_NODES:
        chosen = np.sort(np.random.default_rng(0).choice(candidates, MAX_NODES, replace=False))
    homophily, name = _homophily(calibrator, record)
    temperature = _temperatures(calibrator, record, chosen, probabilities)
    known = np.isfinite(temperature)
    chosen, temperature = chosen[known], temperature[known]
    entropy = record.entropy[chosen]
    by_homophily, by_entropy, has_law = _curves(calibrator, entropy, homophily[chosen], temperature)
    return TemperatureProfile(
        chosen,
        entropy,
        homophily[chosen],
        temperature,
        by_homophily,
        by_entropy,
        has_law,
        not isinstance(calibrator, TemperatureMixin),
        name,
        int(candidates.size),
        int((~known).sum()),
    )


def effective_temperature(logits: FloatArray, confidence: FloatArray) -> FloatArray:
    """Return the T (n,) for which softmax(z / T) gives the predicted class this confidence."""
    shifted = (logits - logits.max(axis=1, keepdims=True)).astype(np.float64)

    def at(log_temperature: FloatArray) -> FloatArray:
        return 1.0 / np.exp(shifted * np.exp(-log_temperature)[:, None]).sum(axis=1)

    low, high = (np.full(len(shifted), end) for end in (-LOG_TEMPERATURE, LOG_TEMPERATURE))
    exists = (at(low) > confidence) & (confidence > at(high))
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        too_sure = at(middle) > confidence
        low, high = np.where(too_sure, middle, low), np.where(too_sure, high, middle)
    return np.where(exists, np.exp(0.5 * (low + high)), np.nan)


def _homophily(calibrator: Calibrator | None, nodes: Nodes) -> tuple[FloatArray, str]:
    """Return the homophily that the method uses, or else the support of the neighbours."""
    if nodes.graph is None:
        return np.full(nodes.n_nodes, np.nan), "homophily (no graph)"
    if isinstance(calibrator, HoTS) and calibrator.needs_graph:
        method = calibrator.homophily_method_
        name = SUPPORT if method == "support" else f"estimated homophily ({method})"
        return calibrator.predict_homophily(nodes), name
    return nodes.cached(support_of, nodes.graph.all_sides), SUPPORT


def _temperatures(
    calibrator: Calibrator | None, nodes: Nodes, chosen: IntArray, probabilities: Any
) -> FloatArray:
    """Return the temperature of each of the nodes ``chosen``; NaN where there is none."""
    if isinstance(calibrator, TemperatureMixin):
        return calibrator.predict_temperature(nodes)[chosen]
    if probabilities is None:
        if calibrator is None:
            raise InputError("calibrator and probabilities are both None; pass one of them.")
        probabilities = calibrator.predict_proba(nodes)
    predictions = nodes.predictions[chosen]
    confidence = np.asarray(probabilities)[chosen, predictions].astype(np.float64)
    return effective_temperature(nodes.logits[chosen], confidence)


def _curves(
    calibrator: Calibrator | None,
    entropy: FloatArray,
    homophily: FloatArray,
    temperature: FloatArray,
) -> tuple[tuple[Curve, ...], tuple[Curve, ...], bool]:
    """Return the curves against homophily and against entropy, and whether they are a law."""
    known = np.isfinite(homophily)
    law = calibrator.temperature_at if isinstance(calibrator, TemperatureMixin) else None
    if law is None or law(0.5, 0.5) is None:
        medians = (
            _running_median(homophily[known], temperature[known]),
            _running_median(entropy, temperature),
        )
        return *medians, False
    over_entropy = _law_curves(law, entropy, homophily[known], "homophily")
    if not known.any():
        return (), over_entropy, True
    over_homophily = _law_curves(lambda x, e: law(e, x), homophily[known], entropy, "entropy")
    return over_homophily, over_entropy, True


def _law_curves(
    law: Callable[[FloatArray, FloatArray], FloatArray | None],
    values: FloatArray,
    others: FloatArray,
    other_name: str,
) -> tuple[Curve, ...]:
    """The law over the range of ``values``, one curve for each level of the other covariate."""
    x = np.linspace(values.min(), values.max(), CURVE_POINTS)
    levels = np.percentile(others, list(LEVELS)) if others.size else np.zeros(1)
    curves = {}
    for level, name in zip(levels, LEVELS.values(), strict=False):
        temperature = law(x, np.full(len(x), level))
        assert temperature is not None  # asked before
        curves[f"{other_name} {level:.2f} ({name})"] = temperature
    first = next(iter(curves.values()))
    if all(np.allclose(first, other) for other in curves.values()):
        return (Curve("fitted law", x, first),)
    return tuple(Curve(label, x, temperature) for label, temperature in curves.items())


def _running_median(x: FloatArray, temperature: FloatArray) -> tuple[Curve, ...]:
    """Return the median temperature of nodes in equally large groups along x."""
    if x.size == 0:
        return ()
    n_groups = max(1, min(MOST_MEDIANS, x.size // NODES_PER_MEDIAN))
    groups = np.array_split(np.argsort(x, kind="stable"), n_groups)
    medians = [(np.median(x[group]), np.median(temperature[group])) for group in groups]
    return (Curve("running median", *np.array(medians).T),)
