"""The structural law with a bias for each class and the neighbours' mean probabilities."""

from __future__ import annotations

from gnncal.calibrators.structural_scores import StructuralScores


class StructuralGraph(StructuralScores):
    r"""The structural law, a bias for each class, and the neighbours' mean probabilities.

    .. math:: p_i = \mathrm{softmax}(z_i / T_i + b + \gamma \ln(\bar p_i + 0.02))

    :math:`\bar p_i` is the mean of the neighbours' probabilities, senders and receivers together.
    One number, :math:`\gamma`, says how much they count. Predictions may change, and often
    become better.

    Attributes
    ----------
    certain_temperature_, uncertain_temperature_ : float
        T_c and T_u of the law, see :class:`gnncal.StructuralLaw`.
    weights_ : ndarray of shape (6,)
        Weights of the neighbourhood in the law.
    class_offsets_ : ndarray of shape (n_classes,)
        Offsets of the predicted classes in the law.
    bias_ : ndarray of shape (n_classes,)
        The fitted b.
    neighbour_weight_ : float
        The fitted :math:`\gamma`.
    fit_report_ : FitReport
        Loss before and after, and whether the labels determine the fit.

    Notes
    -----
    Use it where predictions may change and log loss matters most: it had the lowest mean log loss
    of all methods on the eleven graphs with at least 100 calibration nodes (docs/evidence.md).

    Examples
    --------
    This model has not looked at the graph, so the neighbours improve its accuracy:

    >>> import numpy as np
    >>> from gnncal import StructuralGraph
    >>> from gnncal.lab.simulation import CSBM
    >>> sample = CSBM(n_classes=3, separation=1).sample(np.full(1000, 0.8))
    >>> logits, graph = sample.graph.features[:, :3], sample.graph
    >>> calibrator = StructuralGraph().fit(logits, sample.labels, graph, nodes=range(500))
    >>> before = logits[500:].argmax(axis=1) == sample.labels[500:]
    >>> after = calibrator.score(logits, sample.labels, graph, nodes=range(500, 1000))
    >>> round(float(before.mean()), 2), round(after, 2)
    (0.59, 0.97)

    """

    listens = True
