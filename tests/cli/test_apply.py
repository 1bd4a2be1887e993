"""`gnncal apply`: a saved calibrator on new graphs. `--param` reaches the constructor."""

import json

import numpy as np
import pytest

import gnncal
from gnncal.files.output import MARKER
from tests.cli.terminal import run
from tests.test_bundles import NAMES, example, write_npz, write_parquet

UNLABELLED = {"labels": None, "val_mask": None, "train_mask": None, "test_mask": None}


@pytest.fixture
def fitted(tmp_path):
    source = write_npz(tmp_path / "in.npz")
    assert run("calibrate", source, "--method", "hots", "--out", tmp_path / "fit").exit_code == 0
    return tmp_path / "fit" / "calibrator.safetensors"


def test_the_fitted_graph_gets_the_same_probabilities_and_judgement(tmp_path, fitted):
    result = run("apply", fitted, tmp_path / "in.npz", "--out", tmp_path / "out", "--json")
    assert result.exit_code == 0
    first, second = (np.load(tmp_path / d / "probabilities.npz") for d in ("fit", "out"))
    for name in ("probs", "temperature", "node_ids", "class_names"):
        np.testing.assert_array_equal(first[name], second[name])
    before = json.loads((tmp_path / "fit" / "summary.json").read_text())
    after = json.loads(result.stdout)
    assert after == json.loads((tmp_path / "out" / "summary.json").read_text())
    for name in ("test", "method", "params", "fit_report", "n_calibration_nodes"):
        assert after[name] == before[name]
    assert after["files"] == ["probabilities.npz", "summary.json"]
    assert {p.name for p in (tmp_path / "out").iterdir()} == {MARKER, *after["files"]}


def test_a_graph_without_labels_or_splits_is_served(tmp_path, fitted):
    source = write_npz(tmp_path / "new.npz", **UNLABELLED, class_names=None)
    result = run("apply", fitted, source, "--out", tmp_path / "out")
    assert result.exit_code == 0
    written = np.load(tmp_path / "out" / "probabilities.npz")
    bundle = gnncal.read_bundle(source, labels_required=False)
    expected = gnncal.load(fitted).predict_proba(bundle.logits, bundle.graph)
    np.testing.assert_array_equal(written["probs"], expected)
    assert list(written["class_names"]) == NAMES  # those that the calibrator remembers
    assert "test" not in json.loads((tmp_path / "out" / "summary.json").read_text())
    assert "test nodes" not in result.stdout


def test_rows_without_their_neighbours_are_noticed(tmp_path, fitted):
    source = write_npz(tmp_path / "new.npz", **UNLABELLED, edge_index=np.zeros((2, 0), int))
    assert run("apply", fitted, source, "--out", tmp_path / "out").exit_code == 0
    notes = json.loads((tmp_path / "out" / "summary.json").read_text())["notes"]
    assert any("neighbours seem to be missing" in note for note in notes)


def test_labels_without_splits_are_all_test_labels(tmp_path, fitted):
    masks = {name: None for name in UNLABELLED if name != "labels"}
    source = write_npz(tmp_path / "new.npz", **masks)
    result = run("apply", fitted, source, "--out", tmp_path / "out", "--json")
    n_labelled = int((example()["labels"] >= 0).sum())
    assert json.loads(result.stdout)["test"]["after"]["n_nodes"] == n_labelled


def test_a_folder_gives_parquet(tmp_path, fitted):
    pytest.importorskip("pyarrow")
    source = write_parquet(tmp_path / "folder")
    assert run("apply", fitted, source, "--out", tmp_path / "out").exit_code == 0
    names = {p.name for p in (tmp_path / "out").iterdir()}
    assert names == {MARKER, "probabilities.parquet", "summary.json"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"class_names": np.array(NAMES[::-1])}, "put the columns of logits in the same order"),
        ({"logits": np.zeros((120, 4)), "class_names": None}, "was fitted to 3 classes"),
        ({"edge_index": None}, "lacks edge_index"),
    ],
)
def test_what_does_not_fit_the_calibrator_is_refused(tmp_path, fitted, changes, message):
    source = write_npz(tmp_path / "new.npz", **{**UNLABELLED, **changes})
    result = run("apply", fitted, source, "--out", tmp_path / "out")
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert message in line
    assert not (tmp_path / "out").exists()


def test_a_missing_calibrator_is_named(tmp_path):
    source = write_npz(tmp_path / "in.npz")
    result = run("apply", tmp_path / "absent", source, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "file not found" in result.stderr


def test_parameters_reach_the_calibrator(tmp_path):
    source, out = write_npz(tmp_path / "in.npz"), tmp_path / "out"
    given = ("--param", "epsilon=0.25", "--param", "homophily=agreement")
    result = run("calibrate", source, "--method", "HOTS", *given, "--out", out, "--json")
    params = json.loads(result.stdout)["params"]
    assert (params["epsilon"], params["homophily"]) == (0.25, "agreement")
    assert gnncal.load(out / "calibrator.safetensors").epsilon == 0.25


def test_an_unknown_parameter_is_refused_before_anything_is_read(tmp_path):
    given = ("--method", "hots", "--param", "epsilom=1")
    arguments = ("absent.npz", *given, "--out", tmp_path / "out")
    result = run("calibrate", *arguments)
    assert result.exit_code == 2
    assert "did you mean 'epsilon'?" in result.stderr


def test_an_option_that_a_parameter_contradicts_is_refused(tmp_path):
    given = ("--free", "--param", "keep_predictions=true", "--out", tmp_path / "out")
    result = run("calibrate", "absent.npz", *given)
    assert result.exit_code == 2
    assert result.stderr == (
        "error: --keep-predictions or --free is given, and --param keep_predictions too; pass "
        "one.\n"
    )


# --- one class in view, with every verb that judges


def test_the_class_in_view_is_in_the_summary_the_document_and_the_tables(tmp_path):
    source, out = write_npz(tmp_path / "in.npz"), tmp_path / "fit"
    result = run("calibrate", source, "--positive", "dog", "--out", out)
    assert result.exit_code == 0
    summary = json.loads((out / "summary.json").read_text())
    assert summary["method"] == "structural-free"
    assert summary["positive"] == {"class": 1, "name": "dog"}
    assert summary["test"]["after"]["positive"] == summary["positive"]
    assert "\ndog: " in result.stdout
    probabilities = out / "probabilities.npz"
    judged = run("evaluate", source, "--probabilities", probabilities, "--positive", 1, "--json")
    assert json.loads(judged.stdout)["after"] == summary["test"]["after"]
    assert "positive_brier" in json.loads(judged.stdout)["difference"]
    raw = run("evaluate", source, "--positive", "dog", "--json")
    assert json.loads(raw.stdout)["before"] == summary["test"]["before"]
    assert "\ndog: " in run("evaluate", source, "--positive", "dog").stdout
    saved = out / "calibrator.safetensors"
    applied = run("apply", saved, source, "--positive", "dog", "--out", tmp_path / "o", "--json")
    assert json.loads(applied.stdout)["test"] == summary["test"]
    assert json.loads(applied.stdout)["positive"] == summary["positive"]


def test_keeping_predictions_or_a_method_is_heeded_beside_a_class(tmp_path):
    source = write_npz(tmp_path / "in.npz")
    for asked, method in ((["--keep-predictions"], "structural"), (["--method", "ts"], "ts")):
        result = run(
            *("calibrate", source, "--positive", "1", *asked, "--out", tmp_path / "o", "--json")
        )
        assert json.loads(result.stdout)["method"] == method


def test_a_class_that_is_not_there_leaves_one_line_and_nothing_else(tmp_path, fitted):
    source = tmp_path / "in.npz"
    for verb in (["calibrate"], ["apply", fitted]):
        result = run(*verb, source, "--positive", "fihs", "--out", tmp_path / "new")
        assert result.exit_code == 2
        assert "unknown class 'fihs': the names are cat, dog, naïve fish" in result.stderr
        assert not (tmp_path / "new").exists()
    result = run("evaluate", source, "--positive", 3)
    assert "positive is 3; expected the name of a class or its number, 0..2" in result.stderr
