"""``gnncal bench``: run the paper's experiments, and make its tables and figures."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from gnncal.cli.terminal import err, note, print_json, print_result, say
from gnncal.data.checks import plain_name, suggestion
from gnncal.data.errors import InputError, short_repr
from gnncal.files.output import check_file, check_folder

if TYPE_CHECKING:
    from gnncal_lab.bench.logits import BundledLogits
    from gnncal_lab.bench.plan import Task
    from gnncal_lab.bench.results import Selection
    from gnncal_lab.bench.runner import Outcome, Watch

MOST_SEEDS = 1000  # in one command; a plan lists all of its cells

app = typer.Typer(
    no_args_is_help=True, help="Run the paper's experiments; make tables and figures."
)

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the records.")]
Seeds = Annotated[str, typer.Option(help="Number of seeds, or a range such as 3:10.")]
Jobs = Annotated[int, typer.Option(help="Number of processes.")]
Bundles = Annotated[
    Path | None, typer.Option(help="Folder of bundles DATASET-BACKBONE-SEED.npz with your logits.")
]
Selected = Annotated[
    str, typer.Option(help="Names, separated by commas; default: all that have records.")
]
Root = Annotated[Path | None, typer.Option(help="Folder of the datasets.")]
Json = Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")]


def run(
    folder: Annotated[Path, typer.Option("--out", help="Folder of the records.")],
    datasets: Annotated[str, typer.Option(help="Names, separated by commas, or all.")] = "all",
    backbones: Annotated[
        str | None,
        typer.Option(
            help="Names, separated by commas, or all; default: gcn,gat, or those of --bundles."
        ),
    ] = None,
    methods: Annotated[
        str,
        typer.Option(
            help="Comma-separated methods, or all, paper (the paper's) or few (few parameters)."
        ),
    ] = "all",
    seeds: Annotated[
        str | None,
        typer.Option(
            help="Number of seeds, or a range such as 3:10; default: 10, or those of --bundles."
        ),
    ] = None,
    protocol: Annotated[
        list[str] | None,
        typer.Option(help="paper (stopped early) or converged fits; default: both."),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(help="Number of processes; default: 1, or all workers of the engine."),
    ] = None,
    engine: Annotated[str | None, typer.Option(help="Cluster engine: dask or ray.")] = None,
    root: Root = None,
    bundles: Bundles = None,
    again: Annotated[bool, typer.Option(help="Also compute cells that have a record.")] = False,
    json: Json = False,
) -> None:
    """Run every method on every dataset, backbone and seed.

    Each combination is a cell with one record. An interrupted run continues where it stopped.
    """
    from gnncal_lab.bench.logits import BundledLogits, LogitProvider, TrainedLogits
    from gnncal_lab.bench.plan import PROTOCOLS, Plan, choose_methods
    from gnncal_lab.bench.runner import run_plan

    check_folder(folder)  # lines are only added, so the bundles may lie inside
    bundled = None if bundles is None else BundledLogits(bundles)
    provider: LogitProvider = bundled or TrainedLogits(folder / "logits", root)
    found = None if bundled is None else _bundled_tasks(bundled)
    unknown = sorted(set(protocol or []) - set(PROTOCOLS))
    if unknown:
        raise InputError(f"--protocol is {unknown[0]!r}; expected {' or '.join(PROTOCOLS)}.")
    plan = Plan(
        datasets=_datasets(datasets, found),
        backbones=_backbones(backbones, found),
        seeds=_seeds(seeds, found),
        methods=choose_methods(_some_names("--methods", methods)),
        protocols=[p for p in PROTOCOLS if p in (protocol or PROTOCOLS)],
        tasks=found if (datasets, backbones, seeds) == ("all", None, None) else None,
    )
    with _progress() as watch:
        outcome = run_plan(
            plan,
            provider,
            folder,
            jobs=jobs,
            engine=engine,  # type: ignore[arg-type]
            again=again,
            command=_command(),
            watch=watch,
        )
    if json:
        print_json(outcome)
    else:
        say(
            f"{outcome.computed} cells computed, {outcome.recorded_before} recorded before, "
            f"{outcome.failed} failed; records in {folder}"
        )
    _exit_if_failed(outcome, "cells")


def tables(
    folder: Folder,
    reference: Annotated[
        str, typer.Option(help="The method that the others are tested against.")
    ] = "hots",
    datasets: Selected = "",
    backbones: Selected = "",
    methods: Annotated[
        str, typer.Option(help="Names or groups, as in run; default: all that have records.")
    ] = "",
    seeds: Annotated[str, typer.Option(help="A range such as 5:10; default: all.")] = "",
    destination: Annotated[
        Path | None, typer.Option("--out", help="Folder of the tables; default: DIR/tables.")
    ] = None,
    json: Json = False,
) -> None:
    """Write every table of the HoTS paper from the records of DIR."""
    from gnncal_lab.bench.tables.collection import all_tables
    from gnncal_lab.pages.bench.tables import write_tables

    place = folder / "tables" if destination is None else destination
    if folder.is_dir() or destination is not None:  # else there are no records, which is said below
        check_folder(place, inputs=[folder])
    wanted = _selection(datasets, backbones, methods, seeds)
    found = list(all_tables(folder, plain_name(reference), wanted))
    files = write_tables(found, place)
    if json:
        print_json({"folder": str(place), "files": files})
        return
    say(f"{len(found)} tables in {place}; its README.md has all of them")
    overviews = [name for name in files if name.startswith("overview") and name.endswith(".md")]
    if overviews:
        say(f"every method side by side: {', '.join(overviews)}")


def paper(folder: Folder, datasets: Selected = "", json: Json = False) -> None:
    """Print the ECE of the records in DIR next to table 1 of the HoTS paper."""
    from gnncal_lab.bench.published import METHODS
    from gnncal_lab.bench.results import read_results
    from gnncal_lab.bench.tables.paper import main_ece

    found = read_results(folder, _selection(datasets, "gcn,gat", "paper", ""))
    if "paper" not in found:
        raise InputError(f"{folder} has no records of the paper's protocol; run bench run first.")
    names = {ours: theirs for theirs, ours in METHODS.items()}
    table = main_ece(found["paper"])
    if json:
        print_json(table)
        return
    say("Table 1: ECE % over GCN and GAT, mean ± standard deviation over seeds")
    say(f"{'dataset':14s} {'method':8s} {'gnncal':>14s} {'paper':>14s}")
    averages = 2 if len(table.rows) == 3 else 0  # of one dataset they repeat its row
    for row in table.rows[: len(table.rows) - averages]:
        for column, entry in zip(table.columns, row.entries, strict=True):
            pairs = (entry.value, entry.spread), (entry.published, entry.published_spread)
            cells = " ".join(_mean_and_spread(*pair) for pair in pairs)
            say(f"{row.name:14s} {names[column]:8s} {cells}")


def _mean_and_spread(mean: float, spread: float) -> str:
    known = "" if math.isnan(spread) else f" ± {spread:.2f}"
    return f"{'–' if math.isnan(mean) else f'{mean:.2f}{known}':>14s}"


def diagnose(
    folder: Folder,
    backbone: Annotated[str, typer.Option(help="The classifier to diagnose.")] = "gcn",
    root: Root = None,
    bundles: Bundles = None,
    json: Json = False,
) -> None:
    """Correlate statistics of the graph structure with correct predictions."""
    from gnncal_lab.bench.diagnosis import diagnose as run_diagnosis
    from gnncal_lab.bench.logits import BundledLogits, LogitProvider, TrainedLogits
    from gnncal_lab.bench.records import read_records

    provider: LogitProvider = (
        BundledLogits(bundles) if bundles else TrainedLogits(folder / "logits", root)
    )
    seeds: dict[str, set[int]] = {}
    for cell, record in read_records(folder).items():
        if cell.backbone == backbone and record.error is None:
            seeds.setdefault(cell.dataset, set()).add(cell.seed)
    if not seeds:
        raise InputError(f"{folder} has no records of {backbone}; make some with bench run.")
    with err.status("diagnosing") as status:
        done = run_diagnosis(
            folder,
            provider,
            backbone,
            {dataset: sorted(numbers) for dataset, numbers in seeds.items()},
            command=_command(),
            watch=lambda dataset: status.update(f"diagnosing {dataset}"),
        )
    if json:
        print_json({"diagnosed": done, "datasets": list(seeds)})
        return
    say(f"{len(done)} datasets diagnosed, {len(seeds) - len(done)} before; records in {folder}")


def perturb(
    folder: Annotated[Path, typer.Option("--out", help="Folder of the records.")],
    datasets: Annotated[
        str, typer.Option(help="Names, separated by commas; default: the paper's five.")
    ] = "",
    backbone: Annotated[str, typer.Option(help="The classifier.")] = "gcn",
    seeds: Seeds = "5",
    jobs: Jobs = 1,
    root: Root = None,
    json: Json = False,
) -> None:
    """Fit TS and HoTS again after edges are added or removed.

    The classifier is not trained again; it runs on each changed graph.
    """
    from gnncal_lab.bench.perturbation import DATASETS, run_perturbation
    from gnncal_lab.bench.plan import Task

    check_folder(folder)
    names = _datasets(datasets, None) if datasets else list(DATASETS)
    tasks = [Task(name, backbone, seed) for name in names for seed in _seeds(seeds)]
    with err.status("perturbing") as status:
        outcome = run_perturbation(
            folder,
            tasks,
            root=root,
            jobs=jobs,
            command=_command(),
            watch=lambda done, total: status.update(f"perturbing, {done} of {total}"),
        )
    if json:
        print_json(outcome)
    else:
        say(
            f"{outcome.computed} classifiers perturbed, {outcome.recorded_before} before; "
            f"records in {folder}"
        )
    _exit_if_failed(outcome, "classifiers")


def figures(folder: Folder, json: Json = False) -> None:
    """Draw the paper's figures from the records in DIR.

    Writes DIR/figures; some figures need `gnncal bench diagnose` first.
    """
    from gnncal_lab.pages.bench.figures import save_figures

    files = save_figures(folder)
    if json:
        print_json({"folder": str(folder / "figures"), "files": files})
        return
    say(f"written to {folder / 'figures'}: {', '.join(files)}")


def report(
    folder: Folder,
    page: Annotated[Path, typer.Option("--out", help="HTML file to write.")] = Path(
        "leaderboard.html"
    ),
    datasets: Selected = "",
    backbones: Selected = "",
    methods: Annotated[
        str, typer.Option(help="Names or groups, as in run; default: all that have records.")
    ] = "",
    seeds: Annotated[str, typer.Option(help="A range such as 5:10; default: all.")] = "",
    title: Annotated[str, typer.Option(help="Heading of the page.")] = "Calibration benchmark",
    json: Json = False,
) -> None:
    """Write an interactive leaderboard of the records in DIR.

    The file needs no network. In the browser you choose metric, protocol, backbones, graphs and
    methods; ranks and critical differences are computed for this choice.
    """
    from gnncal.files.output import seal, write_file
    from gnncal_lab.bench.leaderboard import make_leaderboard
    from gnncal_lab.pages.leaderboard.contents import render_leaderboard

    check_file(page, inputs=[folder])
    board = make_leaderboard(folder, _selection(datasets, backbones, methods, seeds))
    html = render_leaderboard(board, title=title, command=_command())
    write_file(page, seal(html))
    n_records = sum(len(cell.seeds) for cell in board.cells)
    print_result(
        f"methods: {len(board.methods)}, graphs: {len(board.graphs)}, records: {n_records:,}",
        {"page": str(page), "methods": board.methods, "records": n_records},
        as_json=json,
        written=page,
    )


for verb in (run, paper, tables, figures, report, diagnose, perturb):
    app.command()(verb)


def _exit_if_failed(outcome: Outcome, what: str) -> None:
    if outcome.failed:
        failed = f"{outcome.failed} of {outcome.computed} {what} failed"
        note(f"{failed}, the first of them {outcome.first_failure}")
        raise typer.Exit(1)


def _command() -> str:
    """Return the command as one would type it in a shell."""
    return shlex.join(["gnncal", *sys.argv[1:]])


def _selection(datasets: str, backbones: str, methods: str, seeds: str) -> Selection:
    """Return which records to look at; an empty text means all."""
    from gnncal_lab.bench.plan import choose_methods
    from gnncal_lab.bench.results import Selection

    return Selection(
        tuple(_names(datasets)),
        tuple(_names(backbones)),
        tuple(choose_methods(_names(methods))),
        tuple(_seeds(seeds)) if seeds else (),
    )


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _some_names(option: str, text: str) -> list[str]:
    names = list(dict.fromkeys(_names(text)))
    if not names:
        raise InputError(f"{option} is {text!r}; expected names separated by commas, or all.")
    return names


def _datasets(text: str, bundled: list[Task] | None) -> list[str]:
    from gnncal_lab.datasets.graphs import list_datasets, official_name

    names = _some_names("--datasets", text)
    if bundled is not None:
        return sorted({task.dataset for task in bundled}) if text == "all" else names
    return list_datasets() if text == "all" else list(dict.fromkeys(map(official_name, names)))


def _backbones(text: str | None, bundled: list[Task] | None) -> list[str]:
    from gnncal_lab.classifiers import list_classifiers
    from gnncal_lab.classifiers.treatments import TREATED

    if bundled is not None and text in (None, "all"):
        return sorted({task.backbone for task in bundled})
    if text == "all":
        return list_classifiers()
    names = _some_names("--backbones", "gcn,gat" if text is None else text)
    if bundled is not None:
        return names
    known = [*list_classifiers(), *TREATED]
    names = list(map(plain_name, names))
    for name in names:
        if name not in known:
            raise InputError(
                f"unknown backbone {name!r}{suggestion(name, known)}; choose among "
                f"{', '.join(known)}."
            )
    return names


def _bundled_tasks(bundled: BundledLogits) -> list[Task]:
    tasks = bundled.tasks()
    if not tasks:
        raise InputError(
            f"{bundled.folder} has no files DATASET-BACKBONE-SEED.npz; name yours like "
            "mygraph-gcn-0.npz."
        )
    return tasks


def _seeds(text: str | None, bundled: list[Task] | None = None) -> list[int]:
    if text is None and bundled is not None:
        return sorted({task.seed for task in bundled})
    text = "10" if text is None else text
    first, _, last = text.rpartition(":")
    try:
        seeds = range(int(first or 0), int(last))
    except ValueError:
        seeds = range(0)
    if not seeds or seeds[0] < 0:
        raise InputError(
            f"--seeds is {short_repr(text)}; expected a number such as 10 or a range 3:10."
        )
    if seeds[-1] - seeds[0] >= MOST_SEEDS or seeds[-1] >= 2**32:
        raise InputError(
            f"--seeds is {short_repr(text)}; expected at most {MOST_SEEDS:,} seeds below 2**32; "
            "run one range after the other if there must be more."
        )
    return list(seeds)


@contextmanager
def _progress() -> Iterator[Watch]:
    """Show a bar on a terminal, or elsewhere a line whenever the work changes."""
    if not err.is_terminal:
        yield _stage_printer()
        return
    columns: list[Any] = [
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[left]}"),
    ]
    with Progress(*columns, console=err, transient=True) as bar:
        line = bar.add_task("starting", total=None, left="")

        def watch(progress: Any) -> None:
            failed = f", {progress.failed} failed" if progress.failed else ""
            bar.update(
                line,
                total=progress.total,
                completed=progress.done,
                description=progress.doing,
                left=_duration(progress.seconds_left) + failed,
            )

        yield watch


def _stage_printer() -> Watch:
    last = ""

    def watch(progress: Any) -> None:
        nonlocal last
        if progress.doing != last:
            last = progress.doing
            done = f"{progress.done} of {progress.total} cells"
            left = "" if progress.seconds_left is None else f", {_duration(progress.seconds_left)}"
            failed = f", {progress.failed} failed" if progress.failed else ""
            print(f"{progress.doing}, {done}{left}{failed}", file=sys.stderr, flush=True)

    return watch


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "measuring"
    if seconds < 90:
        return f"about {seconds:.0f} s left"
    if seconds < 5400:
        return f"about {seconds / 60:.0f} min left"
    return f"about {seconds / 3600:.1f} h left"
