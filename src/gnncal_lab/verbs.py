"""The laboratory's verbs; what they need is imported when they run."""

from __future__ import annotations

from collections.abc import Callable

import typer

from gnncal.cli import Command


def _bench() -> typer.Typer:
    from gnncal_lab.commands.bench import app

    return app


def _block_model() -> Callable[..., None]:
    from gnncal_lab.commands.block_model import block_model

    return block_model


def _csbm() -> Callable[..., None]:
    from gnncal_lab.commands.csbm import csbm

    return csbm


BENCH = Command("Run the paper's experiments; make tables and figures.", _bench)
BLOCK_MODEL = Command(
    "Calibrate a sampled graph with every method, and write a report.", _block_model
)
CSBM = Command("Run an experiment on the contextual stochastic block model.", _csbm)
