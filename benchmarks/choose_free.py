"""Choose the priors of the free structural method and its floor, one family of graphs left out.

    python benchmarks/choose_free.py --cache LOGITS --practice PRACTICE --data RAW --seeds 2

Models: those of the paper's protocol (GCN, GAT and GraphSAGE on fourteen graphs), and GraphSAGE
with mini-batches on graphs with a rare class, with class weights and without (`practice.py`).
Candidates: the prior of what the neighbours do (one with heavy tails, normal ones of several
scales, several of these weighed by their evidence), and the floor: which background is mixed in,
and the prior of its weight. Choice and judging are those of ``choose_structural.py``: test log loss
with 30, 100 and all calibration nodes, mean rank over the other families. On the models with a rare
class, average precision and precision among the top 100 are held against `platt`. Graphs of
`external.py` take no part.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import rankdata

import gnncal
from choose_structural import SIZES, by_family
from families import FAMILIES, for_each_task, options_for
from gnncal.calibrators.structural import centre_of
from gnncal.data.arrays import FloatArray, IntArray
from gnncal.data.nodes import Nodes
from gnncal.data.probability import softmax
from gnncal.math.formulas import COVARIATES, describe_neighbourhoods, floored, scores
from gnncal.math.structural_fit import (
    BOUND,
    FreeFit,
    FreeModel,
    FreeParameters,
    FreePrior,
    LawPrior,
    LawRows,
    class_shares,
    fit_free,
    fit_law,
    floor_of,
)
from gnncal.metrics import METRICS, Outcomes
from gnncal_lab.bench.logits import TrainedLogits
from gnncal_lab.bench.plan import Task
from practice import IN_BATCHES, Models

THINNED = tuple(f"twitch_{country}@0.05" for country in ("DE", "ENGB", "PTBR"))
RARE_FAMILIES = {
    "workers": ("tolokers",),
    "reviewers": ("amazon_fraud",),
    "members": ("reddit_bans",),
    "streamers": ("twitch_RU", *THINNED),
}
WEIGHTED = f"{IN_BATCHES}-weighted"
PACKAGE = "the package's prior"


def normal(scale: float) -> FreePrior:
    """Return a prior under which w and gamma are normal with a known scale."""
    law = LawPrior(weight_shape=1e6 / scale**2, weight_rate=1e6)
    return FreePrior(law=law, neighbour_precision=scale**-2)


def heavy(rate: float) -> FreePrior:
    """Return a prior like the package's, with another rate of the weights' precision."""
    return FreePrior(law=LawPrior(weight_rate=rate), neighbour_precision=4.0 / rate)


PRIORS: dict[str, dict[float, FreePrior]] = {  # by the scale of those that are weighed
    PACKAGE: {1.0: FreePrior()},
    **{f"ratio up to {ratio:g}": {1.0: FreePrior(largest_ratio=ratio)} for ratio in (1.2, BOUND)},
    **{f"rate {rate:g}": {1.0: heavy(rate)} for rate in (0.1, 0.3, 3.0)},
    **{
        f"normal, {' and '.join(f'{scale:g}' for scale in scales)}": {
            scale: normal(scale) for scale in scales
        }
        for scales in ((0.03,), (0.1,), (0.5,), (1.0,), (0.1, 1.0), (0.1, 1.0, 10.0))
    },
}
FLOORS = ("none", "1/(n + 1)", "uniform", "Beta(1, √n)", "Beta(1, n)")  # priors of its weight
PACKAGE_FLOOR = ("Beta(1, √n)", "shares")
BACKGROUNDS = ("shares", "uniform background")
PUBLISHED = ("ts", "hots")  # what the floor would do for them
Found = list[tuple[str, int, float]]
Ranking = dict[str, dict[str, float]]
Judged = tuple[Found, Ranking, dict[str, float]]


def candidates() -> Iterator[tuple[str, str, str, str]]:
    """Name, prior, floor and background of everything that is tried."""
    for prior in PRIORS:
        yield _name(prior, *PACKAGE_FLOOR), prior, *PACKAGE_FLOOR
    for floor in FLOORS:
        for background in BACKGROUNDS:
            if (floor, background) != PACKAGE_FLOOR:
                yield _name(PACKAGE, floor, background), PACKAGE, floor, background


def _name(prior: str, floor: str, background: str) -> str:
    return f"{prior}, {floor}, {background}"


def weighed(fits: dict[float, FreeFit], n_nodes: int) -> FreeParameters:
    """Average the parameters of several normal priors by their evidence (Laplace)."""
    thetas = np.array([fit.parameters.vector(uses_neighbours=True) for fit in fits.values()])
    n_weights = len(COVARIATES) + 1
    evidence = np.array(
        [
            0.5 * np.linalg.slogdet(fit.covariance)[1]
            - n_nodes * fit.solution.loss
            - n_weights * np.log(scale)
            for scale, fit in fits.items()
        ]
    )
    shares = np.exp(evidence - evidence.max())
    n_classes = len(next(iter(fits.values())).parameters.bias)
    return FreeParameters.of(shares @ thetas / shares.sum(), len(COVARIATES), n_classes)


def judge(bundle: Any, seed: int) -> Judged:
    """(candidate, calibration nodes, test log loss), the ranking, and published methods' gains."""
    described = describe_neighbourhoods(Nodes(bundle.logits, bundle.graph))
    test, losses, ranking = np.sort(bundle.test_nodes), [], {}
    for size in SIZES:
        nodes = np.sort(bundle.calibration_nodes)
        if size is not None and size < nodes.size:
            nodes = np.sort(np.random.default_rng(seed).choice(nodes, size, replace=False))
        elif size is not None:
            continue
        for name, probs in probabilities(bundle, described, nodes, test):
            losses.append((name, size or 0, log_loss(probs, bundle.labels[test])))
            if size is None and bundle.logits.shape[1] == 2:
                ranking[name] = ranked(bundle.labels[test], probs)
    if ranking:
        platt = gnncal.get_calibrator("platt").fit(
            bundle.logits, bundle.labels, calibration_nodes=bundle.calibration_nodes
        )
        ranking["platt"] = ranked(bundle.labels[test], platt.predict_proba(bundle.logits[test]))
    return losses, ranking, {method: gain_of_floor(bundle, method) for method in PUBLISHED}


def log_loss(probs: FloatArray, labels: IntArray) -> float:
    at_label = probs[np.arange(len(labels)), labels].astype(np.float64)
    return float(-np.log(np.maximum(at_label, 1e-300)).mean())


def gain_of_floor(bundle: Any, method: str) -> float:
    """Test log loss of a published method with a floor less that without, predictions kept."""
    calibrator, nodes, test = (
        gnncal.get_calibrator(method),
        bundle.calibration_nodes,
        bundle.test_nodes,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gnncal.GnncalWarning)
        calibrator.fit(
            bundle.logits,
            bundle.labels,
            bundle.graph,
            calibration_nodes=nodes,
            train_nodes=bundle.train_nodes,
        )
    probs = calibrator.predict_proba(bundle.logits, bundle.graph)
    uniform = np.full(probs.shape[1], 1.0 / probs.shape[1])
    mixed = floored(probs[test], floor_of(probs[nodes], bundle.labels[nodes], uniform))
    return log_loss(mixed, bundle.labels[test]) - log_loss(probs[test], bundle.labels[test])


def probabilities(
    bundle: Any, described: Any, nodes: IntArray, test: IntArray
) -> Iterator[tuple[str, FloatArray]]:
    """Every candidate with its probabilities of the test nodes."""
    labels, n_classes = bundle.labels[nodes], bundle.logits.shape[1]
    covariates = described.covariates - centre_of(described.covariates[nodes])
    rows = LawRows(described.entropy, np.nan_to_num(covariates, nan=0.0), described.predictions)
    said = described.mean_probs.astype(np.float64)
    law = fit_law(rows.take(nodes), bundle.logits[nodes], labels, LawPrior()).law
    model = FreeModel.of(
        rows.take(nodes), bundle.logits[nodes], said[nodes], labels, None, uses_neighbours=True
    )
    fitted: dict[str, FreeParameters] = {}
    for name, prior, floor, background in candidates():
        if prior not in fitted:
            fits = {scale: fit_free(model, law, each) for scale, each in PRIORS[prior].items()}
            fitted[prior] = weighed(fits, len(nodes))

        def bare(chosen: IntArray, found: FreeParameters = fitted[prior]) -> FloatArray:
            T = np.exp(found.law.log_temperature(rows.take(chosen)))
            z = bundle.logits[chosen].astype(np.float64)
            return softmax(scores(z, T, found.bias, found.neighbour_weight, said[chosen]))

        uniform = np.full(n_classes, 1.0 / n_classes)
        shares = class_shares(labels, n_classes) if background == "shares" else uniform
        probs, n = bare(test), len(nodes)
        if floor == "1/(n + 1)":
            probs = floored(probs, shares / (n + 1))
        elif floor != "none":
            doubt = {"uniform": 1.0, "Beta(1, √n)": n**0.5, "Beta(1, n)": float(n)}[floor]
            probs = floored(probs, floor_of(bare(nodes), labels, shares, doubt=doubt))
        yield name, probs


def ranked(labels: IntArray, probs: FloatArray) -> dict[str, float]:
    outcomes = Outcomes(labels, probs, positive=1)
    names = ("average_precision", "precision_among_top", "positive_ece", "nll")
    return {name: METRICS[name].of(outcomes) for name in names}


def of_paper(task: Task, provider: TrainedLogits) -> Judged:
    return judge(provider.load(task), task.seed)


def of_practice(models: Models, task: Task) -> Judged:
    weighted = task.backbone == WEIGHTED
    made = models.practice(task.dataset, task.seed, weighted=weighted, backbone=IN_BATCHES)
    return judge(made, task.seed)


def choice(found: dict[Task, Found], families: dict[str, tuple[str, ...]]) -> dict[str, Any]:
    """What the other families would choose for each family, and what that costs there."""
    names, kinds, table = by_family(found, families)
    rank, own = rankdata(table, axis=0), names.index(_name(PACKAGE, *PACKAGE_FLOOR))
    above = 1000 * (table - table[own])
    left_out = {}
    for j, family in enumerate(kinds):
        best = int(np.delete(rank, j, axis=1).mean(axis=1).argmin())
        left_out[family] = {"chosen": names[best], "above the package's": round(above[best, j], 2)}
    return {
        "families": kinds,
        "lowest mean rank": names[int(rank.mean(axis=1).argmin())],
        "mean rank": dict(zip(names, rank.mean(axis=1).round(2).tolist(), strict=True)),
        "left out": left_out,
        "thousandths of a nat above the package's, mean and each family": {
            names[i]: [round(float(v), 2) for v in (above[i].mean(), *above[i])]
            for i in np.argsort(above.mean(axis=1))
        },
    }


def against_platt(rankings: dict[Task, Ranking]) -> dict[str, dict[str, float]]:
    """Mean differences from `platt` in each kind of model: seeds first, then graphs."""
    found: dict[str, dict[str, list[float]]] = {}
    for task, ranking in rankings.items():
        for name, values in ranking.items():
            for key, value in values.items():
                kind = found.setdefault(f"{name}: {key} less that of platt", {})
                kind.setdefault(task.dataset, []).append(value - ranking["platt"][key])
    return {
        name: {
            "mean": float(np.mean([np.mean(each) for each in graphs.values()])),
            **{graph: float(np.mean(each)) for graph, each in graphs.items()},
        }
        for name, graphs in found.items()
        if not name.startswith("platt")
    }


def gains_of_floor(judged: dict[Task, Judged], families: dict[str, tuple[str, ...]]) -> Ranking:
    """Thousandths of a nat that the floor changes a published method by: mean and each family."""
    found = {}
    for method in PUBLISHED:
        by_kind = {
            family: 1000
            * float(np.mean([e[2][method] for t, e in judged.items() if t.dataset in g]))
            for family, g in families.items()
            if any(t.dataset in g for t in judged)
        }
        worst = 1000 * max(each[2][method] for each in judged.values())
        mean = float(np.mean(list(by_kind.values())))
        found[method] = {"mean": mean, "worst model": worst, **by_kind}
    return found


def main() -> None:
    parser = options_for(__doc__.splitlines()[0], "benchmarks/results/choose_free.json")
    parser.add_argument("--practice", type=Path, default=Path("results/practice"))
    parser.set_defaults(backbones="gcn,gat,sage")
    options = parser.parse_args()
    models = Models(options.data, options.practice)
    found = for_each_task(options, of_paper)
    report: dict[str, Any] = {"paper": {"tasks": len(found)}}
    report["paper"] |= choice({task: each[0] for task, each in found.items()}, FAMILIES)
    report["paper"]["floor of published methods"] = gains_of_floor(found, FAMILIES)
    for kind in (WEIGHTED, IN_BATCHES):
        tasks = [
            Task(graph, kind, seed)
            for graphs in RARE_FAMILIES.values()
            for graph in graphs
            for seed in range(options.seeds)
        ]
        judged = Parallel(n_jobs=options.jobs)(delayed(of_practice)(models, task) for task in tasks)
        rows = dict(zip(tasks, judged, strict=True))
        report[kind] = {"tasks": len(rows)}
        report[kind] |= choice({task: each[0] for task, each in rows.items()}, RARE_FAMILIES)
        report[kind]["ranking"] = against_platt({task: each[1] for task, each in rows.items()})
        report[kind]["floor of published methods"] = gains_of_floor(rows, RARE_FAMILIES)
    options.out.write_text(json.dumps(report, indent=1) + "\n")
    for kind, part in report.items():
        print(kind, json.dumps(part["left out"], indent=1), part["lowest mean rank"])


if __name__ == "__main__":
    main()
