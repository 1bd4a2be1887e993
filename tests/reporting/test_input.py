"""What a report is asked for: methods, names of nodes, and nodes to show."""

import numpy as np
import pytest

import gnncal
from gnncal.data.errors import InputError
from gnncal.reporting.input import NodeNames, check_input

from .tasks import task

FREE = "structural-free"  # is added where no method may change predictions


def methods_of(methods):
    data, splits = task(100)
    return check_input(*data, **splits, methods=methods).methods


def test_calibrators_in_a_list_go_by_their_names_in_the_catalogue():
    mine = gnncal.HoTS(epsilon=0.1)
    found = methods_of(["ts", mine])
    assert list(found) == ["uncalibrated", "ts", "hots", FREE]
    assert found["hots"] is mine
    assert list(methods_of(mine)) == ["uncalibrated", "hots", FREE]


def test_two_calibrators_of_one_kind_need_names():
    pair = gnncal.HoTS(epsilon=0.1), gnncal.HoTS(epsilon=0.2)
    with pytest.raises(InputError, match="two methods are called 'hots'; pass a mapping"):
        methods_of(pair)
    assert list(methods_of({"low": pair[0], "high": pair[1]})) == [
        "uncalibrated",
        "low",
        "high",
        FREE,
    ]


def test_no_other_method_takes_the_place_of_the_model():
    with pytest.raises(InputError, match="a method is called 'uncalibrated'"):
        methods_of({"uncalibrated": gnncal.calibrators.TemperatureScaling()})
    assert list(methods_of(["uncalibrated"])) == ["uncalibrated", FREE]


def test_a_report_has_one_method_at_least_that_may_change_predictions():
    assert list(methods_of(["ts"])) == ["uncalibrated", "ts", FREE]
    assert list(methods_of(["vs", "ts"])) == ["uncalibrated", "vs", "ts"]
    (logits, labels, _), splits = task(100)
    without_graph = check_input(logits, labels, None, **splits, methods=["ts"])
    assert list(without_graph.methods) == ["uncalibrated", "ts", "svs"]
    assert without_graph.shown == "ts"  # it opens with what was asked for


def test_none_is_no_method():
    with pytest.raises(InputError, match="there is no calibrator None"):
        methods_of(None)


def test_nodes_are_found_by_id_one_or_several():
    names = NodeNames(["a", "12", "b", "a"], 4)
    assert names.find("12").tolist() == [1]
    assert names.find(["b", "a", "b"]).tolist() == [2, 0]
    assert names.find(()).tolist() == []
    assert NodeNames(None, 30).find(12).tolist() == [12]
    assert NodeNames(np.array([5, 6]), 2).find([6]).tolist() == [1]


def test_one_long_id_does_not_make_all_of_them_long():
    names = NodeNames(["x" * 10_000, *map(str, range(9_999))], 10_000)
    assert names._ids.nbytes < 1_000_000  # 400 MB as an array of strings
