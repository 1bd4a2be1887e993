"""On the page: the leak in the paper's homophily predictor."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnncal.plotting.style import BLUE, GAP
from gnncal_lab.pages.csbm.experiment import Experiment, Finding, with_interval
from gnncal_lab.simulation.estimate import Estimate
from gnncal_lab.simulation.experiments.leak import LeakRecord, leak


def draw(record: LeakRecord, axes: Any) -> None:
    """What each estimate looks like on calibration and on test nodes, and what it costs."""
    middle = (record.edges[:-1] + record.edges[1:]) / 2.0
    for ax, (name, seen) in zip(axes[:-1], record.estimates.items(), strict=True):
        for part, colour, label in (("val", GAP, "calibration"), ("test", BLUE, "test")):
            there = seen[part]
            ax.plot(
                middle,
                there.density,
                color=colour,
                drawstyle="steps-mid",
                label=f"{label}: AUC {float(there.auc.value):.2f}",
            )
        highest = max(seen[part].density.max() for part in ("val", "test"))
        ax.set(title=name, xlabel="estimate ĥ", xlim=(0, 1), ylim=(0, 1.35 * highest))
        ax.set_yticks([])
        ax.legend(loc="upper right")
    axes[0].set_ylabel("density over nodes")
    cost = axes[-1]
    names = list(record.nll_against_ts)
    rows = np.arange(len(names))[::-1]
    values = Estimate.stack([record.nll_against_ts[name] for name in names])
    error = np.stack([values.value - values.low, values.high - values.value])
    cost.errorbar(values.value, rows, xerr=error, fmt="o", color=BLUE, markersize=4)
    cost.axvline(0, color="black", linewidth=0.6)
    cost.set_yticks(rows, names)
    cost.set(title="test NLL against TS", xlabel="nats per node")


def findings(record: LeakRecord) -> list[Finding]:
    """Return the numbers of the table with the theory's or the paper's."""
    lines = []
    for name, seen in record.estimates.items():
        val, test = seen["val"], seen["test"]
        lines.append(
            Finding(
                f"{name}: correlation with h, calibration nodes",
                with_interval(val.correlation, 2),
                f"test nodes {with_interval(test.correlation, 2)}",
            )
        )
    for name, difference in record.nll_against_ts.items():
        ece = record.losses[name]["test"].ece
        lines.append(
            Finding(
                f"{name}: test NLL against TS",
                f"{with_interval(difference, 3)} nats",
                f"test ECE {with_interval(ece, 1, scale=100, unit='%')}",
            )
        )
    ts = record.losses["ts"]["test"]
    lines.append(
        Finding(
            "ts: test NLL",
            with_interval(ts.nll),
            f"test ECE {with_interval(ts.ece, 1, scale=100, unit='%')}",
        )
    )
    return lines


EXPERIMENT = Experiment(
    name="leak",
    compute=leak,
    small={"n_nodes": 1000, "n_seeds": 3},
    title="Leak in the paper's predictor",
    statement=(
        "The paper estimates h by a predictor, a small GCN trained on labels of training and "
        "calibration nodes. The paper then fits the temperature on the same calibration nodes."
    ),
    procedure=(
        "Features have 128 dimensions. Homophily is uniform on 0.2 to 0.95 and independent of the "
        "features. Three estimates are compared on calibration and test nodes: the paper's "
        "predictor, its cross-fitted version, in which predictors never see the label of the node "
        "that they estimate, and support. AUC: how well the estimate separates correct from wrong "
        "predictions (0.5: not at all)."
    ),
    reading=(
        "On calibration nodes, the predictor has memorised its targets. The peaks near 0, 1/2 and "
        "1 are shares among one or two labelled neighbours. On test nodes, its estimate is "
        "uninformative. HoTS is fitted where the estimate looks informative, so its log loss and "
        "ECE on test nodes are higher than those of temperature scaling (TS). Cross-fitting "
        "removes nearly all of the harm. Support has the same distribution on both kinds of nodes "
        "and lowers the log loss. HoTS with support even has a lower log loss than HoTS with the "
        "true h, because support measures whether the neighbours agree with the predicted class. "
        "Support does not lower the ECE."
    ),
    draw=draw,
    figure_size=(10.5, 3.2),
    n_panels=4,
    findings=findings,
)
