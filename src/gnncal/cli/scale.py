"""``gnncal scale``: calibrate a graph in Parquet files that need not fit in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from gnncal.cli.gates import NOTHING_CERTIFIED
from gnncal.cli.params import KeepPredictions, Overwrite, Positive, SummaryAsJson
from gnncal.cli.terminal import err, print_result
from gnncal.data.errors import InputError
from gnncal.files.saved_calibrators import FOREIGN
from gnncal.scale import calibrate

SECONDS_BETWEEN_LOOKS = 0.5


def scale(
    nodes: Annotated[
        str,
        typer.Argument(
            metavar="NODES", help="Parquet file, folder or glob of the nodes; s3:// works too."
        ),
    ],
    edges: Annotated[
        str,
        typer.Argument(metavar="EDGES", help="Parquet file, folder or glob of the edges."),
    ],
    folder: Annotated[
        str, typer.Option("--out", metavar="DIR", help="Folder or s3:// prefix for the results.")
    ],
    keep_predictions: KeepPredictions = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="A method that needs no more than a node and its neighbours, such as structural, "
            "structural-free (the default with --positive), hots, ts, hts or svs.",
            show_default="structural",
        ),
    ] = None,
    positive: Positive = None,
    calibrator: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Apply this saved calibrator instead of fitting one."),
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="policy.safetensors of decide: also say what to do with each node; needs "
            "--calibrator.",
        ),
    ] = None,
    engine: Annotated[str, typer.Option(help="duckdb or spark.")] = "duckdb",
    master: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Spark cluster, such as local[2] or spark://host:7077."),
    ] = None,
    memory_limit: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE", help="Memory to use, such as 4GiB; what does not fit goes to disk."
        ),
    ] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Number of threads.")] = None,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Also write the probability of every class.")
    ] = False,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out rows that cannot be used, and list them.")
    ] = False,
    overwrite: Overwrite = False,
    json: SummaryAsJson = False,
) -> None:
    """Calibrate a Parquet graph that may be larger than memory.

    NODES has the columns id, label, split and z0, z1, ... (or one list column logits); with
    --calibrator it needs neither label nor split. EDGES has src and dst. The folder gets
    probabilities/, calibrator.safetensors and metrics.json. The exit code is 3 if a policy
    guarantees nothing here.
    """
    if calibrator is not None and (method, keep_predictions) != (None, None):
        raise InputError(
            "--calibrator only applies, and --method, --keep-predictions and --free are about a "
            "fit; pass one of the two."
        )
    summary = calibrate(
        nodes,
        edges,
        folder,
        method=method,
        keep_predictions=keep_predictions,
        positive=positive,
        calibrator=calibrator,
        policy=policy,
        engine=engine,
        master=master,
        memory_limit=memory_limit,
        threads=threads,
        all_probabilities=probabilities,
        skip_bad=skip_bad,
        overwrite=overwrite,
        progress=_shown,
    )
    skipped = (
        f"left out {each['count']:,} rows of the {each['table']}: {each['reason']} "
        f"({', '.join(each['examples'])})"
        for each in summary.skipped
    )
    print_result(
        summary,
        summary,
        as_json=json,
        notes=[*skipped, *summary.notes],
        written=f"{folder}: probabilities/, calibrator.safetensors, metrics.json",
    )
    if FOREIGN in summary.notes:
        raise typer.Exit(NOTHING_CERTIFIED)


@contextmanager
def _shown(name: str, share: Callable[[], float | None]) -> Iterator[None]:
    """Show a stage on stderr: as a bar with the time left, and as a line when it ends."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
    from rich.progress import TimeRemainingColumn as TimeLeft

    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeLeft()
    start, ended = perf_counter(), threading.Event()
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task(name, total=None)

        def look() -> None:
            while not ended.wait(SECONDS_BETWEEN_LOOKS):
                if (done := share()) is not None:
                    bar.update(task, total=1.0, completed=done)

        watcher = threading.Thread(target=look, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()
    err.print(f"{name}: {perf_counter() - start:.1f} s", highlight=False)
