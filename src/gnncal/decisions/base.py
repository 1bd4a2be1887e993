"""What policies and prediction sets share: fit, refresh, save, and a report with a sentence.

A fit rests on calibration nodes. A file keeps their ids and labels with the numbers in ``_facts``;
``_restore`` checks these and computes everything else again, so a file cannot contradict itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from dataclasses import dataclass, fields
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from gnncal.data.arrays import FloatArray, IntArray, as_numpy
from gnncal.data.checks import (
    check_class_names,
    check_labels,
    check_nodes,
    check_probs,
    check_used_labels,
)
from gnncal.data.constraints import (
    FLAG,
    Array,
    Constraint,
    LearnedTable,
    check_learned,
    integer,
)
from gnncal.data.errors import InputError, short_repr, warn
from gnncal.data.estimator import Estimator, check_is_fitted
from gnncal.data.nodes import check_graph
from gnncal.files.format import ReadTensor, Tensors, pack, unpack, write_saved
from gnncal.graph.graph import Graph

Keys = npt.NDArray[np.uint64]
TEXT_KEY = b"gnncal node id"  # texts and whole numbers are different nodes
POOL = (
    "This holds for nodes of the same pool as the calibration nodes, if those were drawn from it "
    "at random. It does not hold for nodes that join the graph later, if the graph or the rates of "
    "the classes drift with time, or if only special nodes were labelled."
)
CALIBRATION_FACTS: LearnedTable = {
    "calibration_keys": Array("calibration", low=0, whole=True),
    "calibration_labels": Array("calibration", low=0, high="K-1", whole=True),
    "n_rows": integer(at_least=1),
    "has_ids": FLAG,
}


@dataclass(frozen=True, eq=False)
class CalibrationNodes:
    """The calibration nodes of a fit: their ids as 64-bit keys, or their rows, and their labels."""

    keys: Keys  # (n,)
    labels: IntArray  # (n,)
    n_rows: int  # of the fit, calibration nodes and others
    has_ids: bool  # whether the fit was given ids; the keys are rows otherwise

    @property
    def has_others(self) -> bool:
        """Whether the fit saw more nodes than these, which makes its rows the nodes of a graph."""
        return self.n_rows > self.labels.size

    def facts(self) -> dict[str, Any]:
        """Return what a saved file has of them."""
        return dict(
            zip(CALIBRATION_FACTS, (self.keys, self.labels, self.n_rows, self.has_ids), strict=True)
        )

    @classmethod
    def restored(cls, facts: dict[str, Any]) -> Self:
        """Return the nodes of a file."""
        keys, labels, n_rows, has_ids = (facts[name] for name in CALIBRATION_FACTS)
        if np.unique(keys).size != keys.size or keys.dtype != np.uint64 or n_rows < keys.size:
            raise InputError(f"calibration_keys are not those of {labels.size} of {n_rows} nodes.")
        return cls(keys, labels.astype(np.int64), n_rows, has_ids)

    def found(self, n_nodes: int, ids: Any) -> tuple[Keys, IntArray, CalibrationNodes]:
        """Find these nodes among those of today."""
        if ids is None and self.has_ids:
            raise InputError(
                "ids is missing: fit was given ids, which say where its nodes are today; pass "
                "refresh(probs, graph, ids=...)."
            )
        if ids is None and n_nodes < self.n_rows:
            raise InputError(
                f"probs has {n_nodes:,} rows but fit had {self.n_rows:,}; without ids the rows of "
                "today begin with those of fit. Where nodes leave the graph, fit with ids=... and "
                "refresh with ids=... too."
            )
        if ids is not None and not self.has_ids:
            raise InputError(
                "fit was given no ids, so nobody knows which ids its calibration nodes have; fit "
                "with ids=..., or refresh without ids and with the rows of fit first."
            )
        today = node_keys(ids, n_nodes)
        order = np.argsort(today)
        places = np.searchsorted(today, self.keys, sorter=order)
        rows = order[np.minimum(places, n_nodes - 1)]
        there = today[rows] == self.keys
        n_left = int((~there).sum())
        if n_left == self.keys.size:
            raise InputError(
                f"none of the {n_left:,} calibration nodes is among the {n_nodes:,} nodes of today "
                "by its id; pass ids made like those of fit."
            )
        if n_left:
            warn(
                f"{n_left:,} of {self.keys.size:,} calibration nodes have left the graph; the "
                "guarantee rests on the others, and holds if nodes leave whether they were chosen "
                "for calibration or not."
            )
        rows = rows[there]
        kept = CalibrationNodes(today[rows], self.labels[there], n_nodes, ids is not None)
        return today, rows, kept


class Decision(Estimator, ABC):
    """Base of what decides by calibration nodes: parameters with constraints, and a saved fit."""

    constraints: ClassVar[dict[str, Constraint]]  # what each parameter may be
    saved_facts: ClassVar[LearnedTable]  # what each number of a fit may be

    n_classes_: int
    class_names_: list[str]
    calibrator_: str | None  # checksum of the calibrator whose probabilities were fitted
    report_: Any
    _calibration: CalibrationNodes

    def refresh(self, probs: Any, graph: Any = None, *, ids: Any = None) -> Self:
        """Certify again, by the same calibration nodes on the graph of today.

        When nodes join, the probabilities of the calibration nodes change with their neighbours.
        The guarantee holds again for all nodes of today, if it is a matter of chance which of them
        became calibration nodes (NodeEx: Zargarbashi, Bojchevski, ICLR 2024).

        Parameters
        ----------
        probs : array_like of shape (n_nodes, n_classes)
            Probabilities of all nodes of today, made like those of ``fit``. Without ids the rows
            of ``fit`` come first, in their order, and new nodes after them.
        graph : Graph or torch_geometric.data.Data, optional
            The graph of today, for scores of sets that need one.
        ids : array_like of shape (n_nodes,), optional
            The name of each node, made like those of ``fit``. With ids, rows may come in any
            order, and nodes may have left.

        Returns
        -------
        Decision
            Another object with the thresholds of today; this one stays as it is.

        Raises
        ------
        InputError
            If the calibration nodes cannot be found.

        """
        check_is_fitted(self, "report_")
        checked = self._checked_probs(probs)
        known = check_graph(graph, len(checked))
        keys, rows, calibration = self._calibration.found(len(checked), ids)
        refreshed = copy(self)
        refreshed._refresh(checked, known, keys, rows, calibration)
        return refreshed

    def save(self, path: str | Path, *, class_names: Any = None) -> None:
        """Write the fit to one safetensors file, atomically and without pickle.

        Parameters
        ----------
        path : str or Path
            The file to write; :func:`gnncal.load` reads it.
        class_names : list of str, optional
            A name for each class, kept in the file.

        Raises
        ------
        InputError
            If the file cannot be named or a value cannot be saved.

        """
        check_is_fitted(self, "n_classes_")
        names = getattr(self, "class_names_", None) if class_names is None else class_names
        kind = next((name for name, kind in _kinds().items() if type(self) is kind), None)
        if kind is None:
            raise InputError(
                f"{type(self).__name__} is not one of gnncal's own classes for decisions, so a "
                "file cannot name it."
            )
        tensors: Tensors = {}
        facts = {**self._facts(), **self._calibration.facts(), "calibrator": self.calibrator_}
        header = {
            "decision": kind,
            "n_classes": self.n_classes_,
            "class_names": check_class_names(names, self.n_classes_),
            "params": pack(self.get_params(deep=False), "params", tensors, _pack_part),
            "fit": pack(facts, "fit", tensors, _pack_part),
        }
        write_saved(path, header, tensors)

    def _check_params(self) -> None:
        """Check the parameters of the constructor, which ``fit`` does first."""
        for name, constraint in self.constraints.items():
            constraint.check(name, getattr(self, name))

    def __str__(self) -> str:
        return self.report_.sentence if hasattr(self, "report_") else repr(self)

    def _begin(
        self, probs: Any, labels: Any, nodes: Any, ids: Any, class_names: Any, calibrator: Any
    ) -> tuple[FloatArray, Keys, IntArray]:
        """Check what a fit is given and set what it rests on; return probs, keys and rows."""
        self._check_params()
        checked = check_probs(probs)
        n_nodes, n_classes = checked.shape
        rows = check_nodes(nodes, n_nodes)
        if rows.size == 0:
            raise InputError(
                "there is no calibration node; pass nodes with known labels that the model and its "
                "calibrator have not seen."
            )
        known = check_labels(labels, n_nodes)
        used = check_used_labels(known, rows, n_classes, "labels of nodes")
        names = check_class_names(class_names, n_classes)
        keys = node_keys(ids, n_nodes)
        self.__dict__.pop("class_names_", None)
        if names is not None:
            self.class_names_ = names
        self.n_classes_ = n_classes
        self.calibrator_ = None if calibrator is None else _checksum(calibrator, n_nodes, rows)
        self._calibration = CalibrationNodes(keys[rows], used, n_nodes, ids is not None)
        return checked, keys, rows

    def _checked_probs(self, probs: Any) -> FloatArray:
        """Return probabilities of as many classes as ``fit`` had."""
        checked = check_probs(probs)
        if checked.shape[1] != self.n_classes_:
            raise InputError(
                f"probs has {checked.shape[1]} columns but those of fit had {self.n_classes_}; "
                "pass one column for each class."
            )
        return checked

    @abstractmethod
    def _refresh(
        self,
        probs: FloatArray,
        graph: Graph | None,
        keys: Keys,
        rows: IntArray,
        calibration: CalibrationNodes,
    ) -> Any:
        """Set what ``fit`` sets, from the probabilities of today."""

    @abstractmethod
    def _facts(self) -> dict[str, Any]:
        """Return the numbers that make up the fit, those of ``saved_facts``."""

    @abstractmethod
    def _restore(self, facts: dict[str, Any]) -> None:
        """Set what ``fit`` sets; each of the facts fits ``saved_facts``, not yet the others."""


def check_truth(labels: Any, n_nodes: int, n_classes: int) -> IntArray:
    """Return the classes of nodes, all of them known."""
    return check_used_labels(check_labels(labels, n_nodes), np.arange(n_nodes), n_classes, "labels")


def node_keys(ids: Any, n_nodes: int) -> Keys:
    """Return one 64-bit key for each id, (n_nodes,); without ids those of the rows 0..n_nodes-1."""
    if ids is None:
        return np.arange(n_nodes, dtype=np.uint64)
    if isinstance(ids, str | bytes | dict | set):
        raise InputError(f"ids is {short_repr(ids)}; pass a list or an array, one id for each row.")
    array = as_numpy(ids)
    if array.dtype.kind in "OT" and array.ndim == 1:
        values = array.tolist()
        if {type(value) for value in values} == {str}:
            array = array.astype(str)
        elif all(type(value) is int and -(2**63) <= value < 2**64 for value in values):
            array = np.array([value % 2**64 for value in values], dtype=np.uint64)
    if array.dtype.kind not in "iuUS" and array.size:
        raise InputError(
            f"ids has dtype {array.dtype}; expected whole numbers or texts, one for each row."
        )
    if array.shape != (n_nodes,):
        raise InputError(
            f"ids has shape {array.shape} but probs has {n_nodes} rows; pass one id for each row."
        )
    values, counts = np.unique(array, return_counts=True)
    if values.size != n_nodes:
        raise InputError(
            f"ids has {short_repr(values[counts > 1][0])} more than once; pass each node once, "
            "because nodes with one id would share one random number."
        )
    if array.dtype.kind in "iu":
        return array.astype(np.uint64)  # negative ones wrap around, which keeps them different
    return np.array([_text_key(text) for text in array.tolist()], dtype=np.uint64)


def _text_key(text: str | bytes) -> int:
    data = text if isinstance(text, bytes) else text.encode(errors="surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=8, key=TEXT_KEY).digest(), "little")


def _checksum(calibrator: Any, n_nodes: int, rows: IntArray) -> str:
    """Return the calibrator's checksum; refuse nodes that it was fitted on."""
    from gnncal.files.saved_calibrators import checksum

    fitted = getattr(calibrator, "calibration_rows_", None)
    n_seen = 0
    if fitted is not None and fitted[0] == n_nodes:
        n_seen = int(np.isin(rows, fitted[1]).sum())
    if n_seen:
        raise InputError(
            f"{n_seen:,} of {rows.size:,} calibration nodes were used to fit the calibrator, "
            "which looks better on them than elsewhere, so they certify nothing; split the "
            "labelled nodes with gnncal.decisions.hold_out first."
        )
    return checksum(calibrator)


def rebuild(header: dict[str, Any], tensor: ReadTensor) -> Decision:
    """Return the object of a header; every value is checked before it is used."""
    name, n_classes = header["decision"], header["n_classes"]
    if not isinstance(name, str) or name not in _kinds():
        raise InputError(
            f"it holds a {short_repr(name)} for decisions, which this gnncal does not know; "
            "upgrade gnncal to read it."
        )
    params = unpack(header["params"], tensor, _unpack_part)
    facts = unpack(header["fit"], tensor, _unpack_part)
    integer(at_least=2).check("n_classes", n_classes)
    decision = _kinds()[name]()
    unknown = sorted(set(params) ^ set(decision.get_params(deep=False)))
    if unknown:
        raise InputError(f"it has other parameters than a {name} has, such as {unknown[0]!r}.")
    decision.set_params(**params)
    decision._check_params()
    calibrator = facts.pop("calibrator")
    if calibrator is not None and not isinstance(calibrator, str):
        raise InputError(f"the calibrator's checksum is {short_repr(calibrator)}; expected a text.")
    check_learned({**decision.saved_facts, **CALIBRATION_FACTS}, facts, {"K": n_classes})
    decision.n_classes_, decision.calibrator_ = n_classes, calibrator
    names = check_class_names(header["class_names"], n_classes)
    if names is not None:
        decision.class_names_ = names
    decision._calibration = CalibrationNodes.restored(facts)
    decision._restore(facts)
    return decision


def _kinds() -> dict[str, type[Decision]]:
    """Return the classes that a file can name."""
    from gnncal.decisions.policy import Policy  # made of what this file has
    from gnncal.decisions.sets import ConformalClassifier

    return {"conformal": ConformalClassifier, "policy": Policy}


def _parts() -> dict[str, type[Any]]:
    """Return the values that parameters may be made of, by the name that a file has for them."""
    from gnncal.decisions.costs import Costs
    from gnncal.decisions.guarantees import Guarantee
    from gnncal.decisions.scores import SCORES

    return {"costs": Costs, "guarantee": Guarantee, **SCORES}


def _pack_part(value: Any) -> tuple[str, Any] | None:
    """Return costs, a guarantee or a score as its fields."""
    for name, kind in _parts().items():
        if type(value) is kind:
            return name, {field.name: getattr(value, field.name) for field in fields(kind)}
    if hasattr(value, "scores"):
        raise InputError(
            f"{type(value).__name__} is not one of gnncal's scores, so a file cannot name it; keep "
            "the code that makes it, and fit again."
        )
    return None


def _unpack_part(kind: str, plain: Any) -> Any:
    return _parts()[kind](**plain)
