"""Are the guarantees of a policy kept, and how many nodes does it decide?

Simulated pools: two normal scores ``apart``, a share ``rate`` positive, and probabilities that are
right, tied, or wrong by a slope or a shift of the log-odds.

``violations``: draws of 250 calibration nodes after which a guarantee of level 90% is missed on
the pool, asked in float32. ``power``: what is decided, as a share of the most nodes that pass the
binomial test in hindsight (the ceiling), where that is at least a tenth of what is possible. Beside
it the best start of a sequence, which only hindsight knows, and the rule of gnncal before its first
release (tests only where one more mistake becomes allowed, from three roots of n on).
``shares``: recall and false-positive rate, which have no start to choose: what is decided beside
what the truth would allow. ``cross_fit``: block models with noisy logits; some labels fit and the
others certify, or all do both. ``missed``: draws whose guarantee does not hold on the pool.
``mapie``: MAPIE 1.6 on the same draws, with its defaults, and with thresholds in a fixed sequence.

    python benchmarks/policies.py --draws 1000 --out benchmarks/results/policies.json
    python benchmarks/policies.py --parts mapie      # where MAPIE is installed
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit

from gnncal import Nodes, get_calibrator
from gnncal.data.arrays import BoolArray, FloatArray, IntArray
from gnncal.decisions import Policy, cross_fit, hold_out
from gnncal.decisions.certificate import RankedNodes, allowed_mistakes, certified_ranks, make_plan
from gnncal.decisions.guarantees import Guarantee, certify_all, named_guarantee
from gnncal_lab.simulation import CSBM

N_POOL, N_CALIBRATION = 20_000, 250
DELTA = 0.05
WISHES: dict[str, dict[str, float]] = {
    "accuracy": {"accuracy": 0.95},
    "act": {"act": 0.8},
    "clear": {"clear": 0.98},
    "recall": {"recall": 0.9},
    "false_positive_rate": {"false_positive_rate": 0.02},
    "act, clear and recall": {"act": 0.8, "clear": 0.98, "recall": 0.9},
}
KINDS = {  # slope and shift of the log-odds
    "right": (1.0, 0.0),
    "tied": (1.0, 0.0),
    "log-odds x 2": (2.0, 0.0),
    "log-odds x 0.5": (0.5, 0.0),
    "log-odds + 1": (1.0, 1.0),
    "log-odds - 1": (1.0, -1.0),
}


def pool(
    rate: float, apart: float, kind: str, generator: np.random.Generator, size: Any = N_POOL
) -> tuple[FloatArray, BoolArray]:
    """Return the probabilities of nodes as a model of this kind has them, and the positives."""
    positive = generator.random(size) < rate
    score = generator.standard_normal(size) + apart * positive
    slope, shift = KINDS[kind]
    odds = apart * score - apart**2 / 2 + np.log(rate / (1 - rate))
    p = expit(slope * odds + shift)
    return (np.round(p, 1) * 0.98 + 0.01 if kind == "tied" else p), positive


def violations(n_draws: int) -> Iterator[dict[str, Any]]:
    """Count draws after which a guarantee is missed on the pool."""
    for wish, kind, stratified in product(WISHES, KINDS, (False, True)):
        generator = np.random.default_rng(0)
        p, positive = pool(0.1, 2.5, kind, generator)
        labels, n_missed, n_certified = positive.astype(np.int64), 0, 0
        probs = np.column_stack([1 - p, p])
        score, predicted, guarantees = p, probs.argmax(axis=1), asked(WISHES[wish])
        if wish == "accuracy":
            score = probs.max(axis=1)
        score = score.astype(np.float32).astype(np.float64)
        holds = [g._holds_for(labels, predicted) for g in guarantees]
        pools = [g._pool(probs, score) for g in guarantees]
        for draw in range(n_draws):
            nodes = generator.choice(N_POOL, 2 * N_CALIBRATION, replace=False)
            if stratified:
                nodes = hold_out(nodes, labels=labels, random_state=draw)[1].astype(np.int64)
            nodes = nodes[:N_CALIBRATION]
            found = certify_all(
                *(guarantees, score[nodes], [each[nodes] for each in holds], pools, 0.1),
                is_advised=False,
            )
            is_missed = False
            for g, each in zip(guarantees, holds, strict=True):
                known = found[g.name]
                n, right = g._counted(known.reaches(score), each)
                is_missed |= known.is_certified and n > 0 and right / n < g.target
                n_certified += known.is_certified
            n_missed += is_missed
        yield {
            "wish": wish,
            "kind": kind,
            "stratified": stratified,
            "missed": n_missed,
            "certified": n_certified / n_draws / len(guarantees),
        }


def asked(wish: dict[str, float]) -> list[Guarantee]:
    """Return the guarantees of a wish."""
    return [named_guarantee(name, target, 1, 2) for name, target in wish.items()]


def power(n_draws: int) -> Iterator[dict[str, Any]]:
    """Compare what rules decide with what passes in hindsight."""
    worlds = product((0.03, 0.1, 0.3), (2.5, 4.0), (100, 250, 500, 1000, 5000))
    for (rate, apart, n), acts, kind in product(worlds, (True, False), KINDS):
        if kind == "tied":
            continue
        generator, target = np.random.default_rng(1), 0.8 if acts else 1 - rate / 5
        p, positive = pool(rate, apart, kind, generator)
        order = np.argsort(-p if acts else p)
        chance = (p if acts else 1 - p)[order].reshape(1000, -1).mean(axis=1)
        right = positive[order] if acts else ~positive[order]
        reach = np.flatnonzero(np.cumsum(right) >= target * np.arange(1, N_POOL + 1))
        possible = (int(reach[-1]) + 1) / N_POOL if reach.size else 0.0
        draws = n_draws if n < 5000 else max(n_draws // 5, 1)
        q, hits = pool(rate, apart, kind, generator, (draws, n))
        ranked = np.argsort(-q if acts else q, axis=1)
        mistakes = np.cumsum(np.take_along_axis(hits, ranked, axis=1) != acts, axis=1)
        ends = np.arange(1, n + 1)
        allowed = allowed_mistakes(ends, target, DELTA)
        passes = mistakes <= allowed
        ceiling = (passes * ends).max(axis=1).mean()
        if ceiling < 0.1 * possible * n or ceiling == 0:
            continue
        starts = _reach(passes, ends).mean(axis=0)
        old = _old_ranks(n, allowed, float(chance.mean()))
        n_passed = np.where(
            passes[:, old - 1].all(axis=1), old.size, (~passes[:, old - 1]).argmax(1)
        )
        decided = {
            "certified": certified_ranks(
                RankedNodes(ends, mistakes), make_plan(chance, ends, DELTA), target, DELTA
            )[1],
            "best start": starts.max(),
            "before": np.append(0, old)[n_passed],
        }
        yield {
            "rate": rate,
            "apart": apart,
            "n": n,
            "acts": acts,
            "kind": kind,
            "ceiling": round(float(ceiling / n), 4),
            **{name: round(float(np.mean(each) / ceiling), 4) for name, each in decided.items()},
        }


def _reach(passes: BoolArray, ends: IntArray) -> IntArray:
    """Return the last rank that each start certifies, (n_draws, n)."""
    fails = np.where(passes, ends.size, ends - 1)
    return np.where(passes, np.minimum.accumulate(fails[:, ::-1], axis=1)[:, ::-1], 0)


def _old_ranks(n: int, allowed: IntArray, rate: float) -> IntArray:
    """Return the ranks that the rule before tested."""
    if allowed[-1] < 0:
        return np.array([n])
    ends = np.flatnonzero(np.diff(allowed, prepend=-1)) + 1
    steps = (
        100 * 1.01 ** np.arange(1, max(int(np.log(max(n / 100, 1)) / np.log(1.01)), 0) + 1)
    ).astype(int)
    ends = ends[np.isin(allowed[ends - 1], np.append(np.arange(101), steps))]
    share = 2.0 ** round(np.log2(max(rate, 1e-9)))
    return np.append(ends[(ends >= 3 * np.sqrt(share * n)) & (ends < n)], n)


def shares(n_draws: int) -> Iterator[dict[str, Any]]:
    """Compare what recall and false-positive rate decide with what the truth would allow."""
    wishes = {"recall": 0.9, "false_positive_rate": 0.02}
    worlds = product((0.03, 0.1, 0.3), (2.5, 4.0), (250, 1000), ("right", "tied"))
    for (rate, apart, n, kind), (name, target) in product(worlds, wishes.items()):
        generator = np.random.default_rng(3)
        p, positive = pool(rate, apart, kind, generator)
        guarantee = named_guarantee(name, target, 1, 2)
        labels = positive.astype(np.int64)
        holds = guarantee._holds_for(labels, labels)
        probs = np.column_stack([1 - p, p])
        sign = -1.0 if guarantee.action == "clear" else 1.0
        limit = np.quantile(sign * p[holds], guarantee.target, method="higher")
        possible = float((sign * p > limit).mean())
        score, found, missed = p.astype(np.float32).astype(np.float64), [], 0
        prior = [guarantee._pool(probs, score)]
        for _ in range(n_draws):
            nodes = generator.choice(N_POOL, n, replace=False)
            given = [guarantee], score[nodes], [holds[nodes]], prior, 0.1
            reach = certify_all(*given, is_advised=False)[name].reaches(score)
            counted, right = guarantee._counted(reach, holds)
            found.append(reach.mean())
            missed += right < guarantee.target * counted
        found_share = round(float(np.mean(found)), 4)
        row = {"wish": name, "rate": rate, "apart": apart, "n": n, "kind": kind}
        row |= {"possible": round(possible, 4), "decided": found_share}
        yield {**row, "missed": round(missed / n_draws, 4)}


METHODS = ("ts", "structural", "structural-free", "isotonic")


def cross_fits(n_draws: int) -> Iterator[dict[str, Any]]:
    """Certify with a split and with cross-fitting on graphs of a block model."""
    model = CSBM(n_classes=4, mean_degree=8, separation=1.0)
    for method, n in product(METHODS, (200, 500)):
        found: dict[str, list[list[float]]] = {"split": [], "cross-fit": []}
        for draw in range(n_draws):
            generator = np.random.default_rng(draw)
            sample = model.sample(np.full(3000, 0.75), random_state=draw)
            labels, noise = sample.labels, generator.standard_normal((3000, 4))
            logits = 3.0 * (np.eye(4)[labels] + 0.8 * noise)  # twice as sure as they may be
            every = Nodes(logits, sample.graph)
            ideal = get_calibrator(method).fit(
                every.with_labels(labels, calibration_nodes=range(3000))
            )
            wrong = ideal.predict_proba(every).argmax(axis=1) != labels
            target = round(1 - 0.6 * float(wrong.mean()), 3)
            labelled = np.sort(generator.choice(3000, n, replace=False))
            for certify, rows in found.items():
                nodes, seen, calibrator = labelled, None, get_calibrator(method)
                if certify == "split":
                    fit_nodes, nodes = hold_out(labelled, labels=labels, random_state=draw)
                    record = every.with_labels(labels, calibration_nodes=fit_nodes)
                    probs = calibrator.fit(record).predict_proba(every)
                else:
                    probs, seen = cross_fit(calibrator, every, labels, calibration_nodes=labelled)
                policy = Policy(accuracy=target)
                policy.fit(
                    probs,
                    labels,
                    calibration_nodes=nodes,
                    cross_fitted=seen,
                    decision_nodes=range(3000),
                )
                outcome = policy.judge(labels, probs)
                missed = not all(check.is_kept for check in outcome.checks)
                rows.append([outcome.counts["decide"] / 3000, float(missed)])
        yield {"method": method, "labels": n, "draws": n_draws} | {
            certify: dict(zip(("decided", "missed"), np.mean(rows, axis=0).round(4), strict=True))
            for certify, rows in found.items()
        }


def mapie(n_draws: int) -> Iterator[dict[str, Any]]:
    """Compare the share of nodes acted on, at level 95%, with what MAPIE certifies."""
    from mapie.risk_control import BinaryClassificationController

    grid = np.linspace(0.99, 0.0, 100)
    sequences: dict[str, dict[str, Any]] = {
        "mapie, default": {},
        "mapie, fixed sequence": {"list_predict_params": grid, "fwer_method": "fixed_sequence"},
    }
    for rate, apart, n in product((0.1, 0.3), (2.5, 4.0), (250, 1000)):
        generator = np.random.default_rng(2)
        p, _ = pool(rate, apart, "right", generator)
        chance = np.sort(p)[::-1].reshape(1000, -1).mean(axis=1)
        ends = np.arange(1, n + 1)
        plan = make_plan(chance, ends, DELTA)
        found: dict[str, list[float]] = {}
        for _ in range(n_draws):
            q, y = pool(rate, apart, "right", generator, n)
            order = np.argsort(-q)
            mistakes = np.cumsum(~y[order])[None]
            last = int(certified_ranks(RankedNodes(ends, mistakes), plan, 0.8, DELTA)[1, 0])
            thresholds: dict[str, float | None] = {"gnncal": q[order][last - 1] if last else None}
            half = n // 2  # split fixed sequence: one half orders the thresholds, the other tests
            counts = np.array(
                [[(q[:half] >= t).sum(), y[:half][q[:half] >= t].sum()] for t in grid]
            )
            share = (counts[:, 1] + 1) / (counts[:, 0] + 2)
            best = grid[np.argsort(-(share - 0.8) * np.sqrt(counts[:, 0] + 1), kind="stable")]
            split = {"list_predict_params": best, "fwer_method": "fixed_sequence"}
            rules = {**sequences, "mapie, split fixed sequence": split}
            for name, options in rules.items():
                some = slice(half, None) if "split" in name else slice(None)
                control = BinaryClassificationController(
                    lambda x: np.column_stack([1 - x, x]),
                    risk="precision",
                    target_level=0.8,
                    confidence_level=1 - DELTA,
                    **options,
                )
                control.calibrate(q[some], y[some].astype(int))
                thresholds[name] = control.best_predict_param
            for name, at in thresholds.items():
                found.setdefault(name, []).append(0.0 if at is None else float((p >= at).mean()))
        shares = {name: round(float(np.mean(each)), 4) for name, each in found.items()}
        yield {"rate": rate, "apart": apart, "n": n, "draws": n_draws, **shares}


PARTS = {
    "power": power,
    "violations": violations,
    "shares": shares,
    "cross_fit": cross_fits,
    "mapie": mapie,
}
SLOWER = {"shares": 5, "cross_fit": 10, "mapie": 10}  # so many times fewer draws


def main() -> None:
    """Run the parts and write their figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--parts", nargs="*", default=[part for part in PARTS if part != "mapie"])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/policies.json"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # where nothing is certified
    result = json.loads(options.out.read_text()) if options.out.exists() else {}
    for part in options.parts:
        n_draws = max(options.draws // SLOWER.get(part, 1), 1)
        rows = []
        for row in PARTS[part](n_draws):
            rows.append(row)
            print(part, row, flush=True)
            result[part] = {"draws": n_draws, "rows": rows}
            options.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
