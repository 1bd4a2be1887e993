"""The near independence of neighbours on the page: a KL of order K^2 d^2 / n."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnncal.plotting.style import BLUE, GREY
from gnncal_lab.pages.csbm.experiment import Experiment, Finding, with_interval
from gnncal_lab.pages.csbm.style import SERIES, plain_ticks, points
from gnncal_lab.simulation.estimate import Estimate
from gnncal_lab.simulation.experiments.kl import KlRecord, kl


def draw(record: KlRecord, axes: Any) -> None:
    """The collapse on K^2 d^2 / n, the slopes, and quadratic against linear in K."""
    collapse, slopes, classes = axes
    curves = (("n", record.by_n), ("d", record.by_d), ("K", record.by_k))
    for (name, curve), colour in zip(curves, SERIES, strict=False):
        points(collapse, curve.bound, curve.kl, colour, f"{name} varies")
    everything = np.concatenate([curve.bound for _, curve in curves])
    span = np.array([everything.min(), everything.max()])
    anchor = record.by_d.kl.value[-1] / record.by_d.bound[-1]
    collapse.plot(span, anchor * span, "--", color="black", linewidth=1, label="slope 1")
    collapse.set(xscale="log", yscale="log", xlabel="K² d² / n", ylabel="mean KL, nats")
    collapse.xaxis.set_minor_formatter("")
    collapse.set_title("residual KL")
    collapse.legend(loc="upper left")
    _draw_slopes(record, slopes)
    curve = record.per_class
    points(classes, curve.values, curve.kl, BLUE, "measured")
    for power, text, style in ((1.0, "law K² d² / n", "--"), (0.0, "law K d² / n", ":")):
        law = curve.kl.value[0] * (curve.values / curve.values[0]) ** power
        classes.plot(curve.values, law, style, color="black", linewidth=1, label=text)
    classes.set(xscale="log", yscale="log", xlabel="classes K, at fixed n / K")
    plain_ticks(classes, curve)
    classes.set_title("quadratic or linear in K?")
    classes.legend(loc="upper left")


def _draw_slopes(record: KlRecord, ax: Any) -> None:
    paper = record.paper_slopes
    lines = {  # our slope, and the paper's figure that it may be compared with
        "n": paper["n"],
        "d": paper["d"],
        "d, neighbours only": paper["d"],
        "K": paper["K"],
        "K, rank K": paper["K"],
        "K >= 8": paper["K >= 8"],
        "K >= 8, rank K": paper["K >= 8"],
    }
    rows = np.arange(len(lines))[::-1]
    values = Estimate.stack([record.slopes[name] for name in lines])
    error = np.stack([values.value - values.low, values.high - values.value])
    ax.errorbar(values.value, rows, xerr=error, fmt="o", color=BLUE, markersize=4, label="ours")
    ax.plot(list(lines.values()), rows, "x", color="black", mew=1.5, label="the paper's")
    for value in (-1, 2):
        ax.axvline(value, color=GREY, linewidth=0.8, zorder=0)
    ax.set_yticks(rows, [name.replace(">=", "≥") for name in lines])
    ax.set(title="slope in log-log scale", xlabel="exponent", xlim=(-1.6, 2.9))
    ax.legend(loc="lower center", bbox_to_anchor=(0.36, 0.3))


def findings(record: KlRecord) -> list[Finding]:
    """Return the numbers of the table with the theory's or the paper's."""
    paper, slopes = record.paper_slopes, record.slopes
    return [
        Finding("slope in n", with_interval(slopes["n"], 2), f"theory -1, paper {paper['n']}"),
        Finding("slope in d", with_interval(slopes["d"], 2), f"theory 2, paper {paper['d']}"),
        Finding(
            "slope in d, shared neighbours only",
            with_interval(slopes["d, neighbours only"], 2),
            f"paper {paper['d']}",
        ),
        Finding("slope in K, rank K - 1", with_interval(slopes["K"], 2), "theory 2"),
        Finding("slope in K ≥ 8, rank K - 1", with_interval(slopes["K >= 8"], 2), "theory 2"),
        Finding("slope in K, rank K", with_interval(slopes["K, rank K"], 2), f"paper {paper['K']}"),
        Finding(
            "slope in K ≥ 8, rank K",
            with_interval(slopes["K >= 8, rank K"], 2),
            f"paper {paper['K >= 8']}",
        ),
        Finding(
            "slope in K at fixed n/K",
            with_interval(slopes["per class"], 2),
            "1 if quadratic, 0 if linear in K",
        ),
        Finding("nodes left out because I + R is singular", str(record.n_singular), ""),
    ]


EXPERIMENT = Experiment(
    name="kl",
    compute=kl,
    small={
        "n_sweep": (2000, 4000, 8000),
        "d_sweep": (6.0, 12.0, 24.0),
        "k_sweep": (3, 6, 8, 12),
        "per_class_sweep": (3, 6, 12),
        "n_nodes": 4000,
        "per_class": 500,
        "n_centres": 200,
        "n_seeds": 3,
    },
    title="Near independence of neighbours",
    statement=(
        "Given a node, the logits of two of its neighbours depend on each other only through nodes "
        "that both neighbours aggregate. The KL divergence between their joint Gaussian "
        "distribution and independence is of order K²d²/n. The paper measures slopes of -1.01 in "
        "n, 2.08 in d, 1.81 in K, and 1.97 for K ≥ 8."
    ),
    procedure=(
        "The graphs are undirected. For sampled nodes, the matrix R of shared inputs is computed "
        "exactly: S_jj'/√(d_j d_j') with the true degrees, so that I + R is a correlation matrix. "
        "The KL divergence is -(K - 1)/2 ln det(I + R), because centred logits have rank K - 1."
    ),
    reading=(
        "All three series lie on one line of slope 1. With rank K - 1, the slope in K is 2 over "
        "the whole range. The paper's 1.81 is close to our slope for logits of rank K. If the "
        "number of nodes per class is fixed, the KL divergence grows in proportion to K, as a law "
        "in K² predicts. The slope in d is slightly below 2: two linked neighbours share their own "
        "two features, which adds a term proportional to d. If only shared neighbours are counted, "
        "the slope in d is 2, which is closer to the paper's 2.08."
    ),
    draw=draw,
    figure_size=(10.5, 3.5),
    n_panels=3,
    findings=findings,
)
