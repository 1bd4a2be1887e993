"""A graph of one file: what is read, and what is refused."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from gnncal import InputError
from gnncal_lab.classifiers import training_settings
from gnncal_lab.datasets import list_datasets, load, load_file

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


SPLIT = {"train_idx": np.array([2]), "valid_idx": np.array([0]), "test_idx": np.array([1])}


def test_a_file_may_bring_its_own_split(tmp_path):
    np.savez(tmp_path / "path.npz", **ARRAYS, **SPLIT)
    dataset = load_file(tmp_path / "path.npz")
    for seed in (0, 1):
        assert [nodes.tolist() for nodes in dataset.split_of(seed)] == [[2], [0], [1]]
    np.savez(tmp_path / "path.npz", **ARRAYS)
    assert load_file(tmp_path / "path.npz").split is None


def test_another_split_is_another_dataset(tmp_path):
    found = []
    for extra in ({}, SPLIT, {**SPLIT, "train_idx": np.array([1]), "test_idx": np.array([2])}):
        np.savez(tmp_path / "path.npz", **ARRAYS, **extra)
        found.append(load_file(tmp_path / "path.npz").fingerprint)
    assert len(set(found)) == 3


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"train_idx": np.array([3])}, "split.train_nodes must hold node numbers from 0 to 2"),
        ({"valid_idx": np.array([0.5])}, "split.calibration_nodes must hold node numbers"),
        ({"test_idx": np.array([], dtype=int)}, "split.test_nodes must hold node numbers"),
        ({"test_idx": np.array([0, 1])}, "in the split twice"),
    ],
)
def test_a_split_that_is_none_is_refused(tmp_path, changed, message):
    np.savez(tmp_path / "path.npz", **{**ARRAYS, **SPLIT, **changed})
    with pytest.raises(InputError, match=message):
        load_file(tmp_path / "path.npz")


@pytest.mark.parametrize("folder", ["", "more"])
def test_arxiv_years_is_a_file_with_a_loop_at_each_node(tmp_path, folder):
    (tmp_path / folder).mkdir(exist_ok=True)
    np.savez(tmp_path / folder / "arxiv_years.npz", **ARRAYS, **SPLIT)
    dataset = load("ArXiv-Years", tmp_path)
    assert dataset.name == "arxiv-years"
    edges = set(map(tuple, dataset.graph.edge_index.T.tolist()))
    assert edges == {(0, 1), (1, 0), (1, 2), (2, 1), (0, 0), (1, 1), (2, 2)}
    assert dataset.split_of(5).calibration_nodes.tolist() == [0]
    assert training_settings("gcn", "arxiv-years") == training_settings("gcn", "ogbn-arxiv")


def test_arxiv_years_takes_no_part_in_the_papers_experiments(tmp_path):
    assert "arxiv-years" not in list_datasets()
    assert len(list_datasets()) == 18
    with pytest.raises(InputError, match=r"arxiv_years.npz, which is not in .*; put it there"):
        load("arxiv-years", tmp_path)


def test_the_real_arxiv_years_has_the_official_split_by_years():
    root = os.environ.get("GNNCAL_DATA")
    if root is None or not (Path(root) / "more" / "arxiv_years.npz").exists():
        pytest.skip("GNNCAL_DATA names no folder with arxiv_years.npz")
    dataset = load("arxiv-years", root)
    assert (dataset.graph.n_nodes, dataset.n_classes) == (169_343, 40)
    assert [len(nodes) for nodes in dataset.split] == [90_941, 29_799, 48_603]
    with np.load(Path(root) / "more" / "arxiv_years.npz") as file:
        years = file["node_year"].ravel()
    train, validation, test = (years[nodes] for nodes in dataset.split)
    assert train.max() == 2017
    assert set(validation) == {2018}
    assert test.min() == 2019
