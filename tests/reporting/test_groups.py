"""Groups of nodes: how they are made, and which of them stands first."""

import numpy as np

from gnncal.metrics import Outcomes
from gnncal.reporting.groups import (
    Grouping,
    by_degree,
    by_support,
    measure_groups,
)


def test_degree_groups_cover_every_degree_once():
    degree = np.array([0, 0, 1, 1, 1, 2, 3, 5, 8, 100])
    grouping = by_degree(degree)
    assert len(grouping.labels) == grouping.group.max() + 1
    for group, label in enumerate(grouping.labels):
        inside = degree[grouping.group == group]
        ends = [int(end) for end in label.replace(",", "").split(" to ")]
        assert ends[0] <= inside.min() <= inside.max() == ends[-1]


def test_support_groups_by_hand():
    grouping = by_support(np.array([0.0, 0.19, 0.2, 0.99, 1.0, np.nan]))
    assert [grouping.labels[g] for g in grouping.group] == [
        "0 to 20%",
        "0 to 20%",
        "20 to 40%",
        "80 to 100%",
        "80 to 100%",
        "no neighbours",
    ]


def test_the_group_furthest_outside_its_interval_stands_first():
    # 100 nodes each: certain and half right; certain and right; 60% sure and 58% right.
    probs = np.repeat([[1.0, 0.0], [1.0, 0.0], [0.6, 0.4]], 100, axis=0)
    labels = np.concatenate([np.arange(100) % 2, np.zeros(100), np.arange(100) >= 58]).astype(int)
    grouping = Grouping("made", "made up", ["half", "right", "close"], np.repeat([0, 1, 2], 100))
    found = measure_groups(grouping, Outcomes(labels, probs), np.arange(300))
    assert list(found["labels"]) == ["half", "close", "right"]
    assert found["accuracy"].tolist() == [0.5, 0.58, 1.0]
    assert found["count"].tolist() == [100, 100, 100]
    assert found["low"][0] < 0.5 < found["high"][0] < 1.0


def test_groups_without_nodes_are_left_out():
    grouping = Grouping("made", "made up", ["a", "b"], np.array([1, 1]))
    found = measure_groups(grouping, Outcomes([0, 0], [[0.9, 0.1]] * 2), np.array([0, 1]))
    assert list(found["labels"]) == ["b"]


def test_groups_of_the_same_name_are_told_apart_by_their_position():
    grouping = Grouping("class", "predicted class", ["same", "same"], np.array([0, 0, 1, 1]))
    probs = np.array([[0.6, 0.4], [0.6, 0.4], [0.1, 0.9], [0.1, 0.9]])
    found = measure_groups(grouping, Outcomes([0, 0, 0, 0], probs), np.arange(4))
    assert found["labels"] == ["same", "same"]
    assert found["group"].tolist() == [1, 0]
    assert found["accuracy"].tolist() == [0.0, 1.0]
