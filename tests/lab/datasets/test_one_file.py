"""A graph of one file: what is read, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from gnncal import InputError
from gnncal.lab.datasets import load_file

ARRAYS = {
    "labels": np.array([0, 1, 1]),
    "edge_index": np.array([[0, 1, 1], [1, 2, 1]]),  # a path and a loop
    "x_data": np.array([1.0, 2.0]),
    "x_indices": np.array([3, 0]),
    "x_indptr": np.array([0, 1, 1, 2]),
    "x_shape": np.array([3, 9]),
}


def test_edges_go_both_ways_and_loops_are_dropped(tmp_path):
    np.savez(tmp_path / "path.npz", **ARRAYS)
    dataset = load_file(tmp_path / "path.npz")
    assert dataset.name == "path"
    assert dataset.labels.tolist() == [0, 1, 1]
    edges = set(map(tuple, dataset.graph.edge_index.T.tolist()))
    assert edges == {(0, 1), (1, 0), (1, 2), (2, 1)}
    features = dataset.graph.features.toarray()
    assert features.shape == (3, 9)
    assert features[0, 3] == 1
    assert features[2, 0] == 2


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"labels": None}, "no labels"),
        ({"edge_index": np.array([[0], [7]])}, "names node 7"),
        ({"x_indices": np.array([3, 9])}, "do not fit together"),
        ({"x_shape": np.array([4, 9]), "x_indptr": np.array([0, 1, 1, 2, 2])}, "features"),
    ],
)
def test_a_file_that_cannot_be_a_graph_gets_one_sentence(tmp_path, changed, message):
    arrays = {name: each for name, each in (ARRAYS | changed).items() if each is not None}
    np.savez(tmp_path / "broken.npz", **arrays)
    with pytest.raises(InputError, match=message):
        load_file(tmp_path / "broken.npz")
