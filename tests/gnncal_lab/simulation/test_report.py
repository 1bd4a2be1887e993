"""The laboratory's page, figures and verb show the records they are given."""

import base64
import dataclasses
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from gnncal.__main__ import app
from gnncal.files.output import MARKER
from gnncal_lab.commands import csbm as verb
from gnncal_lab.pages.csbm.experiments import NAMES, get_experiment
from gnncal_lab.simulation import experiments
from gnncal_lab.simulation.experiments.attenuation import attenuation
from gnncal_lab.simulation.experiments.kl import kl
from gnncal_lab.simulation.experiments.necessity import necessity
from gnncal_lab.simulation.experiments.posterior import posterior
from tests.gnncal_lab.simulation.html import Balance


@pytest.fixture
def record(records):
    return records["attenuation"]


def findings(name, record):
    return get_experiment(name).findings(record)


def run(*arguments):
    result = CliRunner().invoke(app, ["csbm", *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.mark.parametrize("name", NAMES)
def test_an_experiment_has_the_name_under_which_it_is_found(name):
    assert get_experiment(name).name == name


def test_every_computed_experiment_is_in_the_catalogue():
    files = Path(experiments.__file__).parent.glob("[a-z]*.py")
    assert {file.stem for file in files} == set(NAMES)


def test_names_are_known_without_loading_any_experiment():
    code = "import sys, gnncal_lab.pages.csbm.experiments; assert 'scipy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_findings_put_ours_beside_the_papers(record):
    lines = {line.quantity: line for line in findings("attenuation", record)}
    first = lines["α by least squares, τ = 0"]
    assert first.ours == "1.000 [1.000, 1.000]"
    assert first.reference == "formula 1.000, paper 1.009"
    assert get_experiment("attenuation").constants(record).endswith("4,000 nodes; 3 seeds")


def test_necessity_findings_are_of_the_spreads_that_were_run():
    record = necessity(spreads=(0.3, 0.0, 0.2), n_nodes=100, n_seeds=2)
    lines = {line.quantity: line.ours for line in findings("necessity", record)}
    assert list(lines) == [
        "gap when h does not vary",
        "exponent of the gap for a small spread",
        "gap at h = 0.5 ± 0.2",
        "gap at h = 0.5 ± 0.3",
        "strictness: score vectors with a gap, h = 0.5 ± 0.2",
        "strictness: score vectors with a gap, h = 0.5 ± 0.3",
    ]
    assert lines["gap at h = 0.5 ± 0.3"].startswith(f"{record.gap.value[0]:.4f}")
    assert lines["exponent of the gap for a small spread"] == "too few values to tell"


def test_posterior_findings_name_the_lowest_homophily_that_was_run():
    for homophily, sign in (((0.9, 0.4), ""), ((0.9, 0.05), ", reversed scores")):
        record = posterior(homophily=homophily, n_nodes=300, n_seeds=2)
        lines = {line.quantity: line for line in findings("posterior", record)}
        theory = record.inverse_temperature[1]
        assert lines[f"1/T at h = {homophily[1]:g}{sign}"].reference == f"theory {theory:.3f}"
        assert f"NLL lost by a positive temperature at h = {homophily[1]:g}" in lines


def test_attenuation_findings_quote_the_paper_only_at_its_own_noise():
    record = attenuation(noise=(0.1, 0.5), n_nodes=500, n_seeds=2)
    references = {line.quantity: line.reference for line in findings("attenuation", record)}
    assert "paper" not in references["α by least squares, τ = 0.1"]
    assert references["α by least squares, τ = 0.5"].endswith("paper 0.182")


def test_a_figure_draws_the_records_numbers(record):
    figures = pytest.importorskip("matplotlib.figure")
    axes = figures.Figure().subplots(1, 1, squeeze=False)[0]
    get_experiment("attenuation").draw(record, axes)
    drawn = {line.get_label(): line.get_xydata() for line in axes[0].get_lines()}
    np.testing.assert_allclose(drawn["Var(u) / (Var(u) + τ²)"][:, 1], record.formula)
    np.testing.assert_allclose(drawn["the paper's"], [[0, 1.009], [0.5, 0.182]])
    bars = axes[0].containers[0]
    np.testing.assert_allclose(bars[0].get_ydata(), record.least_squares.value)


def test_figures_leave_out_what_too_few_values_cannot_tell():
    pytest.importorskip("matplotlib")
    few = necessity(spreads=(0.0, 0.2), centre=0.6, n_nodes=100, n_seeds=2)
    assert (
        "h = 0.6 ± spread" in get_experiment("necessity").figure(few, image_format="svg").decode()
    )
    sizes = {"n_nodes": 300, "per_class": 100, "n_centres": 30, "n_seeds": 2}
    sweeps = {"n_sweep": (300, 600), "d_sweep": (6.0, 12.0), "per_class_sweep": (3, 4)}
    record = kl(k_sweep=(2, 4), **sweeps, **sizes)
    assert get_experiment("kl").figure(record, image_format="svg").startswith(b"<?xml")
    lines = {line.quantity: line.ours for line in findings("kl", record)}
    assert lines["slope in K ≥ 8, rank K"] == "too few values to tell"


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_figures_are_the_same_bytes_every_time(record, kind):
    pytest.importorskip("matplotlib")
    first, second = (
        get_experiment("attenuation").figure(record, image_format=kind) for _ in range(2)
    )
    assert first == second
    assert first.startswith(b"\x89PNG" if kind == "png" else b"<?xml")


def test_an_experiment_writes_its_record_and_figure_and_prints_a_table(tmp_path):
    pytest.importorskip("matplotlib")
    done = run("entropy", "--quick", "--seeds", 2, "--out", tmp_path / "here")
    assert done.exit_code == 0
    assert "order of the remainder" in done.stdout
    written = {file.name for file in (tmp_path / "here").iterdir()}
    assert written == {"entropy.json", "entropy.png", MARKER}
    written = json.loads((tmp_path / "here" / "entropy.json").read_text())
    assert written["n_seeds"] == 2
    assert len(written["scale"]) == len(written["error"][0])


def test_json_prints_the_record_that_is_written(tmp_path):
    done = run("attenuation", "--quick", "--json", "--out", tmp_path)
    assert json.loads(done.stdout) == json.loads((tmp_path / "attenuation.json").read_text())


def test_all_writes_one_page_that_needs_nothing_else(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(verb, "NAMES", ("attenuation", "entropy"))
    done = run("all", "--quick", "--out", tmp_path / "here")
    assert done.exit_code == 0
    page = (tmp_path / "here" / "csbm.html").read_text()
    parser = Balance()
    parser.feed(page)
    assert parser.open == []
    assert [link[1:] for link in parser.links if link] == ["attenuation", "entropy"]
    assert {"attenuation", "entropy"} < set(parser.ids)
    images = [base64.b64decode(source.partition("base64,")[2]) for source in parser.images]
    assert len(images) == 2
    assert all(b"<svg" in image for image in images)
    assert not re.search(r'(src|href)="(?!data:|#)', page)  # nothing is loaded from elsewhere
    assert "gnncal csbm all --quick" in page
    assert "describe gnncal csbm all at full size" in page
    assert "paper 1.009" in page


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["theorem"], f"unknown experiment 'theorem'; expected one of {', '.join(NAMES)}; or all."),
        (["sweep", "--seeds", "1"], "at least 2"),
    ],
)
def test_bad_requests_end_with_one_line_and_nothing_written(tmp_path, arguments, message):
    done = run(*arguments, "--out", tmp_path / "here")
    assert done.exit_code == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_a_missing_folder_is_refused_as_by_the_other_verbs(tmp_path):
    missing = tmp_path / "a"
    for arguments in (["csbm", "entropy", "--quick"], ["demo"]):
        done = CliRunner().invoke(app, [*arguments, "--out", str(missing / "b")])
        assert done.exit_code == 2
        assert f"folder not found: {missing}; create it" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_page_with_other_seeds_says_that_its_texts_are_of_full_size(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")

    def small(**options):
        return attenuation(**{"n_nodes": 500, "n_seeds": 2} | options)

    fast = dataclasses.replace(get_experiment("attenuation"), compute=small, small={})
    monkeypatch.setattr(verb, "NAMES", ("attenuation",))
    monkeypatch.setattr(verb, "get_experiment", lambda name: fast)
    for arguments, said in (([], False), (["--seeds", "3"], True)):
        run("all", *arguments, "--out", tmp_path)
        page = (tmp_path / "csbm.html").read_text()
        assert ("describe gnncal csbm all at full size" in page) == said


def test_without_matplotlib_the_record_is_still_written(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    done = run("entropy", "--quick", "--out", tmp_path / "here")
    assert done.exit_code == 0
    assert "gnncal[plot]" in done.stderr
    assert sorted(file.name for file in (tmp_path / "here").iterdir()) == [MARKER, "entropy.json"]
    refused = run("all", "--quick", "--out", tmp_path / "there")
    assert refused.exit_code == 2
    assert "gnncal[report]" in refused.stderr
