"""Proposition 1: without homophily a temperature leaves a gap, about a variance of 1/T*."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gnncal.data.arrays import FloatArray
from gnncal.data.probability import softmax
from gnncal_lab.simulation.bayes import BayesRule
from gnncal_lab.simulation.csbm import CSBM
from gnncal_lab.simulation.estimate import (
    Estimate,
    check_seeds,
    log_slope,
    over_seeds,
    score_variance,
)

MODEL = CSBM(separation=1.0)
SPREADS = (0.0, 0.02, 0.04, 0.06, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35)
LOCAL = 0.1  # spreads up to here count as small
BISECTIONS = 60


@dataclass(frozen=True)
class NecessityRecord:
    """Homophily is centre - spread or centre + spread, equally often. Gaps are in nats per node."""

    model: CSBM
    centre: float
    n_nodes: int
    n_seeds: int
    spread: FloatArray  # (n_spreads,)
    gap: Estimate  # (n_spreads,) best logit-only temperature against best (logit, h) temperature
    formula: Estimate  # (n_spreads,) half the curvature-weighted conditional variance
    ratio: Estimate  # (n_spreads,) formula / gap; NaN where both are zero
    one_temperature_gap: Estimate  # (n_spreads,) temperature scaling instead of logit-only
    # strictness: h stays uncertain given the scores, so almost every score vector has its own gap
    strict_share: FloatArray  # (n_spreads,) share of score vectors with Var(tau*(s, H) | s) > 0
    least_variance: FloatArray  # (n_spreads,) smallest Var(tau*(s, H) | s) at any score vector
    least_gap: FloatArray  # (n_spreads,) smallest gap at any score vector
    # exponent of the gap as a function of small spreads; the formula says 2; NaN below two spreads
    local_exponent: Estimate


def necessity(
    *,
    model: CSBM = MODEL,
    centre: float = 0.5,
    spreads: tuple[float, ...] = SPREADS,
    n_nodes: int = 5_000,
    n_seeds: int = 20,
) -> NecessityRecord:
    """Compute the cross-entropy that any logit-only temperature loses, and its formula."""
    check_seeds(n_seeds)
    model.bayes.check_positive([centre - max(spreads), centre + max(spreads)])
    gaps = np.array(
        [
            [_gaps(model, np.array([centre - e, centre + e]), n_nodes, seed) for e in spreads]
            for seed in range(n_seeds)
        ]
    )  # (n_seeds, n_spreads, 6)
    gap, formula, one_temperature, strict, variance, least = np.moveaxis(gaps, 2, 0)
    spread = np.array(spreads)
    small = (spread > 0) & (spread <= LOCAL)
    ratio = np.divide(formula, gap, out=np.full_like(gap, np.nan), where=spread > 0)
    slopes = np.array([log_slope(spread[small], row[small]) for row in gap])
    return NecessityRecord(
        model=model,
        centre=centre,
        n_nodes=n_nodes,
        n_seeds=n_seeds,
        spread=spread,
        gap=over_seeds(gap),
        formula=over_seeds(formula),
        ratio=over_seeds(ratio),
        one_temperature_gap=over_seeds(one_temperature),
        strict_share=strict.mean(axis=0),
        least_variance=variance.min(axis=0),
        least_gap=least.min(axis=0),
        local_exponent=over_seeds(slopes),
    )


def _gaps(model: CSBM, homophily: FloatArray, n_nodes: int, seed: int) -> tuple[float, ...]:
    """Return the exact gap, its formula and the gap of a single temperature, averaged over
    scores."""
    h = np.tile(homophily, n_nodes // len(homophily))
    scores = model.sample_population(h, random_state=seed).scores
    tau = model.bayes.inverse_temperature(homophily)  # (m,) tau*(s, h), which does not depend on s
    weights = homophily_given_scores(model.bayes, scores, homophily)  # (n, m)
    probs = np.stack([softmax(t * scores) for t in tau], axis=1)  # (n, m, K)
    mixed = np.einsum("nm,nmk,nk->n", weights, probs, scores)  # E[s_Y | s]
    bounds = float(tau.min()), float(tau.max())
    best = solve_tau(scores, mixed, *bounds)  # (n,) tau*(s)
    single = solve_tau(scores, mixed, *bounds, shared=True)
    curvature = np.stack([score_variance(scores, t) for t in tau], axis=1) * weights
    projected = curvature @ tau / curvature.sum(axis=1)
    formula = 0.5 * (curvature * (tau - projected[:, None]) ** 2).sum(axis=1)
    gap = _divergence(weights, probs, scores, best)
    mean = weights @ tau
    variance = (weights * (tau - mean[:, None]) ** 2).sum(axis=1)  # Var(tau*(s, H) | s)
    return (
        float(gap.mean()),
        float(formula.mean()),
        float(_divergence(weights, probs, scores, single).mean()),
        float((variance > 0).mean()),
        float(variance.min()),
        float(gap.min()),
    )


def homophily_given_scores(
    bayes: BayesRule, scores: FloatArray, homophily: FloatArray
) -> FloatArray:
    """P(H = h | s) for equally frequent values h; the scores' density is a Gaussian mixture."""
    tau = bayes.inverse_temperature(homophily)
    exponent = scores[:, None, :] * tau[:, None]  # (n, m, K)
    log_density = np.logaddexp.reduce(exponent, axis=2) - tau * bayes.signal(homophily) / 2.0
    return softmax(log_density)


def solve_tau(
    scores: FloatArray, target: FloatArray, low: float, high: float, *, shared: bool = False
) -> FloatArray:
    """Solve E_p[s] = target for tau in [low, high], p = softmax(tau s), in each row or for all."""
    lower, upper = np.full(len(scores), low), np.full(len(scores), high)
    for _ in range(BISECTIONS):
        middle = (lower + upper) / 2.0
        excess = np.einsum("nk,nk->n", softmax(middle[:, None] * scores), scores) - target
        too_high = np.full(len(scores), excess.mean() > 0) if shared else excess > 0
        lower, upper = np.where(too_high, lower, middle), np.where(too_high, middle, upper)
    return (lower + upper) / 2.0


def _divergence(
    weights: FloatArray, probs: FloatArray, scores: FloatArray, tau: FloatArray
) -> FloatArray:
    """E KL(p(s, H) || softmax(tau s)) given s: cross-entropy beyond the posterior's own entropy."""
    used = softmax(tau[:, None] * scores)[:, None, :]
    return np.einsum("nm,nmk,nmk->n", weights, probs, np.log(probs) - np.log(used))
