"""How much of the avoidable loss does HoTS recover, with true, noisy and estimated homophily?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from gnncal.calibrators.base import TemperatureCalibrator
from gnncal.calibrators.hots import HoTS
from gnncal.calibrators.temperature import TemperatureScaling
from gnncal.data.arrays import FloatArray, IntArray
from gnncal.data.probability import softmax
from gnncal.graph.graph import Graph
from gnncal.graph.neighbours import neighbour_class_share
from gnncal.metrics import METRICS, calibration_by_group
from gnncal_lab.datasets.splits import Split
from gnncal_lab.homophily import CrossFitted
from gnncal_lab.methods.ablations import HomophilyOnly
from gnncal_lab.simulation.csbm import CSBM, GraphSample
from gnncal_lab.simulation.estimate import (
    Estimate,
    check_seeds,
    fit_temperature,
    fit_without_warnings,
    over_seeds,
)
from gnncal_lab.simulation.linear_gcn import aggregate, split_nodes, train_linear_gcn
from gnncal_lab.simulation.streams import stream

MODEL = CSBM(separation=1.0)
LEVELS = (0.2, 0.35, 0.5, 0.65, 0.8, 0.95)  # the homophily of a node, each equally often
TYPICAL = 0.5  # template scores are scaled so that T_Bayes is one here
NOISE = (0.1, 0.3)  # standard deviations of the noise on h

Methods = dict[str, TemperatureCalibrator]


@dataclass(frozen=True)
class World:
    """One kind of logits: losses of every method on the test nodes."""

    description: str
    accuracy: Estimate
    nll_ts: Estimate
    nll_best: Estimate  # with the best temperature of each homophily level, found on the test nodes
    nll: dict[str, Estimate]  # minus that of temperature scaling, paired by seed
    closed: dict[str, Estimate]  # share of (TS - best) that a method recovers
    gap_by_homophily: dict[str, Estimate]  # |confidence - accuracy| by level, averaged


@dataclass(frozen=True)
class HotsRecord:
    """Three worlds, from the theorem's to a trained network's."""

    model: CSBM
    levels: tuple[float, ...]
    n_nodes: int
    n_seeds: int
    worlds: dict[str, World]


@dataclass(frozen=True)
class _Task:
    logits: FloatArray
    labels: IntArray
    homophily: FloatArray  # (n_nodes,) level
    graph: Graph
    split: Split
    methods: Methods
    bayes_temperature: FloatArray | None  # (n_nodes,) where the theorem gives one


def hots(
    *,
    model: CSBM = MODEL,
    levels: tuple[float, ...] = LEVELS,
    n_nodes: int = 6000,
    n_seeds: int = 20,
) -> HotsRecord:
    """Compare TS, HoTS and the best temperature by h on graphs of mixed homophily."""
    check_seeds(n_seeds)
    model.bayes.check_positive(levels)
    makers: dict[str, tuple[str, Callable[[CSBM, FloatArray, int], _Task]]] = {
        "population": ("class-template scores, every neighbourhood as expected", _population),
        "sampled": ("class-template scores on a sampled graph", _sampled),
        "learned": ("logits of a trained one-layer GCN on that graph", _learned),
    }
    drawn = [stream("homophily", seed).choice(np.array(levels), n_nodes) for seed in range(n_seeds)]
    worlds = {
        name: _world(text, [_losses(make(model, h, seed)) for seed, h in enumerate(drawn)])
        for name, (text, make) in makers.items()
    }
    return HotsRecord(model, levels, n_nodes, n_seeds, worlds)


def _population(model: CSBM, h: FloatArray, seed: int) -> _Task:
    sample = model.sample_population(h, random_state=seed)
    scale = float(model.bayes.inverse_temperature(TYPICAL))
    no_edges = Graph(np.empty((2, 0), dtype=np.int64), h.size)
    split = split_nodes(h.size, random_state=seed)
    temperature = scale * model.bayes.temperature(h)
    logits = scale * sample.scores
    return _Task(logits, sample.labels, h, no_edges, split, _oracles(h, seed), temperature)


def _sampled(model: CSBM, h: FloatArray, seed: int) -> _Task:
    sample = model.sample(h, random_state=seed)
    scale = float(model.bayes.inverse_temperature(TYPICAL))
    realised = neighbour_class_share(sample.graph, sample.labels, sample.labels, side="in")
    methods: Methods = {
        **_oracles(h, seed),
        "hots, realised h": HoTS(homophily=realised),
        "hots, support": HoTS(homophily="support"),
        "hots, agreement": HoTS(homophily="agreement"),
        "hots, cross-fitted": HoTS(homophily=CrossFitted(side="in", random_state=seed)),
    }
    logits = scale * model.scores(aggregate(sample.graph))
    split = split_nodes(h.size, random_state=seed)
    temperature = scale * model.bayes.temperature(h)
    return _Task(logits, sample.labels, h, sample.graph, split, methods, temperature)


def _learned(model: CSBM, h: FloatArray, seed: int) -> _Task:
    task = _sampled(model, h, seed)
    sample = GraphSample(task.graph, task.labels, h)
    logits = train_linear_gcn(sample, task.split.train_nodes, model.n_classes, random_state=seed)
    return replace(task, logits=logits, bayes_temperature=None)


def _oracles(h: FloatArray, seed: int) -> Methods:
    """Return the methods that are told the homophily, exactly or with noise."""
    noise = stream("noise", seed).normal(size=h.size)
    noisy = {f"hots, h ± {sd}": np.clip(h + sd * noise, 0.0, 1.0) for sd in NOISE}
    return {
        "homophily-only, true h": HomophilyOnly(homophily=h),
        "hots, true h": HoTS(homophily=h),
        **{name: HoTS(homophily=values) for name, values in noisy.items()},
    }


def _losses(task: _Task) -> dict[str, tuple[float, float]]:
    """NLL and gap by homophily on the test nodes, of TS, the best by level, and every method."""
    test = task.split.test_nodes
    labels, groups = task.labels[test], task.homophily[test]
    methods: Methods = {"ts": TemperatureScaling(), **task.methods}
    temperatures = {name: _fitted_temperature(m, task)[test] for name, m in methods.items()}
    if task.bayes_temperature is not None:
        temperatures["bayes temperature"] = task.bayes_temperature[test]
    temperatures["best"] = best_by_level(task.logits[test], labels, groups)
    found = {}
    for name, temperature in temperatures.items():
        probs = softmax(task.logits[test], temperature)
        gap = calibration_by_group(labels, probs, groups).error
        found[name] = (METRICS["nll"](labels, probs), gap)
    correct = task.logits[test].argmax(axis=1) == labels
    return {**found, "accuracy": (float(correct.mean()), 0.0)}


def best_by_level(logits: FloatArray, labels: IntArray, levels: FloatArray) -> FloatArray:
    """The temperature with the lowest log loss on all nodes of the same level, for each node."""
    best = np.empty(len(labels))
    for level in np.unique(levels):
        rows = levels == level
        best[rows] = fit_temperature(logits[rows], labels[rows])[0]
    return best


def _fitted_temperature(method: TemperatureCalibrator, task: _Task) -> FloatArray:
    fit_without_warnings(
        method,
        task.logits,
        task.labels,
        task.graph,
        calibration_nodes=task.split.calibration_nodes,
        train_nodes=task.split.train_nodes,
    )
    return method.temperature_


def _world(description: str, runs: list[dict[str, tuple[float, float]]]) -> World:
    nll, gap = (
        {name: np.array([run[name][part] for run in runs]) for name in runs[0]} for part in (0, 1)
    )
    accuracy = nll.pop("accuracy")
    avoidable = nll["ts"] - nll["best"]
    methods = [name for name in nll if name not in ("ts", "best")]
    return World(
        description=description,
        accuracy=over_seeds(accuracy),
        nll_ts=over_seeds(nll["ts"]),
        nll_best=over_seeds(nll["best"]),
        nll={name: over_seeds(nll[name] - nll["ts"]) for name in methods},
        closed={name: over_seeds((nll["ts"] - nll[name]) / avoidable) for name in methods},
        gap_by_homophily={name: over_seeds(gap[name]) for name in ("ts", "best", *methods)},
    )
