"""Single nodes and their neighbours."""

from types import SimpleNamespace

import numpy as np

from gnncal import Graph
from gnncal.reporting.nodes import (
    DRAWN_NEIGHBOURS,
    describe_nodes,
    most_changed,
    neighbourhoods_to_draw,
)


def test_most_changed_are_the_largest_changes_in_either_direction():
    before, after = np.array([0.5, 0.9, 0.2, 0.5]), np.array([0.6, 0.1, 0.7, 0.5])
    assert most_changed(before, after, 3).tolist() == [1, 2, 0]
    assert most_changed(before, after, 10).tolist() == [1, 2, 0, 3]


def test_surroundings_by_hand():
    # 0 hears 1 and 2, sends to 3; 1 and 2 are joined; 4 is alone.
    graph = Graph([[1, 2, 0, 1, 0], [0, 0, 3, 2, 0]], 5)
    drawn, (centre, alone) = neighbourhoods_to_draw(graph, np.array([0, 4]))
    assert drawn.tolist() == [0, 1, 2, 3, 4]
    assert drawn[centre["neighbours"]].tolist() == [1, 2, 3]  # itself left out
    assert drawn[centre["edges"]].tolist() == [[1], [2]]
    assert alone["neighbours"].size == 0
    assert alone["edges"].shape == (2, 0)


def test_of_many_neighbours_some_are_drawn_and_all_are_counted():
    star = Graph(np.stack([np.arange(1, 101), np.zeros(100, dtype=int)]), 101)
    drawn, (hub,) = neighbourhoods_to_draw(star, np.array([0]))
    assert hub["n_neighbours"] == 100
    assert len(hub["neighbours"]) == DRAWN_NEIGHBOURS
    assert len(drawn) == DRAWN_NEIGHBOURS + 1
    again, _ = neighbourhoods_to_draw(star, np.array([0]))
    assert np.array_equal(drawn, again)


def test_homophily_counts_labelled_neighbours_only():
    graph, labels = Graph([[1, 2, 3], [0, 0, 0]], 4), np.array([0, 0, 1, -1])
    record = SimpleNamespace(predictions=np.zeros(4, dtype=int))
    about = {"labels": labels, "graph": graph, "splits": {}, "class_names": ["a", "b"]}
    structure = describe_nodes(SimpleNamespace(record=record, **about))["structure"]
    # Node 0 hears 1 and 2 with a label; 1 and 2 have node 0; the label of 3 is unknown.
    assert structure["mean_label_homophily"] == (0.5 + 1 + 0) / 3
