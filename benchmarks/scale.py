"""How fast is ``gnncal scale``, in how much memory, and how does it grow?

    python benchmarks/scale.py --sizes 1000000:10000000:10 5000000:80000000:172 \\
        --methods hots structural --keep-earlier --out benchmarks/results/scale.json
    python benchmarks/scale.py --fill docs/scale.md --out benchmarks/results/scale.json

Random graphs are written to Parquet, then each contender runs alone in a process of its own:

duckdb   ``gnncal scale``: check, join, fit, calibrate, write and measure
before   the same of another checkout, whose folder of sources is ``--against``
spark    ``gnncal scale --engine spark --master local[2]``
query    the bare DuckDB query for the support of every node, and nothing else
memory   reading both files, the method fitted and applied in memory, writing the result

Wall and CPU seconds, edges a second, the largest resident memory of the process and the largest
size of its temporary files, and how busy the machine was. ``--fill`` writes the tables of a page.
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
CONTENDERS = ("duckdb", "before", "spark", "query", "memory")
SECONDS_BETWEEN_LOOKS = 0.2
MARK, END = "<!-- table: {} -->", "<!-- end of table -->"
MIB = 1 << 20
RESULT = Path(__file__).parent / "results" / "scale.json"


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


def run_memory(folder: Path, method: str, n_classes: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    import gnncal

    nodes = pq.read_table(folder / "nodes.parquet")
    edges = pq.read_table(folder / "edges.parquet")
    logits = np.stack([nodes[f"z{k}"].to_numpy() for k in range(n_classes)], axis=1)
    graph = gnncal.Graph(np.stack([edges["src"].to_numpy(), edges["dst"].to_numpy()]), len(logits))
    split = np.array(nodes["split"].to_pylist(), dtype=object)
    labels = nodes["label"].to_numpy()
    every = gnncal.Nodes(logits, graph)
    calibrator = gnncal.get_calibrator(method)
    calibrator.fit(every, labels, nodes=np.flatnonzero(split == "val"))
    probs = calibrator.predict_proba(every)
    columns = {"id": nodes["id"], "confidence": probs.max(axis=1)}
    pq.write_table(pa.table(columns), folder / "memory.parquet")
    print("{}")


def child(options: argparse.Namespace) -> None:
    warnings.simplefilter("ignore")
    name = options.child
    n_classes, method = int(options.sizes[0].split(":")[2]), options.methods[0]
    if name == "query":
        run_query(options.folder, options.memory_limit, n_classes)
    elif name == "memory":
        run_memory(options.folder, method, n_classes)
    else:
        engine = "spark" if name == "spark" else "duckdb"
        run_scale(options.folder, method, options.memory_limit, engine)


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


def measure(name: str, method: str, folder: Path, size: str, options: argparse.Namespace) -> Record:
    """Run one contender in a process of its own and watch it."""
    n_nodes, n_edges, n_classes = map(int, size.split(":"))
    command = [sys.executable, __file__, "--child", name, "--folder", str(folder)]
    command += ["--methods", method, "--memory-limit", options.memory_limit, "--sizes", size]
    environment = dict(os.environ)
    if name == "before":
        environment["PYTHONPATH"] = str(options.against)
    memory, disk, load = 0, 0, []
    shutil.rmtree(folder / "out", ignore_errors=True)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        while process.poll() is None:
            taken = sum(size_of(work) for work in folder.glob(".gnncal-*"))
            memory, disk = max(memory, resident(process.pid)), max(disk, taken)
            load.append(os.getloadavg()[0])
            if options.at_most and time.perf_counter() - start > options.at_most:
                process.kill()
            time.sleep(SECONDS_BETWEEN_LOOKS)
        printed = process.stdout.read() if process.stdout else ""
    seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    for work in folder.glob(".gnncal-*"):
        shutil.rmtree(work, ignore_errors=True)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    record = {
        "contender": name,
        "method": "support" if name == "query" else method,
        "nodes": n_nodes,
        "edges": n_edges,
        "classes": n_classes,
        "seconds": round(seconds, 2),
        "cpu_seconds": round(cpu, 2),
        "peak_mib": round(memory / MIB),
        "temporary_mib": round(disk / MIB),
        "memory_limit": None if name == "memory" else options.memory_limit,
        "load": round(float(np.mean(load)), 1),
        "exit_code": process.returncode,
    }
    if process.returncode == 0:
        record |= json.loads(printed.strip().splitlines()[-1])
    print(show(record), flush=True)
    return record


def show(record: Record) -> str:
    return (
        f"{record['contender']:8}{record['method']:18}{record['classes']:>4}{record['nodes']:>12,}"
        f"{record['edges']:>14,}{record['seconds']:>9.1f} s{record['cpu_seconds']:>9.1f} CPU s"
        f"{record['peak_mib']:>8,} MiB{record['temporary_mib']:>8,} MiB on disk  load"
        f"{record['load']:>5.1f}" + ("" if record["exit_code"] == 0 else "  NOT FINISHED")
    )


def _key(record: Record) -> tuple[Any, ...]:
    """What was run on what; a newer record of the same replaces the older one."""
    return tuple(record[name] for name in ("contender", "method", "nodes", "edges", "classes"))


def bench(options: argparse.Namespace) -> Iterator[Record]:
    for size in options.sizes:
        folder = options.graphs / size.replace(":", "-")
        if not (folder / "edges.parquet").exists():
            folder.mkdir(parents=True, exist_ok=True)
            write_graph(folder, *map(int, size.split(":")), undirected=False)
        for method in options.methods:
            for contender in options.only:
                yield measure(contender, method, folder, size, options)


def fill(page: Path, records: list[Record]) -> None:
    """Write the tables of a page, each between its mark and the end."""
    text = page.read_text()
    for name, rows in (("now", table_now(records)), ("before", table_before(records))):
        start = text.index(MARK.format(name)) + len(MARK.format(name))
        end = text.index(END, start)
        text = text[:start] + "\n\n" + "\n".join(rows) + "\n\n" + text[end:]
    page.write_text(text)


def _sorted(records: list[Record], contenders: tuple[str, ...]) -> list[Record]:
    chosen = [record for record in records if record["contender"] in contenders]
    order = ("classes", "nodes", "edges")
    return sorted(
        chosen,
        key=lambda r: (contenders.index(r["contender"]), *(r[n] for n in order), r["method"]),
    )


def table_now(records: list[Record]) -> list[str]:
    heads = ["run", "classes", "nodes", "edges", "clock s", "CPU s", "peak MiB", "disk MiB", "load"]
    rows = [heads, ["---"] * len(heads)]
    for record in _sorted(records, ("duckdb", "spark", "memory", "query")):
        names = {"memory": "in memory, ", "query": "bare DuckDB query, ", "spark": "Spark, "}
        what = names.get(record["contender"], "") + f"`{record['method']}`"
        clock = f"{record['seconds']:,.0f}" if record["exit_code"] == 0 else "not finished"
        sizes = [f"{record[name]:,}" for name in ("classes", "nodes", "edges")]
        others = [
            "not measured" if record[name] is None else f"{record[name]:,.0f}"
            for name in ("cpu_seconds", "peak_mib", "temporary_mib")
        ]
        rows.append([what, *sizes, clock, *others, f"{record['load']:.1f}"])
    return ["| " + " | ".join(row) + " |" for row in rows]


def table_before(records: list[Record]) -> list[str]:
    heads = ["method", "classes", "nodes", "edges", "CPU s before", "CPU s now", "before / now"]
    rows = [heads, ["---"] * len(heads)]
    now = {_key(record)[1:]: record for record in records if record["contender"] == "duckdb"}
    for old in _sorted(records, ("before",)):
        new = now.get(_key(old)[1:])
        if new is None:
            continue
        more = "" if old["exit_code"] == 0 else "more than "
        sizes = [f"{old[name]:,}" for name in ("classes", "nodes", "edges")]
        cpu = [f"{more}{old['cpu_seconds']:,.0f}", f"{new['cpu_seconds']:,.0f}"]
        ratio = f"{more}{old['cpu_seconds'] / new['cpu_seconds']:.1f}"
        rows.append([f"`{old['method']}`", *sizes, *cpu, ratio])
    return ["| " + " | ".join(row) + " |" for row in rows]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=RESULT)
    sizes = ["1000000:10000000:10", "1000000:100000000:10"]
    parser.add_argument("--sizes", nargs="+", default=sizes, help="NODES:EDGES:CLASSES")
    parser.add_argument("--only", nargs="+", choices=CONTENDERS, default=["duckdb"])
    parser.add_argument("--methods", nargs="+", default=["hots", "structural"])
    parser.add_argument("--memory-limit", default="4GiB")
    parser.add_argument("--graphs", type=Path, help="folder of the graphs, kept for the next time")
    parser.add_argument("--against", type=Path, help="sources of the version before")
    parser.add_argument("--at-most", type=float, help="seconds for one run")
    parser.add_argument(
        "--keep-earlier", action="store_true", help="keep the other records of --out"
    )
    parser.add_argument("--fill", type=Path, help="write the tables of this page from --out")
    parser.add_argument("--child", choices=CONTENDERS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options)
        return
    if options.fill is not None:
        fill(options.fill, json.loads(options.out.read_text())["records"])
        return
    from speed import environment

    records: list[Record] = []
    if options.keep_earlier and options.out.exists():
        records = json.loads(options.out.read_text())["records"]
    with tempfile.TemporaryDirectory() as folder:
        options.graphs = options.graphs or Path(folder)
        for record in bench(options):  # what is measured is kept, whatever happens to the next one
            records = [r for r in records if _key(r) != _key(record)] + [record]
            result = {"environment": environment(), "records": records}
            options.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
