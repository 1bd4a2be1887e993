"""What a calibrator is worth after the world has moved, and what repairs it.

    python benchmarks/shift.py --data DATA --cache results/practice --seeds 3

A model and its calibrator come from one graph and are used on another, or in another year, or where
positives have another rate. Three calibrators are judged on the target's test nodes: the source's
as it is, one fitted afresh on n labels of the target, and the source's updated with the same
labels. Rates that are given are tried too. ``moved.py`` has the
moves; ``choose_update.py`` chose the prior of the update. ``--summary FILE`` prints the tables of
docs/results.md from a file that was written.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from gnncal import Calibrator, Graph, get_calibrator
from gnncal.data.arrays import FloatArray
from gnncal.data.nodes import Nodes
from gnncal.metrics import METRICS, expected_calibration_error
from gnncal_lab.simulation.estimate import fit_without_warnings
from moved import FAMILIES, Move, moves
from practice import Models, options_for

METHODS = ("structural", "structural-free", "hots", "ts", "sms")
SIZES = (10, 20, 50, 100, 200)
RATE_METHOD = "structural-free"
N_BINS = 15
N_DRAWS = 2000  # of the bootstrap over sources and targets
MEASURES = ("nll", "ece", "positive")


def positive_error(labels: Any, probs: FloatArray) -> float:
    """Mean gap between P(class 1) and its share in bins of equal size; NaN with more classes."""
    if probs.shape[1] > 2:
        return float("nan")
    order = np.argsort(probs[:, 1], kind="stable")
    parts = np.array_split(order, N_BINS)
    gaps = [abs(probs[part, 1].mean() - labels[part].mean()) * part.size for part in parts]
    return float(np.sum(gaps) / order.size)


def measured(calibrator: Calibrator, target: Nodes, move: Move) -> list[float]:
    """Log loss, ECE and error of P(positive) on the target's test nodes."""
    test = move.there.test_nodes
    probs, labels = calibrator.predict_proba(target)[test], move.there.labels[test]
    return [
        float(METRICS["nll"](labels, probs)),
        float(expected_calibration_error(labels, probs)),
        positive_error(labels, probs),
    ]


def judged(
    move: Move, seed: int, methods: list[str]
) -> Iterator[tuple[str, str, int, list[float]]]:
    """Method, what was done, number of labels, and measures; all target labels are -1."""
    here, there = move.here, move.there
    source, target = Nodes(here.logits, here.graph), Nodes(there.logits, there.graph)
    order = np.random.default_rng([seed, 2]).permutation(there.calibration_nodes)
    for method in methods:

        def fit(nodes: Nodes, labels: Any, chosen: Any, name: str = method) -> Calibrator:
            return fit_without_warnings(
                get_calibrator(name), nodes, labels, calibration_nodes=chosen
            )

        fitted = fit(source, here.labels, here.calibration_nodes)
        yield method, "source", 0, measured(fitted, target, move)
        everything = fit(target, there.labels, there.calibration_nodes)
        yield method, "afresh", -1, measured(everything, target, move)
        for size in SIZES:
            chosen = np.sort(order[:size])
            afresh = fit(target, there.labels, chosen)
            yield method, "afresh", size, measured(afresh, target, move)
            updated = fitted.update(target, there.labels, calibration_nodes=chosen)
            yield method, "updated", size, measured(updated, target, move)
        if method == RATE_METHOD:
            counts = np.bincount(there.labels[there.test_nodes], minlength=there.logits.shape[1])
            if (counts > 0).all():
                moved = fitted.update(target, rates=counts / counts.sum())
                yield method, "given rates", 0, measured(moved, target, move)


def run(options: Any) -> dict[str, Any]:
    """Judge every move, averaged over seeds."""
    models = Models(options.data, options.cache)
    found: dict[tuple[str, ...], list[list[float]]] = {}
    for family in options.families.split(","):
        for seed in range(options.seeds if family != "years" else 1):
            for move in moves(models, family, seed):
                for method, what, size, values in judged(move, seed, options.methods.split(",")):
                    key = (family, move.source, move.target, method, what, str(size))
                    found.setdefault(key, []).append(values)
                print(family, seed, move.source, move.target, flush=True)
    rows = []
    for (family, source, target, method, what, size), values in found.items():
        means = [_mean([v[i] for v in values]) for i in range(len(MEASURES))]
        rows.append([family, source, target, method, what, int(size), *means, len(values)])
    columns = ["family", "source", "target", "method", "what", "labels", *MEASURES, "seeds"]
    return {"seeds": options.seeds, "columns": columns, "rows": rows}


def _mean(values: list[float]) -> float | None:
    known = [value for value in values if not np.isnan(value)]
    return round(float(np.mean(known)), 5) if known else None


def two_way(
    values: dict[tuple[str, str], float], statistic: Callable[[FloatArray], float] = np.mean
) -> tuple[float, float]:
    """A 95% interval for a mean over pairs that share sources and targets.

    Sources and targets are drawn again, each with replacement and apart from each other; a pair
    counts as often as its source was drawn times its target. So pairs that share a graph move
    together.
    """
    sources, targets = ({pair[side] for pair in values} for side in (0, 1))
    generator, draws = np.random.default_rng(0), []
    for _ in range(N_DRAWS):
        weights = [
            dict(
                zip(
                    *np.unique(generator.choice(sorted(names), len(names)), return_counts=True),
                    strict=True,
                )
            )
            for names in (sources, targets)
        ]
        counts = {pair: weights[0].get(pair[0], 0) * weights[1].get(pair[1], 0) for pair in values}
        total = sum(counts.values())
        if total:
            draws.append(sum(values[pair] * count for pair, count in counts.items()) / total)
    low, high = np.quantile(draws, (0.025, 0.975))
    return float(low), float(high)


class Results:
    """The rows of a run, looked up by what they are about."""

    def __init__(self, result: dict[str, Any]) -> None:
        self.rows = {tuple(row[:6]): row[6:9] for row in result["rows"]}
        self.pairs: dict[str, list[tuple[str, str]]] = {}
        for family, source, target, *_ in self.rows:
            if (source, target) not in self.pairs.setdefault(family, []):
                self.pairs[family].append((source, target))

    def of(
        self, family: str, method: str, what: str, size: int, measure: str = "nll"
    ) -> dict[tuple[str, str], float]:
        """Return a measure by pair of graphs."""
        i = MEASURES.index(measure)
        found = {
            pair: self.rows[(family, *pair, method, what, size)][i]
            for pair in self.pairs[family]
            if (family, *pair, method, what, size) in self.rows
        }
        return {pair: value for pair, value in found.items() if value is not None}

    def mean(self, *about: Any, measure: str = "nll") -> float:
        """Return the mean over pairs."""
        values = list(self.of(*about, measure=measure).values())
        return float(np.mean(values)) if values else float("nan")


def summary(result: dict[str, Any]) -> str:
    """Return the tables of docs/results.md."""
    results, lines = Results(result), []
    for family in [name for name in FAMILIES if name in results.pairs]:
        lines += [f"\n### {family}: {len(results.pairs[family])} moves\n"]
        sizes = " | ".join(f"{size}" for size in SIZES)
        lines += [f"| log loss | as it is | {sizes} | all | half gone at 50 |", "|---" * 9 + "|"]
        for method in METHODS:
            source = results.mean(family, method, "source", 0)
            everything = results.mean(family, method, "afresh", -1)
            for what in ("afresh", "updated"):
                cells = [f"{results.mean(family, method, what, size):.3f}" for size in SIZES]
                at_50 = results.mean(family, method, what, 50)
                gone = (source - at_50) / (source - everything)
                first = [f"{source:.3f}"] if what == "updated" else [""]
                last = [f"{everything:.3f}", f"{gone:.0%}" if what == "updated" else ""]
                lines.append(f"| {method}, {what} | " + " | ".join([*first, *cells, *last]) + " |")
        lines += ["", "| updated less the better of the two, thousandths | " + sizes + " |"]
        lines += ["|---" * 6 + "|"]
        for method in METHODS:
            cells = [_above(results, family, method, size) for size in SIZES]
            lines.append(f"| {method} | " + " | ".join(cells) + " |")
        for measure, title in (("ece", "ECE %"), ("positive", "error of P(positive) %")):
            if np.isnan(results.mean(family, "ts", "source", 0, measure=measure)):
                continue
            lines += ["", f"| {title} | as it is | {sizes} | all |", "|---" * 8 + "|"]
            for method in METHODS:
                values = [results.mean(family, method, "source", 0, measure=measure)]
                values += [
                    results.mean(family, method, "updated", n, measure=measure) for n in SIZES
                ]
                values += [results.mean(family, method, "afresh", -1, measure=measure)]
                cells = [f"{100 * value:.1f}" for value in values]
                lines.append(f"| {method} | " + " | ".join(cells) + " |")
        lines += _rate_lines(results, family)
    return "\n".join(lines)


def _above(results: Results, family: str, method: str, size: int) -> str:
    """Mean difference to the better of the two means, with its interval over graphs."""
    updated = results.of(family, method, "updated", size)
    others = {
        "source": results.of(family, method, "source", 0),
        "afresh": results.of(family, method, "afresh", size),
    }
    better = min(others.values(), key=lambda values: np.mean(list(values.values())))
    difference = {pair: 1000 * (updated[pair] - better[pair]) for pair in updated}
    low, high = two_way(difference)
    return f"{np.mean(list(difference.values())):+.1f} [{low:+.1f}, {high:+.1f}]"


def _rate_lines(results: Results, family: str) -> list[str]:
    lines = [""]
    for source, target in results.pairs[family] if family == "tolokers" else []:
        cells = []
        for what in ("source", "given rates"):
            row = results.rows[family, source, target, RATE_METHOD, what, 0]
            cells.append(f"{what} {row[0]:.3f} / {100 * row[2]:.1f}")
        lines.append(f"- {target} (log loss / error of P(positive) %): " + ", ".join(cells))
    return lines


def speed() -> None:
    """Print the CPU seconds of an update with 200 labels, beyond describing the graph."""
    for n_nodes, n_edges, n_classes in ((20_000, 200_000, 5), (230_000, 2_000_000, 41)):
        generator = np.random.default_rng(0)
        labels = generator.integers(0, n_classes, n_nodes)
        logits = generator.normal(size=(n_nodes, n_classes)) + 2 * np.eye(n_classes)[labels]
        graph = Graph(generator.integers(0, n_nodes, (2, n_edges)), n_nodes)
        nodes = Nodes(logits.astype(np.float32), graph)
        for method in METHODS[:-1]:
            fitted = fit_without_warnings(
                get_calibrator(method), nodes, labels, calibration_nodes=range(2000)
            )
            start = process_time()
            fitted.update(nodes, labels, calibration_nodes=range(2000, 2200))
            took = process_time() - start
            print(f"{n_nodes:,} nodes, {n_classes} classes, {method}: {took:.2f} s")


def main() -> None:
    """Run, or print the tables of an earlier run."""
    parser = options_for(__doc__, "benchmarks/results/shift.json")
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--summary", type=Path, help="print the tables of this file and stop")
    parser.add_argument("--speed", action="store_true", help="print how long an update takes")
    options = parser.parse_args()
    if options.speed:
        speed()
        return
    if options.summary is None:
        result = run(options)
        options.out.write_text(json.dumps(result).replace("], [", "],\n[") + "\n")
    else:
        result = json.loads(options.summary.read_text())
    print(summary(result))


if __name__ == "__main__":
    main()
