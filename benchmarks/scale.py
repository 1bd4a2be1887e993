"""How fast is ``gnncal scale``, in how much memory, and how does it grow?

    python benchmarks/scale.py --out benchmarks/results/scale.json
    python benchmarks/scale.py --edges 1000000000 --nodes 10000000 --only duckdb --methods hots \
        --keep-earlier --out benchmarks/results/scale.json
    python benchmarks/scale.py --edges 80000000 --nodes 5000000 --classes 172 --only duckdb \
        --keep-earlier --out benchmarks/results/scale.json

Random graphs are written to Parquet, then each contender runs alone in a process of its own:

duckdb   ``gnncal scale``: check, join, fit, write and measure
query    the bare DuckDB query for the support of every node, and nothing else
polars   the same query written by hand for Polars' streaming engine
memory   reading both files, ``gnncal.HoTS()`` fitted and applied in memory, writing the result
spark    ``gnncal scale --engine spark --master local[2]``, on the smallest graph only

Wall and CPU seconds, edges a second, the largest resident memory of the process and the largest
size of its temporary files. The growth exponent is the slope of log seconds over log edges.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

Record = dict[str, Any]
CONTENDERS = ("duckdb", "query", "polars", "memory", "spark")
N_CLASSES = 10  # unless --classes says otherwise
SECONDS_BETWEEN_LOOKS = 0.2
SPARK_AT_MOST = 10_000_000  # edges
MIB = 1 << 20


def write_graph(
    folder: Path, n_nodes: int, n_edges: int, n_classes: int, *, undirected: bool
) -> None:
    """Random edges between nodes with logits that are right four times in five."""
    import duckdb

    connection = duckdb.connect(config={"memory_limit": "2GiB", "temp_directory": str(folder)})
    connection.execute("SELECT setseed(0.5)")
    logits = ", ".join(
        f"(4 * random() - 2 + CASE WHEN c = {k} THEN 3 ELSE 0 END)::FLOAT AS z{k}"
        for k in range(n_classes)
    )
    split = "CASE WHEN r < 0.01 THEN 'val' WHEN r < 0.5 THEN 'test' END AS split"
    drawn = f"SELECT i, floor(random() * {n_classes})::INT AS c, random() AS r "
    drawn += f"FROM range({n_nodes}) t(i)"
    nodes, edges = folder / "nodes.parquet", folder / "edges.parquet"
    connection.execute(
        f"COPY (SELECT i AS id, c AS label, {split}, {logits} FROM ({drawn})) "
        f"TO '{nodes}' (FORMAT parquet, COMPRESSION zstd)"
    )
    end = f"floor(random() * {n_nodes})::INT"
    rows = n_edges // 2 if undirected else n_edges
    table = f"SELECT {end} AS src, {end} AS dst FROM range({rows})"
    if undirected:
        connection.execute(f"CREATE TEMP TABLE half AS {table}")
        table = "SELECT src, dst FROM half UNION ALL SELECT dst, src FROM half"
    connection.execute(f"COPY ({table}) TO '{edges}' (FORMAT parquet, COMPRESSION zstd)")


def run_scale(folder: Path, method: str, memory_limit: str, engine: str) -> None:
    from gnncal.scale import calibrate

    where = {"master": "local[2]"} if engine == "spark" else {}
    summary = calibrate(
        folder / "nodes.parquet",
        folder / "edges.parquet",
        folder / "out",
        method=method,
        engine=engine,
        memory_limit=memory_limit,
        **where,
    )
    print(json.dumps({"stages": dict(summary.seconds), "ece_after": summary.after.ece}))


def run_query(folder: Path, memory_limit: str, n_classes: int) -> None:
    import duckdb

    work = folder / ".gnncal-query"
    work.mkdir()
    settings = {"memory_limit": memory_limit, "temp_directory": str(work)}
    connection = duckdb.connect(config={**settings, "preserve_insertion_order": False})
    powers = ", ".join(f"exp(z{k}) AS e{k}" for k in range(n_classes))
    top = "greatest(" + ", ".join(f"e{k}" for k in range(n_classes)) + ")"
    best = " ".join(f"WHEN e{k} = {top} THEN {k}" for k in range(n_classes))
    mass = " + ".join(f"e{k}" for k in range(n_classes))
    probs = ", ".join(f"e{k} / ({mass}) AS p{k}" for k in range(n_classes))
    connection.execute(
        f"CREATE TABLE nodes AS SELECT id, CASE {best} END AS y, {probs} "
        f"FROM (SELECT id, {powers} FROM '{folder}/nodes.parquet')"
    )
    chosen = "CASE b.y " + " ".join(f"WHEN {k} THEN a.p{k}" for k in range(n_classes)) + " END"
    connection.execute(
        f"CREATE TABLE support AS SELECT dst, sum({chosen}) / count(*) AS support "
        f"FROM '{folder}/edges.parquet' e JOIN nodes a ON a.id = e.src "
        "JOIN (SELECT id, y FROM nodes) b ON b.id = e.dst GROUP BY dst"
    )
    print("{}")


def run_polars(folder: Path, n_classes: int) -> None:
    import polars as pl

    zs = [f"z{k}" for k in range(n_classes)]
    raw = pl.scan_parquet(folder / "nodes.parquet").select("id", *zs)
    raised = raw.with_columns(pl.col(z).cast(pl.Float64).exp() for z in zs)
    nodes = raised.select(
        pl.col("id").cast(pl.Int32),
        pl.concat_list(zs).list.arg_max().alias("y"),
        *((pl.col(z) / pl.sum_horizontal(zs)).alias(f"p{k}") for k, z in enumerate(zs)),
    )
    senders, receivers = nodes.drop("y"), nodes.select("id", "y")
    chosen = pl.coalesce(pl.when(pl.col("y") == k).then(pl.col(f"p{k}")) for k in range(n_classes))
    support = (
        pl.scan_parquet(folder / "edges.parquet")
        .join(senders, left_on="src", right_on="id")
        .join(receivers, left_on="dst", right_on="id")
        .group_by("dst")
        .agg(chosen.mean().alias("support"))
    )
    table = support.collect(engine="streaming")
    print(json.dumps({"rows": table.height}))


def run_memory(folder: Path, n_classes: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    import gnncal

    nodes = pq.read_table(folder / "nodes.parquet")
    edges = pq.read_table(folder / "edges.parquet")
    logits = np.stack([nodes[f"z{k}"].to_numpy() for k in range(n_classes)], axis=1)
    graph = gnncal.Graph(np.stack([edges["src"].to_numpy(), edges["dst"].to_numpy()]), len(logits))
    split = np.array(nodes["split"].to_pylist(), dtype=object)
    labels = nodes["label"].to_numpy()
    calibrator = gnncal.HoTS().fit(logits, labels, graph, nodes=np.flatnonzero(split == "val"))
    probs = calibrator.predict_proba(logits, graph)
    columns = {"id": nodes["id"], "confidence": probs.max(axis=1)}
    pq.write_table(pa.table(columns), folder / "memory.parquet")
    print("{}")


def child(options: argparse.Namespace) -> None:
    warnings.simplefilter("ignore")
    name = options.child
    if name in ("duckdb", "spark"):
        run_scale(options.folder, options.methods[0], options.memory_limit, name)
    elif name == "query":
        run_query(options.folder, options.memory_limit, options.classes)
    elif name == "polars":
        run_polars(options.folder, options.classes)
    else:
        run_memory(options.folder, options.classes)


def size_of(folder: Path) -> int:
    total = 0
    for file in folder.rglob("*"):
        try:
            total += file.stat().st_blocks * 512
        except OSError:  # gone in between
            continue
    return total


def resident(pid: int) -> int:
    """The resident memory of a process and its children; Spark runs in one."""
    total = 0
    try:
        status = Path(f"/proc/{pid}/status").read_text().splitlines()
        total = 1024 * int(next(x for x in status if x.startswith("VmRSS")).split()[1])
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            total += sum(resident(int(found)) for found in children.read_text().split())
    except (OSError, StopIteration):
        pass
    return total


def measure(
    name: str, method: str, folder: Path, n_edges: int, n_classes: int, limit: str
) -> Record:
    """Run one contender in a process of its own and watch it."""
    command = [sys.executable, __file__, "--child", name, "--folder", str(folder)]
    command += ["--methods", method, "--memory-limit", limit, "--classes", str(n_classes)]
    memory, disk = 0, 0
    shutil.rmtree(folder / "out", ignore_errors=True)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            taken = sum(size_of(work) for work in folder.glob(".gnncal-*"))
            memory, disk = max(memory, resident(process.pid)), max(disk, taken)
            time.sleep(SECONDS_BETWEEN_LOOKS)
        printed = process.stdout.read() if process.stdout else ""
    seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    for work in folder.glob(".gnncal-*"):
        shutil.rmtree(work, ignore_errors=True)
    record = {
        "contender": name,
        "method": method if name in ("duckdb", "spark") else "support",
        "edges": n_edges,
        "classes": n_classes,
        "seconds": round(seconds, 2),
        "cpu_seconds": round(
            after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 2
        ),
        "edges_per_second": round(n_edges / seconds),
        "peak_mib": round(memory / MIB),
        "temporary_mib": round(disk / MIB),
        "memory_limit": limit if name in ("duckdb", "query", "spark") else None,
        "load_before": round(os.getloadavg()[0], 1),
        "exit_code": process.returncode,
    }
    if process.returncode == 0:
        record |= json.loads(printed.strip().splitlines()[-1])
    print(show(record), flush=True)
    return record


def show(record: Record) -> str:
    return (
        f"{record['contender']:8}{record['method']:14}{record['classes']:>4}{record['edges']:>14,}"
        f"{record['seconds']:>9.1f} s{record['cpu_seconds']:>9.1f} CPU s"
        f"{record['peak_mib']:>8,} MiB{record['temporary_mib']:>8,} MiB on disk"
        f"{record['edges_per_second']:>13,} edges/s"
        + ("" if record["exit_code"] == 0 else "  FAILED")
    )


def _key(record: Record) -> tuple[Any, ...]:
    """What was run on what; a newer record of the same replaces the older one."""
    return (record["edges"], *_kind(record))


# What runs share that differ in edges only.
ALIKE = ("contender", "method", "undirected", "nodes", "classes")


def _kind(record: Record) -> tuple[Any, ...]:
    """Early records had ten classes and did not say so."""
    return tuple(record.get(name, N_CLASSES) for name in ALIKE)


def growth(records: list[Record]) -> list[Record]:
    """Slope of log seconds over log edges of every contender that ran on several graphs."""
    found = []
    for kind in dict.fromkeys(_kind(r) for r in records):
        rows = [r for r in records if _kind(r) == kind and r["exit_code"] == 0]
        if len({r["edges"] for r in rows}) > 1:
            edges = np.log([r["edges"] for r in rows])
            slopes = {
                unit: round(float(np.polyfit(edges, np.log([r[unit] for r in rows]), 1)[0]), 2)
                for unit in ("seconds", "cpu_seconds")
            }
            found.append(dict(zip(ALIKE, kind, strict=True)) | slopes)
    return found


def bench(options: argparse.Namespace) -> Iterator[Record]:
    for n_edges in options.edges:
        with tempfile.TemporaryDirectory(dir=options.work) as name:
            folder = Path(name)
            write_graph(
                folder, options.nodes, n_edges, options.classes, undirected=options.undirected
            )
            bytes_per_edge = (folder / "edges.parquet").stat().st_size / n_edges
            for contender in options.only:
                if contender == "spark" and n_edges > SPARK_AT_MOST:
                    continue
                methods = options.methods if contender == "duckdb" else ["hots"]
                for method in methods:
                    record = measure(
                        contender, method, folder, n_edges, options.classes, options.memory_limit
                    )
                    record |= {"nodes": options.nodes, "undirected": options.undirected}
                    yield record | {"bytes_per_edge": round(bytes_per_edge, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--out", type=Path)
    parser.add_argument("--edges", type=int, nargs="+", default=[10**7, 3 * 10**7, 10**8])
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--classes", type=int, default=N_CLASSES)
    parser.add_argument(
        "--undirected", action="store_true", help="list each edge in both directions"
    )
    parser.add_argument("--only", nargs="+", choices=CONTENDERS, default=list(CONTENDERS))
    parser.add_argument("--methods", nargs="+", default=["hots", "structural"])
    parser.add_argument("--memory-limit", default="4GiB")
    parser.add_argument("--work", type=Path, help="folder for the generated graphs")
    parser.add_argument(
        "--keep-earlier", action="store_true", help="keep the other records of --out"
    )
    parser.add_argument("--child", choices=CONTENDERS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options)
        return
    from speed import environment

    records: list[Record] = []
    if options.keep_earlier and options.out.exists():
        records = json.loads(options.out.read_text())["records"]
    for record in bench(options):  # what is measured is kept, whatever happens to the next one
        records = [r for r in records if _key(r) != _key(record)] + [record]
        result = {"environment": environment(), "records": records, "growth": growth(records)}
        if options.out is not None:
            options.out.parent.mkdir(parents=True, exist_ok=True)
            options.out.write_text(json.dumps(result, indent=1) + "\n")
    for row in growth(records):
        print(row)


if __name__ == "__main__":
    main()
