"""The class of interest that a calibrator was fitted for stays that of every later command."""

import json

import numpy as np
import pytest

import gnncal
from tests.cli.terminal import run
from tests.fraud import write_fraud_bundle


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """The same calibrator, fitted for a class and for none."""
    folder = tmp_path_factory.mktemp("class")
    source = write_fraud_bundle(folder / "in.npz", is_weighted=False)
    for name, asked in (("of", ("--positive", "fraud")), ("none", ())):
        made = run(
            *("calibrate", source, "--method", "structural-free", "--out", folder / name), *asked
        )
        assert made.exit_code == 0, made.output
    return folder


@pytest.mark.parametrize(
    ("kind", "asked", "shown", "number"),
    [
        ("of", (), "P(fraud) of", 1),
        ("of", ("--positive", "honest"), "P(honest) of", 0),
        ("none", (), "Confidence of", None),
    ],
)
def test_apply_is_about_the_class_of_the_fit_unless_another_is_stated(
    place, tmp_path, kind, asked, shown, number
):
    calibrator = place / kind / "calibrator.safetensors"
    result = run("apply", calibrator, place / "in.npz", *asked, "--out", tmp_path / "o")
    assert result.stdout.startswith(shown)
    assert ("average precision" in result.stdout) == (number is not None)
    positive = json.loads((tmp_path / "o" / "summary.json").read_text())["positive"]
    assert (positive and positive["class"]) == number


def test_a_card_names_the_class_of_interest_and_its_error(place):
    told = run("card", place / "of" / "calibrator.safetensors").stdout
    assert "\n- Class of interest: fraud\n" in told
    assert "\n- Expected calibration error of P(fraud) on the test nodes: " in told
    assert "fraud)" not in run("card", place / "none" / "calibrator.safetensors").stdout.replace(
        "fraud (", ""
    )


@pytest.mark.parametrize(
    ("kind", "asked", "claims"),
    [
        ("of", (), ["confidence", "positive"]),
        ("of", ("--positive", "honest"), ["confidence", "positive"]),
        ("none", (), ["confidence"]),
    ],
)
def test_watch_is_about_the_class_of_the_fit_unless_another_is_stated(
    place, tmp_path, kind, asked, claims
):
    log = tmp_path / "log.csv"
    log.write_text("p0,p1,label\n" + "0.9,0.1,honest\n" * 9 + "0.9,0.1,fraud\n")
    call = ("watch", place / kind / "calibrator.safetensors", log)
    first, again = run(*call, *asked), run(*call, "--json")
    assert [claim["name"] for claim in json.loads(again.stdout)["claims"]] == claims
    shown = "The probability of honest" if asked else "The probability of fraud"
    assert (shown in first.stdout) == ("positive" in claims)


def test_a_report_is_about_the_class_of_the_fit(place, tmp_path):
    pytest.importorskip("plotly", reason="pip install 'gnncal[report]' to test pages")
    bundle = gnncal.read_bundle(place / "in.npz")
    given = (bundle.logits, bundle.labels, bundle.graph)
    for kind, positive in (("of", 1), ("none", None)):
        fitted = gnncal.load(place / kind / "calibrator.safetensors")
        report = gnncal.report(*given, **bundle.splits, calibrator=fitted)
        assert report.findings.positive == positive
    other = gnncal.load(place / "of" / "calibrator.safetensors")
    stated = gnncal.report(*given, **bundle.splits, calibrator=other, positive=0)
    assert stated.findings.positive == 0


def test_a_calibrator_that_decide_or_update_writes_keeps_the_class(place, tmp_path):
    source = place / "in.npz"
    asked = ("--positive", "fraud", "--budget", "20", "--out", tmp_path / "decided")
    assert run("decide", source, *asked).exit_code == 0
    call = ("update", place / "of" / "calibrator.safetensors", source, "--rate", "fraud=0.1")
    with np.load(source) as file:
        arrays = {name: each for name, each in file.items() if name != "val_mask"}
    np.savez(tmp_path / "new.npz", **arrays)
    assert run(*call[:2], tmp_path / "new.npz", *call[3:], "--out", tmp_path / "u").exit_code == 0
    for folder in ("decided", "u"):
        assert gnncal.load(tmp_path / folder / "calibrator.safetensors").positive_ == 1
