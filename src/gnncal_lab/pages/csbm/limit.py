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
                reference += f"; {share:.0f}% of the reduction by the {kind}{WHOLE}"
            closed = with_interval(world.closed[name], 0, scale=100, unit="%")
            lines.append(Finding(f"{title}: {name}", closed, reference))
        lines.append(
            Finding(
                f"{title}: log loss of TS",
                with_interval(world.nll["ts"]),
                f"{BY_LEVEL} is {gap:.3f} nats lower (100%)",
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
    title="Limit for any method",
    statement=(
        "The paper's oracle is the best temperature of each true homophily level. It is not the "
        "limit, because neighbours carry more information than homophily. The limit is the "
        "posterior of the class given all features and all edges. No method without test labels "
        "has a lower expected log loss."
    ),
    procedure=(
        "The graphs have six levels of homophily, as in the experiment hots. Undirected graphs "
        "have the same mean degree. The posterior is computed from the class means and the levels, "
        "but without labels and without the level of any node, by belief propagation over one "
        "step, two steps, or until convergence. Methods that keep predictions are compared with "
        "the temperature of each node that is best under this posterior. The table shows the "
        "reduction of the log loss from TS, as a percentage of the oracle's reduction."
    ),
    reading=(
        "The best temperature by true h is far from the limit. HoTS with the support of senders "
        "closes about two thirds of the gap between TS and this oracle. The structural law uses "
        "both sides and closes three times this gap on directed and seven times on undirected "
        "graphs, because support measures whether the neighbours agree with the prediction. It "
        "achieves 70% (directed) and 60% (undirected) of the reduction by the best temperature "
        "given the whole graph. Methods that may change predictions can gain more: a third of the "
        "predictions are wrong, and the graph reveals most of these mistakes. structural-free "
        "achieves nearly 80% (directed) and about two thirds (undirected) of the reduction by the "
        "posterior. Fitted once more to its own output, it closes more than a third of the "
        "remaining gap. The structural law is better than the best temperature given one step, "
        "because logits contain features from further away. The last rows check the posterior: its "
        "log loss equals the loss that it expects."
    ),
    draw=draw,
    figure_size=(10.5, 4.6),
    n_panels=2,
    findings=findings,
)
