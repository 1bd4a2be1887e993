"""The whole catalogue on a graph of 169,343 nodes, 2.5 million edges and 40 classes.

    python benchmarks/arxiv_years.py --data DATA --out results/arxiv-years   # train, fit, measure
    python benchmarks/arxiv_years.py --table results/arxiv-years             # the table of the docs

``DATA`` has ``more/arxiv_years.npz``: ogbn-arxiv's edges, labels and split by years, with other
features, so that nothing here compares with published figures. A GCN is trained once (seed 0), and
every method is fitted to convergence on the nodes of 2018 and judged on those of 2019 and later.
Each fit has a process of its own, copied from one that has loaded the graph, so its peak memory is
known. The records are those of ``gnncal bench run``; ``memory.json`` beside them has the peaks.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import torch

from gnncal.files.bundle import Bundle
from gnncal_lab.bench.logits import TrainedLogits
from gnncal_lab.bench.measure import run_cell
from gnncal_lab.bench.plan import Cell, Plan, Task, choose_methods
from gnncal_lab.bench.provenance import note_run
from gnncal_lab.bench.records import Record, append_records, read_records
from speed_data import peak_bytes

TASK = Task("arxiv-years", "gcn", 0)
TRAINING = "training the GCN"
MEMORY = "memory.json"
MIB = 1 << 20
Peaks = dict[str, dict[str, float]]


def in_a_copy(work: Any, *arguments: Any) -> Any:
    """Run a function in a copy of this process, so that its memory is its own."""
    context = multiprocessing.get_context("fork")
    receiving, sending = context.Pipe(duplex=False)

    def run() -> None:
        before = peak_bytes()
        sending.send((work(*arguments), before, peak_bytes()))

    process = context.Process(target=run)
    process.start()
    sending.close()
    try:
        return receiving.recv()
    except EOFError:  # the process died
        return None
    finally:
        process.join()


def train(provider: TrainedLogits) -> dict[str, float]:
    """Train the classifier and cache its logits; CPU seconds and seconds on the clock."""
    started, cpu_started = perf_counter(), process_time()
    provider.prepare(TASK)
    return {"cpu_seconds": process_time() - cpu_started, "seconds": perf_counter() - started}


def fit(cell: Cell, bundle: Bundle, run: str) -> Record:
    """Fit and measure one method."""
    return run_cell(cell, bundle, {}, run=run)


def measure(options: argparse.Namespace) -> None:
    """Compute what has no record yet, with one thread."""
    torch.set_num_threads(1)  # and torch is loaded before any memory is measured
    folder: Path = options.out
    provider = TrainedLogits(folder / "logits", options.data)
    peaks: Peaks = _read(folder / MEMORY)
    provider.fetch(TASK.dataset)
    if not provider.is_ready(TASK):
        seconds, before, peak = in_a_copy(train, provider)
        peaks[TRAINING] = {**seconds, "before": before, "peak": peak}
        _write(folder / MEMORY, peaks)
    bundle = provider.load(TASK)
    methods = choose_methods(options.methods.split(","))
    plan = Plan([TASK.dataset], [TASK.backbone], [TASK.seed], methods, ["converged"])
    done = {cell for cell, record in read_records(folder).items() if record.error is None}
    pending = [cell for cell in plan.cells() if cell not in done]
    run = note_run(folder, f"python benchmarks/arxiv_years.py --data DATA --out {folder}")
    for cell in pending:
        found = in_a_copy(fit, cell, bundle, run)
        if found is None:
            print(f"{cell.method}: its process died", flush=True)
            continue
        record, before, peak = found
        append_records(folder, [record])
        peaks[cell.method] = {"before": before, "peak": peak}
        _write(folder / MEMORY, peaks)
        print(f"{cell.method}: {record.error or round(record.fit_cpu_seconds, 1)}", flush=True)


def table(folder: Path) -> str:
    """Return the records as a table in Markdown."""
    peaks = _read(folder / MEMORY)
    lines = [
        "| method | NLL | ECE % | accuracy % | fit, CPU s | memory, MiB |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    records = {cell.method: record for cell, record in read_records(folder).items()}
    for method in [name for name in choose_methods(["all"]) if name in records]:
        record = records[method]
        if record.error is not None:
            lines.append(f"| `{method}` | {record.error} | | | | |")
            continue
        nll, ece, accuracy = (record.metric(name) for name in ("nll", "ece", "accuracy"))
        extra = (peaks[method]["peak"] - peaks[method]["before"]) / MIB
        lines.append(
            f"| `{method}` | {nll:.4f} | {100 * ece:.2f} | {100 * accuracy:.2f} | "
            f"{record.fit_cpu_seconds:.2f} | {extra:,.0f} |"
        )
    return "\n".join(lines)


def _read(path: Path) -> Peaks:
    found: Peaks = json.loads(path.read_text()) if path.exists() else {}
    return found


def _write(path: Path, peaks: Peaks) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(peaks, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with more/arxiv_years.npz")
    parser.add_argument("--out", type=Path, help="folder of the records")
    parser.add_argument("--methods", default="all")
    parser.add_argument("--table", type=Path, help="print the table of these records")
    options = parser.parse_args()
    if options.table is not None:
        print(table(options.table))
        return
    measure(options)


if __name__ == "__main__":
    main()
