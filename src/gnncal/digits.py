"""Example data that need no download: handwritten digits, linked to similar ones."""

from __future__ import annotations

import numpy as np

from gnncal.data.arrays import FloatArray
from gnncal.files.bundle import Bundle
from gnncal.graph.graph import Graph

N_SIMILAR = 10
N_TRAIN, N_CALIBRATION = 200, 500
DECIMALS = 4  # the last digits of a converged fit differ between machines


def example() -> Bundle:
    """Return example data: 1,797 handwritten digits, each linked to the ten most similar images.

    The images come with scikit-learn. The model averages pixels over neighbours twice, as a graph
    convolution does. An untuned logistic regression on 200 labels then predicts the digit. The
    accuracy is about 97%, but the mean confidence is only 80%.

    Returns
    -------
    Bundle
        Logits, labels, graph, splits and class names, as from :func:`gnncal.read_bundle`. There
        are 200 training nodes, 500 calibration nodes and 1,097 test nodes.

    Examples
    --------
    >>> import gnncal
    >>> task = gnncal.example()
    >>> task.logits.shape, task.graph.n_edges
    ((1797, 10), 24678)
    >>> result = gnncal.calibrate(task.logits, task.labels, task.graph, **task.splits)
    >>> round(result.before.ece.value, 2), round(result.after.ece.value, 2)
    (0.17, 0.01)

    """
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression

    pixels, digits = load_digits(return_X_y=True)
    graph = _similar(pixels)
    carry = graph.normalised_adjacency(add_self_loops=True)
    features = carry @ (carry @ (pixels / pixels.max()))
    order = np.random.default_rng(0).permutation(len(digits))
    train, nodes, test = map(np.sort, np.split(order, [N_TRAIN, N_TRAIN + N_CALIBRATION]))
    model = LogisticRegression(tol=1e-8, max_iter=10_000).fit(features[train], digits[train])
    logits: FloatArray = model.decision_function(features).round(DECIMALS)
    names = [str(digit) for digit in range(10)]
    return Bundle(logits, digits, graph, train, nodes, test, class_names=names)


def _similar(pixels: FloatArray) -> Graph:
    """Link each image to its most similar ones; of two that are as similar, to the first."""
    n_nodes, squares = len(pixels), (pixels**2).sum(axis=1)
    # Pixels are whole numbers, so distances are exact, and the same on every machine.
    distance = squares[:, None] + squares - 2 * pixels @ pixels.T
    np.fill_diagonal(distance, distance.max() + 1)
    rank = distance * n_nodes + np.arange(n_nodes)
    nearest = np.argpartition(rank, N_SIMILAR, axis=1)[:, :N_SIMILAR]
    receivers = np.repeat(np.arange(n_nodes), N_SIMILAR)
    return Graph(np.stack([nearest.ravel(), receivers]), n_nodes).to_undirected()
