"""``gnncal.check``: test new nodes for distribution shift from those of a fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from gnncal.calibrators.base import Calibrator
from gnncal.data.arrays import FloatArray, IntArray
from gnncal.data.checks import check_nodes
from gnncal.data.errors import InputError
from gnncal.data.estimator import check_is_fitted
from gnncal.data.nodes import Nodes
from gnncal.data.tables import Cell, Table, Tabular, text_cell
from gnncal.math.node_summary import (
    OF_NEIGHBOURS,
    SMALLEST_SAMPLE,
    NodeSummary,
    count_in,
    predicted_counts,
    quantities_of,
)

Verdict = Literal["same", "moved", "far"]
Reference = Literal["calibration nodes", "graph of the fit"]
PREDICTED = "predicted classes"
NOTHING_TO_DO = " There is nothing to do."
N_DRAWS = 2000  # of what chance shows
CHANCE = 0.99  # level for each of five quantities: together chance shows a move in one of twenty
SMALLEST_MOVE = 0.02  # a share of the nodes that is left alone however surely it is seen
DRIFT = 0.1  # distance of quantities outside the core that years of a citation network made
CORE = ("confidence", "entropy", "support")  # moved in every one of 144 moves between graphs
FAR = 0.35  # mean distance beyond which most moves between countries were costly
LABELS: dict[Verdict, int] = {"same": 0, "moved": 50, "far": 200}  # how many to label, and
LABELS_OF_A_CLASS = 10  # that many for each class where there are many classes


@dataclass(frozen=True)
class Move:
    """How the distribution of one quantity differs between calibration nodes and new nodes."""

    name: str
    distance: float
    chance: float
    higher: float
    is_moved: bool

    @property
    def words(self) -> str:
        """The quantity and the direction of its change."""
        if self.name == PREDICTED:
            return f"{self.name} differ"
        if abs(self.higher - 0.5) < self.distance / 4:
            return f"{self.name} is spread differently"
        return f"{self.name} is {'higher' if self.higher > 0.5 else 'lower'}"


@dataclass(frozen=True, repr=False)
class Check(Tabular):
    """Result of a test for distribution shift; it prints as a table.

    Attributes
    ----------
    verdict, sentence : str
        ``"same"``, ``"moved"`` or ``"far"``; the verdict in words, and what to do.
    distance : float
        Total variation distance minus its mean by chance, averaged over all quantities.
    n_labels, n_fitted_on, n_new : int
        Numbers of nodes to label at random, of reference nodes and of new nodes.
    moves : tuple of Move
        The comparison of each quantity.
    compared_with : {"calibration nodes", "graph of the fit"}
        The reference: the graph, without training nodes, if the new nodes are more similar to it.

    """

    verdict: Verdict
    sentence: str
    distance: float
    n_labels: int
    n_fitted_on: int
    n_new: int
    moves: tuple[Move, ...]
    compared_with: Reference = "calibration nodes"

    def __repr__(self) -> str:
        return f"{self.sentence}\n\n{super().__repr__()}"

    def _tables(self) -> Sequence[Table]:
        columns = ("quantity", "distance", "by chance", "higher in", "moved")
        rows = [
            [
                text_cell(move.name),
                Cell(move.distance, f"{100 * move.distance:.1f}%"),
                Cell(move.chance, f"up to {100 * move.chance:.1f}%"),
                Cell(move.higher, "" if np.isnan(move.higher) else f"{100 * move.higher:.0f}%"),
                Cell(move.is_moved, "yes" if move.is_moved else "no"),
            ]
            for move in self.moves
        ]
        return [Table("", columns, rows)]


def check(calibrator: Calibrator, logits: Any, graph: Any = None, *, nodes: Any = None) -> Check:
    """Test new nodes for distribution shift from a calibrator's calibration nodes, without labels.

    A fitted calibrator stores histograms of the confidence, entropy, support, degree and predicted
    classes of its calibration nodes, with which the new nodes are compared. A shift that does not
    change the predictions cannot be detected, and only labels show the effect on calibration.

    Parameters
    ----------
    calibrator : Calibrator
        A fitted calibrator.
    logits, graph : array_like or Nodes, and Graph
        All nodes of the new graph. Without a graph, support and degree are not compared.
    nodes : array_like, optional
        The nodes to compare, as a mask or indices, without training nodes. Default: all.

    Returns
    -------
    Check
        The verdict, and for each quantity the distance and its limit by chance.

    Examples
    --------
    >>> import gnncal
    >>> task = gnncal.example()
    >>> calibrator = gnncal.HoTS().fit(
    ...     task.logits, task.labels, task.graph, calibration_nodes=task.calibration_nodes
    ... )
    >>> gnncal.check(calibrator, task.logits, task.graph, nodes=task.test_nodes).verdict
    'same'
    >>> gnncal.check(calibrator, task.logits / 4, task.graph).moves[1].words
    'confidence is lower'

    """
    check_is_fitted(calibrator, "classes_")
    summary = calibrator.fitted_on_
    record = logits if isinstance(logits, Nodes) else Nodes(logits, graph)
    rows = check_nodes(np.arange(record.n_nodes) if nodes is None else nodes, record.n_nodes)
    n_classes = len(calibrator.classes_)
    check_comparable(record, rows, n_classes=n_classes, n_fitted_on=summary.n_nodes)
    found = _compared(summary, record, rows, "calibration nodes")
    if found.verdict == "same" or summary.all_nodes is None:
        return found
    whole = _compared(summary.all_nodes, record, rows, "graph of the fit")
    if LABELS[whole.verdict] >= LABELS[found.verdict]:
        return found
    n_labels = whole.n_labels or _labels_for("moved", n_classes)
    sentence = (
        f"{whole.sentence.replace(NOTHING_TO_DO, '')} The {found.n_fitted_on:,} calibration nodes "
        f"differ from the new nodes ({_words(found.moves)}), for example because suspicious nodes "
        "were labelled first. Only labels show whether the calibrator fits the new nodes: label "
        f"about {n_labels} nodes chosen at random."
    )
    return replace(whole, sentence=sentence, n_labels=n_labels)


def _labels_for(verdict: Verdict, n_classes: int) -> int:
    return max(LABELS[verdict], LABELS_OF_A_CLASS * n_classes) if LABELS[verdict] else 0


def check_comparable(record: Nodes, rows: IntArray, *, n_classes: int, n_fitted_on: int) -> None:
    """Refuse new nodes with other classes, and comparisons with too few nodes on either side."""
    if record.n_classes != n_classes:
        raise InputError(
            f"logits has {record.n_classes} columns but the calibrator was fitted for {n_classes} "
            "classes; pass the logits of the same classes in the same order."
        )
    for what, n in (("calibration nodes", n_fitted_on), ("new nodes", int(rows.size))):
        if n < SMALLEST_SAMPLE:
            raise InputError(
                f"there are {n} {what}; a comparison needs at least {SMALLEST_SAMPLE} on each side."
            )


def _compared(summary: NodeSummary, record: Nodes, rows: IntArray, reference: Reference) -> Check:
    pairs = {PREDICTED: (summary.predicted, predicted_counts(record, rows))}
    for name, values in quantities_of(record, rows).items():
        if name in summary.bins and summary.bins[name].counts.any() and not np.isnan(values).all():
            bins = summary.bins[name]
            pairs[name] = (bins.counts, count_in(bins.cuts, values))
    generator = np.random.default_rng(0)
    compared = [_move(name, *pair, generator) for name, pair in pairs.items()]
    moves = tuple(move for move, _ in compared)
    distance = float(np.mean([max(move.distance - usual, 0.0) for move, usual in compared]))
    is_drift = all(m.name not in CORE and m.distance < DRIFT for m in moves if m.is_moved)
    verdict: Verdict = "same" if is_drift else "far" if distance >= FAR else "moved"
    n_labels = _labels_for(verdict, record.n_classes)
    of_the_fit = reference if reference == "calibration nodes" else f"nodes of the {reference}"
    counted = f"compared {summary.n_nodes:,} {of_the_fit} and {rows.size:,} new ones"
    sentence = _sentence(verdict, _words(moves), n_labels, counted)
    without = [name for name in OF_NEIGHBOURS if name in summary.bins and name not in pairs]
    if without:
        sentence += f" Without a graph, {' and '.join(without)} were not compared."
    sizes = (summary.n_nodes, rows.size)
    return Check(verdict, sentence, distance, n_labels, *sizes, moves, reference)


def _move(
    name: str, before: IntArray, after: IntArray, generator: np.random.Generator
) -> tuple[Move, float]:
    """Compare two counts over the same bins; also return the mean distance by chance."""
    sizes = [int(counts.sum()) for counts in (before, after)]
    pooled = (before + after) / sum(sizes)
    drawn = [generator.multinomial(n, pooled, N_DRAWS) / n for n in sizes]
    by_chance = _distance(*drawn)
    old, new = before / sizes[0], after / sizes[1]
    distance = float(_distance(old, new))
    limit = float(np.quantile(by_chance, CHANCE))
    usual = float(by_chance.mean())
    higher = float("nan") if name == PREDICTED else float(new @ (np.cumsum(old) - old / 2))
    is_moved = distance > limit and distance - usual > SMALLEST_MOVE
    return Move(name, distance, limit, higher, is_moved), usual


def _words(moves: Sequence[Move]) -> str:
    moved = [move for move in moves if move.is_moved]
    return ", ".join(move.words for move in sorted(moved, key=lambda m: -m.distance))


def _distance(p: FloatArray, q: FloatArray) -> FloatArray:
    return 0.5 * np.abs(p - q).sum(axis=-1)


def _sentence(verdict: Verdict, words: str, n_labels: int, counted: str) -> str:
    if verdict == "same":
        found = f"small drift only ({words})" if words else "no difference beyond chance"
        return (
            f"No distribution shift: {found} ({counted}).{NOTHING_TO_DO} A change that does not "
            "affect the predictions cannot be detected without labels."
        )
    label = f"Only labels show the cost: label about {n_labels} nodes chosen at random"
    if verdict == "moved":
        return f"Distribution shift: {words} ({counted}). {label} and run gnncal update."
    return (
        f"Strong distribution shift: {words} ({counted}). Do not use this calibrator here. "
        f"{label}, then run gnncal update or fit again."
    )
