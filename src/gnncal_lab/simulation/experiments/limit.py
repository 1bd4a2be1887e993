"""How far does each method go beyond one temperature, and how far could it go?"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import entr

from gnncal.calibrators.base import Calibrator
from gnncal.calibrators.homophily import Support
from gnncal.calibrators.hots import HoTS
from gnncal.calibrators.registry import get_calibrator
from gnncal.calibrators.temperature import TemperatureScaling
from gnncal.data.arrays import FloatArray
from gnncal.data.errors import GnncalWarning
from gnncal.data.estimator import clone
from gnncal.data.probability import logits_from_probabilities, softmax
from gnncal.graph.graph import Graph
from gnncal.math.formulas import LOG_TEMPERATURE
from gnncal.metrics import METRICS
from gnncal_lab.datasets.splits import Split
from gnncal_lab.methods.ratio_binned import RatioBinnedScaling
from gnncal_lab.simulation.csbm import CSBM, GraphSample
from gnncal_lab.simulation.estimate import Estimate, check_seeds, over_seeds
from gnncal_lab.simulation.experiments.hots import LEVELS, MODEL, TYPICAL, best_by_level
from gnncal_lab.simulation.experiments.necessity import solve_tau
from gnncal_lab.simulation.graph_posterior import graph_posterior
from gnncal_lab.simulation.linear_gcn import aggregate, split_nodes, train_linear_gcn
from gnncal_lab.simulation.streams import stream

RADII = {"1 step": 1, "2 steps": 2, "the whole graph": 10}  # 20 rounds change nothing more
WHOLE = "the whole graph"
TEMPERATURE, POSTERIOR = "best temperature given ", "posterior given "
BY_LEVEL = "best temperature by true h"
TWICE = "structural-free, twice"
SCALED: dict[str, Calibrator] = {  # one temperature for each node
    "ts": TemperatureScaling(),
    "hots, support of senders": HoTS(homophily="support"),
    "hots, support of senders and receivers": HoTS(homophily=Support(side="both")),
    "rbs": RatioBinnedScaling(),
    "structural-temperature": get_calibrator("structural-temperature"),
}
FREE: dict[str, Calibrator] = {  # other probabilities too
    "structural": get_calibrator("structural"),
    "structural-vector": get_calibrator("structural-vector"),
    "structural-free": get_calibrator("structural-free"),
    TWICE: get_calibrator("structural-free"),  # on the logarithms of what it says
}

Losses = dict[str, tuple[float, float]]  # log loss and accuracy


@dataclass(frozen=True)
class LimitWorld:
    """One kind of graph and logits: how every method and every limit does on the test nodes."""

    description: str
    nll: dict[str, Estimate]  # TS first, then the methods, then the limits
    accuracy: dict[str, Estimate]
    closed: dict[str, Estimate]  # (TS - method) / (TS - best temperature by true h)
    reached: dict[str, Estimate]  # (TS - method) / (TS - limit), the limit of its kind
    posterior_excess: dict[str, Estimate]  # log loss of each posterior minus what it expects


@dataclass(frozen=True)
class LimitRecord:
    """Directed and undirected graphs, with template scores and with a trained network."""

    model: CSBM
    levels: tuple[float, ...]
    n_nodes: int
    n_seeds: int
    worlds: dict[str, LimitWorld]


def limit(
    *,
    model: CSBM = MODEL,
    levels: tuple[float, ...] = LEVELS,
    n_nodes: int = 6000,
    n_seeds: int = 4,
) -> LimitRecord:
    """Compare methods with the best that any method could do, on graphs of mixed homophily."""
    check_seeds(n_seeds)
    model.bayes.check_positive(levels)
    makers = {"directed": CSBM.sample, "undirected": sample_mixed_undirected}
    worlds = {}
    for kind, make in makers.items():
        drawn: list[tuple[Losses, Losses, dict[str, float]]] = []
        for seed in range(n_seeds):
            h = stream("homophily", seed).choice(np.array(levels), n_nodes)
            drawn.append(_losses(model, make(model, h, random_state=seed), levels, seed))
        templates, trained, excess = (list(part) for part in zip(*drawn, strict=True))
        worlds[f"{kind}, template scores"] = _world(
            f"class-template scores, {kind} graph", templates, excess
        )
        worlds[f"{kind}, trained GCN"] = _world(
            f"logits of a trained one-layer GCN, {kind} graph", trained, excess
        )
    return LimitRecord(model, levels, n_nodes, n_seeds, worlds)


def sample_mixed_undirected(
    model: CSBM, homophily: FloatArray, *, random_state: int = 0
) -> GraphSample:
    """Return an undirected graph in which every node has its own homophily."""
    half = replace(model, mean_degree=model.mean_degree / 2.0)
    sample = half.sample(homophily, random_state=random_state)
    edges = sample.graph.edge_index
    both = np.concatenate([edges, edges[::-1]], axis=1)
    graph = Graph(both, sample.labels.size, sample.graph.features)
    return GraphSample(graph, sample.labels, sample.homophily)


def best_temperature_given(posterior: FloatArray, logits: FloatArray) -> FloatArray:
    """Return the temperature of each node whose expected log loss under its posterior is lowest."""
    limits = float(np.exp(-LOG_TEMPERATURE)), float(np.exp(LOG_TEMPERATURE))
    expected = np.einsum("ik,ik->i", posterior, logits)
    return 1.0 / solve_tau(logits, expected, *limits)


def _losses(
    model: CSBM, sample: GraphSample, levels: tuple[float, ...], seed: int
) -> tuple[Losses, Losses, dict[str, float]]:
    """Return losses of template scores and of a trained network, and errors of the posteriors."""
    split = split_nodes(sample.labels.size, random_state=seed)
    posteriors = {
        name: graph_posterior(model, sample.graph, levels, radius=radius)[split.test_nodes]
        for name, radius in RADII.items()
    }
    labels = sample.labels[split.test_nodes]
    excess = {
        name: METRICS["nll"](labels, p) - float(entr(p).sum(axis=1).mean())
        for name, p in posteriors.items()
    }
    scale = float(model.bayes.inverse_temperature(TYPICAL))
    templates = scale * model.scores(aggregate(sample.graph))
    trained = train_linear_gcn(sample, split.train_nodes, model.n_classes, random_state=seed)
    return (
        _losses_of(templates, sample, split, posteriors),
        _losses_of(trained, sample, split, posteriors),
        excess,
    )


def _losses_of(
    logits: FloatArray, sample: GraphSample, split: Split, posteriors: dict[str, FloatArray]
) -> Losses:
    """Return the log loss and accuracy on the test nodes, of every method and every limit."""
    test = split.test_nodes
    labels, rows = sample.labels[test], logits[test]
    fitted: dict[str, FloatArray] = {}
    for name, method in {**SCALED, **FREE}.items():
        first = logits_from_probabilities(fitted["structural-free"]) if name == TWICE else logits
        fitted[name] = _fitted_probs(method, first, sample, split)
    probs = {name: p[test] for name, p in fitted.items()}
    probs[BY_LEVEL] = softmax(rows, best_by_level(rows, labels, sample.homophily[test]))
    for name, posterior in posteriors.items():
        probs[TEMPERATURE + name] = softmax(rows, best_temperature_given(posterior, rows))
    probs |= {POSTERIOR + name: posterior for name, posterior in posteriors.items()}
    return {
        name: (METRICS["nll"](labels, p), float((p.argmax(axis=1) == labels).mean()))
        for name, p in probs.items()
    }


def _fitted_probs(
    method: Calibrator, logits: FloatArray, sample: GraphSample, split: Split
) -> FloatArray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GnncalWarning)
        fitted = clone(method).fit(
            logits,
            sample.labels,
            sample.graph,
            calibration_nodes=split.calibration_nodes,
            train_nodes=split.train_nodes,
        )
        return fitted.predict_proba(logits, sample.graph)


def _world(description: str, runs: list[Losses], excess: list[dict[str, float]]) -> LimitWorld:
    nll, accuracy = (
        {name: np.array([run[name][part] for run in runs]) for name in runs[0]} for part in (0, 1)
    )
    gained = {name: nll["ts"] - values for name, values in nll.items() if name != "ts"}
    reached = {name: gained[name] / gained[TEMPERATURE + WHOLE] for name in SCALED if name != "ts"}
    reached |= {name: gained[name] / gained[POSTERIOR + WHOLE] for name in FREE}
    return LimitWorld(
        description=description,
        nll={name: over_seeds(values) for name, values in nll.items()},
        accuracy={name: over_seeds(values) for name, values in accuracy.items()},
        closed={name: over_seeds(values / gained[BY_LEVEL]) for name, values in gained.items()},
        reached={name: over_seeds(values) for name, values in reached.items()},
        posterior_excess={
            name: over_seeds(np.array([run[name] for run in excess])) for name in excess[0]
        },
    )
