"""Guaranteed against observed on real graphs: some labels certify, or all by cross-fitting.

The nodes outside training are the pool. In each draw some of them are labelled; a calibrator and a
policy are fitted, and the guarantee is looked at on the whole pool, whose labels are known.
``missed`` is the share of draws whose certified guarantee does not hold there (0.1 is allowed),
``decided`` the share of the pool that is decided.

    python benchmarks/certified.py --data DATA --cache results/practice --draws 50
"""

from __future__ import annotations

import json
import warnings
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from gnncal.calibrators import Structural, TemperatureScaling
from gnncal.data.arrays import FloatArray, IntArray
from gnncal.data.errors import GnncalWarning
from gnncal.data.nodes import Nodes
from gnncal.decisions import Policy, cross_fit, hold_out
from practice import Models, Practice, options_for

GRAPHS = ("amazon_fraud", "reddit_bans", "tolokers", "twitch_DE@0.05", "twitch_PTBR@0.05")
BACKBONES = (("gcn", True), ("sage-batches", True))  # and whether classes have equal weight
METHODS: dict[str, Any] = {
    "ts": TemperatureScaling,
    "structural-free": lambda: Structural(keep_predictions=False),
}
N_LABELS = 500
RESULT = "benchmarks/results/certified.json"


def wishes(practice: Practice) -> list[dict[str, float]]:
    """Return an accuracy near the model's own, and shares near those of the rare class."""
    pool = np.union1d(practice.nodes, practice.test_nodes)
    right = practice.logits[pool].argmax(axis=1) == practice.labels[pool]
    rate = float((practice.labels[pool] == 1).mean())
    accuracy = round(1 - 0.6 * (1 - float(right.mean())), 3)
    return [{"accuracy": accuracy}, {"act": 0.6}, {"clear": round(1 - 0.6 * rate, 4)}]


def probabilities(
    practice: Practice, method: str, certify: str, labelled: IntArray, seed: int
) -> tuple[FloatArray, FloatArray | None, IntArray]:
    """Return calibrated probabilities, those of cross-fitting if asked, nodes to certify."""
    every, calibrator = Nodes(practice.logits, practice.graph), METHODS[method]()
    known = {"train_nodes": practice.train_nodes}
    if certify == "cross-fit":
        return *cross_fit(calibrator, every, practice.labels, nodes=labelled, **known), labelled
    fit_nodes, nodes = hold_out(labelled, labels=practice.labels, random_state=seed)
    record = every.with_labels(practice.labels, nodes=fit_nodes, **known)
    return calibrator.fit(record).predict_proba(every), None, nodes


def one_draw(practice: Practice, method: str, certify: str, seed: int) -> list[list[float]]:
    """Return decided share, whether something is certified and whether it is missed, by wish."""
    pool = np.union1d(practice.nodes, practice.test_nodes)
    labelled = np.sort(np.random.default_rng(seed).choice(pool, N_LABELS, replace=False))
    probs, seen, nodes = probabilities(practice, method, certify, labelled, seed)
    found = []
    for wish in wishes(practice):
        policy = Policy(**wish, **({} if "accuracy" in wish else {"positive": 1}))  # type: ignore[arg-type]
        policy.fit(probs, practice.labels, nodes=nodes, decision_nodes=pool, cross_fitted=seen)
        outcome = policy.judge(practice.labels[pool], probs[pool])
        decided = 1 - outcome.counts["review"] / outcome.n_nodes
        missed = not all(check.is_kept for check in outcome.checks)
        found.append([decided, float(bool(outcome.checks)), float(missed)])
    return found


def main() -> None:
    """Run all models and write what was found."""
    options = options_for(__doc__, RESULT)
    options.add_argument("--draws", type=int, default=50)
    options.add_argument("--graphs", nargs="*", default=GRAPHS)
    asked = options.parse_args()
    warnings.simplefilter("ignore", GnncalWarning)
    models, rows = Models(asked.data, asked.cache), []
    for graph, (backbone, is_weighted) in product(asked.graphs, BACKBONES):
        practice = models.practice(graph, 0, weighted=is_weighted, backbone=backbone)
        for method in METHODS:
            found = {
                certify: np.mean(
                    [one_draw(practice, method, certify, seed) for seed in range(asked.draws)],
                    axis=0,
                )
                for certify in ("split", "cross-fit")
            }
            for i, wish in enumerate(wishes(practice)):
                row: dict[str, Any] = {"graph": graph, "model": backbone, "method": method}
                row |= {"draws": asked.draws, **wish}
                for certify, means in found.items():
                    names = ("decided", "certified", "missed")
                    row[certify] = dict(zip(names, means[i].round(4).tolist(), strict=True))
                rows.append(row)
                print(row, flush=True)
            result = {"labels": N_LABELS, "rows": rows}
            Path(asked.out).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
