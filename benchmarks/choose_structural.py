"""Choose the covariates and the prior of the structural law, one family of graphs left out.

    python benchmarks/choose_structural.py --cache LOGITS --data RAW --seeds 4

For every candidate, graph and number of calibration nodes (30, 100, all) the law is fitted and its
log loss is measured on the test nodes. A family's candidate is the one with the lowest mean rank on
the *other* families; what it then gives on the family itself is the honest figure. Ranks, because
losses of tiny graphs differ most and would decide alone. The package has the candidate with the
lowest mean rank over all families.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import product

import numpy as np
from scipy.stats import rankdata

from families import FAMILIES, for_each_task, options_for
from gnncal.calibrators.structural import centre_of
from gnncal.data.arrays import FloatArray, IntArray
from gnncal.data.nodes import Nodes
from gnncal.data.probability import normalised_entropy, normalised_homophily, softmax
from gnncal.files.bundle import Bundle
from gnncal.math.formulas import COVARIATES, describe_neighbourhoods
from gnncal.math.losses import TemperatureLoss
from gnncal.math.structural_fit import LawPrior, LawRows, fit_law
from gnncal_lab.bench.logits import TrainedLogits
from gnncal_lab.bench.plan import Task

SIZES = (30, 100, None)  # calibration nodes; None: all
DEFAULT = COVARIATES
MORE = ("in_support", "agreement", "entropy_of_mean", "logit_gap", "support_squared")
PRIORS = [
    LawPrior(ratio=ratio, level_scale=level, weight_rate=rate, offset_precision=precision)
    for ratio, level, rate, precision in product(
        (0.35, 0.7, 1.2, 1.7), (0.3, 0.5), (0.5, 1.0, 2.0), (32.0, 64.0)
    )
]
ABLATED_PRIORS = {
    "no offsets for classes": LawPrior(offset_precision=1e6),
    "no weights": LawPrior(weight_shape=1e6, weight_rate=1.0),
    "ratio around 1 (centre 0)": LawPrior(ratio=0.0),
    "ratio with scale 0.5": LawPrior(ratio_scale=0.5),
    "ratio with scale 2": LawPrior(ratio_scale=2.0),
    "light tails (30 degrees of freedom)": LawPrior(degrees_of_freedom=30.0),
    "fixed precision of weights, 8": LawPrior(weight_shape=8e6, weight_rate=1e6),
    "hardly any prior": LawPrior(
        ratio_scale=10.0, level_scale=10.0, weight_rate=100.0, offset_precision=0.01
    ),
}


def candidates() -> Iterator[tuple[str, tuple[str, ...], LawPrior]]:
    """Name, covariates and prior of everything that is tried."""
    for prior in PRIORS:
        yield f"prior {_short(prior)}", DEFAULT, prior
    for name, prior in ABLATED_PRIORS.items():
        yield name, DEFAULT, prior
    for left_out in DEFAULT:
        yield f"without {left_out}", tuple(c for c in DEFAULT if c != left_out), LawPrior()
    degrees = ("log_in_degree", "log_out_degree")
    yield "without degrees", tuple(c for c in DEFAULT if c not in degrees), LawPrior()
    for added in MORE:
        yield f"with {added}", (*DEFAULT, added), LawPrior()


def all_covariates(bundle: Bundle) -> tuple[dict[str, FloatArray], IntArray, FloatArray]:
    """Every covariate by name, the predictions, and the entropies."""
    found = describe_neighbourhoods(Nodes(bundle.logits, bundle.graph))
    named = dict(zip(COVARIATES, found.covariates.T, strict=True))
    n_nodes, n_classes = bundle.logits.shape
    nodes, graph = np.arange(n_nodes), bundle.graph
    probs, predictions = softmax(bundle.logits), found.predictions
    votes = np.eye(n_classes)[predictions]
    top = np.sort(bundle.logits.astype(np.float64), axis=1)
    mean = found.mean_probs.astype(np.float64)
    agreement = graph.neighbour_mean(votes, side="both")[nodes, predictions]
    in_support = graph.neighbour_mean(probs, side="in")[nodes, predictions]
    named |= {
        "in_support": normalised_homophily(in_support, n_classes),
        "agreement": normalised_homophily(agreement, n_classes),
        "entropy_of_mean": normalised_entropy(np.log(np.maximum(mean, 1e-12))),
        "logit_gap": (top[:, -1] - top[:, -2]) / np.maximum(top[:, -1] - top.mean(axis=1), 1e-12),
        "support_squared": named["support"] ** 2,
    }
    return named, predictions, found.entropy


def losses_of(task: Task, provider: TrainedLogits) -> list[tuple[str, int, float]]:
    """(candidate, calibration nodes, test log loss less that of temperature scaling)."""
    bundle = provider.load(task)
    named, predictions, entropy = all_covariates(bundle)
    test = np.sort(bundle.test_nodes)
    judged = TemperatureLoss(bundle.logits[test], bundle.labels[test])
    found = []
    for size in SIZES:
        nodes = np.sort(bundle.calibration_nodes)
        if size is not None and size < nodes.size:
            generator = np.random.default_rng(task.seed)
            nodes = np.sort(generator.choice(nodes, size, replace=False))
        elif size is not None:
            continue
        logits, labels = bundle.logits[nodes], bundle.labels[nodes]
        for name, covariates, prior in candidates():
            matrix = np.column_stack([named[c] for c in covariates])
            centred = np.nan_to_num(matrix - centre_of(matrix[nodes]), nan=0.0)
            rows = LawRows(entropy, centred, predictions)
            law = fit_law(rows.take(nodes), logits, labels, prior).law
            loss = judged.value(np.exp(law.log_temperature(rows.take(test))))
            found.append((name, 0 if size is None else size, loss))
    return found


def by_family(
    found: dict[Task, list[tuple[str, int, float]]],
    families_of: dict[str, tuple[str, ...]] = FAMILIES,
) -> tuple[list[str], list[str], FloatArray]:
    """Candidates, families, and mean loss (candidates, families).

    Seeds and backbones are averaged within a graph and size, sizes within a graph, graphs within
    a family.
    """
    cells: dict[tuple[str, str, int], list[float]] = {}
    for task, rows in found.items():
        for name, size, loss in rows:
            cells.setdefault((name, task.dataset, size), []).append(loss)
    names = list(dict.fromkeys(name for name, _, _ in cells))
    families = [
        f for f, graphs in families_of.items() if any((names[0], g, 0) in cells for g in graphs)
    ]
    table = np.zeros((len(names), len(families)))
    for i, name in enumerate(names):
        for j, family in enumerate(families):
            graphs = [
                np.mean([np.mean(v) for (n, g, _), v in cells.items() if (n, g) == (name, graph)])
                for graph in families_of[family]
                if (name, graph, 0) in cells
            ]
            table[i, j] = np.mean(graphs)
    return names, families, table


def main() -> None:
    out = "benchmarks/results/choose_structural.json"
    options = options_for(__doc__.splitlines()[0], out).parse_args()
    found = for_each_task(options, losses_of)
    names, families, table = by_family(found)
    priors = np.array([i for i, name in enumerate(names) if name.startswith("prior ")])
    default = names.index(f"prior {_short(LawPrior())}")
    rank = rankdata(table[priors], axis=0)  # (priors, families), within each family
    choice = {}
    for j, family in enumerate(families):
        best = priors[np.delete(rank, j, axis=1).mean(axis=1).argmin()]
        choice[family] = {
            "chosen": names[best],
            "loss on the family": round(table[best, j], 5),
            "loss with the package's": round(table[default, j], 5),
            "lowest loss of any": round(table[priors, j].min(), 5),
        }
    above = 1000 * (table - table[default])
    report = {
        "tasks": len(found),
        "package": names[default],
        "lowest mean rank": names[priors[rank.mean(axis=1).argmin()]],
        "left out": choice,
        "families": families,
        "mean rank": dict(
            sorted(
                (
                    (names[p], round(float(r), 1))
                    for p, r in zip(priors, rank.mean(axis=1), strict=True)
                ),
                key=lambda pair: pair[1],
            )
        ),
        "thousandths of a nat above the package's, mean and each family": {
            names[i]: [round(float(v), 2) for v in (above[i].mean(), *above[i])]
            for i in np.argsort(above.mean(axis=1))
        },
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report["left out"], indent=1), report["lowest mean rank"])


def _short(prior: LawPrior) -> str:
    parts = asdict(replace(prior))
    keys = ("ratio", "level_scale", "weight_rate", "offset_precision")
    return " ".join(f"{key}={parts[key]:g}" for key in keys)


if __name__ == "__main__":
    main()
