"""Figure (a) of the paper: the fitted temperature falls as homophily rises."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gnncal.data.arrays import BoolArray, FloatArray
from gnncal.data.errors import InputError
from gnncal.data.probability import normalised_homophily
from gnncal.math.solvers import TEMPERATURE_RANGE
from gnncal_lab.simulation.csbm import CSBM
from gnncal_lab.simulation.estimate import Estimate, check_seeds, fit_temperature, of_the_mean
from gnncal_lab.simulation.linear_gcn import aggregate, split_nodes, train_linear_gcn

MODEL = CSBM()
HOMOPHILY = (0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.95)
CORRELATED_FROM = 0.25
PAPER_PEARSON = -0.846


@dataclass(frozen=True)
class Temperatures:
    """Fitted temperatures of one kind of logits over homophily."""

    mean: FloatArray  # (n_homophily,) over seeds
    deviation: FloatArray  # (n_homophily,) one standard deviation over seeds
    at_bound: FloatArray  # (n_homophily,) share of seeds whose fit ended at a bound of T
    pearson: Estimate  # of the mean with h, over 0.25 <= h and 1/K < h


@dataclass(frozen=True)
class SweepRecord:
    """Temperatures that temperature scaling fits on graphs of one homophily each."""

    model: CSBM
    n_nodes: int
    n_seeds: int
    homophily: FloatArray  # (n_homophily,)
    zero_signal: float  # h_0
    class_random: float  # 1/K
    template: Temperatures  # of the class-template scores
    learned: Temperatures  # of a one-layer GCN's logits, trained on each graph anew
    fine: FloatArray  # (n_fine,) homophily for the two laws
    bayes: FloatArray  # (n_fine,) T_Bayes(h); NaN where Gamma(h) < 0
    trend: FloatArray  # (n_fine,) c / h~, c from the template's mean log T; NaN where h~ <= 0
    bayes_pearson: float  # of T_Bayes, over the same h
    paper_pearson: float


def sweep(
    *,
    model: CSBM = MODEL,
    homophily: tuple[float, ...] = HOMOPHILY,
    n_nodes: int = 2000,
    n_seeds: int = 20,
) -> SweepRecord:
    """Draw a graph for each homophily and seed, and fit T on its calibration nodes (10%)."""
    check_seeds(n_seeds)
    h = np.array(homophily)
    counted = _correlated(h, model.n_classes)
    fitted = np.array(
        [[_temperatures(model, n_nodes, v, seed) for v in h] for seed in range(n_seeds)]
    )  # (n_seeds, n_homophily, 2)
    template, learned = (_summarise(fitted[:, :, kind], h, counted) for kind in (0, 1))
    fine = np.linspace(0.0, 1.0, 201)
    return SweepRecord(
        model=model,
        n_nodes=n_nodes,
        n_seeds=n_seeds,
        homophily=h,
        zero_signal=model.bayes.zero_signal,
        class_random=1.0 / model.n_classes,
        template=template,
        learned=learned,
        fine=fine,
        bayes=model.bayes.temperature(fine),
        trend=_inverse_trend(h[counted], template.mean[counted], fine, model.n_classes),
        bayes_pearson=float(np.corrcoef(h[counted], model.bayes.temperature(h[counted]))[0, 1]),
        paper_pearson=PAPER_PEARSON,
    )


def _temperatures(model: CSBM, n_nodes: int, homophily: float, seed: int) -> tuple[float, float]:
    sample = model.sample_undirected(n_nodes, homophily, random_state=seed)
    split = split_nodes(n_nodes, random_state=seed)
    scores = model.scores(aggregate(sample.graph))
    logits = train_linear_gcn(sample, split.train_nodes, model.n_classes, random_state=seed)
    labels = sample.labels[split.calibration_nodes]
    of_scores, of_logits = (
        fit_temperature(z[split.calibration_nodes], labels)[0] for z in (scores, logits)
    )
    return of_scores, of_logits


def _correlated(h: FloatArray, n_classes: int) -> BoolArray:
    """Say where T is expected to fall with h: from 0.25 on, and more than class-random."""
    counted = (h >= CORRELATED_FROM - 1e-9) & (h > 1.0 / n_classes + 1e-9)
    if counted.sum() < 2:
        raise InputError(
            f"{counted.sum()} values of homophily are at least {CORRELATED_FROM} and above "
            f"1/K = {1.0 / n_classes:.3g}; a correlation needs two or more, take larger values."
        )
    return counted


def _summarise(temperatures: FloatArray, h: FloatArray, counted: BoolArray) -> Temperatures:
    def pearson(mean: FloatArray) -> float:
        return float(np.corrcoef(h[counted], mean[counted])[0, 1])

    low, high = TEMPERATURE_RANGE
    at_bound = (temperatures < low * 1.001) | (temperatures > high * 0.999)
    return Temperatures(
        mean=temperatures.mean(axis=0),
        deviation=temperatures.std(axis=0, ddof=1),
        at_bound=at_bound.mean(axis=0),
        pearson=of_the_mean(temperatures, pearson),
    )


def _inverse_trend(
    h: FloatArray, temperature: FloatArray, fine: FloatArray, n_classes: int
) -> FloatArray:
    scale = np.exp(np.mean(np.log(temperature * normalised_homophily(h, n_classes))))
    signal = normalised_homophily(fine, n_classes)
    return np.divide(scale, signal, out=np.full_like(fine, np.nan), where=signal > 0)
