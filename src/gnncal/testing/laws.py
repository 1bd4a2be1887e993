"""Laws: properties that a calibrator must have, and ``check_calibrator``, which checks them."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import TestCase

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from gnncal.calibrators.base import Calibrator, TemperatureCalibrator
from gnncal.calibrators.registry import class_fault, every_calibrator, temporarily_registered
from gnncal.calibrators.temperature import ParametricTemperature
from gnncal.data.checks import suggestion
from gnncal.data.errors import GnncalWarning, InputError, short_repr
from gnncal.data.nodes import Nodes
from gnncal.data.probability import softmax
from gnncal.files.saved_calibrators import load
from gnncal.graph.graph import Graph
from gnncal.metrics.table import METRICS
from gnncal.testing.tasks import Kind, Task, TaskFamily, random_task, small_task

N_EXAMPLES = 8  # random tasks on which a law is checked


@dataclass(frozen=True)
class Law:
    """A property that a calibrator must have."""

    function: Callable[..., None]
    family: TaskFamily | None
    applies: Callable[[Any], bool]

    @property
    def name(self) -> str:
        """The law as a sentence, by which expected failures name it."""
        return self.function.__name__.replace("_", " ")

    def __str__(self) -> str:
        return self.name

    def check(self, subject: Any, *, n_examples: int = N_EXAMPLES) -> None:
        """Raise an AssertionError if a calibrator breaks the law."""
        for seed in range(1 if self.family is None else n_examples):
            task = () if self.family is None else (random_task(seed, self.family),)
            try:
                with warnings.catch_warnings(action="ignore", category=GnncalWarning):
                    self.function(subject, *task)  # small tasks are full of warnings
            except Exception as error:  # what is broken may raise anything
                what = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
                reason = " ".join(str(error).split())
                where = f" (on gnncal.testing.random_task({seed}, {self.family}))" if task else ""
                raise AssertionError(f"{self.name}: {what}{reason}{where}") from error


def law(
    *, family: TaskFamily | None = None, applies: Callable[[Any], bool] = lambda _: True
) -> Callable[[Callable[..., None]], Law]:
    """Make a law of a function; the function's name is the law as a sentence."""
    return lambda function: Law(function, family, applies)


raises = TestCase().assertRaisesRegex  # it needs no test runner


@law(family=TaskFamily())
def rows_are_probabilities(calibrator: Calibrator, task: Task) -> None:
    """Rows sum to one, for extreme, tied and constant logits, too."""
    probs = task.probs(clone(calibrator))
    assert probs.shape == task.logits.shape, f"the shape is {probs.shape}"
    assert np.isfinite(probs).all(), "a probability is not finite"
    assert (probs >= 0).all(), "a probability is negative"
    assert_allclose(probs.sum(axis=1), 1.0, atol=1e-5)


@law(family=TaskFamily(), applies=lambda c: c.preserves_predictions)
def predictions_never_change_where_the_class_says_so(calibrator: Calibrator, task: Task) -> None:
    """The class says so by ``preserves_predictions = True``."""
    fitted = task.fit(clone(calibrator))
    probs = fitted.predict_proba(task.logits, task.graph)
    assert_array_equal(probs.argmax(axis=1), task.logits.argmax(axis=1))
    assert_array_equal(fitted.predict(task.logits, task.graph), task.logits.argmax(axis=1))


@law(family=TaskFamily(), applies=lambda c: isinstance(c, TemperatureCalibrator))
def temperatures_are_positive_and_are_what_divides_the_logits(
    calibrator: TemperatureCalibrator, task: Task
) -> None:
    """``temperature_`` has the temperatures of the fitted graph."""
    fitted = task.fit(clone(calibrator))
    temperature = fitted.predict_temperature(task.logits, task.graph)
    assert (temperature > 0).all(), "a temperature is not positive"
    assert_array_equal(temperature, fitted.temperature_)
    probs = fitted.predict_proba(task.logits, task.graph)
    assert_allclose(probs, softmax(task.logits, temperature), rtol=1e-6)


@law(family=TaskFamily(), applies=lambda c: isinstance(c, ParametricTemperature))
def derivatives_of_a_temperature_are_those_of_finite_differences(
    calibrator: ParametricTemperature, task: Task
) -> None:
    """``_formula`` returns the first ones; ``_second_derivatives`` need not be zero."""
    fitted = task.fit(clone(calibrator))
    theta = np.array(fitted.starts[0])  # a fitted one may be at a bound, where T is huge
    covariates = fitted._covariates(Nodes(task.logits, task.graph))
    weights, first = np.linspace(-1.0, 1.0, len(covariates)), fitted._formula(theta, covariates)[1]
    second = fitted._second_derivatives(theta, covariates, weights)
    for k, step in enumerate(np.diag(1e-5 * np.maximum(np.abs(theta), 0.1))):
        after, before = (fitted._formula(theta + s * step, covariates) for s in (1, -1))
        slope, bend = ((a - b) / (2 * step[k]) for a, b in zip(after, before, strict=True))
        assert_allclose(first[:, k], slope, rtol=1e-3, atol=1e-6 * (1 + np.abs(slope).max()))
        assert_allclose(second[k], weights @ bend, rtol=1e-3, atol=1e-6 * (1 + np.abs(bend).sum()))


@law(family=TaskFamily())
def the_precision_of_the_logits_is_kept(calibrator: Calibrator, task: Task) -> None:
    """Logits in float32 give probabilities in float32."""
    probs = task.probs(clone(calibrator), logits=task.logits.astype(np.float32))
    assert probs.dtype == np.float32, f"float32 became {probs.dtype}"


@law()
def every_corner_of_a_calibration_set_gives_a_finite_answer(calibrator: Calibrator) -> None:
    """One node, no mistakes, a class missing, edges in one direction, nodes without edges."""
    generator = np.random.default_rng(0)
    logits = generator.normal(size=(30, 3))
    edges = np.stack([np.arange(29), np.arange(1, 30)])
    features = generator.normal(size=(30, 4))
    train = np.arange(20, 30)
    labels = logits.argmax(axis=1)
    labels[train] = generator.integers(0, 3, size=10)
    every, two = np.arange(20), np.flatnonzero(labels[:20] != 2)
    corners = (("one node", every[:1]), ("all correct", every), ("a class missing", two))
    tasks = [("isolated nodes", np.stack([train, train[::-1]]), every)]
    for some in (edges, np.concatenate([edges, edges[::-1]], axis=1)):
        tasks += [(corner, some, nodes) for corner, nodes in corners]
    for corner, some, nodes in tasks:
        graph = Graph(some, 30, features)
        fitted = clone(calibrator).fit(
            logits, labels, graph, calibration_nodes=nodes, train_nodes=train
        )
        assert np.isfinite(fitted.predict_proba(logits, graph)).all(), corner


@law()
def unfitted_use_names_the_class(calibrator: Calibrator) -> None:
    """A NotFittedError of scikit-learn says which class was not fitted."""
    graph = Graph(np.zeros((2, 0), dtype=int), 3)
    with raises(NotFittedError, type(calibrator).__name__):
        clone(calibrator).predict_proba(np.zeros((3, 2)), graph)


@law(applies=lambda c: c.needs_graph)
def a_graph_method_says_that_it_needs_a_graph(calibrator: Calibrator) -> None:
    """The class says so by ``needs_graph = True``."""
    with raises(InputError, "needs a graph"):
        clone(calibrator).fit(np.eye(3), np.arange(3), calibration_nodes=[0], train_nodes=[1])


@law(applies=lambda c: not c.needs_graph)
def any_other_method_works_without_a_graph(calibrator: Calibrator) -> None:
    """``fit`` and ``predict_proba`` need no graph."""
    with warnings.catch_warnings(action="ignore"):
        fitted = clone(calibrator).fit(
            np.eye(3), np.arange(3), calibration_nodes=[0], train_nodes=[1]
        )
        shape = fitted.predict_proba(np.eye(3)).shape
    assert shape == (3, 3), f"the shape is {shape}"


DISTINCT: tuple[Kind, ...] = ("plain", "sharp", "float32")  # no ties: order decides nothing
# Two or three nodes leave a valley of equally good parameters, in which rounding decides.
DETERMINED = TaskFamily(DISTINCT, smallest=24, fewest=8)


@law(family=TaskFamily())
def labels_outside_nodes_and_train_nodes_never_matter(calibrator: Calibrator, task: Task) -> None:
    """Changing these labels does not change any bit of the probabilities."""
    others = np.ones(len(task.labels), dtype=bool)
    others[task.calibration_nodes] = others[task.train_nodes] = False
    garbage = task.labels.copy()
    garbage[others] = np.random.default_rng(0).integers(-5, 99, size=others.sum())
    expected = task.probs(clone(calibrator))
    assert_array_equal(task.probs(clone(calibrator), labels=garbage), expected)


@law(family=TaskFamily())
def refitting_gives_the_same_to_the_bit(calibrator: Calibrator, task: Task) -> None:
    """A second fit of the same object, or of its clone, gives identical probabilities."""
    fitted = task.fit(clone(calibrator))
    first = fitted.predict_proba(task.logits, task.graph)
    assert_array_equal(task.probs(fitted), first)
    assert_array_equal(task.probs(clone(fitted)), first)


@law(family=TaskFamily())
def inputs_are_not_mutated(calibrator: Calibrator, task: Task) -> None:
    """A fit does not change logits, labels, edges, features or nodes."""
    before = copy.deepcopy(task)
    task.probs(clone(calibrator))
    for name, value in vars(before).items():
        assert_array_equal(getattr(task, name), value, f"{name} was changed")


@law(family=TaskFamily(DISTINCT))
def renumbering_nodes_commutes_with_prediction(calibrator: Calibrator, task: Task) -> None:
    """On a graph other than that of the fit; known labels are passed, not remembered."""
    fitted = task.fit(clone(calibrator))
    known = np.where(np.isin(np.arange(len(task.labels)), task.train_nodes), task.labels, -1)
    order = np.random.default_rng(1).permutation(len(task.labels))
    edges = np.concatenate([task.edges, [[0], [1]]], axis=1)
    graph = Graph(edges, len(order), task.features)
    place = np.argsort(order)
    renumbered = Graph(place[edges], len(order), task.features[order])
    expected = fitted.predict_proba(Nodes(task.logits, graph, known_labels=known))
    nodes = Nodes(task.logits[order], renumbered, known_labels=known[order])
    actual = fitted.predict_proba(nodes)
    assert_allclose(actual, expected[order], atol=1e-5)


@law(family=DETERMINED)
def renumbering_nodes_commutes_with_fitting(calibrator: Calibrator, task: Task) -> None:
    """A fit on the same graph in another numbering gives each node the same probabilities."""
    order = np.random.default_rng(1).permutation(len(task.labels))
    place = np.argsort(order)
    graph = Graph(place[task.edges], len(order), task.features[order])
    expected = task.probs(clone(calibrator))
    moved = {
        "calibration_nodes": place[task.calibration_nodes],
        "train_nodes": place[task.train_nodes],
        "graph": graph,
    }
    moved |= {"logits": task.logits[order], "labels": task.labels[order]}
    assert_allclose(task.probs(clone(calibrator), **moved), expected[order], atol=2e-3)


@law(family=DETERMINED)
def relabelling_classes_commutes_with_fitting(calibrator: Calibrator, task: Task) -> None:
    """Another order of the classes gives the same probabilities in that order."""
    order = np.random.default_rng(2).permutation(task.logits.shape[1])
    expected = task.probs(clone(calibrator))[:, order]
    logits, labels = np.ascontiguousarray(task.logits[:, order]), np.argsort(order)[task.labels]
    actual = task.probs(clone(calibrator), logits=logits, labels=labels)
    assert_allclose(actual, expected, atol=2e-3)


@law(family=TaskFamily(("plain",)))
def a_constant_added_to_a_row_of_logits_changes_nothing(calibrator: Calibrator, task: Task) -> None:
    """Softmax ignores such a constant, so a calibrator must, too."""
    shifts = np.random.default_rng(3).integers(-8, 9, size=(len(task.logits), 1))
    expected = task.probs(clone(calibrator))
    actual = task.probs(clone(calibrator), logits=task.logits + shifts)
    assert_allclose(actual, expected, atol=2e-3)


PLANTED = 2.5  # the temperature to be found


@law(family=TaskFamily(("plain",)))
def the_report_has_the_loss_and_the_classes_of_the_calibration_nodes(
    calibrator: Calibrator, task: Task
) -> None:
    """``fit_report_`` agrees with the probabilities of the calibration nodes."""
    fitted = task.fit(clone(calibrator))
    report = fitted.fit_report_
    probs = fitted.predict_proba(task.logits, task.graph)[task.calibration_nodes]
    loss = METRICS["nll"](task.labels[task.calibration_nodes], probs)
    assert abs(report.loss_after - loss) <= 1e-6, f"it reports {report.loss_after}, it is {loss}"
    counted = sum(report.nodes_per_class)
    assert counted == len(task.calibration_nodes), (
        f"it counts {counted} nodes of {len(task.calibration_nodes)}"
    )


@law(family=TaskFamily(("plain",)), applies=lambda c: getattr(c, "protocol", None) == "converged")
def the_calibration_loss_never_rises_when_converged(calibrator: Calibrator, task: Task) -> None:
    """Fits with a parameter at a bound are exempt, as the bound may exclude the raw logits."""
    report = task.fit(clone(calibrator)).fit_report_
    if not report.bounds_hit:
        change = report.loss_after - report.loss_before
        assert change <= 1e-6, f"it rose by {change}"


@law(applies=lambda c: getattr(c, "protocol", None) != "paper")
def a_planted_temperature_is_recovered(calibrator: Calibrator) -> None:
    """With 3,000 calibration nodes, a fit makes 98% of the possible gain in log loss."""
    generator = np.random.default_rng(4)
    n = 6000
    logits = 2 * generator.normal(size=(n, 4))
    truth = softmax(logits / PLANTED)
    labels = (generator.random((n, 1)) > np.cumsum(truth, axis=1)[:, :-1]).sum(axis=1)
    graph = Graph(generator.integers(0, n, size=(2, 5 * n)), n, generator.normal(size=(n, 3)))
    nodes, train, test = np.arange(3000), np.arange(3000, 3500), np.arange(3500, n)
    fitted = clone(calibrator).fit(
        logits, labels, graph, calibration_nodes=nodes, train_nodes=train
    )
    probs = fitted.predict_proba(logits, graph)[test]
    best = METRICS["nll"](labels[test], truth[test])
    raw = METRICS["nll"](labels[test], softmax(logits[test]))
    loss = METRICS["nll"](labels[test], probs)
    missed = (loss - best) / (raw - best)
    assert missed < 0.02, f"{missed:.1%} of the possible gain in log loss is missed"


@law()
def a_loaded_calibrator_predicts_the_same_and_can_be_fitted_again(calibrator: Calibrator) -> None:
    """The values in ``learned`` are sufficient for predictions."""
    task = small_task()
    fitted = task.fit(clone(calibrator))
    expected = fitted.predict_proba(task.logits, task.graph)
    with TemporaryDirectory() as folder:
        file = Path(folder) / "calibrator.safetensors"
        fitted.save(file)
        loaded = load(file)
    assert_array_equal(loaded.predict_proba(task.logits, task.graph), expected)
    assert_array_equal(task.probs(loaded), expected)


@law()
def predictions_are_the_most_probable_classes(calibrator: Calibrator) -> None:
    """``predict`` is the argmax of ``predict_proba`` with the same arguments."""
    task = small_task()
    fitted = task.fit(clone(calibrator))
    probs = fitted.predict_proba(task.logits, task.graph)
    assert_array_equal(fitted.predict(task.logits, task.graph), probs.argmax(axis=1))


WRONG = (object(), {"a": 1}, 1j, b"x", "no such word", float("nan"))  # wrong for every parameter


@law()
def a_parameter_of_the_wrong_type_is_refused_by_its_name(calibrator: Calibrator) -> None:
    """``fit`` raises an InputError with the parameter's name, as ``constraints`` declare."""
    task = small_task()
    for parameter in calibrator.get_params(deep=False):
        for wrong in WRONG:
            changed = clone(calibrator).set_params(**{parameter: wrong})
            with raises(InputError, rf"\b{parameter}\b", msg=f"{parameter}={wrong!r}"):
                task.fit(changed)


LAWS: tuple[Law, ...] = tuple(each for each in list(globals().values()) if isinstance(each, Law))


def check_calibrator(
    calibrator: Calibrator | type[Calibrator],
    *,
    expected_failures: Mapping[str, str] | None = None,
    n_examples: int = N_EXAMPLES,
) -> None:
    """Check that a calibrator satisfies all laws, the properties that every calibrator must have.

    Laws are checked on small random tasks, which are the same in every call.

    Parameters
    ----------
    calibrator : Calibrator or type
        The calibrator, or its class, which is then created with default parameters.
    expected_failures : dict of str to str, or None
        Laws that cannot hold for this method, each with the reason. They are not checked.
    n_examples : int
        Number of random tasks for each law; more tasks find rarer errors.

    Raises
    ------
    AssertionError
        If a law is broken. The message names every broken law with the reason.
    InputError
        If the object is not a valid calibrator, or a law is unknown.

    Examples
    --------
    >>> import gnncal
    >>> gnncal.testing.check_calibrator(gnncal.calibrators.TemperatureScaling())

    """
    kind: Any = calibrator if isinstance(calibrator, type) else type(calibrator)
    reason = class_fault(kind)
    if reason is not None:
        raise InputError(f"{kind.__name__} cannot be used as a calibrator: {reason}.")
    checked: Any = calibrator() if isinstance(calibrator, type) else calibrator
    excused, known = expected_failures or {}, [each.name for each in LAWS]
    for name in excused:
        if name not in known:
            raise InputError(
                f"unknown law {short_repr(name)}{suggestion(name, known)}; gnncal.testing.LAWS "
                "lists them."
            )
    is_known = kind in every_calibrator().values()
    broken: list[str] = []
    with nullcontext() if is_known else temporarily_registered(kind):
        for each in LAWS:
            if each.name in excused or not each.applies(checked):
                continue
            try:
                each.check(checked, n_examples=n_examples)
            except AssertionError as error:
                broken.append(str(error))
    if broken:
        count = "a law" if len(broken) == 1 else f"{len(broken)} laws"
        raise AssertionError("\n- ".join([f"{kind.__name__} breaks {count}:", *broken]))
