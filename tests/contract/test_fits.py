"""What every fit reports and achieves."""

import numpy as np
import pytest
from hypothesis import given

import gnncal
from tests.contract.cases import CASES, converges, does_not_stop_early, every, method_of
from tests.contract.exceptions import EXCEPTIONS
from tests.strategies import tasks

pytestmark = pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning")


def test_every_exception_names_a_calibrator_that_there_is():
    known = {*CASES, *map(method_of, CASES)}
    assert {name for law in EXCEPTIONS.values() for name in law} <= known


@every()
@given(task=tasks(kinds=("plain",)))
def test_the_report_has_the_loss_and_the_classes_of_the_calibration_nodes(make, task):
    calibrator = task.fit(make())
    report = calibrator.fit_report_
    probs = calibrator.predict_proba(task.logits, task.graph)[task.nodes]
    loss = gnncal.metrics.negative_log_likelihood(task.labels[task.nodes], probs)
    assert report.loss_after == pytest.approx(loss, abs=1e-6)
    assert sum(report.nodes_per_class) == len(task.nodes)


@every("the calibration loss never rises", which=converges)
@given(task=tasks(kinds=("plain",)))
def test_the_calibration_loss_never_rises_when_converged(make, task):
    report = task.fit(make()).fit_report_
    if not report.bounds_hit:
        assert report.loss_after <= report.loss_before + 1e-6


@every("a planted temperature is recovered", which=does_not_stop_early)
def test_a_planted_temperature_is_recovered(make):
    calibrator = make()
    if calibrator.needs_torch:
        calibrator.set_params(max_epochs=200)
    generator = np.random.default_rng(4)
    n, planted = 6000, 2.5
    logits = 2 * generator.normal(size=(n, 4))
    truth = gnncal.softmax(logits / planted)
    labels = (generator.random((n, 1)) > np.cumsum(truth, axis=1)[:, :-1]).sum(axis=1)
    graph = gnncal.Graph(
        generator.integers(0, n, size=(2, 5 * n)), n, generator.normal(size=(n, 3))
    )
    nodes, train = np.arange(3000), np.arange(3000, 3500)
    calibrator.fit(logits, labels, graph, nodes=nodes, train_nodes=train)
    probs = calibrator.predict_proba(logits, graph)[3500:]
    best = gnncal.metrics.negative_log_likelihood(labels[3500:], truth[3500:])
    raw = gnncal.metrics.negative_log_likelihood(labels[3500:], gnncal.softmax(logits[3500:]))
    found = gnncal.metrics.negative_log_likelihood(labels[3500:], probs)
    assert found - best < 0.02 * (raw - best)
