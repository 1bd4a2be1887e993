"""What a report is about: a model's output on a graph, and the methods to compare it with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gnncal.calibration import JUDGE_ELSEWHERE, check_keep_predictions
from gnncal.calibrators.base import Calibrator
from gnncal.calibrators.price import FREE_WITH_GRAPH, FREE_WITHOUT
from gnncal.calibrators.registry import DEFAULT_METHOD, get_calibrator, name_of, resolve
from gnncal.calibrators.temperature import Uncalibrated
from gnncal.data.arrays import FloatArray, IntArray, as_numpy
from gnncal.data.checks import (
    check_apart,
    check_class_names,
    check_labels,
    check_nodes,
    check_positive,
    check_used_labels,
)
from gnncal.data.constraints import FLAG
from gnncal.data.errors import InputError, short_repr
from gnncal.data.nodes import Nodes, as_nodes
from gnncal.files.bundle import Bundle
from gnncal.graph.graph import Graph, class_names_of
from gnncal.metrics.verdict import UNCALIBRATED
from gnncal.shift.check import check_comparable

DEFAULT_METHODS = ("ts", "hots", DEFAULT_METHOD)
METHODS_WITHOUT_GRAPH = ("ts", "svs", "hts")  # the last is what a report opens with
Methods = Sequence[str | Calibrator] | Mapping[str, str | Calibrator]
LONGEST_NAME = 200  # characters of a class or node name that are kept


@dataclass(frozen=True)
class ReportInput:
    """Checked input of a report."""

    record: Nodes  # logits and graph
    labels: IntArray  # (n_nodes,) -1 where unknown
    nodes: IntArray  # calibration nodes
    train_nodes: IntArray
    test_nodes: IntArray
    methods: Mapping[str, Calibrator]  # by name, the raw model first
    shown: str  # the method that a report opens with
    class_names: Sequence[str]
    name_of: NodeNames
    focus: IntArray  # nodes that the user wants to see
    positive: int | None = None  # the class that matters, if one does
    new: tuple[Nodes, IntArray] | None = None  # nodes to compare with, and which of them

    @property
    def logits(self) -> FloatArray:
        """Raw scores of every node."""
        return self.record.logits

    @property
    def graph(self) -> Graph | None:
        """The edges between nodes, if there are any; shared entities have none to draw."""
        return self.record.graph if isinstance(self.record.graph, Graph) else None

    @cached_property
    def connected(self) -> Nodes:
        """The nodes with their graph, or with one without edges, in which every node is alone."""
        if self.graph is not None:
            return self.record
        alone = Graph(np.empty((2, 0)), self.record.n_nodes)
        return Nodes(self.record.logits, alone, may_be_probabilities=True)

    @cached_property
    def labelled(self) -> Nodes:
        """The nodes as a fit sees them."""
        splits = {"nodes": self.nodes, "train_nodes": self.train_nodes}
        return self.record.with_labels(self.labels, **splits)

    @cached_property
    def others(self) -> IntArray:
        """Nodes outside training and calibration."""
        is_other = np.ones(self.record.n_nodes, dtype=np.bool_)
        is_other[self.nodes] = is_other[self.train_nodes] = False
        return np.flatnonzero(is_other)

    @property
    def splits(self) -> dict[str, IntArray]:
        """The nodes of each split by its name."""
        return {"train": self.train_nodes, "calibration": self.nodes, "test": self.test_nodes}


class NodeNames:
    """The users' names of nodes, their numbers by default, as text that is not too long."""

    def __init__(self, ids: Any, n_nodes: int) -> None:
        self._ids = None if ids is None else _as_ids(ids)
        if self._ids is not None and self._ids.shape != (n_nodes,):
            raise InputError(
                f"node_ids has shape {self._ids.shape} but logits has {n_nodes} rows; pass one id "
                "for each node."
            )

    def __call__(self, node: int) -> str:
        """Return the name of a node."""
        return shortened(node if self._ids is None else self._ids[node])

    def find(self, wanted: Any, n_nodes: int) -> IntArray:
        """Return the nodes with these names, the first one where several have the same."""
        names = list(wanted) if np.ndim(wanted) else [wanted]
        if not names:
            return np.empty(0, dtype=np.int64)
        ids = range(n_nodes) if self._ids is None else self._ids.tolist()
        places = {str(name): place for place, name in reversed(list(enumerate(ids)))}
        for name in names:
            if str(name) not in places:
                raise InputError(f"there is no node {short_repr(name)}; pass the id of a node.")
        matches = dict.fromkeys(places[str(name)] for name in names)
        return np.array(list(matches), dtype=np.int64)


def check_input(
    logits: Any,
    labels: Any,
    graph: Any,
    *,
    nodes: Any,
    train_nodes: Any = None,
    test_nodes: Any,
    methods: Methods = DEFAULT_METHODS,
    keep_predictions: bool | None = None,
    class_names: Sequence[str] | None = None,
    node_ids: Any = None,
    focus: Sequence[Any] = (),
    positive: Any = None,
    new: Any = None,
) -> ReportInput:
    """Check everything that a report reads, before any work is done."""
    record = as_nodes(logits, graph)
    n_nodes, n_classes, has_graph = record.n_nodes, record.n_classes, record.graph is not None
    all_labels = check_labels(labels, n_nodes)
    given = {"nodes": nodes, "train_nodes": train_nodes, "test_nodes": test_nodes}
    splits = {
        name: check_nodes([] if each is None else each, n_nodes, name=name)
        for name, each in given.items()
    }
    for name in ("nodes", "test_nodes"):
        if not splits[name].size:
            raise InputError(
                f"{name} is empty; a report needs labelled nodes to calibrate on (nodes) and other "
                "labelled nodes to judge on (test_nodes)."
            )
        check_used_labels(all_labels, splits[name], n_classes, f"labels of {name}")
    test = splits.pop("test_nodes")
    check_apart("test_nodes", test, splits, advice=JUDGE_ELSEWHERE)
    # With one positive class its probability matters, not the boundary between the classes.
    prefers_free = positive is not None and keep_predictions is None
    if methods is DEFAULT_METHODS:
        methods = _default_methods(has_graph, False if prefers_free else keep_predictions)
    chosen = _choose_methods(methods)
    shown_first = _default_tab(chosen, keep_predictions, prefers_free=prefers_free)
    if not has_graph:
        _check_without_graph(chosen)
    names = NodeNames(node_ids, n_nodes)
    class_names = class_names_of(graph) if class_names is None else class_names
    if new is not None:
        new = _check_new_nodes(new, class_names)
        if chosen[shown_first].needs_graph and new[0].graph is None:
            raise InputError(f"{shown_first} needs a graph and new has none; pass (logits, graph).")
        check_comparable(*new, n_classes=n_classes, n_fitted_on=splits["nodes"].size)
    return ReportInput(
        record,
        all_labels,
        splits["nodes"],
        splits["train_nodes"],
        test,
        _add_unconstrained_method(chosen, has_graph=has_graph),
        shown_first,
        _class_names(class_names, n_classes),
        names,
        names.find(focus, n_nodes),
        None if positive is None else check_positive(positive, n_classes, class_names),
        new,
    )


def _as_ids(ids: Any) -> Any:
    """Return ids as an array; in an array of strings each entry takes the space of the longest."""
    if hasattr(ids, "shape"):
        return as_numpy(ids)
    array = np.empty(len(ids), dtype=object)
    array[:] = list(ids)
    return array


def shortened(name: Any) -> str:
    """Return a name as text, cut when it is very long."""
    text = name.decode(errors="replace") if isinstance(name, bytes) else str(name)
    return text if len(text) <= LONGEST_NAME else f"{text[: LONGEST_NAME - 1]}…"


def _choose_methods(methods: Methods) -> dict[str, Calibrator]:
    if isinstance(methods, str):
        methods = methods.split(",")
    if not isinstance(methods, Mapping):
        methods = _named(methods if isinstance(methods, Iterable) else [methods])
    if not methods:
        raise InputError("methods is empty; name at least one, such as 'structural'.")
    chosen: dict[str, Calibrator] = {UNCALIBRATED: get_calibrator(UNCALIBRATED)}
    for name, method in methods.items():
        chosen[shortened(name)] = get_calibrator(method) if isinstance(method, str) else method
    if not isinstance(chosen[UNCALIBRATED], Uncalibrated):
        raise InputError(
            f"a method is called {UNCALIBRATED!r}, which is the model's own name; choose another."
        )
    return chosen


def _default_methods(has_graph: bool, keep_predictions: bool | None) -> Sequence[str]:
    if has_graph:
        return (*DEFAULT_METHODS, *((FREE_WITH_GRAPH,) if keep_predictions is False else ()))
    return [
        name
        for name in METHODS_WITHOUT_GRAPH
        if not keep_predictions or get_calibrator(name).preserves_predictions
    ]


def _default_tab(
    methods: Mapping[str, Calibrator], keep_predictions: bool | None, *, prefers_free: bool
) -> str:
    """Return the method that a report opens with, after a check that it is what the user wants."""
    names = list(methods)
    if keep_predictions is not None:
        FLAG.check("keep_predictions", keep_predictions)
    if keep_predictions:
        for method in methods.values():
            check_keep_predictions(method, True)
    if keep_predictions is False or prefers_free:
        names = [name for name in names if not methods[name].preserves_predictions] or names[-1:]
    if keep_predictions is False:
        check_keep_predictions(methods[names[-1]], False)
    return DEFAULT_METHOD if DEFAULT_METHOD in names else names[-1]


def _add_unconstrained_method(
    methods: dict[str, Calibrator], *, has_graph: bool
) -> dict[str, Calibrator]:
    """Return the methods with one at least that may change predictions, to compare with."""
    name = FREE_WITH_GRAPH if has_graph else FREE_WITHOUT
    if name in methods or not all(each.preserves_predictions for each in methods.values()):
        return methods
    return {**methods, name: get_calibrator(name)}


def _check_without_graph(methods: Mapping[str, Calibrator]) -> None:
    for name, method in methods.items():
        if method.needs_graph:
            raise InputError(
                f"{name} needs a graph and graph is None; pass the graph, or methods that need "
                f"none, such as {', '.join(METHODS_WITHOUT_GRAPH)}."
            )


def _named(methods: Iterable[Any]) -> dict[str, str | Calibrator]:
    """Return the methods by their names in the catalogue."""
    named: dict[str, str | Calibrator] = {}
    for method in methods:
        name = name_of(method) if isinstance(method, Calibrator) else resolve(method)[0]
        if name in named and named[name] is not method:
            raise InputError(
                f"two methods are called {name!r}; pass a mapping from names of your own to "
                "calibrators."
            )
        named[name] = method
    return named


def _class_names(names: Any, n_classes: int) -> list[str]:
    checked = check_class_names(names, n_classes)
    return [shortened(name) for name in checked or (f"class {c}" for c in range(n_classes))]


def _check_new_nodes(new: Any, known: Sequence[str] | None) -> tuple[Nodes, IntArray]:
    """Return new nodes, and which of them the model was not trained on."""
    if isinstance(new, Bundle):
        names = new.class_names
        if names is not None and known is not None and list(names) != list(known):
            raise InputError(
                f"the report is about the classes {', '.join(known)} but new has "
                f"{', '.join(names)}; put the columns of logits in the same order."
            )
        record, train = Nodes(new.logits, new.graph), new.train_nodes
    elif isinstance(new, Nodes):
        record, train = new.with_known_labels(), new.train_nodes
    elif isinstance(new, (tuple, list)) and len(new) == 2:
        record, train = Nodes(*new), np.empty(0, dtype=np.int64)
    else:
        raise InputError(
            f"new is of type {type(new).__name__}; expected a pair (logits, graph), Nodes or a "
            "Bundle."
        )
    return record, np.setdiff1d(np.arange(record.n_nodes), train)
