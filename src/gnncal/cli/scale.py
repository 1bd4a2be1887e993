"""``gnncal scale``: calibrate a graph in Parquet files that need not fit in memory."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

from gnncal.cli.gates import NOTHING_CERTIFIED
from gnncal.cli.params import KeepPredictions, Overwrite, Positive, SummaryAsJson
from gnncal.cli.terminal import err, print_result
from gnncal.data.errors import InputError
from gnncal.files.saved_calibrators import FOREIGN
from gnncal.scale import ScaleSummary, calibrate
from gnncal.scale.engines import Engine
from gnncal.scale.run import Progress

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
    """Calibrate NODES and EDGES, which may be larger than memory.

    NODES has the columns id, label, split and z0, z1, ... (or one list column logits); with
    --calibrator it needs neither label nor split. EDGES has src and dst. The folder gets
    probabilities/, calibrator.safetensors and metrics.json. The exit code is 3 if a policy
    guarantees nothing here.
    """

    if method is not None and calibrator is not None:
        raise InputError("--method fits and --calibrator only applies; pass one of the two.")
    if keep_predictions is not None and calibrator is not None:
        raise InputError(
            "--keep-predictions and --free are about a fit and --calibrator only applies; pass one "
            "of the two."
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
        progress=_listener(),
    )
    _print(folder, summary, as_json=json)
    if FOREIGN in summary.notes:
        raise typer.Exit(NOTHING_CERTIFIED)


def _print(folder: str, summary: ScaleSummary, *, as_json: bool) -> None:
    skipped = (
        f"left out {each['count']:,} rows of the {each['table']}: {each['reason']} "
        f"({', '.join(each['examples'])})"
        for each in summary.skipped
    )
    print_result(
        summary,
        summary,
        as_json=as_json,
        notes=[*skipped, *summary.notes],
        written=f"{folder}: probabilities/, calibrator.safetensors, metrics.json",
    )


def _listener() -> Progress:
    """Return a listener that shows each stage on stderr: as a bar, or as a line with its time."""

    class Shown(Progress):
        @contextmanager
        def shown(self, name: str, engine: Engine) -> Iterator[None]:
            start = perf_counter()
            with _bar(name, engine) if err.is_terminal else nullcontext():
                yield
            err.print(f"{name}: {perf_counter() - start:.1f} s", highlight=False)

    return Shown()


@contextmanager
def _bar(name: str, engine: Engine) -> Iterator[None]:
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns: tuple[Any, ...] = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    with Bar(*columns, TimeRemainingColumn(), console=err, transient=True) as bar:
        task, ended = bar.add_task(name, total=None), threading.Event()

        def look() -> None:
            while not ended.wait(SECONDS_BETWEEN_LOOKS):
                share = engine.progress()
                if share is not None:
                    bar.update(task, total=1.0, completed=share)

        watcher = threading.Thread(target=look, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()
