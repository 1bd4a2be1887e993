"""Simi-Mailbox (Seo et al. 2024): a temperature for each group of nodes that are alike.

The groups are those of k-means on a node's confidence and its similarity to its neighbours.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import ClassVar

import numpy as np

from gnncal import Nodes
from gnncal.calibrators import (
    Array,
    FitReport,
    Solution,
    TemperatureCalibrator,
    TemperatureLoss,
    integer,
    number,
    solve_like_the_paper,
)
from gnncal_lab.arrays import FloatArray, IntArray
from gnncal_lab.fitting.clusters import DIGITS, Clusters
from gnncal_lab.fitting.gap_loss import GapLoss, temperature_of
from gnncal_lab.fitting.groups import (
    NARROW_RANGE,
    best_number_of_groups,
    groups_at_bounds,
    weak_groups,
)
from gnncal_lab.fitting.parts import NONE, PROTOCOLS, SOLVER_STATE, Protocol
from gnncal_lab.fitting.similarity import NUMBERS_AT_ONCE, neighbour_similarity

CANDIDATES = (1, 2, 4, 8, 16)  # numbers of groups that cross-validation chooses from
PUBLISHED_EPOCHS = 2000
PUBLISHED_PATIENCE = 100
PUBLISHED_BINS = 10  # of the training nodes' ECE


class SimiMailbox(TemperatureCalibrator):
    r"""A temperature for each group of nodes of similar confidence and similarity to neighbours.

    .. math:: s_i = \frac1{|N(i)|} \sum_{j \in N(i)} \sigma(z_i^\top z_j), \qquad
              T_i = \tau_g \text{ for node } i \text{ in group } g

    Here z_i are the logits of node i, σ is the sigmoid, and N(i) are the nodes that send to i,
    without i itself; if there are none, s_i is 0. K-means forms the groups from the confidence max
    softmax(z_i) and the similarity s_i, both scaled to [0, 1] on the fitted graph. The temperatures
    minimise

    .. math:: \mathrm{CE} + \lambda \sum_g (\mathrm{conf}_g - \mathrm{acc}_g)^2

    CE is the mean log loss of the calibration nodes; conf and acc are the mean confidence and the
    accuracy of a group's calibration nodes. Each τ is limited to [0.05, 20].

    Parameters
    ----------
    n_groups : int, optional
        The number of groups. By default cross-validation with five folds and converged fits chooses
        1, 2, 4, 8 or 16 by log loss. There are never more groups than different nodes.
    gap_weight : float, default=50.0
        The weight λ of the squared gaps.
    protocol : {"converged", "paper"}, default="converged"
        ``"converged"`` minimises the loss of the calibration nodes. ``"paper"`` is the loop of the
        publication: Adam for at most 2,000 epochs, with a patience of 100 on the ECE of the
        training nodes in 10 bins; it needs ``train_nodes``.

    Attributes
    ----------
    group_temperatures_ : ndarray of shape (n_groups,)
        Temperature of each group, in the order of the centres.
    centres_ : ndarray of shape (n_groups, 2)
        Scaled confidence and similarity at the centre of each group, sorted by confidence.
    ranges_ : ndarray of shape (2, 2)
        Lowest and highest confidence of the fitted graph, and its lowest and highest similarity.
    temperature_ : ndarray of shape (n_nodes,)
        Temperature of each node of the fitted graph.

    Notes
    -----
    Use it to compare with the publication. ``structural`` uses the neighbours without groups and
    had a lower log loss on all eleven graphs with at least 100 calibration nodes
    (docs/evidence.md).

    The authors' released code computes the confidence and accuracy of a group over all nodes of the
    group, so test labels enter the loss. gnncal uses the calibration nodes only; docs/methods.md
    shows the effect.
    The publication's number of groups for each data set is not known, so cross-validation chooses
    it.

    A group without calibration nodes gets the temperature that minimises the loss of all
    calibration nodes as one group; with ``protocol="paper"`` it keeps the initial τ = 1. Nodes of
    another graph are scaled with the ranges of the fitted graph and join the nearest centre.
    ``to_torch()`` is not available.

    References
    ----------
    Seo, Seo, Park, Yang, "Towards precise prediction uncertainty in GNNs: refining GNNs with
    topology-grouping strategy" (arXiv 2412.14223, 2024), as released by the authors.

    Examples
    --------
    Here, nodes of high confidence are more overconfident, so the second group has the higher
    temperature:

    >>> import numpy as np
    >>> from gnncal_lab import SimiMailbox
    >>> from gnncal_lab.simulation import CSBM
    >>> sample = CSBM(n_classes=3, separation=1).sample(np.full(1000, 0.5))
    >>> logits, graph = 4 * sample.graph.features[:, :3], sample.graph
    >>> calibrator = SimiMailbox(n_groups=2)
    >>> calibrator.fit(
    ...     logits, sample.labels, graph, calibration_nodes=range(500)
    ... ).group_temperatures_.round(1)
    array([3. , 4.2])

    """

    needs_graph = True
    constraints: ClassVar = {
        "n_groups": integer(at_least=1) | NONE,
        "gap_weight": number(at_least=0),
        "protocol": PROTOCOLS,
    }
    learned: ClassVar = {
        "group_temperatures_": Array("group", low=NARROW_RANGE[0], high=NARROW_RANGE[1]),
        "centres_": Array("group 2", low=0.0, high=1.0),
        "ranges_": Array("2 2", low=0.0, high=1.0, rising="rows"),
        **SOLVER_STATE,
    }
    group_temperatures_: FloatArray
    centres_: FloatArray
    ranges_: FloatArray
    converged_: bool
    n_iter_: int

    def __init__(
        self,
        *,
        n_groups: int | None = None,
        gap_weight: float = 50.0,
        protocol: Protocol = "converged",
    ) -> None:
        self.n_groups = n_groups
        self.gap_weight = gap_weight
        self.protocol = protocol

    def _fit(self, nodes: Nodes) -> None:
        clusters = nodes.cached(_clusters, self.n_groups or self._best_n_groups(nodes))
        self.ranges_, self.centres_ = clusters.ranges, clusters.centres
        groups = self._groups(nodes)
        solution = self._solved(nodes, groups)
        self.group_temperatures_ = temperature_of(solution.parameters)
        self.converged_, self.n_iter_ = solution.converged, solution.n_iter
        self.temperature_ = self.group_temperatures_[groups]
        rows, logits, labels = nodes.calibration_nodes, nodes.calibration_logits, nodes.labels
        name, fitted = "group_temperatures", self.group_temperatures_
        self.fit_report_ = FitReport.of(
            nodes,
            TemperatureLoss(logits, labels).value(self.temperature_[rows]),
            groups_at_bounds(fitted, name),
            undetermined=tuple(weak_groups(logits, labels, groups[rows], fitted, name)),
        )

    def _temperature(self, nodes: Nodes) -> FloatArray:
        return self.group_temperatures_[self._groups(nodes)]

    def _groups(self, nodes: Nodes) -> IntArray:
        """Return the group of each node."""
        return Clusters(self.ranges_, self.centres_).groups_of(nodes.cached(_mailbox))

    def _best_n_groups(self, nodes: Nodes) -> int:
        points = nodes.cached(_mailbox)[nodes.calibration_nodes]
        groupings = {n: nodes.cached(_clusters, n).groups_of(points) for n in CANDIDATES}
        return best_number_of_groups(
            nodes.calibration_logits,
            nodes.labels,
            groupings,
            np.lexsort((points[:, 1], points[:, 0])),
            partial(_fit_groups, gap_weight=self.gap_weight),
        )

    def _solved(self, nodes: Nodes, groups: IntArray) -> Solution:
        """Return the logarithms of all groups' temperatures."""
        logits, labels = nodes.calibration_logits, nodes.labels
        on_nodes, n_groups = groups[nodes.calibration_nodes], len(self.centres_)
        if self.protocol == "converged":
            return _solved_groups(logits, labels, on_nodes, n_groups, self.gap_weight)
        losses = _losses(logits, labels, on_nodes, self.gap_weight)
        train_logits, on_train = nodes.logits[nodes.train_nodes], groups[nodes.train_nodes]
        train_loss = TemperatureLoss(train_logits, nodes.train_labels)
        correct = train_logits.argmax(axis=1) == nodes.train_labels

        def objective(tau: FloatArray) -> tuple[float, FloatArray]:
            value, gradient, inside = 0.0, np.zeros(n_groups), tau.clip(*NARROW_RANGE)
            for g, loss in losses.items():
                part, slope, _ = loss.derivatives(np.log(inside[[g]])[:, None])
                value += float(part[0])
                gradient[g] = slope[0, 0] / inside[g] * (inside[g] == tau[g])
            return value, gradient

        def monitor(tau: FloatArray) -> float:
            total, *_ = train_loss.moments(tau.clip(*NARROW_RANGE)[on_train])
            return _binned_gap(1.0 / total, correct)

        run = solve_like_the_paper(
            objective,
            monitor,
            np.ones(n_groups),
            max_epochs=PUBLISHED_EPOCHS,
            patience=PUBLISHED_PATIENCE,
        )
        return replace(run, parameters=np.log(run.parameters.clip(*NARROW_RANGE)))


def _mailbox(nodes: Nodes) -> FloatArray:
    """Confidence and similarity (n_nodes, 2) of every node."""
    similar = neighbour_similarity(nodes.logits, nodes.required_graph)
    return np.round(np.stack([_confidence(nodes.logits), similar], axis=1), DIGITS)


def _confidence(logits: FloatArray) -> FloatArray:
    """Return max softmax(z) in float64, some rows after the other."""
    confidence, width = np.empty(len(logits)), max(NUMBERS_AT_ONCE // logits.shape[1], 1)
    for first in range(0, len(logits), width):
        rows = logits[first : first + width].astype(np.float64)
        rows -= rows.max(axis=1, keepdims=True)
        confidence[first : first + width] = 1.0 / np.exp(rows).sum(axis=1)
    return confidence


def _clusters(nodes: Nodes, n_groups: int) -> Clusters:
    return Clusters.of(nodes.cached(_mailbox), n_groups)


def _losses(
    logits: FloatArray, labels: IntArray, groups: IntArray, gap_weight: float
) -> dict[int, GapLoss]:
    """Return what each group that has nodes adds to the loss."""
    rows = {int(g): groups == g for g in np.unique(groups)}
    return {
        g: GapLoss(logits[own], labels[own], float(own.mean()), gap_weight)
        for g, own in rows.items()
    }


def _solved_groups(
    logits: FloatArray, labels: IntArray, groups: IntArray, n_groups: int, gap_weight: float
) -> Solution:
    """Return ln T of each group; of one without nodes, that of all nodes together."""
    losses = _losses(logits, labels, groups, gap_weight)
    runs = {g: loss.solved() for g, loss in losses.items()}
    code = np.empty(n_groups)
    if len(runs) < n_groups:
        code[:] = GapLoss(logits, labels, 1.0, gap_weight).solved().parameters
    for g, run in runs.items():
        code[g] = run.parameters[0]
    ends = runs.values()
    n_iter, converged = max(run.n_iter for run in ends), all(run.converged for run in ends)
    return Solution(code, sum(run.loss for run in ends), n_iter, converged)


def _fit_groups(
    logits: FloatArray, labels: IntArray, groups: IntArray, n_groups: int, *, gap_weight: float
) -> FloatArray:
    solution = _solved_groups(logits, labels, groups, n_groups, gap_weight)
    return temperature_of(solution.parameters)


def _binned_gap(confidence: FloatArray, correct: FloatArray) -> float:
    """Return the ECE of the publication's loop."""
    bins = np.minimum((confidence * PUBLISHED_BINS).astype(np.int64), PUBLISHED_BINS - 1)
    return float(np.abs(np.bincount(bins, confidence - correct)).sum() / len(confidence))
