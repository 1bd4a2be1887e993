"""Theorem 1 on the page: the inverse temperature is Gamma(h) / v, sign included."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnncal.plotting.style import BLUE, GAP
from gnncal_lab.pages.csbm.experiment import Experiment, Finding, entry, with_interval
from gnncal_lab.pages.csbm.style import mark_signal, points
from gnncal_lab.simulation.estimate import Estimate
from gnncal_lab.simulation.experiments.posterior import PosteriorRecord, posterior


def draw(record: PosteriorRecord, axes: Any) -> None:
    """Inverse temperature over homophily, its residual, and what the wrong sign costs."""
    law, residual, reach = axes
    h = record.homophily
    for ax in axes:
        mark_signal(ax, record.zero_signal, 1.0 / record.model.n_classes)
        ax.set(xlabel="local homophily h", xlim=(-0.02, 1.02))
    law.plot(h, record.inverse_temperature, color=GAP, label="theorem: Γ(h) / v")
    points(law, h, record.fitted, BLUE, "fitted to the labels")
    law.axhline(0, color="black", linewidth=0.6)
    law.set(title="inverse temperature", ylabel="1 / T, signed")
    law.legend(loc="upper left", bbox_to_anchor=(0.12, 1.0))
    off = Estimate(
        record.fitted.value - record.inverse_temperature,
        record.fitted.low - record.inverse_temperature,
        record.fitted.high - record.inverse_temperature,
    )
    points(residual, h, off, BLUE, "with 95% interval")
    residual.axhline(0, color=GAP)
    residual.set(title="fitted minus theorem", ylabel="difference of 1 / T")
    residual.legend(loc="upper left", bbox_to_anchor=(0.12, 1.0))
    reach.plot(h, record.accuracy, color=BLUE, marker="o", markersize=4, label="Bayes posterior")
    reach.plot(
        h,
        record.accuracy_of_scores,
        color=GAP,
        linestyle="--",
        label="arg max of the scores\n(any positive temperature)",
    )
    reach.set(title="accuracy", ylabel="share of nodes", ylim=(0, 1.02))
    reach.legend(loc="lower right")


def findings(record: PosteriorRecord) -> list[Finding]:
    """Return the numbers of the table with the theory's or the paper's."""
    worst = np.argmax(np.abs(record.fitted.value - record.inverse_temperature))
    ece = np.array([e.value for e in record.ece])
    floor = np.array([e.floor for e in record.ece])
    rejected = sum(e.p_value < 0.05 for e in record.ece)
    lowest = int(np.argmin(record.homophily))
    where, truth = f"h = {record.homophily[lowest]:g}", record.inverse_temperature[lowest]
    lost = record.nll_positive[lowest] - record.nll[lowest]
    return [
        Finding(
            "ECE of the exact posterior, mean over seeds",
            f"{100 * ece.mean():.2f}%",
            f"noise floor {100 * floor.mean():.2f}%",
        ),
        Finding(
            "seeds at which calibration is rejected at 5%",
            f"{rejected} of {len(record.ece)}",
            f"theory {0.05 * len(record.ece):.2g}",
        ),
        Finding(
            "intervals of 1/T that contain Γ(h)/v",
            f"{100 * record.coverage:.1f}%",
            "theory 95%",
        ),
        Finding(
            f"1/T where it differs most from theory, h = {record.homophily[worst]:g}",
            with_interval(entry(record.fitted, int(worst))),
            f"theory {record.inverse_temperature[worst]:.3f}",
        ),
        Finding(
            f"1/T at {where}" + ", reversed scores" * bool(truth < 0),
            with_interval(entry(record.fitted, lowest)),
            f"theory {truth:.3f}",
        ),
        Finding(
            f"NLL lost by a positive temperature at {where}",
            f"{lost:.4f} nats",
            "theory: more than 0" if truth < 0 else "theory 0",
        ),
    ]


EXPERIMENT = Experiment(
    name="posterior",
    compute=posterior,
    small={"n_nodes": 1000, "n_seeds": 3},
    title="Exact posterior",
    statement=(
        "Theorem 1: given the scores s and the homophily h, the class probabilities are "
        "softmax(Γ(h) s / v). Homophily enters only through the inverse temperature Γ(h)/v. If "
        "Γ(h) < 0, the order of the scores is reversed, which no positive temperature can do."
    ),
    procedure=(
        "Nodes are drawn in groups of equal h from the population-concentration model, in which "
        "every neighbourhood has its expected size and composition. In each group, temperature "
        "scaling is fitted to the labels with scores s and with -s. The better fit is kept."
    ),
    reading=(
        "The fitted inverse temperature equals Γ(h)/v on both sides of h₀. Its intervals contain "
        "the theoretical value as often as they should. The calibration error of the posterior is "
        "at the noise floor. Below h₀, the highest score is right less often than a random guess, "
        "and the posterior more often. The class means are half as far apart as in the release. "
        "Otherwise there would be no mistakes at high homophily."
    ),
    draw=draw,
    figure_size=(10.5, 3.5),
    n_panels=3,
    findings=findings,
    nodes_unit="nodes in each group",
)
