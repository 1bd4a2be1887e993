"""Proposition 2 and figure (b) on the page: noise pulls the exponent towards zero."""

from __future__ import annotations

from typing import Any

from gnncal.plotting.style import BLUE, GAP, SAND
from gnncal_lab.pages.csbm.experiment import Experiment, Finding, entry, with_interval
from gnncal_lab.pages.csbm.style import points
from gnncal_lab.simulation.experiments.attenuation import AttenuationRecord, attenuation


def draw(record: AttenuationRecord, axes: Any) -> None:
    """The fitted exponent against the noise in the log signal."""
    (ax,) = axes
    formula = "Var(u) / (Var(u) + τ²)"
    ax.plot(record.noise, record.formula, "--", color="black", linewidth=1, label=formula)
    for estimate, colour, label, shift in (
        (record.least_squares, BLUE, "least squares on log T (the proposition)", 0.0),
        (record.cross_entropy, GAP, "cross-entropy, labels at T = c / h̃", -0.004),
        (record.bayes, SAND, "cross-entropy, labels of the CSBM (finite degree)", 0.004),
    ):
        points(ax, record.noise + shift, estimate, colour, label)
    paper = list(record.paper), list(record.paper.values())
    ax.plot(*paper, "x", color="black", markersize=9, mew=2, label="the paper's")
    ax.set(xlabel="noise τ in ln(|h̃| + ε)", ylabel="fitted exponent α", ylim=(0, 1.12))
    ax.set_title("noise pulls the exponent towards zero")
    ax.legend(loc="upper right")


def findings(record: AttenuationRecord) -> list[Finding]:
    """Return the numbers of the table with the theory's or the paper's."""
    lines = []
    for i in (0, -1):
        tau = f"τ = {record.noise[i]:g}"
        paper = record.paper.get(float(record.noise[i]))
        reference = f"formula {record.formula[i]:.3f}" + (f", paper {paper}" if paper else "")
        lines += [
            Finding(
                f"α by least squares, {tau}",
                with_interval(entry(record.least_squares, i)),
                reference,
            ),
            Finding(
                f"α by cross-entropy, {tau}",
                with_interval(entry(record.cross_entropy, i)),
                reference,
            ),
        ]
    return [
        *lines,
        Finding(
            f"α on labels of the CSBM, τ = {record.noise[0]:g}",
            with_interval(entry(record.bayes, 0)),
            f"theory at τ = 0: {record.bayes_limit:.3f}, mean of d (h̃ + ε) / (1 + d h̃)",
        ),
        Finding("Var(u)", f"{record.signal_variance:.3f}", "paper's figure implies 0.056"),
    ]


EXPERIMENT = Experiment(
    name="attenuation",
    compute=attenuation,
    small={"n_nodes": 4000, "n_seeds": 3},
    title="Attenuation of the exponent",
    statement=(
        "Proposition 2: let ln T = a - u with u = ln(|h̃| + ε). If u is observed with noise of "
        "standard deviation τ, least squares finds the exponent α = Var(u)/(Var(u) + τ²) instead "
        "of 1. The paper's exponent falls from 1.009 without noise to 0.182 at τ = 0.5."
    ),
    procedure=(
        "Homophily is uniform on 0.5 to 0.9. The exponent is fitted in three ways: by least "
        "squares on ln T, by cross-entropy on labels drawn at T = c/(h̃ + ε), and by cross-entropy "
        "on labels of the CSBM."
    ),
    reading=(
        "The formula holds for least squares, and the paper's two values agree with it. The "
        "proposition does not cover the cross-entropy fit. Its exponent is close to the formula, "
        "and slightly lower at large noise. On labels of the CSBM, the exponent is about 0.9 even "
        "without noise. The reason is that the node's own features also count: with ten "
        "neighbours, T = σ²/((1 + d h̃)ρ₀) falls more slowly than 1/h̃."
    ),
    draw=draw,
    figure_size=(6.5, 4.0),
    n_panels=1,
    findings=findings,
)
