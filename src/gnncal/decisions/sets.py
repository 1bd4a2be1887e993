"""Conformal prediction: sets of classes that have the true class as often as asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from math import ceil
from typing import Any, ClassVar, Self

import numpy as np

from gnncal.data.arrays import BoolArray, FloatArray, IntArray, as_numpy
from gnncal.data.checks import check_class_names, class_label
from gnncal.data.constraints import FLAG, NONE, Array, LearnedTable, integer, number, one_of
from gnncal.data.errors import InputError, warn
from gnncal.data.estimator import check_is_fitted
from gnncal.data.nodes import check_graph
from gnncal.decisions.base import IS_DICT, Decision, Keys, check_truth, node_keys
from gnncal.decisions.guarantees import percent
from gnncal.decisions.reports import Said
from gnncal.decisions.scores import IS_SCORE, SCORES, Score
from gnncal.graph.graph import Graph
from gnncal.metrics.outcomes import clopper_pearson

MOST_NAMED = 10  # classes that a sentence names
BY_ID, BY_CALIBRATION_ROW = 0, 1  # numbers of the two have nothing to do with each other
ROUNDING = 1e-9  # 0.9 * 10 is 9, not 10


@dataclass(eq=False, repr=False)
class ConformalClassifier(Decision):
    """Give each node a set of classes that contains the true class with a chosen probability.

    If a node and the calibration nodes are drawn at random from the same population, the node's set
    contains its true class with probability at least ``coverage``, for any model (Huang et al.,
    NeurIPS 2023). The probability is an average over nodes and over draws of the n calibration
    nodes. Without ties and with ``nonempty=False`` it is at most ``coverage`` + 1 / (n + 1).

    Parameters
    ----------
    coverage : float, default=0.9
        Minimum share of sets that contain the true class, between 0 and 1.
    score : str or callable, default="lac"
        ``"lac"``, ``"aps"``, ``"raps"``, ``"daps"``, ``"snaps"``, or a function of probabilities,
        one random number per node, and the graph; it returns low scores for likely classes.
    score_params : dict, optional
        Parameters of the score, for example ``{"diffusion": 0.3}`` for ``"daps"``.
    by_class : bool, default=False
        Guarantee the coverage for the nodes of each class, with one threshold per class. A class
        with too few calibration nodes is in every set; a warning names it.
    nonempty : bool, default=True
        Put the predicted class into sets that would be empty. This never lowers the coverage.
    random_state : int, optional
        Seed of the random numbers, which also depend on the id or row of the node; ``"lac"`` uses
        none. Default: every ``fit`` draws a new seed.

    Attributes
    ----------
    threshold_ : ndarray of shape (1,) or (n_classes,)
        Largest score of a class in a set; infinite if there are too few calibration nodes.
    seed_, report_ : int and SetReport
        The seed, and a report on the fit.

    Examples
    --------
    >>> import gnncal
    >>> task = gnncal.example()
    >>> probs = gnncal.calibrators.softmax(task.logits)
    >>> conformal = gnncal.decisions.ConformalClassifier(0.95)
    >>> conformal.fit(
    ...     probs, task.labels, calibration_nodes=task.calibration_nodes
    ... ).predict_set(probs).shape
    (1797, 10)

    """

    coverage: float = 0.9
    _: KW_ONLY
    score: str | Score = "lac"
    score_params: dict[str, Any] | None = None
    by_class: bool = False
    nonempty: bool = True
    random_state: int | None = None

    kind: ClassVar[str] = "conformal"
    constraints: ClassVar[LearnedTable] = {
        "coverage": number(above=0, below=1),
        "score": one_of(*SCORES) | IS_SCORE,
        "score_params": IS_DICT | NONE,
        "by_class": FLAG,
        "nonempty": FLAG,
        "random_state": integer(at_least=0) | NONE,
    }
    state_spec: ClassVar[LearnedTable] = {
        "threshold_": Array("thresholds", high=np.inf),
        "seed_": integer(at_least=0),
    }

    def fit(
        self,
        probs: Any,
        labels: Any,
        graph: Any = None,
        *,
        calibration_nodes: Any,
        ids: Any = None,
        class_names: Any = None,
        calibrator: Any = None,
    ) -> Self:
        """Return this classifier, with thresholds fitted to the calibration nodes."""
        checked, keys, rows = self._begin(
            (probs, labels, calibration_nodes, ids, class_names, calibrator)
        )
        drawn = int(np.random.default_rng().integers(1 << 62))
        self.seed_ = drawn if self.random_state is None else self.random_state
        self._refit(checked, check_graph(graph, len(checked)), keys, rows)
        return self

    def predict_set(self, probs: Any, graph: Any = None, *, ids: Any = None) -> BoolArray:
        """Return the sets as booleans of shape (n_nodes, n_classes).

        All scores but ``"lac"`` use one random number per node; pass ids to keep it between calls.
        Without ids, a call with as many rows as ``fit`` reuses the numbers of these rows, and every
        other call draws new numbers.
        """
        check_is_fitted(self, "threshold_")
        checked = self._checked_probs(probs)
        uniform = self._uniform(len(checked), ids)
        scores = self._scored(checked, uniform, check_graph(graph, len(checked)))
        sets = scores <= self.threshold_
        if self.nonempty:
            empty = np.flatnonzero(~sets.any(axis=1))
            sets[empty, checked[empty].argmax(axis=1)] = True
        return sets

    def judge(self, labels: Any, probs: Any, graph: Any = None, *, ids: Any = None) -> SetOutcome:
        """Return coverage and mean size of the sets on labelled nodes, and coverage by class."""
        sets = self.predict_set(probs, graph, ids=ids)
        return judge_sets(labels, sets, class_names=self.class_names_)

    def _check_params(self) -> None:
        super()._check_params()
        if isinstance(self.score, str):  # another function checks its own
            known = SCORES[self.score].__kwdefaults__ or {}
            for name, value in (self.score_params or {}).items():
                if name not in known:
                    raise InputError(f"the score {self.score} has no parameter {name!r}.")
                number(at_least=0, at_most=1e6).check(f"{name} of {self.score}", value)

    def _scored(self, probs: FloatArray, uniform: FloatArray, graph: Graph | None) -> FloatArray:
        """Return the scores, which must be numbers: a comparison with NaN is false."""
        score = SCORES[self.score] if isinstance(self.score, str) else self.score
        array = as_numpy(score(probs, uniform, graph, **(self.score_params or {})))
        if array.shape != probs.shape or array.dtype.kind not in "fiu" or np.isnan(array).any():
            raise InputError(
                f"the scores have shape {array.shape} and dtype {array.dtype}, or NaN; expected "
                f"{probs.shape}, a number for each node and class."
            )
        return array

    def _refit(self, probs: FloatArray, graph: Graph | None, keys: Keys, rows: IntArray) -> None:
        are_nodes = self._has_ids or self._n_rows > rows.size  # to be asked for later
        uniform = hashed_uniform(keys, self.seed_, BY_ID if are_nodes else BY_CALIBRATION_ROW)
        scores = self._scored(probs, uniform, graph)[rows, self._labels]
        parts = [scores]
        if self.by_class:
            parts = [scores[self._labels == c] for c in range(self.n_classes_)]
        self.threshold_ = np.array([conformal_quantile(part, self.coverage) for part in parts])
        self._conclude()
        if np.isinf(self.threshold_).any():
            warn(self.report_.sentence)

    def _conclude(self) -> None:
        counts = {"all nodes": self._labels.size}
        if self.by_class:
            names = _names(self.class_names_, self.n_classes_)
            per_class = np.bincount(self._labels, minlength=self.n_classes_).tolist()
            counts = dict(zip(names, per_class, strict=True))
        thresholds = dict(zip(counts, self.threshold_.tolist(), strict=True))
        asked = float(self.coverage), self._labels.size, self.by_class
        self.report_ = SetReport(*asked, counts, thresholds)

    def _uniform(self, n_nodes: int, ids: Any) -> FloatArray:
        """One random number for each node to predict."""
        if ids is None and not (n_nodes == self._n_rows > self._labels.size):
            return np.random.default_rng().random(n_nodes)
        if ids is None and self._has_ids:
            raise InputError("ids is missing: fit was given ids; pass those of these rows.")
        return hashed_uniform(node_keys(ids, n_nodes), self.seed_)


@dataclass(frozen=True)
class SetReport(Said):
    """Thresholds of prediction sets, and numbers of calibration nodes."""

    coverage: float  # that was asked for
    n_calibration: int
    by_class: bool
    counts: Mapping[str, int]  # calibration nodes of each class, or of "all nodes"
    thresholds: Mapping[str, float]  # largest score in a set; infinite with too few nodes

    def __repr__(self) -> str:
        share, fewest = percent(self.coverage), fewest_calibration(self.coverage)
        few = [f"{name} ({n:,})" for name, n in self.counts.items() if n < fewest]
        if few and not self.by_class:
            return (
                f"Every set has all classes: {self.n_calibration:,} calibration nodes are too few "
                f"for {share} coverage, which takes at least {fewest:,}."
            )
        said = (
            f"A set contains the true class with probability at least {share}"
            f"{' in each class' if self.by_class else ''}, on average over draws of the "
            "calibration nodes."
        )
        if not few:
            return said
        named = ", ".join(few[:MOST_NAMED]) + (", ..." if len(few) > MOST_NAMED else "")
        which = "1 class, which has" if len(few) == 1 else f"{len(few):,} classes, which have"
        return (
            f"{said} Every set has {which} too few calibration nodes for {share}: {named}. It "
            f"takes at least {fewest:,} nodes of a class."
        )


@dataclass(frozen=True)
class SetOutcome(Said):
    """Coverage and size of prediction sets on labelled nodes.

    Attributes
    ----------
    n_nodes, coverage, coverage_low, coverage_high, mean_size, single : int and float
        Number of nodes; share of sets that contain the true class, with its 95% Clopper-Pearson
        interval; mean number of classes in a set; share of sets with exactly one class.
    nodes_by_class, coverage_by_class : dict
        Number of nodes, and coverage, by name of the true class; the coverage is NaN without nodes.

    """

    n_nodes: int
    coverage: float
    coverage_low: float
    coverage_high: float
    mean_size: float
    single: float
    nodes_by_class: Mapping[str, int]
    coverage_by_class: Mapping[str, float]

    def __repr__(self) -> str:
        said = (
            f"On {self.n_nodes:,} labelled nodes {100 * self.coverage:.2f}% of the sets contain "
            f"the true class (95% interval {100 * self.coverage_low:.2f} to "
            f"{100 * self.coverage_high:.2f}%). A set has {self.mean_size:.2f} classes on average; "
            f"{100 * self.single:.1f}% of the sets have one class."
        )
        if len(self.nodes_by_class) > MOST_NAMED:
            return said
        parts = [
            f"{name}: {f'{100 * self.coverage_by_class[name]:.1f}% of {n:,}' if n else 'no node'}"
            for name, n in self.nodes_by_class.items()
        ]
        return f"{said} Coverage by true class: {', '.join(parts)}."


def hashed_uniform(keys: Keys, random_state: int, stream: int = BY_ID) -> FloatArray:
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
    n_nodes, n_classes = members.shape
    truth = check_truth(labels, n_nodes, n_classes)
    covered, size = members[np.arange(n_nodes), truth], members.sum(axis=1)
    low, high = clopper_pearson(int(covered.sum()), n_nodes)
    n_by_class = np.bincount(truth, minlength=n_classes)
    with np.errstate(invalid="ignore"):  # 0 / 0: the class has no node
        shares = np.bincount(truth, covered, minlength=n_classes) / n_by_class
    names = _names(check_class_names(class_names, n_classes), n_classes)
    return SetOutcome(
        *(n_nodes, float(covered.mean()), float(low), float(high)),
        *(float(size.mean()), float((size == 1).mean())),
        *(dict(zip(names, each.tolist(), strict=True)) for each in (n_by_class, shares)),
    )


def _names(class_names: list[str] | None, n_classes: int) -> tuple[str, ...]:
    return tuple(class_label(c, class_names) for c in range(n_classes))


def conformal_quantile(scores: FloatArray, coverage: float) -> float:
    """Return the ceil((n + 1) * coverage)-th smallest of n scores; infinite if there is none."""
    rank = ceil((len(scores) + 1) * coverage - ROUNDING)
    return np.inf if rank > len(scores) else float(np.partition(scores, rank - 1)[rank - 1])


def fewest_calibration(coverage: float) -> int:
    """Return the smallest number of calibration nodes with which sets can leave a class out."""
    return max(ceil((coverage - ROUNDING) / (1 - coverage)), 1)
