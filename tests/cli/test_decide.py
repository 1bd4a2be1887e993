"""`gnncal decide` and `gnncal sets`: automatic decisions, and sets of classes, from a file."""

import json

import numpy as np
import pytest

import gnncal
from gnncal.decisions import ConformalClassifier, Policy, hold_out
from gnncal.files.output import MARKER
from tests.cli.terminal import run
from tests.test_bundles import write_npz, write_parquet

EASY = ("--method", "ts", "--accuracy", "0.3", "--confidence-level", "0.8")
SPLIT = ("--hold-out", "0.5")


def names(folder):
    """Everything in a folder of results but the list of its files, which must be there."""
    found = sorted(path.name for path in folder.iterdir())
    found.remove(MARKER)
    return found


@pytest.fixture
def source(tmp_path):
    return write_npz(tmp_path / "in.npz")


def held_out_probs(bundle):
    fit_nodes, nodes = hold_out(bundle.calibration_nodes, labels=bundle.labels)
    calibrator = gnncal.calibrators.TemperatureScaling().fit(
        bundle.logits, bundle.labels, calibration_nodes=fit_nodes
    )
    return calibrator.predict_proba(bundle.logits), nodes


def test_the_command_does_what_the_library_does_with_nodes_held_out(tmp_path, source):
    result = run("decide", source, *EASY, *SPLIT, "--out", tmp_path / "out", "--json")
    assert result.exit_code == 0
    bundle = gnncal.read_bundle(source)
    probs, nodes = held_out_probs(bundle)
    policy = Policy(accuracy=0.3, confidence_level=0.8)
    policy.fit(probs, bundle.labels, calibration_nodes=nodes, decision_nodes=bundle.test_nodes)
    written = np.load(tmp_path / "out" / "decisions.npz")
    others = written["action"] != ""
    np.testing.assert_array_equal(written["action"][others], policy.decide(probs[others]))
    assert (written["action"] == "decide").any()
    np.testing.assert_array_equal(written["prediction"], probs.argmax(axis=1))
    np.testing.assert_array_equal(written["confidence"], probs.max(axis=1))
    np.testing.assert_array_equal(written["node_ids"], bundle.node_ids)
    summary = json.loads(result.stdout)
    assert summary == json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["policy"]["act_threshold"] == pytest.approx(policy.act_threshold_)
    assert (
        summary["n_calibrator_nodes"] + summary["n_threshold_nodes"]
        == bundle.calibration_nodes.size
    )
    assert names(tmp_path / "out") == sorted(summary["files"])
    loaded = gnncal.load(tmp_path / "out" / "policy.safetensors")
    np.testing.assert_array_equal(loaded.decide(probs[others]), written["action"][others])
    assert getattr(loaded, "class_names_", None) == bundle.class_names


def test_sets_are_those_of_the_library_with_nodes_held_out(tmp_path, source):
    arguments = ("--method", "ts", "--score", "daps", "--out", tmp_path / "out", "--json")
    result = run("sets", source, *arguments)
    assert result.exit_code == 0, result.output
    bundle = gnncal.read_bundle(source)
    probs, nodes = held_out_probs(bundle)
    conformal = ConformalClassifier(score="daps", random_state=0)
    conformal.fit(probs, bundle.labels, bundle.graph, calibration_nodes=nodes, ids=bundle.node_ids)
    sets = conformal.predict_set(probs, bundle.graph, ids=bundle.node_ids)
    np.testing.assert_array_equal(np.load(tmp_path / "out" / "decisions.npz")["sets"], sets)
    loaded = gnncal.load(tmp_path / "out" / "conformal.safetensors")
    again = loaded.predict_set(probs, bundle.graph, ids=bundle.node_ids)
    np.testing.assert_array_equal(again, sets)
    assert names(tmp_path / "out") == sorted(json.loads(result.stdout)["files"])


def test_the_words_say_how_many_with_what_guarantee_and_what_breaks_it(tmp_path, source):
    result = run("decide", source, *EASY, "--out", tmp_path / "out")
    for words in (
        "at least 30% of these decisions are correct",
        "with probability at least 80% over the draw of the calibration nodes",
        "It does not cover nodes that join the graph later",
        "that of all decisions together, not of each class",
        "nodes. Certified on the same nodes",
        "nodes with known labels:",
    ):
        assert words in " ".join(result.stdout.split())
    sets = run("sets", source, "--method", "ts", "--out", tmp_path / "sets")
    for words in (
        "contains the true class with probability at least 90%",
        "It does not cover nodes that join the graph later",
        "Coverage by true class: ",
    ):
        assert words in " ".join(sets.stdout.split())


def test_where_nothing_is_certified_the_answer_is_none_with_the_reason_said_once(tmp_path, source):
    asked = ("--method", "ts", "--accuracy", "0.999", "--out", tmp_path / "out")
    result = run("decide", source, *asked)
    assert result.exit_code == 3  # for pipelines
    assert result.output.count("No threshold certifies an accuracy of 99.9%") == 1
    assert "best target that these labels certify" in " ".join(result.stdout.split())
    assert (np.load(tmp_path / "out" / "decisions.npz")["action"] != "decide").all()
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["policy"]["act_threshold"] is None


def test_labels_of_test_nodes_change_nothing_but_the_judgement(tmp_path, source):
    bundle = gnncal.read_bundle(source)
    hidden = bundle.labels.copy()
    hidden[bundle.test_nodes] = -1
    blind = write_npz(tmp_path / "blind.npz", labels=hidden)
    for file, out in ((source, "seen"), (blind, "unseen")):
        assert run("decide", file, *EASY, "--out", tmp_path / out).exit_code == 0
    seen, unseen = (np.load(tmp_path / out / "decisions.npz") for out in ("seen", "unseen"))
    for name in ("action", "confidence"):
        np.testing.assert_array_equal(seen[name], unseen[name])
    summary = json.loads((tmp_path / "unseen" / "summary.json").read_text())
    assert "test" not in summary["policy"]


def test_a_folder_gives_parquet_with_a_column_for_each_class(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    source = write_parquet(tmp_path / "in")
    assert run("decide", source, *EASY, "--out", tmp_path / "out").exit_code == 0
    table = parquet.read_table(tmp_path / "out" / "decisions.parquet")
    assert table.column_names == ["id", "prediction", "confidence", "action"]
    assert run("sets", source, "--method", "ts", "--out", tmp_path / "sets").exit_code == 0
    table = parquet.read_table(tmp_path / "sets" / "decisions.parquet")
    assert table.column_names == ["id", "prediction", "confidence", "set0", "set1", "set2"]


def test_probabilities_made_elsewhere_are_used_with_a_note(tmp_path, source):
    run("calibrate", source, "--method", "ts", "--out", tmp_path / "fit")
    probs = tmp_path / "fit" / "probabilities.npz"
    arguments = ("--accuracy", "0.3", "--probabilities", probs, "--out", tmp_path / "out")
    result = run("decide", source, *arguments)
    assert result.exit_code == 0
    assert "not fitted on the validation nodes" in result.output
    assert names(tmp_path / "out") == ["decisions.npz", "policy.safetensors", "summary.json"]
    bundle = gnncal.read_bundle(source)
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["n_threshold_nodes"] == bundle.calibration_nodes.size
    assert summary["method"] is None


def test_sets_by_class_are_those_of_the_library_and_said_by_class(tmp_path, source):
    arguments = ("--score", "lac", "--coverage", "0.7", "--by-class", "--out", tmp_path / "out")
    result = run("sets", source, "--method", "ts", *arguments)
    assert result.exit_code == 0
    assert "with probability at least 70% in each class" in " ".join(result.stdout.split())
    assert "Coverage by true class: " in " ".join(result.stdout.split())
    saved = gnncal.load(tmp_path / "out" / "conformal.safetensors")
    assert saved.by_class
    assert saved.threshold_.shape == (3,)
    bundle = gnncal.read_bundle(source)
    calibrator = gnncal.load(tmp_path / "out" / "calibrator.safetensors")
    probs = calibrator.predict_proba(bundle.logits, bundle.graph)
    written = np.load(tmp_path / "out" / "decisions.npz")["sets"]
    np.testing.assert_array_equal(saved.predict_set(probs, ids=bundle.node_ids), written)
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert len(summary["sets"]["test"]["coverage_by_class"]) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--accuracy", "1"), "accuracy is 1.0"),
        (("--confidence-level", "nan"), "confidence_level is nan"),
        (("--hold-out", "1"), "--hold-out is 1.0"),
        (("--hold-out", "0.0001"), "cannot be split"),
        (("--seed", "-1"), "--seed is -1"),
        (("--method", "hotts"), "did you mean 'hots'?"),
        (("--method", "ts", "--probabilities", "p.npz"), "leave --method, --param and --free out"),
        (("--probabilities", "absent.npz"), "file not found: absent.npz"),
    ],
)
def test_bad_options_end_with_one_line_and_nothing_written(tmp_path, source, arguments, message):
    result = run("decide", source, *arguments, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert message in result.output
    assert len(result.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_folder_holds_one_result(tmp_path, source):
    out = tmp_path / "out"
    assert run("decide", source, *EASY, "--out", out).exit_code == 0
    calibrate = ("calibrate", source, "--method", "ts", "--out", out)
    result = run(*calibrate)
    assert result.exit_code == 2
    assert "choose another --out" in result.output
    assert run(*calibrate, "--overwrite").exit_code == 0
    assert names(out) == ["calibrator.safetensors", "probabilities.npz", "summary.json"]


def test_without_out_the_results_go_to_a_folder_of_their_own(tmp_path, source, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run("decide", source, *EASY).exit_code == 0
    assert names(tmp_path / "decided") == [
        "calibrator.safetensors",
        "decisions.npz",
        "policy.safetensors",
        "summary.json",
    ]
