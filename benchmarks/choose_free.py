"""Choose the priors of the free structural method and its floor, one family of graphs left out.

    python benchmarks/choose_free.py --cache LOGITS --practice PRACTICE --data RAW --seeds 2

Models: those of the paper's protocol (GCN, GAT and GraphSAGE on fourteen graphs), and GraphSAGE
with mini-batches on graphs with a rare class, with class weights and without (`practice.py`).
Candidates: the scales of the priors of what the neighbours do (several are weighed by their
evidence), and the floor: which background is mixed in, and the prior of its weight. Choice and
judging are those of ``choose_structural.py``: test log loss with 30, 100 and all calibration nodes,
mean rank over the other families. On the models with a rare class, average precision and precision
among the top 100 are held against `platt`. Graphs of `external.py` take no part.
"""

from __future__ import annotations

import json
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
from gnncal.math.free_fit import Scores, ScoresPrior, fit_scores
from gnncal.math.structural import describe_neighbourhoods, floored, scores
from gnncal.math.structural_fit import LawPrior, LawRows, class_shares, fit_law, floor_of
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
PACKAGE = ScoresPrior().scales
SCALES = (PACKAGE, (0.1,), (0.5,), (1.0,), (0.03, 1.0), (0.1, 0.3, 1.0), (0.03, 0.2, 1.0))
FLOORS = ("none", "1/(n + 1)", "uniform", "Beta(1, √n)", "Beta(1, n)")  # priors of its weight
PACKAGE_FLOOR = ("Beta(1, √n)", "shares")
BACKGROUNDS = ("shares", "uniform background")
Found = list[tuple[str, int, float]]


def candidates() -> Iterator[tuple[str, tuple[float, ...], str, str]]:
    """Name, scales, floor and background of everything that is tried."""
    for scales in SCALES:
        yield _name(scales, *PACKAGE_FLOOR), scales, *PACKAGE_FLOOR
    for floor in FLOORS:
        for background in BACKGROUNDS:
            if (floor, background) != PACKAGE_FLOOR:
                yield _name(PACKAGE, floor, background), PACKAGE, floor, background


def _name(scales: tuple[float, ...], floor: str, background: str) -> str:
    return f"prior {' '.join(f'{scale:g}' for scale in scales)}, {floor}, {background}"


def judge(bundle: Any, seed: int) -> tuple[Found, dict[str, dict[str, float]]]:
    """(candidate, calibration nodes, test log loss), and the ranking with all calibration nodes."""
    described = describe_neighbourhoods(Nodes(bundle.logits, bundle.graph))
    test, losses, ranking = np.sort(bundle.test_nodes), [], {}
    for size in SIZES:
        nodes = np.sort(bundle.nodes)
        if size is not None and size < nodes.size:
            nodes = np.sort(np.random.default_rng(seed).choice(nodes, size, replace=False))
        elif size is not None:
            continue
        for name, probs in probabilities(bundle, described, nodes, test):
            at_label = probs[np.arange(len(test)), bundle.labels[test]]
            losses.append((name, size or 0, float(-np.log(np.maximum(at_label, 1e-300)).mean())))
            if size is None and bundle.logits.shape[1] == 2:
                ranking[name] = ranked(bundle.labels[test], probs)
    if ranking:
        platt = gnncal.get_calibrator("platt").fit(bundle.logits, bundle.labels, nodes=bundle.nodes)
        ranking["platt"] = ranked(bundle.labels[test], platt.predict_proba(bundle.logits[test]))
    return losses, ranking


def probabilities(
    bundle: Any, described: Any, nodes: IntArray, test: IntArray
) -> Iterator[tuple[str, FloatArray]]:
    """Every candidate with its probabilities of the test nodes."""
    labels, n_classes = bundle.labels[nodes], bundle.logits.shape[1]
    covariates = described.covariates - centre_of(described.covariates[nodes])
    rows = LawRows(described.entropy, np.nan_to_num(covariates, nan=0.0), described.predictions)
    said = described.mean_probs.astype(np.float64)
    law = fit_law(rows.take(nodes), bundle.logits[nodes], labels, LawPrior()).law
    fitted: dict[tuple[float, ...], Scores] = {}
    for name, scales, floor, background in candidates():
        if scales not in fitted:
            fitted[scales] = fit_scores(
                rows.take(nodes),
                bundle.logits[nodes],
                said[nodes],
                labels,
                law,
                uses_neighbours=True,
                prior=ScoresPrior(scales=scales),
            ).scores

        def bare(chosen: IntArray, found: Scores = fitted[scales]) -> FloatArray:
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


def of_paper(task: Task, provider: TrainedLogits) -> tuple[Found, dict[str, dict[str, float]]]:
    return judge(provider.load(task), task.seed)


def of_practice(models: Models, task: Task) -> tuple[Found, dict[str, dict[str, float]]]:
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


def against_platt(rankings: dict[Task, dict[str, dict[str, float]]]) -> dict[str, dict[str, float]]:
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


def main() -> None:
    parser = options_for(__doc__.splitlines()[0], "benchmarks/results/choose_free.json")
    parser.add_argument("--practice", type=Path, default=Path("results/practice"))
    parser.set_defaults(backbones="gcn,gat,sage")
    options = parser.parse_args()
    models = Models(options.data, options.practice)
    found = for_each_task(options, of_paper)
    report: dict[str, Any] = {"paper": {"tasks": len(found)}}
    report["paper"] |= choice({task: each[0] for task, each in found.items()}, FAMILIES)
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
    options.out.write_text(json.dumps(report, indent=1) + "\n")
    for kind, part in report.items():
        print(kind, json.dumps(part["left out"], indent=1), part["lowest mean rank"])


if __name__ == "__main__":
    main()
