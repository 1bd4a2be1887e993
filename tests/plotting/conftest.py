"""A small calibrated graph, and an axis to draw on."""

import numpy as np
import pytest

import gnncal

pyplot = pytest.importorskip("matplotlib.pyplot")
N = 300


@pytest.fixture
def ax():
    return pytest.importorskip("matplotlib.figure").Figure().subplots()


@pytest.fixture(scope="session")
def task():
    """Logits, labels and graph."""
    generator = np.random.default_rng(0)
    labels = generator.integers(3, size=N)
    logits = 2.0 * generator.normal(size=(N, 3)) + 2.0 * np.eye(3)[labels]
    return logits, labels, gnncal.Graph(generator.integers(N, size=(2, 1200)), N)


@pytest.fixture(autouse=True)
def close_figures():
    yield
    pyplot.close("all")
