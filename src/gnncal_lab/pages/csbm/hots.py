"""On the page: how much of the avoidable loss HoTS recovers."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnncal.plotting.style import BAR, GAP, GREY
from gnncal_lab.pages.csbm.experiment import Experiment, Finding, with_interval
from gnncal_lab.pages.csbm.style import parts
from gnncal_lab.simulation.experiments.hots import HotsRecord, hots


def draw(record: HotsRecord, axes: Any) -> None:
    """Share of the avoidable loss that each method recovers, in three worlds."""
    names = list(record.worlds["sampled"].closed)
    order = ["bayes temperature", *(name for name in names if name != "bayes temperature")]
    rows = np.arange(len(order))[::-1]
    for ax, (title, world) in zip(axes, record.worlds.items(), strict=True):
        for row, name in zip(rows, order, strict=True):
            if name not in world.closed:
                continue
            value, low, high = parts(world.closed[name])
            told = any(word in name for word in ("true", "±", "realised", "bayes"))
            ax.barh(row, value, color=GREY if told else BAR, height=0.7)
            ax.plot([low, high], [row, row], color="black", linewidth=1)
        ax.axvline(1, color=GAP, linestyle="--", linewidth=1)
        ax.axvline(0, color="black", linewidth=0.6)
        gap = float(world.nll_ts.value - world.nll_best.value)
        ax.set(title=f"{title}: {gap:.3f} nats to gain", xlabel="share recovered")
        ax.set_yticks(rows, order if ax is axes[0] else [""] * len(order))
        ax.set_ylim(-0.6, len(order) - 0.4)


def findings(record: HotsRecord) -> list[Finding]:
    """Return the numbers of the table with the theory's or the paper's."""
    lines = []
    for world_name, world in record.worlds.items():
        gap = float(world.nll_ts.value - world.nll_best.value)
        lines += [
            Finding(
                f"{world_name}: {name}",
                with_interval(closed, 0, scale=100, unit="%"),
                f"of the avoidable {gap:.3f} nats; gap of confidence to accuracy by h "
                f"{100 * float(world.gap_by_homophily[name].value):.1f}% "
                f"(TS {100 * float(world.gap_by_homophily['ts'].value):.1f}%)",
            )
            for name, closed in world.closed.items()
        ]
    return lines


EXPERIMENT = Experiment(
    name="hots",
    compute=hots,
    small={"n_nodes": 1500, "n_seeds": 2},
    title="What HoTS recovers",
    statement=(
        "HoTS turns the law into T = T_base + β √(2K ln K (1 - e)) / (|h̃| + ε)^α with three "
        "fitted numbers and an estimate of h."
    ),
    procedure=(
        "Nodes of six levels of homophily live in one graph. The avoidable loss is that of "
        "temperature scaling minus that of the best temperature of each level, found on the "
        "test nodes. Three worlds: the theorem's own, template scores on a sampled graph, and "
        "a trained one-layer GCN on it. Grey bars are told something about the true h, blue "
        "ones estimate it."
    ),
    reading=(
        "Told the true h, HoTS recovers most of the avoidable loss; without its entropy term "
        "it comes closer still, for the Bayes temperature does not depend on the entropy. "
        "Noise on h costs much: ± 0.3 leaves little. Of the estimates that need no label, "
        "support recovers about two thirds and agreement less than half, on template scores as "
        "on a trained network. The cross-fitted predictor finds nothing, for features say "
        "nothing about h here. More than 100% is possible: the best temperature of a level "
        "knows h and nothing else, while the realised share of equal neighbours, which the "
        "paper calls oracle, is computed from the node's true label. On a sampled graph "
        "T_Bayes is not the best any more, because degrees and compositions fluctuate."
    ),
    draw=draw,
    figure_size=(10.5, 3.7),
    n_panels=3,
    findings=findings,
)
