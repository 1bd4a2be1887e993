"""The two approximations of HoTS on the page."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnncal.plotting.style import BLUE, GAP
from gnncal_lab.pages.csbm.experiment import Experiment, Finding, entry, with_interval
from gnncal_lab.pages.csbm.style import SERIES
from gnncal_lab.simulation.experiments.entropy import EntropyRecord, ReliabilityTable, entropy


def draw(record: EntropyRecord, axes: Any) -> None:
    """Error of the concentration proxy; the logistic-probit line; what it makes of q(h)."""
    proxy, line, reliability = axes
    for k, error, order, colour in zip(
        record.n_classes, record.error, record.order.value, SERIES, strict=False
    ):
        label = f"K = {k}: remainder (1 - e)$^{{{order:.2f}}}$"
        proxy.loglog(record.scale, error, color=colour, label=label)
    proxy.set(
        title="√(2K ln K (1 - e)) for |z|",
        xlabel="typical logit |z| / √K",
        ylabel="mean relative error",
        ylim=(1e-5, 2),
    )
    proxy.legend(loc="lower right", fontsize=7.5)
    match = record.match
    line.plot(match.x, match.exact, color=BLUE, label="logit Φ(x)")
    line.plot(match.x, match.linear, "--", color=GAP, label="π x / √3")
    line.set(title="logistic for normal", xlabel="x = Γ / √v", ylabel="logit")
    line.legend(loc="upper left")
    h = match.homophily
    reliability.plot(h, match.logit_q, color=BLUE, label="logit q(h), exact")
    reliability.plot(h, match.linear_q, "--", color=GAP, label="π Γ(h) / √(3v)")
    reliability.plot(h, match.large_degree_q, ":", color="black", label="π Γ₀ h̃ / √(3v)")
    reliability.set(
        title="T$_{match}$ = δ / logit q(h), K = 2", xlabel="homophily h", ylabel="logit q(h)"
    )
    reliability.legend(loc="upper left")


def findings(record: EntropyRecord) -> list[Finding]:
    """Return the numbers of the table with the theory's or the paper's."""
    one = int(np.argmin(np.abs(record.scale - 1.0)))
    orders = [
        Finding(
            f"order of the remainder in 1 - e, K = {k}",
            with_interval(entry(record.order, i), 2),
            "theory 1.5" if k == 2 else "theory 1",
        )
        for i, k in enumerate(record.n_classes)
    ]
    errors = ", ".join(f"{100 * error:.0f}%" for error in record.error[:, one])
    classes = ", ".join(str(k) for k in record.n_classes)
    match = record.match
    moderate = match.x <= 2.0
    off = np.abs(match.linear - match.exact)[moderate][1:] / match.exact[moderate][1:]
    return [
        *orders,
        Finding(f"relative error at |z|/√K = 1, K = {classes}", errors, ""),
        Finding("largest relative error of π x/√3, 0 < x ≤ 2", f"{100 * off.max():.0f}%", ""),
        *(
            Finding(
                f"NLL of {label}, K = 2",
                with_interval(match.nll[key], 4),
                f"ECE {100 * float(match.ece[key].value):.2f}%",
            )
            for key, label in (
                ("bayes", "the Bayes temperature"),
                ("ts", "one temperature"),
                ("match", "T_match, exact q(h)"),
                ("match, linear", "T_match, π Γ/√(3v)"),
            )
        ),
        *_reliability(record.reliability),
    ]


def _reliability(table: ReliabilityTable) -> list[Finding]:
    """q(h) as measured, with the formula and its two approximations."""
    return [
        Finding(
            f"q(h) at h = {h:g}, K = 2",
            with_interval(entry(table.measured, i), 4),
            f"Φ(Γ/√v) = {table.q[i]:.4f}; logit q = {table.logit_q[i]:.2f}, "
            f"π Γ/√(3v) = {table.linear[i]:.2f}, π Γ₀ h̃/√(3v) = {table.large_degree[i]:.2f}",
        )
        for i, h in enumerate(table.homophily)
    ]


EXPERIMENT = Experiment(
    name="entropy",
    compute=entropy,
    small={"n_directions": 100, "n_nodes": 2000, "n_seeds": 3},
    title="Approximations in HoTS",
    statement=(
        "HoTS uses two approximations. In the numerator, √(2K ln K (1 - e)) replaces the norm |z| "
        "of the centred logits, where e is the normalised entropy. The error is of order 1 - e, or "
        "(1 - e)^1.5 for two classes. In the denominator, π x/√3 replaces logit Φ(x). This turns "
        "T_match = δ/logit q(h) into a temperature proportional to 1/h̃. Here q(h) = Φ(Γ(h)/√v) is "
        "the probability that the highest of two scores is that of the node's class, and δ is the "
        "absolute difference of the two scores."
    ),
    procedure=(
        "The first approximation is tested on random directions of centred logits of increasing "
        "norm, for several K. The second is compared with the exact function. Each temperature is "
        "evaluated by its log loss on nodes of two classes. q(h) is measured from h = 0 to 1."
    ),
    reading=(
        "The orders of the error are confirmed. The relative error of the first approximation is "
        "9–19% for typical logits of 1, depending on K. For logits of 5 or 10, as in trained "
        "networks, the expansion does not hold. HoTS then uses the term as a monotone measure of "
        "certainty, as the paper says. The error of the line is at most 14% up to x = 2. T_match "
        "is calibrated at every h but gives all nodes of equal h the same confidence, so its log "
        "loss is higher than that of one temperature. HoTS uses only the form of T_match, not its "
        "values."
    ),
    draw=draw,
    figure_size=(10.5, 3.5),
    n_panels=3,
    findings=findings,
)
