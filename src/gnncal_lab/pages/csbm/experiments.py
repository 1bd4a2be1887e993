"""The names of the block-model experiments, in the order of the page.

Importing this file loads no experiment, so that the command line can print its help at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from gnncal.data.errors import InputError

if TYPE_CHECKING:
    from gnncal_lab.pages.csbm.experiment import Experiment

# Each name is a file of this folder that defines EXPERIMENT.
NAMES = (
    "posterior",
    "necessity",
    "sweep",
    "attenuation",
    "entropy",
    "kl",
    "hots",
    "leak",
    "limit",
    "sufficiency",
)


def get_experiment(name: str) -> Experiment:
    """Import an experiment by its name."""
    if name not in NAMES:
        raise InputError(
            f"unknown experiment {name!r}; expected one of {', '.join(NAMES)}; or all."
        )
    experiment: Experiment = import_module(f"gnncal_lab.pages.csbm.{name}").EXPERIMENT
    return experiment
