"""What a report is about: a model's output on a graph, and the methods to compare it with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gnncal.calibration import JUDGE_ELSEWHERE, check_keep_predictions, shown_name
from gnncal.calibrators.base import Calibrator
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
from gnncal.data.estimator import check_is_fitted
from gnncal.data.nodes import Nodes, as_nodes
from gnncal.files.bundle import Bundle
from gnncal.graph.graph import Graph, class_names_of
from gnncal.keeping_cost import FREE_WITH_GRAPH, FREE_WITHOUT
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
    fitted: Calibrator | None = None  # the one of the methods that is not fitted again

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
        if ids is None:
            ids = np.arange(n_nodes)
        elif not hasattr(ids, "shape"):  # in an array of text each entry would be the longest
            ids = np.array(list(ids), dtype=object)
        self._ids = as_numpy(ids)
        if self._ids.shape != (n_nodes,):
            raise InputError(
                f"node_ids has shape {self._ids.shape} but logits has {n_nodes} rows; pass one id "
                "for each node."
            )

    def __call__(self, node: int) -> str:
        """Return the name of a node."""
        return shortened(self._ids[node])

    def find(self, wanted: Any) -> IntArray:
        """Return the nodes with these names, the first one where several have the same."""
        names = list(map(str, wanted)) if np.ndim(wanted) else [str(wanted)]
        places: dict[str, int] = {}
        if names:
            for place, name in enumerate(self._ids.tolist()):
                places.setdefault(str(name), place)
        for name in names:
            if name not in places:
                raise InputError(f"there is no node {short_repr(name)}; pass the id of a node.")
        return np.array(list(dict.fromkeys(places[name] for name in names)), dtype=np.int64)


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
    calibrator: Calibrator | None = None,
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
    if calibrator is not None:
        check_is_fitted(calibrator, "classes_")
        if methods is not DEFAULT_METHODS:
            raise InputError("methods are fitted and calibrator is not; pass one of them.")
        methods = {shown_name(calibrator): calibrator}
        class_names = class_names or getattr(calibrator, "class_names_", None)
    chosen, opened = _choose_methods(methods, keep_predictions, prefers_free, has_graph)
    if calibrator is not None:  # nothing is fitted to compare it with
        chosen = {UNCALIBRATED: chosen[UNCALIBRATED], opened: calibrator}
    names = NodeNames(node_ids, n_nodes)
    class_names = class_names_of(graph) if class_names is None else class_names
    if new is not None:
        new = _check_new_nodes(new, class_names)
        if chosen[opened].needs_graph and new[0].graph is None:
            raise InputError(f"{opened} needs a graph and new has none; pass (logits, graph).")
        check_comparable(*new, n_classes=n_classes, n_fitted_on=splits["nodes"].size)
    known = check_class_names(class_names, n_classes) or [f"class {c}" for c in range(n_classes)]
    return ReportInput(
        record,
        all_labels,
        splits["nodes"],
        splits["train_nodes"],
        test,
        chosen,
        opened,
        [shortened(name) for name in known],
        names,
        names.find(focus),
        None if positive is None else check_positive(positive, n_classes, class_names),
        new,
        calibrator,
    )


def shortened(name: Any) -> str:
    """Return a name as text, cut when it is very long."""
    text = name.decode(errors="replace") if isinstance(name, bytes) else str(name)
    return text if len(text) <= LONGEST_NAME else f"{text[: LONGEST_NAME - 1]}…"


def _choose_methods(
    methods: Methods, keep: bool | None, prefers_free: bool, has_graph: bool
) -> tuple[dict[str, Calibrator], str]:
    """Return the methods by name, the raw model first, and the one that a report opens with."""
    if keep is not None:
        FLAG.check("keep_predictions", keep)
    free, wants_free = FREE_WITH_GRAPH if has_graph else FREE_WITHOUT, prefers_free or keep is False
    if methods is DEFAULT_METHODS:
        methods = [*DEFAULT_METHODS, free] if wants_free else DEFAULT_METHODS
        if not has_graph:
            kept = [n for n in METHODS_WITHOUT_GRAPH if get_calibrator(n).preserves_predictions]
            methods = kept if keep else METHODS_WITHOUT_GRAPH
    chosen = _named(methods)
    for name, method in chosen.items():
        if method.needs_graph and not has_graph:
            raise InputError(
                f"{name} needs a graph and graph is None; pass the graph, or methods that need "
                f"none, such as {', '.join(METHODS_WITHOUT_GRAPH)}."
            )
        if keep:
            check_keep_predictions(method, True)
    names = list(chosen)
    changing = [name for name in names if not chosen[name].preserves_predictions]
    if wants_free:
        names = changing or names[-1:]
    if keep is False:
        check_keep_predictions(chosen[names[-1]], False)
    if not changing:  # one at least may change predictions, to compare with
        chosen.setdefault(free, get_calibrator(free))
    return chosen, DEFAULT_METHOD if DEFAULT_METHOD in names else names[-1]


def _named(methods: Methods) -> dict[str, Calibrator]:
    """Return the methods by their names in the catalogue, or by names of the user's own."""
    if isinstance(methods, str):
        methods = methods.split(",")
    listed = methods if isinstance(methods, Iterable) else [methods]
    named: dict[str, str | Calibrator] = dict(methods) if isinstance(methods, Mapping) else {}
    for method in () if named else listed:
        name = name_of(method) if isinstance(method, Calibrator) else resolve(method)[0]
        if named.setdefault(name, method) != method:
            raise InputError(
                f"two methods are called {name!r}; pass a mapping from names of your own to "
                "calibrators."
            )
    if not named:
        raise InputError("methods is empty; name at least one, such as 'structural'.")
    chosen: dict[str, Calibrator] = {UNCALIBRATED: get_calibrator(UNCALIBRATED)}
    for name, method in named.items():
        chosen[shortened(name)] = get_calibrator(method) if isinstance(method, str) else method
    if not isinstance(chosen[UNCALIBRATED], Uncalibrated):
        raise InputError(
            f"a method is called {UNCALIBRATED!r}, which is the model's own name; choose another."
        )
    return chosen


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
        record, train = new.unlabelled, new.train_nodes
    elif isinstance(new, (tuple, list)) and len(new) == 2:
        record, train = Nodes(*new), np.empty(0, dtype=np.int64)
    else:
        raise InputError(
            f"new is of type {type(new).__name__}; expected a pair (logits, graph), Nodes or a "
            "Bundle."
        )
    return record, np.setdiff1d(np.arange(record.n_nodes), train)
