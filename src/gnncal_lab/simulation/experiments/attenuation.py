"""Proposition 2 and figure (b): noise in the homophily pulls the exponent towards zero."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gnncal.data.arrays import FloatArray, IntArray
from gnncal.data.probability import normalised_homophily, softmax
from gnncal.math.losses import TemperatureLoss
from gnncal.math.solvers import newton
from gnncal_lab.simulation.csbm import CSBM
from gnncal_lab.simulation.estimate import Estimate, check_seeds, over_seeds
from gnncal_lab.simulation.streams import stream

MODEL = CSBM(separation=1.0)
LOWEST, HIGHEST = (
    0.5,
    0.9,
)  # homophily is uniform between: Var(u) = 0.054, the paper's figure implies 0.056
NOISE = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5)
EPSILON = 0.02
EXPONENT_RANGE = (-10.0, 10.0)
PAPER_EXPONENTS = {0.0: 1.009, 0.5: 0.182}  # by tau


@dataclass(frozen=True)
class AttenuationRecord:
    """The exponent alpha of T ~ (|h~| + epsilon)^-alpha, fitted to a noisy log signal."""

    model: CSBM
    n_nodes: int
    n_seeds: int
    signal_variance: float  # Var(u), u = ln(|h~| + epsilon)
    noise: FloatArray  # (n_noise,) tau
    formula: FloatArray  # (n_noise,) Var(u) / (Var(u) + tau^2)
    least_squares: Estimate  # (n_noise,) of ln T* = a - u on the noisy signal: the proposition
    cross_entropy: Estimate  # (n_noise,) maximum likelihood, labels drawn at T* = e^a / (h~ + eps)
    bayes: Estimate  # (n_noise,) maximum likelihood, labels of the CSBM itself
    bayes_limit: float  # mean of -d ln T_Bayes / du = d (h~ + epsilon) / (1 + d h~)
    paper: dict[float, float]  # by tau


def attenuation(
    *,
    model: CSBM = MODEL,
    noise: tuple[float, ...] = NOISE,
    n_nodes: int = 10_000,
    n_seeds: int = 20,
) -> AttenuationRecord:
    """Fit the exponent three ways at every noise level."""
    check_seeds(n_seeds)
    runs = np.array([_exponents(model, noise, n_nodes, seed) for seed in range(n_seeds)])
    least_squares, cross_entropy, bayes = np.moveaxis(runs, 2, 0)
    grid = normalised_homophily(np.linspace(LOWEST, HIGHEST, 100_001), model.n_classes)
    variance = float(np.log(grid + EPSILON).var())
    tau = np.array(noise)
    local = model.mean_degree * (grid + EPSILON) / (1.0 + model.mean_degree * grid)
    return AttenuationRecord(
        model=model,
        n_nodes=n_nodes,
        n_seeds=n_seeds,
        signal_variance=variance,
        noise=tau,
        formula=variance / (variance + tau**2),
        least_squares=over_seeds(least_squares),
        cross_entropy=over_seeds(cross_entropy),
        bayes=over_seeds(bayes),
        bayes_limit=float(local.mean()),
        paper=PAPER_EXPONENTS,
    )


def _exponents(
    model: CSBM, noise: tuple[float, ...], n_nodes: int, seed: int
) -> list[tuple[float, float, float]]:
    generator = stream("attenuation", seed)
    h = generator.uniform(LOWEST, HIGHEST, n_nodes)
    sample = model.sample_population(h, random_state=seed)
    signal = normalised_homophily(h, model.n_classes) + EPSILON
    u = np.log(signal)
    scale = np.exp(np.mean(u + np.log(model.bayes.temperature(h))))
    planted = _draw(softmax(sample.scores, scale / signal), generator)
    disturbance = generator.normal(size=n_nodes)
    found = []
    for tau in noise:
        seen = u + tau * disturbance
        least_squares = float(np.cov(seen, u)[0, 1] / seen.var(ddof=1))
        found.append(
            (
                least_squares,
                power_law_exponent(sample.scores, planted, seen),
                power_law_exponent(sample.scores, sample.labels, seen),
            )
        )
    return found


def power_law_exponent(scores: FloatArray, labels: IntArray, log_signal: FloatArray) -> float:
    """alpha of T = exp(a - alpha u) at the lowest mean log loss."""
    loss = TemperatureLoss(scores, labels)
    design = np.stack([np.ones_like(log_signal), -log_signal], axis=1)  # d ln T / d(a, alpha)

    def derivatives(theta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        temperature = np.exp(theta @ design.T)  # (1, n)
        value, slope, curvature = loss.derivatives(temperature)
        by_log = curvature * temperature**2 + slope * temperature
        hessian = np.einsum("ip,si,iq->spq", design, by_log, design)
        return value, (slope * temperature) @ design, hessian

    low, high = np.repeat(np.array(EXPONENT_RANGE)[:, None], 2, axis=1)
    start = np.array([[np.log(1.0 / scores.std()), 0.0]])
    (found,) = newton(derivatives, start, low, high)
    return float(found.parameters[1])


def _draw(probs: FloatArray, generator: np.random.Generator) -> IntArray:
    """Draw a class for each row from its probabilities."""
    chance = generator.random((len(probs), 1))
    return (chance > np.cumsum(probs, axis=1)[:, :-1]).sum(axis=1)
