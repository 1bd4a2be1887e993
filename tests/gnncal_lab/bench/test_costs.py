"""The time left comes from what was measured, by kind of work and size of the graph."""

import pytest

from gnncal_lab.bench.costs import Costs, Step, chunks

SIZES = {"tiny": 10.0, "small": 100.0, "large": 1000.0, "huge": 1e6}


def test_a_step_costs_what_it_cost_before():
    costs = Costs(SIZES.__getitem__)
    for seconds in (1.0, 2.0, 6.0):
        costs.add(Step(("ts", "paper"), "small"), seconds)
    assert costs.predict(Step(("ts", "paper"), "small")) == pytest.approx(3.0)


def test_an_unseen_dataset_costs_by_its_size_as_the_nearest_measured_one():
    costs = Costs(SIZES.__getitem__)
    costs.add(Step(("ts", "paper"), "tiny"), 1.0)
    costs.add(Step(("ts", "paper"), "large"), 3.0)
    assert costs.predict(Step(("ts", "paper"), "small")) == pytest.approx(1.0 * 10)
    costs.add(Step(("vs", "paper"), "large"), 3.0)
    assert costs.predict(Step(("vs", "paper"), "small")) == pytest.approx(0.3)


def test_nothing_is_guessed_before_anything_of_its_kind_was_measured():
    costs = Costs(SIZES.__getitem__)
    assert costs.predict(Step(("hots", "paper"), "tiny")) is None
    costs.add(Step(("ts", "paper"), "tiny"), 1.0)
    assert costs.predict(Step(("hots", "paper"), "tiny")) is None
    # Milliseconds of overhead on a tiny graph are not hours on a huge one.
    assert costs.predict(Step(("ts", "paper"), "huge")) is None


def test_chunks_keep_order_and_stay_below_the_limit():
    costs = {"a": 4, "b": 4, "c": 4, "d": 50, "e": 1}
    assert list(chunks(list(costs), costs.__getitem__, 10)) == [["a", "b"], ["c"], ["d"], ["e"]]
    assert list(chunks([], costs.__getitem__, 10)) == []
