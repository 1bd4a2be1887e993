"""The function ``calibrate``: fit a calibrator, predict, evaluate and compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from textwrap import TextWrapper
from typing import Any

from gnncal.calibrators.auto import ALL_CANDIDATES, Auto, chosen_of
from gnncal.calibrators.base import Calibrator
from gnncal.calibrators.registry import DEFAULT_METHOD, make, name_of, resolve
from gnncal.data.arrays import FloatArray, IntArray
from gnncal.data.checks import check_apart, check_labels, check_nodes, check_used_labels
from gnncal.data.constraints import FLAG
from gnncal.data.errors import InputError, short_repr
from gnncal.data.estimator import clone
from gnncal.data.nodes import Nodes, as_nodes, labelled_nodes
from gnncal.data.probability import softmax
from gnncal.data.tables import Cell, Table, Tabular, value_cell
from gnncal.graph.checks import wrong_order_of_edges
from gnncal.graph.entities import EntityGraph
from gnncal.graph.graph import Graph, class_names_of
from gnncal.keeping_cost import KeepingCost, cost_of_keeping_predictions
from gnncal.metrics.evaluation import (
    Comparison,
    Evaluation,
    check_positive_class,
    comparison_of,
    evaluation_of,
    evaluation_table,
)
from gnncal.metrics.outcomes import Outcomes
from gnncal.metrics.verdict import TOLERANCE, Verdict, judge_method, judge_untested

WIDTH = 80  # columns of the printed verdict
JUDGE_ELSEWHERE = "use test nodes that took part in neither training nor calibration"


@dataclass(frozen=True, repr=False, eq=False)
class Calibration(Tabular):
    """A fitted calibrator, its probabilities and their evaluation on the test nodes.

    Printing it shows the verdict and the tables of metrics.

    Attributes
    ----------
    calibrator : Calibrator
        The fitted calibrator.
    probabilities : ndarray of shape (n_nodes, n_classes)
        Calibrated probabilities of every node.
    before, after, comparison : Evaluation, Evaluation and Comparison, or None
        Metrics before calibration (of softmax(logits)), metrics after calibration, and their paired
        differences, all on the test nodes. None without test nodes.
    class_names, positive : list of str or None, int or None
        A name for each class, and the number of the positive class, if given.
    price, advice : KeepingCost or None, str or None
        The cost of keeping every predicted class: as numbers, and in words with the fix. None
        unless the cost is large and significant.
    verdict : Verdict or None
        Whether you can act on the probabilities: ``label`` and ``text``, as in a report.

    Examples
    --------
    >>> import gnncal
    >>> task = gnncal.example()
    >>> result = gnncal.calibrate(task.logits, task.labels, task.graph, **task.splits)
    >>> round(result.comparison.nll.mean, 2), result.comparison.nll.high < 0
    (-0.16, True)

    """

    calibrator: Calibrator
    probabilities: FloatArray
    before: Evaluation | None
    after: Evaluation | None
    comparison: Comparison | None
    class_names: list[str] | None = None
    positive: int | None = None
    price: KeepingCost | None = None
    verdict: Verdict | None = None

    @property
    def advice(self) -> str | None:
        """The cost of keeping predictions and the fix, in words; None if there is no price."""
        return None if self.price is None else self.price.advice(self.class_names)

    def __repr__(self) -> str:
        if self.verdict is None:
            return super().__repr__()
        lines = TextWrapper(WIDTH, break_on_hyphens=False, break_long_words=False)
        return f"{lines.fill(self.verdict.sentence)}\n\n{super().__repr__()}"

    def _tables(self) -> Sequence[Table]:
        (fit,) = self.calibrator.fit_report_._tables()
        title = f"{type(self.calibrator).__name__}: {fit.title}"
        fit = replace(fit, title=title, rows=[self._named(row) for row in fit.rows])
        if self.before is None or self.after is None or self.comparison is None:
            return [fit]
        sides = {"before": self.before, "after": self.after}
        return [evaluation_table(sides), *self.comparison._tables(), fit]

    def _named(self, row: Sequence[Cell]) -> Sequence[Cell]:
        """Show the names of the classes with the number of nodes of each."""
        if self.class_names is None or row[0].value != "nodes_per_class":
            return row
        pairs = zip(self.class_names, row[1].value, strict=True)
        return [row[0], Cell(row[1].value, value_cell([f"{name}: {n}" for name, n in pairs]).text)]


def calibrate(
    logits: Any,
    labels: Any,
    graph: Any = None,
    *,
    calibration_nodes: Any,
    train_nodes: Any = None,
    test_nodes: Any = None,
    keep_predictions: bool | None = None,
    method: str | Calibrator | None = None,
    positive: int | str | None = None,
    class_names: Sequence[str] | None = None,
    sample_weight: Any = None,
    node_type: str | None = None,
    tolerance: float | None = None,
    **params: Any,
) -> Calibration:
    """Calibrate a trained model and evaluate the result.

    Parameters
    ----------
    logits, labels, graph : array_like or Nodes, array_like, and a graph or None
        Raw scores (n_nodes, n_classes); classes 0..K-1, -1 where unknown (n_nodes,); a ``Graph``,
        ``EntityGraph`` or PyTorch Geometric ``Data``. Some methods need no graph.
    calibration_nodes, train_nodes, test_nodes : array_like
        Masks or indices: calibration nodes (usually the validation split), training nodes of the
        model, and labelled nodes for the evaluation. The fit never sees the labels of test nodes.
    keep_predictions : bool, optional
        Whether every predicted class must stay, as with the default method. ``False`` lets
        predictions change (method ``structural-free``), which is often more accurate.
    method : str or Calibrator, default="structural"
        A name from ``gnncal.list_calibrators()`` or a calibrator, which is copied before the fit.
        With ``"auto"``, the result holds the calibrator that was chosen.
    positive : int or str, optional
        The class of interest, by number or name, such as "fraud". The evaluation then includes
        the metrics of this class. Predictions may change unless you pass ``keep_predictions=True``
        or a ``method``, because a rare class is seldom the most probable one.
    class_names : sequence of str, optional
        A name for each class. Default: ``class_names`` of a PyTorch Geometric ``Data``.
    sample_weight : array_like of shape (n_nodes,), optional
        Number of nodes that each calibration node counts as in the fit. Metrics are unweighted.
    node_type : str, optional
        The type of these nodes in a ``HeteroData``, such as "account"; see ``Graph.of_type``.
    tolerance : float, optional
        The largest calibration error to act on, such as 0.05: the verdict says that you can act
        only if the whole 95% interval of the ECE lies below it. Default: 0.03, or two noise floors
        of up to 0.06 if that is more; for P(positive) at most half its base rate.
    **params : Any
        Constructor parameters of a method that is given by name, or of the default method.

    Returns
    -------
    Calibration
        The fitted calibrator, its probabilities, their evaluation and the verdict.

    Examples
    --------
    >>> import gnncal
    >>> task = gnncal.example()
    >>> given = (task.logits, task.labels, task.graph)
    >>> result = gnncal.calibrate(*given, **task.splits)
    >>> round(result.before.nll, 2), round(result.after.nll, 2)
    (0.28, 0.12)

    """
    TOLERANCE.check("tolerance", tolerance)
    names = class_names_of(graph) if class_names is None else class_names
    if node_type is not None:
        graph = Graph.of_type(graph, node_type)
    calibrator = choose_calibrator(
        method, keep_predictions=keep_predictions, positive=positive is not None, **params
    )
    record = as_nodes(logits, graph)
    names, view = check_positive_class(positive, record.n_classes, names)
    splits = {"calibration_nodes": calibration_nodes, "train_nodes": train_nodes}
    test = _check_test_nodes(record, labels, test_nodes, splits)
    labelled = labelled_nodes(record, labels, **splits, sample_weight=sample_weight)
    calibrator = chosen_of(calibrator.fit(labelled))
    if names is not None:
        calibrator.class_names_ = names
    calibrator.positive_ = view
    probs, arrays = calibrator.predict_proba(record), (record.logits, record.graph)
    price = cost_of_keeping_predictions(calibrator, labelled, probs)
    wrong_edges = wrong_edges_of(calibrator, record)
    del record, labelled  # what they keep about neighbourhoods is not needed to judge
    judged = judge(*arrays, probs, *test, names, view)
    verdict = None
    if test[0].size:
        given = (shown_name(calibrator), *judged, price, names)
        verdict = verdict_of(*given, tolerance, wrong_edges)
    elif price is not None:
        verdict = judge_untested(price.advice(names), favours_a_class=price.given is not None)
    return Calibration(calibrator, probs, *judged, names, view, price, verdict)


def apply(
    calibrator: Calibrator,
    logits: Any,
    graph: Any = None,
    *,
    labels: Any = None,
    test_nodes: Any = None,
    positive: int | str | None = None,
    class_names: Sequence[str] | None = None,
) -> Calibration:
    """Apply a fitted calibrator, and evaluate it on the test nodes if there are any."""
    record = as_nodes(logits, graph)
    known = getattr(calibrator, "class_names_", None)
    if class_names is None and known is not None and len(known) == record.n_classes:
        class_names = known  # of other classes predict_proba says what is wrong
    if positive is None and len(calibrator.classes_) == record.n_classes:
        positive = calibrator.positive_
    names, view = check_positive_class(positive, record.n_classes, class_names)
    test = _check_test_nodes(record, labels, test_nodes, {})
    probs = calibrator.predict_proba(record)
    judged = judge(record.logits, record.graph, probs, *test, names, view)
    return Calibration(calibrator, probs, *judged, names, view)


def verdict_of(
    name: str,
    before: Evaluation,
    after: Evaluation,
    gain: Comparison,
    price: KeepingCost | None,
    class_names: Sequence[str] | None,
    tolerance: float | None = None,
    wrong_edges: str | None = None,
) -> Verdict:
    """Return the verdict on a method's probabilities, for results and reports."""
    return judge_method(
        name,
        before,
        after,
        gain,
        price=None if price is None else price.advice(class_names),
        favours_a_class=price is not None and price.given is not None,
        tolerance=tolerance,
        wrong_edges=wrong_edges,
    )


def wrong_edges_of(calibrator: Calibrator, nodes: Nodes) -> str | None:
    """Return why the edges that a calibrator reads seem to be in another order, if they do."""
    return wrong_order_of_edges(nodes.graph, nodes.predictions) if calibrator.needs_graph else None


def judge(
    logits: FloatArray,
    graph: Graph | EntityGraph | None,
    probs: FloatArray,
    test_nodes: IntArray,
    labels: IntArray,
    names: list[str] | None = None,
    positive: int | None = None,
) -> tuple[Any, Any, Any]:
    """Evaluate softmax(logits) and ``probs`` on the test nodes, if any, and compare the two."""
    if not test_nodes.size:
        return None, None, None
    degree = None if graph is None else graph.in_degree[test_nodes]
    sides = [
        Outcomes(labels, each, degree, positive=positive, is_checked=True)
        for each in (softmax(logits[test_nodes]), probs[test_nodes])
    ]
    before, after = (evaluation_of(each, class_names=names) for each in sides)
    return before, after, comparison_of(*sides, class_names=names)


def _check_test_nodes(
    nodes: Nodes, labels: Any, test_nodes: Any, others: Mapping[str, Any]
) -> tuple[IntArray, IntArray]:
    """Return the test nodes, sorted, and their labels; none of them took part in a fit."""
    test = check_nodes([] if test_nodes is None else test_nodes, nodes.n_nodes, name="test_nodes")
    if test.size == 0:
        return test, test
    all_labels = check_labels(labels, nodes.n_nodes)
    truth = check_used_labels(all_labels, test, nodes.n_classes, "labels of test_nodes")
    given = {
        name: check_nodes(each, nodes.n_nodes, name=name)
        for name, each in others.items()
        if each is not None
    }
    check_apart("test_nodes", test, given, advice=JUDGE_ELSEWHERE)
    return test, truth


def choose_calibrator(
    method: str | Calibrator | None,
    *,
    keep_predictions: bool | None = None,
    positive: bool = False,
    **params: Any,
) -> Calibrator:
    """Return a new calibrator that keeps predictions or may change them, as requested."""
    if keep_predictions is not None:
        FLAG.check("keep_predictions", keep_predictions)
    if method is None:
        method = DEFAULT_METHOD
        if positive and keep_predictions is None:
            keep_predictions = False
    if isinstance(method, str):
        name, preset = resolve(method)
        if keep_predictions is not None and "keep_predictions" in preset.kind.constraints:
            if not preset.params:  # a variant has its answer
                params = {**params, "keep_predictions": keep_predictions}
        elif keep_predictions is False and preset.kind is Auto:
            params = {"candidates": ALL_CANDIDATES, **params}
        calibrator = make(name, preset, params)
    elif not isinstance(method, Calibrator):
        raise InputError(
            f"method is {short_repr(method)}; expected a calibrator's name or a calibrator such as "
            "gnncal.HoTS()."
        )
    elif params:
        raise InputError(
            f"{', '.join(params)} cannot be set on a calibrator object; pass "
            f"{type(method).__name__}({next(iter(params))}=...) as method."
        )
    else:
        calibrator = clone(method)
        calibrator.check_params()
    if keep_predictions is None or calibrator.preserves_predictions == keep_predictions:
        return calibrator
    does, other = "keeps every prediction", f"{DEFAULT_METHOD}-free"
    asked = "for predictions that may change (keep_predictions=False, --free)"
    if keep_predictions:
        does, asked = "may change predictions", "to keep them (keep_predictions)"
        other = DEFAULT_METHOD
    raise InputError(
        f"{shown_name(calibrator)} {does}, but you ask {asked}; choose another method, such as "
        f"{other!r}, or leave keep_predictions out."
    )


def shown_name(calibrator: Calibrator) -> str:
    """Return what messages call a calibrator."""
    try:
        return name_of(calibrator)
    except InputError:  # a class of the user's own, which no catalogue has
        return type(calibrator).__name__
