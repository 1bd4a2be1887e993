"""``gnncal csbm``: check the paper's theory on graphs whose true probabilities are known."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gnncal.cli.terminal import note, print_json, say, to_json
from gnncal.data.errors import MissingExtraError, require
from gnncal.data.tables import Table, text_cell
from gnncal.files.output import result_folder
from gnncal_lab.commands import with_bar
from gnncal_lab.pages.csbm.experiments import NAMES, get_experiment

if TYPE_CHECKING:
    from gnncal_lab.pages.csbm.experiment import Experiment

PAGE = "csbm.html"


def csbm(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help=f"One of {', '.join(NAMES)}; or all.")
    ],
    folder: Annotated[Path, typer.Option("--out", help="Folder for records and figures.")] = Path(
        "csbm-output"
    ),
    seeds: Annotated[
        int | None, typer.Option(help="Number of repetitions; default: that of the experiment.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Small sizes: a first look in seconds.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the record as JSON.")] = False,
) -> None:
    """Run an experiment on the contextual stochastic block model and draw what it shows.

    Begin with sweep (temperature against homophily), necessity (the cost of ignoring homophily)
    and hots (the share of this cost that HoTS avoids). docs/theory.md explains all experiments.

    Writes NAME.json and NAME.png. "all" runs every experiment and also writes csbm.html, a page
    with all statements and figures.
    """
    from gnncal import __version__
    from gnncal_lab.pages.csbm.page import csbm_page

    experiments = [get_experiment(each) for each in (NAMES if name == "all" else [name])]
    if name == "all":  # minutes of computing should not end in a missing package
        require("matplotlib", extra="report", purpose="the page of all experiments")
    now = [*_files([each.name for each in experiments]), PAGE]
    earlier = [*_files(NAMES), PAGE]
    with result_folder(folder, "csbm", adds=True, names=now, earlier=earlier) as staging:
        results = [
            (experiment, experiment.run(small=quick, n_seeds=seeds))
            for experiment in with_bar(experiments, "running")
        ]
        for experiment, record in results:
            (staging / f"{experiment.name}.json").write_text(to_json(record) + "\n")
            try:
                image = experiment.figure(record, image_format="png")
                (staging / f"{experiment.name}.png").write_bytes(image)
            except MissingExtraError as error:
                note(f"no figure: {error}")
        if name == "all":
            command = " ".join(
                ["gnncal csbm all", *([f"--seeds {seeds}"] if seeds else []), *["--quick"] * quick]
            )
            full_size = not quick and seeds is None
            page = csbm_page(results, version=__version__, command=command, full_size=full_size)
            (staging / PAGE).write_bytes(page.encode())
        files = sorted(file.name for file in staging.iterdir())
    if json:
        records = {experiment.name: record for experiment, record in results}
        print_json(records if name == "all" else records[name])
        return
    for result in results:
        say(_table(*result))
    say(f"written to {folder}: {', '.join(files)}")


def _files(names: Iterable[str]) -> list[str]:
    return [f"{name}.{ending}" for name in names for ending in ("json", "png")]


def _table(experiment: Experiment, record: Any) -> str:
    columns = ("quantity", "measured [95% interval]", "theory, paper or context")
    rows = [
        [text_cell(each) for each in (line.quantity, line.ours, line.reference)]
        for line in experiment.findings(record)
    ]
    return Table(f"{experiment.name}: {experiment.constants(record)}", columns, rows).as_text()
