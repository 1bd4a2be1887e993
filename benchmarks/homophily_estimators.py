"""Which homophily estimate should HoTS use? Every estimator on the same frozen logits.

    python benchmarks/homophily_estimators.py BUNDLES --out benchmarks/results/estimators.csv

BUNDLES is a folder of ``.npz`` files as ``benchmarks/real_graphs.py`` writes them. One line a
bundle and method is appended as it completes, so a stopped run continues where it was. Then a
table is printed: mean test ECE and NLL over graph x backbone, differences from temperature
scaling, and a paired Wilcoxon test of each method against ``entropy-only``, Holm-corrected.
"""

from __future__ import annotations

import argparse
import csv
import warnings
from collections import defaultdict
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
    "hots support": lambda: gnncal.HoTS(homophily="support"),
    "hots support clamped": lambda: gnncal.HoTS(homophily="support", clamp_train_labels=True),
    "hots agreement": lambda: gnncal.HoTS(homophily="agreement"),
    "hots agreement clamped": lambda: gnncal.HoTS(homophily="agreement", clamp_train_labels=True),
    "hots predictor": lambda: gnncal.HoTS(homophily="predictor"),
    "hots cross-fitted": lambda: gnncal.HoTS(homophily="cross-fitted"),
    "hots paper text": lambda: gnncal.HoTS.paper("text"),
    "hots paper release": lambda: gnncal.HoTS.paper("release"),
    "entropy-only paper": lambda: gnncal.EntropyOnly(protocol="paper"),
    "ts paper": lambda: gnncal.TemperatureScaling(protocol="paper"),
}
SLOW = ("hots cross-fitted",)  # five predictors; run on the first seeds only
FIELDS = ["dataset", "backbone", "seed", "method", "ece", "nll", "seconds"]
REFERENCE = "entropy-only"
Key = tuple[str, str]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("bundles", type=Path)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/estimators.csv"))
    parser.add_argument("--slow-seeds", type=int, default=2, help="seeds for the slow methods")
    arguments = parser.parse_args()
    measure(arguments.bundles, arguments.out, arguments.slow_seeds)
    report(arguments.out)


def measure(folder: Path, out: Path, slow_seeds: int) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    rows = read_rows(out)
    done = {(r["dataset"], r["backbone"], r["seed"], r["method"]) for r in rows}
    if not rows:
        out.write_text(",".join(FIELDS) + "\n")
    paths = sorted(folder.glob("*.npz"), key=lambda p: (p.stem.rsplit("-", 1)[1], p.stem))
    for path in paths:
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
            start = perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", gnncal.GnncalWarning)
                calibrator = METHODS[name]().fit(
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
            with out.open("a") as file:
                row = [dataset, backbone, seed, name, f"{ece:.6f}", f"{nll:.6f}", f"{seconds:.3f}"]
                file.write(",".join(row) + "\n")


def read_rows(out: Path) -> list[dict[str, str]]:
    if not out.exists():
        return []
    with out.open() as file:
        return list(csv.DictReader(file))


def report(out: Path) -> None:
    """Average over seeds within a graph and backbone, then over those."""
    runs: dict[tuple[Key, str], list[tuple[str, float, float]]] = defaultdict(list)
    for row in read_rows(out):
        key = (row["dataset"], row["backbone"])
        runs[key, row["method"]].append((row["seed"], float(row["ece"]), float(row["nll"])))
    cells = sorted({key for key, _ in runs})
    names = [name for name in METHODS if any((key, name) in runs for key in cells)]
    p_values: dict[str, float] = {}
    lines: dict[str, str] = {}
    for name in names:
        ece, nll, nll_ts, nll_reference = [], [], [], []
        for key in cells:
            found = runs.get((key, name), [])
            if not found:
                continue
            seeds = {seed for seed, *_ in found}
            ece.append(100 * np.mean([e for _, e, _ in found]))
            nll.append(np.mean([n for *_, n in found]))
            for other, values in (("ts", nll_ts), (REFERENCE, nll_reference)):
                values.append(np.mean([n for s, _, n in runs[key, other] if s in seeds]))
        gap = np.array(nll) - np.array(nll_reference)
        if name != REFERENCE and np.any(gap):
            p_values[name] = float(wilcoxon(gap).pvalue)
        lines[name] = (
            f"| {name} | {np.mean(ece):.2f} | {np.mean(np.array(nll) - nll_ts):+.4f} "
            f"| {gap.mean():+.4f} | {(gap < 0).sum()} of {len(gap)} |"
        )
    corrected = holm(p_values)
    print("| method | mean ECE % | NLL - TS | NLL - entropy-only | better than it | Holm p |")
    print("|---|---|---|---|---|---|")
    for name, line in lines.items():
        print(line, f"{corrected[name]:.3f} |" if name in corrected else "– |")


def holm(p_values: dict[str, float]) -> dict[str, float]:
    ordered = sorted(p_values, key=p_values.__getitem__)
    corrected, largest = {}, 0.0
    for i, name in enumerate(ordered):
        largest = max(largest, min(1.0, p_values[name] * (len(ordered) - i)))
        corrected[name] = largest
    return corrected


if __name__ == "__main__":
    main()
