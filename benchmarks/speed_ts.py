"""Temperature scaling against netcal, probmetrics and scikit-learn, on the same logits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import gnncal
from speed_data import Floats, Integers, overconfident_logits
from speed_report import Report, in_turn


def bench_ts(report: Report) -> None:
    print("  scikit-learn: its solver class, without CalibratedClassifierCV around it; netcal: on")
    print("  float64 probabilities, as its finite differences return T = 1 in float32")
    for n, n_classes, rounds in ((2_000, 7, 61), (20_000, 40, 15)):
        generator = np.random.default_rng(0)
        labels = generator.integers(n_classes, size=n)
        logits = overconfident_logits(labels, generator.random(n), n_classes, generator)
        contestants = temperature_fits(logits, labels)
        temperatures = {name: run() for name, run in contestants.items()}
        seconds = in_turn(contestants, rounds)
        gaps = {name: abs(np.log(T / temperatures["gnncal"])) for name, T in temperatures.items()}
        for name in contestants:
            ratio = seconds[name] / seconds["gnncal"]
            report.add(
                f"{n} x {n_classes}: {name:13}{1e3 * seconds[name]:9.2f} ms, {ratio:6.2f} times "
                f"gnncal's, T = {temperatures[name]:.5f}, log T off by {gaps[name]:.1e}",
                name=name,
                nodes=n,
                n_classes=n_classes,
                seconds=seconds[name],
                ratio=ratio,
                temperature=temperatures[name],
                log_temperature_gap=gaps[name],
            )
        ours = seconds.pop("gnncal")
        fastest = min(seconds.values()) / ours
        report.target(f"ts {n} x {n_classes}: fastest other / gnncal", fastest, at_least=1)
        report.target(f"ts {n} x {n_classes}: gap in log T", max(gaps.values()), at_most=1e-3)


def temperature_fits(logits: Floats, labels: Integers) -> dict[str, Callable[[], float]]:
    """Each library's fit on the same float32 logits; it returns T."""
    import torch
    from sklearn.calibration import _TemperatureScaling

    fits: dict[str, Callable[[], float]] = {
        "gnncal": lambda: (
            gnncal.calibrators.TemperatureScaling().fit(logits, labels).base_temperature_
        ),
        "scikit-learn": lambda: float(1 / _TemperatureScaling().fit(logits, labels).beta_),
    }
    try:
        from netcal.scaling import TemperatureScaling

        probs = gnncal.calibrators.softmax(logits.astype(np.float64))
        # What netcal calls the temperature multiplies the logits.
        fits["netcal"] = lambda: float(1 / TemperatureScaling().fit(probs, labels).temperature[0])
    except ImportError as error:
        print(f"  netcal is left out: {error}")
    try:
        from probmetrics.calibrators import TemperatureScalingCalibrator
        from probmetrics.distributions import CategoricalLogits

        scores, classes = CategoricalLogits(torch.from_numpy(logits)), torch.from_numpy(labels)
        fits["probmetrics"] = lambda: float(
            1 / TemperatureScalingCalibrator().fit_torch(scores, classes).invtemp_
        )
    except ImportError as error:
        print(f"  probmetrics is left out: {error} (its calibrators need numba)")
    return fits
