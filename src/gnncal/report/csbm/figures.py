"""Pictures of the block-model experiments: one function a record, no statistics in here."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Any

import numpy as np

from gnncal.core.errors import require
from gnncal.report.csbm.style import (
    BLUE,
    SAND,
    SERIES,
    STYLE,
    band,
    mark_signal,
    parts,
    plain_ticks,
    points,
)
from gnncal.report.figures import BAR, GAP, GREY
from gnncal.simulation.estimate import Estimate
from gnncal.simulation.experiments.attenuation import AttenuationRecord
from gnncal.simulation.experiments.entropy import EntropyRecord
from gnncal.simulation.experiments.hots import HotsRecord
from gnncal.simulation.experiments.kl import KlRecord
from gnncal.simulation.experiments.leak import LeakRecord
from gnncal.simulation.experiments.necessity import NecessityRecord
from gnncal.simulation.experiments.posterior import PosteriorRecord
from gnncal.simulation.experiments.sweep import SweepRecord


def render(name: str, record: Any, *, image_format: str) -> bytes:
    """The figure of an experiment's record as ``"png"`` or ``"svg"``."""
    matplotlib = require("matplotlib", extra="plot", purpose="drawing an experiment")
    figures = require("matplotlib.figure", extra="plot", purpose="drawing an experiment")
    draw, size, n_panels = FIGURES[name]
    payload = BytesIO()
    with matplotlib.rc_context(STYLE):
        figure = figures.Figure(figsize=size, layout="constrained")
        draw(record, figure.subplots(1, n_panels, squeeze=False)[0])
        metadata = {"Date": None} if image_format == "svg" else {}
        figure.savefig(payload, format=image_format, dpi=120, metadata=metadata)
    return payload.getvalue()


def draw_posterior(record: PosteriorRecord, axes: Any) -> None:
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
    points(residual, h, off, BLUE, "with 95 % interval")
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


def draw_necessity(record: NecessityRecord, axes: Any) -> None:
    """The unavoidable gap against the spread of homophily, and how far the formula carries."""
    gap, ratio = axes
    points(gap, record.spread, record.gap, BLUE, "best temperature from the logits alone")
    gap.plot(record.spread, record.formula.value, "--", color=GAP, label="variance formula")
    one = record.one_temperature_gap.value
    gap.plot(record.spread, one, color=GREY, label="one temperature for all (TS)")
    gap.set(
        title="cross-entropy lost by ignoring homophily",
        xlabel=f"spread: h = {record.centre:g} ± spread",
        ylabel="nats a node",
    )
    gap.legend(loc="upper left")
    points(ratio, record.spread, record.ratio, BLUE, "formula / exact gap")
    ratio.axhline(1, color=GAP, linestyle="--")
    ratio.set(
        title="where the quadratic formula holds",
        xlabel=f"spread: h = {record.centre:g} ± spread",
        ylabel="formula / exact gap",
        ylim=(0, 1.1),
    )


def draw_sweep(record: SweepRecord, axes: Any) -> None:
    """Fitted temperature over homophily: template scores, and a trained network's logits."""
    template, learned = axes
    for ax, fitted, height in ((template, record.template, 1.2), (learned, record.learned, 3.2)):
        mark_signal(ax, record.zero_signal, record.class_random)
        band(ax, record.homophily, fitted, height)
        ax.set(xlabel="homophily h of the graph", xlim=(0, 1), ylim=(0, height))
    template.plot(record.fine, record.bayes, color=GAP, label="T$_{Bayes}$(h)")
    trend = "trend c / h̃"
    template.plot(record.fine, record.trend, "--", color="black", linewidth=1, label=trend)
    r, low, high = (float(x) for x in parts(record.template.pearson))
    template.set(title=f"class-template scores: r = {r:.3f} [{low:.3f}, {high:.3f}]")
    template.set_ylabel("fitted temperature")
    r, low, high = (float(x) for x in parts(record.learned.pearson))
    learned.set(title=f"trained one-layer GCN: r = {r:.3f} [{low:.3f}, {high:.3f}]")
    learned.axhline(1, color=GREY, linewidth=0.8)
    template.legend(loc="upper right")
    learned.legend(loc="upper right")


def draw_attenuation(record: AttenuationRecord, axes: Any) -> None:
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


def draw_entropy(record: EntropyRecord, axes: Any) -> None:
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


def draw_kl(record: KlRecord, axes: Any) -> None:
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


def draw_hots(record: HotsRecord, axes: Any) -> None:
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


def draw_leak(record: LeakRecord, axes: Any) -> None:
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
    cost.set(title="test NLL against TS", xlabel="nats a node")


Draw = Callable[[Any, Any], None]
FIGURES: dict[str, tuple[Draw, tuple[float, float], int]] = {  # size in inches, panels
    "posterior": (draw_posterior, (10.5, 3.5), 3),
    "necessity": (draw_necessity, (9.0, 3.5), 2),
    "sweep": (draw_sweep, (9.0, 3.7), 2),
    "attenuation": (draw_attenuation, (6.5, 4.0), 1),
    "entropy": (draw_entropy, (10.5, 3.5), 3),
    "kl": (draw_kl, (10.5, 3.5), 3),
    "hots": (draw_hots, (10.5, 3.7), 3),
    "leak": (draw_leak, (10.5, 3.2), 4),
}
