"""How fast is gnncal? Every figure beside its rival's, measured in turn in the same run.

    python benchmarks/speed.py --out benchmarks/results/speed.json

Pieces (``--only NAME ...`` runs some of them):

import      ``import gnncal`` in fresh processes, beside ``import numpy``
predictor   an epoch of the paper's homophily predictor, against PyG's GCNConv(edge_index)
fit         HoTS's converged fit, against 1,000 epochs of the paper's Adam loop
ts          temperature scaling, against netcal, probmetrics and scikit-learn
reddit      HoTS() on 233,000 nodes and 115 million edges, against one sparse product
edges       every pass over the edges there, with the extra ``fast`` and without, against sparse
            products of SciPy, torch and PyG, and beside the limits of the machine's memory

Seconds are medians. On a busy machine only the ratios mean anything.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import warnings
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from gnncal import GnncalWarning
from speed_fit import bench_fit
from speed_predictor import bench_predictor
from speed_report import Record, Report
from speed_ts import bench_ts

PIECES = ("import", "predictor", "fit", "ts", "reddit", "edges")
REDDIT_EDGES = 115_000_000
PRODUCTS_AT_MOST = {  # of the piece "edges"
    "default in calibrate, compiled": 0.8,
    "default in calibrate, plain": 1.5,
    "default, separate calls, compiled": 1.2,
    "default, separate calls, plain": 2.6,
    "hots, fit and predict, compiled": 0.25,
}


def bench_import(report: Report) -> None:
    statements = {
        "import numpy": "import numpy",
        "import gnncal": "import gnncal",
        "first use of gnncal.HoTS": "import gnncal; gnncal.HoTS",
    }
    seconds: dict[str, list[float]] = {name: [] for name in statements}
    for _ in range(9):
        for name, statement in statements.items():
            code = f"from time import perf_counter as t; s = t(); {statement}; print(t() - s)"
            seconds[name].append(float(run_python("-c", code)))
    for name, values in seconds.items():
        report.add(f"{name:26}{median(values):8.3f} s", name=name, seconds=median(values))


def bench_reddit(report: Report, largest: int) -> None:
    print("  233,000 nodes and 41 classes throughout; only the number of edges grows")
    print(
        f"  {'edges':>12}{'build s':>9}{'fit s':>8}{'predict s':>10}{'product s':>10}"
        f"{'ratio':>7}{'peak / inputs':>15}"
    )
    record: Record = {}
    sizes = [n for n in (1_000_000, 4_000_000, 16_000_000, 64_000_000) if n < largest]
    for n_edges in (*sizes, largest):
        worker = Path(__file__).with_name("speed_reddit.py")
        record = json.loads(run_python(str(worker), "--edges", str(n_edges)))
        report.add(
            f"{record['edges']:12,}{record['construction_seconds']:9.2f}"
            f"{record['fit_seconds']:8.2f}{record['predict_seconds']:10.2f}"
            f"{record['product_seconds']:10.2f}{record['ratio_to_product']:7.2f}"
            f"{record['peak_to_inputs']:15.2f}",
            **record,
        )
    report.target("reddit: fit and predict / product", record["ratio_to_product"], at_most=4)
    report.target("reddit: peak memory / inputs", record["peak_to_inputs"], at_most=2)


def bench_edges(report: Report, n_edges: int, rounds: int) -> None:
    worker = Path(__file__).with_name("speed_edges.py")
    record = json.loads(run_python(str(worker), "--edges", str(n_edges), "--rounds", str(rounds)))
    seconds, cpu, limits = record["seconds"], record["cpu_seconds"], record["limits"]
    product, n_edges = seconds["product, SciPy"], record["edges"]
    print(f"  {n_edges:,} edges, {record['cores']} cores; a product is SciPy's, N x 41, float32")
    print("  on the clock, then of all cores together, which says more on a busy machine")
    print(f"  {'':44}{'seconds':>9}{'ns an edge':>12}{'products':>10}{'CPU s':>9}{'products':>10}")
    for name, value in seconds.items():
        shares = value / product, cpu[name] / cpu["product, SciPy"]
        shown = f"{name:44}{value:9.2f}{1e9 * value / n_edges:12.1f}{shares[0]:10.2f}"
        shown += f"{cpu[name]:9.2f}{shares[1]:10.2f}"
        report.add(shown, name=name, seconds=value, cpu_seconds=cpu[name])
    for name, value in limits.items():
        report.add(f"{name:44}{value:9.2f}", name=name, value=value)
    for name, (value, used) in record["seconds_of_calibrate"].items():
        shown = f"calibrate: {name}"
        line = f"{shown:44}{value:9.2f}{1e9 * value / n_edges:12.1f}{'':10}{used:9.2f}"
        report.add(line, name=shown, seconds=value, cpu_seconds=used)
    for name, at_most in PRODUCTS_AT_MOST.items():
        report.target(f"edges: {name} / product", seconds[name] / product, at_most=at_most)
    build = seconds["build, compiled"] / seconds["np.sort of packed keys"]
    report.target("edges: build, compiled / np.sort", build, at_most=1 / 3)


def run_python(*arguments: str) -> str:
    """The output of a fresh interpreter."""
    command = [sys.executable, *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def run_piece(name: str, report: Report, options: argparse.Namespace) -> None:
    if name == "import":
        bench_import(report)
    elif name == "predictor":
        bench_predictor(report)
    elif name == "fit":
        bench_fit(report, options.run)
    elif name == "ts":
        bench_ts(report)
    elif name == "reddit":
        bench_reddit(report, options.reddit_edges)
    else:
        bench_edges(report, options.reddit_edges, options.rounds)


def version_of(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def environment() -> Record:
    names = ("gnncal", "numpy", "scipy", "scikit-learn", "torch", "torch-geometric", "numba")
    versions = {name: version_of(name) for name in (*names, "netcal", "probmetrics")}
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        **versions,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="+", choices=PIECES, default=list(PIECES))
    parser.add_argument("--run", type=Path, help="fit the logits of this bench run too")
    parser.add_argument("--reddit-edges", type=int, default=REDDIT_EDGES)
    parser.add_argument("--rounds", type=int, default=3, help="of the piece 'edges'")
    options = parser.parse_args()
    warnings.simplefilter("ignore", GnncalWarning)  # bounds are not the subject here
    result: Record = {"environment": environment(), "pieces": {}, "targets": []}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    for name in options.only:
        print(name)
        report = Report()
        run_piece(name, report, options)
        result["pieces"][name] = report.figures
        result["targets"] += report.targets
        options.out.write_text(json.dumps(result, indent=1) + "\n")  # a later piece may fail
    print("targets")
    for target in result["targets"]:
        limit = " ".join(
            f"{key} {target[key]:g}" for key in ("at_least", "at_most") if key in target
        )
        verdict = "met" if target["met"] else "NOT MET"
        print(
            f"  {target['name']:45}{target['value']:10.3g}  {limit.replace('_', ' '):16}{verdict}"
        )


if __name__ == "__main__":
    main()
