"""What policies and prediction sets share: fit, refresh, save and load.

A fit rests on calibration nodes. A file keeps their ids and labels and the attributes that
``state_spec`` names; loading checks these and computes everything else again, so a file cannot
contradict itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from gnncal.data import checks, constraints
from gnncal.data.arrays import BoolArray, FloatArray, IntArray, as_numpy
from gnncal.data.constraints import FLAG, Array, Constraint, LearnedTable, integer
from gnncal.data.errors import InputError, short_repr, warn
from gnncal.data.estimator import Estimator, check_is_fitted
from gnncal.data.nodes import check_graph
from gnncal.decisions.costs import Costs
from gnncal.decisions.guarantees import Guarantee
from gnncal.files.format import ReadTensor, Tensors, pack, unpack, write_saved
from gnncal.files.saved_calibrators import provenance
from gnncal.graph.graph import Graph

Keys = npt.NDArray[np.uint64]
MOST_MISSING = 20  # at most one in so many calibration nodes may be missing in a refresh
TEXT_KEY = b"gnncal node id"  # texts and whole numbers are different nodes


class Decision(Estimator, ABC):
    """Base of policies and prediction sets: checked parameters, and a fit that can be saved."""

    kind: ClassVar[str]  # the name that a file has for it
    constraints: ClassVar[LearnedTable]  # what each parameter may be
    state_spec: ClassVar[LearnedTable]  # what each attribute that is saved may be

    n_classes_: int
    class_names_: list[str] | None
    made_: dict[str, Any]  # date, version, and what tells whose probabilities were fitted
    report_: Any
    _keys: Keys  # (n,) ids of the calibration nodes, or their rows
    _labels: IntArray  # (n,)
    _n_rows: int  # of the fit, calibration nodes and others
    _has_ids: bool  # whether the fit was given ids
    _known: Keys  # (m,) ids of all nodes of the fit, sorted; none without ids
    _n_known: int  # rows of the fit, which a refresh does not change

    @property
    def calibrator_(self) -> str | None:
        """Checksum of the calibrator that was passed to ``fit``; None if none was."""
        return self.made_.get("calibrator", {}).get("checksum")

    def refresh(self, probs: Any, graph: Any = None, *, ids: Any = None) -> Self:
        """Return a copy, certified with the same calibration nodes on the current graph.

        ``probs`` are the probabilities of all current nodes. The guarantee holds for these nodes if
        the calibration nodes are a random sample of them (NodeEx: Zargarbashi, Bojchevski, ICLR
        2024). If ``fit`` was given ids, pass ids here too; up to one in 20 calibration nodes may
        have left the graph since then. Without ids, the first rows must be the rows of ``fit``.
        """
        check_is_fitted(self, "report_")
        checked = self._checked_probs(probs)
        n_nodes, n_known = len(checked), self._keys.size
        if (ids is not None) != self._has_ids:
            raise InputError(
                f"fit was given {'' if self._has_ids else 'no '}ids, unlike refresh; pass ids "
                "(node_ids of the .npz) to both, or to neither if the rows of fit come first."
            )
        if ids is None and n_nodes < self._n_rows:
            raise InputError(
                f"probs has {n_nodes:,} rows but fit had {self._n_rows:,}; without ids, probs must "
                "begin with the rows of fit. If nodes can leave, pass ids to fit and refresh."
            )
        keys = node_keys(ids, n_nodes)
        _, mine, rows = np.intersect1d(self._keys, keys, assume_unique=True, return_indices=True)
        if mine.size == 0:
            raise InputError("ids has no calibration node; pass ids made like those of fit.")
        if MOST_MISSING * (n_known - mine.size) > n_known:
            raise InputError(
                f"{n_known - mine.size:,} of {n_known:,} calibration nodes are missing, more than "
                f"one in {MOST_MISSING}, and the others need not be a random sample; pass the "
                "probabilities and ids of the whole graph, or certify again with new labels."
            )
        if mine.size < n_known:
            warn(
                f"{n_known - mine.size:,} of {n_known:,} calibration nodes have left the graph; "
                "the guarantee now rests on the others, and holds if calibration nodes are as "
                "likely to leave as all other nodes."
            )
        order, refreshed = np.argsort(mine), copy(self)  # that of the fit
        rows, refreshed._labels = rows[order], self._labels[mine[order]]
        refreshed._keys, refreshed._n_rows = keys[rows], n_nodes
        refreshed._refit(checked, check_graph(graph, n_nodes), keys, rows)
        return refreshed

    def _joined(self, ids: Any, n_nodes: int) -> BoolArray:
        """Return which nodes were not in the graph of the fit; none if ids do not tell."""
        if (ids is not None) != self._has_ids:
            return np.zeros(n_nodes, dtype=np.bool_)
        if ids is None:
            return np.arange(n_nodes) >= self._n_known
        return ~np.isin(node_keys(ids, n_nodes), self._known)

    def save(self, path: str | Path) -> None:
        """Write the fit to a safetensors file, which :func:`gnncal.load` reads."""
        check_is_fitted(self, "report_")
        tensors: Tensors = {}
        state = {name: getattr(self, name) for name in (*SHARED_SPEC, *self.state_spec)}
        header = {
            "decision": self.kind,
            "n_classes": self.n_classes_,
            "class_names": self.class_names_,
            "params": pack(self.get_params(deep=False), "params", tensors, _pack_part),
            "fit": pack(state, "fit", tensors, _pack_part),
        }
        write_saved(path, header, tensors)

    def __str__(self) -> str:
        return self.report_.sentence if hasattr(self, "report_") else repr(self)

    def _check_params(self) -> None:
        """Check the parameters of the constructor, which ``fit`` does first."""
        for name, constraint in self.constraints.items():
            constraint.check(name, getattr(self, name))

    def _begin(
        self, given: tuple[Any, ...], *, is_cross_fitted: bool = False
    ) -> tuple[FloatArray, Keys, IntArray]:
        """Check what a fit is given and set what it rests on; return probs, keys and rows."""
        self._check_params()
        probs, labels, calibration_nodes, ids, class_names, calibrator = given
        checked = checks.check_probs(probs)
        n_nodes, n_classes = checked.shape
        rows = checks.check_nodes(calibration_nodes, n_nodes, name="calibration_nodes")
        if rows.size == 0:
            raise InputError("the calibration set is empty; pass nodes whose labels are known.")
        known = checks.check_labels(labels, n_nodes)
        used = checks.check_used_labels(known, rows, n_classes, "labels of calibration_nodes")
        self.class_names_ = checks.check_class_names(class_names, n_classes)
        self.n_classes_ = n_classes
        n_fitted, fitted = getattr(calibrator, "calibration_rows_", (0, rows))
        n_seen = int(np.isin(rows, fitted).sum()) if n_fitted == n_nodes else 0
        if n_seen and not is_cross_fitted:
            raise InputError(
                f"{n_seen:,} of {rows.size:,} calibration nodes were used to fit the calibrator, "
                "so they cannot certify a guarantee; split the labelled nodes with "
                "gnncal.decisions.hold_out first."
            )
        keys, self.made_ = node_keys(ids, n_nodes), provenance(calibrator)
        self._keys, self._labels = keys[rows], used
        self._n_rows, self._has_ids = n_nodes, ids is not None
        self._n_known, self._known = n_nodes, np.sort(keys) if self._has_ids else keys[:0]
        return checked, keys, rows

    def _checked_probs(self, probs: Any) -> FloatArray:
        """Return probabilities of as many classes as ``fit`` had."""
        checked = checks.check_probs(probs)
        if checked.shape[1] != self.n_classes_:
            raise InputError(
                f"probs has {checked.shape[1]} columns but those of fit had {self.n_classes_}; "
                "pass one column for each class."
            )
        return checked

    @abstractmethod
    def _refit(self, probs: FloatArray, graph: Graph | None, keys: Keys, rows: IntArray) -> None:
        """Set what ``fit`` sets, from the probabilities of today."""

    @abstractmethod
    def _conclude(self) -> None:
        """Set what follows from the attributes that are saved."""


IS_DICT: Constraint = Constraint("a dictionary", lambda value: isinstance(value, dict))
SHARED_SPEC: LearnedTable = {
    "made_": IS_DICT,
    "_keys": Array("calibration", low=0, whole=True),
    "_labels": Array("calibration", low=0, high="K-1", whole=True),
    "_n_rows": integer(at_least=1),
    "_has_ids": FLAG,
    "_known": Array("known", low=0, whole=True, may_be_empty=True),
    "_n_known": integer(at_least=1),
}
PARTS: dict[str, type[Any]] = {"costs": Costs, "guarantee": Guarantee}  # of parameters


def rebuild(header: dict[str, Any], tensor: ReadTensor) -> Decision:
    """Return the object of a header; every value is checked before it is used."""
    name, n_classes = header["decision"], header["n_classes"]
    kinds = {kind.kind: kind for kind in Decision.__subclasses__()}
    if not isinstance(name, str) or name not in kinds:
        raise InputError(
            f"it holds a {short_repr(name)} for decisions, which this gnncal does not know; "
            "upgrade gnncal to read it."
        )
    params, state = (
        unpack(header[part], tensor, lambda kind, plain: PARTS[kind](**plain))
        for part in ("params", "fit")
    )
    integer(at_least=2).check("n_classes", n_classes)
    decision: Decision = kinds[name]()
    unknown = sorted(set(params) ^ set(decision.get_params(deep=False)))
    if unknown:
        raise InputError(f"its type {name!r} has other parameters, such as {unknown[0]!r}.")
    decision.set_params(**params)
    decision._check_params()
    constraints.check_learned({**SHARED_SPEC, **decision.state_spec}, state, {"K": n_classes})
    keys, n_rows = state["_keys"], state["_n_rows"]
    if keys.dtype != np.uint64 or not np.unique(keys).size == keys.size <= n_rows:
        raise InputError(f"_keys are not those of {keys.size} of {n_rows} nodes.")
    vars(decision).update(state, n_classes_=n_classes)
    decision.class_names_ = checks.check_class_names(header["class_names"], n_classes)
    decision._conclude()
    return decision


def _pack_part(value: Any) -> tuple[str, Any] | None:
    """Return costs or a guarantee as its fields."""
    return next(((name, vars(value)) for name, kind in PARTS.items() if type(value) is kind), None)


def check_truth(labels: Any, n_nodes: int, n_classes: int) -> IntArray:
    """Return the classes of nodes, all of them known."""
    return checks.check_used_labels(
        checks.check_labels(labels, n_nodes), np.arange(n_nodes), n_classes, "labels"
    )


def node_keys(ids: Any, n_nodes: int) -> Keys:
    """Return one 64-bit key for each id, (n_nodes,); without ids those of the rows 0..n_nodes-1."""
    if ids is None:
        return np.arange(n_nodes, dtype=np.uint64)
    array = as_numpy(ids)
    if array.dtype.kind in "OT" and array.ndim == 1:  # texts and numbers of a data frame
        values = array.tolist()
        if {type(value) for value in values} in ({str}, {int}):
            array = np.array(values)
    if array.dtype.kind not in "iuU" or array.shape != (n_nodes,):
        raise InputError(
            f"ids has dtype {array.dtype} and shape {array.shape}; expected whole numbers or "
            f"texts, one for each of the {n_nodes} rows of probs."
        )
    values, counts = np.unique(array, return_counts=True)
    if values.size != n_nodes:
        raise InputError(
            f"ids has {short_repr(values[counts > 1][0])} more than once; pass each node once."
        )
    if array.dtype.kind in "iu":
        return array.astype(np.uint64)  # negative ones wrap around, which keeps them different
    texts = (text.encode(errors="surrogatepass") for text in array.tolist())
    digests = b"".join(blake2b(text, digest_size=8, key=TEXT_KEY).digest() for text in texts)
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)
