"""Make the pictures of README and docs: `make docs` runs this before it builds the site.

python docs/make_images.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import gnncal
from gnncal.plotting import ReliabilityDisplay, RiskCoverageDisplay, TemperatureDisplay
from gnncal_lab import HomophilySplitDisplay, neighbour_support
from gnncal_lab.bench.published import METHODS, per_backbone
from gnncal_lab.bench.results import Selection, read_results
from gnncal_lab.commands.block_model import _sample

DOCS = Path(__file__).parent
IMAGES = DOCS / "images"
RESOLUTION = 150  # dots an inch
OURS, OTHERS = "#d55e00", "#9aa5b1"  # safe for colour-blind readers


def gain() -> plt.Figure:
    """Reliability of the example before and after calibration."""
    task = gnncal.example()
    result = gnncal.calibrate(task.logits, task.labels, task.graph, **task.splits)
    raw = gnncal.calibrators.softmax(task.logits)
    figure, axes = plt.subplots(1, 2, figsize=(8, 4), layout="constrained")
    for ax, probs, name in zip(axes, (raw, result.probabilities), ("before", "after"), strict=True):
        ReliabilityDisplay.from_predictions(
            task.labels[task.test_nodes], probs[task.test_nodes], name=name, ax=ax
        )
    return figure


def paper() -> plt.Figure:
    """Every ECE of the paper that was run again, against ours."""
    records = read_results(DOCS.parent / "results", Selection(backbones=("gcn", "gat")))["paper"]
    figure, ax = plt.subplots(figsize=(5, 4.4), layout="constrained")
    for theirs, ours in METHODS.items():
        pairs = [
            (value.mean, 100 * records.values("ece", dataset, backbone, method).mean())
            for (dataset, backbone, method), value in per_backbone("ece").items()
            if method == ours and (dataset, backbone, method) in records.records
        ]
        if pairs:
            is_hots = theirs == "HoTS"
            label = theirs if is_hots else None if theirs != "Uncal" else "nine other methods"
            ax.scatter(
                *np.transpose(pairs),
                s=22 if is_hots else 12,
                color=OURS if is_hots else OTHERS,
                marker="D" if is_hots else "o",
                zorder=3 if is_hots else 2,
                label=label,
            )
    ends = (0.4, 50)
    ax.plot(ends, ends, color="black", linewidth=0.8, zorder=1)
    ax.set(xscale="log", yscale="log", xlim=ends, ylim=ends)
    ax.set(xlabel="ECE in the paper (%)", ylabel="ECE in our run (%)")
    ax.legend(frameon=False)
    ax.set_title("14 graphs, GCN and GAT, mean over 10 seeds", fontsize=10)
    return figure


def charts() -> dict[str, plt.Figure]:
    """The charts of the page on plotting, of a sampled graph in which homophily varies."""
    bundle, _ = _sample(6000, 0)
    logits, labels, graph, test = bundle.logits, bundle.labels, bundle.graph, bundle.test_nodes
    splits = {"calibration_nodes": bundle.calibration_nodes, "train_nodes": bundle.train_nodes}
    calibrated = gnncal.calibrate(logits, labels, graph, **splits)
    probs, raw = calibrated.probabilities[test], gnncal.calibrators.softmax(logits)[test]
    support = neighbour_support(logits, graph)[test]
    displays = {
        "plot_reliability": ReliabilityDisplay.from_predictions(labels[test], raw, name="raw"),
        "plot_positive_reliability": ReliabilityDisplay.from_predictions(
            labels[test], raw, positive=0, log=True, name="raw"
        ),
        "plot_risk_coverage": RiskCoverageDisplay.from_predictions(
            labels[test], probs, name="structural"
        ),
        "plot_homophily_split": HomophilySplitDisplay.from_predictions(
            labels[test], probs, support, before=raw
        ),
        "plot_temperature": TemperatureDisplay.from_estimator(
            calibrated.calibrator, logits, graph, nodes=test
        ),
    }
    return {name: display.figure_ for name, display in displays.items()}


def main() -> None:
    """Draw and save every picture."""
    plt.switch_backend("Agg")
    for name, figure in {"gain": gain(), "paper": paper(), **charts()}.items():
        figure.savefig(
            IMAGES / f"{name}.png", dpi=RESOLUTION, facecolor="white", metadata={"Software": None}
        )


if __name__ == "__main__":
    main()
