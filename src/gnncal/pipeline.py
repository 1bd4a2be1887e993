"""From logits to judged probabilities in one call: fit, predict, evaluate, compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from gnncal.calibrators.auto import Auto
from gnncal.calibrators.base import Calibrator
from gnncal.calibrators.catalogue import get_calibrator
from gnncal.core.arrays import FloatArray, IntArray
from gnncal.core.checks import check_labels, check_logits, check_nodes, check_used_labels
from gnncal.core.data import check_graph
from gnncal.core.errors import InputError, shown
from gnncal.core.graph import Graph
from gnncal.core.probability import softmax
from gnncal.core.pyg import as_graph
from gnncal.core.tabular import Table, Tabular
from gnncal.metrics.evaluation import Comparison, Evaluation, compare, evaluate, evaluation_table

DEFAULT_METHOD = "structural"


@dataclass(frozen=True, repr=False, eq=False)
class Calibration(Tabular):
    """A fitted calibrator, its probabilities, and how good they are on the test nodes.

    It prints as a table.

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

    Examples
    --------
    >>> import numpy as np
    >>> import gnncal
    >>> logits, noise = 3 * np.random.default_rng(0).normal(size=(2, 300, 3))
    >>> labels = (logits + noise).argmax(axis=1)
    >>> result = gnncal.calibrate(
    ...     logits, labels, nodes=range(150), test_nodes=range(150, 300), method="ts"
    ... )
    >>> round(result.comparison.nll.mean, 2), result.comparison.nll.high < 0
    (-0.23, True)

    """

    calibrator: Calibrator
    probabilities: FloatArray
    before: Evaluation | None
    after: Evaluation | None
    comparison: Comparison | None

    def _tables(self) -> Sequence[Table]:
        (fit,) = self.calibrator.fit_report_._tables()
        title = f"{type(self.calibrator).__name__}: {fit.title}"
        if isinstance(self.calibrator, Auto):
            title = f"{title}. {self.calibrator.reason_}"
        fit = replace(fit, title=title)
        if self.before is None or self.after is None or self.comparison is None:
            return [fit]
        sides = {"before": self.before, "after": self.after}
        return [evaluation_table(sides), *self.comparison._tables(), fit]


def calibrate(
    logits: Any,
    labels: Any,
    graph: Any = None,
    *,
    nodes: Any,
    train_nodes: Any = None,
    test_nodes: Any = None,
    method: str | Calibrator = DEFAULT_METHOD,
    **params: Any,
) -> Calibration:
    """Fit a calibrator on labelled nodes and judge it on others.

    Parameters
    ----------
    logits : array_like of shape (n_nodes, n_classes)
        Raw scores of every node, NumPy or torch.
    labels : array_like of shape (n_nodes,)
        Classes 0..K-1, -1 where unknown.
    graph : Graph or torch_geometric.data.Data, optional
        The graph of these nodes. Methods that ignore structure need none.
    nodes : array_like
        Calibration nodes, mask or indices, usually the validation split.
    train_nodes : array_like, optional
        Nodes that the model was trained on, mask or indices.
    test_nodes : array_like, optional
        Labelled nodes to judge the result on, mask or indices. Without them nothing is judged, and
        ``before``, ``after`` and ``comparison`` are None. The fit never sees their labels.
    method : str or Calibrator, default="structural"
        A calibrator's name (``gnncal.list_calibrators()``), or a calibrator, which is copied and
        not changed.
    **params : Any
        Parameters of the constructor, if ``method`` is a name.

    Returns
    -------
    Calibration
        The fitted calibrator, the probabilities, and the evaluations before and after.

    Raises
    ------
    InputError
        If an array or a parameter cannot be used, or sets of nodes overlap.

    Examples
    --------
    >>> import numpy as np
    >>> import gnncal
    >>> sample = gnncal.lab.simulation.CSBM(n_classes=3, separation=1).sample(np.full(600, 0.5))
    >>> logits, graph = 3 * sample.graph.features[:, :3], sample.graph
    >>> result = gnncal.calibrate(
    ...     logits, sample.labels, graph, nodes=range(300), test_nodes=range(300, 600)
    ... )
    >>> round(result.before.nll, 2), round(result.after.nll, 2)
    (1.22, 0.75)

    """
    graph = as_graph(graph)
    calibrator = _new_calibrator(method, params)
    splits = {"nodes": nodes, "train_nodes": train_nodes}
    test = _check_test_nodes(logits, labels, graph, test_nodes, **splits)
    calibrator.fit(logits, labels, graph, nodes=nodes, train_nodes=train_nodes)
    return apply(calibrator, logits, graph, labels=labels, test_nodes=test)


def apply(
    calibrator: Calibrator,
    logits: Any,
    graph: Any = None,
    *,
    labels: Any = None,
    test_nodes: Any = None,
) -> Calibration:
    """Use a fitted calibrator on these logits, and judge it on the test nodes if there are any."""
    graph = as_graph(graph)
    probs = calibrator.predict_proba(logits, graph)
    test = check_nodes([] if test_nodes is None else test_nodes, len(probs), name="test_nodes")
    if test.size == 0:
        return Calibration(calibrator, probs, None, None, None)
    return Calibration(calibrator, probs, *judge(logits, labels, graph, probs, test))


def judge(
    logits: Any, labels: Any, graph: Graph | None, probs: FloatArray, test_nodes: IntArray
) -> tuple[Evaluation, Evaluation, Comparison]:
    """Evaluate softmax(logits) and ``probs`` on the test nodes, and compare the two."""
    checked = check_logits(logits)
    truth = check_labels(labels, len(checked))[test_nodes]
    raw, chosen = softmax(checked[test_nodes]), probs[test_nodes]
    degree = None if graph is None else graph.in_degree[test_nodes]
    before = evaluate(truth, raw, in_degree=degree)
    after = evaluate(truth, chosen, in_degree=degree)
    return before, after, compare(truth, raw, chosen)


def _new_calibrator(method: str | Calibrator, params: dict[str, Any]) -> Calibrator:
    if isinstance(method, str):
        return get_calibrator(method, **params)
    if not isinstance(method, Calibrator):
        raise InputError(
            f"method is {shown(method)}; expected a calibrator's name or a calibrator such as "
            "gnncal.HoTS()."
        )
    if params:
        raise InputError(
            f"{', '.join(params)} cannot be set on a calibrator object; pass "
            f"{type(method).__name__}({next(iter(params))}=...) as method."
        )
    return clone(method)


def _check_test_nodes(
    logits: Any, labels: Any, graph: Graph | None, test_nodes: Any, **others: Any
) -> IntArray:
    """Return the test nodes, sorted; they are labelled and none of them took part in a fit."""
    n_nodes, n_classes = check_logits(logits).shape
    check_graph(graph, n_nodes)
    if test_nodes is None:
        return np.empty(0, dtype=np.int64)
    test = check_nodes(test_nodes, n_nodes, name="test_nodes")
    check_used_labels(check_labels(labels, n_nodes), test, n_classes, "labels of test_nodes")
    for name, nodes in others.items():
        if nodes is None:
            continue
        shared = np.intersect1d(test, check_nodes(nodes, n_nodes, name=name))
        if shared.size:
            raise InputError(
                f"test_nodes and {name} share {shared.size} nodes (first: {int(shared[0])}); judge "
                "on nodes that took part in neither training nor calibration."
            )
    return test
