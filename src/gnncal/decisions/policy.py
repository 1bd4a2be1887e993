"""One policy: decide by a threshold, with a guarantee about what is decided."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from gnncal.data.arrays import BoolArray, FloatArray, IntArray, row_maxima
from gnncal.data.checks import check_labels, check_nodes, check_positive, class_label
from gnncal.data.constraints import (
    FLAG,
    NONE,
    Array,
    Constraint,
    LearnedTable,
    integer,
    number,
)
from gnncal.data.errors import InputError, warn
from gnncal.data.estimator import check_is_fitted
from gnncal.decisions.base import CalibrationNodes, Decision, Keys, check_truth
from gnncal.decisions.costs import (
    ACT,
    ACTIONS,
    CLEAR,
    DECIDE,
    REVIEW,
    Amount,
    Costs,
    Recalibration,
    cheapest_actions,
    cheapest_automatic,
    cost_of,
    cost_thresholds,
    expect_budget,
    expect_costs,
    misfit,
)
from gnncal.decisions.guarantees import (
    SHARE,
    Certified,
    Guarantee,
    accuracy,
    certify_all,
    of_one_class,
)
from gnncal.decisions.reports import Kept, Outlook, PolicyOutcome, PolicyReport
from gnncal.graph.graph import Graph
from gnncal.metrics.outcomes import clopper_pearson

TARGETS = ("act", "clear", "recall", "false_positive_rate")
MISFIT = 0.01  # p-value below which the probabilities do not fit the labels
IS_CLASS = Constraint(
    "the name of a class or its number",
    lambda value: isinstance(value, str | int | np.integer) and not isinstance(value, bool),
)
ARE_COSTS = Constraint(
    "costs such as gnncal.decisions.Costs(missed=500, false_alarm=20, review=3)",
    lambda value: isinstance(value, Costs),
)
ARE_GUARANTEES = Constraint(
    "a tuple of gnncal.decisions.Guarantee",
    lambda value: (
        isinstance(value, tuple | list) and all(isinstance(each, Guarantee) for each in value)
    ),
)


class Policy(Decision):
    """Decides about nodes by thresholds, with guarantees about what is decided.

    ``Policy(accuracy=0.95)`` is about all classes: nodes of high confidence get their predicted
    class (``"decide"``), of which at least this share is right; the others go to ``"review"``.

    ``Policy(positive="fraud", ...)`` is about one class: ``"act"`` on a node, ``"clear"`` it, or
    leave it to ``"review"``. Ask for one or more guarantees:

    * ``act``: of the nodes acted on, at least this share has the class (precision).
    * ``clear``: of the nodes cleared, at least this share has not (negative predictive value).
    * ``recall``: of the nodes that have the class, at least this share is not cleared.
    * ``false_positive_rate``: of the nodes that have it not, at most this share is acted on.
    * ``also``: your own, as :class:`Guarantee`.

    With probability at least ``confidence_level`` over the draw of the calibration nodes all of
    them hold together, for any model. A guarantee that cannot be certified decides no node, and
    :attr:`report_` says what could be certified.

    Or say what mistakes cost (``costs``): each node gets the action that is expected to cost least.
    Or how many nodes can be reviewed (``budget``): those with the highest probability, or with
    costs those that save most. These two guarantee nothing, but say what to expect.

    The calibration nodes must be drawn at random from the nodes that are decided, and must not
    have been used to fit the probabilities (:func:`hold_out`, :func:`cross_fit`).

    Parameters
    ----------
    accuracy : float, optional
        Share of the decisions that must be right, between 0 and 1; for all classes.
    positive : int or str, optional
        The positive class, by its number or its name.
    act, clear, recall, false_positive_rate : float, optional
        Guarantees about the positive class, between 0 and 1.
    also : tuple of Guarantee
        Guarantees of your own.
    costs : Costs, optional
        What mistakes and reviews cost; not together with guarantees.
    budget : int or float, optional
        How many of the nodes to decide are reviewed, or which share of them. It fixes a threshold,
        so nodes may come in batches. Not together with ``clear`` or ``recall``.
    confidence_level : float, default=0.9
        Probability with which the guarantees hold together, and level of all intervals.

    Attributes
    ----------
    positive_ : int or None
        Number of the positive class.
    guarantees_ : dict of str to Certified
        What was asked for and what is certified, by name.
    act_threshold_, clear_threshold_ : float
        Lowest probability (or confidence) with ``"act"`` or ``"decide"``, highest that is cleared;
        infinite if there is none, NaN where the action depends on more.
    calibrator_ : str or None
        Checksum of the calibrator, if ``fit`` was given one.
    report_ : PolicyReport
        All guarantees with what certifies them, and a sentence.
    outlook_ : Outlook
        What the policy does with the nodes to decide; not saved.

    References
    ----------
    Angelopoulos et al., "Learn then Test" (2021). ``gnncal/decisions/certificate.py`` has the test
    and why it is valid.

    Examples
    --------
    Is it an 8? One half of the labelled nodes fits the calibrator, the other half the policy:

    >>> import gnncal
    >>> from gnncal.decisions import Policy, hold_out
    >>> task = gnncal.example()
    >>> fit_nodes, held_out = hold_out(task.nodes, labels=task.labels)
    >>> result = gnncal.calibrate(
    ...     task.logits, task.labels, task.graph, nodes=fit_nodes, positive=8
    ... )
    >>> policy = Policy(positive=8, act=0.8, clear=0.98)
    >>> policy = policy.fit(
    ...     result.probabilities, task.labels, nodes=held_out, calibrator=result.calibrator
    ... )
    >>> actions = policy.decide(result.probabilities[task.test_nodes])
    >>> {action: int((actions == action).sum()) for action in ("act", "clear", "review")}
    {'act': 98, 'clear': 994, 'review': 5}

    """

    constraints: ClassVar[dict[str, Constraint]] = {
        "accuracy": SHARE | NONE,
        "positive": IS_CLASS | NONE,
        **dict.fromkeys(TARGETS, SHARE | NONE),
        "also": ARE_GUARANTEES,
        "costs": ARE_COSTS | NONE,
        "budget": integer(at_least=1) | SHARE | NONE,
        "confidence_level": SHARE,
    }
    saved_facts: ClassVar[LearnedTable] = {
        "positive": integer(at_least=0) | NONE,
        "score": Array("calibration", low=0.0, high=1.01),
        "predicted": Array("calibration", low=0, high="K-1", whole=True),
        "pools": Array("guarantees cells", low=0.0, high=1.01, may_be_empty=True),
        "labelled_share": number(at_least=0, at_most=1),
        "labels_for_one": number(at_least=1),
        "is_proven": FLAG,
        "lowest": number(at_least=0, at_most=1.01),
        "review_threshold": Constraint("a number", lambda value: type(value) is float) | NONE,
        "review_share": number(at_least=0, at_most=1),
    }

    positive_: int | None
    guarantees_: dict[str, Certified]
    act_threshold_: float
    clear_threshold_: float
    report_: PolicyReport
    outlook_: Outlook
    _review_threshold: float | None

    def __init__(
        self,
        *,
        accuracy: float | None = None,
        positive: int | str | None = None,
        act: float | None = None,
        clear: float | None = None,
        recall: float | None = None,
        false_positive_rate: float | None = None,
        also: tuple[Guarantee, ...] = (),
        costs: Costs | None = None,
        budget: float | None = None,
        confidence_level: float = 0.9,
    ) -> None:
        self.accuracy = accuracy
        self.positive = positive
        self.act = act
        self.clear = clear
        self.recall = recall
        self.false_positive_rate = false_positive_rate
        self.also = also
        self.costs = costs
        self.budget = budget
        self.confidence_level = confidence_level

    def fit(
        self,
        probs: Any,
        labels: Any,
        *,
        nodes: Any,
        ids: Any = None,
        class_names: Any = None,
        decision_nodes: Any = None,
        predictions: Any = None,
        calibrator: Any = None,
        cross_fitted: Any = None,
        region: float | None = None,
        sample_weight: Any = None,
    ) -> Self:
        """Certify the guarantees on calibration nodes, and say what to expect of the others.

        Parameters
        ----------
        probs : array_like of shape (n_nodes, n_classes)
            Probabilities; rows sum to one.
        labels : array_like of shape (n_nodes,)
            Classes 0..K-1, -1 where unknown. Labels outside ``nodes`` are never looked at.
        nodes : array_like
            Calibration nodes, mask or indices: drawn at random, and seen neither by the model nor
            by its calibrator.
        ids : array_like of shape (n_nodes,), optional
            Your own name of each node, whole numbers or texts, for :meth:`refresh`. Default: the
            rows are the nodes 0..N-1.
        class_names : list of str, optional
            A name for each class, if ``positive`` is a name, and for what is printed.
        decision_nodes : array_like, optional
            Nodes to decide, mask or indices. Default: all that are no calibration nodes, or all
            nodes if there is no other.
        predictions : array_like of shape (n_nodes,), optional
            Classes that the model as it was predicts, to compare costs with. Default: the most
            probable ones.
        calibrator : Calibrator, optional
            The calibrator that made ``probs``. The policy keeps its checksum, and refuses
            calibration nodes that it was fitted on.
        cross_fitted : array_like of shape (n_nodes, n_classes), optional
            Probabilities of the calibration nodes by calibrators that have not seen them, from
            :func:`cross_fit`. The guarantees are then measured, not proven.
        region : float, optional
            Lowest probability of the region from which the calibration nodes were drawn
            (:func:`nodes_to_label`); for ``act`` alone.
        sample_weight : array_like, optional
            Refused: a guarantee counts nodes. See the message.

        Returns
        -------
        Policy
            The policy itself, fitted.

        Raises
        ------
        InputError
            If an array or a parameter cannot be used, or nothing is asked for.

        """
        if sample_weight is not None:
            raise InputError(
                "a guarantee counts nodes, and weights do not say which labels will still change; "
                "pass as nodes those whose labels are final, such as those labelled longer ago "
                "than a label takes, and no sample_weight."
            )
        is_proven = cross_fitted is None
        checked, _, rows = self._begin(
            probs, labels, nodes, ids, class_names, calibrator if is_proven else None
        )
        n_nodes, n_classes = checked.shape
        names = getattr(self, "class_names_", None)
        is_named = self.positive is not None
        self.positive_ = check_positive(self.positive, n_classes, names) if is_named else None
        others = _others(decision_nodes, rows, n_nodes)
        predicted = None if predictions is None else check_labels(predictions, n_nodes)[others]
        n_fitted = 0
        if calibrator is not None and is_proven:
            n_fitted = sum(calibrator.fit_report_.nodes_per_class)
        elif calibrator is not None:
            from gnncal.files.saved_calibrators import checksum

            self.calibrator_ = checksum(calibrator)
        self._is_proven, self._labels_for_one = is_proven, 1.0 + n_fitted / rows.size
        self._lowest = self._check_region(region, checked, rows)
        self._review_threshold, self._review_share = None, 0.0
        seen = checked if is_proven else self._checked_probs(cross_fitted)
        prices = self._prices(None, n_nodes)
        here = None if prices is None else prices._of(others)
        self._certify(checked, seen, rows, others, here)
        self.outlook_ = self._outlook(checked[others], here, predicted)
        return self

    def decide(self, probs: Any, *, costs: Costs | None = None) -> npt.NDArray[np.str_]:
        """Say what to do with each node.

        Parameters
        ----------
        probs : array_like of shape (n_nodes, n_classes)
            Probabilities, made as those of ``fit``.
        costs : Costs, optional
            Costs of these nodes, if the policy decides by costs that differ from node to node.

        Returns
        -------
        ndarray of str of shape (n_nodes,)
            ``"act"``, ``"clear"``, ``"review"``, or ``"decide"``.

        """
        check_is_fitted(self, "report_")
        checked = self._checked_probs(probs)
        return ACTIONS[self._codes(checked, self._prices(costs, len(checked)))]

    def select(self, probs: Any) -> BoolArray:
        """Choose nodes of one batch to act on, so that ``act`` of them are right on average.

        This is a softer guarantee (conformal selection: Jin, Candes, JMLR 2023): the expected share
        of right ones, over draws of calibration nodes and batch, is at least ``act``. A third to a
        half of single batches miss it. It acts on more nodes than :meth:`decide`.

        Parameters
        ----------
        probs : array_like of shape (n_nodes, n_classes)
            Probabilities of the batch, drawn like the calibration nodes.

        Returns
        -------
        ndarray of bool of shape (n_nodes,)
            Which nodes to act on.

        Raises
        ------
        InputError
            If the policy has no ``act``.

        """
        check_is_fitted(self, "report_")
        if self.act is None or self._lowest > 0:
            raise InputError(
                "selecting on average needs act, such as Policy(positive=1, act=0.9), and "
                "calibration nodes from anywhere."
            )
        p = self._score_of(self._checked_probs(probs))
        negatives = np.sort(self._score[self._calibration.labels != self.positive_])
        n_above = negatives.size - np.searchsorted(negatives, p, side="left")
        values = (1 + n_above) / (self._score.size + 1)
        ranked = np.sort(values)
        small = ranked <= (1 - self.act) * np.arange(1, p.size + 1) / p.size
        chosen: BoolArray = values <= ranked[small].max(initial=0.0)
        return chosen

    def judge(
        self, labels: Any, probs: Any, *, costs: Costs | None = None, predictions: Any = None
    ) -> PolicyOutcome:
        """Compare what the policy guaranteed with what labelled nodes show.

        Parameters
        ----------
        labels : array_like of shape (n_nodes,)
            Classes 0..K-1.
        probs, costs : array_like and Costs
            As for :meth:`decide`.
        predictions : array_like of shape (n_nodes,), optional
            Classes that the model as it was predicts.

        Returns
        -------
        PolicyOutcome
            Guaranteed next to found.

        """
        check_is_fitted(self, "report_")
        checked = self._checked_probs(probs)
        outlook = self._outlook_of(checked, costs, predictions)
        truth = check_truth(labels, len(checked), self.n_classes_)
        prices = self._prices(costs, len(checked))
        codes, predicted = self._codes(checked, prices), checked.argmax(axis=1)
        marked = truth == (predicted if self.positive_ is None else self.positive_)
        kept = []
        for guarantee in self._guarantees():
            target = guarantee.target
            if self.guarantees_[guarantee.name].is_certified:
                holds = guarantee._holds_for(truth, predicted)
                n, right = guarantee._counted(ACTIONS[codes] == guarantee.action, holds)
                ends = map(float, clopper_pearson(right, n))
                found = right / n if n else np.nan
                kept.append(Kept(guarantee.name, target, target, 1.0, found, *ends))
        seen = {
            "cost": np.nan if prices is None else cost_of(prices, codes, marked * 1).sum(),
            "precision": _mean(marked[codes == REVIEW]),
            "recall": _mean(codes[marked] != CLEAR),
        }
        kept += [
            Kept(name, each.expected, each.low, each.high, float(seen[name]))
            for name, each in outlook.amounts.items()
            if name in seen
        ]
        hits = dict(zip(ACTIONS.tolist(), np.bincount(codes[marked], minlength=4), strict=True))
        positives = {name: int(hits[name]) for name in outlook.counts}
        return PolicyOutcome(len(checked), outlook.counts, positives, tuple(kept))

    def _check_params(self) -> None:
        super()._check_params()
        asked = [name for name in TARGETS if getattr(self, name) is not None]
        asked += [each.name for each in self.also]
        for each in self.also:
            each._check()
        if len(set(asked)) < len(asked):
            raise InputError(f"two guarantees have one name: {', '.join(asked)}.")
        wishes = [*asked, *(w for w in ("costs", "budget") if getattr(self, w) is not None)]
        if self.accuracy is not None and (wishes or self.positive is not None):
            raise InputError(
                "accuracy is about all classes, and the rest about one; make a policy for each."
            )
        if self.accuracy is None and not wishes:
            raise InputError(
                "nothing is asked for; pass accuracy=0.95, or positive= with act, clear, recall or "
                "false_positive_rate, costs or a budget."
            )
        if wishes and self.positive is None:
            raise InputError(f"{wishes[0]} is about one class; name it with positive=.")
        if self.costs is not None and asked:
            raise InputError(
                f"costs decide about every node, so nothing is left for {asked[0]}; make a policy "
                "for each."
            )
        cleared = {"clear", "recall"} | {each.name for each in self.also if each.action == "clear"}
        if self.budget is not None and cleared & set(asked):
            raise InputError(
                "a budget clears what nobody has time for, so nothing can be guaranteed about what "
                "is cleared; leave clear and recall out, or the budget."
            )

    def __str__(self) -> str:
        return self._in_words(getattr(self, "outlook_", None))

    def _in_words(self, outlook: Outlook | None) -> str:
        """Say what is guaranteed and, given an outlook, what is done with those nodes."""
        said = super().__str__()
        return said if outlook is None else f"{said} {outlook.sentence}"

    def _guarantees(self) -> list[Guarantee]:
        """Return what is asked for, with the numbers of the classes."""
        if self.accuracy is not None:
            return [accuracy(float(self.accuracy))]
        assert self.positive_ is not None
        names = getattr(self, "class_names_", None)
        targets = {name: getattr(self, name) for name in TARGETS}
        own = [each._numbered(self.n_classes_, names) for each in self.also]
        return [*of_one_class(self.positive_, self.n_classes_, targets), *own]

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
    ) -> None:
        """Fit to checked arrays; ``seen`` has the probabilities of the rows, prices the others'."""
        self._score, self._predicted = self._score_of(seen[rows]), seen[rows].argmax(axis=1)
        pool = np.union1d(rows, others)
        self._labelled_share = rows.size / pool.size if pool.size > rows.size else 0.0
        pool = pool[self._score_of(probs[pool]) >= self._lowest]
        score = self._score_of(probs[pool])
        pools = [each._pool(probs[pool], score) for each in self._guarantees()]
        self._pools: FloatArray = np.array(pools) if pools else np.empty((0, 0))
        self._conclude()
        if self.budget is not None and (prices is not None or self.costs is None):
            self._fit_budget(probs[others], prices)
            self._conclude()
        if self.report_.n_uncertified:
            warn(self.report_.sentence)
        if self.costs is None and self.budget is None:
            return
        value = misfit(self._score, self._calibration.labels == self.positive_)
        if value < MISFIT:
            warn(
                f"{self.report_.of_what} does not fit the labels of the calibration nodes (p = "
                f"{value:.1g}), so costs are not the lowest, and intervals cover somewhat less "
                "than they say; calibrate first, with keep_predictions=False."
            )

    def _conclude(self) -> None:
        """Set what a fit leaves, from the numbers that a file keeps."""
        labels, score = self._calibration.labels, self._score
        guarantees = self._guarantees()
        self.guarantees_ = {}
        if guarantees:
            self.guarantees_ = certify_all(
                *(guarantees, score, [g._holds_for(labels, self._predicted) for g in guarantees]),
                *(list(self._pools), 1.0 - self.confidence_level),
                labels_for_one=self._labels_for_one,
                lowest=self._lowest,
            )
        is_positive, of_what = labels == self.positive_, "confidence"
        if self.positive_ is not None:
            self._recalibration = Recalibration.of(score, is_positive)
            of_what = f"P({class_label(self.positive_, getattr(self, 'class_names_', None))})"
        found = {each.action: each.threshold for each in self.guarantees_.values()}
        act, clear = found.get("decide", found.get("act", np.inf)), found.get("clear", -np.inf)
        if self.budget is not None:
            clear = np.nan
        if self.costs is not None:
            is_simple = self.budget is None and self.costs._is_same_for_all
            act, clear = cost_thresholds(self.costs._checked(0)) if is_simple else (np.nan, np.nan)
        self.act_threshold_, self.clear_threshold_ = act, clear
        self.report_ = PolicyReport(
            of_what=of_what,
            confidence_level=float(self.confidence_level),
            n_calibration=score.size,
            n_positive=None if self.positive_ is None else int(is_positive.sum()),
            labelled_share=self._labelled_share,
            is_proven=self._is_proven,
            act_threshold=act,
            clear_threshold=clear,
            review_threshold=self._review_threshold,
            guarantees=self.guarantees_,
        )

    def _fit_budget(self, probs: FloatArray, prices: Costs | None) -> None:
        """Find from which score up nodes are reviewed; equal ones are drawn at the limit."""
        assert self.budget is not None
        score, acted = self._review_score(probs, prices)
        rest = np.sort(score[~acted])[::-1]
        k = self.budget if self.budget >= 1 else round(self.budget * len(probs))
        k = min(int(k), rest.size)
        self._review_threshold, self._review_share = np.inf, 0.0
        if k == 0:
            return
        limit = float(rest[k - 1])
        n_above, n_tied = int((rest > limit).sum()), int((rest == limit).sum())
        self._review_share, self._review_threshold = (k - n_above) / n_tied, limit
        if n_above + n_tied == k:  # no equal is left out: stand between two values
            self._review_threshold = (limit + float(rest[k] if k < rest.size else limit)) / 2

    def _review_score(
        self, probs: FloatArray, prices: Costs | None
    ) -> tuple[FloatArray, BoolArray]:
        """Return what reviews are chosen by, and which nodes are decided without."""
        p = self._score_of(probs)
        if prices is None:
            return p, p >= self.act_threshold_
        _, cost = cheapest_automatic(prices, p)
        return cost - prices.review, cost < prices.review  # what costs more than it saves is none

    def _codes(self, probs: FloatArray, prices: Costs | None) -> IntArray:
        """Return the code of each node's action."""
        p, act = self._score_of(probs), self.act_threshold_
        if self.accuracy is not None:
            return np.where(p >= act, DECIDE, REVIEW)
        if self._review_threshold is None and prices is not None:
            return cheapest_actions(prices, p)
        if self._review_threshold is None:
            return np.where(p >= act, ACT, np.where(p <= self.clear_threshold_, CLEAR, REVIEW))
        score, acted = self._review_score(probs, prices)
        codes = np.where(acted, ACT, CLEAR)
        if prices is not None:
            codes = cheapest_automatic(prices, p)[0]
        codes[~acted & (score > self._review_threshold)] = REVIEW
        tied = np.flatnonzero(~acted & (score == self._review_threshold))
        order = np.random.default_rng(0).permutation(tied)
        codes[order[: round(self._review_share * tied.size)]] = REVIEW
        return codes

    def _outlook_of(self, probs: FloatArray, costs: Costs | None, predictions: Any) -> Outlook:
        """Return what the policy does with checked nodes that have costs of their own."""
        predicted = None if predictions is None else check_labels(predictions, len(probs))
        return self._outlook(probs, self._prices(costs, len(probs)), predicted)

    def _outlook(
        self, probs: FloatArray, prices: Costs | None, predicted: IntArray | None
    ) -> Outlook:
        codes, level = self._codes(probs, prices), float(self.confidence_level)
        counts = np.bincount(codes, minlength=len(ACTIONS)).tolist()
        used = (DECIDE, REVIEW) if self.accuracy is not None else (ACT, CLEAR, REVIEW)
        amounts: dict[str, Amount] = {}
        if self.budget is not None:
            chosen = codes == REVIEW, codes == ACT
            amounts |= expect_budget(self._score_of(probs), *chosen, self._recalibration, level)
        if prices is not None:
            model = probs.argmax(axis=1) if predicted is None else predicted
            actions = codes, model == self.positive_
            p = self._score_of(probs)
            amounts |= expect_costs(prices, p, *actions, self._recalibration, level)
        return Outlook(len(probs), {str(ACTIONS[c]): counts[c] for c in used}, level, amounts)

    def _prices(self, given: Costs | None, n_nodes: int) -> Costs | None:
        """Return the costs of so many nodes; None if this policy does not decide by costs."""
        if given is not None:
            ARE_COSTS.check("costs", given)
            if self.costs is None:
                raise InputError("this policy does not decide by costs; leave costs out.")
        if self.costs is None:
            return None
        prices = (self.costs if given is None else given)._checked(n_nodes)
        if self.budget is not None and np.array_equal(prices.review, np.inf):
            return replace(prices, review=0.0)  # the budget is paid for
        return prices

    def _check_region(self, region: float | None, probs: FloatArray, rows: IntArray) -> float:
        if region is None:
            return 0.0
        SHARE.check("region", region)
        if {each.name for each in self._guarantees()} != {"act"} or self.budget is not None:
            raise InputError("a region certifies act alone; leave the rest out, or the region.")
        outside = int((self._score_of(probs[rows]) < region).sum())
        if outside:
            raise InputError(
                f"{outside:,} calibration nodes lie below the region, which begins at {region:g}; "
                "pass as nodes those that were drawn from it."
            )
        return float(region)

    def _refresh(
        self,
        probs: FloatArray,
        graph: Graph | None,
        keys: Keys,
        rows: IntArray,
        calibration: CalibrationNodes,
    ) -> None:
        if not self._is_proven:
            raise InputError(
                "a policy that was certified with cross-fitting cannot be refreshed, because its "
                "calibrators of other nodes are gone; certify it again."
            )
        self.__dict__.pop("outlook_", None)  # of the nodes of the fit
        self._calibration, others = calibration, _others(None, rows, len(probs))
        is_same = self.costs is None or self.costs._is_same_for_all
        prices = self._prices(None, others.size) if is_same else None
        self._certify(probs, probs, rows, others, prices)

    def _facts(self) -> dict[str, Any]:
        names = [*self.saved_facts.keys() - {"positive"}]
        return {"positive": self.positive_, **{name: getattr(self, f"_{name}") for name in names}}

    def _restore(self, facts: dict[str, Any]) -> None:
        positive = facts["positive"]
        if positive is not None and positive >= self.n_classes_:
            raise InputError(f"positive is {positive}, but there are {self.n_classes_} classes.")
        if (positive is None) != (self.positive is None):
            raise InputError("the positive class and the parameters do not fit together.")
        self.positive_ = positive
        for name in self.saved_facts.keys() - {"positive"}:
            setattr(self, f"_{name}", facts[name])
        n, n_pools = self._calibration.labels.size, len(self._guarantees())
        if self._score.size != n or self._predicted.size != n or len(self._pools) != n_pools:
            raise InputError(f"its numbers are not those of {n} calibration nodes.")
        self._score = self._score.astype(np.float64)
        self._conclude()


def _mean(values: BoolArray) -> float:
    return float(values.mean()) if values.size else float("nan")


def _others(given: Any, calibration: IntArray, n_nodes: int) -> IntArray:
    """Return the nodes to decide."""
    if given is None:
        others = np.setdiff1d(np.arange(n_nodes), calibration)
        return others if others.size else np.arange(n_nodes)
    nodes = check_nodes(given, n_nodes, name="decision_nodes")
    if nodes.size == 0:
        raise InputError("decision_nodes is empty; pass the nodes that are to be decided.")
    return nodes
