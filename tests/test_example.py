"""The small real task that needs no download."""

from __future__ import annotations

import numpy as np

import gnncal


def test_the_example_is_the_same_every_time():
    one, two = gnncal.example(), gnncal.example()
    np.testing.assert_array_equal(one.logits, two.logits)
    np.testing.assert_array_equal(one.graph.edge_index, two.graph.edge_index)


def test_the_splits_of_the_example_share_no_node():
    task = gnncal.example()
    parts = [task.train_nodes, task.calibration_nodes, task.test_nodes]
    assert [part.size for part in parts] == [200, 500, 1097]
    assert np.unique(np.concatenate(parts)).size == len(task.labels)


def test_each_image_is_linked_to_at_least_its_ten_most_similar():
    graph = gnncal.example().graph
    assert graph.in_degree.min() >= 10
    assert graph.is_undirected
    assert not (graph.edge_index[0] == graph.edge_index[1]).any()


def test_the_example_is_a_bundle_that_is_written_and_read_back(tmp_path):
    from gnncal.files.bundle import write_bundle

    task = gnncal.example()
    write_bundle(tmp_path / "digits.npz", task)
    again = gnncal.read_bundle(tmp_path / "digits.npz")
    np.testing.assert_array_equal(again.logits, task.logits)
    assert again.class_names == task.class_names == [str(digit) for digit in range(10)]


def test_calibration_closes_most_of_the_gap_between_confidence_and_accuracy():
    task = gnncal.example()
    result = gnncal.calibrate(task.logits, task.labels, task.graph, **task.splits)
    assert result.before.ece.value > 0.15
    assert result.after.ece.value < 0.03
    assert result.comparison.nll.high < 0
