"""Decisions about one class: act, clear, or leave the node to a person."""

from __future__ import annotations

from copy import copy
from typing import Any, ClassVar, Self

import numpy as np

from gnncal.core.arrays import BoolArray, FloatArray, IntArray
from gnncal.core.checks import (
    check_class_names,
    check_labels,
    check_nodes,
    check_positive,
    class_label,
)
from gnncal.core.constraints import NONE, Constraint, number, whole_number
from gnncal.core.errors import InputError, warn
from gnncal.core.estimator import check_is_fitted
from gnncal.core.learned import Array
from gnncal.decisions.actions import ACT, ACTIONS, CLEAR, REVIEW, Actions, by_thresholds
from gnncal.decisions.budget import expect_budget, most_suspicious
from gnncal.decisions.calibration_nodes import ROW_FACTS, CalibrationNodes
from gnncal.decisions.class_curve import ClassCurve, curve_of_class
from gnncal.decisions.costs import Costs, cheapest_actions, cost_thresholds, expect_costs
from gnncal.decisions.outcomes import check_calibration
from gnncal.decisions.persistence import Saved
from gnncal.decisions.policy_report import Outlook, PolicyReport, in_words
from gnncal.decisions.promises import Kind, Promise, make_promises
from gnncal.decisions.recalibration import Recalibration

SHARE = number(above=0, below=1)
KINDS: tuple[Kind, ...] = ("act", "clear", "catch")
IS_CLASS = Constraint(
    "the name of a class or its number",
    lambda value: isinstance(value, str | int | np.integer) and not isinstance(value, bool),
)
ARE_COSTS = Constraint(
    "costs such as gnncal.decisions.Costs(missed=500, false_alarm=20, review=3)",
    lambda value: isinstance(value, Costs),
)
FAR_OFF = 4.0  # standard deviations between the mean probability and the rate


class ClassPolicy(Saved):
    """Decides about one class: act on a node, clear it, or leave it to a person.

    Ask for one or more **promises**, each a share:

    * ``act``: of the nodes that are acted on, at least this share has the class.
    * ``clear``: of the nodes that are cleared, at least this share has not.
    * ``catch``: of the nodes that have the class, at least this share is not cleared: it is acted
      on or seen by a person.

    With probability at least ``confidence_level`` over the draw of the calibration nodes all of
    them hold together, for any model. What no promise covers goes to people. With ``catch`` and
    without ``clear``, what need not be caught is cleared. A promise that cannot be certified
    decides no node; :attr:`report_` says what could be certified.

    Or say what mistakes cost (``costs``): each node gets the action that is expected to cost
    least. Or how many nodes people can look at (``budget``): the most suspicious ones, beside
    those that ``act`` promises about; all others are cleared. These two promise nothing, but say
    what to expect, with intervals that have the uncertainty of the calibration in them.

    The calibration nodes must be drawn at random from the nodes that are decided, and must not
    have been used to fit the probabilities (:func:`gnncal.decisions.hold_out`, with ``labels`` so
    that both parts have their share of a rare class).

    Parameters
    ----------
    positive : int or str, default=1
        The class in view, by its number or its name.
    act, clear, catch : float, optional
        Promises, between 0 and 1.
    costs : Costs, optional
        What mistakes and people cost; not together with promises or a budget.
    budget : int, optional
        How many nodes people look at; together with ``act`` only.
    confidence_level : float, default=0.9
        Probability with which the promises hold together, and level of all intervals.

    Attributes
    ----------
    positive_ : int
        Number of the class in view.
    promises_ : dict of str to Promise
        What was promised, by kind.
    act_threshold_, clear_threshold_ : float
        Lowest probability that is acted on, highest that is cleared; infinite if there is none.
        NaN where the action depends on more than the probability.
    report_ : PolicyReport
        All promises with what certifies them.
    outlook_ : Outlook
        What the policy does with the nodes to decide; not saved.

    Examples
    --------
    Is it an 8? One half of the labelled nodes fits the calibrator, the other half the policy:

    >>> import gnncal
    >>> from gnncal.decisions import ClassPolicy, hold_out
    >>> task = gnncal.example()
    >>> fit_nodes, held_out = hold_out(task.nodes, labels=task.labels)
    >>> result = gnncal.calibrate(
    ...     task.logits, task.labels, task.graph, nodes=fit_nodes, positive=8
    ... )
    >>> policy = ClassPolicy(8, act=0.8, clear=0.98)
    >>> policy = policy.fit(result.probabilities, task.labels, nodes=held_out)
    >>> actions = policy.decide(result.probabilities[task.test_nodes])
    >>> {action: int((actions == action).sum()) for action in ("act", "clear", "review")}
    {'act': 92, 'clear': 667, 'review': 338}

    """

    constraints: ClassVar[dict[str, Constraint]] = {
        "positive": IS_CLASS,
        **dict.fromkeys(KINDS, SHARE | NONE),
        "costs": ARE_COSTS | NONE,
        "budget": whole_number(at_least=1) | NONE,
        "confidence_level": SHARE,
    }
    saved_facts: ClassVar[dict[str, Any]] = {
        "positive": whole_number(at_least=0),
        "p": Array("calibration", low=0.0, high=1.01),
        **ROW_FACTS,
    }

    positive_: int
    promises_: dict[Kind, Promise]
    act_threshold_: float
    clear_threshold_: float
    report_: PolicyReport
    outlook_: Outlook

    def __init__(
        self,
        positive: int | str = 1,
        *,
        act: float | None = None,
        clear: float | None = None,
        catch: float | None = None,
        costs: Costs | None = None,
        budget: int | None = None,
        confidence_level: float = 0.9,
    ) -> None:
        self.positive = positive
        self.act = act
        self.clear = clear
        self.catch = catch
        self.costs = costs
        self.budget = budget
        self.confidence_level = confidence_level

    def fit(
        self,
        probs: Any,
        labels: Any,
        *,
        nodes: Any = None,
        ids: Any = None,
        class_names: Any = None,
        decision_nodes: Any = None,
        predictions: Any = None,
    ) -> Self:
        """Certify the promises on calibration nodes, and say what to expect of the other nodes.

        Parameters
        ----------
        probs : array_like of shape (n_nodes, n_classes)
            Probabilities; rows sum to one.
        labels : array_like of shape (n_nodes,)
            Classes 0..K-1, -1 where unknown. Labels outside ``nodes`` are never looked at.
        nodes : array_like, optional
            Calibration nodes, mask or indices. Default: every node whose label is not -1.
        ids : array_like of shape (n_nodes,), optional
            Your own name of each node, whole numbers or texts, for :meth:`refresh`. Default: the
            rows are the nodes 0..N-1.
        class_names : list of str, optional
            A name for each class, if ``positive`` is a name, and for what is printed.
        decision_nodes : array_like, optional
            Nodes that ``outlook_`` is about, mask or indices. Default: all that are no
            calibration nodes, or all nodes if there is no other.
        predictions : array_like of shape (n_nodes,), optional
            Classes that the model as it was predicts, to compare costs with. Default: the most
            probable ones.

        Returns
        -------
        ClassPolicy
            The policy itself, fitted.

        Raises
        ------
        InputError
            If an array or a parameter cannot be used, or nothing is asked for.

        """
        self.check_params()
        checked, chosen, used = check_calibration(probs, labels, nodes)
        n_nodes, n_classes = checked.shape
        names = check_class_names(class_names, n_classes)
        positive = check_positive(self.positive, n_classes, names)
        prices = self._prices(None, n_nodes)
        others = _others(decision_nodes, chosen, n_nodes)
        predicted = _predicted(predictions, checked, positive)
        p = _probability(checked, positive)
        self.n_classes_ = n_classes
        if names is not None:
            self.class_names_ = names
        calibration = CalibrationNodes.of(chosen, used, n_nodes, ids)
        self._conclude(positive, p[chosen], calibration)
        self.outlook_ = self._outlook(
            p[others], None if prices is None else prices.of(others), predicted[others]
        )
        self._warn()
        return self

    def refresh(self, probs: Any, graph: Any = None, *, ids: Any = None) -> Self:
        """Certify the promises again, by the same calibration nodes on the graph of today.

        When nodes join, the probabilities of the calibration nodes change with their neighbours.
        The guarantee holds again for all nodes of today, if it is a matter of chance which of them
        became calibration nodes (NodeEx).

        Parameters
        ----------
        probs : array_like of shape (n_nodes, n_classes)
            Probabilities of all nodes of today, made like those of ``fit``. Without ids the rows
            of ``fit`` come first, in their order, and new nodes after them.
        graph : Graph, optional
            Not used; every classifier for decisions has it.
        ids : array_like of shape (n_nodes,), optional
            The name of each node, made like those of ``fit``. With ids, rows may come in any
            order, and nodes may have left.

        Returns
        -------
        ClassPolicy
            Another policy with the thresholds of today; this one stays as it is.

        Raises
        ------
        InputError
            If the calibration nodes cannot be found.

        References
        ----------
        Zargarbashi, Bojchevski, "Conformal inductive graph neural networks" (ICLR 2024).

        """
        p = self._probability(probs)
        rows, calibration = self._calibration.today(p.size, ids)
        refreshed = copy(self)
        if hasattr(refreshed, "outlook_"):
            del refreshed.outlook_  # of the nodes of the fit
        refreshed._conclude(self.positive_, p[rows], calibration)
        refreshed._warn()
        return refreshed

    def decide(self, probs: Any, *, costs: Costs | None = None) -> Actions:
        """Say what to do with each node.

        Parameters
        ----------
        probs : array_like of shape (n_nodes, n_classes)
            Probabilities, made as those of ``fit``. A budget is for all of these nodes.
        costs : Costs, optional
            Costs of these nodes, if the policy decides by costs that differ from node to node.

        Returns
        -------
        ndarray of str of shape (n_nodes,)
            ``"act"``, ``"clear"`` or ``"review"``.

        Raises
        ------
        InputError
            If the probabilities have another number of classes than in ``fit``, or costs do not
            fit them.

        """
        p = self._probability(probs)
        return ACTIONS[self._codes(p, self._prices(costs, p.size))]

    def outlook(
        self, probs: Any, *, costs: Costs | None = None, predictions: Any = None
    ) -> Outlook:
        """Say what the policy does with some nodes, and what to expect of it.

        Parameters
        ----------
        probs : array_like of shape (n_nodes, n_classes)
            Probabilities, made as those of ``fit``.
        costs : Costs, optional
            Costs of these nodes, if they differ from node to node.
        predictions : array_like of shape (n_nodes,), optional
            Classes that the model as it was predicts, to compare costs with.

        Returns
        -------
        Outlook
            Numbers of nodes, and what people are expected to find, or what it will cost.

        Raises
        ------
        InputError
            If an array cannot be used.

        """
        p = self._probability(probs)
        predicted = _predicted(predictions, self._checked_probs(probs), self.positive_)
        return self._outlook(p, self._prices(costs, p.size), predicted)

    def in_words(self, outlook: Outlook | None = None) -> str:
        """Say what the policy promises and, given an outlook, what it does with those nodes.

        Parameters
        ----------
        outlook : Outlook, optional
            Of the nodes to speak of.

        Returns
        -------
        str
            A few sentences. ``print(policy)`` says the same of the nodes of ``fit``.

        """
        check_is_fitted(self, "report_")
        return in_words(self.report_, outlook)

    def curve(self) -> ClassCurve:
        """Return what acting from each threshold up would do to the calibration nodes.

        Returns
        -------
        ClassCurve
            Precision, recall, net benefit and, if costs are numbers for all nodes, cost.

        """
        check_is_fitted(self, "report_")
        prices = None
        if self.costs is not None and self.costs.is_same_for_all:
            prices = self.costs.checked(self._p.size)
        return curve_of_class(self._p, self._is_positive, prices)

    def check_params(self) -> None:
        """Check the parameters of the constructor, and that they go together."""
        super().check_params()
        promises = [kind for kind in KINDS if getattr(self, kind) is not None]
        if not promises and self.costs is None and self.budget is None:
            raise InputError(
                "nothing is asked for; pass act, clear or catch (shares such as 0.95), costs or "
                "a budget."
            )
        if self.costs is not None and (promises or self.budget is not None):
            other = "budget" if not promises else promises[0]
            raise InputError(
                f"costs decide about every node, so nothing is left for {other}; make a policy for "
                "each."
            )
        if self.budget is not None and set(promises) - {"act"}:
            raise InputError(
                "a budget clears what nobody has time for, so nothing can be promised about what "
                "is cleared or caught; leave clear and catch out, or the budget."
            )

    def __str__(self) -> str:
        if not hasattr(self, "report_"):
            return repr(self)
        return self.in_words(getattr(self, "outlook_", None))

    def _conclude(self, positive: int, p: FloatArray, calibration: CalibrationNodes) -> None:
        """Set what a fit leaves, from the probabilities and classes of the calibration nodes."""
        is_positive = calibration.labels == positive
        asked = {kind: getattr(self, kind) for kind in KINDS if getattr(self, kind) is not None}
        self.positive_, self._p, self._is_positive = positive, p, is_positive
        self._calibration = calibration
        self.promises_ = {}
        if asked:
            self.promises_ = make_promises(p, is_positive, asked, self.confidence_level)
        self.recalibration_ = Recalibration.of(p, is_positive)
        self.act_threshold_, self.clear_threshold_ = self._thresholds()
        name = class_label(positive, getattr(self, "class_names_", None))
        self.report_ = PolicyReport(
            name=f"P({name})",
            confidence_level=float(self.confidence_level),
            n_calibration=p.size,
            n_positive=int(is_positive.sum()),
            act_threshold=self.act_threshold_,
            clear_threshold=self.clear_threshold_,
            promises=self.promises_,
            budget=self.budget,
        )

    def _thresholds(self) -> tuple[float, float]:
        if self.costs is not None:
            same = self.costs.is_same_for_all
            return cost_thresholds(self.costs.checked(0)) if same else (np.nan, np.nan)
        act = self.promises_["act"].threshold if "act" in self.promises_ else np.inf
        if self.budget is not None:
            return act, np.nan
        if "clear" in self.promises_:
            return act, self.promises_["clear"].threshold
        if "catch" in self.promises_:
            return act, float(np.nextafter(self.promises_["catch"].threshold, -np.inf))
        return act, -np.inf

    def _codes(self, p: FloatArray, prices: Costs | None) -> IntArray:
        """Return the code of each node's action."""
        if prices is not None:
            return cheapest_actions(prices, p)
        if self.budget is None:
            return by_thresholds(p, self.act_threshold_, self.clear_threshold_)
        acted = p >= self.act_threshold_
        codes = np.where(acted, ACT, CLEAR)
        rest = np.flatnonzero(~acted)
        codes[rest[most_suspicious(p[rest], self.budget)]] = REVIEW
        return codes

    def _outlook(self, p: FloatArray, prices: Costs | None, predicted: BoolArray) -> Outlook:
        codes, level = self._codes(p, prices), float(self.confidence_level)
        act, clear, review = np.bincount(codes, minlength=len(ACTIONS)).tolist()
        known = self.recalibration_
        budget = costs = None
        if self.budget is not None:
            budget = expect_budget(p, codes == REVIEW, codes == ACT, known, level)
        if prices is not None:
            costs = expect_costs(prices, p, codes, predicted, known, level)
        return Outlook(p.size, act, clear, review, level, budget, costs)

    def _prices(self, given: Costs | None, n_nodes: int) -> Costs | None:
        """Return the costs of so many nodes; None if this policy does not decide by costs."""
        if given is not None:
            ARE_COSTS.check("costs", given)
            if self.costs is None:
                raise InputError("this policy does not decide by costs; leave costs out.")
        if self.costs is None:
            return None
        return (self.costs if given is None else given).checked(n_nodes)

    def _probability(self, probs: Any) -> FloatArray:
        check_is_fitted(self, "report_")
        return _probability(self._checked_probs(probs), self.positive_)

    def _warn(self) -> None:
        """Say what is not certified, and whether costs rely on probabilities that are far off."""
        if self.report_.n_uncertified:
            warn(self.report_.sentence)
        if self.costs is None:
            return
        p, rate = self._p, self._is_positive.mean()
        spread = np.sqrt(np.maximum(p * (1 - p), 0).sum())
        if abs(p.sum() - self._is_positive.sum()) > FAR_OFF * max(spread, 1.0):
            warn(
                f"{self.report_.name} is {100 * p.mean():.1f} % on average at the calibration "
                f"nodes, but {100 * rate:.1f} % of them are positive, so these are not the "
                "cheapest actions; calibrate first, with keep_predictions=False."
            )

    def _facts(self) -> dict[str, Any]:
        return {
            "positive": self.positive_,
            "p": self._p,
            **self._calibration.facts(),
            "n_rows": self._calibration.n_rows,
            "has_ids": self._calibration.has_ids,
        }

    def _restore(self, facts: dict[str, Any]) -> None:
        positive = facts["positive"]
        if positive >= self.n_classes_:
            raise InputError(f"positive is {positive}, but there are {self.n_classes_} classes.")
        p, n_rows = facts["p"].astype(np.float64), facts["n_rows"]
        calibration = CalibrationNodes.restored(facts, p.size, n_rows, facts["has_ids"])
        if n_rows < p.size:
            raise InputError(f"{p.size} of {n_rows} nodes cannot be those of the calibration.")
        self._conclude(positive, p, calibration)


def _probability(probs: FloatArray, positive: int) -> FloatArray:
    """Return the probability of the class in float64, so that thresholds are exact."""
    return probs[:, positive].astype(np.float64)


def _predicted(predictions: Any, probs: FloatArray, positive: int) -> BoolArray:
    """Return which nodes the model as it was takes for positive."""
    if predictions is None:
        return probs.argmax(axis=1) == positive
    return check_labels(predictions, len(probs)) == positive


def _others(given: Any, calibration: IntArray, n_nodes: int) -> IntArray:
    """Return the nodes to decide."""
    if given is None:
        others = np.ones(n_nodes, dtype=np.bool_)
        others[calibration] = False
        return np.flatnonzero(others) if others.any() else np.arange(n_nodes)
    nodes = check_nodes(given, n_nodes, name="decision_nodes")
    if nodes.size == 0:
        raise InputError("decision_nodes is empty; pass the nodes that are to be decided.")
    return nodes
