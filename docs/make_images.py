"""Make the pictures of docs/plotting.md from the bundle that `gnncal block-model` writes.

gnncal block-model --out demo-output
python docs/make_images.py demo-output/bundle.npz
"""

from __future__ import annotations

import sys
from pathlib import Path

import gnncal
from gnncal.inspection import neighbour_support
from gnncal.plotting import (
    HomophilySplitDisplay,
    PositiveReliabilityDisplay,
    ReliabilityDisplay,
    RiskCoverageDisplay,
    TemperatureDisplay,
)

IMAGES = Path(__file__).parent / "images"
RESOLUTION = 130  # dots an inch


def main(path: str) -> None:
    """Calibrate a bundle with the structural law and draw every chart."""
    bundle = gnncal.read_bundle(path)
    logits, labels, graph, test = bundle.logits, bundle.labels, bundle.graph, bundle.test_nodes
    splits = {"nodes": bundle.nodes, "train_nodes": bundle.train_nodes}
    calibrated = gnncal.calibrate(logits, labels, graph, method="structural", **splits)
    probs, raw = calibrated.probabilities[test], gnncal.softmax(logits)[test]
    support = neighbour_support(logits, graph)[test]
    displays = {
        "plot_reliability": ReliabilityDisplay.from_predictions(labels[test], raw, name="raw"),
        "plot_positive_reliability": PositiveReliabilityDisplay.from_predictions(
            labels[test], raw, positive=0, name="raw"
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
    for name, display in displays.items():
        display.figure_.savefig(IMAGES / f"{name}.png", dpi=RESOLUTION)


if __name__ == "__main__":
    main(sys.argv[1])
