"""Conformal prediction: sets of classes that have the true class as often as asked."""

from __future__ import annotations

from copy import copy
from typing import Any, ClassVar, Self

import numpy as np

from gnncal.core.arrays import BoolArray, FloatArray, IntArray
from gnncal.core.checks import check_class_names
from gnncal.core.constraints import FLAG, NONE, Constraint, choice, number, whole_number
from gnncal.core.errors import InputError, shown, warn
from gnncal.core.estimator import check_is_fitted
from gnncal.core.graph import Graph
from gnncal.core.learned import LearnedTable
from gnncal.decisions.aps import APS
from gnncal.decisions.calibration_nodes import CALIBRATION_FACTS, CalibrationNodes
from gnncal.decisions.daps import DAPS
from gnncal.decisions.lac import LAC
from gnncal.decisions.node_numbers import (
    Keys,
    new_numbers,
    node_keys,
    numbers_by_key,
    numbers_of_calibration_rows,
)
from gnncal.decisions.outcomes import INFINITE, check_calibration
from gnncal.decisions.persistence import Saved
from gnncal.decisions.quantile import conformal_quantile, conformal_rank
from gnncal.decisions.raps import RAPS
from gnncal.decisions.scores import ConformalScore, check_scores
from gnncal.decisions.set_report import (
    ClassConformalReport,
    ConformalReport,
    class_report_of,
    report_of,
)
from gnncal.decisions.snaps import SNAPS
from gnncal.nodes import check_graph

SCORES: dict[str, type[ConformalScore]] = {
    "aps": APS,
    "raps": RAPS,
    "lac": LAC,
    "daps": DAPS,
    "snaps": SNAPS,
}
IS_SCORE = Constraint(
    "a score such as gnncal.decisions.RAPS(k_reg=2)",
    lambda value: isinstance(value, ConformalScore),
)


IS_THRESHOLD = (
    number()
    | INFINITE
    | Constraint(
        "one number for each class",
        lambda value: (
            isinstance(value, np.ndarray)
            and value.dtype == np.float64
            and value.ndim == 1
            and bool((value > -np.inf).all())
        ),
    )
)


class ConformalClassifier(Saved):
    """Gives each node a set of classes that contains the true one with a chosen probability.

    The guarantee: if the calibration nodes were drawn at random from the same pool as a new node,
    the set of the new node contains its true class with probability at least ``coverage``. It is
    an average over nodes and over draws of the calibration nodes. It holds for any model,
    however badly calibrated, and for any number of calibration nodes; with n of them the
    probability is also at most ``coverage`` + 1 / (n + 1), unless scores are tied or empty sets
    are filled. It is not a guarantee for each class: where one is rare, the sets may miss most of
    its nodes. With ``by_class=True`` it is, for the nodes of each class by themselves.

    On a graph whose nodes are all there from the start, the model and the score may look at all
    features and edges, calibration nodes and others alike. The guarantee breaks

    * when the calibration nodes were used to fit the calibrator or to choose the model or the
      parameters of the score: hold some of them out (:func:`gnncal.decisions.hold_out`),
    * when nodes join the graph later and the sets are not refreshed (:meth:`refresh`), or the
      graph and its classes drift with time,
    * when labels are known for a special kind of nodes only, such as old or well-connected ones.

    Parameters
    ----------
    coverage : float, default=0.9
        Share of nodes whose set must have the true class, between 0 and 1.
    score : str or ConformalScore, default="aps"
        ``"aps"``, ``"raps"``, ``"lac"`` (one minus the probability), ``"daps"`` (which averages
        scores over neighbours and needs a graph), ``"snaps"`` (also over nodes of similar
        features), or an object such as ``DAPS(diffusion=0.3)``.
    by_class : bool, default=False
        One threshold for each class, from the calibration nodes that have it. Then ``coverage``
        is promised for the nodes of each class. A class with too few calibration nodes is in
        every set, which a warning says.
    nonempty : bool, default=True
        Put the predicted class into sets that would be empty, which only adds coverage. A good
        model with a modest ``coverage`` has many empty sets otherwise.
    random_state : int, optional
        Seed of one random number for each node. The number belongs to the node's id, or to its
        row where the nodes of one graph are given without ids. Default: each ``fit`` draws a seed,
        because a seed that is the same in every fit gives the first nodes of every fit the same
        numbers, with which a few nodes cover more or less than they should.
        ``APS(randomised=False)`` and ``"lac"`` use no such numbers.

    Attributes
    ----------
    threshold_ : float or ndarray of shape (n_classes,)
        A class belongs to the set if its score is at most this; one for each class with
        ``by_class``. Infinite with too few nodes.
    n_graph_nodes_ : int or None
        Number of rows of ``fit`` if there were more than the calibration nodes.
    has_ids_ : bool
        Whether ``fit`` was given ids.
    seed_ : int
        The seed in use: ``random_state``, or the one that ``fit`` has drawn.
    report_ : ConformalReport or ClassConformalReport
        What was found, with limits between which the coverage of a single fit lies.

    References
    ----------
    Romano et al. (NeurIPS 2020) for APS, Angelopoulos et al. (ICLR 2021) for RAPS, Zargarbashi et
    al. (ICML 2023) for DAPS, Song et al. (NeurIPS 2024) for SNAPS, Sadinle et al. (JASA 2019) for
    LAC. Zargarbashi et al. and Huang et al., "Uncertainty quantification over graph with
    conformalized graph neural networks" (NeurIPS 2023), for why it is valid on graphs.

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
    >>> sets = conformal.predict_set(probs[test], ids=test)
    >>> holds_label = sets[range(len(test)), task.labels[test]]
    >>> round(float(holds_label.mean()), 2), round(float(sets.sum(axis=1).mean()), 2)
    (0.98, 1.15)
    >>> bool((conformal.predict_set(probs[test[:1]], ids=test[:1]) == sets[0]).all())
    True

    """

    constraints: ClassVar[dict[str, Constraint]] = {
        "coverage": number(above=0, below=1),
        "score": choice(*SCORES) | IS_SCORE,
        "by_class": FLAG,
        "nonempty": FLAG,
        "random_state": whole_number(at_least=0) | NONE,
    }

    saved_facts: ClassVar[LearnedTable] = {
        "threshold": IS_THRESHOLD,
        "n_calibration": whole_number(at_least=1),
        "n_graph_nodes": whole_number(at_least=2) | NONE,
        "has_ids": FLAG,
        "seed": whole_number(at_least=0),
        **CALIBRATION_FACTS,
    }

    threshold_: float | FloatArray
    n_graph_nodes_: int | None
    has_ids_: bool
    seed_: int
    report_: ConformalReport | ClassConformalReport
    _calibration: CalibrationNodes

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
        nodes: Any = None,
        ids: Any = None,
        class_names: Any = None,
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
        class_names : list of str, optional
            A name for each class, used in sentences and kept in the saved file.

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
        self._draw_seed()
        score = self._score()
        checked, chosen, used = check_calibration(probs, labels, nodes)
        known = self._check_graph(score, graph, len(checked), "fit(probs, labels, graph, ...)")
        names = check_class_names(class_names, checked.shape[1])
        keys = node_keys(ids, len(checked))
        nodes_of_fit = CalibrationNodes(keys[chosen], used, len(checked), ids is not None)
        scores = self._scores_of_fit(checked, keys, known, nodes_of_fit)
        self._take_thresholds(scores, chosen, nodes_of_fit, names)
        return self

    def _fit_sets(
        self, probs: FloatArray, labels: IntArray, graph: Graph | None, nodes: IntArray
    ) -> BoolArray:
        """Fit to checked arrays, and return the sets of the same rows; each is scored once.

        It is ``fit`` and then ``predict_set``, where there are more rows than ``nodes``.
        """
        self._draw_seed()
        keys = node_keys(None, len(probs))
        nodes_of_fit = CalibrationNodes(keys[nodes], labels[nodes], len(probs), False)
        scores = self._scores_of_fit(probs, keys, graph, nodes_of_fit)
        self._take_thresholds(scores, nodes, nodes_of_fit, None)
        return self._sets(scores, probs)

    def refresh(self, probs: Any, graph: Any = None, *, ids: Any = None) -> Self:
        """Take the thresholds again from the same calibration nodes on the graph of today.

        When nodes join, the probabilities and the scores of the calibration nodes change with
        their neighbours, and the old threshold no longer fits. The guarantee holds again for
        all nodes of today once the threshold is taken from the scores of today. It needs nodes
        that join like the calibration nodes did: whether a node is a calibration node must have
        nothing to do with when it came and what it is (NodeEx of Zargarbashi and Bojchevski).

        Parameters
        ----------
        probs : array_like of shape (n_nodes, n_classes)
            Probabilities of all nodes of today, made like those of ``fit``. Without ids the rows
            of ``fit`` come first, in their order, and new nodes after them.
        graph : Graph or torch_geometric.data.Data, optional
            The graph of today, for scores that need one.
        ids : array_like of shape (n_nodes,), optional
            The name of each node, made like those of ``fit``. With ids, rows may come in any
            order, and nodes may have left.

        Returns
        -------
        ConformalClassifier
            Another classifier with the thresholds of today; this one stays as it is.

        Raises
        ------
        InputError
            If the calibration nodes cannot be found.

        References
        ----------
        Zargarbashi, Bojchevski, "Conformal inductive graph neural networks" (ICLR 2024).

        Examples
        --------
        >>> import numpy as np
        >>> from gnncal import Graph
        >>> from gnncal.decisions import ConformalClassifier
        >>> generator = np.random.default_rng(0)
        >>> probs = generator.dirichlet([1, 1, 1], size=300)
        >>> labels = np.array([generator.choice(3, p=row) for row in probs])
        >>> edges = generator.integers(300, size=(2, 900))
        >>> old = edges[:, (edges < 200).all(axis=0)]  # nodes 200 to 299 are not there yet
        >>> conformal = ConformalClassifier(0.9, score="daps", random_state=0)
        >>> conformal = conformal.fit(probs[:200], labels[:200], Graph(old, 200), nodes=range(100))
        >>> today = conformal.refresh(probs, Graph(edges, 300))
        >>> round(conformal.threshold_, 3), round(today.threshold_, 3)
        (0.794, 0.762)

        """
        check_is_fitted(self, "threshold_")
        calibration = self._calibration
        checked = self._checked_probs(probs)
        known = self._check_graph(self._score(), graph, len(checked), "refresh(probs, graph)")
        keys, rows, labels = calibration.found(len(checked), ids)
        nodes_of_today = CalibrationNodes(keys[rows], labels, len(checked), ids is not None)
        refreshed = copy(self)
        names = getattr(self, "class_names_", None)
        scores = refreshed._scores_of_fit(checked, keys, known, nodes_of_today)
        refreshed._take_thresholds(scores, rows, nodes_of_today, names)
        return refreshed

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
        checked = self._checked_probs(probs)
        n_nodes = len(checked)
        score = self._score()
        known = self._check_graph(score, graph, n_nodes, "predict_set(probs, graph)")
        scores = score.scores(checked, self._uniform(n_nodes, ids), known)
        return self._sets(check_scores(score, scores, checked.shape), checked)

    def check_params(self) -> None:
        """Check the parameters of the constructor, and those of the score."""
        super().check_params()
        self._score().check()

    def _draw_seed(self) -> None:
        drawn = int(np.random.default_rng().integers(1 << 62))
        self.seed_ = drawn if self.random_state is None else self.random_state

    def _sets(self, scores: FloatArray, probs: FloatArray) -> BoolArray:
        """Return the classes whose scores lie below the threshold."""
        sets = scores <= self.threshold_
        if self.nonempty:
            empty = np.flatnonzero(~sets.any(axis=1))
            sets[empty, probs[empty].argmax(axis=1)] = True
        return sets

    def _scores_of_fit(
        self, probs: FloatArray, keys: Keys, graph: Graph | None, calibration: CalibrationNodes
    ) -> FloatArray:
        """Score every node; ``keys`` (n_nodes,) name them."""
        if calibration.has_ids or calibration.has_others:  # rows are nodes, to be asked for later
            uniform = numbers_by_key(keys, self.seed_)
        else:
            uniform = numbers_of_calibration_rows(len(probs), self.seed_)
        score = self._score()
        return check_scores(score, score.scores(probs, uniform, graph), probs.shape)

    def _take_thresholds(
        self,
        every_score: FloatArray,
        rows: IntArray,
        calibration: CalibrationNodes,
        class_names: list[str] | None,
    ) -> None:
        """Find the thresholds on the scores of the calibration nodes, which are ``rows``."""
        labels = calibration.labels
        scores = every_score[rows, labels]
        self.n_classes_ = every_score.shape[1]
        self._calibration = calibration
        self.n_graph_nodes_ = calibration.n_rows if calibration.has_others else None
        self.has_ids_ = calibration.has_ids
        self.__dict__.pop("class_names_", None)
        if class_names is not None:
            self.class_names_ = class_names
        if self.by_class:
            classes = range(self.n_classes_)
            self.threshold_ = np.array(
                [conformal_quantile(scores[labels == c], self.coverage) for c in classes]
            )
        else:
            self.threshold_ = conformal_quantile(scores, self.coverage)
        self.report_ = self._report(labels.size)
        if self.report_.leaves_a_class_open:
            warn(self.report_.sentence)

    def _facts(self) -> dict[str, Any]:
        return {
            "threshold": self.threshold_,
            "n_calibration": self.report_.n_calibration,
            "n_graph_nodes": self.n_graph_nodes_,
            "has_ids": self.has_ids_,
            "seed": self.seed_,
            **self._calibration.facts(),
        }

    def _restore(self, facts: dict[str, Any]) -> None:
        n, n_graph_nodes = facts["n_calibration"], facts["n_graph_nodes"]
        if n_graph_nodes is not None and n_graph_nodes <= n:
            raise InputError(f"{n} of {n_graph_nodes} nodes cannot be those of the calibration.")
        n_rows = n if n_graph_nodes is None else n_graph_nodes
        self._calibration = CalibrationNodes.restored(facts, n, n_rows, facts["has_ids"])
        self.threshold_ = self._check_threshold(facts["threshold"], n)
        self.n_graph_nodes_ = n_graph_nodes
        self.has_ids_ = facts["has_ids"]
        self.seed_ = facts["seed"]
        self.report_ = self._report(n)

    def _check_threshold(self, threshold: Any, n: int) -> float | FloatArray:
        """Return a threshold of a file, or thresholds, if so many calibration nodes give it."""
        counts = self._count_by_class() if self.by_class else np.array([n])
        values = np.atleast_1d(threshold)
        if np.shape(threshold) != (counts.shape if self.by_class else ()):
            raise InputError(
                f"threshold is {shown(threshold)}, which does not fit by_class={self.by_class}."
            )
        for value, count in zip(values.tolist(), counts.tolist(), strict=True):
            if conformal_rank(count, self.coverage) > count and value != np.inf:
                raise InputError(
                    f"threshold is {shown(value)}, but {count} calibration nodes give none."
                )
        return values if self.by_class else float(threshold)

    def _count_by_class(self) -> IntArray:
        return np.bincount(self._calibration.labels, minlength=self.n_classes_)

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
            return numbers_by_key(node_keys(ids, n_nodes), self.seed_)
        if n_nodes != self.n_graph_nodes_:
            return new_numbers(n_nodes)
        if self.has_ids_:
            raise InputError(
                "ids is missing: fit was given ids, and these seem to be the same nodes; pass "
                "predict_set(probs, ids=...) with the ids of these rows."
            )
        return numbers_by_key(node_keys(None, n_nodes), self.seed_)

    def _report(self, n: int) -> ConformalReport | ClassConformalReport:
        if isinstance(self.threshold_, float):
            return report_of(self.coverage, n, self.threshold_)
        names = getattr(self, "class_names_", None)
        counts = self._count_by_class()
        return class_report_of(self.coverage, counts, self.threshold_, names)
