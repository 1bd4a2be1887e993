"""What a report is about: a model's output on a graph, and the methods to compare it with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from gnncal.calibration import JUDGE_ELSEWHERE, shown_name
from gnncal.calibrators.base import Calibrator
from gnncal.calibrators.registry import DEFAULT_METHOD, get_calibrator, name_of
from gnncal.data.arrays import FloatArray, IntArray
from gnncal.data.checks import (
    check_apart,
    check_class_names,
    check_labels,
    check_nodes,
    check_positive,
    check_used_labels,
    same_class_names,
)
from gnncal.data.errors import InputError, short_repr
from gnncal.data.estimator import check_is_fitted
from gnncal.data.nodes import Nodes, as_nodes, check_node_ids
from gnncal.files.bundle import Bundle
from gnncal.graph.graph import Graph, class_names_of
from gnncal.keeping_cost import FREE_WITH_GRAPH, FREE_WITHOUT
from gnncal.metrics.verdict import UNCALIBRATED
from gnncal.shift.check import check_comparable

DEFAULT_METHODS = ("ts", "hots", DEFAULT_METHOD)
METHODS_WITHOUT_GRAPH = ("ts", "svs", "hts")  # the last is what a report opens with
Methods = str | Calibrator | Sequence[str | Calibrator]
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
    node_ids: npt.NDArray[Any]  # (n_nodes,) the users' names of nodes, their numbers by default
    focus: IntArray  # nodes that the user wants to see
    positive: int | None = None  # the class that matters, if one does
    new: tuple[Nodes, IntArray] | None = None  # nodes to compare with, and which of them
    fitted: Calibrator | None = None  # the one of the methods that is not fitted again

    def name_of(self, node: int) -> str:
        """Return the name of a node as text."""
        return shortened(self.node_ids[node])

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


def check_input(
    logits: Any,
    labels: Any,
    graph: Any,
    *,
    nodes: Any,
    train_nodes: Any = None,
    test_nodes: Any,
    methods: Methods = DEFAULT_METHODS,
    class_names: Sequence[str] | None = None,
    node_ids: Any = None,
    focus: Sequence[Any] = (),
    positive: Any = None,
    new: Any = None,
    calibrator: Calibrator | None = None,
) -> ReportInput:
    """Check everything that a report reads, before any work is done."""
    record = as_nodes(logits, graph)
    n_nodes, n_classes = record.n_nodes, record.n_classes
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
    if calibrator is None:
        chosen, opened = _choose_methods(methods, positive is not None, record.graph is not None)
    else:
        check_is_fitted(calibrator, "classes_")
        if methods is not DEFAULT_METHODS:
            raise InputError("methods are fitted and calibrator is not; pass one of them.")
        opened = shown_name(calibrator)
        chosen = {UNCALIBRATED: get_calibrator(UNCALIBRATED), opened: calibrator}
        class_names = class_names or getattr(calibrator, "class_names_", None)
    class_names = class_names_of(graph) if class_names is None else class_names
    if new is not None:
        new = _check_new_nodes(new, class_names)
        if chosen[opened].needs_graph and new[0].graph is None:
            raise InputError(f"{opened} needs a graph and new has none; pass (logits, graph).")
        check_comparable(*new, n_classes=n_classes, n_fitted_on=splits["nodes"].size)
    known = check_class_names(class_names, n_classes) or [f"class {c}" for c in range(n_classes)]
    ids = check_node_ids(node_ids, n_nodes)
    ids = np.arange(n_nodes) if ids is None else ids
    return ReportInput(
        record,
        all_labels,
        splits["nodes"],
        splits["train_nodes"],
        test,
        chosen,
        opened,
        [shortened(name) for name in known],
        ids,
        _rows_of(focus, ids),
        None if positive is None else check_positive(positive, n_classes, class_names),
        new,
        calibrator,
    )


def shortened(name: Any) -> str:
    """Return a name as text, cut when it is very long."""
    text = name.decode(errors="replace") if isinstance(name, bytes) else str(name)
    return text if len(text) <= LONGEST_NAME else f"{text[: LONGEST_NAME - 1]}…"


def _rows_of(wanted: Sequence[Any], ids: npt.NDArray[Any]) -> IntArray:
    """Return the nodes with these names, the first one where several have the same."""
    places: dict[str, int] = {}
    for place, name in enumerate(ids.tolist() if len(wanted) else ()):
        places.setdefault(str(name), place)
    for name in wanted:
        if str(name) not in places:
            raise InputError(f"there is no node {short_repr(str(name))}; pass the id of a node.")
    return np.array(list(dict.fromkeys(places[str(name)] for name in wanted)), dtype=np.int64)


def _choose_methods(
    methods: Methods, has_positive: bool, has_graph: bool
) -> tuple[dict[str, Calibrator], str]:
    """Return the methods by name, the raw model first, and the one that a report opens with."""
    free = FREE_WITH_GRAPH if has_graph else FREE_WITHOUT
    if methods is DEFAULT_METHODS:
        methods = (*DEFAULT_METHODS, free) if has_graph else METHODS_WITHOUT_GRAPH
    chosen = {UNCALIBRATED: get_calibrator(UNCALIBRATED)}
    for each in methods if isinstance(methods, list | tuple) else [methods]:
        method = each if isinstance(each, Calibrator) else get_calibrator(each)  # type: ignore[arg-type]
        name = name_of(method)
        if name in chosen and name != UNCALIBRATED:
            raise InputError(f"two methods are called {name!r}; make a report on each of them.")
        if method.needs_graph and not has_graph:
            raise InputError(
                f"{name} needs a graph and graph is None; pass the graph, or methods that need "
                f"none, such as {', '.join(METHODS_WITHOUT_GRAPH)}."
            )
        chosen[name] = method
    if not methods:
        raise InputError("methods is empty; name at least one, such as 'structural'.")
    names = list(chosen)
    changing = [name for name in names if not chosen[name].preserves_predictions]
    if has_positive and changing:  # its probability matters, not the boundary between the classes
        names = changing
    if not changing:  # one at least may change predictions, to compare with
        chosen[free] = get_calibrator(free)
    return chosen, DEFAULT_METHOD if DEFAULT_METHOD in names else names[-1]


def _check_new_nodes(new: Any, known: Sequence[str] | None) -> tuple[Nodes, IntArray]:
    """Return new nodes, and which of them the model was not trained on."""
    if not isinstance(new, Bundle):
        record = as_nodes(*new) if isinstance(new, tuple) else as_nodes(new)
        return record, np.arange(record.n_nodes)
    same_class_names(new.class_names, known)
    record = Nodes(new.logits, new.graph)
    return record, np.setdiff1d(np.arange(record.n_nodes), new.train_nodes)
