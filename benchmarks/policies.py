"""Are promises about one class kept as often as stated, and what do others certify?

    python benchmarks/policies.py                                   # simulated, about 15 minutes
    python benchmarks/policies.py --data DATA --cache LOGITS        # and real graphs

Promises. A pool of 200,000 nodes is fixed, with probabilities and classes. Calibration nodes are
drawn from it 1,000 times for each setting, and a draw violates a promise if its threshold breaks
the target in the pool. Pools: "calibrated" (labels drawn from the probabilities), "ties" (the same
with probabilities of one decimal), "wrong at the top" (the most suspicious nodes are often
negative), "just below" (precision lies a hair below the target everywhere, so that any certificate
is a violation). "stratified" draws a fixed share of each class, as hold_out does.

MAPIE 1.6's BinaryClassificationController gets the same probabilities and labels, with its defaults
and, for the precision, with a fixed sequence of thresholds that falls from 0.8. Only hindsight
knows to begin there: from 0.99 the first test has too few nodes, and nothing is certified.

Budget and costs. What was expected beside what was found, in simulations and on real graphs with
class-weighted models: the pool are their test nodes; half of a draw fits the calibrator and the
other half the policy.
"""

from __future__ import annotations

import argparse
import functools
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from gnncal.calibrators.catalogue import get_calibrator
from gnncal.core.arrays import BoolArray, FloatArray, IntArray
from gnncal.decisions import ClassPolicy, Costs, certificate, hold_out, judge_policy
from gnncal.decisions import promises as made_of
from gnncal.decisions.promises import Promise, make_promises

POOL, RATE, LEVEL = 200_000, 0.1, 0.9
POSITIVES = (10, 30, 100, 500, 2000)  # expected among the calibration nodes
TARGETS = {"act": 0.6, "clear": 0.97, "catch": 0.9}
JUST_BELOW = {"act": RATE + 1e-3, "clear": 1 - RATE + 1e-3, "catch": 0.9}
METHODS = ("uncalibrated", "isotonic", "structural-free")
BUDGET, COSTS = 200, Costs(missed=50, false_alarm=20, review=3)


class Pool:
    """Nodes with known classes, and what a threshold does to all of them."""

    def __init__(self, p: FloatArray, is_positive: BoolArray) -> None:
        order = np.argsort(p, kind="stable")
        self.p, self.is_positive = p[order], is_positive[order]
        self.below = np.concatenate([[0], np.cumsum(self.is_positive)])  # positives, from the low

    def broken(self, promise: Promise) -> bool:
        """Return whether a promise that was certified does not hold."""
        if not promise.is_certified or not np.isfinite(promise.threshold):
            return False
        side = "right" if promise.kind == "clear" else "left"
        k = int(np.searchsorted(self.p, promise.threshold, side=side))
        n, below = self.p.size, int(self.below[k])
        found = {
            "act": (self.below[-1] - below) / max(n - k, 1),
            "clear": 1 - below / max(k, 1),
            "catch": 1 - below / self.below[-1],
        }[promise.kind]
        return bool(found < promise.target - 1e-12)

    def acted(self, threshold: float) -> float:
        """Return the share of the pool that has at least this probability."""
        return 1 - float(np.searchsorted(self.p, threshold, side="left")) / self.p.size

    def draw(
        self, n: int, generator: np.random.Generator, stratified: bool
    ) -> tuple[FloatArray, BoolArray]:
        size = 2 * n if stratified else n
        nodes = generator.choice(POOL, size=size, replace=False, shuffle=False)
        if stratified:  # of twice as many nodes, the half that hold_out gives
            labels, seed = self.is_positive[nodes].astype(np.int64), int(generator.integers(2**31))
            nodes = nodes[hold_out(np.arange(size), labels=labels, random_state=seed)[1]]
        nodes.sort()  # by probability, which makes ranking them quick
        return self.p[nodes], self.is_positive[nodes]


@functools.cache
def pools() -> dict[str, Pool]:
    generator = np.random.default_rng(0)
    p = generator.beta(0.25, 0.25 * (1 - RATE) / RATE, size=POOL)
    drawn = generator.random(POOL)
    coarse = np.round(p, 1)
    return {
        "calibrated": Pool(p, drawn < p),
        "ties": Pool(coarse, drawn < p),
        "wrong at the top": Pool(p, drawn < np.where(p > 0.9, 0.5, p)),
        "just below": Pool(generator.random(POOL), drawn < RATE),
    }


def promises(n_draws: int) -> Iterator[dict[str, Any]]:
    """Count violations; each setting is one record."""
    certificate.planned_ranks = functools.cache(certificate.planned_ranks)  # equal in every draw
    made_of.best_target, made_of.labels_for_precision = _no_advice, _no_advice  # takes most time
    settings: list[dict[str, float]] = [{"act": 1.0}, {"clear": 1.0}, {"catch": 1.0}]
    settings.append(dict.fromkeys(TARGETS, 1.0))
    for name, pool in pools().items():
        targets = JUST_BELOW if name == "just below" else TARGETS
        for positives in POSITIVES:
            for stratified in (False, True):
                generator = np.random.default_rng(1)
                counts = {tuple(asked): [0, 0] for asked in settings}
                for _ in range(n_draws):
                    p, y = pool.draw(round(positives / RATE), generator, stratified)
                    for asked in counts:
                        made = make_promises(p, y, {k: targets[k] for k in asked}, LEVEL).values()
                        counts[asked][0] += any(map(pool.broken, made))
                        counts[asked][1] += any(promise.is_certified for promise in made)
                for asked, (bad, certified) in counts.items():
                    yield {
                        "pool": name,
                        "draw": "stratified" if stratified else "random",
                        "positives": positives,
                        "asked": "+".join(asked),
                        "violations": bad,
                        "certified": certified,
                        "draws": n_draws,
                        "allowed": int(stats.binom.ppf(0.999, n_draws, 1 - LEVEL)),
                    }


def _no_advice(*arguments: Any) -> None:
    """Stand in for the advice on what could be certified."""


def beside_mapie(n_draws: int) -> Iterator[dict[str, Any]]:
    """Share of the pool that is acted on, or that must be looked at, by each."""
    from mapie.risk_control import BinaryClassificationController

    falling = np.linspace(0.8, 0, 81)

    def threshold_of(p: FloatArray, y: BoolArray, risk: str, **options: Any) -> float | None:
        controller = BinaryClassificationController(
            lambda x: np.column_stack([1 - x, x]),
            risk=risk,
            target_level=TARGETS["act" if risk == "precision" else "catch"],
            confidence_level=LEVEL,
            **options,
        )
        controller.calibrate(p, y.astype(np.int64))
        return controller.best_predict_param

    for name in ("calibrated", "ties"):
        pool = pools()[name]
        for positives in POSITIVES:
            generator, rows = np.random.default_rng(2), []
            warnings.simplefilter("ignore")  # of MAPIE, where nothing is certified
            for _ in range(n_draws):
                p, y = pool.draw(round(positives / RATE), generator, stratified=False)
                act = make_promises(p, y, {"act": TARGETS["act"]}, LEVEL)["act"].threshold
                catch = make_promises(p, y, {"catch": TARGETS["catch"]}, LEVEL)["catch"].threshold
                sequence = {"list_predict_params": falling, "fwer_method": "fixed_sequence"}
                others = [
                    threshold_of(p, y, "precision"),
                    threshold_of(p, y, "precision", **sequence),
                    threshold_of(p, y, "recall"),
                ]
                acted = [0.0 if t is None else pool.acted(t) for t in others[:2]]
                looked = 1.0 if others[2] is None else pool.acted(others[2])
                rows.append([pool.acted(act), *acted, pool.acted(catch), looked])
            means = np.mean(rows, axis=0)
            keys = ("act", "act_mapie", "act_mapie_sequence", "catch", "catch_mapie")
            yield {"pool": name, "positives": positives, "draws": n_draws} | dict(
                zip(keys, means.round(5).tolist(), strict=True)
            )


def expectations(n_draws: int) -> Iterator[dict[str, Any]]:
    """Budget and costs in simulations: expected beside found."""
    for name in ("calibrated", "ties", "wrong at the top"):
        pool = pools()[name]
        for positives in POSITIVES[1:]:
            generator, found = np.random.default_rng(3), []
            for _ in range(n_draws):
                p, y = pool.draw(round(positives / RATE) + 5000, generator, stratified=False)
                nodes = generator.choice(p.size, size=p.size - 5000, replace=False)
                found.append(outcomes(p, y, nodes))
            yield {"pool": name, "positives": positives, **summary(found)}


def real_graphs(data: Path, cache: Path, n_draws: int, seeds: int) -> Iterator[dict[str, Any]]:
    """The same, and promises, on graphs with class-weighted models."""
    from practice import RARE, Models

    models = Models(data, cache)
    for name in RARE:
        for method in METHODS:
            found, kept = [], []
            for seed in range(seeds):
                made = models.practice(name, seed, weighted=True)
                generator = np.random.default_rng(seed)
                for draw in range(n_draws):
                    pool = made.test_nodes
                    drawn = generator.choice(pool, size=made.nodes.size, replace=False)
                    fitted, held = hold_out(drawn, labels=made.labels, random_state=draw)
                    calibrator = get_calibrator(method)
                    calibrator.fit(
                        made.logits,
                        made.labels,
                        made.graph,
                        nodes=fitted,
                        train_nodes=made.train_nodes,
                    )
                    probs = calibrator.predict_proba(made.logits, made.graph)
                    rest = np.setdiff1d(pool, drawn)
                    nodes = np.concatenate([held, rest])
                    p, y = probs[nodes, 1].astype(np.float64), made.labels[nodes] == 1
                    found.append(outcomes(p, y, np.arange(held.size)))
                    kept.append(broken_promises(probs, made.labels, held, pool))
            certified = (~np.isnan(kept)).sum(axis=0).tolist()
            violated = np.nansum(kept, axis=0).astype(int).tolist()
            record = {"graph": name, "method": method, **summary(found)}
            for kind, n, bad in zip(TARGETS, certified, violated, strict=True):
                record |= {f"{kind}_certified": n, f"{kind}_broken": bad}
            yield record


def broken_promises(
    probs: FloatArray, labels: IntArray, held: IntArray, pool: IntArray
) -> list[float]:
    """Return for each kind whether the promise is broken in the pool; NaN if not certified."""
    rate = float((labels[pool] == 1).mean())
    targets = {"act": min(0.9, 4 * rate), "clear": 1 - rate / 4, "catch": 0.8}
    p, y = probs[:, 1].astype(np.float64), labels == 1
    whole = Pool(p[pool], y[pool])
    row = []
    for kind, target in targets.items():
        promise = make_promises(p[held], y[held], {kind: target}, LEVEL)[kind]
        row.append(float(whole.broken(promise)) if promise.is_certified else np.nan)
    return row


def outcomes(p: FloatArray, y: BoolArray, nodes: IntArray) -> list[float]:
    """Fit on ``nodes``, judge on the others: (expected, found, inside) of three quantities."""
    probs, labels = np.column_stack([1 - p, p]), y.astype(np.int64)
    rest = np.setdiff1d(np.arange(p.size), nodes)
    row: list[float] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for policy in (ClassPolicy(budget=BUDGET), ClassPolicy(costs=COSTS)):
            policy.fit(probs, labels, nodes=nodes)
            for each in judge_policy(labels[rest], probs[rest], policy).kept:
                row += [each.promised, each.found, float(each.is_kept)]
    return row


def summary(found: list[list[float]]) -> dict[str, float]:
    """Mean difference, mean absolute difference and coverage; costs as a share of those found."""
    rows = np.array(found).reshape(len(found), 3, 3)
    result: dict[str, float] = {"draws": len(found)}
    for i, name in enumerate(("precision", "recall", "cost")):
        expected, seen, inside = rows[:, i].T
        scale = seen.mean() if name == "cost" else 1.0
        result[f"{name}_found"] = round(float(seen.mean()), 4)
        result[f"{name}_bias"] = round(float((expected - seen).mean() / scale), 4)
        result[f"{name}_error"] = round(float(np.abs(expected - seen).mean() / scale), 4)
        result[f"{name}_covered"] = round(float(inside.mean()), 3)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--data", type=Path, help="folder with the graphs, as for practice.py")
    parser.add_argument("--cache", type=Path, default=Path("results/practice"), help="logits")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--parts", nargs="*", default=["promises", "mapie", "expectations", "real"])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/policies.json"))
    options = parser.parse_args()
    tenth = max(options.draws // 10, 1)
    parts = {
        "promises": lambda: promises(options.draws),
        "mapie": lambda: beside_mapie(tenth),
        "expectations": lambda: expectations(tenth),
        "real": lambda: real_graphs(options.data, options.cache, tenth // 5, options.seeds),
    }
    result = json.loads(options.out.read_text()) if options.out.exists() else {}
    for part in options.parts:
        if part == "real" and options.data is None:
            continue
        result[part] = []
        for record in parts[part]():
            print(part, record, flush=True)
            result[part].append(record)
        options.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
