"""Planted calibration problems and straight-line losses for the tests beside this file."""

import numpy as np

import gnncal


def draw(n, n_classes, seed, temperature=2.0, bias=0.0):
    """Logits, and labels drawn from softmax(z / temperature + bias)."""
    generator = np.random.default_rng(seed)
    logits = 3 * generator.normal(size=(n, n_classes))
    truth = gnncal.calibrators.softmax(logits / temperature + bias)
    labels = (generator.random((n, 1)) > np.cumsum(truth, axis=1)[:, :-1]).sum(axis=1)
    return logits, labels


def mean_log_loss(labels, probs):
    return -np.mean(np.log(probs[np.arange(len(labels)), labels]))
