"""`gnncal update`: a saved calibrator learns from the validation nodes of a new file."""

import json

import numpy as np
import pytest

import gnncal
from tests.cli.terminal import run
from tests.test_bundles import NAMES, N, write_npz, write_parquet


def write_new(place):
    """Write a file whose validation nodes are not those of the fit."""
    part = np.arange(N) % 4
    return write_npz(place, val_mask=part == 2, test_mask=part == 3, train_mask=None)


@pytest.fixture
def fitted(tmp_path):
    source = write_npz(tmp_path / "in.npz")
    assert run("calibrate", source, "--free", "--out", tmp_path / "fit").exit_code == 0
    return tmp_path / "fit" / "calibrator.safetensors"


def test_the_updated_calibrator_is_what_python_gives(tmp_path, fitted):
    source = write_new(tmp_path / "new.npz")
    arguments = ("update", fitted, source, "--out", tmp_path / "out")
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    bundle = gnncal.read_bundle(source)
    expected = gnncal.load(fitted).update(
        bundle.logits, bundle.labels, bundle.graph, calibration_nodes=bundle.calibration_nodes
    )
    written = gnncal.load(tmp_path / "out" / "calibrator.safetensors")
    assert written.history_ == expected.history_
    assert written.class_names_ == NAMES
    np.testing.assert_array_equal(
        np.load(tmp_path / "out" / "probabilities.npz")["probs"],
        expected.predict_proba(bundle.logits, bundle.graph),
    )
    summary = json.loads(result.stdout)
    assert summary["history"][0]["n_labels"] == bundle.calibration_nodes.size
    assert summary["files"] == ["calibrator.safetensors", "probabilities.npz", "summary.json"]


def test_it_shows_what_the_calibrator_was_worth_and_is_now(tmp_path, fitted):
    result = run("update", fitted, write_new(tmp_path / "new.npz"), "--out", tmp_path / "out")
    assert "before  updated" in result.stdout
    assert "updates since the fit" in result.stdout


def test_rates_need_no_labels(tmp_path, fitted):
    unlabelled = {"labels": None, "val_mask": None, "train_mask": None, "test_mask": None}
    source = write_npz(tmp_path / "new.npz", **unlabelled)
    rates = ("--rate", f"{NAMES[0]}=0.06")
    assert run("update", fitted, source, *rates, "--out", tmp_path / "out").exit_code == 0
    updated = gnncal.load(tmp_path / "out" / "calibrator.safetensors")
    assert updated.history_[0].rates[0] == 0.06


def test_a_folder_gives_parquet(tmp_path, fitted):
    split = np.array(["train", "test", "val", "test"])[np.arange(N) % 4]
    source = write_parquet(tmp_path / "new", split=split)
    assert run("update", fitted, source, "--out", tmp_path / "out").exit_code == 0
    assert (tmp_path / "out" / "probabilities.parquet").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--rate", "fraud"), "expected class=rate"),
        (("--rate", "fraud=much"), "expected class=rate"),
        (("--rate", "fraud=0.1"), "unknown class 'fraud'"),
        (("--rate", "0=0.1", "--rate", "0=0.2"), "given twice"),
    ],
)
def test_a_bad_request_leaves_one_line_and_nothing_else(tmp_path, fitted, arguments, message):
    source = write_new(tmp_path / "new.npz")
    result = run("update", fitted, source, *arguments, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_an_input_without_labels_or_rates_is_refused(tmp_path, fitted):
    source = write_npz(tmp_path / "new.npz", val_mask=None)
    result = run("update", fitted, source, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "no validation nodes to learn from" in result.stderr


def test_labels_of_the_fit_are_left_out_with_a_note(tmp_path, fitted):
    part = np.arange(N) % 4
    source = write_npz(
        tmp_path / "new.npz", val_mask=(part == 1) | (part == 2), test_mask=part == 3
    )
    result = run("update", fitted, source, "--out", tmp_path / "out", "--json")
    summary = json.loads(result.stdout)
    assert summary["history"][0]["n_labels"] == (part == 2).sum()
    assert "labelled nodes are left out" in result.stderr
    assert "labelled nodes are left out" in summary["notes"][0]
    again = run("update", fitted, tmp_path / "in.npz", "--out", tmp_path / "again")
    assert again.exit_code == 2
    assert "learned from all" in again.stderr
    assert not (tmp_path / "again").exists()
