"""One policy: decide by a threshold, with a guarantee about what is decided."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from gnncal.data.arrays import BoolArray, FloatArray, IntArray, row_maxima
from gnncal.data.checks import (
    check_apart,
    check_labels,
    check_nodes,
    check_positive,
    class_label,
)
from gnncal.data.constraints import FLAG, NONE, Array, Constraint, LearnedTable, integer, number
from gnncal.data.errors import InputError, warn
from gnncal.data.estimator import check_is_fitted
from gnncal.data.nodes import NO_NODES, NOT_TRAINED_ON
from gnncal.decisions import costs as pricing
from gnncal.decisions.base import Decision, Keys, check_truth
from gnncal.decisions.costs import ACT, ACTIONS, CLEAR, DECIDE, REVIEW, Costs
from gnncal.decisions.guarantees import SHARE, Guarantee, certify_all, named_guarantee
from gnncal.decisions.reports import Forecast, GuaranteeCheck, PolicyOutcome, PolicyReport
from gnncal.graph.graph import Graph

TARGETS = ("accuracy", "act", "clear", "recall", "false_positive_rate")
MISFIT = 0.01  # p-value below which the probabilities do not fit the labels
ARE_COSTS = Constraint(
    "costs such as gnncal.decisions.Costs(missed=500, false_alarm=20, review=3)",
    lambda value: isinstance(value, Costs),
)
ARE_GUARANTEES = Constraint(
    "a tuple of gnncal.decisions.Guarantee",
    lambda value: isinstance(value, tuple) and all(isinstance(g, Guarantee) for g in value),
)


@dataclass(kw_only=True, eq=False, repr=False)
class Policy(Decision):
    """Assign an action to each node by thresholds, with guarantees or at the lowest cost.

    ``Policy(accuracy=0.95)`` is for all classes: nodes of high confidence get their predicted class
    (``"decide"``), all others ``"review"``. ``Policy(positive="fraud", ...)`` is for one class:
    each node gets ``"act"``, ``"clear"`` or ``"review"``. Positives are the nodes of this class.

    All guarantees hold jointly with probability at least ``confidence_level``, for any model, if
    the calibration nodes are a random sample of the nodes to decide and were not used to fit the
    calibrator (:func:`hold_out`). If a guarantee cannot be certified, no node gets its action.

    Parameters
    ----------
    accuracy : float, optional
        Minimum share of correct predictions among the nodes decided, over all classes.
    act, clear : float, optional
        Minimum share of positives among the nodes acted on (precision), and of negatives among the
        nodes cleared (negative predictive value).
    recall, false_positive_rate : float, optional
        Minimum share of the positives that are not cleared, and maximum share of the negatives that
        are acted on.
    also : tuple of Guarantee
        Further guarantees.
    costs : Costs, optional
        Costs of errors and reviews; each node gets the action with the lowest expected cost.
    budget : int or float, optional
        Number or share of the nodes to decide that are reviewed: those of highest probability that
        are not acted on, or with ``costs`` those of largest saving. Not with ``clear``, ``recall``.

    Attributes
    ----------
    guarantees_, report_, forecast_ : dict of str to Certified, PolicyReport and Forecast
        Guarantees by name, a report on them, and the expected result, which is not saved.
    act_threshold_, clear_threshold_ : float
        Lowest probability (or confidence) with ``"act"`` or ``"decide"``, highest with ``"clear"``;
        infinite if no node gets the action, NaN if a threshold does not determine it.

    Examples
    --------
    Half of the labelled nodes fit the calibrator, the other half certify a policy for digit 8:

    >>> import gnncal
    >>> from gnncal.decisions import Policy, hold_out
    >>> task = gnncal.example()
    >>> nodes, held_out = hold_out(task.calibration_nodes, labels=task.labels)
    >>> result = gnncal.calibrate(
    ...     task.logits, task.labels, task.graph, calibration_nodes=nodes, positive=8
    ... )
    >>> policy = Policy(positive=8, act=0.8, clear=0.98)
    >>> policy = policy.fit(result.probabilities, task.labels, calibration_nodes=held_out)
    >>> int((policy.decide(result.probabilities[task.test_nodes]) == "review").sum())
    5

    """

    accuracy: float | None = None
    positive: int | str | None = None
    act: float | None = None
    clear: float | None = None
    recall: float | None = None
    false_positive_rate: float | None = None
    also: tuple[Guarantee, ...] = ()
    costs: Costs | None = None
    budget: float | None = None
    confidence_level: float = 0.9

    kind: ClassVar[str] = "policy"
    constraints: ClassVar[LearnedTable] = {
        **dict.fromkeys(TARGETS, SHARE | NONE),
        "also": ARE_GUARANTEES,
        "costs": ARE_COSTS | NONE,
        "budget": integer(at_least=1) | SHARE | NONE,
        "confidence_level": SHARE,
    }
    state_spec: ClassVar[LearnedTable] = {
        "_score": Array("calibration", low=0.0, high=1.01),
        "_predicted": Array("calibration", low=0, high="K-1", whole=True),
        "_pools": Array("guarantees cells", low=0.0, high=1.01, may_be_empty=True),
        "_labelled_share": number(at_least=0, at_most=1),
        "_labels_for_one": number(at_least=1),
        "_is_proven": FLAG,
        "_lowest": number(at_least=0, at_most=1.01),
        "_review_threshold": Constraint("a number", lambda value: type(value) is float) | NONE,
        "_review_share": number(at_least=0, at_most=1),
        "_may_train": FLAG,
        "_trained": Array("trained", low=0, whole=True, may_be_empty=True),
    }

    @property
    def positive_(self) -> int | None:
        """Number of the positive class; None for a policy about all classes."""
        if self.positive is None:
            return None
        return check_positive(self.positive, self.n_classes_, self.class_names_)

    def fit(
        self,
        probs: Any,
        labels: Any,
        *,
        calibration_nodes: Any,
        train_nodes: Any = None,
        ids: Any = None,
        class_names: Any = None,
        decision_nodes: Any = None,
        predictions: Any = None,
        calibrator: Any = None,
        cross_fitted: Any = None,
        region: float | None = None,
        sample_weight: Any = None,
    ) -> Self:
        """Return this policy, with its guarantees certified on the calibration nodes.

        Parameters
        ----------
        train_nodes : array_like, optional
            Nodes that the model was trained on. A guarantee does not count them, because the
            calibration nodes were not drawn from them.
        decision_nodes : array_like, optional
            Nodes to decide, a mask or indices. Default: all but ``calibration_nodes`` and
            ``train_nodes``, or all if none remain.
        cross_fitted : array_like of shape (n_nodes, n_classes), optional
            Second result of :func:`cross_fit`. The guarantees are then tested, not proven.
        region : float, optional
            Second result of :func:`nodes_to_label`; only for ``act`` without other guarantees.

        """
        if sample_weight is not None:
            raise InputError(
                "a guarantee cannot use sample_weight, because weights do not tell which labels "
                "will still change; leave it out, and pass only nodes whose labels are final."
            )
        self._is_proven = cross_fitted is None
        given = probs, labels, calibration_nodes, ids, class_names, calibrator
        checked, keys, rows = self._begin(given, is_cross_fitted=not self._is_proven)
        n_nodes, is_split = len(checked), calibrator is not None and self._is_proven
        seen = checked if self._is_proven else self._checked_probs(cross_fitted)
        if len(seen) != n_nodes:
            raise InputError(
                f"cross_fitted has {len(seen):,} rows but probs has {n_nodes:,}; pass both results "
                "of one call of gnncal.decisions.cross_fit."
            )
        self._may_train = train_nodes is None
        train = check_nodes([] if train_nodes is None else train_nodes, n_nodes, name="train_nodes")
        check_apart("calibration_nodes", rows, {"train_nodes": train}, advice=NOT_TRAINED_ON)
        self._trained = keys[train]
        n_fitted = sum(calibrator.fit_report_.nodes_per_class) if is_split else 0
        self._labels_for_one = 1.0 + n_fitted / rows.size
        self._lowest = self._check_region(region, checked, rows)
        self._review_threshold: float | None = None
        self._review_share = 0.0
        others = nodes_to_decide(decision_nodes, rows, n_nodes, train)
        prices = self._prices(None, n_nodes)
        here = None if prices is None else prices._of(others)
        self._certify(checked, seen, rows, others, here, train)
        predicted = None if predictions is None else check_labels(predictions, n_nodes)[others]
        self.forecast_ = self._forecast(checked[others], here, predicted)
        return self

    def decide(self, probs: Any, *, costs: Costs | None = None) -> npt.NDArray[np.str_]:
        """Return ``"act"``, ``"clear"``, ``"review"`` or ``"decide"`` for each node, (n_nodes,)."""
        check_is_fitted(self, "report_")
        checked = self._checked_probs(probs)
        return ACTIONS[self._codes(checked, self._prices(costs, len(checked)))]

    def select(self, probs: Any) -> BoolArray:
        """Return which nodes of a batch to act on, at a false discovery rate of 1 - ``act``.

        This guarantee is weaker than that of :meth:`decide` (conformal selection: Jin, Candes, JMLR
        2023). The false discovery rate is the share of negatives among the selected nodes, averaged
        over random draws of calibration nodes and batches from one population. A batch without a
        selected node counts as 0. So the rate does not bound the precision of the batches that
        select nodes: where few of them do, their precision can be far below ``act``.
        """
        check_is_fitted(self, "report_")
        if self.act is None or self._lowest > 0:
            raise InputError(
                "select needs a policy with act, such as Policy(positive=1, act=0.9), that was "
                "fitted without a region."
            )
        p = self._score_of(self._checked_probs(probs))
        negatives = np.sort(self._score[self._labels != self.positive_])
        n_above = negatives.size - np.searchsorted(negatives, p, side="left")
        values = (1 + n_above) / (self._score.size + 1)
        ranked = np.sort(values)
        small = ranked <= (1 - self.act) * np.arange(1, p.size + 1) / p.size
        return np.asarray(values <= ranked[small].max(initial=0.0))

    def judge(
        self, labels: Any, probs: Any, *, costs: Costs | None = None, predictions: Any = None
    ) -> PolicyOutcome:
        """Return the observed shares and costs on labelled nodes, next to guarantee or forecast."""
        check_is_fitted(self, "report_")
        checked = self._checked_probs(probs)
        truth = check_truth(labels, len(checked), self.n_classes_)
        prices = self._prices(costs, len(checked))
        codes, forecast = self._codes(checked, prices), self._forecast(checked, prices, predictions)
        predicted = checked.argmax(axis=1)
        marked = truth == (predicted if self.positive_ is None else self.positive_)
        checks = []
        for g in (each for each in self.guarantees_.values() if each.is_certified):
            n, right = g._counted(ACTIONS[codes] == g.action, g._holds_for(truth, predicted))
            found = right / n if n else np.nan
            checks.append(GuaranteeCheck(g.name, g.target, g.target, 1.0, found))
        with np.errstate(invalid="ignore"):  # 0 / 0: nothing is reviewed, or positive
            seen = {
                "precision": marked[codes == REVIEW].sum() / (codes == REVIEW).sum(),
                "recall": (codes[marked] != CLEAR).sum() / marked.sum(),
            }
        if prices is not None:
            seen["cost"] = pricing.cost_of(prices, codes, marked * 1).sum()
        checks += [
            GuaranteeCheck(name, each.expected, each.low, each.high, float(seen[name]))
            for name, each in forecast.estimates.items()
            if name in seen
        ]
        done = ACTIONS[codes[marked]]
        positives = {name: int((done == name).sum()) for name in forecast.counts}
        return PolicyOutcome(len(checked), forecast.counts, positives, tuple(checks))

    def __str__(self) -> str:
        forecast: Forecast | None = getattr(self, "forecast_", None)
        return super().__str__() + ("" if forecast is None else f" {forecast.sentence}")

    def _check_params(self) -> None:
        super()._check_params()
        asked = [name for name in TARGETS if getattr(self, name) is not None]
        for each in self.also:
            each._check()
            asked.append(each.name)
        wishes = [*asked, *(w for w in ("costs", "budget") if getattr(self, w) is not None)]
        clears = {"clear", "recall", *(g.name for g in self.also if g.action == "clear")} & {*asked}
        is_one_kind = wishes == ["accuracy"]
        if self.positive is not None:
            is_one_kind = bool(wishes) and self.accuracy is None
        problems = {
            f"two guarantees have one name: {', '.join(asked)}.": len({*asked}) < len(asked),
            f"{', '.join(wishes) or 'nothing'} is asked for, with positive={self.positive!r}; ask "
            "for accuracy alone, about all classes, or name a positive class and ask for act, "
            "clear, recall, false_positive_rate, costs or a budget.": not is_one_kind,
            f"costs decide about every node, so nothing is left for {', '.join(asked)}; make a "
            "policy for each.": self.costs is not None and asked,
            "a budget clears every node beyond it, so nothing can be guaranteed about the cleared "
            "nodes; leave clear and recall out, or the budget.": self.budget is not None and clears,
        }
        rate = self.false_positive_rate
        if rate is not None and 1.0 - rate == 1.0:
            raise InputError(
                f"false_positive_rate is {rate:g}, which no number of labels can tell from 0; pass "
                "a larger share, such as 0.01."
            )
        for message, is_wrong in problems.items():
            if is_wrong:
                raise InputError(message)

    def _guarantees(self) -> list[Guarantee]:
        """Return what is asked for, with the numbers of the classes."""
        asked = {name: getattr(self, name) for name in TARGETS if getattr(self, name) is not None}
        named = [
            named_guarantee(name, target, self.positive_, self.n_classes_)
            for name, target in asked.items()
        ]
        return named + [each._numbered(self.n_classes_, self.class_names_) for each in self.also]

    def _score_of(self, probs: FloatArray) -> FloatArray:
        """Return what thresholds are about, rounded to float32: files and services keep no more."""
        values = row_maxima(probs) if self.positive_ is None else probs[:, self.positive_]
        return values.astype(np.float32).astype(np.float64)

    def _certify(
        self,
        probs: FloatArray,
        seen: FloatArray,
        rows: IntArray,
        others: IntArray,
        prices: Costs | None,
        train: IntArray,
    ) -> None:
        """Fit to checked arrays; ``seen`` has the probabilities of the rows, prices the others'."""
        self._score, self._predicted = self._score_of(seen[rows]), seen[rows].argmax(axis=1)
        pool = np.setdiff1d(np.union1d(rows, others), train)
        self._labelled_share = rows.size / pool.size if pool.size > rows.size else 0.0
        pool = pool[self._score_of(probs[pool]) >= self._lowest]
        score = self._score_of(probs[pool])
        pools = [each._pool(probs[pool], score) for each in self._guarantees()]
        self._pools = np.array(pools) if pools else np.empty((0, 0))
        self._conclude()
        if self.budget is not None and (prices is not None or self.costs is None):
            self._fit_budget(probs[others], prices)
            self.report_ = replace(self.report_, review_threshold=self._review_threshold)
        if self.report_.n_uncertified:
            warn(self.report_.sentence)
        if self.costs is None and self.budget is None:
            return
        value = pricing.misfit(self._score, self._labels == self.positive_)
        if value < MISFIT:
            warn(
                f"{self.report_.of_what} does not fit the labels of the calibration nodes (p = "
                f"{value:.1g}), so the actions do not have the lowest cost, and the intervals are "
                "too narrow; calibrate first, with keep_predictions=False."
            )

    def _refit(self, probs: FloatArray, graph: Graph | None, keys: Keys, rows: IntArray) -> None:
        if not self._is_proven:
            raise InputError(
                "a policy certified with cross-fitting cannot be refreshed; certify it again, or "
                "with hold_out (--hold-out), to refresh it later."
            )
        vars(self).pop("forecast_", None)  # of the nodes of the fit
        train = np.flatnonzero(np.isin(keys, self._trained))
        others = nodes_to_decide(None, rows, len(probs), train)
        is_same = self.costs is None or self.costs._is_same_for_all
        prices = self._prices(None, others.size) if is_same else None
        self._certify(probs, probs, rows, others, prices, train)

    def _conclude(self) -> None:
        labels, guarantees = self._labels, self._guarantees()
        self._score = self._score.astype(np.float64)
        self.guarantees_ = certify_all(
            *(guarantees, self._score),
            [g._holds_for(labels, self._predicted) for g in guarantees],
            *(list(self._pools), 1.0 - self.confidence_level),
            labels_for_one=self._labels_for_one,
            lowest=self._lowest,
        )
        found = {each.action: each.threshold for each in self.guarantees_.values()}
        act, clear = found.get("decide", found.get("act", np.inf)), found.get("clear", -np.inf)
        if self.budget is not None:
            clear = np.nan
        if self.costs is not None:
            is_simple = self.budget is None and self.costs._is_same_for_all
            prices = self.costs._checked(0) if is_simple else None
            act, clear = (np.nan, np.nan) if prices is None else pricing.cost_thresholds(prices)
        self.act_threshold_, self.clear_threshold_ = act, clear
        of_what = "confidence"
        if self.positive_ is not None:
            self._recalibration = pricing.Recalibration.of(self._score, labels == self.positive_)
            of_what = f"P({class_label(self.positive_, self.class_names_)})"
        self.report_ = PolicyReport(
            *(of_what, float(self.confidence_level), labels.size, self._labelled_share),
            *(self._is_proven, act, clear, self._review_threshold),
            *(self.guarantees_, self._may_train),
        )

    def _fit_budget(self, probs: FloatArray, prices: Costs | None) -> None:
        """Find from which score up nodes are reviewed; equal ones are drawn at the limit."""
        budget, score = self.budget or 0.0, self._review_score(probs, prices)
        rest = np.append(np.sort(score[score > -np.inf])[::-1], -np.inf)
        k = min(int(budget if budget >= 1 else round(budget * len(probs))), rest.size - 1)
        self._review_threshold, self._review_share = np.inf, 0.0
        if k == 0:
            return
        limit, following = rest[k - 1 : k + 1].tolist()
        n_above, n_tied = int((rest > limit).sum()), int((rest == limit).sum())
        self._review_share, self._review_threshold = (k - n_above) / n_tied, limit
        if -np.inf < following < limit:  # no equal is left out: stand between two values
            self._review_threshold = (limit + following) / 2

    def _review_score(self, probs: FloatArray, prices: Costs | None) -> FloatArray:
        """Return what reviews are chosen by; minus infinity for nodes decided without."""
        p = self._score_of(probs)
        if prices is None:
            return np.where(p >= self.act_threshold_, -np.inf, p)
        _, cost = pricing.cheapest_automatic(prices, p)
        saved = cost - prices.review
        return np.where(saved < 0, -np.inf, saved)  # a review that costs more than it saves

    def _codes(self, probs: FloatArray, prices: Costs | None) -> IntArray:
        """Return the code of each node's action."""
        p, limit, clear = self._score_of(probs), self._review_threshold, self.clear_threshold_
        if self.positive_ is None:
            return np.where(p >= self.act_threshold_, DECIDE, REVIEW)
        if prices is None:
            clears = np.where((limit is not None) | (p <= clear), CLEAR, REVIEW)
            codes = np.where(p >= self.act_threshold_, ACT, clears)
        else:
            codes, cost = pricing.cheapest_automatic(prices, p)
            codes[(limit is None) & (cost > prices.review)] = REVIEW
        if limit is not None:
            score = self._review_score(probs, prices)
            tied = np.random.default_rng(0).permutation(np.flatnonzero(score == limit))
            codes[score > limit] = REVIEW
            codes[tied[: round(self._review_share * tied.size)]] = REVIEW
        return codes

    def _forecast(self, probs: FloatArray, prices: Costs | None, predictions: Any) -> Forecast:
        """Return what the policy does with nodes of these prices."""
        p, level = self._score_of(probs), float(self.confidence_level)
        codes, estimates = self._codes(probs, prices), dict[str, pricing.Estimate]()
        counts = np.bincount(codes, minlength=len(ACTIONS)).tolist()
        used = (DECIDE, REVIEW) if self.positive_ is None else (ACT, CLEAR, REVIEW)
        if self.budget is not None:
            estimates |= self._recalibration.expect_budget(p, codes, level)
        if prices is not None:
            model = probs.argmax(axis=1) if predictions is None else predictions
            is_positive = check_labels(model, len(probs)) == self.positive_
            estimates |= self._recalibration.expect_costs(prices, p, codes, is_positive, level)
        done = {str(ACTIONS[c]): counts[c] for c in used}
        return Forecast(len(probs), done, level, estimates)

    def _prices(self, given: Costs | None, n_nodes: int) -> Costs | None:
        """Return the costs of so many nodes; None if this policy does not decide by costs."""
        if self.costs is None:
            if given is not None:
                raise InputError("this policy does not decide by costs; leave costs out.")
            return None
        ARE_COSTS.check("costs", given or self.costs)
        prices = (given or self.costs)._checked(n_nodes)
        if self.budget is not None and np.array_equal(prices.review, np.inf):
            return replace(prices, review=0.0)  # the budget is paid for
        return prices

    def _check_region(self, region: float | None, probs: FloatArray, rows: IntArray) -> float:
        if region is None:
            return 0.0
        SHARE.check("region", region)
        if {each.name for each in self._guarantees()} != {"act"} or self.budget is not None:
            raise InputError("a region works for act alone; leave out the others, or the region.")
        outside = int((self._score_of(probs[rows]) < region).sum())
        if outside:
            raise InputError(
                f"{outside:,} calibration nodes lie below the region, which begins at {region:g}; "
                "pass only nodes that were drawn from it."
            )
        return float(region)


def nodes_to_decide(
    given: Any, calibration: IntArray, n_nodes: int, train: IntArray = NO_NODES
) -> IntArray:
    """Return these nodes, or else those of neither a fit nor the training; all if none remain."""
    if given is None:
        others = np.setdiff1d(np.arange(n_nodes), np.union1d(calibration, train))
        return others if others.size else np.arange(n_nodes)
    nodes = check_nodes(given, n_nodes, name="decision_nodes")
    if nodes.size == 0:
        raise InputError("decision_nodes is empty; pass the nodes to decide.")
    return nodes
