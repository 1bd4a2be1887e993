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
from gnncal.data.arrays import IntArray
from gnncal.data.checks import check_apart, check_nodes, check_used_labels, same_class_names
from gnncal.data.errors import InputError, short_repr
from gnncal.data.estimator import check_is_fitted
from gnncal.data.nodes import NO_NODES, Nodes, as_nodes
from gnncal.files.bundle import Bundle
from gnncal.graph.graph import Graph
from gnncal.keeping_cost import FREE_WITH_GRAPH, FREE_WITHOUT
from gnncal.metrics.verdict import UNCALIBRATED

DEFAULT_METHODS = ("ts", "hots", DEFAULT_METHOD)
METHODS_WITHOUT_GRAPH = ("ts", "svs", "hts")  # the last is what a report opens with
Methods = str | Calibrator | Sequence[str | Calibrator]
LONGEST_NAME = 200  # characters of a class or node name that are kept


@dataclass(frozen=True)
class ReportInput:
    """Checked input of a report."""

    record: Nodes  # logits and graph
    labels: IntArray  # (n_nodes,) -1 where unknown
    calibration_nodes: IntArray  # calibration nodes
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
    tolerance: float | None = None  # the largest calibration error to act on

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
        splits = {"calibration_nodes": self.calibration_nodes, "train_nodes": self.train_nodes}
        return self.record.with_labels(self.labels, **splits)

    @cached_property
    def others(self) -> IntArray:
        """Nodes outside training and calibration."""
        fitted = np.concatenate([self.calibration_nodes, self.train_nodes])
        return np.delete(np.arange(self.record.n_nodes), fitted)

    @property
    def splits(self) -> dict[str, IntArray]:
        """The nodes of each split by its name."""
        return {
            "train": self.train_nodes,
            "calibration": self.calibration_nodes,
            "test": self.test_nodes,
        }


def check_splits(record: Nodes, labels: IntArray, **given: Any) -> dict[str, IntArray]:
    """Return calibration, training and test nodes by name; those that need labels have them."""
    splits = {
        name: check_nodes([] if each is None else each, record.n_nodes, name=name)
        for name, each in given.items()
    }
    for name in ("calibration_nodes", "test_nodes"):
        if not splits[name].size:
            raise InputError(
                f"{name} is empty; a report needs labelled nodes to calibrate on "
                "(calibration_nodes) and other labelled nodes to judge on (test_nodes)."
            )
        check_used_labels(labels, splits[name], record.n_classes, f"labels of {name}")
    others = {name: splits[name] for name in ("calibration_nodes", "train_nodes")}
    check_apart("test_nodes", splits["test_nodes"], others, advice=JUDGE_ELSEWHERE)
    return splits


def shortened(name: Any) -> str:
    """Return a name as text, cut when it is very long."""
    text = name.decode(errors="replace") if isinstance(name, bytes) else str(name)
    return text if len(text) <= LONGEST_NAME else f"{text[: LONGEST_NAME - 1]}…"


def rows_of(wanted: Sequence[Any], ids: npt.NDArray[Any]) -> IntArray:
    """Return the nodes with these names, the first one where several have the same."""
    places: dict[str, int] = {}
    for place, name in enumerate(ids.tolist() if len(wanted) else ()):
        places.setdefault(str(name), place)
    for name in wanted:
        if str(name) not in places:
            raise InputError(f"unknown node {short_repr(str(name))}; pass the id of a node.")
    return np.array(list(dict.fromkeys(places[str(name)] for name in wanted)), dtype=np.int64)


def choose_methods(
    methods: Methods, calibrator: Calibrator | None, has_positive: bool, has_graph: bool
) -> tuple[dict[str, Calibrator], str]:
    """Return the methods by name, the raw model first, and the one that a report opens with."""
    if calibrator is not None:
        check_is_fitted(calibrator, "classes_")
        if methods is not DEFAULT_METHODS:
            raise InputError("methods and calibrator exclude each other; pass one of them.")
        opened = shown_name(calibrator)
        return {UNCALIBRATED: get_calibrator(UNCALIBRATED), opened: calibrator}, opened
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


def check_new_nodes(
    new: Any, class_names: Sequence[str] | None, name: str, method: Calibrator
) -> tuple[Nodes, IntArray]:
    """Return new nodes that a method can calibrate, and which of them it was not trained on."""
    if isinstance(new, Bundle):
        same_class_names(new.class_names, class_names)
        record, trained = Nodes(new.logits, new.graph), new.train_nodes
    else:
        record, trained = as_nodes(*new) if isinstance(new, tuple) else as_nodes(new), NO_NODES
    if method.needs_graph and record.graph is None:
        raise InputError(f"{name} needs a graph and new has none; pass (logits, graph).")
    return record, np.setdiff1d(np.arange(record.n_nodes), trained)
