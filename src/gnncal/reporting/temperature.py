"""The temperature of each node against its homophily and its entropy, and the law behind it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gnncal.calibrators.auto import chosen_of
from gnncal.calibrators.base import Calibrator, TemperatureMixin
from gnncal.calibrators.homophily import support_of
from gnncal.calibrators.hots import HoTS
from gnncal.calibrators.registry import name_of
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
Law = Callable[[Any, Any], Any]  # of entropy and homophily


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
    homophily_name: str
    n_candidates: int


def temperature_profile(
    calibrator: Calibrator, logits: Any, graph: Any = None, *, nodes: Any = None
) -> TemperatureProfile:
    """Look at the temperatures that a fitted calibrator gives to the nodes of a graph."""
    calibrator = chosen_of(calibrator)
    if not isinstance(calibrator, TemperatureMixin):
        raise InputError(f"{name_of(calibrator)} has no temperatures; choose another method.")
    record = as_nodes(logits, graph)
    chosen = np.arange(record.n_nodes) if nodes is None else check_nodes(nodes, record.n_nodes)
    n_candidates = int(chosen.size)
    if n_candidates > MAX_NODES:
        chosen = np.sort(np.random.default_rng(0).choice(chosen, MAX_NODES, replace=False))
    temperature = calibrator.predict_temperature(record)[chosen]
    every, name = _homophily(calibrator, record)
    homophily, entropy = every[chosen], record.entropy[chosen]
    known = np.isfinite(homophily)
    law = None if calibrator.temperature_at(0.5, 0.5) is None else calibrator.temperature_at
    short_name = name.partition(" among")[0].partition(" (")[0]  # for legends
    by_entropy = _curves(entropy, temperature, law, homophily[known], short_name)
    swapped = None if law is None else lambda x, level: law(level, x)
    by_homophily = _curves(homophily[known], temperature[known], swapped, entropy, "entropy")
    return TemperatureProfile(
        *(chosen, entropy, homophily, temperature, by_homophily, by_entropy),
        has_law=law is not None,
        homophily_name=name,
        n_candidates=n_candidates,
    )


def _homophily(calibrator: Calibrator, nodes: Nodes) -> tuple[FloatArray, str]:
    """Return the homophily that the method uses, or else the support of the neighbours."""
    if nodes.graph is None:
        return np.full(nodes.n_nodes, np.nan), "homophily (no graph)"
    if isinstance(calibrator, HoTS) and calibrator.needs_graph:
        method = calibrator.homophily_method_
        name = SUPPORT if method == "support" else f"estimated homophily ({method})"
        return calibrator.predict_homophily(nodes), name
    return nodes.cached(support_of, nodes.graph.all_sides), SUPPORT


def _curves(
    x: FloatArray, temperature: FloatArray, law: Law | None, others: FloatArray, other_name: str
) -> tuple[Curve, ...]:
    """The law over the range of x, one curve for each level of the other covariate; or medians."""
    if x.size == 0:
        return ()
    if law is None:
        n_groups = max(1, min(MOST_MEDIANS, x.size // NODES_PER_MEDIAN))
        groups = np.array_split(np.argsort(x, kind="stable"), n_groups)
        medians = [(np.median(x[group]), np.median(temperature[group])) for group in groups]
        return (Curve("running median", *np.array(medians).T),)
    line = np.linspace(x.min(), x.max(), CURVE_POINTS)
    levels = np.percentile(others, list(LEVELS)) if others.size else np.zeros(1)
    curves = tuple(
        Curve(f"{other_name} {level:.2f} ({name})", line, law(line, np.full(len(line), level)))
        for level, name in zip(levels, LEVELS.values(), strict=False)
    )
    if all(np.allclose(curves[0].temperature, curve.temperature) for curve in curves):
        return (Curve("fitted law", line, curves[0].temperature),)
    return curves
