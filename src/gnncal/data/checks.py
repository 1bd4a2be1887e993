"""Input checks: each returns a clean array or raises one clear sentence before any work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from numbers import Integral, Number
from typing import Any

import numpy as np
import numpy.typing as npt

from gnncal.data.arrays import FloatArray, IntArray, as_numpy
from gnncal.data.constraints import is_whole
from gnncal.data.errors import InputError, short_repr, warn

UNKNOWN = -1  # the label of a node whose class is not known; no other number means that
ONE_COLUMN = (
    "for a sigmoid model with one logit z or probability p for each node, stack [0, z] or "
    "[1 - p, p] as two columns"
)
ROW_SUM_TOLERANCE = 1e-3  # float16 probabilities over a few dozen classes still pass


def check_logits(logits: Any) -> FloatArray:
    """Return logits (n_nodes, n_classes) of finite floats; float32 stays float32."""
    return _float_matrix(logits, "logits")


def warn_if_probabilities(logits: FloatArray) -> bool:
    """Warn when every row of the logits could be a probability vector; return whether it can."""
    if len(logits) == 0 or logits.min() < 0 or logits.max() > 1:
        return False
    if np.abs(logits.sum(axis=1) - 1).max() >= ROW_SUM_TOLERANCE:
        return False
    warn(
        "every row of logits lies in [0, 1] and sums to one: these look like "
        "probabilities. Pass raw logits, or gnncal.calibrators.logits_from_probabilities(probs)."
    )
    return True


def warn_about_edge_weights(what: str) -> None:
    """Warn that weights of edges, found under this name, play no part."""
    warn(f"edge weights ({what}) are ignored: every edge counts once.")


def check_probs(probs: Any) -> FloatArray:
    """Return probabilities (n_nodes, n_classes), not negative, whose rows sum to one."""
    array = _float_matrix(probs, "probs")
    if len(array) == 0:
        raise InputError("probs has no rows; pass at least one node.")
    hint = "pass probabilities, not logits: gnncal.calibrators.softmax(logits)"
    if array.min() < 0:
        raise InputError(f"probs contains negative values (smallest {array.min():.3g}); {hint}.")
    worst = float(np.abs(array.sum(axis=1) - 1).max())
    if worst > ROW_SUM_TOLERANCE:
        if array.max() <= 1:
            hint += (
                ". If each column is a probability of its own (sigmoid, multi-label), pass one "
                "column p at a time as two, [1 - p, p]"
            )
        raise InputError(f"rows of probs do not sum to one (off by up to {worst:.3g}); {hint}.")
    return array


def check_labels(labels: Any, n_nodes: int) -> IntArray:
    """Return labels (n_nodes,) as integers; -1 marks an unknown label."""
    if labels is None:
        raise InputError(
            "labels is missing (requires y to be passed, but the target y is None); pass one "
            "label per node, -1 where unknown."
        )
    array = as_numpy(labels)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.shape != (n_nodes,):
        raise InputError(
            f"labels has shape {array.shape} but logits has {n_nodes} rows; pass one label per "
            f"node, -1 where unknown.{_several_labels_hint(array)}"
        )
    if array.dtype.kind not in "iubf":
        raise InputError(
            f"Unknown label type: labels has dtype {array.dtype}; expected integers 0..K-1, -1 "
            "where unknown (encode class names first)."
        )
    if array.dtype.kind == "f":
        if not np.isfinite(array).all():
            raise InputError("labels contains NaN or infinity; write -1 where a label is unknown.")
        if not (array == np.floor(array)).all():
            raise InputError("Unknown label type: labels has fractions; pass classes 0..K-1.")
    with np.errstate(invalid="ignore"):  # beyond 64 bits: refused where the classes are known
        return array.astype(np.int64, copy=False)


def check_used_labels(labels: IntArray, nodes: IntArray, n_classes: int, name: str) -> IntArray:
    """Return the labels of ``nodes``, all of them in 0..K-1."""
    used = labels[nodes]
    bad = (used < 0) | (used >= n_classes)
    if bad.any():
        first = int(nodes[np.flatnonzero(bad)[0]])
        hint = "; if classes are numbered from 1, subtract 1" if used.min() > 0 else ""
        raise InputError(
            f"{int(bad.sum())} of the {name} lie outside 0..{n_classes - 1} (node {first} has "
            f"{int(labels[first])}); there are {n_classes} columns, one for each class, so "
            f"correct those labels or leave the nodes out{hint}."
        )
    return used


def check_nodes(nodes: Any, n_nodes: int, *, name: str = "nodes") -> IntArray:
    """Return a boolean mask or index array as sorted, unique indices."""
    array = as_numpy(nodes)
    if array.size == 0:
        array = array.astype(np.int64)
    if array.ndim != 1:
        raise InputError(
            f"{name} has shape {array.shape}; expected a mask of shape ({n_nodes},) or a list of "
            "indices. For a mask with several splits pass one column, mask[:, 0]."
        )
    if array.dtype == np.bool_:
        if array.size != n_nodes:
            raise InputError(
                f"{name} is a mask of {array.size} entries but there are {n_nodes} nodes; pass one "
                "entry for each node, or node numbers."
            )
        return np.flatnonzero(array)
    if array.dtype.kind not in "iu":
        raise InputError(f"{name} has dtype {array.dtype}; expected a boolean mask or indices.")
    if array.size and (array.min() < 0 or array.max() >= n_nodes):
        raise InputError(
            f"{name} names nodes {int(array.min())}..{int(array.max())} "
            f"but there are only 0..{n_nodes - 1}."
        )
    is_named = np.zeros(n_nodes, dtype=np.bool_)
    is_named[array] = True
    unique = np.flatnonzero(is_named)
    if unique.size != array.size:
        is_mask = array.size == n_nodes and array.max() <= 1
        hint = "it looks like a mask, so pass astype(bool)" if is_mask else "list each once"
        raise InputError(f"{name} names {array.size - unique.size} nodes twice; {hint}.")
    return unique


def check_sample_weight(sample_weight: Any, n_nodes: int, nodes: IntArray) -> FloatArray:
    """Return the weights of ``nodes``, given for every node: not negative, and not all zero."""
    array = as_numpy(sample_weight)
    if array.dtype.kind not in "fiub" or array.shape != (n_nodes,):
        raise InputError(
            f"sample_weight has dtype {array.dtype} and shape {array.shape}; expected one number "
            f"for each node, shape ({n_nodes},)."
        )
    weights = array[nodes].astype(np.float64)
    # Beyond these limits, sums of squares lose all digits.
    odd = np.flatnonzero(~((weights >= 1e-9) & (weights <= 1e9) | (weights == 0)))
    if odd.size or not weights.any():
        first = nodes[odd[0] if odd.size else 0]
        raise InputError(
            f"sample_weight is {array[first]:g} at node {first}; expected the number of nodes that "
            "it counts as: 0, or 1e-09 to 1e+09, and not zero everywhere."
        )
    return weights


def check_apart(name: str, nodes: IntArray, others: Mapping[str, IntArray], *, advice: str) -> None:
    """Raise if a set of nodes, sorted, shares a node with one of the others; say what to do."""
    for other, theirs in others.items():
        shared = np.intersect1d(nodes, theirs, assume_unique=True)
        if shared.size:
            raise InputError(
                f"{name} and {other} share {shared.size} nodes (first: {int(shared[0])}); {advice}."
            )


def check_known_labels(known_labels: Any, n_nodes: int, n_classes: int) -> IntArray:
    """Return the labels (n_nodes,) to clamp at prediction time, -1 where none is known."""
    labels = check_labels(known_labels, n_nodes)
    known = np.flatnonzero(labels != UNKNOWN)
    check_used_labels(labels, known, n_classes, "known_labels")
    return labels


def same_class_names(names: list[str] | None, fitted: Sequence[str] | None) -> list[str] | None:
    """Return the names of an input, or else those of a fit, which must not contradict them."""
    if names is not None and fitted is not None and list(names) != list(fitted):
        raise InputError(
            f"the classes of the fit are {', '.join(fitted)} but the input has "
            f"{', '.join(names)}; put the columns of logits in the same order."
        )
    return names or (None if fitted is None else list(fitted))


def check_class_names(class_names: Any, n_classes: int) -> list[str] | None:
    """Return a name for each class as text, all different, or None if there are no names."""
    if class_names is None:
        return None
    given = class_names.tolist() if hasattr(class_names, "tolist") else class_names
    is_list = hasattr(given, "__len__") and not isinstance(given, str | bytes | dict | set)
    if not is_list or not all(isinstance(each, str | Integral) for each in given):
        raise InputError(
            f"class_names is {short_repr(given)}, which is not a list of names such as "
            '["fine", "fraud"].'
        )
    names = [str(name) for name in given]
    twice = {name for name in names if names.count(name) > 1}
    if twice or len(names) != n_classes:
        raise InputError(
            f"class_names has {len(names)} names for {n_classes} classes"
            f"{f', {min(twice)!r} more than once' if twice else ''}; pass one for each class."
        )
    if not all(isinstance(each, str) for each in given):
        check_names_are_no_numbers(names)
    return names


def check_names_are_no_numbers(names: Sequence[str]) -> None:
    """Refuse a name that is the number of another class, where labels are numbers too."""
    numbers = set(map(str, range(len(names))))
    for c, name in enumerate(names):
        if name in numbers and name != str(c):
            raise InputError(
                f"class_names: class {c} is called {name}, the number of another class, so a label "
                f"{name} could mean either; write labels and names as text, or choose other names."
            )


def check_positive(
    positive: Any, n_classes: int, class_names: Sequence[str] | None, what: str = "positive"
) -> int:
    """Return the number of the positive class, given by its name or its number."""
    last = n_classes - 1
    if isinstance(positive, str):
        names = [] if class_names is None else list(class_names)
        if positive in names:
            return names.index(positive)
        if not positive.strip().isdecimal():
            known = f"the names are {', '.join(names)}" if names else "the classes have no names"
            wanted = "one of them" if names else "class_names too"
            raise InputError(
                f"unknown class {short_repr(positive)}{suggestion(positive, names)}: {known}; "
                f"pass {wanted}, or a number 0..{last}."
            )
        positive = int(positive)
    if not is_whole(positive) or not 0 <= positive <= last:
        raise InputError(
            f"{what} is {short_repr(positive)}; expected the name of a class or its number, "
            f"0..{last}."
        )
    return int(positive)


def class_label(number: int, class_names: Sequence[str] | None) -> str:
    """Return what tables call a class: its name, or ``class 1`` where it has none."""
    return f"class {number}" if class_names is None else class_names[number]


def _float_matrix(values: Any, name: str) -> FloatArray:
    """Return finite numbers, two columns or more."""
    if hasattr(values, "tocsr"):
        raise InputError(f"{name} is a sparse matrix; pass a dense array, one row for each node.")
    array = as_numpy(values)
    if array.dtype.kind == "c":
        raise InputError(f"Complex data not supported: {name} must hold real numbers.")
    is_real = (isinstance(each, Number) and not isinstance(each, complex) for each in array.flat)
    if array.dtype.kind == "O" and all(is_real):
        array = array.astype(np.float64)
    if array.dtype.kind not in "fiub":
        raise InputError(
            f"{name} has dtype {array.dtype}; expected numbers, one column for each class."
        )
    if array.ndim != 2:
        raise InputError(
            f"{name} has shape {array.shape}; expected two dimensions, one row for each node "
            f"and one column for each class. Reshape your data; {ONE_COLUMN}."
        )
    if array.shape[1] < 2:  # in words that scikit-learn's checks look for
        raise InputError(
            f"{name} has {array.shape[1]} feature(s) (shape={array.shape}) while a minimum of 2 is "
            f"required, one column for each class; {ONE_COLUMN}."
        )
    narrow = array.dtype in (np.float16, np.float32)
    array = np.ascontiguousarray(array, dtype=np.float32 if narrow else np.float64)
    # NaN survives min and max, so two passes without an array of booleans decide it.
    if len(array) and not (np.isfinite(array.min()) and np.isfinite(array.max())):
        bad = int((~np.isfinite(array)).any(axis=1).sum())
        raise InputError(
            f"{name} contains NaN or infinity in {bad} of {len(array)} rows; pass finite values "
            "(clip or drop those nodes first)."
        )
    return array


def _several_labels_hint(labels: npt.NDArray[Any]) -> str:
    """Say what works for labels with one column for each class."""
    if labels.ndim != 2 or labels.dtype.kind not in "iubf":
        return ""
    known = labels[np.isfinite(labels) & (labels != UNKNOWN)]
    if not np.isin(known, (0, 1)).all():
        return ""
    if labels.size and known.size == labels.size and (labels.sum(axis=1) == 1).all():
        return " These are one-hot: pass labels.argmax(axis=1)."
    return (
        " A model with several labels for a node (multi-label) is calibrated by "
        "gnncal.calibrate_multilabel(logits, labels, graph, ...); probabilities p of a column are "
        "judged as np.column_stack([1 - p, p])."
    )


LIKENESS = 0.7  # of two names, from 0 to 1; 'magic' must not suggest 'cagcn'


def plain_name(name: str) -> str:
    """Return a name in lower case with hyphens: ``Entropy_Only`` becomes ``entropy-only``."""
    return name.strip().lower().replace("_", "-")


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return " (did you mean 'hots'?)" with the known name most like this one, if any is."""
    close = get_close_matches(name, list(known), n=1, cutoff=LIKENESS)
    return f" (did you mean {close[0]!r}?)" if close else ""
