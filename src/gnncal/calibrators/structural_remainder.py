"""The structural law's confidence, and a better guess for the other classes."""

from __future__ import annotations

from typing import ClassVar, TypeVar

import numpy as np

from gnncal.calibrators.base import Calibrator, FitReport
from gnncal.calibrators.structural import StructuralLaw
from gnncal.calibrators.structural_graph import StructuralGraph
from gnncal.core.arrays import FloatArray, IntArray
from gnncal.core.nodes import Nodes
from gnncal.core.probability import keep_predictions, log_losses, unchecked_softmax

PARTS: dict[str, type[StructuralLaw | StructuralGraph]] = {
    "law": StructuralLaw,
    "graph": StructuralGraph,
}
Part = TypeVar("Part", StructuralLaw, StructuralGraph)


class StructuralRemainder(Calibrator):
    r"""The structural law's confidence; the neighbours divide the rest among the other classes.

    .. math:: p_{i \hat y_i} = c_i, \qquad
              p_{ik} = (1 - c_i) \frac{q_{ik}}{\sum_{j \ne \hat y_i} q_{ij}}
              \text{ for } k \ne \hat y_i

    c is the confidence of ``structural`` and q the probabilities of ``structural-graph``. No
    other class gets more than :math:`c_i`; what is too much goes to the rest. So predictions
    stay as they are, and only the chances of the other classes differ from ``structural``.

    Attributes
    ----------
    law_weights_, graph_weights_ : ndarray of shape (6,)
        Weights of the two methods. Their other attributes have the prefixes ``law_`` and ``graph_``
        too; see :class:`gnncal.StructuralLaw` and :class:`gnncal.StructuralGraph`.
    fit_report_ : FitReport
        Loss before and after, and whether the labels determine the fit.

    Notes
    -----
    Use it where predictions must stay and the probabilities of the other classes matter too, as in
    prediction sets. Confidence and ECE are those of ``structural``; the mean log loss is lower
    (docs/evidence.md).

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal import StructuralLaw, StructuralRemainder
    >>> from gnncal.lab.simulation import CSBM
    >>> sample = CSBM(n_classes=3, separation=1).sample(np.full(400, 0.5))
    >>> logits, graph = 3 * sample.graph.features[:, :3], sample.graph
    >>> fitted = [
    ...     kind().fit(logits, sample.labels, graph, nodes=range(200))
    ...     for kind in (StructuralLaw, StructuralRemainder)
    ... ]
    >>> [round(each.fit_report_.loss_after, 2) for each in fitted]
    [0.76, 0.68]

    """

    preserves_predictions = True
    needs_graph = True
    erases_missing_classes = True  # among the classes that are not predicted
    fitting = "posterior"
    learned: ClassVar = {
        f"{part}_{name}": entry
        for part, kind in PARTS.items()
        for name, entry in kind.learned.items()
    }

    def _fit(self, nodes: Nodes) -> None:
        for part, kind in PARTS.items():
            fitted = kind()
            fitted._fit(nodes)
            for name in kind.learned:
                setattr(self, f"{part}_{name}", getattr(fitted, name))
        probs = self._predict(nodes)[nodes.calibration_nodes]
        self.fit_report_ = FitReport.of(nodes, log_losses(probs, nodes.labels).mean())

    def _predict(self, nodes: Nodes) -> FloatArray:
        law, graph = self._restored(StructuralLaw, "law"), self._restored(StructuralGraph, "graph")
        confidence = unchecked_softmax(nodes.logits, law._temperature(nodes)).max(axis=1)
        probs = divide_rest(graph._predict(nodes), nodes.predictions, confidence)
        return keep_predictions(probs, nodes.predictions)

    def _restored(self, kind: type[Part], part: str) -> Part:
        """Return one of the two fitted methods, from the attributes that are saved."""
        calibrator = kind()
        for name in kind.learned:
            setattr(calibrator, name, getattr(self, f"{part}_{name}"))
        return calibrator


def divide_rest(probs: FloatArray, predictions: IntArray, confidence: FloatArray) -> FloatArray:
    """Give each predicted class its confidence, and the others the rest, none of them more.

    The rest is divided in proportion to ``probs``. A class that would get more than the
    confidence gets exactly that, and the others share what is left over.
    """
    nodes = np.arange(len(probs))
    rest = probs.astype(np.float64)
    rest[nodes, predictions] = 0.0
    limit = confidence.astype(np.float64)[:, None]
    rest /= np.maximum(rest.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    share = rest * (1.0 - limit)
    np.minimum(share, limit, out=share)
    for _ in range(probs.shape[1]):  # each round fills at least one more class to its limit
        missing = 1.0 - limit[:, 0] - share.sum(axis=1)
        short = np.flatnonzero(missing > 1e-12)
        if short.size == 0:
            break
        room = np.where(share[short] < limit[short], rest[short], 0.0)
        room[nodes[: short.size], predictions[short]] = 0.0
        empty = room.sum(axis=1) <= 0.0  # no probabilities left: equal shares
        room[empty] = share[short][empty] < limit[short][empty]
        room[nodes[: short.size], predictions[short]] = 0.0
        room *= (missing[short] / np.maximum(room.sum(axis=1), 1e-300))[:, None]
        share[short] = np.minimum(share[short] + room, limit[short])
    share[nodes, predictions] = limit[:, 0]
    share /= share.sum(axis=1, keepdims=True)
    return share.astype(probs.dtype, copy=False)
