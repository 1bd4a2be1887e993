"""Guaranteed against observed on real graphs: some labels certify, or all by cross-fitting.

The nodes outside training are the pool. In each draw some of them are labelled; a calibrator and a
policy are fitted, and the guarantee is looked at on the whole pool, whose labels are known.
``missed`` is the share of draws whose certified guarantee does not hold there (0.1 is allowed),
``decided`` the share of the pool that is decided. On graphs with a rare class: class-weighted
models, 500 labels, accuracy, acting and clearing. On the fourteen graphs: GCN, 200 and 500 labels
(at most half of the pool), and the accuracy of the 80% of the pool of which the model is surest.
Rows of graphs and methods that are not asked for stay in the record.

    python benchmarks/certified.py --data DATA --cache results/practice --draws 50
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
from scipy.special import softmax

from gnncal import get_calibrator
from gnncal.data.errors import GnncalWarning
from gnncal.data.nodes import Nodes
from gnncal.decisions import Policy, cross_fit, hold_out
from practice import Models, Practice, options_for, other_rows, write_rows

RARE = ("amazon_fraud", "reddit_bans", "tolokers", "twitch_DE@0.05", "twitch_PTBR@0.05")
FOURTEEN = (
    *("Texas", "Cornell", "Wisconsin", "Cora", "CiteSeer", "Chameleon", "Actor", "Squirrel"),
    *("PubMed", "Photo", "Computers", "CS", "Physics", "tolokers-plain"),
)
PLAIN = "-plain"  # tolokers is one of the fourteen, and has a rare class
METHODS = ("ts", "structural", "structural-free", "isotonic")
WAYS = ("split", "cross-fit")
NAMES = ("decided", "certified", "missed")


def settings(
    graph: str, models: Models, methods: Sequence[str]
) -> Iterator[tuple[dict[str, Any], Practice]]:
    """Give what a row says of a model, a method and a number of labels, and the model."""
    if graph in RARE:
        for model, method in product(("gcn", "sage-batches"), methods):
            found = models.practice(graph, 0, weighted=True, backbone=model)
            yield {"graph": graph, "model": model, "method": method, "labels": 500}, found
        return
    found = models.practice(graph.removesuffix(PLAIN), 0, shares=(0.2, 0.1))
    most = (found.calibration_nodes.size + found.test_nodes.size) // 2
    for method in methods:
        for n in sorted({min(n, most) for n in (200, 500)}):
            yield {"graph": graph, "model": "gcn", "method": method, "labels": n}, found


def wishes(practice: Practice, *, rare: bool) -> list[dict[str, float]]:
    """Return an accuracy above the model's own, and shares near those of the rare class."""
    pool = np.union1d(practice.calibration_nodes, practice.test_nodes)
    logits, labels = practice.logits[pool], practice.labels[pool]
    right, rate = logits.argmax(axis=1) == labels, float((labels == 1).mean())
    if not rare:
        order = np.argsort(-softmax(logits, axis=1).max(axis=1), kind="stable")
        return [{"accuracy": round(float(right[order[: 4 * pool.size // 5]].mean()), 3)}]
    accuracy = round(1 - 0.6 * (1 - float(right.mean())), 3)
    return [{"accuracy": accuracy}, {"act": 0.6}, {"clear": round(1 - 0.6 * rate, 4)}]


def one_draw(
    practice: Practice, setting: dict[str, Any], certify: str, asked: list[Any], seed: int
) -> list[list[float]]:
    """Return decided share, whether something is certified and whether it is missed, by wish."""
    pool = np.union1d(practice.calibration_nodes, practice.test_nodes)
    nodes = np.sort(np.random.default_rng(seed).choice(pool, setting["labels"], replace=False))
    every, calibrator = Nodes(practice.logits, practice.graph), get_calibrator(setting["method"])
    labels, known, seen = practice.labels, {"train_nodes": practice.train_nodes}, None
    if certify == "cross-fit":
        probs, seen = cross_fit(calibrator, every, labels, calibration_nodes=nodes, **known)
    else:
        fit_nodes, nodes = hold_out(nodes, labels=labels, random_state=seed)
        record = every.with_labels(labels, calibration_nodes=fit_nodes, **known)
        probs = calibrator.fit(record).predict_proba(every)
    found = []
    for wish in asked:
        policy = Policy(**wish, **({} if "accuracy" in wish else {"positive": 1}))
        policy.fit(probs, labels, calibration_nodes=nodes, decision_nodes=pool, cross_fitted=seen)
        outcome = policy.judge(labels[pool], probs[pool])
        decided = 1 - outcome.counts["review"] / outcome.n_nodes
        missed = not all(check.is_kept for check in outcome.checks)
        found.append([decided, float(bool(outcome.checks)), float(missed)])
    return found


def main() -> None:
    """Run all models and write what was found."""
    options = options_for(__doc__, "benchmarks/results/certified.json")
    options.add_argument("--draws", type=int, default=50)
    options.add_argument("--graphs", nargs="*", default=(*RARE, *FOURTEEN))
    options.add_argument("--methods", nargs="*", default=METHODS)
    asked = options.parse_args()
    warnings.simplefilter("ignore", GnncalWarning)
    models, chosen = Models(asked.data, asked.cache), set(product(asked.graphs, asked.methods))
    rows = [row for row in other_rows(asked.out, ()) if (row["graph"], row["method"]) not in chosen]
    for graph in asked.graphs:
        for setting, practice in settings(graph, models, asked.methods):
            every = wishes(practice, rare=graph in RARE)
            means = {
                way: np.mean(
                    [one_draw(practice, setting, way, every, seed) for seed in range(asked.draws)],
                    axis=0,
                )
                for way in WAYS
            }
            for i, wish in enumerate(every):
                row = setting | {"draws": asked.draws} | wish
                for way in WAYS:
                    row[way] = dict(zip(NAMES, means[way][i].round(4).tolist(), strict=True))
                rows.append(row)
                print(row, flush=True)
            write_rows(asked.out, rows)


if __name__ == "__main__":
    main()
