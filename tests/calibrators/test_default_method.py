"""A user says whether predictions may change, and needs no method's name for it."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import gnncal
import gnncal_lab
from gnncal.__main__ import app
from gnncal.calibration import choose_calibrator
from gnncal.calibrators.registry import name_of
from tests.calibrators.test_structural import planted_graph
from tests.test_bundles import write_npz

GRAPH, LOGITS, LABELS, _ = planted_graph(n=300)
NODES = np.arange(150)


def calibrated(**arguments):
    return gnncal.calibrate(LOGITS, LABELS, GRAPH, calibration_nodes=NODES, **arguments)


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        ({}, "structural"),
        ({"keep_predictions": True}, "structural"),
        ({"keep_predictions": False}, "structural-free"),
    ],
)
def test_one_answer_chooses_the_default_method(answer, name):
    result = calibrated(**answer)
    assert name_of(result.calibrator) == name
    alone = gnncal.get_calibrator(name).fit(LOGITS, LABELS, GRAPH, calibration_nodes=NODES)
    np.testing.assert_array_equal(result.probabilities, alone.predict_proba(LOGITS, GRAPH))


@pytest.mark.parametrize(
    "method", ["ts", "structural-temperature", gnncal.calibrators.Structural()]
)
def test_a_method_that_keeps_predictions_is_not_taken_where_they_may_change(method):
    with pytest.raises(gnncal.InputError, match=r"keeps every prediction.*'structural-free'"):
        calibrated(method=method, keep_predictions=False)


@pytest.mark.parametrize("method", ["svs", "structural-free", gnncal_lab.VectorScaling()])
def test_a_method_that_changes_predictions_is_not_taken_where_they_are_kept(method):
    with pytest.raises(gnncal.InputError, match=r"may change predictions.*'structural'"):
        calibrated(method=method, keep_predictions=True)


@pytest.mark.parametrize(("method", "keep"), [("ts", True), ("svs", False)])
def test_a_method_that_agrees_with_the_answer_is_taken(method, keep):
    result = calibrated(method=method, keep_predictions=keep)
    assert name_of(result.calibrator) == method


def test_an_answer_that_is_neither_yes_nor_no_is_refused():
    with pytest.raises(gnncal.InputError, match="keep_predictions is 'yes'; expected True or"):
        calibrated(keep_predictions="yes")


@pytest.mark.parametrize("keep", [True, False])
def test_auto_chooses_among_the_methods_of_the_answer(keep):
    auto = choose_calibrator("auto", keep_predictions=keep)
    assert auto.preserves_predictions is keep
    assert ("structural-free" in auto.candidates) is not keep
    with pytest.raises(gnncal.InputError, match="auto keeps every prediction"):
        calibrated(method="auto", candidates=["ts"], keep_predictions=False)


@pytest.mark.parametrize("verb", ["calibrate", "decide"])
@pytest.mark.parametrize(
    ("flags", "name"),
    [
        ((), "structural"),
        (("--keep-predictions",), "structural"),
        (("--free",), "structural-free"),
        (("--free", "--method", "svs"), "svs"),
    ],
)
def test_the_command_line_asks_the_same_question(verb, flags, name, tmp_path):
    source = write_npz(tmp_path / "in.npz")
    arguments = [verb, str(source), "--out", str(tmp_path / "out"), "--json", *flags]
    done = CliRunner().invoke(app, arguments)
    assert json.loads(done.stdout)["method"] == name


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--free", "--method", "ts"), "ts keeps every prediction"),
        (("--keep-predictions", "--method", "svs"), "svs may change predictions"),
    ],
)
@pytest.mark.parametrize("verb", ["calibrate", "decide"])
def test_a_contradiction_leaves_one_line_and_no_folder(verb, flags, message, tmp_path):
    source = write_npz(tmp_path / "in.npz")
    done = CliRunner().invoke(app, [verb, str(source), "--out", str(tmp_path / "out"), *flags])
    assert done.exit_code == 2
    assert message in " ".join(done.stderr.split())
    assert not (tmp_path / "out").exists()
