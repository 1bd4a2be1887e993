"""Reasons why the calibration labels do not determine a fit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gnncal.core.arrays import FloatArray
from gnncal.nodes import Nodes

LARGEST_ERROR = 1.0  # standard error of ln T: beyond, T is unknown by more than a factor of e
SHOWN = 10  # classes that a message lists
SMALLEST_CURVATURE = 1e-9  # of the summed loss; keeps a standard error finite


def common_reasons(nodes: Nodes) -> tuple[str, ...]:
    """Reasons that hold for every method, found in the logits and labels alone."""
    logits = nodes.calibration_logits
    highest = logits.max(axis=1)
    if len(logits) == 1:
        return ("there is only one calibration node",)
    if (logits.min(axis=1) == highest).all():
        return ("the logits of each calibration node are equal for all classes",)
    if (logits[np.arange(len(logits)), nodes.labels] == highest).all():
        return (
            f"all {len(logits)} calibration nodes are predicted correctly, so they set no limit to "
            "the confidence, which can be far too high on other nodes",
        )
    return ()


def one_class_reasons(nodes: Nodes) -> tuple[str, ...]:
    """The reason that calibration nodes of a single class give, beside those of a method."""
    if (nodes.labels != nodes.labels[0]).any():
        return ()
    return (
        f"all {len(nodes.labels)} calibration nodes have class {nodes.labels[0]}, so they say "
        "nothing about nodes of another class",
    )


def undetermined_message(method: str, reasons: tuple[str, ...]) -> str:
    """Return the warning about a fit that the labels do not determine, with what to do."""
    return (
        f"{method} is not determined by the calibration labels: {'; '.join(reasons)}. Do not rely "
        "on its confidence on other nodes. Calibrate on more nodes, with mistakes among them, or "
        "keep the model's own probabilities ('uncalibrated')."
    )


def missing_classes_message(method: str, nodes_per_class: tuple[int, ...]) -> str | None:
    """Return the warning of a method that takes all probability from classes it has not seen."""
    missing = [c for c, count in enumerate(nodes_per_class) if count == 0]
    if not missing:
        return None
    return (
        f"no calibration node has {listed_classes(missing)}, so {method} pushes the probability of "
        f"{'it' if len(missing) == 1 else 'them'} towards zero on every node. Add calibration "
        "nodes of each class, or use a method that treats all classes alike, such as 'ts'."
    )


def listed_classes(classes: Sequence[int]) -> str:
    """Return "class 3", or the first of several."""
    if len(classes) == 1:
        return f"class {classes[0]}"
    more = f" and {len(classes) - SHOWN} more" if len(classes) > SHOWN else ""
    return f"classes {', '.join(map(str, classes[:SHOWN]))}{more}"


def temperature_error(hessian: FloatArray, slopes: FloatArray) -> float:
    """Root mean square over nodes of the standard error of ln T."""
    curvature, directions = np.linalg.eigh(hessian)
    variance = (slopes @ directions) ** 2 / np.maximum(curvature, SMALLEST_CURVATURE)
    return float(np.sqrt(variance.sum(axis=1).mean()))
