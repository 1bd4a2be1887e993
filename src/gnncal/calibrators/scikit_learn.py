"""Sentences that scikit-learn's checks read, for calibrators that pass them: those without a graph.

Rows are then samples and columns are features. Everywhere else they are nodes and classes.
"""

from __future__ import annotations

from typing import Any

from gnncal.data.errors import InputError


def check_columns(logits: Any) -> None:
    """Refuse logits without columns."""
    shape: tuple[int, ...] = getattr(logits, "shape", ())
    if len(shape) == 2 and shape[1] == 0:
        raise InputError(
            f"logits has 0 feature(s) (shape={shape}) while a minimum of 2 is required: one column "
            "for each class."
        )


def other_classes_message(calibrator: Any, n_columns: int) -> str:
    """Say that the logits do not have one column for each class of the fit."""
    name, n_classes = type(calibrator).__name__, len(calibrator.classes_)
    if calibrator.needs_graph:
        return (
            f"logits has {n_columns} columns, but this {name} was fitted to {n_classes} classes; "
            "pass one column for each class."
        )
    return (
        f"X has {n_columns} features, but {name} is expecting {n_classes} features as input: it "
        f"was fitted to {n_classes} classes, and logits have one column for each."
    )
