"""How fast is ``gnncal scale``, in how much memory, and how does it grow?

    python benchmarks/scale.py --graphs FOLDER     # about 15 minutes on two quiet cores
    python docs/fill.py scale.md                   # the tables of the page

Random graphs are written to Parquet in FOLDER, once (20 GB). Then each run of ``PLAN``, the most
important ones first, has a process of its own: wall and CPU seconds, the largest resident memory,
the largest size of its temporary files, and how busy the machine was. What the code as it is has
already run is not run again, so a benchmark that was stopped goes on where it was.

``--sizes``, ``--methods`` and ``--only`` choose other runs; ``before`` is another checkout, whose
folder of sources is ``--against``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import shutil
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

Record = dict[str, Any]
CONTENDERS = ("duckdb", "spark", "before")
SECONDS_BETWEEN_LOOKS = 0.2
MIB = 1 << 20
ROOT = Path(__file__).parents[1]
RESULT = ROOT / "benchmarks" / "results" / "scale.json"
PLAN = [  # contender and NODES:EDGES:CLASSES, each with hots and structural
    ("duckdb", "1000000:100000000:10"),
    ("duckdb", "5000000:80000000:172"),
    ("duckdb", "1000000:1000000000:10"),
    ("duckdb", "1000000:10000000:10"),
    ("duckdb", "1000000:10000000:2"),
    ("duckdb", "1000000:10000000:40"),
    ("duckdb", "1000000:10000000:172"),
    ("duckdb", "10000000:100000000:10"),
    ("duckdb", "10000000:1000000000:10"),
    ("spark", "1000000:10000000:10"),
]


def write_graph(folder: Path, n_nodes: int, n_edges: int, n_classes: int) -> None:
    """Random edges between nodes with logits that are right four times in five."""
    import duckdb

    folder.mkdir(parents=True, exist_ok=True)
    connection = duckdb.connect(config={"memory_limit": "2GiB", "temp_directory": str(folder)})
    connection.execute("SET enable_progress_bar = false; SELECT setseed(0.5)")
    logits = ", ".join(
        f"(4 * random() - 2 + CASE WHEN c = {k} THEN 3 ELSE 0 END)::FLOAT AS z{k}"
        for k in range(n_classes)
    )
    split = "CASE WHEN r < 0.01 THEN 'val' WHEN r < 0.5 THEN 'test' END AS split"
    drawn = f"SELECT i, floor(random() * {n_classes})::INT AS c, random() AS r "
    drawn += f"FROM range({n_nodes}) t(i)"
    connection.execute(
        f"COPY (SELECT i AS id, c AS label, {split}, {logits} FROM ({drawn})) "
        f"TO '{folder}/nodes.parquet' (FORMAT parquet, COMPRESSION zstd)"
    )
    end = f"floor(random() * {n_nodes})::INT"
    connection.execute(
        f"COPY (SELECT {end} AS src, {end} AS dst FROM range({n_edges})) "
        f"TO '{folder}/partial' (FORMAT parquet, COMPRESSION zstd)"
    )
    (folder / "partial").rename(folder / "edges.parquet")


def child(name: str, folder: Path, method: str, memory_limit: str) -> None:
    """Run one contender in this process."""
    from gnncal.scale import calibrate

    warnings.simplefilter("ignore")
    where = {"engine": "spark", "master": "local[2]"} if name == "spark" else {}
    tables = (folder / "nodes.parquet", folder / "edges.parquet", folder / "out")
    summary = calibrate(*tables, method=method, memory_limit=memory_limit, **where)
    print(json.dumps({"stages": dict(summary.seconds), "ece_after": summary.after.ece}))


def size_of(folder: Path) -> int:
    total = 0
    for file in folder.rglob("*"):
        try:
            total += file.stat().st_blocks * 512
        except OSError:  # gone in between
            continue
    return total


def watched(pid: int, cpu: dict[int, float]) -> int:
    """The resident memory of a process and its children; notes the CPU seconds of each.

    Spark runs in a child whose time nobody else adds up.
    """
    total = 0
    try:
        status = Path(f"/proc/{pid}/status").read_text().splitlines()
        total = 1024 * int(next(x for x in status if x.startswith("VmRSS")).split()[1])
        ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        cpu[pid] = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            total += sum(watched(int(found), cpu) for found in children.read_text().split())
    except (OSError, StopIteration):
        pass
    return total


def measure(name: str, method: str, size: str, options: argparse.Namespace) -> Record:
    """Run one contender in a process of its own and watch it."""
    folder = options.graphs / size.replace(":", "-")
    n_nodes, n_edges, n_classes = map(int, size.split(":"))
    command = [sys.executable, __file__, "--child", name, "--graphs", str(folder)]
    command += ["--methods", method, "--memory-limit", options.memory_limit]
    environment = dict(os.environ)
    if name == "before":
        environment["PYTHONPATH"] = str(options.against)
    memory, disk, load, cpu = 0, 0, [], dict[int, float]()
    shutil.rmtree(folder / "out", ignore_errors=True)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        while process.poll() is None:
            taken = sum(size_of(work) for work in folder.glob(".gnncal-*"))
            memory, disk = max(memory, watched(process.pid, cpu)), max(disk, taken)
            load.append(os.getloadavg()[0])
            time.sleep(SECONDS_BETWEEN_LOOKS)
        printed = process.stdout.read() if process.stdout else ""
    seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    shutil.rmtree(folder / "out", ignore_errors=True)
    used = sum(after[:2]) - sum(before[:2])
    record = {
        "contender": name,
        "method": method,
        "nodes": n_nodes,
        "edges": n_edges,
        "classes": n_classes,
        "seconds": round(seconds, 2),
        "cpu_seconds": round(max(used, sum(cpu.values())), 2),
        "peak_mib": round(memory / MIB),
        "temporary_mib": round(disk / MIB),
        "memory_limit": options.memory_limit,
        "load": round(float(np.mean(load)), 1),
        "exit_code": process.returncode,
        "code": code_of(options.against) if name == "before" else code_of(ROOT / "src"),
    }
    if process.returncode == 0:
        record |= json.loads(printed.strip().splitlines()[-1])
    return record


def code_of(sources: Path) -> str:
    """A digest of the code that is measured."""
    parts = ("scale", "graph")
    files = sorted(file for part in parts for file in (sources / "gnncal" / part).glob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


def show(record: Record) -> str:
    return (
        f"{record['contender']:8}{record['method']:12}{record['classes']:>4}{record['nodes']:>12,}"
        f"{record['edges']:>15,}{record['seconds']:>8.1f} s{record['cpu_seconds']:>8.1f} CPU s"
        f"{record['peak_mib']:>8,} MiB{record['temporary_mib']:>8,} MiB on disk  load"
        f"{record['load']:>5.1f}" + ("" if record["exit_code"] == 0 else "  NOT FINISHED")
    )


def key(record: Record) -> tuple[Any, ...]:
    """What was run on what; a newer record of the same replaces the older one."""
    return tuple(record[name] for name in ("contender", "method", "nodes", "edges", "classes"))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--graphs", type=Path, required=True, help="folder of the graphs")
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--sizes", nargs="+", help="NODES:EDGES:CLASSES instead of the plan")
    parser.add_argument("--only", nargs="+", choices=CONTENDERS, default=["duckdb"])
    parser.add_argument("--methods", nargs="+", default=["hots", "structural"])
    parser.add_argument("--memory-limit", default="4GiB")
    parser.add_argument("--against", type=Path, help="sources of the version before")
    parser.add_argument("--again", action="store_true", help="run what has a record, too")
    parser.add_argument("--child", choices=CONTENDERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child, options.graphs, options.methods[0], options.memory_limit)
        return
    from speed_data import environment

    plan = PLAN
    if options.sizes:
        plan = [(name, size) for size in options.sizes for name in options.only]
    found: list[Record] = []
    if options.out.exists():
        found = json.loads(options.out.read_text())["records"]
    known = {(*key(each), each.get("code")) for each in found if each["exit_code"] == 0}
    now = code_of(ROOT / "src")
    for name, size in plan:
        for method in options.methods:
            sizes = tuple(map(int, size.split(":")))
            if (name, method, *sizes, now) in known and not options.again:
                continue
            folder = options.graphs / size.replace(":", "-")
            if not (folder / "edges.parquet").exists():
                write_graph(folder, *sizes)
            record = measure(name, method, size, options)
            print(show(record), flush=True)
            # What is measured is kept, whatever happens to the next one.
            found = [each for each in found if key(each) != key(record)] + [record]
            result = {"environment": environment(), "records": found}
            options.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
