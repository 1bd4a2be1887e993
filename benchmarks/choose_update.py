"""Choose how far an update may go: the prior of tau and the unit of biases.

    python benchmarks/choose_update.py --data DATA --cache results/practice --seeds 2

Every move of three families is tried with 10, 20, 50, 100 and 200 labels of the target. A candidate
is judged by its mean log loss on the target's test nodes above the better of the source's
calibrator and one fitted afresh. A family's candidate is chosen on the *other* families; what it
then gives on the family itself is the honest figure. The package has the candidate with the lowest
mean over all families.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from gnncal import get_calibrator
from gnncal.data.nodes import Nodes
from gnncal.shift.posterior import average_over_scales, candidates_of
from gnncal_lab.simulation.estimate import fit_without_warnings
from moved import FAMILIES, Move, moves
from practice import Models, options_for

METHODS = ("structural", "structural-free", "hots", "ts", "sms")
SIZES = (10, 20, 50, 100, 200)
CHOSEN_ON = FAMILIES[:3]  # that of the years has two targets only
TYPICAL = (0.1, 0.15, 0.2, 0.3)
SPREAD = (0.25, 0.5, 0.75)
BIAS_UNIT = (1.0, 1.5, 2.0, 3.0)


def losses(move: Move, seed: int) -> Iterator[dict[str, Any]]:
    """Mean log losses on the test nodes of one move, for each method and number of labels.

    A method that has two parts, the law and the scores of ``structural``, is judged part by part.
    """
    here, there = move.here, move.there
    target = Nodes(there.logits, there.graph)
    test = target.with_labels(there.labels, calibration_nodes=there.test_nodes)
    order = np.random.default_rng([seed, 1]).permutation(there.calibration_nodes)
    for method in METHODS:
        fitted = fit_without_warnings(
            get_calibrator(method),
            here.logits,
            here.labels,
            here.graph,
            calibration_nodes=here.calibration_nodes,
        )
        on_test = fitted._posterior_blocks(test)
        for size in SIZES:
            labelled = target.with_labels(there.labels, calibration_nodes=np.sort(order[:size]))
            fresh = fit_without_warnings(get_calibrator(method), labelled, None)
            parts = zip(
                on_test,
                fresh._posterior_blocks(test),
                fitted._posterior_blocks(labelled),
                strict=True,
            )
            for judged, anew, part in parts:

                def loss(theta: Any, at: Any = judged) -> float:
                    return float(at.labelled.losses(theta).mean())

                row = {
                    "source": loss(judged.theta),
                    "afresh": loss(anew.theta, anew),
                    "updated": [],
                }
                for unit in BIAS_UNIT:
                    found = candidates_of(part, part.labelled.slopes, unit)
                    row["updated"] += [
                        loss(average_over_scales(found, typical, spread).theta)
                        for typical, spread in product(TYPICAL, SPREAD)
                    ]
                yield {"method": f"{method} {part.name}", "labels": size, **row}


def excess(rows: list[dict[str, Any]]) -> np.ndarray:
    """Mean over methods and sizes of each candidate's loss above the better of the two others."""
    cells = {(row["method"], row["labels"]) for row in rows}
    found = []
    for cell in sorted(cells):
        own = [row for row in rows if (row["method"], row["labels"]) == cell]
        better = min(np.mean([row[name] for row in own]) for name in ("source", "afresh"))
        found.append(np.mean([row["updated"] for row in own], axis=0) - better)
    return np.array(found)  # (n_cells, n_candidates)


def main() -> None:
    """Try every candidate, print and write what was chosen on what."""
    options = options_for(__doc__, "benchmarks/results/choose_update.json").parse_args()
    models = Models(options.data, options.cache)
    rows: dict[str, list[dict[str, Any]]] = {family: [] for family in CHOSEN_ON}
    for family in CHOSEN_ON:
        for seed in range(options.seeds):
            for move in moves(models, family, seed):
                rows[family] += losses(move, seed)
                print(family, seed, move.source, move.target, flush=True)
    # The grid of units varies slowest in what was computed.
    names = [
        (typical, spread, unit)
        for unit in BIAS_UNIT
        for typical, spread in product(TYPICAL, SPREAD)
    ]
    gains = {family: excess(rows[family]) for family in CHOSEN_ON}
    means = {family: gains[family].mean(axis=0) for family in CHOSEN_ON}

    def described(best: int, family: str | None = None) -> dict[str, Any]:
        typical, spread, unit = names[best]
        told = {"typical_tau": typical, "spread": spread, "bias_unit": unit}
        for each in CHOSEN_ON if family is None else (family,):
            told[each] = {
                "mean_above_the_better": round(float(means[each][best]), 5),
                "worst_cell": round(float(gains[each][:, best].max()), 5),
            }
        return told

    result: dict[str, Any] = {"seeds": options.seeds, "left_out": {}}
    for family in CHOSEN_ON:
        others = [means[other] for other in CHOSEN_ON if other != family]
        result["left_out"][family] = described(int(np.mean(others, axis=0).argmin()), family)
    result["package"] = described(int(np.mean(list(means.values()), axis=0).argmin()))
    result["every_candidate"] = [
        {"typical_tau": t, "spread": s, "bias_unit": u}
        | {family: round(float(means[family][i]), 5) for family in CHOSEN_ON}
        | {f"{family} worst": round(float(gains[family][:, i].max()), 5) for family in CHOSEN_ON}
        for i, (t, s, u) in enumerate(names)
    ]
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps({key: result[key] for key in ("left_out", "package")}, indent=1))


if __name__ == "__main__":
    main()
