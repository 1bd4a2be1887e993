"""What a report is asked for: methods, names of nodes, and nodes to show."""

import pytest

import gnncal
from gnncal.data.errors import InputError

from .tasks import subject_of, task

FREE = "structural-free"  # is added where no method may change predictions


def methods_of(methods):
    data, splits = task(100)
    return subject_of(*data, **splits, methods=methods).methods


def test_calibrators_in_a_list_go_by_their_names_in_the_catalogue():
    mine = gnncal.HoTS(epsilon=0.1)
    found = methods_of(["ts", mine])
    assert list(found) == ["uncalibrated", "ts", "hots", FREE]
    assert found["hots"] is mine
    assert list(methods_of(mine)) == ["uncalibrated", "hots", FREE]


def test_two_calibrators_of_one_kind_need_two_reports():
    pair = gnncal.HoTS(epsilon=0.1), gnncal.HoTS(epsilon=0.2)
    with pytest.raises(InputError, match="two methods are called 'hots'; make a report on each"):
        methods_of(pair)


def test_a_report_has_one_method_at_least_that_may_change_predictions():
    assert list(methods_of(["ts"])) == ["uncalibrated", "ts", FREE]
    assert list(methods_of(["uncalibrated"])) == ["uncalibrated", FREE]
    assert list(methods_of(["vs", "ts"])) == ["uncalibrated", "vs", "ts"]
    (logits, labels, _), splits = task(100)
    without_graph = subject_of(logits, labels, None, **splits, methods=["ts"])
    assert list(without_graph.methods) == ["uncalibrated", "ts", "svs"]
    assert without_graph.shown == "ts"  # it opens with what was asked for


def test_none_is_no_method():
    with pytest.raises(InputError, match="unknown calibrator None"):
        methods_of(None)


def test_nodes_are_found_by_id_the_first_of_equal_ones():
    data, splits = task(100)
    ids = ["a", "12", "b", "a", *map(str, range(100, 196))]
    given = subject_of(*data, **splits, node_ids=ids, focus=["b", "a", "b"])
    assert given.focus.tolist() == [2, 0]
    assert subject_of(*data, **splits, focus=[12]).focus.tolist() == [12]
