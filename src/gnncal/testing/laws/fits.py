"""What every fit reports and achieves."""

from __future__ import annotations

import numpy as np
from sklearn.base import clone

from gnncal.calibrators.base import Calibrator
from gnncal.core.graph import Graph
from gnncal.metrics.table import METRICS
from gnncal.probability import softmax
from gnncal.testing.law import law
from gnncal.testing.tasks import Family, Task

PLANTED = 2.5  # the temperature to be found


def _converges(calibrator: Calibrator) -> bool:
    return getattr(calibrator, "protocol", None) == "converged"


def _does_not_stop_early(calibrator: Calibrator) -> bool:
    return getattr(calibrator, "protocol", None) != "paper"


@law(family=Family(("plain",)))
def the_report_has_the_loss_and_the_classes_of_the_calibration_nodes(
    calibrator: Calibrator, task: Task
) -> None:
    """``fit_report_`` says what the probabilities say."""
    fitted = task.fit(clone(calibrator))
    report = fitted.fit_report_
    probs = fitted.predict_proba(task.logits, task.graph)[task.nodes]
    loss = METRICS["nll"](task.labels[task.nodes], probs)
    assert abs(report.loss_after - loss) <= 1e-6, f"it reports {report.loss_after}, it is {loss}"
    counted = sum(report.nodes_per_class)
    assert counted == len(task.nodes), f"it counts {counted} nodes of {len(task.nodes)}"


@law(family=Family(("plain",)), applies=_converges)
def the_calibration_loss_never_rises_when_converged(calibrator: Calibrator, task: Task) -> None:
    """Unless a bound of the parameters forbids the raw logits themselves."""
    report = task.fit(clone(calibrator)).fit_report_
    if not report.bounds_hit:
        change = report.loss_after - report.loss_before
        assert change <= 1e-6, f"it rose by {change}"


@law(applies=_does_not_stop_early)
def a_planted_temperature_is_recovered(calibrator: Calibrator) -> None:
    """With 3,000 calibration nodes 98 % of what a temperature can gain is gained."""
    generator = np.random.default_rng(4)
    n = 6000
    logits = 2 * generator.normal(size=(n, 4))
    truth = softmax(logits / PLANTED)
    labels = (generator.random((n, 1)) > np.cumsum(truth, axis=1)[:, :-1]).sum(axis=1)
    graph = Graph(generator.integers(0, n, size=(2, 5 * n)), n, generator.normal(size=(n, 3)))
    nodes, train, test = np.arange(3000), np.arange(3000, 3500), np.arange(3500, n)
    fitted = clone(calibrator).fit(logits, labels, graph, nodes=nodes, train_nodes=train)
    probs = fitted.predict_proba(logits, graph)[test]
    best = METRICS["nll"](labels[test], truth[test])
    raw = METRICS["nll"](labels[test], softmax(logits[test]))
    loss = METRICS["nll"](labels[test], probs)
    missed = (loss - best) / (raw - best)
    assert missed < 0.02, f"{missed:.1%} of the possible gain in log loss is missed"


FITS = (
    the_report_has_the_loss_and_the_classes_of_the_calibration_nodes,
    the_calibration_loss_never_rises_when_converged,
    a_planted_temperature_is_recovered,
)
