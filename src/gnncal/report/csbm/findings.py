"""What each block-model experiment found, in numbers beside the theory's or the paper's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gnncal.simulation.estimate import Estimate
from gnncal.simulation.experiments.attenuation import AttenuationRecord
from gnncal.simulation.experiments.entropy import EntropyRecord
from gnncal.simulation.experiments.hots import HotsRecord
from gnncal.simulation.experiments.kl import KlRecord
from gnncal.simulation.experiments.leak import LeakRecord
from gnncal.simulation.experiments.necessity import LOCAL, NecessityRecord
from gnncal.simulation.experiments.posterior import PosteriorRecord
from gnncal.simulation.experiments.sweep import SweepRecord


@dataclass(frozen=True)
class Finding:
    """One line of a table: a quantity, ours with its 95 % interval, and what it should be."""

    quantity: str
    ours: str
    reference: str  # "theory ..." or "paper ...", empty where there is none


def findings(name: str, record: Any) -> list[Finding]:
    """The findings of an experiment's record."""
    return FINDINGS[name](record)


def constants(name: str, record: Any) -> str:
    """The model and sizes of an experiment, as text."""
    parts = []
    model = getattr(record, "model", None) or getattr(getattr(record, "match", None), "model", None)
    if model is not None:
        kind = "one-hot" if model.means == "one-hot" else "simplex"
        parts.append(
            f"K = {model.n_classes}, mean degree {model.mean_degree:g}, {kind} means of length "
            f"{model.separation:g}, σ = {model.sigma:g}, {model.n_features} features"
        )
    if name == "kl":
        parts.append(f"h = {record.homophily:g}, {record.n_centres} centre nodes a graph")
    if hasattr(record, "n_nodes"):
        unit = "nodes a group" if name == "posterior" else "nodes"
        parts.append(f"{record.n_nodes:,} {unit}")
    parts.append(f"{record.n_seeds} seeds")
    return "; ".join(parts)


def text(estimate: Estimate, digits: int = 3, *, scale: float = 1.0, unit: str = "") -> str:
    """A number with its interval."""
    if np.isnan(estimate.value):
        return "too few values to tell"
    value, low, high = (scale * float(x) for x in (estimate.value, estimate.low, estimate.high))
    return f"{value:.{digits}f}{unit} [{low:.{digits}f}, {high:.{digits}f}]"


def _entry(estimate: Estimate, position: int) -> Estimate:
    return Estimate(estimate.value[position], estimate.low[position], estimate.high[position])


def _posterior(record: PosteriorRecord) -> list[Finding]:
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
            f"{100 * ece.mean():.2f} %",
            f"by chance {100 * floor.mean():.2f} %",
        ),
        Finding(
            "seeds at which calibration is rejected at 5 %",
            f"{rejected} of {len(record.ece)}",
            f"theory {0.05 * len(record.ece):.2g}",
        ),
        Finding(
            "intervals of 1/T that hold Γ(h)/v",
            f"{100 * record.coverage:.1f} %",
            "theory 95 %",
        ),
        Finding(
            f"1/T where it differs most, h = {record.homophily[worst]:g}",
            text(_entry(record.fitted, int(worst))),
            f"theory {record.inverse_temperature[worst]:.3f}",
        ),
        Finding(
            f"1/T at {where}" + ", reversed scores" * bool(truth < 0),
            text(_entry(record.fitted, lowest)),
            f"theory {truth:.3f}",
        ),
        Finding(
            f"NLL that a positive temperature loses at {where}",
            f"{lost:.4f} nats",
            "theory: more than 0" if truth < 0 else "theory 0",
        ),
    ]


def _necessity(record: NecessityRecord) -> list[Finding]:
    order = np.argsort(record.spread)
    constant = order[record.spread[order] == 0][:1]
    varied = order[record.spread[order] > 0]
    small = varied[record.spread[varied] <= LOCAL]
    return [
        *(
            Finding("gap when h does not vary", f"{record.gap.value[i]:.1e} nats", "theory 0")
            for i in constant
        ),
        Finding("exponent of the gap in a small spread", text(record.local_exponent), "theory 2"),
        *(
            Finding(
                f"gap at h = {record.centre:g} ± {record.spread[i]:g}",
                text(_entry(record.gap, i), 4) + " nats",
                f"formula {float(record.formula.value[i]):.4f}",
            )
            for i in dict.fromkeys([*varied[:1], *small[-1:], *varied[-1:]])
        ),
    ]


def _sweep(record: SweepRecord) -> list[Finding]:
    paper = f"paper {record.paper_pearson}"
    stuck = record.template.at_bound[-1], record.learned.at_bound[-1]
    return [
        Finding("Pearson r of T and h, template scores", text(record.template.pearson), paper),
        Finding("Pearson r, trained one-layer GCN", text(record.learned.pearson), paper),
        Finding("Pearson r of T_Bayes(h) itself", f"{record.bayes_pearson:.3f}", paper),
        Finding(
            "h₀, where Γ changes sign",
            f"{record.zero_signal:.2f}",
            "release's constants 0.12",
        ),
        Finding(
            "fits at the bound of T at the largest h (no calibration error left)",
            f"template {100 * stuck[0]:.0f} %, GCN {100 * stuck[1]:.0f} %",
            "",
        ),
    ]


def _attenuation(record: AttenuationRecord) -> list[Finding]:
    lines = []
    for i in (0, -1):
        tau = f"τ = {record.noise[i]:g}"
        paper = record.paper.get(float(record.noise[i]))
        reference = f"formula {record.formula[i]:.3f}" + (f", paper {paper}" if paper else "")
        lines += [
            Finding(f"least squares, {tau}", text(_entry(record.least_squares, i)), reference),
            Finding(f"cross-entropy, {tau}", text(_entry(record.cross_entropy, i)), reference),
        ]
    return [
        *lines,
        Finding(
            f"cross-entropy on the CSBM's own labels, τ = {record.noise[0]:g}",
            text(_entry(record.bayes, 0)),
            f"theory at τ = 0: {record.bayes_limit:.3f}, mean of d (h̃ + ε) / (1 + d h̃)",
        ),
        Finding("Var(u)", f"{record.signal_variance:.3f}", "paper's figure implies 0.056"),
    ]


def _entropy(record: EntropyRecord) -> list[Finding]:
    one = int(np.argmin(np.abs(record.scale - 1.0)))
    orders = [
        Finding(
            f"order of the remainder in 1 - e, K = {k}",
            text(_entry(record.order, i), 2),
            "theory 1.5" if k == 2 else "theory 1",
        )
        for i, k in enumerate(record.n_classes)
    ]
    errors = ", ".join(f"{100 * error:.0f} %" for error in record.error[:, one])
    classes = ", ".join(str(k) for k in record.n_classes)
    match = record.match
    moderate = match.x <= 2.0
    off = np.abs(match.linear - match.exact)[moderate][1:] / match.exact[moderate][1:]
    return [
        *orders,
        Finding(f"relative error at |z|/√K = 1, K = {classes}", errors, ""),
        Finding("largest relative error of π x/√3, 0 < x ≤ 2", f"{100 * off.max():.0f} %", ""),
        *(
            Finding(
                f"NLL of {label}, K = 2",
                text(match.nll[key], 4),
                f"ECE {100 * float(match.ece[key].value):.2f} %",
            )
            for key, label in (
                ("bayes", "the Bayes temperature"),
                ("ts", "one temperature"),
                ("match", "T_match, exact q(h)"),
                ("match, linear", "T_match, π Γ/√(3v)"),
            )
        ),
    ]


def _kl(record: KlRecord) -> list[Finding]:
    paper, slopes = record.paper_slopes, record.slopes
    return [
        Finding("slope in n", text(slopes["n"], 2), f"theory -1, paper {paper['n']}"),
        Finding("slope in d", text(slopes["d"], 2), f"theory 2, paper {paper['d']}"),
        Finding(
            "slope in d, shared neighbours only",
            text(slopes["d, neighbours only"], 2),
            f"paper {paper['d']}",
        ),
        Finding("slope in K, rank K - 1", text(slopes["K"], 2), "theory 2"),
        Finding("slope in K ≥ 8, rank K - 1", text(slopes["K >= 8"], 2), "theory 2"),
        Finding("slope in K, rank K", text(slopes["K, rank K"], 2), f"paper {paper['K']}"),
        Finding(
            "slope in K ≥ 8, rank K", text(slopes["K >= 8, rank K"], 2), f"paper {paper['K >= 8']}"
        ),
        Finding(
            "slope in K at fixed n/K",
            text(slopes["per class"], 2),
            "1 if quadratic, 0 if linear in K",
        ),
        Finding("centres left out as singular", str(record.n_singular), ""),
    ]


def _hots(record: HotsRecord) -> list[Finding]:
    lines = []
    for world_name, world in record.worlds.items():
        gap = float(world.nll_ts.value - world.nll_best.value)
        lines += [
            Finding(
                f"{world_name}: {name}",
                text(closed, 0, scale=100, unit=" %"),
                f"of {gap:.3f} nats; |conf - acc| by h "
                f"{100 * float(world.gap_by_homophily[name].value):.1f} % "
                f"(TS {100 * float(world.gap_by_homophily['ts'].value):.1f})",
            )
            for name, closed in world.closed.items()
        ]
    return lines


def _leak(record: LeakRecord) -> list[Finding]:
    lines = []
    for name, seen in record.estimates.items():
        val, test = seen["val"], seen["test"]
        lines.append(
            Finding(
                f"{name}: correlation with h, calibration nodes",
                text(val.correlation, 2),
                f"test nodes {text(test.correlation, 2)}",
            )
        )
    for name, difference in record.nll_against_ts.items():
        ece = record.losses[name]["test"].ece
        lines.append(
            Finding(
                f"{name}: test NLL against TS",
                f"{text(difference, 3)} nats",
                f"test ECE {text(ece, 1, scale=100, unit=' %')}",
            )
        )
    ts = record.losses["ts"]["test"]
    lines.append(
        Finding("ts: test NLL", text(ts.nll), f"test ECE {text(ts.ece, 1, scale=100, unit=' %')}")
    )
    return lines


FINDINGS: dict[str, Callable[[Any], list[Finding]]] = {
    "posterior": _posterior,
    "necessity": _necessity,
    "sweep": _sweep,
    "attenuation": _attenuation,
    "entropy": _entropy,
    "kl": _kl,
    "hots": _hots,
    "leak": _leak,
}
