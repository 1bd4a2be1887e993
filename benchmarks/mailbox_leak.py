"""What the test labels in the released loss of Simi-Mailbox were worth.

    python benchmarks/mailbox_leak.py --cache LOGITS --data RAW --seeds 1 --backbones gcn

The release averages the confidence and the accuracy of a group over all of its nodes, test labels
included; gnncal averages over the calibration nodes. Both losses are solved by the same solver for
the same groups: as many as cross-validation on the calibration nodes chooses, and sixteen. The
leaking loss is in this script only. Judged on the test nodes; graphs are the units. The graphs of
web pages have 18 to 25 calibration nodes, so the others are also compared alone.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np

import gnncal
import gnncal_lab
from families import FAMILIES, for_each_task, options_for
from gnncal import metrics
from gnncal.data.arrays import FloatArray, IntArray
from gnncal_lab.bench.logits import TrainedLogits
from gnncal_lab.bench.plan import Task
from gnncal_lab.bench.summary import compare_paired, unit_means
from gnncal_lab.fitting.gap_loss import Curve, GapLoss, temperature_of

NUMBERS: dict[str, int | None] = {"chosen": None, "sixteen": 16}
FEW_NODES = FAMILIES["web pages"]
METRICS = {"ece": "ECE, points", "nll": "log loss, nats"}
Row = dict[str, Any]


class LeakingLoss(GapLoss):
    """The released loss: cross-entropy of calibration nodes, gap of every node of the group."""

    def __init__(self, calibration: GapLoss, everyone: GapLoss) -> None:
        vars(self).update(vars(calibration))
        self.everyone = everyone

    def curves(self, code: FloatArray) -> tuple[Curve, Curve]:
        """Return the cross-entropy of the calibration nodes, and the gap of every node."""
        return super().curves(code)[0], self.everyone.curves(code)[1]


def leaked_temperatures(
    fitted: gnncal_lab.SimiMailbox, nodes: gnncal.Nodes, labels: IntArray, calibration: IntArray
) -> FloatArray:
    """Return the temperature of each node that the released loss gives for the fitted groups.

    A group without calibration nodes keeps its temperature.
    """
    groups, weight = fitted._groups(nodes), fitted.gap_weight
    found = fitted.group_temperatures_.copy()
    for g in np.unique(groups[calibration]):
        own, everyone = calibration[groups[calibration] == g], np.flatnonzero(groups == g)
        parts = [GapLoss(nodes.logits[rows], labels[rows], 1.0, weight) for rows in (own, everyone)]
        parts[0].share = len(own) / len(calibration)
        found[g] = temperature_of(LeakingLoss(*parts).solved().parameters)[0]
    return found[groups]


def rows_of(task: Task, provider: TrainedLogits) -> list[Row]:
    """Judge both losses, and none, on one frozen classifier."""
    bundle = provider.load(task)
    calibration, test = np.sort(bundle.calibration_nodes), np.sort(bundle.test_nodes)
    nodes, truth = gnncal.Nodes(bundle.logits, bundle.graph), bundle.labels[test]
    model = {"graph": task.dataset, "backbone": task.backbone, "seed": task.seed}

    def judged(temperature: FloatArray, **which: Any) -> Row:
        probs = gnncal.calibrators.softmax(bundle.logits, temperature)[test]
        return {
            **model,
            **which,
            "ece": 100 * metrics.expected_calibration_error(truth, probs),
            "nll": metrics.METRICS["nll"](truth, probs),
        }

    found = [judged(np.ones(nodes.n_nodes), loss="none", groups="none", n_groups=0)]
    for groups, n_groups in NUMBERS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", gnncal.GnncalWarning)
            fitted = gnncal_lab.SimiMailbox(n_groups=n_groups)
            fitted.fit(nodes, bundle.labels, calibration_nodes=calibration)
        leaked = leaked_temperatures(fitted, nodes, bundle.labels, calibration)
        which = {"groups": groups, "n_groups": len(fitted.centres_)}
        found.append(judged(fitted.temperature_, loss="calibration nodes", **which))
        found.append(judged(leaked, loss="every node", **which))
    return found


def comparisons(rows: list[Row]) -> Iterator[Row]:
    """Compare the released loss with ours over graphs; negative: the leak helped."""
    models = sorted({(r["graph"], r["backbone"]) for r in rows})
    without = [model for model in models if model[0] not in FEW_NODES]
    for graphs, judged in {"all": models, "without web pages": without}.items():
        for groups in NUMBERS:
            for metric in METRICS:
                ours, leaking = (
                    [
                        float(np.mean([r[metric] for r in rows if _is(r, model, groups, loss)]))
                        for model in judged
                    ]
                    for loss in ("calibration nodes", "every node")
                )
                units = [graph for graph, _ in judged]
                yield {
                    "graphs": graphs,
                    "groups": groups,
                    "metric": metric,
                    "ours": unit_means(np.array(ours), units).mean(),
                    "leaking": unit_means(np.array(leaking), units).mean(),
                    **asdict(compare_paired(leaking, ours, units)),
                }


def _is(row: Row, model: tuple[str, str], groups: str, loss: str) -> bool:
    own = (row["graph"], row["backbone"]), row["groups"], row["loss"]
    return own == (model, groups, loss)


def table(compared: list[Row]) -> Iterator[str]:
    """One line for each set of graphs, number of groups and metric."""
    yield "| graphs | groups | test nodes | ours | with the leak | difference [95%] | lower on |"
    yield "|---|---|---|---:|---:|---:|---:|"
    for row in compared:
        digits = 2 if row["metric"] == "ece" else 3
        ours, leaking = (f"{row[name]:.{digits}f}" for name in ("ours", "leaking"))
        change, low, high = (
            f"{row[name]:+.{digits}f}" for name in ("mean_difference", "low", "high")
        )
        won = f"{row['win_rate'] * row['n_graphs']:g} of {row['n_graphs']}"
        yield (
            f"| {row['graphs']} | {row['groups']} | {METRICS[row['metric']]} | {ours} | "
            f"{leaking} | {change} [{low}, {high}] | {won} |"
        )


def main() -> None:
    options = options_for(__doc__.splitlines()[0], "benchmarks/results/mailbox_leak.json")
    chosen = options.parse_args()
    rows = [row for found in for_each_task(chosen, rows_of).values() for row in found]
    compared = list(comparisons(rows))
    print("\n".join(table(compared)))
    chosen.out.write_text(json.dumps({"comparisons": compared, "models": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
