"""Probabilities as NumPy arrays: the public softmax, log losses, predictions kept to the bit.

Everything keeps the precision of its input: float32 logits give float32 probabilities.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gnncal.data import probability as formula
from gnncal.data.arrays import FloatArray, IntArray
from gnncal.data.checks import check_logits, check_probs
from gnncal.data.errors import InputError
from gnncal.data.probability import SMALLEST_PROBABILITY


def softmax(logits: Any, temperature: FloatArray | float = 1.0) -> FloatArray:
    r"""Return the softmax of each row of logits, divided by a temperature first.

    .. math:: p_{ik} = e^{z_{ik} / T_i} / \sum_j e^{z_{ij} / T_i}

    Parameters
    ----------
    logits : array_like of shape (n_nodes, n_classes)
        Raw scores.
    temperature : float or array_like of shape (n_nodes,), default=1.0
        Positive: one number, or one for each node.

    Examples
    --------
    >>> from gnncal.calibrators import softmax
    >>> softmax([[2.0, 0.0]]).round(2), softmax([[2.0, 0.0]], temperature=2).round(2)
    (array([[0.88, 0.12]]), array([[0.73, 0.27]]))

    """
    checked = check_logits(logits)
    T = np.asarray(temperature, dtype=checked.dtype)
    if not (T > 0).all():
        raise InputError("temperature has values that are not positive; pass numbers above 0.")
    return formula.softmax(checked, T.reshape(-1))


def scaled_probabilities(
    logits: FloatArray, temperature: FloatArray | float, predictions: IntArray | None = None
) -> FloatArray:
    """Return ``softmax(logits, temperature)`` with the arg max of the logits, to the last bit."""
    T = np.asarray(temperature, dtype=logits.dtype)
    if predictions is None:
        predictions = logits.argmax(axis=1)
    return keep_predictions(formula.softmax(logits, T), predictions)


def keep_predictions(probs: FloatArray, predictions: IntArray) -> FloatArray:
    """Return the same array, in which arg max changes that are pure rounding are undone in place.

    A monotone map can only tie two classes whose logits differ in the last bits; where such a tie
    would hand the prediction to an earlier class, the predicted one is raised by one unit in the
    last place. Anything larger than a tie is left alone.

    Parameters
    ----------
    probs : ndarray of shape (n_nodes, n_classes)
        Probabilities.
    predictions : ndarray of int of shape (n_nodes,)
        The class that each node must predict.

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal.calibrators import keep_predictions
    >>> keep_predictions(np.array([[0.5, 0.5]]), np.array([1])).argmax(axis=1)
    array([1])

    """
    rows = np.flatnonzero(probs.argmax(axis=1) != predictions)
    columns = predictions[rows]
    top = probs[rows].max(axis=1)
    tied = probs[rows, columns] == top
    probs[rows[tied], columns[tied]] = np.nextafter(top[tied], np.inf, dtype=probs.dtype)
    return probs


def log_losses(probs: FloatArray, labels: IntArray) -> FloatArray:
    """-ln p of each node's label in float64, with p clipped below at 1e-12; shape (n_nodes,)."""
    at_label = probs[np.arange(len(labels)), labels].astype(np.float64)
    return -np.log(np.maximum(at_label, SMALLEST_PROBABILITY))


def logits_from_probabilities(probs: Any) -> FloatArray:
    """Return logits whose softmax gives these probabilities, for models that give no logits.

    They are natural logarithms; zeros become the smallest positive number first.

    Examples
    --------
    >>> from gnncal.calibrators import logits_from_probabilities, softmax
    >>> softmax(logits_from_probabilities([[0.9, 0.1]]))
    array([[0.9, 0.1]])

    """
    checked = check_probs(probs)
    return np.log(np.maximum(checked, np.finfo(checked.dtype).tiny))
