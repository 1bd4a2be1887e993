"""Which homophily estimate should HoTS use? Every estimator on the same frozen logits.

    python benchmarks/homophily_estimators.py BUNDLES --out benchmarks/results/estimators.csv

BUNDLES is a folder of ``.npz`` files as ``benchmarks/real_graphs.py`` writes them. One line a
bundle and method is appended as it completes, so a stopped run continues where it was. Then tables
are printed: test ECE and NLL, averaged over seeds and then over graph x backbone, with a paired
Wilcoxon test of each method against ``entropy-only`` (Holm over the methods), for all graphs and
for those with many and with few calibration nodes. ``--paper`` names a CSV with the paper's ECE
(dataset, backbone, method, mean, std) to compare with.
"""

from __future__ import annotations

import argparse
import csv
import warnings
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import numpy as np
from scipy.stats import wilcoxon

import gnncal
from gnncal.bundles import read_bundle

METHODS: dict[str, Callable[[], gnncal.Calibrator]] = {
    "uncalibrated": gnncal.Uncalibrated,
    "ts": gnncal.TemperatureScaling,
    "entropy-only": gnncal.EntropyOnly,
    "hots, support": lambda: gnncal.HoTS(homophily="support"),
    "hots, support clamped": lambda: gnncal.HoTS(homophily="support", clamp_train_labels=True),
    "hots, agreement": lambda: gnncal.HoTS(homophily="agreement"),
    "hots, agreement clamped": lambda: gnncal.HoTS(homophily="agreement", clamp_train_labels=True),
    "hots, cross-fitted": lambda: gnncal.HoTS(homophily="cross-fitted"),
    "hots, predictor": lambda: gnncal.HoTS(homophily="predictor"),
    "ts, paper's protocol": lambda: gnncal.TemperatureScaling(protocol="paper"),
    "entropy-only, paper's protocol": lambda: gnncal.EntropyOnly(protocol="paper"),
    "HoTS.paper('text')": lambda: gnncal.HoTS.paper("text"),
    "HoTS.paper('release')": lambda: gnncal.HoTS.paper("release"),
}
SLOW = ("hots, cross-fitted",)  # five predictors; run on the first seeds only
FIELDS = ["dataset", "backbone", "seed", "calibration_nodes", "method", "ece", "nll", "seconds"]
REFERENCE = "entropy-only"
MANY = 100  # calibration nodes
PAPER_COLUMNS = {
    "Uncal": "uncalibrated",
    "TS": "ts, paper's protocol",
    "HoTS": "HoTS.paper('text')",
    "HoTS ": "HoTS.paper('release')",
}
Cell = tuple[str, str]  # dataset and backbone
Runs = dict[Cell, dict[str, dict[str, tuple[float, float]]]]  # method -> seed -> (ece, nll)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("bundles", type=Path)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/estimators.csv"))
    parser.add_argument("--slow-seeds", type=int, default=2, help="seeds for the slow methods")
    parser.add_argument("--paper", type=Path, help="the paper's ECE by dataset and backbone")
    arguments = parser.parse_args()
    measure(arguments.bundles, arguments.out, arguments.slow_seeds)
    rows = read_rows(arguments.out)
    size = {(r["dataset"], r["backbone"]): int(r["calibration_nodes"]) for r in rows}
    many = [cell for cell in size if size[cell] >= MANY]
    few = [cell for cell in size if size[cell] < MANY]
    runs = collect(rows)
    for title, cells in (
        ("All graphs", [*many, *few]),
        (f"At least {MANY} calibration nodes", many),
        (f"Fewer than {MANY} calibration nodes", few),
    ):
        if cells:
            print(f"\n### {title}: {len(cells)} of graph x backbone\n")
            print_comparison(runs, cells)
    if arguments.paper is not None:
        print_reproduction(runs, arguments.paper)


def measure(folder: Path, out: Path, slow_seeds: int) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    if not out.exists():
        out.write_text(",".join(FIELDS) + "\n")
    done = {(r["dataset"], r["backbone"], r["seed"], r["method"]) for r in read_rows(out)}
    for path in sorted(folder.glob("*.npz"), key=lambda p: (p.stem.rsplit("-", 1)[1], p.stem)):
        dataset, backbone, seed = path.stem.rsplit("-", 2)
        wanted = [
            name
            for name in METHODS
            if (dataset, backbone, seed, name) not in done
            and (name not in SLOW or int(seed) < slow_seeds)
        ]
        if not wanted:
            continue
        bundle = read_bundle(path)
        truth = bundle.labels[bundle.test_nodes]
        for name in wanted:
            calibrator = METHODS[name]()
            start = perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", gnncal.GnncalWarning)
                calibrator.fit(
                    bundle.logits,
                    bundle.labels,
                    bundle.graph,
                    nodes=bundle.nodes,
                    train_nodes=bundle.train_nodes,
                )
            seconds = perf_counter() - start
            probs = calibrator.predict_proba(bundle.logits, bundle.graph)[bundle.test_nodes]
            ece = gnncal.metrics.expected_calibration_error(truth, probs)
            nll = gnncal.metrics.negative_log_likelihood(truth, probs)
            row = [dataset, backbone, seed, len(bundle.nodes), name]
            with out.open("a", newline="") as file:
                csv.writer(file).writerow([*row, f"{ece:.6f}", f"{nll:.6f}", f"{seconds:.3f}"])


def read_rows(out: Path) -> list[dict[str, str]]:
    with out.open(newline="") as file:
        return list(csv.DictReader(file))


def collect(rows: list[dict[str, str]]) -> Runs:
    runs: Runs = {}
    for row in rows:
        methods = runs.setdefault((row["dataset"], row["backbone"]), {})
        scores = float(row["ece"]), float(row["nll"])
        methods.setdefault(row["method"], {})[row["seed"]] = scores
    return runs


def mean_over_seeds(runs: Runs, cell: Cell, method: str, like: str) -> tuple[float, float]:
    """ECE and NLL of ``method`` over the seeds that ``like`` was run with."""
    seeds = runs[cell][like]
    ece, nll = np.mean([runs[cell][method][seed] for seed in seeds], axis=0)
    return float(ece), float(nll)


def print_comparison(runs: Runs, cells: list[Cell]) -> None:
    lines, p_values = {}, {}
    for name in METHODS:
        own, reference, ts = (
            np.array([mean_over_seeds(runs, cell, method, name) for cell in cells])
            for method in (name, REFERENCE, "ts")
        )
        gap = own[:, 1] - reference[:, 1]
        if name != REFERENCE:
            p_values[name] = float(wilcoxon(gap).pvalue)
        lines[name] = (
            f"| {name} | {100 * own[:, 0].mean():.2f} | {1000 * (own - ts)[:, 1].mean():+.1f} "
            f"| {1000 * gap.mean():+.1f} | {1000 * np.median(gap):+.1f} | {(gap < 0).sum()} |"
        )
    corrected = holm(p_values)
    print("| method | ECE % | NLL - TS | NLL - entropy-only | median | wins | p (Holm) |")
    print("|---|---|---|---|---|---|---|")
    for name, line in lines.items():
        print(line, f"{corrected[name]:.3f} |" if name in corrected else "– |")


def holm(p_values: dict[str, float]) -> dict[str, float]:
    ordered = sorted(p_values, key=p_values.__getitem__)
    corrected, largest = {}, 0.0
    for i, name in enumerate(ordered):
        largest = max(largest, min(1.0, p_values[name] * (len(ordered) - i)))
        corrected[name] = largest
    return corrected


def print_reproduction(runs: Runs, path: Path) -> None:
    with path.open(newline="") as file:
        paper = {
            (r["dataset"], r["backbone"].lower(), r["method"]): (float(r["mean"]), float(r["std"]))
            for r in csv.DictReader(file)
            if r["mean"]
        }
    print("\n### Test ECE % against the paper's: mean, and cells within its standard deviation\n")
    print("| paper's column | ours | paper | ours | within 1 std | within 2 std |")
    print("|---|---|---|---|---|---|")
    for column, name in PAPER_COLUMNS.items():
        cells = [cell for cell in runs if (*cell, column.strip()) in paper]
        theirs = np.array([paper[(*cell, column.strip())] for cell in cells])
        ours = np.array([100 * mean_over_seeds(runs, cell, name, name)[0] for cell in cells])
        away = np.abs(ours - theirs[:, 0]) / theirs[:, 1]
        print(
            f"| {column.strip()} | {name} | {theirs[:, 0].mean():.2f} | {ours.mean():.2f} "
            f"| {(away <= 1).sum()} of {len(cells)} | {(away <= 2).sum()} of {len(cells)} |"
        )


if __name__ == "__main__":
    main()
