"""Softmax, entropy and their relatives: functions of each row of logits (n, K).

Everything keeps the precision of its input: float32 logits give float32 probabilities.
"""

from __future__ import annotations

from math import log
from typing import Any

import numpy as np

from gnncal.data.arrays import FloatArray, IntArray, backend_of
from gnncal.data.checks import check_logits, check_probs
from gnncal.data.errors import InputError

SMALLEST_PROBABILITY = 1e-12  # a certain mistake costs 27.6 nats instead of infinity
LOWEST_SHIFTED_LOGIT = -1e4  # exp of it is 0 in every precision, and 0 * -1e4 is not NaN


def shifted(z: Any) -> Any:
    """Return the logits with row maximum 0: keeps exp from overflowing and cancels in the ratio."""
    return backend_of(z).shifted(z)


def softmax(logits: Any, temperature: Any = None) -> Any:
    r"""Return the softmax of each row of logits, divided by a temperature first.

    .. math:: p_{ik} = e^{z_{ik} / T_i} / \sum_j e^{z_{ij} / T_i}

    Parameters
    ----------
    logits : array_like or Tensor of shape (n_nodes, n_classes)
        Raw scores.
    temperature : float or array_like of shape (n_nodes,), optional
        Positive: one number, or one for each node. Default: 1.

    Examples
    --------
    >>> from gnncal.calibrators import softmax
    >>> softmax([[2.0, 0.0]]).round(2), softmax([[2.0, 0.0]], temperature=2).round(2)
    (array([[0.88, 0.12]]), array([[0.73, 0.27]]))

    """
    is_tensor = hasattr(logits, "detach")
    is_ready = is_tensor or (
        isinstance(logits, np.ndarray) and logits.ndim == 2 and logits.dtype.kind == "f"
    )
    z = logits if is_ready else check_logits(logits)
    xp = backend_of(z)
    scores = xp.shifted(z)
    if temperature is not None:
        if not (is_tensor or (np.asarray(temperature) > 0).all()):
            raise InputError("temperature has values that are not positive; pass numbers above 0.")
        T = temperature if is_tensor else np.asarray(temperature, dtype=z.dtype)
        scores = xp.divide_(scores, xp.column(T))
    weights = xp.exp_(scores)
    return xp.divide_(weights, xp.column(xp.total(weights)))


def keep_predictions(probs: FloatArray, predictions: IntArray) -> FloatArray:
    """Return the probabilities, with ties broken in favour of the predicted class, in place.

    Rounding in a monotone calibration map can tie two classes whose logits differ in the last bits.
    If the predicted class of a node ties with an earlier class, its probability is raised by one
    unit in the last place. Larger differences are left unchanged.

    Parameters
    ----------
    probs : ndarray of shape (n_nodes, n_classes)
        Probabilities; changed in place.
    predictions : ndarray of int of shape (n_nodes,)
        The predicted class of each node.

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
    """Return logits whose softmax is the given probabilities, for models without logits.

    The logits are natural logarithms. Probabilities of 0 first become the smallest positive number.

    Examples
    --------
    >>> from gnncal.calibrators import logits_from_probabilities, softmax
    >>> softmax(logits_from_probabilities([[0.9, 0.1]]))
    array([[0.9, 0.1]])

    """
    checked = check_probs(probs)
    return np.log(np.maximum(checked, np.finfo(checked.dtype).tiny))


def normalised_entropy(z: Any) -> Any:
    """Return e_i = -sum_k p_ik ln p_ik / ln K of softmax(z_i), in [0, 1]."""
    xp = backend_of(z)
    s = xp.maximum_(xp.shifted(z), LOWEST_SHIFTED_LOGIT)
    weights = xp.exp(s)
    return entropy_of_sums(xp.total(weights), xp.row_dot(weights, s), xp.width(z))


def entropy_of_sums(mass: Any, energy: Any, n_classes: int) -> Any:
    """e = (ln M - S / M) / ln K, with M = sum_k e^{s_k} and S = sum_k e^{s_k} s_k."""
    xp = backend_of(mass)
    e = xp.as_float64(xp.log(mass) - energy / mass) / log(n_classes)
    return xp.minimum(xp.maximum(e, 0.0), 1.0)


def concentration(e: Any, n_classes: int, minimum: Any = 0.0) -> Any:
    """sqrt(2 K ln K (1 - e)), the norm of the centred logits near the uniform distribution."""
    xp = backend_of(e)
    rest = xp.maximum(1.0 - e, minimum)
    is_uniform = rest == 0.0  # like a norm it has no gradient there; zero is one that is finite
    root = xp.sqrt(xp.where(is_uniform, 1.0, rest) * (2.0 * n_classes * log(n_classes)))
    return xp.where(is_uniform, 0.0, root)


def normalised_homophily(h: Any, n_classes: int) -> Any:
    """Return h~ = (K h - 1) / (K - 1): 0 in a random neighbourhood, 1 in a pure one."""
    return (n_classes * h - 1.0) / (n_classes - 1.0)


def homophily_of(normalised: Any, n_classes: int) -> Any:
    """h = (1 + (K - 1) h~) / K, the inverse of :func:`normalised_homophily`."""
    return (1.0 + (n_classes - 1.0) * normalised) / n_classes
