"""The command line says what keeping predictions costs, and says it first."""

import json

import pytest
from typer.testing import CliRunner

from gnncal.__main__ import app
from tests.fraud import write_fraud_bundle

COST = "looks class-weighted. Pass keep_predictions=False (--free on the command line)."


def run(*arguments):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture(params=[True, False], ids=["weighted", "plain"])
def case(request, tmp_path):
    """A model, and whether there is something to say about it."""
    return write_fraud_bundle(tmp_path / "in.npz", is_weighted=request.param), request.param


def test_calibrate_prints_the_advice_once_if_there_is_any(case, tmp_path):
    source, is_weighted = case
    said = run("calibrate", source, "--out", tmp_path / "out")
    words = " ".join(said.output.split())
    assert words.count("Keeping predictions costs") == words.count(COST) == is_weighted
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    first = " ".join(said.stdout.partition("\n\n")[0].split())
    assert first == f"{summary['verdict']['label']}. {summary['verdict']['text']}"
    assert first.startswith("Do not use these probabilities") == is_weighted
    assert (summary["advice"] is not None) == (summary["price"] is not None) == is_weighted


def test_json_has_the_advice_and_its_figures(tmp_path):
    source = write_fraud_bundle(tmp_path / "in.npz", is_weighted=True)
    done = run("calibrate", source, "--out", tmp_path / "out", "--method", "ts", "--json")
    summary = json.loads(done.stdout)
    assert summary["advice"].endswith("(--method structural-free on the command line).")
    assert summary["price"]["nats"] > 0.1
    assert summary["price"]["given"]["mean"] > summary["price"]["given"]["rate"]
    for cure in ("--free", "--method=structural-free"):
        again = run("calibrate", source, "--out", tmp_path / "free", cure, "--json")
        assert json.loads(again.stdout)["advice"] is None


def test_decide_notes_it(case, tmp_path):
    source, is_weighted = case
    done = run("decide", source, "--out", tmp_path / "out", "--target", "0.9")
    assert done.stderr.count(COST) == is_weighted
