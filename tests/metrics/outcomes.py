"""Labels and probabilities that the tests of this folder are made of."""

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

law = settings(max_examples=max(60, settings.default.max_examples))


def top_label(confidence, correct, n_classes=2):
    """Labels and probabilities with these very confidences and hits (class 0 is predicted)."""
    confidence = np.asarray(confidence, dtype=np.float64)
    rest = (1.0 - confidence)[:, None] / (n_classes - 1)
    probs = np.hstack([confidence[:, None], np.repeat(rest, n_classes - 1, axis=1)])
    return np.where(np.asarray(correct, dtype=bool), 0, 1), probs


def degree_blocks(degree):
    """The block of each node with these in-degrees, in one order: ties as they are listed."""
    rank = np.empty(len(degree), dtype=np.int64)
    rank[np.argsort(degree, kind="stable")] = np.arange(len(degree))
    return rank // -(-len(degree) // 10)


def softmax(logits):
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def draw_labels(probs, generator):
    return (generator.random((len(probs), 1)) >= probs.cumsum(axis=1)[:, :-1]).sum(axis=1)


def simulate(n_nodes, *, n_classes=4, sharpness=1.0, seed=0):
    """Probabilities softmax(z) of labels that follow softmax(sharpness * z)."""
    generator = np.random.default_rng(seed)
    logits = 1.5 * generator.normal(size=(n_nodes, n_classes))
    return draw_labels(softmax(sharpness * logits), generator), softmax(logits)


@st.composite
def outcomes(draw, max_nodes=25):
    """Any labels and probabilities; whole-numbered logits make tied confidences common."""
    shape = draw(st.tuples(st.integers(1, max_nodes), st.integers(2, 5)))
    tied = draw(st.booleans())
    elements = st.integers(-3, 3).map(float) if tied else st.floats(-9, 9, width=32)
    logits = draw(arrays(np.float64, shape, elements=elements))
    labels = draw(arrays(np.int64, shape[0], elements=st.integers(0, shape[1] - 1)))
    return labels, softmax(logits)
