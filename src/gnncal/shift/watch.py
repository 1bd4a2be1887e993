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
from gnncal.shift.claims import Claim, WatchReport

SHARE = number(above=0, below=1)
CONSTRAINTS = {
    "n_classes": integer(at_least=2),
    **dict.fromkeys(("act", "clear", "decide"), SHARE | NONE),
    "false_alarms": SHARE,
    "tolerance": number(at_least=0, below=1),
    "rate": number(above=0, at_most=1),
    "error": number(at_least=0),
}
STANDARD_ERROR = 0.6  # over the root of the labels, of methods without a posterior; measured
WHAT_TO_DO = "Label nodes chosen at random and update the calibrator, or refit it."
ABOUT = "the state of a watch, made by gnncal; gnncal watch goes on from here"
ACTIONS = ("act", "clear", "decide", "review")  # or no text: not a node to decide about


class Watch:
    """Monitor calibration and guarantees as labels arrive; safe to check after every label.

    A watch tests claims: that the confidence and the probability of ``positive`` are calibrated,
    and that the guarantees of a policy hold. While all claims are true, the probability of ever
    raising an alarm is at most ``false_alarms``. The labels must come from a random sample of
    nodes, or from all nodes of a period.

    Parameters
    ----------
    n_classes : int
        Number of classes.
    positive : int or str, optional
        A class, by number or name, whose probability is tested too.
    act, clear, decide : float, optional
        Shares that a policy guarantees: of the positive class among the nodes acted on, of other
        classes among the nodes cleared, and of correct predictions among the nodes decided.
    false_alarms : float, default=0.05
        Maximum probability of a false alarm, for all claims together.
    tolerance : float, default=0.0
        Gaps up to this size raise no alarm, for example 0.02 for two percentage points.
    positive_rate : tuple of two floats, optional
        Base rate r of ``positive`` at the fit and its standard error s. Gaps of a probability p of
        this class then raise no alarm up to the smaller of ``tolerance`` and max(p, r) s / r, which
        is less for a rare class.

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
    Alarm. Confidence is too high: since about label 1,951 its mean is 0.75, and the accuracy is \
0.64. The alarm was raised at label 2,172. Label nodes chosen at random and update the calibrator, \
or refit it.

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
        positive_rate: tuple[float, float] | None = None,
        class_names: Sequence[str] | None = None,
    ) -> None:
        guaranteed = {"decide": decide, "act": act, "clear": clear}
        given: dict[str, Any] = {"n_classes": n_classes, "false_alarms": false_alarms}
        given |= {"tolerance": tolerance}
        if positive_rate is not None:
            if not isinstance(positive_rate, tuple | list) or len(positive_rate) != 2:
                raise InputError(
                    f"positive_rate is {short_repr(positive_rate)}; expected the rate and its "
                    "standard error, such as (0.02, 0.002)."
                )
            given |= dict(zip(("rate", "error"), positive_rate, strict=True))
        for name, value in (given | guaranteed).items():
            CONSTRAINTS[name].check(name, value)
        self.n_classes = int(n_classes)
        self.class_names, self.positive = check_positive_class(positive, n_classes, class_names)
        if self.positive is None and not (act is None and clear is None):
            raise InputError(
                "act and clear are guarantees about one class; pass it as positive, by name or "
                "number."
            )
        self.false_alarms, self.tolerance = false_alarms, tolerance
        self.positive_rate = None if positive_rate is None else (given["rate"], given["error"])
        self.guarantees = {n: share for n, share in guaranteed.items() if share is not None}
        self.log: dict[str, Any] = {}  # what is kept about a log that is read
        names = ["confidence", *([] if self.positive is None else ["positive"]), *self.guarantees]
        rates = {"positive": self.positive_rate}
        self.claims = {
            n: Claim(n, self.tolerance, self.guarantees.get(n), rates.get(n)) for n in names
        }

    @property
    def params(self) -> dict[str, Any]:
        """The parameters of the constructor."""
        names = ("n_classes", "positive", "false_alarms", "tolerance", "positive_rate")
        guarantees = {name: self.guarantees.get(name) for name in ("act", "clear", "decide")}
        own = {name: getattr(self, name) for name in (*names, "class_names")}
        return {**own, **guarantees}

    def add(self, probs: Any, labels: Any, *, actions: Any = None) -> WatchReport:
        """Return the result on all labels so far, after adding new ones.

        Parameters
        ----------
        probs : array_like of shape (n, n_classes)
            Calibrated probabilities of the new nodes, predicted before their labels arrived.
        labels : array_like of shape (n,)
            Classes 0..K-1 of these nodes, in the order of arrival.
        actions : array_like of shape (n,), optional
            A policy's action for each node (act, clear, decide, review); needed for guarantees.

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
            _check_actions(actions, n) if self.guarantees else None,
        )
        return self.report()

    def report(self) -> WatchReport:
        """Return the result on all labels so far, in words and as a table."""
        positive = None
        if self.positive is not None:
            positive = class_label(self.positive, self.class_names)
        limit = len(self.claims) / self.false_alarms
        claims = tuple(claim.report(limit, positive) for claim in self.claims.values())
        alarms = [claim.sentence for claim in claims if claim.alarm_at is not None]
        said = ["Alarm.", *alarms, WHAT_TO_DO]
        if not alarms:
            said = ["No alarm.", *(claim.sentence for claim in claims)]
        return WatchReport(bool(alarms), " ".join(said), self.false_alarms, claims)

    def save(self, path: str | Path) -> None:
        """Write the watch to a JSON file with a checksum, atomically.

        Parameters
        ----------
        path : str or Path
            The file to write; :meth:`load` reads it.

        """
        claims = {name: claim.to_plain() for name, claim in self.claims.items()}
        whole = {"about": ABOUT, "params": self.params, "claims": claims, "log": self.log}
        write_file(as_path(path), seal(json.dumps(whole, allow_nan=False)))

    @classmethod
    def load(cls, path: str | Path) -> Watch:
        """Return a watch that :meth:`save` wrote; it continues with the next labels.

        Parameters
        ----------
        path : str or Path
            The file to read.

        """
        place = as_path(path)
        written = place.read_bytes() if place.is_file() else b""
        content = json.loads(written) if is_sealed(written) else {}
        if content.get("about") != ABOUT:
            raise InputError(
                f"{place} is not a file that a watch wrote, or is damaged; choose another file to "
                "begin a new watch."
            )
        watch = cls(**content["params"])
        for name, claim in watch.claims.items():
            claim.restore(content["claims"][name])
        watch.log = content["log"]
        return watch


def standard_error(fitted: Calibrator) -> float:
    """Return about how far a fit's probabilities are off by chance: never alarm about that."""
    n = max(sum(fitted.fit_report_.nodes_per_class), 1)
    # With few labels a posterior knows about half of the error that is found; both set a limit.
    return round(min(max(fitted.standard_error_ or 0.0, STANDARD_ERROR / n**0.5), 0.2), 4)


def rate_of(fitted: Calibrator, positive: int) -> tuple[float, float]:
    """Return the base rate of a class at the fit, and its standard error."""
    n = max(sum(fitted.fit_report_.nodes_per_class), 1)
    rate = min(max(float(fitted.base_rates_[positive]), 1.0 / n), 1.0)
    return round(rate, 6), round(float(np.sqrt(rate * (1.0 - rate) / n)), 6)


def add_checked(
    watch: Watch,
    confidence: FloatArray,
    predictions: IntArray,
    labels: IntArray,
    positive_probs: FloatArray | None,
    actions: npt.NDArray[Any] | None,
) -> None:
    """Take in arrays (n,) that are checked, None where a watch does not need them."""
    is_right, is_positive = predictions == labels, labels == watch.positive
    outcomes: dict[str, tuple[Any, BoolArray]] = {"confidence": (confidence, is_right)}
    if positive_probs is not None:
        outcomes["positive"] = (positive_probs, is_positive)
    as_guaranteed = {"act": is_positive, "clear": ~is_positive, "decide": is_right}
    for action, share in watch.guarantees.items():
        outcomes[action] = (share, as_guaranteed[action][actions == action])
    limit = float(np.log(len(watch.claims) / watch.false_alarms))
    for name, (share, observed) in outcomes.items():
        predicted = np.broadcast_to(np.asarray(share, np.float64), observed.shape)
        watch.claims[name].add(predicted, observed, limit=limit)


def _check_actions(actions: Any, n: int) -> npt.NDArray[Any]:
    array = as_numpy(actions)
    if array.shape != (n,) or not np.isin(array, (*ACTIONS, "")).all():
        raise InputError(
            f"actions is {short_repr(actions)}; expected {n} texts, each {', '.join(ACTIONS)}."
        )
    return array
