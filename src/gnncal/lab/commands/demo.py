"""``gnncal demo``: from logits to decisions on real data, in seconds and without a download."""

from __future__ import annotations

from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gnncal.cli.terminal import err, note, out, print_json, print_written, staged_folder, to_json
from gnncal.core.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from rich.table import Table

    from gnncal.decisions import ClassPolicy
    from gnncal.files import Bundle
    from gnncal.pipeline import Calibration

METHODS = ("uncalibrated", "ts", "hots", "structural", "structural-free")
SHOWN, REFERENCE, FREE = "structural", "ts", "structural-free"
POSITIVE = "8"
REPORT = "report.html"
FILES = (
    "bundle.npz",
    "calibrator.safetensors",
    "policy.safetensors",
    "probabilities.npz",
    REPORT,
    "results.json",
)
DEFAULT_NODES = 6000


def demo(
    folder: Annotated[Path, typer.Option("--out", help="Folder for the results.")] = Path(
        "demo-output"
    ),
    block_model: Annotated[
        bool,
        typer.Option(
            "--block-model", help="A sampled graph with every method instead, about a minute."
        ),
    ] = False,
    nodes: Annotated[
        int | None,
        typer.Option(help="Number of nodes of the sampled graph.", show_default=str(DEFAULT_NODES)),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the sampled graph.", show_default="0")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Calibrate a model of handwritten digits, decide about one of them, and write a report.

    The data are real and come with scikit-learn: 1,797 images, each linked to its ten most similar
    (`gnncal.example()`). The folder gets the bundle, the probabilities, the calibrator, a policy
    for the digit 8, all results and a report to open in a browser.
    """
    if block_model:
        from gnncal.lab.commands.block_model import block_model as run

        run(folder, DEFAULT_NODES if nodes is None else nodes, seed or 0, as_json=json)
        return
    if nodes is not None or seed is not None:
        raise InputError("--nodes and --seed are about the sampled graph; add --block-model.")
    _digits(folder, as_json=json)
