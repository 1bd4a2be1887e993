"""The two approximations behind HoTS's numerator and denominator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, log_ndtr

from gnncal.data.arrays import FloatArray
from gnncal.data.probability import concentration, normalised_homophily
from gnncal.metrics import METRICS, expected_calibration_error
from gnncal_lab.simulation.csbm import CSBM
from gnncal_lab.simulation.estimate import (
    Estimate,
    check_seeds,
    fit_temperature,
    log_slope,
    over_seeds,
)
from gnncal_lab.simulation.streams import stream

MODEL = CSBM(n_classes=2, n_features=2, separation=1.0)
CLASSES = (2, 3, 5, 10, 40)
SCALES = tuple(np.geomspace(0.01, 10.0, 25).tolist())
LOCAL_SCALE = 0.2  # |z|/sqrt(K) up to which the remainder's order is fitted
SLOPE = float(np.pi / np.sqrt(3.0))
HOMOPHILY = tuple(np.linspace(0.5, 1.0, 26).tolist())
TABLE = (0.0, 0.1, 0.2, 0.3, 0.4, 0.45, 0.5, 0.55, 0.6, 0.7, 0.8, 0.9, 1.0)


@dataclass(frozen=True)
class ReliabilityTable:
    """q(h), how often the class with the highest template score is the right one; two classes."""

    homophily: FloatArray  # (n_rows,)
    q: FloatArray  # (n_rows,) Phi(Gamma(h) / sqrt v)
    measured: Estimate  # (n_rows,) share of drawn nodes whose arg max s is their class
    logit_q: FloatArray  # (n_rows,)
    linear: FloatArray  # (n_rows,) pi Gamma(h) / sqrt(3 v)
    large_degree: FloatArray  # (n_rows,) pi Gamma_0 h~ / sqrt(3 v), the paper's last step


@dataclass(frozen=True)
class MatchRecord:
    """Two classes: T_match = delta / logit q(h), with logit Phi(x) exact or replaced by a line."""

    model: CSBM
    x: FloatArray  # (n_x,) Gamma / sqrt v
    exact: FloatArray  # (n_x,) logit Phi(x)
    linear: FloatArray  # (n_x,) pi x / sqrt 3
    homophily: FloatArray  # (n_h,)
    logit_q: FloatArray  # (n_h,) logit q(h)
    linear_q: FloatArray  # (n_h,) pi Gamma(h) / sqrt(3 v)
    large_degree_q: FloatArray  # (n_h,) pi Gamma_0 h~ / sqrt(3 v), the paper's last step
    nll: dict[str, Estimate]  # of each temperature, homophily uniform over the same range
    ece: dict[str, Estimate]


@dataclass(frozen=True)
class EntropyRecord:
    """|z| of centred logits in random directions, against sqrt(2 K ln K (1 - e))."""

    n_directions: int
    n_seeds: int
    n_classes: tuple[int, ...]
    scale: FloatArray  # (n_scales,) |z| / sqrt(K), a typical logit
    certainty: FloatArray  # (n_K, n_scales) mean of 1 - e
    error: FloatArray  # (n_K, n_scales) mean of |proxy / |z| - 1|
    order: Estimate  # (n_K,) r of | |z| - proxy | ~ (1 - e)^r for small z
    match: MatchRecord
    reliability: ReliabilityTable


def entropy(
    *,
    n_classes: tuple[int, ...] = CLASSES,
    scales: tuple[float, ...] = SCALES,
    model: CSBM = MODEL,
    n_directions: int = 500,
    n_nodes: int = 10_000,
    n_seeds: int = 20,
) -> EntropyRecord:
    """Measure how good the concentration proxy and the logistic-probit line are."""
    check_seeds(n_seeds)
    scale = np.array(scales)
    runs = [
        [_expansion(k, scale, n_directions, seed) for k in n_classes] for seed in range(n_seeds)
    ]
    certainty, error, order = (
        np.array([[run[part] for run in by_class] for by_class in runs]) for part in range(3)
    )
    return EntropyRecord(
        n_directions=n_directions,
        n_seeds=n_seeds,
        n_classes=n_classes,
        scale=scale,
        certainty=certainty.mean(axis=0),
        error=error.mean(axis=0),
        order=over_seeds(order),
        match=_match(model, n_nodes, n_seeds),
        reliability=_reliability(model, n_nodes, n_seeds),
    )


def _expansion(
    n_classes: int, scale: FloatArray, n_directions: int, seed: int
) -> tuple[FloatArray, FloatArray, float]:
    """Mean 1 - e, mean relative error and order of the remainder over random directions."""
    directions = stream("directions", seed).normal(size=(n_directions, n_classes))
    directions -= directions.mean(axis=1, keepdims=True)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    length = scale * np.sqrt(n_classes)
    certainty = np.stack([uncertainty_lost(r * directions) for r in length])  # (n_scales, n)
    proxy = concentration(1.0 - certainty, n_classes)
    remainder = np.abs(proxy - length[:, None]).mean(axis=1)
    local = scale <= LOCAL_SCALE
    order = log_slope(certainty.mean(axis=1)[local], remainder[local])
    return certainty.mean(axis=1), remainder / length, order


def uncertainty_lost(logits: FloatArray) -> FloatArray:
    """1 - e = KL(softmax(z) || uniform) / ln K, without the cancellation of 1 - H / ln K."""
    n_classes = logits.shape[1]
    log_mean = np.log1p(np.expm1(logits).mean(axis=1))
    weights = np.exp(logits - log_mean[:, None]) / n_classes
    return (np.einsum("ik,ik->i", weights, logits) - log_mean) / np.log(n_classes)


def logit_normal(x: FloatArray) -> FloatArray:
    """logit Phi(x) = ln Phi(x) - ln Phi(-x), exact in the tails."""
    return np.asarray(log_ndtr(x) - log_ndtr(-x))


def _match(model: CSBM, n_nodes: int, n_seeds: int) -> MatchRecord:
    bayes, h = model.bayes, np.array(HOMOPHILY)
    x = np.linspace(0.0, 4.0, 81)
    root = np.sqrt(bayes.v)
    scored = [_match_scores(model, n_nodes, seed) for seed in range(n_seeds)]
    nll, ece = (
        {name: over_seeds(np.array([run[name][part] for run in scored])) for name in scored[0]}
        for part in (0, 1)
    )
    return MatchRecord(
        model=model,
        x=x,
        exact=logit_normal(x),
        linear=SLOPE * x,
        homophily=h,
        logit_q=logit_normal(bayes.signal(h) / root),
        linear_q=SLOPE * bayes.signal(h) / root,
        large_degree_q=_large_degree_logit(model, h),
        nll=nll,
        ece=ece,
    )


def _reliability(model: CSBM, n_nodes: int, n_seeds: int) -> ReliabilityTable:
    """Tabulate q(h), its two approximations, and how often drawn nodes are right."""
    bayes, h = model.bayes, np.array(TABLE)
    draws = [
        model.sample_population(np.repeat(h, n_nodes), random_state=seed) for seed in range(n_seeds)
    ]
    right = [(d.scores.argmax(axis=1) == d.labels).reshape(h.size, n_nodes) for d in draws]
    argument = bayes.signal(h) / np.sqrt(bayes.v)
    return ReliabilityTable(
        homophily=h,
        q=bayes.correctness(h),
        measured=over_seeds(np.stack(right).mean(axis=2)),
        logit_q=logit_normal(argument),
        linear=SLOPE * argument,
        large_degree=_large_degree_logit(model, h),
    )


def _large_degree_logit(model: CSBM, homophily: FloatArray) -> FloatArray:
    """Pi Gamma_0 h~ / sqrt(3 v): logit q(h) by the line, with the own feature left out."""
    bayes = model.bayes
    gamma_0 = bayes.rho_0 * bayes.mean_degree / (bayes.mean_degree + 1.0)
    return SLOPE * gamma_0 * normalised_homophily(homophily, 2) / np.sqrt(bayes.v)


def _match_scores(model: CSBM, n_nodes: int, seed: int) -> dict[str, tuple[float, float]]:
    """NLL and ECE of each way to choose the temperature of two-class template scores."""
    bayes = model.bayes
    h = stream("homophily", seed).uniform(HOMOPHILY[0], HOMOPHILY[-1], n_nodes)
    sample = model.sample_population(h, random_state=seed)
    gap = np.abs(sample.scores[:, 0] - sample.scores[:, 1])  # delta
    confidence = {
        "bayes": expit(gap * bayes.inverse_temperature(h)),
        "match": bayes.correctness(h),  # sigma(delta / T_match) = q(h)
        "match, linear": expit(SLOPE * bayes.signal(h) / np.sqrt(bayes.v)),
        "ts": expit(gap / fit_temperature(sample.scores, sample.labels)[0]),
    }
    correct = sample.scores.argmax(axis=1) == sample.labels
    outcome = np.where(correct, 1, 0)
    found = {}
    for name, p in confidence.items():
        probs = np.stack([1.0 - p, p], axis=1)
        found[name] = (
            METRICS["nll"](outcome, probs),
            expected_calibration_error(outcome, probs),
        )
    return found
