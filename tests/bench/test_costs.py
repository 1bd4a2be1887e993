"""The remaining time comes from what was measured, by method and size."""

import pytest

from gnncal.bench.costs import UNKNOWN_SECONDS, Costs, Step, chunks

SIZES = {"small": 10.0, "large": 1000.0}


def test_a_step_costs_what_it_cost_before():
    costs = Costs(SIZES.__getitem__)
    for seconds in (1.0, 2.0, 6.0):
        costs.add(Step(("ts", "paper"), "small"), seconds)
    assert costs.predict(Step(("ts", "paper"), "small")) == pytest.approx(3.0)


def test_an_unseen_dataset_costs_by_its_size_and_an_unseen_method_like_the_others():
    costs = Costs(SIZES.__getitem__)
    unseen = Step(("hots", "paper"), "large")
    assert costs.predict(unseen) == UNKNOWN_SECONDS
    costs.add(Step(("ts", "paper"), "small"), 1.0)
    costs.add(Step(("vs", "paper"), "small"), 3.0)
    assert costs.predict(Step(("ts", "paper"), "large")) == pytest.approx(100.0)
    assert costs.predict(unseen) == pytest.approx(200.0)


def test_chunks_keep_order_and_stay_below_the_limit():
    costs = {"a": 4, "b": 4, "c": 4, "d": 50, "e": 1}
    assert list(chunks(list(costs), costs.__getitem__, 10)) == [["a", "b"], ["c"], ["d"], ["e"]]
    assert list(chunks([], costs.__getitem__, 10)) == []
