"""A metric of one's own stands beside the others."""

from dataclasses import replace

import numpy as np
import pytest

import gnncal
from gnncal.metrics import Metric


def top_two_of(outcomes):
    """The share of nodes whose label is not among the two most probable classes."""
    best = np.argsort(-outcomes.probs, axis=1, kind="stable")[:, :2]
    return float(1 - (best == outcomes.labels[:, None]).any(axis=1).mean())


TOP_TWO = Metric("top_two_error", "not among the first two", top_two_of, decimals=2, unit="%")


def test_a_metric_of_ones_own_is_evaluated_and_shown_beside_the_others():
    labels, probs = [0, 1, 2], [[0.6, 0.3, 0.1]] * 3
    found = gnncal.evaluate(labels, probs, metrics=[TOP_TWO])
    assert found.top_two_error == pytest.approx(1 / 3)
    assert found.as_dict()["top_two_error"] == pytest.approx(1 / 3)
    assert "not among the first two %" in str(found)
    assert "33.33" in str(found)
    assert "top_two_error" not in gnncal.evaluate(labels, probs).values


@pytest.mark.parametrize("name", ["ece", "n_nodes"])
def test_a_metric_of_ones_own_cannot_take_a_name_that_there_is(name):
    with pytest.raises(gnncal.InputError, match=f"named '{name}', which there is already"):
        gnncal.evaluate([0, 1], np.eye(2), metrics=[replace(TOP_TWO, name=name)])
    with pytest.raises(gnncal.InputError, match=r"expected gnncal\.metrics\.Metric"):
        gnncal.evaluate([0, 1], np.eye(2), metrics=[top_two_of])
