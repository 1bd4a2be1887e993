import numpy as np
import pytest

from gnncal import InputError
from gnncal.decisions import judge_decisions, judge_sets


def test_decisions_by_hand():
    probs = [[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.6, 0.4]]
    found = judge_decisions([0, 1, 1, 0], probs, np.array([True, True, True, False]))
    assert (found.n_nodes, found.n_decided, found.n_correct) == (4, 3, 2)
    assert (found.coverage, found.accuracy) == (0.75, 2 / 3)
    assert (found.decided_by_class, found.correct_by_class) == ((2, 1), (1, 1))
    assert found.accuracy_low < 2 / 3 < found.accuracy_high
    assert "decided automatically" in repr(found)


def test_without_a_decision_there_is_no_accuracy():
    found = judge_decisions([0], [[0.9, 0.1]], [False])
    assert np.isnan([found.accuracy, found.accuracy_low, found.accuracy_high]).all()
    assert found.coverage == 0


def test_sets_by_hand():
    sets = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 0], [1, 1, 1]], dtype=bool)
    found = judge_sets([0, 2, 1, 1], sets)
    assert (found.n_covered, found.coverage) == (2, 0.5)
    assert (found.mean_size, found.single, found.empty) == (1.5, 0.25, 0.25)
    assert "mean number of classes" in repr(found)


def test_sets_are_judged_by_class():
    sets = np.array([[1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 1, 0]], dtype=bool)
    found = judge_sets([0, 0, 0, 1], sets, class_names=["good", "bad", "ugly"])
    assert (found.nodes_by_class, found.covered_by_class) == ((3, 1, 0), (2, 1, 0))
    np.testing.assert_array_equal(found.coverage_by_class, [2 / 3, 1, np.nan])
    assert found.low_by_class[0] < 2 / 3 < found.high_by_class[0]
    assert np.isnan(found.low_by_class[2])
    lines = repr(found).splitlines()
    assert any(line.split()[:3] == ["good", "3", "0.6667"] for line in lines)
    assert lines[-1].split() == ["ugly", "0"]
    with pytest.raises(InputError, match="2 names for 3 classes"):
        judge_sets([0, 0, 0, 1], sets, class_names=["good", "bad"])


def test_what_is_no_boolean_is_refused():
    with pytest.raises(InputError, match="decided has shape"):
        judge_decisions([0], [[0.9, 0.1]], [1])
    with pytest.raises(InputError, match="sets has shape"):
        judge_sets([0], [[1, 0]])
    with pytest.raises(InputError, match=r"sets has shape \(1,\)"):
        judge_sets([0], [True])
    with pytest.raises(InputError, match="lie outside"):
        judge_sets([-1], [[True, False]])
