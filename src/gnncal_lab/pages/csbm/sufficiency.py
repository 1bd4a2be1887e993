"""Appendix A.4 on the page: where homophily is all that a temperature needs to know."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnncal.plotting.style import BLUE, GAP, GREEN, GREY, ORANGE, PURPLE, SAND
from gnncal_lab.pages.csbm.experiment import Experiment, Finding, entry, with_interval
from gnncal_lab.simulation.experiments.sufficiency import (
    SufficiencyRecord,
    SufficiencyWorld,
    sufficiency,
)
from gnncal_lab.simulation.symmetric_head import HeadRecord

COLOURS = (BLUE, SAND, GREEN, PURPLE, ORANGE, GAP, GREY)
MARKERS = ("o", "s", "D", "^", "v", "X", "P")


def draw(record: SufficiencyRecord, axes: Any) -> None:
    """The best inverse temperature of every world; of every class; and what a temperature loses."""
    law, classes, lost = axes
    h = record.homophily
    law.plot(h, record.law, color="black", linewidth=1, label="Γ(h) / v")
    middle = int(np.argmin(np.abs(h - 0.5)))
    n_classes = record.model.n_classes
    for i, (name, world) in enumerate(record.worlds.items()):
        style = {"color": COLOURS[i], "marker": MARKERS[i], "markersize": 4, "linewidth": 1}
        law.plot(h, world.tau.value, label=name, **style)
        of_class = entry(world.tau_of_class, middle)
        error = np.stack([of_class.value - of_class.low, of_class.high - of_class.value])
        at = np.arange(n_classes) + (i - 3) * 0.1
        classes.errorbar(
            at, of_class.value, yerr=error, fmt=MARKERS[i], color=COLOURS[i], markersize=3.5
        )
        if i:  # the first loses nothing, which a logarithm cannot show
            lost.semilogy(h, np.maximum(world.lost.value, 1e-7), **style)
    law.set(title="best 1 / T by h", xlabel="homophily h", ylabel="inverse temperature")
    law.legend(loc="upper left", fontsize=7)
    classes.set(title=f"best 1 / T of each class, h = {h[middle]:g}", xlabel="class")
    classes.set_xticks(np.arange(n_classes))
    lost.set(
        title="lost by any temperature from h", xlabel="homophily h", ylabel="KL, nats per node"
    )
    lost.set_ylim(1e-6, 1)


def findings(record: SufficiencyRecord) -> list[Finding]:
    """For every world: do classes differ, what is lost by h alone, what would the shape add."""
    middle = int(np.argmin(np.abs(record.homophily - 0.5)))
    at = f"h = {record.homophily[middle]:g}"
    lines = []
    for name, world in record.worlds.items():
        lines += [
            Finding(
                f"{name}: best 1/T at {at}",
                with_interval(entry(world.tau, middle)),
                f"Γ(h)/v = {record.law[middle]:.3f}; {_classes(world)}",
            ),
            Finding(
                f"{name}: lost by the best temperature at {at}",
                _nats(world, "lost", middle),
                f"with 1/T = Γ(h)/v: {max(float(world.lost_by_law.value[middle]), 0.0):.4f}",
            ),
        ]
        if name in ("classes drawn", "two shapes", "degrees vary"):
            lines.append(
                Finding(
                    f"{name}: gained by knowing the shape too, {at}",
                    _nats(world, "gained_by_shape", middle),
                    "0 if h were sufficient",
                )
            )
    return [*lines, *_head(record.head)]


def _head(head: HeadRecord) -> list[Finding]:
    """How far trained linear heads are from class symmetry, and what that costs them."""
    ends = sorted({0, head.n_trained.size - 1})
    return [
        *(
            Finding(
                f"linear classifier, {head.n_trained[i]:,} training nodes: asymmetric weights",
                with_interval(entry(head.asymmetry, i), 1, scale=100, unit="%"),
                f"log loss minus that of its average over permutations "
                f"{with_interval(entry(head.excess, i), 5)} nats, theory: at least 0",
            )
            for i in ends
        ),
        Finding(
            "asymmetric share of the weights: exponent of the number of nodes",
            with_interval(head.slope, 2),
            "theory -0.5: in the limit the best classifier is symmetric",
        ),
    ]


def _classes(world: SufficiencyWorld) -> str:
    rejected, n_levels = int((world.class_p_value < 0.05).sum()), world.class_p_value.size
    expected = "symmetric" if world.symmetric else "not symmetric"
    return f"classes differ at {rejected} of {n_levels} levels of h (5% test), setting {expected}"


def _nats(world: SufficiencyWorld, part: str, position: int) -> str:
    estimate = entry(getattr(world, part), position)
    if abs(float(estimate.value)) < 1e-9:  # rounding alone
        return "0 nats, to rounding"
    return with_interval(estimate, 4) + " nats"


EXPERIMENT = Experiment(
    name="sufficiency",
    compute=sufficiency,
    small={"n_nodes": 600, "n_seeds": 3, "head_sizes": (250, 1000, 4000)},
    title="Sufficiency of homophily",
    statement=(
        "Appendix A.4 makes four assumptions: classes are equally likely, class means are "
        "equidistant, all degrees are equal, and the neighbours of other classes are balanced over "
        "these classes. Then the loss of a temperature at given h is the same for every class, and "
        "the best temperature depends on h alone. The best linear classifier can be chosen "
        "symmetric, because its average over all permutations of the classes is no worse. The "
        "paper claims this only under these assumptions."
    ),
    procedure=(
        "In each of seven settings, all nodes have the same share h of neighbours of their class. "
        "The first setting has the paper's assumptions, each other setting drops one of them. "
        "Scores are drawn, and the posterior given the scores and h is computed exactly. From this "
        "follow the best temperatures of all nodes, of each class, and of each shape of a "
        "neighbourhood. The shape is the degree, or the sorted counts of the other classes. "
        "Finally, linear classifiers are trained on nodes of the first setting and averaged over "
        "all permutations of the classes."
    ),
    reading=(
        "Under the paper's assumptions nothing is lost: the best temperature is v/Γ(h) for every "
        "class. If only the balance over other classes is dropped and classes remain exchangeable, "
        "all classes still share the best temperature at each h. But this temperature is not "
        "v/Γ(h), and the posterior is not a softmax of scaled scores. In these settings the shape "
        "of a neighbourhood is also informative, most where degrees vary (at h = 0.5). With a hub "
        "class or unequal means, classes need different temperatures at the same h. As h "
        "approaches 1, the losses vanish, except with varying degrees and unequal means. With more "
        "training nodes, trained classifiers become more symmetric, and averaging them over "
        "permutations lowers their log loss."
    ),
    draw=draw,
    figure_size=(10.5, 3.8),
    n_panels=3,
    findings=findings,
    nodes_unit="nodes at each h",
)
