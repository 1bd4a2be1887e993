"""Conformal prediction: sets of classes that have the true class as often as asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import betaincinv

from gnncal.data.arrays import BoolArray, FloatArray, IntArray, as_numpy
from gnncal.data.checks import check_class_names
from gnncal.data.constraints import (
    FLAG,
    NONE,
    Array,
    Constraint,
    LearnedTable,
    integer,
    number,
    one_of,
)
from gnncal.data.errors import InputError, short_repr, warn
from gnncal.data.estimator import check_is_fitted
from gnncal.data.nodes import check_graph
from gnncal.data.tables import DECIMALS, Table, Tabular, count, quantities, text
from gnncal.data.tables import number as shown_number
from gnncal.decisions.base import POOL, CalibrationNodes, Decision, Keys, check_truth, node_keys
from gnncal.decisions.guarantees import percent
from gnncal.decisions.scores import (
    SCORES,
    ConformalScore,
    check_scores,
    conformal_quantile,
    conformal_rank,
)
from gnncal.graph.graph import Graph
from gnncal.metrics.outcomes import clopper_pearson

INTERVAL_LEVEL = 0.95
MOST_NAMED = 10  # classes that a sentence names
BY_ID, BY_CALIBRATION_ROW = 0, 1  # numbers of the two have nothing to do with each other
IS_SCORE = Constraint(
    "a score such as gnncal.decisions.RAPS(k_reg=2)",
    lambda value: isinstance(value, ConformalScore),
)


class ConformalClassifier(Decision):
    """Gives each node a set of classes that contains the true one with a chosen probability.

    The guarantee: if the calibration nodes were drawn at random from the same pool as a new node,
    the set of the new node contains its true class with probability at least ``coverage``. It is
    an average over nodes and over draws of the calibration nodes, for any model; with n of them
    the probability is also at most ``coverage`` + 1 / (n + 1), unless scores are tied or empty
    sets are filled. Where a class is rare, the sets may miss most of its nodes; with
    ``by_class=True`` the guarantee is for the nodes of each class by themselves.

    It breaks when the calibration nodes were used to fit the calibrator or to choose the model or
    the score (:func:`hold_out`), when nodes join the graph and the sets are not refreshed
    (:meth:`refresh`), when the graph drifts, or when labels are known for special nodes only.

    Parameters
    ----------
    coverage : float, default=0.9
        Share of nodes whose set must have the true class, between 0 and 1.
    score : str or ConformalScore, default="aps"
        ``"aps"``, ``"raps"``, ``"lac"`` (one minus the probability), ``"daps"`` (which averages
        scores over neighbours and needs a graph), ``"snaps"`` (also over nodes of similar
        features), or an object such as ``DAPS(diffusion=0.3)``.
    by_class : bool, default=False
        One threshold for each class, from the calibration nodes that have it. A class with too few
        calibration nodes is in every set, which a warning says.
    nonempty : bool, default=True
        Put the predicted class into sets that would be empty, which only adds coverage.
    random_state : int, optional
        Seed of one random number for each node. The number belongs to the node's id, or to its
        row where the nodes of one graph are given without ids. Default: each ``fit`` draws a seed,
        because a seed that is the same in every fit gives the first nodes of every fit the same
        numbers, with which a few nodes cover more or less than they should.
        ``APS(randomised=False)`` and ``"lac"`` use no such numbers.

    Attributes
    ----------
    threshold_ : ndarray of shape (1,) or (n_classes,)
        A class belongs to the set if its score is at most this; one for each class with
        ``by_class``. Infinite with too few nodes.
    seed_ : int
        The seed in use: ``random_state``, or the one that ``fit`` has drawn.
    calibrator_ : str or None
        Checksum of the calibrator, if ``fit`` was given one.
    report_ : SetReport
        What was found, with limits between which the coverage of a single fit lies.

    References
    ----------
    Huang et al. (NeurIPS 2023) for why it is valid on graphs; the scores name their own.

    Examples
    --------
    One half of the labelled nodes fits the calibrator, the other half the sets:

    >>> import gnncal
    >>> from gnncal.decisions import ConformalClassifier, hold_out
    >>> task = gnncal.example()
    >>> fit_nodes, held_out = hold_out(task.nodes, labels=task.labels)
    >>> result = gnncal.calibrate(task.logits, task.labels, task.graph, nodes=fit_nodes)
    >>> probs, test = result.probabilities, task.test_nodes
    >>> conformal = ConformalClassifier(0.95, random_state=0)
    >>> conformal = conformal.fit(probs, task.labels, nodes=held_out)
    >>> outcome = conformal.judge(task.labels[test], probs[test], ids=test)
    >>> round(outcome.coverage, 2), round(outcome.mean_size, 2)
    (0.98, 1.15)

    """

    constraints: ClassVar[dict[str, Constraint]] = {
        "coverage": number(above=0, below=1),
        "score": one_of(*SCORES) | IS_SCORE,
        "by_class": FLAG,
        "nonempty": FLAG,
        "random_state": integer(at_least=0) | NONE,
    }
    saved_facts: ClassVar[LearnedTable] = {
        "threshold": Array("thresholds", high=np.inf),
        "seed": integer(at_least=0),
    }

    threshold_: FloatArray
    seed_: int
    report_: SetReport

    def __init__(
        self,
        coverage: float = 0.9,
        *,
        score: str | ConformalScore = "aps",
        by_class: bool = False,
        nonempty: bool = True,
        random_state: int | None = None,
    ) -> None:
        self.coverage = coverage
        self.score = score
        self.by_class = by_class
        self.nonempty = nonempty
        self.random_state = random_state

    def fit(
        self,
        probs: Any,
        labels: Any,
        graph: Any = None,
        *,
        nodes: Any,
        ids: Any = None,
        class_names: Any = None,
        calibrator: Any = None,
    ) -> Self:
        """Find the threshold of the scores on the calibration nodes.

        Parameters
        ----------
        probs : array_like of shape (n_nodes, n_classes)
            Probabilities; rows sum to one.
        labels : array_like of shape (n_nodes,)
            Classes 0..K-1, -1 where unknown. Labels outside ``nodes`` are never looked at.
        graph : Graph or torch_geometric.data.Data, optional
            The graph of these nodes, for scores that need one.
        nodes : array_like
            Calibration nodes, mask or indices: drawn at random, and seen neither by the model nor
            by its calibrator.
        ids : array_like of shape (n_nodes,), optional
            Your own name of each node, whole numbers or texts. Default: where there are more rows
            than calibration nodes, the rows are the nodes 0..N-1 of one graph.
        class_names : list of str, optional
            A name for each class, used in sentences and kept in the saved file.
        calibrator : Calibrator, optional
            The calibrator that made ``probs``; nodes that it was fitted on are refused.

        Returns
        -------
        ConformalClassifier
            The classifier itself, fitted.

        Raises
        ------
        InputError
            If an array or a parameter cannot be used, or a graph is needed and missing.

        """
        checked, keys, rows = self._begin(probs, labels, nodes, ids, class_names, calibrator)
        self._draw_seed()
        self._refresh(checked, check_graph(graph, len(checked)), keys, rows, self._calibration)
        return self

    def _fit_sets(
        self, probs: FloatArray, labels: IntArray, graph: Graph | None, nodes: IntArray
    ) -> BoolArray:
        """Fit to checked arrays, and return the sets of the same rows; each is scored once."""
        keys = node_keys(None, len(probs))
        self._draw_seed()
        self.n_classes_, self.calibrator_ = probs.shape[1], None
        calibration = CalibrationNodes(keys[nodes], labels[nodes], len(probs), False)
        return self._sets(self._refresh(probs, graph, keys, nodes, calibration), probs)

    def predict_set(self, probs: Any, graph: Any = None, *, ids: Any = None) -> BoolArray:
        """Return the set of classes of each node.

        Parameters
        ----------
        probs : array_like of shape (n_nodes, n_classes)
            Probabilities, made like those of ``fit``. If there are as many rows as in ``fit``, and
            ``fit`` had more than the calibration nodes, they are taken to be the same nodes.
        graph : Graph or torch_geometric.data.Data, optional
            The graph of these nodes, for scores that need one.
        ids : array_like of shape (n_nodes,), optional
            The name of each node. If ``fit`` was given none, these are the numbers of its rows, or
            any names for nodes that it has not seen. A node with an id has the same set in every
            call. Without ids, rows other than those of the fitted graph get new random numbers in
            each call: the coverage is the same, but asking twice may give two sets.

        Returns
        -------
        ndarray of bool of shape (n_nodes, n_classes)
            Whether the set of this node has this class.

        """
        check_is_fitted(self, "threshold_")
        checked = self._checked_probs(probs)
        uniform = self._uniform(len(checked), ids)
        known = check_graph(graph, len(checked))
        return self._sets(self._scored(checked, uniform, known), checked)

    def judge(self, labels: Any, probs: Any, graph: Any = None, *, ids: Any = None) -> SetOutcome:
        """Count the sets that have the true class, overall and by class, and measure their size.

        Parameters
        ----------
        labels : array_like of shape (n_nodes,)
            Classes 0..K-1.
        probs, graph, ids : array_like
            As for :meth:`predict_set`.

        Returns
        -------
        SetOutcome
            Coverage and size of the sets.

        """
        sets = self.predict_set(probs, graph, ids=ids)
        return judge_sets(labels, sets, class_names=getattr(self, "class_names_", None))

    def _check_params(self) -> None:
        super()._check_params()
        self._score()._check()

    def _draw_seed(self) -> None:
        drawn = int(np.random.default_rng().integers(1 << 62))
        self.seed_ = drawn if self.random_state is None else self.random_state

    def _score(self) -> ConformalScore:
        return SCORES[self.score]() if isinstance(self.score, str) else self.score

    def _scored(self, probs: FloatArray, uniform: FloatArray, graph: Graph | None) -> FloatArray:
        score = self._score()
        if score.needs_graph and graph is None:
            raise InputError(f"{type(score).__name__} needs a graph; pass that of these nodes.")
        return check_scores(score, score.scores(probs, uniform, graph), probs.shape)

    def _sets(self, scores: FloatArray, probs: FloatArray) -> BoolArray:
        """Return the classes whose scores lie below the threshold."""
        sets = scores <= self.threshold_
        if self.nonempty:
            empty = np.flatnonzero(~sets.any(axis=1))
            sets[empty, probs[empty].argmax(axis=1)] = True
        return sets

    def _refresh(
        self,
        probs: FloatArray,
        graph: Graph | None,
        keys: Keys,
        rows: IntArray,
        calibration: CalibrationNodes,
    ) -> FloatArray:
        """Find the thresholds on the calibration nodes; return the scores of every node."""
        are_nodes = calibration.has_ids or calibration.has_others  # to be asked for later
        uniform = numbers_by_key(keys, self.seed_, BY_ID if are_nodes else BY_CALIBRATION_ROW)
        every = self._scored(probs, uniform, graph)
        labels = calibration.labels
        scores = every[rows, labels]
        parts = [scores]
        if self.by_class:
            parts = [scores[labels == c] for c in range(self.n_classes_)]
        self._calibration = calibration
        self.threshold_ = np.array([conformal_quantile(part, self.coverage) for part in parts])
        self.report_ = self._report()
        if self.report_.leaves_a_class_open:
            warn(self.report_.sentence)
        return every

    def _report(self) -> SetReport:
        labels, names = self._calibration.labels, ("all nodes",)
        counts = np.array([labels.size])
        if self.by_class:
            counts = np.bincount(labels, minlength=self.n_classes_)
            names = tuple(getattr(self, "class_names_", None) or map(_class, range(counts.size)))
        limits = [coverage_limits(n, self.coverage) for n in counts.tolist()]
        lows, highs = zip(*limits, strict=True)
        return SetReport(
            coverage=float(self.coverage),
            n_calibration=int(counts.sum()),
            by_class=self.by_class,
            names=names,
            counts=tuple(counts.tolist()),
            thresholds=tuple(self.threshold_.tolist()),
            lows=lows,
            highs=highs,
        )

    def _facts(self) -> dict[str, Any]:
        return {"threshold": self.threshold_, "seed": self.seed_}

    def _restore(self, facts: dict[str, Any]) -> None:
        labels, threshold = self._calibration.labels, facts["threshold"]
        counts = np.array([labels.size])
        if self.by_class:
            counts = np.bincount(labels, minlength=self.n_classes_)
        if threshold.shape != counts.shape:
            raise InputError(
                f"threshold is {short_repr(threshold)}, which does not fit "
                f"by_class={self.by_class}."
            )
        for value, n in zip(threshold.tolist(), counts.tolist(), strict=True):
            if conformal_rank(n, self.coverage) > n and value != np.inf:
                raise InputError(
                    f"threshold is {short_repr(value)}, but {n} calibration nodes give none."
                )
        self.threshold_, self.seed_ = threshold, facts["seed"]
        self.report_ = self._report()

    def _uniform(self, n_nodes: int, ids: Any) -> FloatArray:
        """One random number for each node to predict."""
        known = self._calibration
        if ids is not None:
            return numbers_by_key(node_keys(ids, n_nodes), self.seed_)
        if n_nodes != known.n_rows or not known.has_others:
            return np.random.default_rng().random(n_nodes)
        if known.has_ids:
            raise InputError(
                "ids is missing: fit was given ids, and these seem to be the same nodes; pass "
                "predict_set(probs, ids=...) with the ids of these rows."
            )
        return numbers_by_key(node_keys(None, n_nodes), self.seed_)


@dataclass(frozen=True, repr=False)
class SetReport(Tabular):
    """What a fit of sets found on the calibration nodes, in numbers and in plain words."""

    coverage: float  # that was asked for
    n_calibration: int
    by_class: bool
    names: tuple[str, ...]  # "all nodes", or those of the classes
    counts: tuple[int, ...]  # calibration nodes of each
    thresholds: tuple[float, ...]  # largest score in a set; infinite with too few nodes
    lows: tuple[float, ...]  # 95% of draws of as many calibration nodes cover a share between
    highs: tuple[float, ...]  # these

    @property
    def leaves_a_class_open(self) -> bool:
        """Whether a class has too few calibration nodes to be left out of any set."""
        return np.inf in self.thresholds

    @property
    def sentence(self) -> str:
        """The result in plain words."""
        share, takes = percent(self.coverage), f"{fewest_calibration(self.coverage):,}"
        if self.leaves_a_class_open and not self.by_class:
            return (
                f"Every set has all classes: {self.n_calibration:,} calibration nodes are too few "
                f"for {share} coverage, which takes at least {takes}."
            )
        said = (
            "Averaged over draws of the calibration nodes, the sets have the true class of at "
            f"least {share} of the nodes{' of each class' if self.by_class else ''}."
        )
        rows = zip(self.names, self.counts, self.thresholds, strict=True)
        few = [f"{name} ({n:,})" for name, n, threshold in rows if threshold == np.inf]
        if not few:
            return said
        named = ", ".join(few[:MOST_NAMED]) + (", ..." if len(few) > MOST_NAMED else "")
        which = "1 class, which has" if len(few) == 1 else f"{len(few):,} classes, which have"
        return (
            f"{said} Every set has {which} too few calibration nodes for {share}: {named}. It "
            f"takes at least {takes} nodes of a class."
        )

    @property
    def assumption(self) -> str:
        """When the guarantee holds, in plain words."""
        return POOL

    def _tables(self) -> Sequence[Table]:
        ends = f"coverage of {100 * INTERVAL_LEVEL:g}% of such draws"
        columns = ("nodes", "calibration nodes", "threshold", f"lowest {ends}", "highest")
        values = zip(
            *(self.names, self.counts, self.thresholds, self.lows, self.highs), strict=True
        )
        rows = [
            [text(name), count(n), *(shown_number(value, DECIMALS) for value in numbers)]
            for name, n, *numbers in values
        ]
        return [Table(self.sentence, columns, rows)]


@dataclass(frozen=True, repr=False)
class SetOutcome(Tabular):
    """How often sets have the true class of labelled nodes, and how large they are.

    Attributes
    ----------
    n_nodes, n_covered : int
        Number of labelled nodes, and of those whose set has the true class.
    coverage, coverage_low, coverage_high : float
        Share of such nodes, and the ends of its 95% Clopper-Pearson interval.
    mean_size, single, empty : float
        Mean number of classes in a set, share of sets with exactly one class, and with none.
    class_names : tuple of str
        A name for each class.
    nodes_by_class, covered_by_class : tuple of int
        Nodes of each true class, and those of them that are covered.
    coverage_by_class : tuple of float
        Their share; NaN for a class without a node.

    """

    n_nodes: int
    n_covered: int
    coverage: float
    coverage_low: float
    coverage_high: float
    mean_size: float
    single: float
    empty: float
    class_names: tuple[str, ...]
    nodes_by_class: tuple[int, ...]
    covered_by_class: tuple[int, ...]
    coverage_by_class: tuple[float, ...]

    @property
    def sentence(self) -> str:
        """The outcome in plain words."""
        said = (
            f"On {self.n_nodes:,} labelled nodes the sets have the true class of "
            f"{100 * self.coverage:.2f}% (95% interval {100 * self.coverage_low:.2f} to "
            f"{100 * self.coverage_high:.2f}%) and {self.mean_size:.2f} classes on average; "
            f"{100 * self.single:.1f}% have one."
        )
        if len(self.class_names) > MOST_NAMED:
            return said
        values = zip(self.class_names, self.nodes_by_class, self.coverage_by_class, strict=True)
        parts = [
            f"{name}: {f'{100 * share:.1f}% of {n:,}' if n else 'no node'}"
            for name, n, share in values
        ]
        return f"{said} By true class: {', '.join(parts)}."

    def _tables(self) -> Sequence[Table]:
        names = {
            "coverage": "share with the true class",
            "coverage_low": "  lower end of its 95% interval",
            "coverage_high": "  upper end of its 95% interval",
            "mean_size": "mean number of classes",
            "single": "share with one class",
            "empty": "share with no class",
        }
        values = zip(self.class_names, self.nodes_by_class, self.coverage_by_class, strict=True)
        rows = [[text(name), count(n), shown_number(share, DECIMALS)] for name, n, share in values]
        by_class = Table("", ("true class", "nodes", "share with it"), rows)
        title = f"{self.n_nodes:,} labelled nodes"
        return [quantities(self, title, names, {"mean_size": 3}), by_class]


def numbers_by_key(keys: Keys, random_state: int, stream: int = BY_ID) -> FloatArray:
    """Return a number in [0, 1) for each node, which depends on its key and the seed alone."""
    # A generator would give the first row of every call the same number. SplitMix64 permutes the
    # 64-bit words so that each bit depends on all; the upper 53 bits are the number.
    first, second = np.random.SeedSequence([random_state, stream]).generate_state(2, np.uint64)

    def mix(keys: Keys) -> Keys:
        keys = keys + np.uint64(0x9E3779B97F4A7C15)
        keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return keys ^ (keys >> np.uint64(31))

    return (mix(mix(keys + first) ^ second) >> np.uint64(11)) * 2.0**-53


def judge_sets(labels: Any, sets: Any, *, class_names: Any = None) -> SetOutcome:
    """Judge sets (n_nodes, n_classes) on labelled nodes; ``ConformalClassifier.judge`` calls it."""
    members = as_numpy(sets)
    if members.ndim != 2 or 0 in members.shape or members.dtype != np.bool_:
        raise InputError(
            f"sets has shape {members.shape} and dtype {members.dtype}; expected booleans, one row "
            "for each node and one column for each class."
        )
    n_nodes, n_classes = members.shape
    truth = check_truth(labels, n_nodes, n_classes)
    covered, size = members[np.arange(n_nodes), truth], members.sum(axis=1)
    n_covered = int(covered.sum())
    low, high = clopper_pearson(n_covered, n_nodes)
    n_by_class = np.bincount(truth, minlength=n_classes)
    covered_by_class = np.bincount(truth[covered], minlength=n_classes)
    shares = np.full(n_classes, np.nan)
    np.divide(covered_by_class, n_by_class, out=shares, where=n_by_class > 0)
    return SetOutcome(
        n_nodes=n_nodes,
        n_covered=n_covered,
        coverage=n_covered / n_nodes,
        coverage_low=float(low),
        coverage_high=float(high),
        mean_size=float(size.mean()),
        single=float((size == 1).mean()),
        empty=float((size == 0).mean()),
        class_names=tuple(
            check_class_names(class_names, n_classes) or map(_class, range(n_classes))
        ),
        nodes_by_class=tuple(n_by_class.tolist()),
        covered_by_class=tuple(covered_by_class.tolist()),
        coverage_by_class=tuple(shares.tolist()),
    )


def fewest_calibration(coverage: float) -> int:
    """Return the smallest number of calibration nodes with which sets can leave a class out."""
    n = max(int(coverage / (1 - coverage)) - 1, 1)
    while conformal_rank(n, coverage) > n:
        n += 1
    return n


def coverage_limits(n: int, coverage: float) -> tuple[float, float]:
    """Return limits of what the quantile of n scores covers, in 95% of the draws of them."""
    rank = conformal_rank(n, coverage)
    if rank > n:
        return 1.0, 1.0
    tails = 0.5 * (1 - INTERVAL_LEVEL), 0.5 * (1 + INTERVAL_LEVEL)
    low, high = betaincinv(rank, n + 1 - rank, tails)
    return float(low), float(high)


def _class(c: int) -> str:
    return f"class {c}"
