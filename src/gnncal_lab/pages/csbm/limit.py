"""On the page: how far each method goes beyond one temperature, and how far it could go."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnncal.plotting.style import BAR, BLUE, GREY, SAND
from gnncal_lab.pages.csbm.experiment import Experiment, Finding, with_interval
from gnncal_lab.simulation.estimate import Estimate
from gnncal_lab.simulation.experiments.limit import (
    BY_LEVEL,
    FREE,
    POSTERIOR,
    SCALED,
    TEMPERATURE,
    WHOLE,
    LimitRecord,
    limit,
)

KINDS = {"template scores": (BLUE, 0.12), "trained GCN": (SAND, -0.12)}  # colour, shift upwards


def draw(record: LimitRecord, axes: Any) -> None:
    """Log loss of every method and limit, on directed and on undirected graphs."""
    names = _in_order(record)
    rows = np.arange(len(names))[::-1]
    told = [row for row, name in zip(rows, names, strict=True) if name not in {**SCALED, **FREE}]
    for ax, graph in zip(axes, ("directed", "undirected"), strict=True):
        for row in told:
            ax.axhspan(row - 0.5, row + 0.5, color=BAR, alpha=0.25, linewidth=0)
        for kind, (colour, shift) in KINDS.items():
            nll = Estimate.stack([record.worlds[f"{graph}, {kind}"].nll[name] for name in names])
            error = np.stack([nll.value - nll.low, nll.high - nll.value])
            ax.errorbar(
                nll.value, rows + shift, xerr=error, fmt="o", color=colour, markersize=4, label=kind
            )
        ax.set(title=f"{graph} graph", xlabel="log loss on test nodes (nats)")
        ax.set_xlim(left=0)
        ax.set_ylim(-0.5, len(names) - 0.5)
        ax.set_yticks(rows, names if ax is axes[0] else [""] * len(names))
        ax.grid(axis="x", color=GREY, alpha=0.3, linewidth=0.6)
    axes[0].legend(loc="lower right")


def _in_order(record: LimitRecord) -> list[str]:
    """What gives a node one temperature first, then the others; limits below their methods."""
    names = next(iter(record.worlds.values())).nll
    temperatures, posteriors = (
        [name for name in names if name.startswith(kind)] for kind in (TEMPERATURE, POSTERIOR)
    )
    first, *scaled = SCALED
    return [first, BY_LEVEL, *scaled, *temperatures, *FREE, *posteriors]


def findings(record: LimitRecord) -> list[Finding]:
    """Return the share of the gap that each method closes, and how far from the limit it stays."""
    lines = []
    for title, world in record.worlds.items():
        gap = float(world.nll["ts"].value - world.nll[BY_LEVEL].value)
        for name in _in_order(record):
            if name in ("ts", BY_LEVEL):
                continue
            reference = f"log loss {float(world.nll[name].value):.3f}, "
            reference += f"accuracy {100 * float(world.accuracy[name].value):.1f}%"
            if name in world.reached:
                kind = TEMPERATURE if name in SCALED else POSTERIOR
                share = 100 * float(world.reached[name].value)
                reference += f"; {share:.0f}% of the way from TS to the {kind}{WHOLE}"
            closed = with_interval(world.closed[name], 0, scale=100, unit="%")
            lines.append(Finding(f"{title}: {name}", closed, reference))
        lines.append(
            Finding(
                f"{title}: log loss of TS",
                with_interval(world.nll["ts"]),
                f"{BY_LEVEL} is {gap:.3f} nats lower, which is 100%",
            )
        )
    for graph in ("directed", "undirected"):
        world = record.worlds[f"{graph}, template scores"]
        lines += [
            Finding(
                f"{graph}: log loss of the posterior given {name}, minus what it expects",
                with_interval(excess, 4, unit=" nats"),
                "0 if the posterior is exact",
            )
            for name, excess in world.posterior_excess.items()
        ]
    return lines


EXPERIMENT = Experiment(
    name="limit",
    compute=limit,
    small={"n_nodes": 1500, "n_seeds": 2},
    title="How far a method could go",
    statement=(
        "The paper's oracle is the best temperature of each true homophily level. But a node's "
        "neighbours say more about its class than its homophily does. The limit is the posterior "
        "of the class given all features and all edges: no method that sees no label of the test "
        "nodes has a lower log loss on average."
    ),
    procedure=(
        "As in the experiment hots: six levels of homophily, the best temperature "
        "of each level found on the test nodes. Undirected graphs have the same mean degree; a "
        "node draws half of its neighbours and is drawn by the other half. The posterior knows "
        "the class means and the levels, but no label and no node's level; it is computed by "
        "belief propagation over one step, two steps, or until it no longer changes. A method that "
        "keeps predictions by a temperature is held against the temperature of each node that is "
        "best under that posterior."
    ),
    reading=(
        "The best temperature by true h is far from the limit. HoTS with the support of senders "
        "closes about two thirds of the gap to it. The structural law, which sees both sides, "
        "closes three times the gap on directed graphs and seven times on undirected ones: "
        "support tells whether the neighbours agree with this prediction, not only how alike "
        "neighbours are. It goes 70% (directed) and 60% (undirected) of the way from "
        "temperature scaling to the best temperature that any knowledge of features and edges "
        "allows. Methods that may change predictions have far more to gain, because a third of "
        "the predictions is wrong and most of the mistakes can be seen from the graph: "
        "structural-free goes nearly 80% and about two thirds of the way to the posterior. It "
        "hears the neighbours before their own mistakes are corrected; fitted once more, to its "
        "own result, it closes more than a third of what is left. The law is "
        "even below the best temperature given one step, because logits carry features from "
        "further away. The last rows check the posterior itself: its log loss is "
        "what it expects."
    ),
    draw=draw,
    figure_size=(10.5, 4.6),
    n_panels=2,
    findings=findings,
)
