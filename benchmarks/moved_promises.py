"""What a move to another graph does to a promise, and what repairs it.

    python benchmarks/moved_promises.py --data DATA --cache results/practice

A model is trained, calibrated (``structural-free``) and given a threshold for 80 % right automatic
decisions on one graph, at level 90 %. Then it is used on another: 42 pairs of countries of twitch,
6 of libraries. The table has the share of the automatic decisions that are right on the target's
test nodes, pairs averaged, and in how many pairs it lies below 80 %: as it is; after `update` with
n labels and the old threshold; and after `update` with half of the n labels and a threshold
certified again on the other half. Where nothing is certified, nothing is decided or broken.
"""

from __future__ import annotations

import json
import warnings
from itertools import permutations
from typing import Any

import numpy as np

import gnncal
from gnncal.core.arrays import BoolArray, FloatArray, IntArray
from gnncal.decisions import SelectiveClassifier, hold_out
from gnncal.nodes import Nodes
from practice import LIBRARIES, TWITCH, Models, options_for

TARGET = 0.8
LABELS = (50, 100, 200, 400)
FAMILIES = {"twitch": TWITCH, "libraries": LIBRARIES}


def judge(models: Models, source: str, target: str, seed: int) -> dict[str, list[float]]:
    """Return (share decided, share of it that is right; NaN if none) by what was done."""
    home, away = models.practice(source, seed), models.elsewhere(source, target, seed)
    fit_nodes, held_out = hold_out(home.nodes, labels=home.labels)
    calibrator = gnncal.get_calibrator("structural-free").fit(
        Nodes(home.logits, home.graph), home.labels, nodes=fit_nodes, train_nodes=home.train_nodes
    )
    probs = calibrator.predict_proba(home.logits, home.graph)
    rule = SelectiveClassifier(TARGET).fit(probs, home.labels, nodes=held_out)
    new = Nodes(away.logits, away.graph)
    right = away.labels[away.test_nodes]

    def outcome(decided: BoolArray, given: FloatArray) -> list[float]:
        chosen = decided[away.test_nodes]
        hits = given[away.test_nodes].argmax(axis=1) == right
        return [float(chosen.mean()), float(hits[chosen].mean()) if chosen.any() else float("nan")]

    at_home = rule.decide(probs)[home.test_nodes]
    hits = probs[home.test_nodes].argmax(axis=1) == home.labels[home.test_nodes]
    share = float(hits[at_home].mean()) if at_home.any() else float("nan")
    moved = calibrator.predict_proba(new)
    found = {"at home": [float(at_home.mean()), share]}
    found["as it is"] = outcome(rule.decide(moved), moved)
    order = np.random.default_rng(seed).permutation(away.nodes)
    for n in LABELS:
        labelled = order[:n]
        updated = _updated(calibrator, new, away.labels, labelled)
        found[f"updated, {n}, old threshold"] = outcome(rule.decide(updated), updated)
        half = _updated(calibrator, new, away.labels, labelled[: n // 2])
        again = SelectiveClassifier(TARGET).fit(half, away.labels, nodes=labelled[n // 2 :])
        found[f"updated and certified again, {n}"] = outcome(again.decide(half), half)
    return found


def _updated(calibrator: Any, nodes: Nodes, labels: IntArray, chosen: IntArray) -> FloatArray:
    return calibrator.update(nodes, labels, nodes=np.sort(chosen)).predict_proba(nodes)


def main() -> None:
    options = options_for(__doc__, "benchmarks/results/moved_promises.json").parse_args()
    models, rows = Models(options.data, options.cache), {}
    warnings.simplefilter("ignore", gnncal.GnncalWarning)
    for family, graphs in FAMILIES.items():
        pairs = [
            judge(models, *pair, seed)
            for pair in permutations(graphs, 2)
            for seed in range(options.seeds)
        ]
        print(f"\n{family}\n| | decided | right | below {TARGET:.0%} |\n|---|---|---|---|")
        for done in pairs[0]:
            decided, right = np.array([pair[done] for pair in pairs]).T
            some = right[~np.isnan(right)]
            rows[f"{family}, {done}"] = {
                "pairs": len(pairs),
                "decided": float(decided.mean()),
                "right": float(some.mean()) if some.size else None,
                "with_decisions": int(some.size),
                "below": int((some < TARGET).sum()),
            }
            mean = f"{some.mean():.1%}" if some.size else "-"
            broken = f"{(some < TARGET).sum()} of {some.size}"
            print(f"| {done} | {decided.mean():.1%} | {mean} | {broken} |")
    options.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
