"""``gnncal block-model``: every method on a sampled graph."""

import json
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import gnncal
from gnncal.__main__ import app
from gnncal_lab.commands import block_model

FEW = ("uncalibrated", "ts", "hots", "structural", "structural-free", "vs")  # it speaks of these


def run(*arguments):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.fixture
def few(monkeypatch):
    every = block_model._methods
    names = (*FEW, block_model.ORACLE)
    monkeypatch.setattr(
        block_model, "_methods", lambda h: {n: m for n, m in every(h).items() if n in names}
    )


def test_it_writes_every_file_it_names_and_fits_a_terminal(tmp_path, few, monkeypatch):
    monkeypatch.setattr(block_model, "_write_report", lambda path, bundle: path.write_text(""))
    done = run("block-model", "--nodes", 800, "--out", tmp_path / "here")
    assert (done.exit_code, done.stderr) == (0, "")
    table, _, written = done.stdout.partition(f"written to {tmp_path / 'here'}: ")
    there = {file.name for file in (tmp_path / "here").iterdir()}
    assert set(written.splitlines()[0].split(", ")) <= there
    assert {"bundle.npz", "calibrator.safetensors", "probabilities.npz"} <= there
    assert max(len(line.rstrip()) for line in table.splitlines()) <= 80
    assert {line.split()[0] for line in table.splitlines() if line.strip()} > set(FEW)
    files = tmp_path / "here"
    bundle = gnncal.read_bundle(files / "bundle.npz")
    probs = gnncal.load(files / "calibrator.safetensors").predict_proba(bundle.logits, bundle.graph)
    np.testing.assert_array_equal(probs, np.load(files / "probabilities.npz")["probs"])


def test_as_json_it_is_one_document_and_the_same_without_matplotlib(tmp_path, few, monkeypatch):
    for module in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = run("block-model", "--nodes", 500, "--out", tmp_path / "out", "--json")
    assert result.exit_code == 0
    results = json.loads(result.stdout)
    assert set(results["methods"]) == {*FEW, "hots, true h"}
    assert json.loads((tmp_path / "out" / "results.json").read_text()) == results
    (note,) = result.stderr.splitlines()
    assert note.startswith("note: ")
    assert "gnncal[plot]" in note
    assert not (tmp_path / "out" / "reliability.png").exists()


def test_without_torch_it_names_what_it_leaves_out(monkeypatch, capsys):
    monkeypatch.setattr(block_model, "find_spec", lambda name: None)
    made = block_model._methods(np.full(5, 0.5))
    light = {name for name in gnncal.list_calibrators() if made.get(name) is not None}
    assert set(made) == {*light, "hots, true h"}
    assert not {"cagcn", "gats", "gets", "wats"} & set(made)
    error = capsys.readouterr().err
    assert "left out cagcn, gats, gets, wats" in error
    assert "gnncal[neural]" in error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--nodes", 499), "at least 500"),
        (("--seed", -1), "expected 0 or more"),
        (("--nodes", 500, "--seed", 1), "some class has no training node"),
    ],
)
def test_a_graph_that_cannot_be_is_refused(tmp_path, arguments, message):
    result = run("block-model", "--out", tmp_path / "out", *arguments)
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert message in line
    assert not (tmp_path / "out").exists()
