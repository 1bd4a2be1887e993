"""``check_metric`` passes what keeps the laws and names the law that is broken."""

from dataclasses import replace

import numpy as np
import pytest

import gnncal
from gnncal.metrics import METRICS, Metric, NoiseFloor
from gnncal.testing import check_metric


def top_two_of(outcomes):
    """The share of nodes whose label is not among the two most probable classes."""
    best = np.argsort(-outcomes.probs, axis=1, kind="stable")[:, :2]
    return float(1 - (best == outcomes.labels[:, None]).any(axis=1).mean())


TOP_TWO = Metric("top_two_error", "not among the first two", top_two_of, decimals=2, unit="%")


def metric(function, **changes):
    return replace(TOP_TWO, function=function, **changes)


def overwrites(outcomes):
    outcomes.labels[:] = outcomes.labels[::-1].copy()
    return 0.0


BROKEN = {
    "it is one finite number": metric(lambda outcomes: float("nan")),
    "inputs are not mutated": metric(overwrites),
    "the order of the nodes does not matter": metric(lambda outcomes: 1 - outcomes.correct[0]),
    "the order of the classes does not matter": metric(
        lambda outcomes: float((outcomes.labels != 0).mean() * (1 - outcomes.correct.mean()))
    ),
    "nothing is better than certain and right": replace(METRICS["nll"], better="higher"),
    "it is the mean of its scores of single nodes": replace(
        METRICS["brier"], per_node=METRICS["nll"].per_node
    ),
    "it says whether it needs degrees": metric(
        lambda outcomes: 0.0 if outcomes.in_degree is None else 1 - outcomes.correct.mean()
    ),
    "its floor is what calibrated labels show on average": replace(
        METRICS["ece"], floor=lambda outcomes: NoiseFloor(0.5, 0.1)
    ),
    "it can be named and shown": replace(TOP_TWO, name="top two"),
}


def test_a_fair_metric_of_ones_own_keeps_every_law():
    check_metric(TOP_TWO)


@pytest.mark.parametrize("law", BROKEN)
def test_a_broken_law_is_named(law):
    with pytest.raises(AssertionError, match=f"breaks .*(\n.*)*{law}: "):
        check_metric(BROKEN[law])


def test_what_is_no_metric_is_refused():
    with pytest.raises(gnncal.InputError, match=r"no metric; pass a gnncal\.metrics\.Metric"):
        check_metric(top_two_of)


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
