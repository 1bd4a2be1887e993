"""How often the verdict says that you can act, where the true calibration error is known.

    python benchmarks/verdict.py

Probabilities are drawn in four worlds: three shapes of confidence, and a class with a base rate of
5%. Labels are drawn so that every confidence is too high by 0, 1, 3, 5 or 10 points, or P(class)
on average. Each draw is judged as the probabilities of a model, as `gnncal.calibrate` does with
``method="uncalibrated"``. Recorded is the share of draws with a good verdict, by number of test
nodes. For a true error of 0 the verdict on 300 test nodes names a number of nodes that would show
it: the median of these numbers, and the share of good verdicts on so many new nodes.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

import gnncal
from gnncal.data.arrays import FloatArray, IntArray
from gnncal.metrics.verdict import UNCALIBRATED, Verdict, judge_method

DRAWS = 100
ERRORS = (0.0, 0.01, 0.03, 0.05, 0.1)
SIZES = (100, 300, 1000, 3000)
FEW = 300  # test nodes of the verdicts that name a number
RATE = 0.05
WORLDS = ("0.5 to 1", "most above 0.9", "0.4 to 1, four classes", "P(class), base rate 5%")


def confidence_in(world: str, n_nodes: int, generator: np.random.Generator) -> FloatArray:
    """Draw what the model states: its confidence, or the probability of the class."""
    if world == WORLDS[0]:
        return generator.uniform(0.5, 1.0, n_nodes)
    if world == WORLDS[1]:
        return 1.0 - 0.5 * generator.beta(1.0, 6.0, n_nodes)
    if world == WORLDS[2]:
        return 0.4 + 0.6 * generator.beta(2.0, 3.0, n_nodes)
    return generator.beta(4.0 * RATE, 4.0 * (1.0 - RATE), n_nodes)


def sample(world: str, error: float, n_nodes: int, seed: int) -> tuple[IntArray, FloatArray]:
    """Return labels and probabilities whose true calibration error is ``error``."""
    generator = np.random.default_rng([WORLDS.index(world), n_nodes, seed])
    stated = confidence_in(world, n_nodes, generator)
    if world == WORLDS[3]:  # a few stated probabilities end at 1
        true, stated = stated, np.minimum(stated * (1.0 + error / RATE), 1.0)
        labels = (generator.random(n_nodes) < true).astype(np.int64)
        return labels, np.column_stack([1.0 - stated, stated])
    n_others = 3 if world == WORLDS[2] else 1
    labels = np.where(
        generator.random(n_nodes) < stated - error, 0, generator.integers(1, n_others + 1, n_nodes)
    )
    rest = np.repeat((1.0 - stated)[:, None] / n_others, n_others, axis=1)
    return labels, np.column_stack([stated, rest])


def verdict(world: str, error: float, n_nodes: int, seed: int) -> Verdict:
    labels, probs = sample(world, error, n_nodes, seed)
    positive = 1 if world == WORLDS[3] else None
    side = gnncal.evaluate(labels, probs, positive=positive)
    gain = gnncal.compare(labels, probs, probs, positive=positive)
    return judge_method(UNCALIBRATED, side, side, gain)


def share_of_good(world: str, error: float, sizes: list[int]) -> float:
    """Return the share of good verdicts; each draw has a number of test nodes."""
    good = [verdict(world, error, n, seed).grade == "good" for seed, n in enumerate(sizes)]
    return round(float(np.mean(good)), 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/verdict.json"))
    parser.add_argument("--draws", type=int, default=DRAWS)
    options = parser.parse_args()
    found: dict[str, Any] = {"draws": options.draws, "worlds": {}}
    for world in WORLDS:
        shares = {
            f"{100 * error:g} points": {
                f"{n:,}": share_of_good(world, error, [n] * options.draws) for n in SIZES
            }
            for error in ERRORS
        }
        few = (verdict(world, 0.0, FEW, 1000 + seed) for seed in range(options.draws))
        needed = [each.n_needed for each in few if each.n_needed is not None]
        found["worlds"][world] = {
            "shares": shares,
            "verdicts with a number": len(needed),
            "median number": float(np.median(needed)),
            "share at the number": share_of_good(world, 0.0, needed),
        }
        print(world, found["worlds"][world], flush=True)
    options.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
