"""What a fitted calibrator still does after it was saved, and with labels known in advance."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.testing import assert_array_equal
from sklearn.base import clone

from gnncal.calibrators.base import Calibrator
from gnncal.files.saved_calibrators import load
from gnncal.testing.law import law
from gnncal.testing.tasks import small_task


@law()
def a_loaded_calibrator_predicts_the_same_and_can_be_fitted_again(calibrator: Calibrator) -> None:
    """What the class lists in ``learned`` is all that a prediction needs."""
    task = small_task()
    fitted = task.fit(clone(calibrator))
    expected = fitted.predict_proba(task.logits, task.graph)
    with TemporaryDirectory() as folder:
        file = Path(folder) / "calibrator.safetensors"
        fitted.save(file)
        loaded = load(file)
    assert_array_equal(loaded.predict_proba(task.logits, task.graph), expected)
    assert_array_equal(task.fit(loaded).predict_proba(task.logits, task.graph), expected)


@law()
def predictions_with_known_labels_are_the_most_probable_classes_with_them(
    calibrator: Calibrator,
) -> None:
    """``predict`` is the argmax of ``predict_proba`` with the same arguments."""
    task = small_task()
    fitted = task.fit(clone(calibrator))
    known = np.full(len(task.labels), -1)
    known[task.train_nodes] = task.labels[task.train_nodes]
    probs = fitted.predict_proba(task.logits, task.graph, known_labels=known)
    predictions = fitted.predict(task.logits, task.graph, known_labels=known)
    assert_array_equal(predictions, probs.argmax(axis=1))


SERVING = (
    a_loaded_calibrator_predicts_the_same_and_can_be_fitted_again,
    predictions_with_known_labels_are_the_most_probable_classes_with_them,
)
