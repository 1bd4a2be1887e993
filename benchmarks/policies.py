"""Are the guarantees of a policy kept, and how many nodes does it decide?

Simulated pools with known chances: two normal scores ``apart``, a share ``rate`` positive, and
probabilities that are right, tied, or wrong by a slope. Violations: draws after which a guarantee
is missed on the pool, of 1,000; 100 are allowed at level 90 %. Power: nodes that the certificate
decides, as a share of the largest number that passes its binomial test in hindsight.

    python benchmarks/policies.py --draws 1000 --out benchmarks/results/policies.json
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from gnncal.data.arrays import BoolArray, FloatArray
from gnncal.data.errors import GnncalWarning
from gnncal.decisions import Policy, hold_out
from gnncal.decisions.certificate import (
    RankedNodes,
    allowed_mistakes,
    certified_ranks,
    plan_starts,
)

N_POOL = 20_000
DELTA = 0.05
WISHES: dict[str, dict[str, float]] = {
    "accuracy": {"accuracy": 0.95},
    "act": {"act": 0.8},
    "clear": {"clear": 0.98},
    "recall": {"recall": 0.9},
    "false_positive_rate": {"false_positive_rate": 0.02},
    "act, clear and recall": {"act": 0.8, "clear": 0.98, "recall": 0.9},
}
KINDS = ("right", "tied", "log-odds x 2", "log-odds x 0.5")


def pool(
    rate: float, apart: float, generator: np.random.Generator, n: int = N_POOL
) -> tuple[FloatArray, BoolArray]:
    """Return probabilities that are exactly right, (n,), and which nodes are positive."""
    positive = generator.random(n) < rate
    score = generator.standard_normal(n) + apart * positive
    odds = apart * score - apart**2 / 2 + np.log(rate / (1 - rate))
    return 1 / (1 + np.exp(-odds)), positive


def changed(p: FloatArray, kind: str) -> FloatArray:
    """Return the probabilities as a model of this kind gives them."""
    if kind == "tied":
        return np.round(p, 1) * 0.98 + 0.01
    factor = {"right": 1.0, "log-odds x 2": 2.0, "log-odds x 0.5": 0.5}[kind]
    return 1 / (1 + ((1 - p) / p) ** factor)


def violations(kind: str, wish: str, n: int, n_draws: int, *, stratified: bool) -> int:
    """Count draws after which a guarantee is missed on the pool, asked in float32."""
    generator = np.random.default_rng(0)
    p, positive = pool(0.1, 2.5, generator)
    p, labels, missed = changed(p, kind), positive.astype(int), 0
    probs = np.column_stack([1 - p, p])
    given = {} if wish == "accuracy" else {"positive": 1}
    for draw in range(n_draws):
        nodes = generator.choice(N_POOL, 2 * n, replace=False)
        if stratified:
            nodes = hold_out(nodes, labels=labels, random_state=draw)[1].astype(np.int64)
        policy = Policy(**given, **WISHES[wish])  # type: ignore[arg-type]
        policy.fit(probs, labels, nodes=nodes[:n])
        missed += not all(kept.is_kept for kept in policy.judge(labels, probs.astype("f4")).kept)
    return missed


def power(rate: float, apart: float, n: int, target: float, *, acts: bool, n_draws: int) -> float:
    """Return the decided share of the ceiling; NaN where the ceiling is a hundredth or less."""
    generator = np.random.default_rng(0)
    p, _ = pool(rate, apart, generator)
    chance = np.sort(p if acts else 1 - p)[::-1].reshape(1000, -1).mean(axis=1)
    starts, allowed = (
        plan_starts(chance, n, DELTA),
        allowed_mistakes(np.arange(1, n + 1), target, DELTA),
    )
    decided = most = 0
    for _ in range(n_draws):
        p, positive = pool(rate, apart, generator, n)
        ranked = RankedNodes.of(p if acts else -p, positive if acts else ~positive)
        passed = np.flatnonzero(ranked.mistakes <= allowed)
        most += int(passed[-1]) + 1 if passed.size else 0
        decided += certified_ranks(ranked, starts, target, DELTA)[1]
    return decided / most if most > 0.01 * n * n_draws else float("nan")


def main() -> None:
    """Run the study and write its figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/policies.json"))
    options = parser.parse_args()
    warnings.simplefilter("ignore", GnncalWarning)
    powers: list[dict[str, Any]] = []
    missed: list[dict[str, Any]] = []
    for rate, apart in ((0.03, 2.5), (0.03, 4.0), (0.1, 2.5), (0.1, 4.0), (0.3, 2.5), (0.3, 4.0)):
        for n in (100, 250, 500, 1000, 5000):
            for acts, target in ((True, 0.8), (False, 1 - rate / 5)):
                draws = max(options.draws // (10 if n > 1000 else 1), 10)
                share = power(rate, apart, n, target, acts=acts, n_draws=draws)
                powers.append({"rate": rate, "apart": apart, "n": n, "acts": acts, "share": share})
                print(powers[-1], flush=True)
    for wish in WISHES:
        for kind in KINDS:
            for stratified in (False, True):
                n_missed = violations(kind, wish, 250, options.draws, stratified=stratified)
                missed.append(
                    {"wish": wish, "kind": kind, "stratified": stratified, "missed": n_missed}
                )
                print(missed[-1], flush=True)
    found = {"draws": options.draws, "violations": missed, "power": powers}
    options.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
