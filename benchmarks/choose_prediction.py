"""Choose how the structural law predicts once it is fitted, one family of graphs left out.

    python benchmarks/choose_prediction.py --cache LOGITS --data RAW --seeds 4

The labels leave each node's ln T open within a standard deviation. Candidates: the most probable
temperature; the mean of softmax(z / T) over three temperatures that stand for all, or for half of
the variance; and each of them mixed with temperature scaling, by how probable the labels make
either (a way to do no harm where a model is nearly calibrated). Choice and judging are those of
``choose_structural.py``: test log loss with 30, 100 and all calibration nodes, mean rank over the
other families.
"""

from __future__ import annotations

import json

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit
from scipy.stats import rankdata

from choose_structural import SIZES, by_family
from families import for_each_task, options_for
from gnncal.calibrators.structural import centre_of
from gnncal.data.arrays import FloatArray
from gnncal.data.nodes import Nodes
from gnncal.data.probability import softmax
from gnncal.math.formulas import (
    describe_neighbourhoods,
    log_temperature_variance,
    quadrature_mean,
    quadrature_temperatures,
)
from gnncal.math.losses import TemperatureLoss
from gnncal.math.structural_fit import (
    LawFit,
    LawPrior,
    LawRows,
    TemperatureLaw,
    dense_arrow,
    fit_law,
)
from gnncal_lab.bench.logits import TrainedLogits
from gnncal_lab.bench.plan import Task

SHARES = {"most probable": 0.0, "mean over half of the variance": 0.5, "mean": 1.0}
MIXED = "{}, mixed with one temperature"
LEVEL_SCALE = 0.5  # prior of ln T of temperature scaling, where it is mixed in


def losses_of(task: Task, provider: TrainedLogits) -> list[tuple[str, int, float]]:
    """(candidate, calibration nodes, test log loss)."""
    bundle = provider.load(task)
    described = describe_neighbourhoods(Nodes(bundle.logits, bundle.graph))
    test = np.sort(bundle.test_nodes)
    labels, z = bundle.labels[test], bundle.logits[test].astype(np.float64)
    found = []
    for size in SIZES:
        nodes = np.sort(bundle.calibration_nodes)
        if size is not None and size < nodes.size:
            nodes = np.sort(np.random.default_rng(task.seed).choice(nodes, size, replace=False))
        elif size is not None:
            continue
        s = np.nan_to_num(described.covariates - centre_of(described.covariates[nodes]), nan=0.0)
        rows = LawRows(described.entropy, s, described.predictions)
        fit = fit_law(rows.take(nodes), bundle.logits[nodes], bundle.labels[nodes], LawPrior())
        one, evidence_of_one = one_temperature(bundle.logits[nodes], bundle.labels[nodes])
        weight = expit(evidence(fit, len(nodes)) - evidence_of_one)
        at_label = softmax(z, np.full(len(z), one))[np.arange(len(z)), labels]
        for name, share in SHARES.items():
            p = probability_of_label(fit, rows.take(test), z, labels, share)
            for candidate, probs in (
                (name, p),
                (MIXED.format(name), weight * p + (1.0 - weight) * at_label),
            ):
                loss = float(-np.log(np.maximum(probs, 1e-12)).mean())
                found.append((candidate, size or 0, loss))
    return found


def probability_of_label(
    fit: LawFit, rows: LawRows, z: FloatArray, labels: FloatArray, share: float
) -> FloatArray:
    """Mean probability of the label over three temperatures, for a share of the variance."""
    certain, uncertain = np.exp(fit.law[:2])
    variance = log_temperature_variance(*rows, certain, uncertain, fit.covariance)
    temperatures = quadrature_temperatures(fit.law.log_temperature(rows), variance, share)
    nodes = np.arange(len(z))
    return quadrature_mean([softmax(z, T)[nodes, labels] for T in temperatures])


def evidence(fit: LawFit, n_nodes: int) -> float:
    """Log of how probable the law makes the labels, by Laplace's approximation."""
    prior, m, n_classes = LawPrior(), len(fit.law.weights), len(fit.law.offsets)
    half = 0.5 * prior.ratio
    nothing = TemperatureLaw(half, -half, np.zeros(m), np.zeros(n_classes))
    typical, _, precision = prior.derivatives(nothing)
    narrower = np.linalg.slogdet(fit.covariance)[1] + np.linalg.slogdet(dense_arrow(precision))[1]
    return float(typical - n_nodes * fit.solution.loss + 0.5 * narrower)


def one_temperature(logits: FloatArray, labels: FloatArray) -> tuple[float, float]:
    """The temperature of all nodes, and the log of how probable it makes the labels."""
    loss, n = TemperatureLoss(logits, labels), len(labels)

    def posterior(log_T: float) -> float:
        return n * loss.value(np.full(n, np.exp(log_T))) + 0.5 * (log_T / LEVEL_SCALE) ** 2

    best, step = minimize_scalar(posterior, bounds=(-4.0, 4.0), method="bounded").x, 1e-3
    bend = posterior(best + step) - 2.0 * posterior(best) + posterior(best - step)
    precision = max(bend / step**2, 1e-3)
    return float(np.exp(best)), -posterior(best) - 0.5 * np.log(precision * LEVEL_SCALE**2)


def main() -> None:
    out = "benchmarks/results/choose_prediction.json"
    options = options_for(__doc__.splitlines()[0], out).parse_args()
    found = for_each_task(options, losses_of)
    report: dict[str, object] = {"tasks": len(found)}
    names, families, table = by_family(found)
    rank = rankdata(table, axis=0)
    report["mean rank"] = dict(zip(names, rank.mean(axis=1).round(2).tolist(), strict=True))
    report["left out"] = {
        family: names[int(np.delete(rank, j, axis=1).mean(axis=1).argmin())]
        for j, family in enumerate(families)
    }
    report["families"] = families
    first = names.index("most probable")
    for size in SIZES:
        some = {
            task: [row for row in rows if row[1] == (size or 0)] for task, rows in found.items()
        }
        some = {task: rows for task, rows in some.items() if rows}
        every = {task: [(name, 0, loss) for name, _, loss in rows] for task, rows in some.items()}
        known, columns, losses = by_family(every)
        above = 1000 * (losses - losses[known.index("most probable")])
        report[f"thousandths of a nat above the most probable, {size or 'all'} nodes"] = {
            "families": columns,
            **{
                name: [round(float(v), 2) for v in row]
                for name, row in zip(known, above, strict=True)
            },
        }
    above = 1000 * (table - table[first])
    report["thousandths of a nat above the most probable, mean and each family"] = {
        name: [round(float(v), 2) for v in (row.mean(), *row)]
        for name, row in zip(names, above, strict=True)
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
