"""Theorem 1: the Bayes posterior of the class-template scores is softmax(Gamma(h) s / v)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gnncal.data.arrays import FloatArray, IntArray
from gnncal.metrics import METRICS, estimate_calibration_error
from gnncal.metrics.uncertainty import CalibrationEstimate
from gnncal_lab.simulation.csbm import CSBM
from gnncal_lab.simulation.estimate import (
    Estimate,
    check_seeds,
    fit_inverse_temperature,
    fit_temperature,
)

MODEL = CSBM(separation=1.0)  # half the release's: at 2 nearly no node is misclassified at high h
HOMOPHILY = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
ECE_RESAMPLES = 200


@dataclass(frozen=True)
class PosteriorRecord:
    """Groups of equal homophily: what the theorem says, and what the labels say."""

    model: CSBM
    n_nodes: int  # in each group, for each seed
    n_seeds: int
    zero_signal: float  # h_0
    homophily: FloatArray  # (n_groups,)
    inverse_temperature: FloatArray  # (n_groups,) Gamma(h) / v
    fitted: Estimate  # (n_groups,) signed, on all seeds' nodes together
    coverage: float  # share of groups and seeds whose own 95% interval holds Gamma(h) / v
    ece: tuple[CalibrationEstimate, ...]  # (n_seeds,) of the posterior, all groups together
    accuracy: FloatArray  # (n_groups,) of the posterior
    accuracy_of_scores: FloatArray  # (n_groups,) of arg max s, which no temperature changes
    nll: FloatArray  # (n_groups,) of the posterior
    nll_positive: FloatArray  # (n_groups,) with the best positive temperature of the group


def posterior(
    *,
    model: CSBM = MODEL,
    homophily: tuple[float, ...] = HOMOPHILY,
    n_nodes: int = 10_000,
    n_seeds: int = 20,
) -> PosteriorRecord:
    """Test whether the exact posterior is calibrated, and fitted 1/T equals Gamma(h)/v."""
    check_seeds(n_seeds)
    h, bayes = np.array(homophily), model.bayes
    draws = [
        model.sample_population(np.tile(h, n_nodes), random_state=seed) for seed in range(n_seeds)
    ]
    ece = tuple(
        estimate_calibration_error(d.labels, d.posterior, n_resamples=ECE_RESAMPLES) for d in draws
    )
    by_group = (n_seeds, n_nodes, h.size)
    scores = np.stack([d.scores for d in draws]).reshape(*by_group, model.n_classes)
    labels = np.stack([d.labels for d in draws]).reshape(by_group)
    groups = [
        (scores[:, :, g].reshape(-1, model.n_classes), labels[:, :, g].ravel())
        for g in range(h.size)
    ]
    fits = [fit_inverse_temperature(s, y) for s, y in groups]
    probs = [bayes.posterior(s, value) for (s, _), value in zip(groups, h, strict=True)]
    return PosteriorRecord(
        model=model,
        n_nodes=n_nodes,
        n_seeds=n_seeds,
        zero_signal=bayes.zero_signal,
        homophily=h,
        inverse_temperature=bayes.inverse_temperature(h),
        fitted=Estimate.stack(fits),
        coverage=_coverage(scores, labels, bayes.inverse_temperature(h)),
        ece=ece,
        accuracy=np.array(
            [METRICS["accuracy"](y, p) for (_, y), p in zip(groups, probs, strict=True)]
        ),
        accuracy_of_scores=np.array([(s.argmax(axis=1) == y).mean() for s, y in groups]),
        nll=np.array([METRICS["nll"](y, p) for (_, y), p in zip(groups, probs, strict=True)]),
        nll_positive=np.array([fit_temperature(s, y)[1] for s, y in groups]),
    )


def _coverage(scores: FloatArray, labels: IntArray, truth: FloatArray) -> float:
    """Share of seeds and groups whose interval, fitted on them alone, holds the truth."""
    holds = [
        fit.low <= truth[g] <= fit.high
        for g in range(len(truth))
        for s, y in zip(scores[:, :, g], labels[:, :, g], strict=True)
        for fit in [fit_inverse_temperature(s, y)]
    ]
    return float(np.mean(holds))
