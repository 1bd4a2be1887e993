"""``gnncal scale``: calibrate a graph in Parquet files that need not fit in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from time import perf_counter
from typing import Annotated

import typer

from gnncal.cli import params
from gnncal.cli.gates import NOTHING_CERTIFIED
from gnncal.cli.params import Text, argument, option
from gnncal.cli.terminal import err, print_result
from gnncal.data.errors import InputError
from gnncal.files.parquet import counted_rows
from gnncal.scale import calibrate

SECONDS_BETWEEN_LOOKS = 0.5


def scale(
    nodes: Annotated[
        str, argument("NODES", "Parquet file, folder or glob of the nodes; s3:// works too.")
    ],
    edges: Annotated[str, argument("EDGES", "Parquet file, folder or glob of the edges.")],
    folder: Annotated[str, option("Folder for the results.", "--out", metavar="DIR")],
    keep_predictions: params.KeepPredictions = None,
    method: params.Method = None,
    positive: params.PositiveOfFit = None,
    calibrator: params.SavedCalibrator = None,
    policy: params.PolicyFile = None,
    engine: Annotated[str, option("duckdb or spark.")] = "duckdb",
    master: Annotated[Text, option("Spark cluster, such as local[2].", metavar="URL")] = None,
    memory_limit: Annotated[Text, option("Memory to use, such as 4GiB.", metavar="SIZE")] = None,
    threads: Annotated[int | None, option("Number of threads.", min=1)] = None,
    probabilities: Annotated[
        bool, option("Also write the probability of every class.", "--probabilities")
    ] = False,
    skip_bad: Annotated[
        bool, option("Leave out invalid rows and report them.", "--skip-bad")
    ] = False,
    overwrite: params.Overwrite = False,
    json: params.SummaryAsJson = False,
) -> None:
    """Calibrate a Parquet graph that may be larger than memory.

    NODES has the columns id, label, split and z0, z1, ... (or one list column logits); with
    --calibrator it needs neither label nor split. EDGES has src and dst. The method must use only
    a node's logits and means over its neighbours, as structural, structural-free (the default with
    --positive), hots, ts, hts and svs do. --policy needs --calibrator. Data beyond the memory
    limit go to disk. The folder gets probabilities/, calibrator.safetensors and metrics.json. The
    exit code is 3 if none of the policy's guarantees is certified.
    """
    if calibrator is not None and (method, keep_predictions) != (None, None):
        raise InputError(
            "--calibrator fits nothing, so --method, --keep-predictions and --free do not apply; "
            "leave them out, or leave out --calibrator."
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
        f"left out {counted_rows(each)} of the {each['table']}: {each['reason']} "
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
    if not summary.is_certified:
        raise typer.Exit(NOTHING_CERTIFIED)


@contextmanager
def _shown(name: str, share: Callable[[], float | None]) -> Iterator[None]:
    """Show a stage on stderr: as a bar with the time left, and as a line when it ends."""
    from rich.progress import Progress

    start, ended = perf_counter(), threading.Event()
    bar = Progress(console=err, transient=True, disable=not err.is_terminal)
    with nullcontext() if bar.disable else bar:  # rich 13 ends a disabled one with a blank line
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
