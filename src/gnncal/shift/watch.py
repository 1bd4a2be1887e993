"""``gnncal.Watch``: monitor calibration and guarantees as labels arrive."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from gnncal.data.arrays import BoolArray, FloatArray, IntArray, as_numpy
from gnncal.data.checks import (
    check_class_names,
    check_labels,
    check_positive,
    check_probs,
    check_used_labels,
)
from gnncal.data.constraints import NONE, Constraint, integer, number
from gnncal.data.errors import InputError, short_repr
from gnncal.files.output import SEAL, as_path, is_sealed, seal, write_file
from gnncal.shift.betting import Claim, Plan, log_limit, plan_of
from gnncal.shift.report import WatchReport, report_of

SHARE = number(above=0, below=1)
ACTIONS = ("act", "clear", "review")  # or no text: the policy does not decide about a node


class Watch:
    """Monitor calibration and guarantees as labels arrive; safe to check after every label.

    A calibrator claims that of the nodes to which it gives the confidence 0.8, eight in ten have
    the predicted class. With ``positive`` the probability of that class is watched too. A policy
    (:class:`gnncal.decisions.Policy`) guarantees a share of right decisions, which
    ``act``, ``clear`` or ``decide`` repeats. While all claims hold, the chance of an alarm is at
    most ``false_alarms``, however long the watch lasts and however often it is looked at.
    :mod:`gnncal.shift.betting` says how.

    The labels must come from nodes chosen at random, or all nodes of the period: labels of the
    suspicious ones alone say nothing about the others.

    Parameters
    ----------
    n_classes : int
        Number of classes.
    positive : int or str, optional
        A class whose probability is watched too, by its number or its name.
    act, clear : float, optional
        What a policy guarantees: of the nodes acted on, at least this share has the positive class;
        of those cleared, at least this share has not.
    decide : float, optional
        What a policy guarantees: of the nodes decided automatically, at least this
        share has the predicted class.
    false_alarms : float, default=0.05
        Largest chance of a false alarm, for all claims together.
    tolerance : float, default=0.0
        A gap that is small enough to be left alone, such as 0.02 for two points.
    class_names : sequence of str, optional
        A name for each class.

    Examples
    --------
    >>> import numpy as np
    >>> import gnncal
    >>> generator = np.random.default_rng(0)
    >>> p = generator.uniform(0.5, 1, size=2000)
    >>> probs = np.column_stack([1 - p, p])
    >>> labels = generator.random(2000) < p
    >>> watch = gnncal.Watch(n_classes=2)
    >>> watch.add(probs, labels).is_alarm
    False
    >>> worse = generator.random(2000) < p - 0.1
    >>> print(watch.add(probs, worse).sentence)
    Alarm. Confidence is too high. Since about label 1,951 the mean confidence is 0.75, and 0.64 \
have the predicted class. It was found at label 2,172. Label nodes chosen at random and update \
the calibrator, or fit it again.

    """

    constraints: ClassVar[Mapping[str, Constraint]] = {
        "n_classes": integer(at_least=2),
        "act": SHARE | NONE,
        "clear": SHARE | NONE,
        "decide": SHARE | NONE,
        "false_alarms": SHARE,
        "tolerance": number(at_least=0, below=1),
    }

    def __init__(
        self,
        *,
        n_classes: int,
        positive: int | str | None = None,
        act: float | None = None,
        clear: float | None = None,
        decide: float | None = None,
        false_alarms: float = 0.05,
        tolerance: float = 0.0,
        class_names: Sequence[str] | None = None,
    ) -> None:
        given = {"n_classes": n_classes, "act": act, "clear": clear, "decide": decide}
        given |= {"false_alarms": false_alarms, "tolerance": tolerance}
        for name, constraint in self.constraints.items():
            constraint.check(name, given[name])
        self.n_classes = int(n_classes)
        self.class_names = check_class_names(class_names, self.n_classes)
        self.positive = (
            None if positive is None else check_positive(positive, self.n_classes, self.class_names)
        )
        if self.positive is None and not (act is None and clear is None):
            raise InputError(
                "act and clear are guarantees about one class; pass it as positive, by its name or "
                "its number."
            )
        self.false_alarms, self.tolerance = float(false_alarms), float(tolerance)
        self.guarantees = {
            name: float(share)
            for name, share in (("decide", decide), ("act", act), ("clear", clear))
            if share is not None
        }
        names = ["confidence", *([] if self.positive is None else ["positive"]), *self.guarantees]
        self.claims: dict[str, Claim] = {
            name: Claim(name, self.tolerance, self.guarantees.get(name))  # type: ignore[arg-type]
            for name in names
        }

    @property
    def params(self) -> dict[str, Any]:
        """The parameters that another watch of the same kind is made with."""
        guarantees = {name: self.guarantees.get(name) for name in ("act", "clear", "decide")}
        return {
            "n_classes": self.n_classes,
            "positive": self.positive,
            **guarantees,
            "false_alarms": self.false_alarms,
            "tolerance": self.tolerance,
            "class_names": self.class_names,
        }

    def add(
        self, probs: Any, labels: Any, *, actions: Any = None, decided: Any = None
    ) -> WatchReport:
        """Take in the labels that have come.

        Parameters
        ----------
        probs : array_like of shape (n, n_classes)
            The calibrated probabilities of these nodes as they were stated, before the labels.
        labels : array_like of shape (n,)
            Their classes 0..K-1, in the order of their arrival.
        actions : array_like of shape (n,), optional
            What a policy did with each: act, clear or review. Needed where ``act`` or ``clear`` is
            watched.
        decided : array_like of bool of shape (n,), optional
            Whether each was decided automatically. Needed where ``decide`` is watched.

        Returns
        -------
        WatchReport
            What all labels so far say.

        Raises
        ------
        InputError
            If an array cannot be used; then nothing is taken in.

        """
        stated = check_probs(probs)
        if stated.shape[1] != self.n_classes:
            raise InputError(
                f"probs has {stated.shape[1]} columns but {self.n_classes} classes are watched."
            )
        n = len(stated)
        truth = check_used_labels(check_labels(labels, n), np.arange(n), self.n_classes, "labels")
        predictions = stated.argmax(axis=1)
        self.take(
            stated[np.arange(n), predictions],
            predictions,
            truth,
            None if self.positive is None else stated[:, self.positive],
            _check_actions(actions, n) if {"act", "clear"} & set(self.guarantees) else None,
            _check_decided(decided, n) if "decide" in self.guarantees else None,
        )
        return self.report()

    def take(
        self,
        confidence: FloatArray,
        predictions: IntArray,
        labels: IntArray,
        positive_probs: FloatArray | None,
        actions: npt.NDArray[Any] | None,
        decided: BoolArray | None,
    ) -> None:
        """Take in labels with arrays that are checked already, as those of a log are.

        Parameters
        ----------
        confidence : ndarray of shape (n,)
            Probability that was stated for the predicted class.
        predictions : ndarray of shape (n,)
            The predicted class.
        labels : ndarray of shape (n,)
            The class.
        positive_probs : ndarray of shape (n,) or None
            Probability that was stated for the positive class; needed where it is watched.
        actions : ndarray of shape (n,) or None
            What a policy did, as in :meth:`add`.
        decided : ndarray of shape (n,) or None
            Whether each was decided automatically.

        """
        is_right = predictions == labels
        outcomes: dict[str, tuple[Any, BoolArray]] = {"confidence": (confidence, is_right)}
        if positive_probs is not None:
            outcomes["positive"] = (positive_probs, labels == self.positive)
        if decided is not None:
            outcomes["decide"] = (self.guarantees["decide"], is_right[decided])
        for action in {"act", "clear"} & set(self.guarantees):
            assert actions is not None
            is_as_guaranteed = (labels == self.positive) == (action == "act")
            outcomes[action] = (self.guarantees[action], is_as_guaranteed[actions == action])
        limit = log_limit(self.false_alarms, len(self.claims))
        for name, (stated, happened) in outcomes.items():
            claimed = np.broadcast_to(np.asarray(stated, np.float64), happened.shape)
            self.claims[name].add(claimed, happened, limit=limit)

    def report(self) -> WatchReport:
        """Return what all labels so far say.

        Returns
        -------
        WatchReport
            Whether there is an alarm, in words and as a table.

        """
        positive = None
        if self.positive is not None:
            names = self.class_names or [f"class {c}" for c in range(self.n_classes)]
            positive = names[self.positive]
        return report_of(list(self.claims.values()), self.false_alarms, positive)

    @staticmethod
    def plan(
        gap: float,
        *,
        confidence: Any = 0.8,
        false_alarms: float = 0.05,
        tolerance: float = 0.0,
        n_claims: int = 1,
    ) -> Plan:
        """Return how many labels find a gap between confidence and accuracy.

        Parameters
        ----------
        gap : float
            How far the accuracy lies below the confidence, such as 0.05 for five points.
        confidence : float or array_like of shape (n,), default=0.8
            The confidence of the nodes: a typical one, or those of many nodes.
        false_alarms, tolerance : float, default=0.05 and 0.0
            As the watch has them.
        n_claims : int, default=1
            Number of claims that are watched.

        Returns
        -------
        Plan
            Numbers of labels with which half, and nine tenths, of 200 simulated watches found it.

        Examples
        --------
        >>> import gnncal
        >>> gnncal.Watch.plan(0.1).half < gnncal.Watch.plan(0.1).most < 600
        True

        """
        SHARE.check("gap", gap)
        SHARE.check("false_alarms", false_alarms)
        number(at_least=0, below=1).check("tolerance", tolerance)
        integer(at_least=1).check("n_claims", n_claims)
        if gap <= tolerance:
            raise InputError(
                f"a gap of {gap:g} is within the tolerance of {tolerance:g}, so it is never found; "
                "pass a larger gap or a smaller tolerance."
            )
        values = np.atleast_1d(as_numpy(confidence)).astype(np.float64)
        if values.ndim != 1 or not values.size or not ((values > 0) & (values <= 1)).all():
            raise InputError(
                f"confidence is {short_repr(confidence)}; expected numbers above 0 and at most 1."
            )
        return plan_of(gap, values, log_limit(false_alarms, n_claims), tolerance)

    def save(self, path: str | Path, *, log: Mapping[str, Any] | None = None) -> None:
        """Write the watch to a small JSON file with a checksum; it appears whole or not at all.

        Parameters
        ----------
        path : str or Path
            The file to write; :meth:`load` reads it.
        log : dict, optional
            What to keep with it about the log that was read.

        """
        claims = {name: claim.to_plain() for name, claim in self.claims.items()}
        write_state(path, {"params": self.params, "claims": claims, "log": dict(log or {})})

    @classmethod
    def load(cls, path: str | Path) -> Watch:
        """Read a watch that :meth:`save` has written, to go on where it was.

        Parameters
        ----------
        path : str or Path
            The file.

        Returns
        -------
        Watch
            The watch.

        """
        return cls.load_with_log(path)[0]

    @classmethod
    def load_with_log(cls, path: str | Path) -> tuple[Watch, dict[str, Any]]:
        """Read a watch, and what was kept about its log.

        Parameters
        ----------
        path : str or Path
            The file.

        Returns
        -------
        tuple of Watch and dict
            The watch, and what :meth:`save` was given as ``log``.

        Raises
        ------
        InputError
            If there is no such file, it is damaged, or another program has written it.

        """

        def rebuild(content: dict[str, Any]) -> tuple[Watch, dict[str, Any]]:
            watch = cls(**content["params"])
            if set(content["claims"]) != set(watch.claims) or not isinstance(content["log"], dict):
                raise InputError("its claims are not those of its parameters; it is damaged.")
            for name, claim in watch.claims.items():
                claim.restore(content["claims"][name])
            return watch, content["log"]

        return read_state(path, rebuild)


def _check_actions(actions: Any, n: int) -> npt.NDArray[Any]:
    if actions is None:
        raise InputError(f"actions is missing; pass {', '.join(ACTIONS)} for each node.")
    array = as_numpy(actions)
    if array.shape != (n,) or not np.isin(array, (*ACTIONS, "")).all():
        raise InputError(
            f"actions is {short_repr(actions)}; expected {n} texts, each {', '.join(ACTIONS)}."
        )
    return array


def _check_decided(decided: Any, n: int) -> BoolArray:
    if decided is None:
        raise InputError("decided is missing; pass True or False for each node.")
    array = as_numpy(decided)
    if array.shape != (n,) or array.dtype.kind != "b":
        raise InputError(f"decided is {short_repr(decided)}; expected {n} times True or False.")
    return array


T = TypeVar("T")
FORMAT = 1
ABOUT = "the state of a watch, made by gnncal; gnncal watch goes on from here"
UNREADABLE = (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError)


def write_state(path: Any, content: dict[str, Any]) -> None:
    """Write what a watch is made of."""
    whole = {"about": ABOUT, "format": FORMAT, **content}
    write_file(as_path(path), seal(json.dumps(whole, allow_nan=False).encode(), "json"))


def read_state(path: Any, rebuild: Callable[[dict[str, Any]], T]) -> T:
    """Return what ``rebuild`` makes of the content, or say what is wrong with it."""
    place = as_path(path)
    if not place.is_file():
        raise InputError(f"there is no file {place}; pass one that a watch has written.")
    try:
        written = place.read_bytes()
        content = json.loads(written)
        if content["about"] != ABOUT:
            raise InputError("this is not a watch state file.")
        if content["format"] != FORMAT:
            raise InputError("its format is another than this gnncal's; upgrade gnncal to read it.")
        content.pop(SEAL.decode(), None)
        if not is_sealed(written):
            raise InputError("its checksum does not match its content; it is damaged.")
        return rebuild(content)
    except InputError as error:
        raise InputError(f"{place}: {error}") from error
    except UNREADABLE as error:
        raise InputError(
            f"{place} is damaged or no state of a watch ({type(error).__name__}); choose another "
            "file to begin again."
        ) from error
