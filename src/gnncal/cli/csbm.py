"""``gnncal csbm``: the paper's theory, checked on graphs whose probabilities are known."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import track

from gnncal.cli.terminal import (
    err,
    note,
    out,
    print_json,
    print_written,
    staged_folder,
    to_json,
)
from gnncal.core.errors import InputError, MissingExtraError, require

if TYPE_CHECKING:
    from rich.table import Table

# By hand, for the catalogue would load scipy before any --help; a test holds the two together.
NAMES = "posterior, necessity, sweep, attenuation, entropy, kl, hots, leak"


def csbm(
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"One of {NAMES}; or all.")],
    folder: Annotated[Path, typer.Option("--out", help="Folder for records and figures.")] = Path(
        "csbm-output"
    ),
    seeds: Annotated[
        int | None, typer.Option(help="Repetitions; by default the experiment's own.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Small sizes: a first look in seconds.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the record as JSON.")] = False,
) -> None:
    """Run an experiment on the contextual stochastic block model and draw what it shows.

    Writes NAME.json and NAME.png. "all" runs every experiment and adds csbm.html: one page with
    all figures inlined that explains each statement.
    """
    from gnncal import __version__
    from gnncal.report.csbm.figures import render
    from gnncal.report.csbm.page import csbm_page
    from gnncal.simulation.experiments.catalogue import EXPERIMENTS, run_experiment

    if name != "all" and name not in EXPERIMENTS:
        raise InputError(f"there is no experiment {name!r}; expected one of {NAMES}; or all.")
    names = list(EXPERIMENTS) if name == "all" else [name]
    if name == "all":  # minutes of computing should not end in a missing package
        require("matplotlib", extra="report", purpose="the page of all experiments")
    with staged_folder(folder) as staging:
        records = {
            each: run_experiment(each, small=quick, n_seeds=seeds)
            for each in track(
                names, "running", console=err, transient=True, disable=not err.is_terminal
            )
        }
        for each, record in records.items():
            (staging / f"{each}.json").write_text(to_json(record) + "\n")
            try:
                (staging / f"{each}.png").write_bytes(render(each, record, image_format="png"))
            except MissingExtraError as error:
                note(f"no figure: {error}")
        if name == "all":
            command = " ".join(
                ["gnncal csbm all", *([f"--seeds {seeds}"] if seeds else []), *["--quick"] * quick]
            )
            full_size = not quick and seeds is None
            page = csbm_page(records, version=__version__, command=command, full_size=full_size)
            (staging / "csbm.html").write_text(page)
        files = sorted(file.name for file in staging.iterdir())
    if json:
        print_json(records if name == "all" else records[name])
        return
    for each, record in records.items():
        out.print(_table(each, record))
    print_written(folder, files)


def _table(name: str, record: Any) -> Table:
    from gnncal.report.csbm.findings import constants, findings
    from gnncal.report.tables import plain_table

    table = plain_table(f"{name}: {constants(name, record)}")
    for column in ("quantity", "measured [95 % interval]", "theory, paper or context"):
        table.add_column(column)
    for line in findings(name, record):
        table.add_row(line.quantity, line.ours, line.reference)
    return table
