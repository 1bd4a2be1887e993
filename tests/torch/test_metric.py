"""Metrics that see batches give what gnncal's table gives for all nodes at once."""

import numpy as np
import pytest

import gnncal
from gnncal.metrics import METRICS
from gnncal.metrics.outcomes import Outcomes

torch = pytest.importorskip("torch")
torchmetrics = pytest.importorskip("torchmetrics")

from gnncal.torch import Metric  # noqa: E402

NAMES = [*METRICS, "ece_floor"]


def drawn(n=300):
    generator = np.random.default_rng(0)
    probs = gnncal.calibrators.softmax(2 * generator.normal(size=(n, 3)))
    labels = generator.integers(3, size=n)
    return labels, probs, generator.integers(0, 9, size=n)


@pytest.mark.parametrize("name", NAMES)
def test_batches_give_the_number_of_all_nodes_at_once(name):
    labels, probs, degree = drawn()
    metric = Metric(name, positive=1)
    for rows in np.split(np.arange(len(labels)), [7, 120]):
        metric.update(*(torch.from_numpy(array[rows]) for array in (probs, labels, degree)))
    outcomes = Outcomes(labels, probs, degree, positive=1)
    if name in METRICS:
        expected = METRICS[name].function(outcomes)
    else:
        expected = METRICS["ece"].floor(outcomes).mean
    assert float(metric.compute()) == pytest.approx(expected, abs=1e-6)


def test_a_confidence_of_exactly_one_is_in_the_last_bin_and_edges_belong_below():
    # Confidences 1 and 14/15 + 0.01 share the last bin; torchmetrics gives 1 a bin of its own.
    probs = torch.tensor([[1.0, 0.0], [14 / 15 + 0.01, 1 / 15 - 0.01]], dtype=torch.float64)
    by_hand = abs((1.0 + 14 / 15 + 0.01) / 2 - 0.5)
    assert float(Metric("ece")(probs, torch.tensor([0, 1]))) == pytest.approx(by_hand)


def test_a_collection_logs_under_a_prefix_and_can_be_cloned():
    names = ("ece", "nll")
    collection = torchmetrics.MetricCollection({n: Metric(n) for n in names}, prefix="val_").clone()
    collection.update(torch.full((4, 2), 0.5), torch.tensor([0, 1, 0, 1]))
    found = collection.compute()
    assert set(found) == {"val_ece", "val_nll"}
    assert float(found["val_nll"]) == pytest.approx(np.log(2))


def test_what_is_no_outcome_is_refused():
    metric = Metric("ece")
    with pytest.raises(gnncal.InputError, match="not logits"):
        metric.update(torch.tensor([[3.0, -1.0]]), torch.tensor([0]))
    with pytest.raises(gnncal.InputError, match="labels"):
        metric.update(torch.tensor([[0.5, 0.5]]), torch.tensor([-1]))
    with pytest.raises(gnncal.InputError, match="name is"):
        Metric("eces")
