"""Conformal prediction: sets of classes that have the true class as often as asked."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, ClassVar, Self

import numpy as np
from scipy import stats
from sklearn.utils.validation import check_is_fitted

from gnncal.core.arrays import BoolArray, FloatArray
from gnncal.core.checks import check_probs
from gnncal.core.constraints import FLAG, NONE, Constraint, choice, number, whole_number
from gnncal.core.errors import GnncalWarning, InputError, shown
from gnncal.core.graph import Graph
from gnncal.core.tabular import Table, Tabular, quantities
from gnncal.decisions.aps import APS
from gnncal.decisions.daps import DAPS
from gnncal.decisions.node_numbers import (
    new_numbers,
    numbers_by_id,
    numbers_by_row,
    numbers_of_calibration_rows,
)
from gnncal.decisions.outcomes import INFINITE, check_calibration
from gnncal.decisions.persistence import Saved
from gnncal.decisions.raps import RAPS
from gnncal.decisions.scores import ConformalScore, check_scores
from gnncal.nodes import check_graph

SCORES: dict[str, type[ConformalScore]] = {"aps": APS, "raps": RAPS, "daps": DAPS}
INTERVAL_LEVEL = 0.95
ROUNDING = 1e-9  # 0.9 * 10 is 9, not 10
IS_SCORE = Constraint(
    "a score such as gnncal.decisions.RAPS(k_reg=2)",
    lambda value: isinstance(value, ConformalScore),
)


@dataclass(frozen=True, repr=False)
class ConformalReport(Tabular):
    """What a fit found on the calibration nodes, in numbers and in one sentence.

    It prints as a table.

    Attributes
    ----------
    coverage : float
        The coverage that was asked for.
    n_calibration : int
        Number of calibration nodes.
    threshold : float
        Largest score of a class in a set; infinite if there are too few calibration nodes.
    coverage_low, coverage_high : float
        95 % of draws of as many calibration nodes cover a share between these.

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal.decisions import ConformalClassifier
    >>> generator = np.random.default_rng(0)
    >>> probs = generator.dirichlet([1, 1, 1], size=500)
    >>> labels = np.array([generator.choice(3, p=row) for row in probs])
    >>> report = ConformalClassifier(coverage=0.9).fit(probs, labels).report_
    >>> round(report.coverage_low, 2), round(report.coverage_high, 2)
    (0.87, 0.92)

    """

    coverage: float
    n_calibration: int
    threshold: float
    coverage_low: float
    coverage_high: float

    @property
    def sentence(self) -> str:
        """The result in plain words."""
        share = f"{100 * self.coverage:g} %"
        if self.threshold == np.inf:
            return (
                f"Every set has all classes: {self.n_calibration:,} calibration nodes are too few "
                f"for {share} coverage, which takes at least {fewest_calibration(self.coverage):,}."
            )
        return (
            f"Averaged over draws of the calibration nodes, the sets have the true class of at "
            f"least {share} of the nodes."
        )

    def _tables(self) -> Sequence[Table]:
        ends = f"of {100 * INTERVAL_LEVEL:g} % of such draws"
        names = {
            "coverage": "coverage asked for",
            "coverage_low": f"  lowest {ends}",
            "coverage_high": f"  highest {ends}",
            "n_calibration": "calibration nodes",
            "threshold": "threshold of the scores",
        }
        return [quantities(self, self.sentence, names)]


class ConformalClassifier(Saved):
    """Gives each node a set of classes that contains the true one with a chosen probability.

    The guarantee: if the calibration nodes were drawn at random from the same pool as a new node,
    the set of the new node contains its true class with probability at least ``coverage``. It is
    an average over nodes and over draws of the calibration nodes. It holds for any model,
    however badly calibrated, and for any number of calibration nodes; with n of them the
    probability is also at most ``coverage`` + 1 / (n + 1), unless scores are tied or empty sets
    are filled. It is not a guarantee for each class or each region of the graph.

    On a graph whose nodes are all there from the start, the model and the score may look at all
    features and edges, calibration nodes and others alike. The guarantee breaks

    * when the calibration nodes were used to fit the calibrator or to choose the model or the
      parameters of the score: hold some of them out (:func:`gnncal.decisions.hold_out`),
    * when nodes join the graph later, or the graph and its classes drift with time,
    * when labels are known for a special kind of nodes only, such as old or well-connected ones.

    Parameters
    ----------
    coverage : float, default=0.9
        Share of nodes whose set must have the true class, between 0 and 1.
    score : str or ConformalScore, default="aps"
        ``"aps"``, ``"raps"``, ``"daps"`` (which averages scores over neighbours and needs a
        graph), or an object such as ``DAPS(diffusion=0.3)``.
    nonempty : bool, default=True
        Put the predicted class into sets that would be empty, which only adds coverage. A good
        model with a modest ``coverage`` has many empty sets otherwise.
    random_state : int, default=0
        Seed of one random number for each node. The number belongs to the node's id, or to its
        row where the nodes of one graph are given without ids. ``APS(randomised=False)`` uses
        no such numbers.

    Attributes
    ----------
    threshold_ : float
        A class belongs to the set if its score is at most this. Infinite with too few nodes.
    n_graph_nodes_ : int or None
        Number of rows of ``fit`` if there were more than the calibration nodes.
    has_ids_ : bool
        Whether ``fit`` was given ids.
    report_ : ConformalReport
        What was found, with limits between which the coverage of a single fit lies.

    References
    ----------
    Romano et al. (NeurIPS 2020) for APS, Angelopoulos et al. (ICLR 2021) for RAPS, Zargarbashi et
    al. (ICML 2023) for DAPS and, with Huang et al., "Uncertainty quantification over graph with
    conformalized graph neural networks" (NeurIPS 2023), for why it is valid on graphs.

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal.decisions import ConformalClassifier
    >>> generator = np.random.default_rng(0)
    >>> probs = generator.dirichlet([1, 1, 1], size=1000)
    >>> labels = np.array([generator.choice(3, p=row) for row in probs])
    >>> conformal = ConformalClassifier(coverage=0.9).fit(probs[:500], labels[:500])
    >>> sets = conformal.predict_set(probs[500:], ids=range(500))
    >>> float(sets[np.arange(500), labels[500:]].mean()), float(sets.sum(axis=1).mean())
    (0.894, 2.028)
    >>> bool((conformal.predict_set(probs[507:508], ids=[7]) == sets[7]).all())
    True

    """

    constraints: ClassVar[dict[str, Constraint]] = {
        "coverage": number(above=0, below=1),
        "score": choice(*SCORES) | IS_SCORE,
        "nonempty": FLAG,
        "random_state": whole_number(at_least=0),
    }

    saved_facts: ClassVar[dict[str, Constraint]] = {
        "threshold": number() | INFINITE,
        "n_calibration": whole_number(at_least=1),
        "n_graph_nodes": whole_number(at_least=2) | NONE,
        "has_ids": FLAG,
    }

    threshold_: float
    n_graph_nodes_: int | None
    has_ids_: bool
    report_: ConformalReport

    def __init__(
        self,
        *,
        coverage: float = 0.9,
        score: str | ConformalScore = "aps",
        nonempty: bool = True,
        random_state: int = 0,
    ) -> None:
        self.coverage = coverage
        self.score = score
        self.nonempty = nonempty
        self.random_state = random_state

    def fit(
        self, probs: Any, labels: Any, graph: Any = None, *, nodes: Any = None, ids: Any = None
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
        nodes : array_like, optional
            Calibration nodes, mask or indices. Default: every node whose label is not -1.
        ids : array_like of shape (n_nodes,), optional
            Your own name of each node, whole numbers or texts, if :meth:`predict_set` will name
            nodes by it. Default: where there are more rows than calibration nodes, the rows are
            the nodes 0..N-1 of one graph.

        Returns
        -------
        ConformalClassifier
            The classifier itself, fitted.

        Raises
        ------
        InputError
            If an array or a parameter cannot be used, or a graph is needed and missing.

        """
        self.check_params()
        score = self._score()
        checked, chosen, used = check_calibration(probs, labels, nodes)
        known = self._check_graph(score, graph, len(checked), "fit(probs, labels, graph, ...)")
        n_nodes, n_classes = checked.shape
        if ids is not None:
            uniform = numbers_by_id(ids, n_nodes, self.random_state)
        elif chosen.size < n_nodes:  # the others are nodes of the same graph, to be predicted later
            uniform = numbers_by_row(n_nodes, self.random_state)
        else:
            uniform = numbers_of_calibration_rows(n_nodes, self.random_state)
        scores = check_scores(score, score.scores(checked, uniform, known), checked.shape)
        self.n_classes_ = n_classes
        self.n_graph_nodes_ = n_nodes if chosen.size < n_nodes else None
        self.has_ids_ = ids is not None
        self.threshold_ = conformal_quantile(scores[chosen, used], self.coverage)
        self.report_ = self._report(chosen.size)
        if self.threshold_ == np.inf:
            warnings.warn(self.report_.sentence, GnncalWarning, stacklevel=2)
        return self

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
            The name of each node, whole numbers or texts. If ``fit`` was given none, these are the
            numbers of its rows, or any names for nodes that it has not seen. A node with an id
            has the same set in every call, whichever nodes it is asked with. Without ids, rows
            other than those of the fitted graph get new random numbers in each call: the coverage
            is the same, but asking twice may give two sets.

        Returns
        -------
        ndarray of bool of shape (n_nodes, n_classes)
            Whether the set of this node has this class.

        Raises
        ------
        InputError
            If the probabilities have another number of classes, a graph is needed and missing, or
            ``fit`` was given ids and these are the nodes of its graph without ids.

        """
        check_is_fitted(self, "threshold_")
        checked = check_probs(probs)
        n_nodes, n_classes = checked.shape
        if n_classes != self.n_classes_:
            raise InputError(
                f"probs has {n_classes} columns but the sets were fitted with {self.n_classes_}; "
                "pass one column for each class."
            )
        score = self._score()
        known = self._check_graph(score, graph, n_nodes, "predict_set(probs, graph)")
        scores = score.scores(checked, self._uniform(n_nodes, ids), known)
        sets = check_scores(score, scores, checked.shape) <= self.threshold_
        if self.nonempty:
            empty = np.flatnonzero(~sets.any(axis=1))
            sets[empty, checked[empty].argmax(axis=1)] = True
        return sets

    def check_params(self) -> None:
        """Check the parameters of the constructor, and those of the score."""
        super().check_params()
        self._score().check()

    def _facts(self) -> dict[str, Any]:
        return {
            "threshold": self.threshold_,
            "n_calibration": self.report_.n_calibration,
            "n_graph_nodes": self.n_graph_nodes_,
            "has_ids": self.has_ids_,
        }

    def _restore(self, facts: dict[str, Any]) -> None:
        n, n_graph_nodes = facts["n_calibration"], facts["n_graph_nodes"]
        if conformal_rank(n, self.coverage) > n and facts["threshold"] != np.inf:
            raise InputError(
                f"threshold is {shown(facts['threshold'])}, but {n} calibration nodes give none."
            )
        if n_graph_nodes is not None and n_graph_nodes <= n:
            raise InputError(f"{n} of {n_graph_nodes} nodes cannot be those of the calibration.")
        self.threshold_ = float(facts["threshold"])
        self.n_graph_nodes_ = n_graph_nodes
        self.has_ids_ = facts["has_ids"]
        self.report_ = self._report(n)

    def _score(self) -> ConformalScore:
        return SCORES[self.score]() if isinstance(self.score, str) else self.score

    def _check_graph(
        self, score: ConformalScore, graph: Any, n_nodes: int, call: str
    ) -> Graph | None:
        known = check_graph(graph, n_nodes)
        if score.needs_graph and known is None:
            raise InputError(f"{type(score).__name__} needs a graph; pass {call}.")
        return known

    def _uniform(self, n_nodes: int, ids: Any) -> FloatArray:
        """One random number for each node to predict."""
        if ids is not None:
            return numbers_by_id(ids, n_nodes, self.random_state)
        if n_nodes != self.n_graph_nodes_:
            return new_numbers(n_nodes)
        if self.has_ids_:
            raise InputError(
                "ids is missing: fit was given ids, and these seem to be the same nodes; pass "
                "predict_set(probs, ids=...) with the ids of these rows."
            )
        return numbers_by_row(n_nodes, self.random_state)

    def _report(self, n: int) -> ConformalReport:
        # Given the calibration nodes, the coverage of continuous scores has this law.
        rank = conformal_rank(n, self.coverage)
        tails = 0.5 * (1 - INTERVAL_LEVEL), 0.5 * (1 + INTERVAL_LEVEL)
        ends = stats.beta.ppf(tails, rank, n + 1 - rank) if rank <= n else (1.0, 1.0)
        return ConformalReport(
            float(self.coverage), n, self.threshold_, float(ends[0]), float(ends[1])
        )


def conformal_rank(n: int, coverage: float) -> int:
    """Return the rank, among n scores, that a new score does not exceed with this probability."""
    return ceil((n + 1) * coverage - ROUNDING)


def conformal_quantile(scores: FloatArray, coverage: float) -> float:
    """Return the ceil((n + 1) * coverage)-th smallest of n scores; infinite if there is none."""
    rank = conformal_rank(len(scores), coverage)
    if rank > len(scores):
        return np.inf
    return float(np.partition(scores, rank - 1)[rank - 1])


def fewest_calibration(coverage: float) -> int:
    """Return the smallest number of calibration nodes with which sets can leave a class out."""
    n = max(int(coverage / (1 - coverage)) - 1, 1)
    while conformal_rank(n, coverage) > n:
        n += 1
    return n
