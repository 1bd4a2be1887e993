"""How many calibration nodes each method needs: log loss and ECE against their number.

    python benchmarks/calibration_nodes.py --cache LOGITS --data RAW --seeds 2

Calibration nodes are drawn from the validation nodes, the same for every method; the test nodes
stay as they are. One line of the CSV is a graph, a method and a number of nodes, averaged over
backbones and seeds; the figure shows the mean over graphs.
"""

from __future__ import annotations

import csv
import warnings
from pathlib import Path

import numpy as np

from families import FAMILY_OF, for_each_task, options_for
from gnncal import metrics
from gnncal.calibrators.registry import get_calibrator
from gnncal_lab.bench.logits import TrainedLogits
from gnncal_lab.bench.plan import Task

SIZES = (5, 10, 20, 30, 50, 100, 200, 500, 0)  # 0: all
METHODS = (
    "ts",
    "entropy-only",
    "hts",
    "hots",
    "svs",
    "structural-temperature",
    "structural",
    "structural-vector",
    "structural-free",
)
# Okabe and Ito's colours, which colour-blind readers can tell apart; ours are the full lines.
COLOURS = dict(
    zip(
        METHODS,
        [
            "#000000",
            "#999999",
            "#E69F00",
            "#D55E00",
            "#CC79A7",
            "#0072B2",
            "#56B4E9",
            "#009E73",
            "#004D40",
        ],
        strict=True,
    )
)
Row = tuple[str, str, int, float, float, float]  # graph, method, size, NLL, ECE %, accuracy %


def rows_of(task: Task, provider: TrainedLogits) -> list[Row]:
    """Fit every method on every number of nodes of one frozen classifier."""
    bundle = provider.load(task)
    test = np.sort(bundle.test_nodes)
    labels = bundle.labels[test]
    found: list[Row] = []
    order = np.random.default_rng(task.seed).permutation(bundle.calibration_nodes)
    for size in SIZES:
        if size >= len(order):
            continue
        nodes = np.sort(order[: size or len(order)])
        for method in METHODS:
            calibrator = get_calibrator(method)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                calibrator.fit(bundle.logits, bundle.labels, bundle.graph, calibration_nodes=nodes)
            probs = calibrator.predict_proba(bundle.logits, bundle.graph)[test]
            found.append(
                (
                    task.dataset,
                    method,
                    size,
                    metrics.METRICS["nll"](labels, probs),
                    100 * metrics.expected_calibration_error(labels, probs),
                    100 * metrics.METRICS["accuracy"](labels, probs),
                )
            )
    return found


def averaged(rows: list[Row]) -> list[Row]:
    """Mean over backbones and seeds."""
    cells: dict[tuple[str, str, int], list[tuple[float, float, float]]] = {}
    for graph, method, size, *values in rows:
        cells.setdefault((graph, method, size), []).append(tuple(values))
    return [(*cell, *np.mean(values, axis=0).tolist()) for cell, values in cells.items()]


def draw(rows: list[Row], path: Path) -> None:
    """Log loss above that of `structural-free` with all nodes, and ECE; graphs with all sizes."""
    import matplotlib.pyplot as plt

    sizes = [size for size in SIZES if size]
    common = [g for g in FAMILY_OF if all((g, "ts", s) in {r[:3] for r in rows} for s in sizes[:7])]
    value = {row[:3]: row[3:] for row in rows}
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for column, (axis, title) in enumerate(
        zip(axes, ("Log loss above the best", "ECE %"), strict=True)
    ):
        for method in METHODS:
            points = []
            for size in [*sizes[:7], 0]:
                of = [
                    value[g, method, size][column]
                    - (value[g, "structural-free", 0][0] if column == 0 else 0.0)
                    for g in common
                ]
                points.append(np.mean(of))
            ours = method.startswith("structural")
            axis.plot(
                range(len(points)),
                points,
                lw=2.2 if ours else 1.2,
                color=COLOURS[method],
                label=method,
                ls="-" if ours else "--",
                marker="o",
                ms=3,
            )
        axis.set_xticks(range(8), [*map(str, sizes[:7]), "all"])
        axis.set_xlabel("calibration nodes")
        axis.set_title(f"{title}, mean over {len(common)} graphs", loc="left", fontsize=10)
        axis.set_ylim(0, 0.25 if column == 0 else 15)
        axis.grid(alpha=0.3)
    axes[1].legend(fontsize=8, frameon=False)
    figure.savefig(path, dpi=150, metadata={"Software": None})


def main() -> None:
    out = "benchmarks/results/calibration_nodes.csv"
    parser = options_for(__doc__.splitlines()[0], out)
    parser.add_argument("--figure", type=Path, default=Path("docs/images/calibration_nodes.png"))
    parser.add_argument("--redraw", action="store_true", help="only draw what --out has")
    options = parser.parse_args()
    if options.redraw:
        with options.out.open(newline="") as file:
            _, *lines = csv.reader(file)
        draw([(g, m, int(n), *map(float, values)) for g, m, n, *values in lines], options.figure)
        return
    found = for_each_task(options, rows_of)
    rows = averaged([row for part in found.values() for row in part])
    with options.out.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["graph", "method", "nodes", "nll", "ece_percent", "accuracy_percent"])
        writer.writerows((*row[:3], *(f"{value:.5f}" for value in row[3:])) for row in rows)
    draw(rows, options.figure)


if __name__ == "__main__":
    main()
