"""Structure-free calibrators are plain scikit-learn estimators."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

import gnncal
import gnncal_lab
from gnncal.calibrators.registry import every_calibrator

CALIBRATORS = every_calibrator()

pytestmark = pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning")
QUICK = ("ts", "svs")  # the others in `make test-all`
STRUCTURE_FREE = [name for name, kind in CALIBRATORS.items() if not kind().needs_graph]
COLUMNS = "columns are classes, so labels must lie in 0..n_features-1; the check's do not"
EXPECTED_FAILURES = {
    "check_fit_score_takes_y": "arguments have the field's names, logits and labels",
    "check_estimators_overwrite_params": COLUMNS,
    "check_estimators_fit_returns_self": COLUMNS,
    "check_readonly_memmap_input": COLUMNS,
    "check_classifier_data_not_an_array": COLUMNS,
    "check_classifiers_train": COLUMNS,
    "check_classifiers_classes": "labels are 0..K-1; class names are encoded by the caller",
    "check_dtype_object": "what is not a number is an InputError, a ValueError, not a TypeError",
    "check_sample_weights_pandas_series": COLUMNS,
    "check_sample_weights_not_an_array": COLUMNS,
    "check_sample_weights_shape": COLUMNS,
    "check_sample_weights_not_overwritten": COLUMNS,
    "check_sample_weight_equivalence_on_dense_data": "it passes labels as y; test_sample_weight.py",
    "check_supervised_y_2d": "labels of shape (n, 1) are read as (n,) without a warning",
}
NO_WEIGHTS = {"check_sample_weights_list": "weights are refused, in one sentence"}
ONE_LABEL = {
    "check_classifiers_one_label": "predictions come from the logits, not from the labels seen"
}


def expected_failures(estimator):
    from_logits = estimator.preserves_predictions or isinstance(
        estimator, gnncal_lab.SplineCalibration
    )
    weights = {} if estimator.uses_sample_weight else NO_WEIGHTS
    return EXPECTED_FAILURES | weights | (ONE_LABEL if from_logits else {})


@parametrize_with_checks(
    [gnncal.get_calibrator(name) for name in QUICK], expected_failed_checks=expected_failures
)
def test_scikit_learn_checks_pass_or_fail_for_a_stated_reason(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [gnncal.get_calibrator(name) for name in STRUCTURE_FREE if name not in QUICK],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks_of_the_other_methods(estimator, check):
    check(estimator)


@pytest.fixture
def rows():
    generator = np.random.default_rng(0)
    logits = 3 * generator.normal(size=(300, 4))
    probs = gnncal.calibrators.softmax(logits / 2)
    labels = (generator.random((300, 1)) > np.cumsum(probs, axis=1)).sum(axis=1)
    return logits, labels


@pytest.mark.parametrize("name", STRUCTURE_FREE)
def test_fit_on_the_calibration_rows_alone_equals_fit_on_nodes(name, rows):
    logits, labels = rows
    nodes = np.arange(0, 300, 2)
    alone = gnncal.get_calibrator(name).fit(logits[nodes], labels[nodes])
    within = gnncal.get_calibrator(name).fit(logits, labels, calibration_nodes=nodes)
    np.testing.assert_array_equal(alone.predict_proba(logits), within.predict_proba(logits))


@pytest.mark.parametrize("name", STRUCTURE_FREE)
def test_cross_val_predict_gives_out_of_fold_probabilities(name, rows):
    logits, labels = rows
    calibrator = gnncal.get_calibrator(name)
    probs = cross_val_predict(calibrator, logits, labels, method="predict_proba", cv=3)
    assert probs.shape == logits.shape
    # Frequencies of 0 cost isotonic and histogram 20 nats and more: they improve the Brier score.
    steps = name in ("isotonic", "histogram")
    score = gnncal.metrics.METRICS["brier"] if steps else gnncal.metrics.METRICS["nll"]
    assert (
        score(labels, probs) < score(labels, gnncal.calibrators.softmax(logits))
        or name == "uncalibrated"
    )


@pytest.mark.parametrize("name", STRUCTURE_FREE)
def test_a_pipeline_can_end_in_a_calibrator(name, rows):
    logits, labels = rows
    halve = FunctionTransformer(lambda z: z / 2)
    pipeline = make_pipeline(halve, gnncal.get_calibrator(name)).fit(logits, labels)
    direct = gnncal.get_calibrator(name).fit(logits / 2, labels)
    np.testing.assert_array_equal(pipeline.predict_proba(logits), direct.predict_proba(logits / 2))


def test_parameters_survive_clone_and_set_params():
    calibrator = gnncal.HoTS(homophily="agreement", epsilon=0.1)
    assert clone(calibrator).get_params() == calibrator.get_params()
    assert calibrator.set_params(epsilon=0.2).epsilon == 0.2
    assert repr(gnncal.HoTS()) == "HoTS()"
    assert "agreement" in repr(calibrator)
