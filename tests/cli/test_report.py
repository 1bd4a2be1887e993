"""``gnncal report``: what it writes, says and refuses."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from gnncal.__main__ import app
from gnncal.calibrators import TemperatureScaling
from gnncal.files.bundle import Bundle, read_bundle, write_bundle

from ..fraud import write_fraud_bundle
from ..reporting.tasks import task


@pytest.fixture
def bundle(tmp_path):
    (logits, labels, graph), splits = task(300)
    path = tmp_path / "model.npz"
    parts = splits["train_nodes"], splits["calibration_nodes"], splits["test_nodes"]
    write_bundle(path, Bundle(logits, labels, graph, *parts))
    return path


def run(*arguments):
    return CliRunner().invoke(app, ["report", *map(str, arguments)])


def test_it_writes_one_page_and_says_the_verdict(bundle, tmp_path):
    page = tmp_path / "report.html"
    done = run(bundle, "--out", page, "--methods", "ts,structural", "--node", "7")
    assert done.exit_code == 0, done.output
    assert "With structural" in " ".join(done.stdout.split())
    assert done.stdout.splitlines()[-1] == f"written to {page}"
    text = page.read_text()
    assert "Calibration of model.npz" in text
    assert sorted(file.name for file in tmp_path.iterdir()) == ["model.npz", "report.html"]


def test_the_tolerance_decides_the_verdict_of_calibrate_and_report(bundle, tmp_path):
    for tolerance, is_shown in (("0.5", True), ("0.0001", False)):
        options = ("--tolerance", tolerance, "--json")
        fit = ["calibrate", str(bundle), "--free", "--out", str(tmp_path / "fit"), *options]
        fitted = json.loads(CliRunner().invoke(app, fit).stdout)["verdict"]
        page = run(bundle, "--out", tmp_path / "r.html", "--methods", "structural-free", *options)
        assert json.loads(page.stdout)["verdicts"]["structural-free"] == fitted
        assert (fitted["label"] != "Calibration not shown yet") == is_shown
        assert (fitted["n_needed"] is None) == is_shown
        assert f"tolerance {100 * float(tolerance):g}%" in (tmp_path / "r.html").read_text()


def test_a_tolerance_that_is_no_share_is_refused_before_any_work(bundle, tmp_path):
    for verb, out in (("calibrate", "fit"), ("report", "r.html")):
        call = [verb, str(bundle), "--out", str(tmp_path / out), "--tolerance", "5"]
        refused = CliRunner().invoke(app, call)
        assert refused.exit_code == 2
        assert "tolerance is 5.0; expected a number in (0, 1) or None" in refused.stderr
        assert not (tmp_path / out).exists()


def test_of_a_class_weighted_model_it_says_not_to_use_kept_predictions(tmp_path):
    source = write_fraud_bundle(tmp_path / "in.npz", is_weighted=True)
    done = run(source, "--out", tmp_path / "r.html", "--methods", "ts,structural")
    said = " ".join(done.stdout.split())
    assert said.startswith("Do not use these probabilities. Keeping predictions costs")
    assert "the mean probability of fraud is" in said
    assert "the model looks class-weighted. Pass keep_predictions=False (--free" in said
    assert "Do not use these probabilities" in (tmp_path / "r.html").read_text()
    done = run(source, "--out", tmp_path / "r.html", "--methods", "ts", "--json")
    labels_of = {name: each["label"] for name, each in json.loads(done.stdout)["verdicts"].items()}
    assert labels_of["uncalibrated"] == labels_of["ts"] == "Do not use these probabilities"
    assert labels_of["structural-free"] != "Do not use these probabilities"


def test_json_has_the_verdicts_and_all_metrics(bundle, tmp_path):
    done = run(bundle, "--out", tmp_path / "r.html", "--methods", "ts", "--json")
    found = json.loads(done.stdout)
    assert (
        set(found["methods"]) == set(found["verdicts"]) == {"uncalibrated", "ts", "structural-free"}
    )
    assert found["methods"]["ts"]["ece"]["floor"] > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--methods", "hotz"], "did you mean 'hots'?"),
        (["--node", "nobody"], "unknown node 'nobody'"),
        (["--out", "."], "is a folder; pass the file to write"),
    ],
)
def test_bad_options_end_with_one_line_and_write_nothing(bundle, tmp_path, options, message):
    out = [] if "--out" in options else ["--out", tmp_path / "r.html"]
    done = run(bundle, *options, *out)
    assert done.exit_code == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "r.html").exists()


def test_without_test_labels_it_says_what_is_missing(tmp_path):
    (logits, _, graph), splits = task(300)
    labels = np.full(300, -1)
    labels[splits["calibration_nodes"]] = 0
    path = tmp_path / "model.npz"
    nothing = np.empty(0, dtype=np.int64)
    write_bundle(path, Bundle(logits, labels, graph, nothing, splits["calibration_nodes"], nothing))
    done = run(path, "--out", tmp_path / "r.html")
    assert done.exit_code == 2
    assert "test_nodes is empty; a report needs labelled nodes" in done.stderr


def test_new_adds_a_section_and_says_whether_the_guarantees_stand(bundle, tmp_path):
    with np.load(bundle) as file:
        moved = {"logits": file["logits"] / 5, "edge_index": file["edge_index"]}
    np.savez(tmp_path / "new.npz", **moved)
    page = tmp_path / "report.html"
    options = ["--out", page, "--methods", "ts", "--positive", "1"]
    done = run(bundle, *options, "--new", tmp_path / "new.npz")
    assert done.exit_code == 0, done.output
    said = " ".join(done.stdout.split())
    assert "Distribution shift" in said
    assert "The guarantees do not hold for the new nodes" in said
    assert 'id="new-nodes"' in page.read_text()
    found = json.loads(run(bundle, *options, "--new", bundle, "--json").stdout)["new_nodes"]
    assert found["check"]["verdict"] == "same"
    assert found["is_standing"] is True
    assert {"name", "target", "threshold", "n_before", "n_new"} == set(found["guarantees"][0])
    assert "new_nodes" not in json.loads(run(bundle, *options, "--json").stdout)


def test_new_must_be_an_input_that_the_page_does_not_overwrite(bundle, tmp_path):
    new = tmp_path / "new.npz"
    new.write_bytes(bundle.read_bytes())
    before = new.read_bytes()
    assert run(bundle, "--methods", "ts", "--out", new, "--new", new).exit_code == 2
    assert new.read_bytes() == before
    missing = run(bundle, "--out", tmp_path / "r.html", "--new", tmp_path / "nothing.npz")
    assert missing.exit_code == 2
    assert not (tmp_path / "r.html").exists()


def test_a_saved_calibrator_is_reported_on_as_it_is(bundle, tmp_path):
    given = read_bundle(bundle)
    saved = tmp_path / "c.safetensors"
    TemperatureScaling().fit(
        given.logits, given.labels, calibration_nodes=given.calibration_nodes
    ).save(saved)
    call = (bundle, "--out", tmp_path / "r.html", "--calibrator", saved)
    assert set(json.loads(run(*call, "--json").stdout)["verdicts"]) == {"uncalibrated", "ts"}
    assert "pass one of them" in run(*call, "--methods", "hots").stderr
