"""``gnncal.Watch``: monitor calibration and guarantees as labels arrive."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gnncal.calibrators.base import Calibrator
from gnncal.data.arrays import BoolArray, FloatArray, IntArray, as_numpy
from gnncal.data.checks import class_label
from gnncal.data.constraints import NONE, integer, number
from gnncal.data.errors import InputError, short_repr
from gnncal.files.output import as_path, is_sealed, seal, write_file
from gnncal.metrics.evaluation import check_positive_class
from gnncal.metrics.outcomes import Outcomes
from gnncal.shift.betting import Plan, log_limit, plan_of
from gnncal.shift.claims import Claim, WatchReport, report_of

SHARE, TOLERANCE = number(above=0, below=1), number(at_least=0, below=1)
CONSTRAINTS = {
    "n_classes": integer(at_least=2),
    **dict.fromkeys(("act", "clear", "decide"), SHARE | NONE),
    "false_alarms": SHARE,
    "tolerance": TOLERANCE,
}
STANDARD_ERROR = 0.6  # over the root of the labels, of methods without a posterior; measured
FORMAT = 1
ABOUT = "the state of a watch, made by gnncal; gnncal watch goes on from here"
UNREADABLE = (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError)
ACTIONS = ("act", "clear", "review")  # or no text: the policy does not decide about a node


class Watch:
    """Monitor calibration and guarantees as labels arrive; safe to check after every label.

    A calibrator claims that of the nodes to which it gives the confidence 0.8, eight in ten have
    the predicted class. While all claims hold, the chance of an alarm is at most ``false_alarms``,
    however long the watch lasts and however often it is looked at. The labels must come from nodes
    chosen at random, or all nodes of the period.

    Parameters
    ----------
    n_classes : int
        Number of classes.
    positive : int or str, optional
        A class whose probability is watched too, by its number or its name.
    act, clear, decide : float, optional
        Shares that a policy guarantees: of the positive class among the nodes acted on, of other
        classes among those cleared, of right predictions among those decided automatically.
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
        guaranteed = {"decide": decide, "act": act, "clear": clear}
        given = {"n_classes": n_classes, "false_alarms": false_alarms, "tolerance": tolerance}
        for name, value in (given | guaranteed).items():
            CONSTRAINTS[name].check(name, value)
        self.n_classes = int(n_classes)
        self.class_names, self.positive = check_positive_class(positive, n_classes, class_names)
        if self.positive is None and not (act is None and clear is None):
            raise InputError(
                "act and clear are guarantees about one class; pass it as positive, by its name or "
                "its number."
            )
        self.false_alarms, self.tolerance = float(false_alarms), float(tolerance)
        self.guarantees = {n: float(share) for n, share in guaranteed.items() if share is not None}
        self.log: dict[str, Any] = {}  # what is kept about a log that is read
        names = ["confidence", *([] if self.positive is None else ["positive"]), *self.guarantees]
        self.claims: dict[str, Claim] = {
            name: Claim(name, self.tolerance, self.guarantees.get(name))  # type: ignore[arg-type]
            for name in names
        }

    @property
    def params(self) -> dict[str, Any]:
        """The parameters that another watch of the same kind is made with."""
        names = ("n_classes", "positive", "false_alarms", "tolerance", "class_names")
        guarantees = {name: self.guarantees.get(name) for name in ("act", "clear", "decide")}
        return {**{name: getattr(self, name) for name in names}, **guarantees}

    def add(
        self, probs: Any, labels: Any, *, actions: Any = None, decided: Any = None
    ) -> WatchReport:
        """Take in the labels that have come.

        Parameters
        ----------
        probs : array_like of shape (n, n_classes)
            The calibrated probabilities of these nodes as they were predicted, before the labels.
        labels : array_like of shape (n,)
            Their classes 0..K-1, in the order of their arrival.
        actions, decided : array_like of shape (n,), optional
            What a policy did with each (act, clear or review), and whether each was decided
            automatically; needed where these guarantees are watched.

        Returns
        -------
        WatchReport
            What all labels so far say.

        """
        outcomes = Outcomes(labels, probs, positive=self.positive)
        n, n_classes = outcomes.probs.shape
        if n_classes != self.n_classes:
            raise InputError(
                f"probs has {n_classes} columns but {self.n_classes} classes are watched."
            )
        add_checked(
            self,
            outcomes.confidence,
            outcomes.predictions,
            outcomes.labels,
            None if self.positive is None else outcomes.positive_probability,
            _check_actions(actions, n) if {"act", "clear"} & set(self.guarantees) else None,
            _check_decided(decided, n) if "decide" in self.guarantees else None,
        )
        return self.report()

    def report(self) -> WatchReport:
        """Return what all labels so far say.

        Returns
        -------
        WatchReport
            Whether there is an alarm, in words and as a table.

        """
        positive = None
        if self.positive is not None:
            positive = class_label(self.positive, self.class_names)
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
        TOLERANCE.check("tolerance", tolerance)
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

    def save(self, path: str | Path) -> None:
        """Write the watch to a small JSON file with a checksum; it appears whole or not at all.

        Parameters
        ----------
        path : str or Path
            The file to write; :meth:`load` reads it.

        """
        claims = {name: claim.to_plain() for name, claim in self.claims.items()}
        whole = {"about": ABOUT, "format": FORMAT, "params": self.params, "claims": claims}
        content = json.dumps({**whole, "log": self.log}, allow_nan=False).encode()
        write_file(as_path(path), seal(content, "json"))

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
        place = as_path(path)
        if not place.is_file():
            raise InputError(f"there is no file {place}; pass one that a watch has written.")
        try:
            return cls._read(place.read_bytes())
        except InputError as error:
            raise InputError(f"{place}: {error}") from error
        except UNREADABLE as error:
            raise InputError(
                f"{place} is damaged or no state of a watch ({type(error).__name__}); choose "
                "another file to begin again."
            ) from error

    @classmethod
    def _read(cls, written: bytes) -> Watch:
        content = json.loads(written)
        if content["about"] != ABOUT:
            raise InputError("this is not a watch state file.")
        if content["format"] != FORMAT:
            raise InputError("its format is another than this gnncal's; upgrade gnncal to read it.")
        if not is_sealed(written):
            raise InputError("its checksum does not match its content; it is damaged.")
        watch = cls(**content["params"])
        if set(content["claims"]) != set(watch.claims) or not isinstance(content["log"], dict):
            raise InputError("its claims are not those of its parameters; it is damaged.")
        for name, claim in watch.claims.items():
            claim.restore(content["claims"][name])
        watch.log = content["log"]
        return watch


def standard_error(fitted: Calibrator) -> float:
    """Return about how far a fit's probabilities are off by chance: never alarm about that."""
    n = max(sum(fitted.fit_report_.nodes_per_class), 1)
    # With few labels a posterior knows about half of the error that is found; both set a limit.
    return round(min(max(fitted.standard_error_ or 0.0, STANDARD_ERROR / n**0.5), 0.2), 4)


def add_checked(
    watch: Watch,
    confidence: FloatArray,
    predictions: IntArray,
    labels: IntArray,
    positive_probs: FloatArray | None,
    actions: npt.NDArray[Any] | None,
    decided: BoolArray | None,
) -> None:
    """Take in arrays (n,) that are checked, None where a watch does not need them."""
    is_right = predictions == labels
    outcomes: dict[str, tuple[Any, BoolArray]] = {"confidence": (confidence, is_right)}
    if positive_probs is not None:
        outcomes["positive"] = (positive_probs, labels == watch.positive)
    if decided is not None:
        outcomes["decide"] = (watch.guarantees["decide"], is_right[decided])
    for action in {"act", "clear"} & set(watch.guarantees):
        assert actions is not None
        is_as_guaranteed = (labels == watch.positive) == (action == "act")
        outcomes[action] = (watch.guarantees[action], is_as_guaranteed[actions == action])
    limit = log_limit(watch.false_alarms, len(watch.claims))
    for name, (share, observed) in outcomes.items():
        predicted = np.broadcast_to(np.asarray(share, np.float64), observed.shape)
        watch.claims[name].add(predicted, observed, limit=limit)


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
        raise InputError(f"decided is {short_repr(decided)}; expected {n} booleans.")
    return array
