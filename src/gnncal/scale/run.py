"""A run from Parquet to Parquet: check, describe, fit, scale, judge, write."""

from __future__ import annotations

from pathlib import Path

from gnncal.calibration import choose_calibrator
from gnncal.calibrators.base import Calibrator
from gnncal.data.errors import InputError, require
from gnncal.files.saved_calibrators import load
from gnncal.files.tables import Table, find_table, is_remote
from gnncal.metrics.evaluation import check_view
from gnncal.scale.columns import is_of_edges, is_of_nodes
from gnncal.scale.engines import TableFiles, open_engine, plain_errors
from gnncal.scale.methods.catalogue import method_for
from gnncal.scale.progress import Progress, Silent
from gnncal.scale.results import scale_result
from gnncal.scale.stages import Run
from gnncal.scale.summary import ScaleSummary


def calibrate(
    nodes: str | Path,
    edges: str | Path,
    out: str | Path,
    *,
    method: str | Calibrator | None = None,
    positive: int | str | None = None,
    calibrator: str | Path | Calibrator | None = None,
    engine: str = "duckdb",
    master: str | None = None,
    memory_limit: str | None = None,
    threads: int | None = None,
    all_probabilities: bool = False,
    skip_bad: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> ScaleSummary:
    """Calibrate a graph in Parquet files that need not fit in memory.

    Parameters
    ----------
    nodes : str or Path
        A Parquet file, folder or glob, local or in object storage (``s3://bucket/nodes``). It has
        the columns id, label, split (train, val, test) and z0..zK-1, or one list column
        ``logits`` instead of those. Ids are whole numbers, text or UUIDs. A fitted ``calibrator``
        needs neither label nor split.
    edges : str or Path
        The same with the columns src and dst, which name ids. Messages flow from src to dst.
    out : str or Path
        Folder for the result, or a prefix such as ``s3://bucket/calibrated``. It appears when
        everything is written. It replaces an earlier result of this function and nothing else. It
        has ``metrics.json``, ``calibrator.safetensors`` and the
        folder ``probabilities`` with the columns id, prediction, confidence and temperature.
    method : str or Calibrator, optional
        One of ts, hts, entropy-only, hots, rbs, structural, structural-free (predictions may
        change), structural-temperature and structural-vector, or one of these calibrators with
        parameters. It is fitted to the nodes of the split val. Default: structural, or
        structural-free with a class in view.
    positive : int or str, optional
        The class that matters, by its number or its name. Then its probability matters more than
        which class is the most probable one, and predictions may change by default.
    calibrator : str, Path or Calibrator, optional
        A fitted calibrator or the file of one; it is applied and nothing is fitted.
    engine : {"duckdb", "spark"}, default="duckdb"
        ``"duckdb"`` runs in this process.
    master : str, optional
        Address of a Spark cluster, such as ``local[2]``.
    memory_limit : str, optional
        Memory of this process, such as ``4GiB``; DuckDB moves what exceeds it to disk beside
        ``out``. With Spark, the memory of the driver.
    threads : int, optional
        Number of threads of DuckDB, at most 1,024. Default: all cores.
    all_probabilities : bool, default=False
        Write p0..pK-1 too, not only the confidence.
    skip_bad : bool, default=False
        Leave out rows that cannot be used, instead of refusing them.
    overwrite : bool, default=False
        Replace the result of another command of gnncal too.
    progress : Progress, optional
        A :class:`gnncal.scale.progress.Progress`, which is told of each stage.

    Returns
    -------
    ScaleSummary
        What stands in ``metrics.json`` of the folder.

    Raises
    ------
    InputError
        If the input cannot be used; bad rows are counted and shown by example.
    MissingExtraError
        If DuckDB, Spark or Java is not installed.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa, pyarrow.parquet as pq
    >>> from gnncal.scale import calibrate
    >>> rng = np.random.default_rng(0)
    >>> label = rng.integers(2, size=200)
    >>> z = 4.0 * np.eye(2)[np.where(rng.random(200) < 0.8, label, 1 - label)]
    >>> split = np.where(np.arange(200) < 100, "val", "test")
    >>> nodes = {"id": np.arange(200), "label": label, "split": split, "z0": z[:, 0], "z1": z[:, 1]}
    >>> pq.write_table(pa.table(nodes), "nodes.parquet")
    >>> ends = rng.integers(200, size=(2, 1000))
    >>> pq.write_table(pa.table({"src": ends[0], "dst": ends[1]}), "edges.parquet")
    >>> summary = calibrate("nodes.parquet", "edges.parquet", "out", method="ts")
    >>> summary.after.nll < summary.before.nll
    True

    """
    require("ibis", extra="scale", purpose="calibrating at scale")
    chosen = _calibrator(method, calibrator, one_class=positive is not None)
    scale_method = method_for(chosen)
    _check_out(str(out), engine)
    sources = find_tables(str(nodes), str(edges), engine)
    tables = [source for source in sources if isinstance(source, Table)]
    with plain_errors(), scale_result(str(out), tables, overwrite=overwrite) as result:
        work = result.parent
        (work / "temp").mkdir()
        opened = open_engine(
            engine, work, master=master, memory_limit=memory_limit, threads=threads
        )
        try:
            run = Run(opened, scale_method, progress or Silent(), skip_bad)
            run.read(*sources, fits=calibrator is None)
            check_view(positive, run.n_classes, run.layout.class_names)
            run.describe()
            if calibrator is None:
                run.fit()
            run.scale()
            run.write(result / "probabilities", all_probabilities=all_probabilities)
            chosen.save(result / "calibrator.safetensors", class_names=run.layout.class_names)
            summary = run.summary()
            summary.write(result)
        finally:
            opened.close()
    return summary


def find_tables(nodes: str, edges: str, engine: str) -> list[TableFiles]:
    """Find the files of both tables before anything is computed; Spark reads addresses itself."""
    given = ((nodes, "nodes", is_of_nodes), (edges, "edges", is_of_edges))
    return [
        source if engine == "spark" and is_remote(source) else find_table(source, what, is_of_use)
        for source, what, is_of_use in given
    ]


def _check_out(out: str, engine: str) -> None:
    if engine == "spark" and is_remote(out):
        raise InputError(
            f"--out is {out}, but Spark needs a folder that all of its executors see; pass a "
            "mounted one, or use --engine duckdb."
        )


def _calibrator(
    method: str | Calibrator | None, given: str | Path | Calibrator | None, *, one_class: bool
) -> Calibrator:
    """Return the calibrator to fit, or the one that is fitted already."""
    if given is not None:
        fitted = given if isinstance(given, Calibrator) else load(given)
        if not hasattr(fitted, "fit_report_"):
            raise InputError(f"{type(fitted).__name__} is not fitted; pass it as method instead.")
        return fitted
    return choose_calibrator(method, positive=one_class)
