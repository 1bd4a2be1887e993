"""What a fitted calibrator still does after it was saved, and with labels known in advance."""

import numpy as np
import pytest

import gnncal
from tests.contract.cases import every
from tests.strategies import small_task

pytestmark = pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning")


@every()
def test_a_loaded_calibrator_predicts_the_same_and_can_be_fitted_again(make, tmp_path):
    task = small_task()
    fitted = task.fit(make())
    expected = fitted.predict_proba(task.logits, task.graph)
    fitted.save(tmp_path / "calibrator")
    loaded = gnncal.load(tmp_path / "calibrator")
    np.testing.assert_array_equal(loaded.predict_proba(task.logits, task.graph), expected)
    again = task.fit(loaded).predict_proba(task.logits, task.graph)
    np.testing.assert_array_equal(again, expected)


@every()
def test_predictions_with_known_labels_are_the_most_probable_classes_with_them(make):
    task = small_task()
    fitted = task.fit(make())
    known = np.full(len(task.labels), -1)
    known[task.train_nodes] = task.labels[task.train_nodes]
    probs = fitted.predict_proba(task.logits, task.graph, known_labels=known)
    np.testing.assert_array_equal(
        fitted.predict(task.logits, task.graph, known_labels=known), probs.argmax(axis=1)
    )
