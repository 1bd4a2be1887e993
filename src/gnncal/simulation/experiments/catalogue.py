"""Every experiment by name, with a small size for a first look."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gnncal.core.errors import InputError
from gnncal.simulation.experiments.attenuation import attenuation
from gnncal.simulation.experiments.entropy import entropy
from gnncal.simulation.experiments.hots import hots
from gnncal.simulation.experiments.kl import kl
from gnncal.simulation.experiments.leak import leak
from gnncal.simulation.experiments.necessity import necessity
from gnncal.simulation.experiments.posterior import posterior
from gnncal.simulation.experiments.sweep import sweep


@dataclass(frozen=True)
class Experiment:
    """A function of keyword arguments that returns a frozen record; defaults are full size."""

    run: Callable[..., Any]
    small: dict[str, Any]  # arguments that make it finish in a second or two


EXPERIMENTS = {
    "posterior": Experiment(posterior, {"n_nodes": 1000, "n_seeds": 3}),
    "necessity": Experiment(necessity, {"n_nodes": 1000, "n_seeds": 3}),
    "sweep": Experiment(sweep, {"n_nodes": 1000, "n_seeds": 3}),
    "attenuation": Experiment(attenuation, {"n_nodes": 4000, "n_seeds": 3}),
    "entropy": Experiment(entropy, {"n_directions": 100, "n_nodes": 2000, "n_seeds": 3}),
    "kl": Experiment(
        kl,
        {
            "n_sweep": (2000, 4000, 8000),
            "d_sweep": (6.0, 12.0, 24.0),
            "k_sweep": (3, 6, 8, 12),
            "per_class_sweep": (3, 6, 12),
            "n_nodes": 4000,
            "per_class": 500,
            "n_centres": 200,
            "n_seeds": 3,
        },
    ),
    "hots": Experiment(hots, {"n_nodes": 1500, "n_seeds": 2}),
    "leak": Experiment(leak, {"n_nodes": 1000, "n_seeds": 3}),
}


def run_experiment(name: str, *, small: bool = False, n_seeds: int | None = None) -> Any:
    """The record of an experiment, at full or small size, with its own or another seed count."""
    if name not in EXPERIMENTS:
        names = ", ".join(EXPERIMENTS)
        raise InputError(f"there is no experiment {name!r}; expected one of {names}.")
    experiment = EXPERIMENTS[name]
    options = dict(experiment.small) if small else {}
    if n_seeds is not None:
        options["n_seeds"] = n_seeds
    return experiment.run(**options)
