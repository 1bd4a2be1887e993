"""The leak: the paper's homophily predictor has seen the calibration labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import rankdata

from gnncal.calibrators.homophily import HomophilyEstimator, Predictor, Support
from gnncal.calibrators.hots import HoTS
from gnncal.calibrators.temperature import TemperatureScaling
from gnncal.data.arrays import BoolArray, FloatArray
from gnncal.metrics import METRICS, expected_calibration_error
from gnncal_lab.datasets.splits import Split
from gnncal_lab.homophily import CrossFitted
from gnncal_lab.methods.ablations import EntropyOnly
from gnncal_lab.simulation.csbm import CSBM
from gnncal_lab.simulation.estimate import Estimate, check_seeds, fit_without_warnings, over_seeds
from gnncal_lab.simulation.linear_gcn import split_nodes, train_linear_gcn
from gnncal_lab.simulation.streams import stream

MODEL = CSBM(n_features=128)
LOWEST, HIGHEST = 0.2, 0.95  # homophily of a node, uniform between
ESTIMATORS = ("predictor", "cross-fitted", "support")
N_BINS = 40
PARTS = {"val": "calibration_nodes", "test": "test_nodes"}  # of the split, by name in records


@dataclass(frozen=True)
class Seen:
    """What an estimate knows on one part of the nodes."""

    density: FloatArray  # (N_BINS,) of the estimate over [0, 1], all seeds
    correlation: Estimate  # with the node's true homophily
    auc: Estimate  # P(a correct node's estimate exceeds a wrong one's); 1/2 knows nothing


@dataclass(frozen=True)
class Loss:
    """A calibrator's losses on one part of the nodes."""

    nll: Estimate
    ece: Estimate


@dataclass(frozen=True)
class LeakRecord:
    """Estimates and the HoTS fitted with them, on calibration and on test nodes."""

    model: CSBM
    n_nodes: int
    n_seeds: int
    accuracy: Estimate
    edges: FloatArray  # (N_BINS + 1,) of the densities
    estimates: dict[str, dict[str, Seen]]  # estimator, then "val" or "test"
    losses: dict[str, dict[str, Loss]]  # method, then "val" or "test"
    nll_against_ts: dict[str, Estimate]  # on test nodes, paired by seed
    ece_against_ts: dict[str, Estimate]


@dataclass(frozen=True)
class _Run:
    correct: BoolArray
    homophily: FloatArray
    split: Split
    estimates: dict[str, FloatArray]
    losses: dict[str, dict[str, tuple[float, float]]]


def leak(*, model: CSBM = MODEL, n_nodes: int = 2000, n_seeds: int = 20) -> LeakRecord:
    """Train, calibrate with each estimate, and compare calibration nodes with test nodes."""
    check_seeds(n_seeds)
    runs = [_run(model, n_nodes, seed) for seed in range(n_seeds)]
    losses = {
        name: {
            part: np.array([run.losses[name][part] for run in runs]) for part in PARTS
        }  # (n_seeds, 2)
        for name in runs[0].losses
    }
    against = {
        name: over_seeds(parts["test"] - losses["ts"]["test"]) for name, parts in losses.items()
    }
    return LeakRecord(
        model=model,
        n_nodes=n_nodes,
        n_seeds=n_seeds,
        accuracy=over_seeds(np.array([run.correct[run.split.test_nodes].mean() for run in runs])),
        edges=np.linspace(0.0, 1.0, N_BINS + 1),
        estimates={name: {part: _seen(runs, name, part) for part in PARTS} for name in ESTIMATORS},
        losses={
            name: {
                part: Loss(over_seeds(v[:, 0]), over_seeds(v[:, 1])) for part, v in parts.items()
            }
            for name, parts in losses.items()
        },
        nll_against_ts={name: _column(e, 0) for name, e in against.items() if name != "ts"},
        ece_against_ts={name: _column(e, 1) for name, e in against.items() if name != "ts"},
    )


def _run(model: CSBM, n_nodes: int, seed: int) -> _Run:
    homophily = stream("homophily", seed).uniform(LOWEST, HIGHEST, n_nodes)
    sample = model.sample(homophily, random_state=seed)
    split = split_nodes(n_nodes, random_state=seed)
    logits = train_linear_gcn(sample, split.train_nodes, model.n_classes, random_state=seed)
    methods: dict[str, Any] = {
        "ts": TemperatureScaling(),
        "entropy-only": EntropyOnly(),
        **{f"hots, {name}": HoTS(homophily=_estimator(name, seed)) for name in ESTIMATORS},
        "hots, true h": HoTS(homophily=homophily),
    }
    losses = {}
    for name, method in methods.items():
        fit_without_warnings(
            method,
            logits,
            sample.labels,
            sample.graph,
            calibration_nodes=split.calibration_nodes,
            train_nodes=split.train_nodes,
        )
        probs = method.predict_proba(logits, sample.graph)
        losses[name] = {
            part: (
                METRICS["nll"](sample.labels[nodes], probs[nodes]),
                expected_calibration_error(sample.labels[nodes], probs[nodes]),
            )
            for part, nodes in (("val", split.calibration_nodes), ("test", split.test_nodes))
        }
    estimates = {name: methods[f"hots, {name}"].homophily_ for name in ESTIMATORS}
    correct = logits.argmax(axis=1) == sample.labels
    return _Run(correct, homophily, split, estimates, losses)


def _estimator(name: str, seed: int) -> HomophilyEstimator:
    """Return the estimator of that name on the senders, with the seed where it draws anything."""
    estimators = (
        Predictor(side="in", random_state=seed),
        CrossFitted(side="in", random_state=seed),
        Support(side="in"),
    )
    return dict(zip(ESTIMATORS, estimators, strict=True))[name]


def _seen(runs: list[_Run], name: str, part: str) -> Seen:
    nodes = [getattr(run.split, PARTS[part]) for run in runs]
    values = [run.estimates[name][n] for run, n in zip(runs, nodes, strict=True)]
    correct = [run.correct[n] for run, n in zip(runs, nodes, strict=True)]
    truth = [run.homophily[n] for run, n in zip(runs, nodes, strict=True)]
    correlations = [np.corrcoef(v, h)[0, 1] for v, h in zip(values, truth, strict=True)]
    areas = [auc(v, c) for v, c in zip(values, correct, strict=True)]
    edges = np.linspace(0.0, 1.0, N_BINS + 1)
    return Seen(
        density=np.histogram(np.concatenate(values), edges, density=True)[0],
        correlation=over_seeds(np.array(correlations)),
        auc=over_seeds(np.array(areas)),
    )


def auc(values: FloatArray, positive: BoolArray) -> float:
    """Return the Mann-Whitney share of pairs in which the positive one has the larger value."""
    n_positive = int(positive.sum())
    n_negative = positive.size - n_positive
    rank_sum = float(rankdata(values)[positive].sum())
    return (rank_sum - n_positive * (n_positive + 1) / 2.0) / (n_positive * n_negative)


def _column(estimate: Estimate, column: int) -> Estimate:
    return Estimate(estimate.value[column], estimate.low[column], estimate.high[column])
