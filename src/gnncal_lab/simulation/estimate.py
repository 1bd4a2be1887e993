"""Numbers with their uncertainty, from repeating an experiment with other seeds."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import t as student

from gnncal.calibrators.base import AnyCalibrator
from gnncal.calibrators.temperature import TemperatureScaling
from gnncal.data.arrays import FloatArray, IntArray
from gnncal.data.errors import InputError
from gnncal.data.probability import softmax

NORMAL_QUANTILE = 1.959964  # of a two-sided 95% interval
N_RESAMPLES = 1000


@dataclass(frozen=True)
class Estimate:
    """A number, or an array of them, with a 95% interval."""

    value: FloatArray
    low: FloatArray
    high: FloatArray

    @classmethod
    def stack(cls, estimates: list[Estimate]) -> Estimate:
        """Combine several estimates into one that holds arrays."""
        return cls(
            np.array([e.value for e in estimates]),
            np.array([e.low for e in estimates]),
            np.array([e.high for e in estimates]),
        )


def check_seeds(n_seeds: int) -> None:
    """Raise an InputError unless there are at least two seeds, which an interval needs."""
    if n_seeds < 2:
        raise InputError(f"n_seeds is {n_seeds}; expected at least 2, for an interval.")


def over_seeds(values: FloatArray) -> Estimate:
    """Return the mean over the first axis with Student's interval."""
    n_seeds = len(values)
    mean = np.asarray(values.mean(axis=0))
    error = values.std(axis=0, ddof=1) / np.sqrt(n_seeds)
    margin = student.ppf(0.975, n_seeds - 1) * error
    return Estimate(mean, mean - margin, mean + margin)


def of_the_mean(values: FloatArray, statistic: Callable[[FloatArray], float]) -> Estimate:
    """A statistic of the mean over seeds (n_seeds, n), with the bootstrap's interval over seeds."""
    generator = np.random.default_rng(0)
    drawn = generator.integers(len(values), size=(N_RESAMPLES, len(values)))
    again = [statistic(values[rows].mean(axis=0)) for rows in drawn]
    low, high = np.quantile(again, [0.025, 0.975])
    return Estimate(np.asarray(statistic(values.mean(axis=0))), low, high)


def log_slope(x: FloatArray, y: FloatArray) -> float:
    """b of the least-squares line ln y = a + b ln x; NaN where fewer than two x differ."""
    if np.unique(x).size < 2:
        return float("nan")
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def fit_temperature(logits: FloatArray, labels: IntArray) -> tuple[float, float]:
    """Return temperature scaling's T on these rows and its mean log loss, without warnings."""
    fitted = fit_without_warnings(TemperatureScaling(), logits, labels)
    return fitted.base_temperature_, fitted.fit_report_.loss_after


def fit_inverse_temperature(scores: FloatArray, labels: IntArray) -> Estimate:
    """Return the signed tau that minimises the log loss of softmax(tau s), with its Wald
    interval."""
    (t_up, loss_up), (t_down, loss_down) = (
        fit_temperature(sign * scores, labels) for sign in (1.0, -1.0)
    )
    tau = 1.0 / t_up if loss_up <= loss_down else -1.0 / t_down
    margin = NORMAL_QUANTILE / np.sqrt(score_variance(scores, tau).sum())
    return Estimate(np.asarray(tau), np.asarray(tau - margin), np.asarray(tau + margin))


def score_variance(scores: FloatArray, tau: FloatArray | float) -> FloatArray:
    """Var_p(s) of each row under p = softmax(tau s); tau is one number, or one for each row."""
    probs = softmax(np.reshape(tau, (-1, 1)) * scores)
    mean = np.einsum("ik,ik->i", probs, scores)
    return np.einsum("ik,ik->i", probs, (scores - mean[:, None]) ** 2)


def fit_without_warnings(
    calibrator: AnyCalibrator, logits: Any, labels: Any, graph: Any = None, **splits: Any
) -> AnyCalibrator:
    """Call ``fit`` without warnings, where the caller judges the outcome by other means."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return calibrator.fit(logits, labels, graph, **splits)
