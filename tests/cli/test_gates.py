"""`--fail-if` ends a verb with an exit code of its own, after the results are written."""

import json

import numpy as np
import pytest

from tests.cli.test_decide import names, run
from tests.test_bundles import N, write_npz


@pytest.fixture
def source(tmp_path):
    return write_npz(tmp_path / "in.npz")


def arguments_of(verb, source, tmp_path):
    if verb == "apply":
        run("calibrate", source, "--method", "ts", "--out", tmp_path / "fit")
        return "apply", tmp_path / "fit" / "calibrator.safetensors", source, "--out", tmp_path / "o"
    if verb == "evaluate":
        return "evaluate", source
    more = ("--accuracy", "0.3", "--confidence-level", "0.8") if verb == "decide" else ()
    return verb, source, "--method", "ts", *more, "--out", tmp_path / "o"


@pytest.mark.parametrize("verb", ["calibrate", "apply", "evaluate", "decide"])
def test_a_gate_that_holds_ends_with_four_and_leaves_the_results(tmp_path, source, verb):
    arguments = arguments_of(verb, source, tmp_path)
    fine = run(*arguments, "--fail-if", "accuracy<0.01", "--fail-if", " nll >= 99 ")
    assert fine.exit_code == 0
    failed = run(*arguments, "--fail-if", "accuracy<0.01", "--fail-if", "ece>0.0001", "--json")
    assert failed.exit_code == 4
    assert "gate: ece is 0." in failed.stderr
    assert "and --fail-if says ece>0.0001." in failed.stderr
    assert "accuracy" not in failed.stderr
    json.loads(failed.stdout)
    assert verb == "evaluate" or "summary.json" in names(tmp_path / "o")


def test_decide_has_gates_of_its_own(tmp_path, source):
    arguments = arguments_of("decide", source, tmp_path)
    assert run(*arguments, "--fail-if", "uncertified>0").exit_code == 0
    assert run(*arguments, "--fail-if", "review>=0").exit_code == 4
    hopeless = (*arguments, "--accuracy", "0.9999", "--fail-if", "uncertified>0")
    assert run(*hopeless).exit_code == 3  # nothing is certified, which says more


@pytest.mark.parametrize(
    ("gate", "message"),
    [
        ("ece", "expected a metric and a limit"),
        ("ece>", "expected a metric and a limit"),
        ("ece>x", "expected a metric and a limit"),
        ("ece>nan", "expected a metric and a limit"),
        ("ece==1", "expected a metric and a limit"),
        ("acuracy<0.5", "names 'acuracy' (did you mean 'accuracy'?)"),
        ("uncertified>0", "names 'uncertified'"),
        ("ece>5", "ece lies between 0 and 1"),
        ("ece>1", "ece lies between 0 and 1"),
        ("ece<5", "ece lies between 0 and 1"),
        ("accuracy<-1", "accuracy lies between 0 and 1"),
        ("accuracy<0", "accuracy lies between 0 and 1"),
        ("brier>3", "brier lies between 0 and 2"),
        ("nll<-0.5", "nll is at least 0"),
    ],
)
def test_gates_that_mean_nothing_are_refused_before_any_work(tmp_path, source, gate, message):
    result = run("calibrate", source, "--fail-if", gate, "--out", tmp_path / "o")
    assert result.exit_code == 2
    assert message in result.stderr
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize("verb", ["calibrate", "decide"])
def test_a_gate_without_test_nodes_is_refused_and_nothing_written(tmp_path, verb):
    labels = np.where(np.arange(N) % 4 < 2, np.arange(N) % 3, -1)
    source = write_npz(tmp_path / "blind.npz", labels=labels)
    result = run(verb, source, "--fail-if", "ece>0.05", "--out", tmp_path / "o")
    assert result.exit_code == 2
    assert "metrics need labelled test nodes" in result.stderr
    assert not (tmp_path / "o").exists()
