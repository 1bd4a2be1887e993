"""From logits to judged probabilities in one call: fit, predict, evaluate, compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from textwrap import TextWrapper
from typing import Any

from gnncal.calibrators.auto import ALL_CANDIDATES, Auto
from gnncal.calibrators.base import Calibrator
from gnncal.calibrators.price import KeepingCost, cost_of_keeping_predictions
from gnncal.calibrators.registry import DEFAULT_METHOD, make, name_of, resolve
from gnncal.data.arrays import FloatArray, IntArray
from gnncal.data.checks import check_apart, check_labels, check_nodes, check_used_labels
from gnncal.data.constraints import FLAG
from gnncal.data.errors import InputError, short_repr
from gnncal.data.estimator import clone
from gnncal.data.nodes import Nodes, as_nodes, labelled_nodes
from gnncal.data.probability import softmax
from gnncal.data.tables import Cell, Table, Tabular, listed
from gnncal.graph.entities import EntityGraph
from gnncal.graph.graph import Graph, class_names_of
from gnncal.metrics.evaluation import (
    Comparison,
    Evaluation,
    check_positive_class,
    comparison_of,
    evaluation_of,
    evaluation_table,
)
from gnncal.metrics.outcomes import Outcomes
from gnncal.metrics.verdict import Verdict, evidence_of, judge_method, judge_untested

WIDTH = 80  # columns of the printed verdict
JUDGE_ELSEWHERE = "judge on nodes that took part in neither training nor calibration"


@dataclass(frozen=True, repr=False, eq=False)
class Calibration(Tabular):
    """A fitted calibrator, its probabilities, and how good they are on the test nodes.

    It prints as its verdict and tables.

    Attributes
    ----------
    calibrator : Calibrator
        The fitted calibrator.
    probabilities : ndarray of shape (n_nodes, n_classes)
        Calibrated probabilities of every node; rows sum to one.
    before : Evaluation or None
        Metrics of softmax(logits) on the test nodes; None without test nodes.
    after : Evaluation or None
        Metrics of the probabilities on the same nodes.
    comparison : Comparison or None
        Paired comparison of the two on the same nodes.
    class_names : list of str or None
        A name for each class, if they are known. ``calibrator.save`` keeps them.
    positive : int or None
        Number of the positive class, if there is one.
    price : KeepingCost or None
        What keeping predictions costs, where it costs something; None otherwise.
    advice : str or None
        The same in one sentence, with what to do.
    verdict : Verdict or None
        Whether one can act on the probabilities: ``label`` and ``text``, the same as in a report.
        None where there is nothing to judge by.

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
        """What keeping predictions costs and what to do, in one sentence; None if it is little."""
        return None if self.price is None else self.price.advice(self.class_names)

    def __repr__(self) -> str:
        if self.verdict is None:
            return super().__repr__()
        lines = TextWrapper(WIDTH, break_on_hyphens=False, break_long_words=False)
        return f"{lines.fill(self.verdict.sentence)}\n\n{super().__repr__()}"

    def _repr_html_(self) -> str:
        said = "" if self.verdict is None else f"<p>{escape(self.verdict.sentence)}</p>"
        return said + super()._repr_html_()

    def _tables(self) -> Sequence[Table]:
        (fit,) = self.calibrator.fit_report_._tables()
        title = f"{type(self.calibrator).__name__}: {fit.title}"
        if isinstance(self.calibrator, Auto):
            title = f"{title}. {self.calibrator.reason_}"
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
        return [row[0], Cell(row[1].value, listed([f"{name}: {n}" for name, n in pairs]).text)]


def calibrate(
    logits: Any,
    labels: Any,
    graph: Any = None,
    *,
    nodes: Any,
    train_nodes: Any = None,
    test_nodes: Any = None,
    keep_predictions: bool | None = None,
    method: str | Calibrator | None = None,
    positive: int | str | None = None,
    class_names: Sequence[str] | None = None,
    sample_weight: Any = None,
    node_type: str | None = None,
    **params: Any,
) -> Calibration:
    """Fit a calibrator on labelled nodes and judge it on others.

    Parameters
    ----------
    logits : array_like of shape (n_nodes, n_classes) or Nodes
        Raw scores of every node, NumPy or torch; or a record of nodes with their graph.
    labels : array_like of shape (n_nodes,)
        Classes 0..K-1, -1 where unknown.
    graph : Graph, EntityGraph or torch_geometric.data.Data or HeteroData, optional
        The graph of these nodes. Methods that ignore structure need none.
    nodes : array_like
        Calibration nodes, mask or indices, usually the validation split.
    train_nodes : array_like, optional
        Nodes that the model was trained on, mask or indices.
    test_nodes : array_like, optional
        Labelled nodes to judge the result on, mask or indices. Without them nothing is judged, and
        ``before``, ``after`` and ``comparison`` are None. The fit never sees their labels.
    keep_predictions : bool, optional
        Whether the predicted class of every node stays. The default method keeps it. ``False``
        lets the calibrator correct the model (``structural-free``), which is often more accurate.
        Where predictions are kept and that costs something, ``advice`` of the result says so.
    method : str or Calibrator, default="structural"
        Another method: a calibrator's name (``gnncal.list_calibrators()``), or a calibrator, which
        is copied and not changed.
    positive : int or str, optional
        The class that matters, by its number or its name, such as "fraud". The result is then
        judged by the metrics of this class too, and predictions may change unless you pass
        ``keep_predictions=True`` or a ``method``: a rare class is seldom the most probable one.
    class_names : sequence of str, optional
        A name for each class. Default: those that a PyTorch Geometric ``Data`` has as
        ``class_names``. The result shows them, and the calibrator is saved with them.
    sample_weight : array_like of shape (n_nodes,), optional
        How many nodes each calibration node counts as in the fit. Test nodes count alike.
    node_type : str, optional
        The type of these nodes in a ``HeteroData``, such as "account"; see ``Graph.of_type``.
    **params : Any
        Parameters of the constructor, if ``method`` is a name.

    Returns
    -------
    Calibration
        The fitted calibrator, the probabilities, and the evaluations before and after.

    Raises
    ------
    InputError
        If an array or a parameter cannot be used, sets of nodes overlap, or the method contradicts
        ``keep_predictions``.

    Examples
    --------
    >>> import gnncal
    >>> task = gnncal.example()
    >>> given = (task.logits, task.labels, task.graph)
    >>> result = gnncal.calibrate(*given, **task.splits)
    >>> round(result.before.nll, 2), round(result.after.nll, 2)
    (0.28, 0.12)

    If predictions may change:

    >>> result = gnncal.calibrate(*given, **task.splits, keep_predictions=False)
    >>> round(result.before.accuracy, 4), round(result.after.accuracy, 4)
    (0.9699, 0.9708)

    """
    names = class_names_of(graph) if class_names is None else class_names
    if node_type is not None:
        graph = Graph.of_type(graph, node_type)
    calibrator = choose_calibrator(
        method, keep_predictions=keep_predictions, positive=positive is not None, **params
    )
    record = as_nodes(logits, graph)
    names, view = check_positive_class(positive, record.n_classes, names)
    splits = {"nodes": nodes, "train_nodes": train_nodes}
    test = _check_test_nodes(record, labels, test_nodes, splits)
    labelled = labelled_nodes(record, labels, **splits, sample_weight=sample_weight)
    calibrator.fit(labelled)
    if names is not None:
        calibrator.class_names_ = names
    probs, arrays = calibrator.predict_proba(record), (record.logits, record.graph)
    price = cost_of_keeping_predictions(calibrator, labelled, probs)
    del record, labelled  # what they keep about neighbourhoods is not needed to judge
    result = replace(_judged(calibrator, probs, *arrays, *test, names, view), price=price)
    return replace(result, verdict=_verdict(result))


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
    """Use a fitted calibrator on these logits, and judge it on the test nodes if there are any."""
    record = as_nodes(logits, graph)
    known = getattr(calibrator, "class_names_", None)
    if class_names is None and known is not None and len(known) == record.n_classes:
        class_names = known  # of other classes predict_proba says what is wrong
    names, view = check_positive_class(positive, record.n_classes, class_names)
    test = _check_test_nodes(record, labels, test_nodes, {})
    probs, arrays = calibrator.predict_proba(record), (record.logits, record.graph)
    del record
    return _judged(calibrator, probs, *arrays, *test, names, view)


def verdict_of(
    name: str,
    before: Evaluation,
    after: Evaluation,
    gain: Comparison,
    price: KeepingCost | None,
    class_names: Sequence[str] | None,
) -> Verdict:
    """Say whether one can act on a method's probabilities; results and reports repeat it."""
    advice = None if price is None else price.advice(class_names)
    favours = price is not None and price.given is not None
    evidence = evidence_of(before, after, gain, price=advice, favours_a_class=favours)
    return judge_method(name, evidence)


def judge(
    logits: FloatArray,
    graph: Graph | EntityGraph | None,
    probs: FloatArray,
    test_nodes: IntArray,
    labels: IntArray,
    class_names: list[str] | None = None,
    positive: int | None = None,
) -> tuple[Evaluation, Evaluation, Comparison]:
    """Evaluate softmax(logits) and ``probs`` on the test nodes, and compare the two."""
    degree = None if graph is None else graph.in_degree[test_nodes]
    before, after = (
        Outcomes(labels, each, degree, positive=positive, is_checked=True)
        for each in (softmax(logits[test_nodes]), probs[test_nodes])
    )
    return (
        evaluation_of(before, class_names=class_names),
        evaluation_of(after, class_names=class_names),
        comparison_of(before, after, class_names=class_names),
    )


def _judged(
    calibrator: Calibrator,
    probs: FloatArray,
    logits: FloatArray,
    graph: Graph | EntityGraph | None,
    test_nodes: IntArray,
    labels: IntArray,
    class_names: list[str] | None,
    positive: int | None,
) -> Calibration:
    if test_nodes.size == 0:
        return Calibration(calibrator, probs, None, None, None, class_names, positive)
    judged = judge(logits, graph, probs, test_nodes, labels, class_names, positive)
    return Calibration(calibrator, probs, *judged, class_names, positive)


def _verdict(result: Calibration) -> Verdict | None:
    """Return the judgement on a fit; None without test nodes, unless predictions have a price."""
    price, names = result.price, result.class_names
    if result.before is not None and result.after is not None and result.comparison is not None:
        sides = (result.before, result.after, result.comparison)
        return verdict_of(shown_name(result.calibrator), *sides, price, names)
    if price is None:
        return None
    return judge_untested(price.advice(names), favours_a_class=price.given is not None)


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
    """Return a new calibrator that keeps predictions or may change them, as the user says."""
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
    else:
        calibrator = _copied(method, params)
    if keep_predictions is not None:
        check_keep_predictions(calibrator, keep_predictions)
    return calibrator


def _copied(method: Any, params: dict[str, Any]) -> Calibrator:
    if not isinstance(method, Calibrator):
        raise InputError(
            f"method is {short_repr(method)}; expected a calibrator's name or a calibrator such as "
            "gnncal.HoTS()."
        )
    if params:
        raise InputError(
            f"{', '.join(params)} cannot be set on a calibrator object; pass "
            f"{type(method).__name__}({next(iter(params))}=...) as method."
        )
    copied: Calibrator = clone(method)
    copied.check_params()
    return copied


def check_keep_predictions(calibrator: Calibrator, keep: bool) -> None:
    """Raise an InputError if a calibrator contradicts what the user says about predictions."""
    if calibrator.preserves_predictions == keep:
        return
    name = shown_name(calibrator)
    if keep:
        raise InputError(
            f"{name} may change predictions, but you ask to keep them (keep_predictions); choose a "
            f"method that keeps them, such as {DEFAULT_METHOD!r}, or do not ask."
        )
    raise InputError(
        f"{name} keeps every prediction, but you ask for predictions that may change "
        "(keep_predictions=False, --free); choose a method that may change them, such as "
        "'structural-free', or do not ask."
    )


def shown_name(calibrator: Calibrator) -> str:
    """Return what messages call a calibrator."""
    try:
        return name_of(calibrator)
    except InputError:  # a class of the user's own, which no catalogue has
        return type(calibrator).__name__
