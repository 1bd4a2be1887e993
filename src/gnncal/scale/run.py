"""A run from Parquet to Parquet: check, join, fit, calibrate, judge, write."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from time import perf_counter

import numpy as np

from gnncal.calibration import choose_calibrator
from gnncal.calibrators.auto import chosen_of
from gnncal.calibrators.base import Calibrator
from gnncal.calibrators.fit_report import learned_values
from gnncal.calibrators.registry import name_of
from gnncal.data.constraints import NONE, integer, one_of
from gnncal.data.errors import InputError, require
from gnncal.decisions import Policy
from gnncal.files.output import result_folder
from gnncal.files.parquet import NO_ROWS, BadRows, find_tables, layout_of
from gnncal.files.saved_calibrators import FOREIGN, is_of_another, load, provenance
from gnncal.files.tables import Table, is_remote
from gnncal.graph.checks import EDGES, UNDIRECTED
from gnncal.keeping_cost import cost_of_keeping_predictions
from gnncal.loading import load_policy
from gnncal.math.node_summary import NodeSummary
from gnncal.metrics.evaluation import check_positive_class
from gnncal.scale.batches import Reach, Work, nodes_of
from gnncal.scale.limits import spare_address_space
from gnncal.scale.local import SMALLEST_MEMORY, DuckDB, size_of
from gnncal.scale.spark import Spark
from gnncal.scale.summary import ScaleSummary, write_summary

Engine = DuckDB | Spark
MOST_THREADS = 1024  # each takes memory before it does anything


def calibrate(
    nodes: str | Path,
    edges: str | Path,
    out: str | Path,
    *,
    method: str | Calibrator | None = None,
    keep_predictions: bool | None = None,
    positive: int | str | None = None,
    calibrator: str | Path | Calibrator | None = None,
    policy: str | Path | Policy | None = None,
    engine: str = "duckdb",
    master: str | None = None,
    memory_limit: str | None = None,
    threads: int | None = None,
    all_probabilities: bool = False,
    skip_bad: bool = False,
    overwrite: bool = False,
    progress: Callable[[str, Callable[[], float | None]], AbstractContextManager[None]]
    | None = None,
) -> ScaleSummary:
    """Calibrate a graph in Parquet files that may be larger than memory.

    Parameters
    ----------
    nodes : str or Path
        A Parquet file, folder or glob, local or in object storage (``s3://bucket/nodes``), with
        the columns id, label, split (train, val, test) and z0..zK-1 or one list column ``logits``.
    edges : str or Path
        The same for the edges, with ids in the columns src and dst. Messages flow from src to dst.
    out : str or Path
        Folder for ``metrics.json``, ``calibrator.safetensors`` and the folder ``probabilities``. An
        earlier result of this function is replaced.
    method : str or Calibrator, optional
        A method that uses a node's logits and means over its neighbours, such as hots or ts. It is
        fitted to the nodes of the split val. Default: structural.
    keep_predictions : bool, optional
        Whether the predicted class of every node stays, as in :func:`gnncal.calibrate`.
    positive : int or str, optional
        The class of interest. Adds the column ``probability``; predictions may then change.
    calibrator : str, Path or Calibrator, optional
        A fitted calibrator or its file, used without a fit; nodes need neither label nor split.
    policy : str, Path or Policy, optional
        A policy that was certified with this ``calibrator``, or its file. Adds the column
        ``action``, which is empty for nodes of the splits train and val.
    engine : {"duckdb", "spark"}, default="duckdb"
        ``"duckdb"`` runs in this process, ``"spark"`` on a cluster.
    master : str, optional
        Address of the Spark cluster, such as ``local[2]``.
    memory_limit : str, optional
        Memory of this process, such as ``4GiB``; further data go to disk, next to ``out``. With
        Spark, the memory of the driver. Default: what is available, at most 80% of the memory.
    threads : int, optional
        Number of threads, at most 1,024. Default: all cores. A limit on the address space of the
        process (``ulimit -v``) lowers both.
    all_probabilities : bool, default=False
        Write the probabilities of all classes too, in the columns p0..pK-1.
    skip_bad : bool, default=False
        Leave out invalid rows instead of raising an error.
    overwrite : bool, default=False
        Also replace a result of another gnncal command.
    progress : callable, optional
        Called at each stage with its name and a function that returns the share done so far. Must
        return a context manager, which is exited at the end of the stage.

    Returns
    -------
    ScaleSummary
        The contents of ``metrics.json``.

    Raises
    ------
    InputError
        If the input is invalid; the message counts the invalid rows and shows examples.
    MissingExtraError
        If DuckDB, Spark or Java is not installed.
    MemoryError
        If memory does not suffice to load DuckDB or pyarrow.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa, pyarrow.parquet as pq
    >>> from gnncal.scale import calibrate
    >>> rng = np.random.default_rng(0)
    >>> z, ends = 4 * rng.normal(size=(200, 2)), rng.integers(200, size=(2, 1000))
    >>> nodes = {"id": np.arange(200), "label": rng.integers(2, size=200)}
    >>> nodes |= {"split": ["val", "test"] * 100, "z0": z[:, 0], "z1": z[:, 1]}
    >>> pq.write_table(pa.table(nodes), "nodes.parquet")
    >>> pq.write_table(pa.table({"src": ends[0], "dst": ends[1]}), "edges.parquet")
    >>> summary = calibrate("nodes.parquet", "edges.parquet", "out", method="ts")
    >>> summary.after.nll < summary.before.nll
    True

    """
    chosen, fits = _calibrator(method, calibrator, keep_predictions, positive), calibrator is None
    decides = _policy(policy, fits=fits)
    reach = Reach.of(chosen)
    memory = _check_settings(engine, master, memory_limit, threads)
    spare = spare_address_space() if engine == "duckdb" else None  # before libraries take it
    require("pyarrow", extra="scale", purpose="calibrating at scale")
    tables = find_tables(str(nodes), str(edges))
    bad, notes, seconds = BadRows(), list[str](), dict[str, float]()

    @contextmanager
    def stage(name: str) -> Iterator[None]:
        start = perf_counter()
        with nullcontext() if progress is None else progress(name, opened.progress):
            yield
        seconds[name] = perf_counter() - start

    with _result(str(out), tables, overwrite=overwrite) as result:
        work = result.parent / "temp"
        work.mkdir()
        opened: Engine = (
            DuckDB(*tables, work, memory, threads, spare)
            if engine == "duckdb"
            else Spark(*tables, work, memory, master)
        )
        try:
            with stage("checking the nodes"):
                known = None if fits else getattr(chosen, "class_names_", None)
                layout = layout_of(*tables, fits=fits, fitted_names=known)
                if not fits and len(chosen.classes_) != layout.n_classes:
                    raise InputError(
                        f"the calibrator was fitted for {len(chosen.classes_)} classes but the "
                        f"nodes have logits of {layout.n_classes}."
                    )
                view = decides.positive_ if positive is None and decides else positive
                if view is None and not fits:
                    view = chosen.positive_
                names, in_view = check_positive_class(view, layout.n_classes, layout.class_names)
                opened.load(layout, reach, bad, fits=fits)
                _refuse(opened, bad, skip_bad=skip_bad)
            with stage("joining the edges"):
                opened.join(bad)
                _refuse(opened, bad, skip_bad=skip_bad)
            if fits:
                with stage("fitting"):
                    chosen, notes = _fit(chosen, opened, names)
            with stage("calibrating the nodes"):
                judged = opened.test_split, opened.degrees(), tables[0].types["id"]
                saved = Path(policy) if isinstance(policy, str | Path) else None
                by = provenance(chosen, policy=saved)
                about = {"gnncal": json.dumps(by)}
                todo = Work(chosen, *judged, all_probabilities, in_view, decides, about)
                sums = opened.run(todo, result / "probabilities")
            if fits:
                chosen.positive_ = in_view
            chosen.save(result / "calibrator.safetensors", class_names=names)
            said, is_certified = _said_of(decides, chosen, result / "probabilities")
            summary = ScaleSummary(
                method=name_of(chosen),
                engine=opened.name,
                n_nodes=opened.n_nodes,
                n_edges=opened.n_edges,
                n_classes=layout.n_classes,
                n_calibration_nodes=sum(chosen.fit_report_.nodes_per_class),
                n_test_nodes=sums.n_nodes,
                is_undirected=opened.is_undirected,
                class_names=names,
                before=sums.measured(0),
                after=sums.measured(1),
                differences=sums.differences(),
                learned=learned_values(chosen),
                skipped=bad.rows,
                notes=[*notes, *said],
                is_certified=is_certified,
                seconds=seconds,
                prediction_change_rate=sums.prediction_change_rate,
                provenance=by,
            )
            write_summary(summary, result)
        finally:
            opened.close()
    return summary


def _result(
    out: str, tables: tuple[Table, Table], *, overwrite: bool
) -> AbstractContextManager[Path]:
    """Return the folder for the result of some tables, in which it must not lie."""
    if is_remote(out):
        raise InputError(
            "--out is in object storage, but results are written to a local folder; pass one, and "
            "copy it to the storage afterwards."
        )
    roots = [Path(table.root) for table in tables if not table.is_remote]
    for table in tables:
        searched = Path(os.path.realpath(table.root)) if table.is_searched else None
        if not table.is_remote and searched in Path(os.path.realpath(out)).parents:
            raise InputError(
                f"{out} lies in the input {table.given}, where the next run would read it as "
                "data; choose another --out."
            )
    return result_folder(Path(out), "scale", inputs=roots, overwrite=overwrite)


def _check_settings(
    engine: str, master: str | None, memory_limit: str | None, threads: int | None
) -> int | None:
    """Look at settings before an engine does; return the memory in bytes."""
    one_of("duckdb", "spark").check("engine", engine)
    (integer(at_least=1, at_most=MOST_THREADS) | NONE).check("threads", threads)
    if engine != "spark" and master is not None:
        raise InputError("--master is the address of a Spark cluster; add --engine spark.")
    memory = None if memory_limit is None else size_of(memory_limit)
    if memory is not None and memory < SMALLEST_MEMORY:
        raise InputError(
            f"the memory limit is {memory_limit}; nothing can be computed in less than 64MiB."
        )
    return memory


def _refuse(engine: Engine, bad: BadRows, *, skip_bad: bool) -> None:
    """Raise an InputError where rows cannot be used, or where none is left without them."""
    if bad.rows and not skip_bad:
        raise InputError(
            f"{bad}. Correct them, or pass --skip-bad (skip_bad=True) to leave such rows out."
        )
    if engine.n_nodes == 0:
        raise InputError(f"no row of the nodes is left: {bad}." if bad.rows else NO_ROWS)


def _fit(
    calibrator: Calibrator, engine: Engine, names: list[str] | None
) -> tuple[Calibrator, list[str]]:
    """Fit as in memory to the calibration nodes; return what is fitted, warnings and advice."""
    rows = engine.calibration_rows()
    rows = rows.take(rows["id"].to_numpy(zero_copy_only=False).argsort(kind="stable"))
    if len(rows) == 0:
        raise InputError("no node has the split val; calibration needs labelled validation nodes.")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        every = nodes_of(rows, may_be_probabilities=False)
        labels = rows["label"].to_numpy().astype(np.int64)
        labelled = every.with_labels(labels, calibration_nodes=np.arange(len(labels)))
        chosen = chosen_of(calibrator.fit(labelled))
        some = nodes_of(engine.sample())
        others = NodeSummary.of(some, np.arange(some.n_nodes))
        chosen.fitted_on_ = replace(chosen.fitted_on_, all_nodes=others)
        if engine.is_undirected and chosen.graph_kind_ == EDGES:
            chosen.graph_kind_ = UNDIRECTED
        price = None
        if chosen.preserves_predictions:
            price = cost_of_keeping_predictions(chosen, labelled, chosen.predict_proba(every))
    said = list(dict.fromkeys(str(warning.message) for warning in caught))
    return chosen, said if price is None else [*said, price.advice(names)]


def _said_of(policy: Policy | None, fitted: Calibrator, folder: Path) -> tuple[list[str], bool]:
    """Return guarantees and counts of actions in words; whether any guarantee asked for holds."""
    if policy is None:
        return [], True
    import pyarrow.dataset as ds

    actions = ds.dataset(folder, format="parquet").to_table(columns=["action"])["action"]
    counts = {each["values"]: each["counts"] for each in actions.value_counts().to_pylist()}
    found = ", ".join(f"{action} {counts[action]:,}" for action in sorted(counts) if action)
    is_foreign, asked = is_of_another(policy.calibrator_, fitted), policy.guarantees_.values()
    said = f"Actions: {found or 'none, because all nodes are of the splits train and val'}."
    is_certified = not asked or (not is_foreign and any(each.is_certified for each in asked))
    return [FOREIGN if is_foreign else str(policy), said], is_certified


def _calibrator(
    method: str | Calibrator | None,
    given: str | Path | Calibrator | None,
    keep_predictions: bool | None,
    positive: int | str | None,
) -> Calibrator:
    """Return the calibrator to fit, or the one that is fitted already."""
    if given is None:
        one_class = positive is not None
        return choose_calibrator(method, keep_predictions=keep_predictions, positive=one_class)
    fitted = given if isinstance(given, Calibrator) else load(given)
    if not hasattr(fitted, "fit_report_"):
        raise InputError(f"{type(fitted).__name__} is not fitted; pass it as method instead.")
    return fitted


def _policy(given: str | Path | Policy | None, *, fits: bool) -> Policy | None:
    """Return the policy, if it can decide about one node after the other."""
    if given is None:
        return None
    policy = given if isinstance(given, Policy) else load_policy(given)
    if fits:
        raise InputError(
            "a policy's guarantees hold only with the calibrator that it was certified with; pass "
            "--calibrator (calibrator=) too."
        )
    if policy.costs is not None and not policy.costs._is_same_for_all:
        raise InputError(
            "the policy has costs that differ between nodes; only gnncal apply supports them."
        )
    return policy
