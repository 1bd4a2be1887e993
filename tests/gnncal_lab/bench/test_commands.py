"""``gnncal bench`` end to end: on bundles, and on a generated dataset with trained classifiers."""

import json
import re
import shlex

import numpy as np
import pytest
from typer.testing import CliRunner

import gnncal
from gnncal.__main__ import app
from gnncal.files.output import MARKER
from gnncal.graph.graph import Graph
from gnncal_lab.bench import logits as logits_module
from gnncal_lab.bench import perturbation
from gnncal_lab.bench.logits import TrainedLogits
from gnncal_lab.bench.plan import Task
from gnncal_lab.bench.records import read_lines, read_records
from gnncal_lab.classifiers.settings import SETTINGS, TrainingSettings
from gnncal_lab.datasets import Dataset
from tests.gnncal_lab.bench.graphs import frozen_bundle, write_bundles


def run(*arguments):
    result = CliRunner().invoke(app, ["bench", *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Records, diagnosis, tables and figures of two small graphs."""
    place = tmp_path_factory.mktemp("bench")
    write_bundles(place / "bundles", backbones=("gcn", "gat"))
    done = run(
        *("run", "--bundles", place / "bundles", "--out", place / "out", "--seeds", 2),
        *("--methods", "uncalibrated,ts,entropy-only,hots", "--json"),
    )
    assert json.loads(done.stdout)["computed"] == 2 * 2 * 2 * (1 + 3 * 2)
    return place


def test_a_second_run_says_that_all_is_there(folder):
    done = run(
        *("run", "--bundles", folder / "bundles", "--out", folder / "out", "--seeds", 2),
        *("--methods", "ts,hots", "--protocol", "paper"),
    )
    assert done.stdout.startswith("0 cells computed, 16 recorded before, 0 failed; records in ")
    assert done.stderr == ""


def test_bundles_say_which_datasets_backbones_and_seeds_there_are(tmp_path):
    place = tmp_path / "bundles"
    write_bundles(place, datasets=("my-graph",), backbones=("mlp", "gin"), seeds=(4, 12))
    (place / "notes-of-mine.npz").touch()
    done = run("run", "--bundles", place, "--out", tmp_path / "out", "--methods", "uncalibrated")
    assert done.exit_code == 0
    tasks = {cell.task for cell in read_records(tmp_path / "out")}
    assert tasks == {("my-graph", b, s) for b in ("mlp", "gin") for s in (4, 12)}


def test_bundles_need_not_be_every_combination(tmp_path):
    place = tmp_path / "bundles"
    write_bundles(place, datasets=("one",), backbones=("gcn",), seeds=(0,))
    write_bundles(place, datasets=("two",), backbones=("mlp",), seeds=(3,))
    done = run("run", "--bundles", place, "--out", tmp_path / "out", "--methods", "Uncalibrated")
    assert done.exit_code == 0
    tasks = {cell.task for cell in read_records(tmp_path / "out")}
    assert tasks == {("one", "gcn", 0), ("two", "mlp", 3)}


def test_records_of_a_method_that_is_not_installed_are_left_out_with_a_note(tmp_path, monkeypatch):
    write_bundles(tmp_path / "bundles")
    out = tmp_path / "out"
    run("run", "--bundles", tmp_path / "bundles", "--out", out, "--methods", "uncalibrated,ts,rbs")
    known = [name for name in gnncal.list_calibrators() if name != "rbs"]
    monkeypatch.setattr("gnncal_lab.bench.results.list_methods", lambda: known)
    done = run("tables", out, "--reference", "TS")
    assert done.exit_code == 0
    assert "records of rbs are left out, because no installed package" in done.stderr


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_run_with_failures_says_why_and_exits_with_one(tmp_path, form):
    place = tmp_path / "bundles"
    write_bundles(place, datasets=("A",), seeds=(0,))
    arguments = ("--methods", "ts", "--protocol", "paper", "--datasets", "mine,A", *form)
    done = run("run", "--bundles", place, "--out", tmp_path / "out", *arguments)
    assert done.exit_code == 1
    reason = f"mine gcn 0 ts paper: no logits: InputError: {place} has no files mine-BACKBONE-SEED"
    assert f"note: 1 of 2 cells failed, the first of them {reason}" in done.stderr
    assert len(read_records(tmp_path / "out")) == 2
    if form:
        found = json.loads(done.stdout)
        assert (found["computed"], found["failed"]) == (2, 1)
        assert found["first_failure"].startswith(reason)


def test_a_log_has_a_line_for_each_stage(tmp_path):
    place = tmp_path / "bundles"
    write_bundles(place, backbones=("gcn", "gat"))
    done = run("run", "--bundles", place, "--out", tmp_path / "out", "--methods", "uncalibrated")
    stages, left = zip(
        *(line.rpartition(" cells")[::2] for line in done.stderr.splitlines()), strict=True
    )
    assert stages == (
        "A: loading, 0 of 8",
        "A gat: calibrating, 0 of 8",
        "A gcn: calibrating, 2 of 8",
        "B: loading, 4 of 8",
        "B gat: calibrating, 4 of 8",
        "B gcn: calibrating, 6 of 8",
    )
    assert left[:2] == ("", "")  # nothing measured, nothing claimed
    assert all(re.fullmatch(", about [0-9]+ s left", text) for text in left[2:])


def test_the_command_is_noted_so_that_a_shell_would_repeat_it(tmp_path, monkeypatch):
    place = tmp_path / "with a space"
    write_bundles(place, datasets=("A",), seeds=(0,))
    arguments = ["run", "--bundles", str(place), "--out", str(tmp_path / "out"), "--seeds", "1"]
    monkeypatch.setattr("sys.argv", ["/somewhere/gnncal", "bench", *arguments])
    run(*arguments, "--backbones", "gcn", "--methods", "ts")
    (about,) = read_lines(tmp_path / "out" / "runs.jsonl")
    assert shlex.split(about["command"]) == ["gnncal", "bench", *arguments]


def test_the_page_is_written_for_all_records_or_some(folder, tmp_path):
    pytest.importorskip("plotly", reason="pages need the extra report")
    page = tmp_path / "board.html"
    done = json.loads(run("report", folder / "out", "--out", page, "--json").stdout)
    assert done["records"] == 2 * 2 * 2 * (1 + 3 * 2)
    html = page.read_text()
    assert html.startswith("<!doctype html>")
    assert "Ranking of the methods" in html
    few = run("report", folder / "out", "--out", page, "--methods", "ts", "--seeds", "1:2")
    assert few.stdout == f"methods: 1, graphs: 2, records: 8\n\nwritten to {page}\n"
    assert [file.name for file in tmp_path.iterdir()] == ["board.html"]


def test_tables_and_figures_are_written(folder):
    out = folder / "out"
    assert run("diagnose", out, "--bundles", folder / "bundles").exit_code == 0
    found = json.loads(run("tables", out, "--reference", "ts", "--json").stdout)
    assert {path.name for path in (out / "tables").iterdir()} == {MARKER, *found["files"]}
    for name in ("main_ece-paper.md", "against_ts_ece-converged.csv", "structure.tex"):
        assert name in found["files"]
    text = (out / "tables" / "README.md").read_text()
    assert text.count("### ") == (len(found["files"]) - 1) // 3
    pytest.importorskip("matplotlib", reason="figures need the extra plot")
    drawn = json.loads(run("figures", out, "--json").stdout)["files"]
    assert {
        "reliability-gcn-paper.png",
        "homophily_split-3-gcn.png",
        "scatter-certainty-gcn.png",
    } <= {*drawn}
    for name in drawn:
        assert (out / "figures" / name).read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--out", "x", "--datasets", "Cara"], "unknown data set 'Cara'"),
        (["run", "--out", "x", "--backbones", "gnc"], "unknown backbone 'gnc'"),
        (["run", "--out", "x", "--backbones", "gcn-dcgc"], "did you mean 'gcn+dcgc'?"),
        (["run", "--out", "x", "--datasets", " , "], "--datasets is ' , '; expected names"),
        (["run", "--out", "x", "--backbones", ""], "--backbones is ''; expected names"),
        (["run", "--out", "x", "--methods", ""], "--methods is ''; expected names"),
        (["run", "--out", "x", "--bundles", "y"], "y has no files DATASET-BACKBONE-SEED.npz"),
        (["run", "--out", "x", "--seeds", "-1:2"], "--seeds is '-1:2'"),
        (["run", "--out", "x", "--methods", "tts"], "unknown method 'tts'"),
        (["run", "--out", "x", "--protocol", "both"], "--protocol is 'both'"),
        (["run", "--out", "x", "--seeds", "ten"], "--seeds is 'ten'"),
        (["tables", "nowhere"], "nowhere has no records"),
        (["report", "nowhere"], "nowhere has no records"),
        (["report", "nowhere", "--out", "."], "is a folder; pass the file to write"),
        (["diagnose", "nowhere"], "nowhere has no records of gcn"),
    ],
)
def test_bad_input_is_one_line(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run(*arguments)
    assert done.exit_code == 2
    assert done.stderr.startswith("error: ")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not list(tmp_path.iterdir())


# --- trained classifiers


@pytest.fixture
def generated(monkeypatch):
    """A dataset that needs no files, under the name of a known one."""
    pytest.importorskip("torch", reason="classifiers need the extra neural")
    bundle = frozen_bundle(5)
    dataset = Dataset("Texas", bundle.graph, bundle.labels)
    loaded = []

    def load(name, root=None):
        loaded.append(name)
        return dataset

    logits_module.load_dataset.cache_clear()
    monkeypatch.setattr(logits_module, "load", load)
    yield dataset
    logits_module.load_dataset.cache_clear()


def test_logits_are_trained_once_and_a_broken_cache_is_trained_again(generated, tmp_path):
    arguments = ("run", "--datasets", "texas", "--backbones", "gcn", "--seeds", 1)
    done = run(*arguments, "--methods", "ts", "--out", tmp_path)
    assert done.stdout.startswith("2 cells computed, 0 recorded before, 0 failed")
    cached = tmp_path / "logits" / "Texas-gcn-0.npz"
    before, time = cached.read_bytes(), cached.stat().st_mtime_ns
    run(*arguments, "--methods", "hts", "--out", tmp_path)
    assert cached.stat().st_mtime_ns == time
    cached.write_bytes(before[:100])
    run(*arguments, "--methods", "ets", "--out", tmp_path)
    with np.load(cached) as again:
        assert again["logits"].shape == (300, 3)
    assert {cell.method for cell in read_records(tmp_path)} == {"ts", "hts", "ets"}


def test_a_treated_backbone_is_calibrated_like_any_other(generated, tmp_path, monkeypatch):
    from gnncal_lab.classifiers import gcl

    monkeypatch.setattr(gcl, "GAMMAS", (1.0,))
    arguments = ("run", "--datasets", "Texas", "--backbones", "gcn+dcgc,GCN+GCL", "--seeds", 1)
    done = run(*arguments, "--methods", "uncalibrated,ts", "--out", tmp_path)
    assert done.stdout.startswith("6 cells computed, 0 recorded before, 0 failed")
    assert {cell.backbone for cell in read_records(tmp_path)} == {"gcn+dcgc", "gcn+gcl"}
    done = run(*arguments, "--methods", "uncalibrated,ts", "--out", tmp_path)
    assert done.stdout.startswith("0 cells computed, 6 recorded before")
    names = [path.name for path in (tmp_path / "logits").iterdir()]
    parts = [logits_module.BUNDLE_NAME.fullmatch(name).groups() for name in sorted(names)]
    assert parts == [("Texas", "gcn+dcgc", "0"), ("Texas", "gcn+gcl", "0")]


def test_all_backbones_are_those_of_the_paper():
    from gnncal_lab.commands.bench import _backbones

    assert _backbones("all", None) == ["gcn", "gat", "gin", "sage", "gcnii", "gprgnn"]


def with_a_changed(part, data):
    edges, x, labels = data.graph.edge_index, data.graph.features, data.labels
    if part == "edge":
        return Dataset(data.name, Graph(edges[:, 1:], features=x), labels)
    if part == "feature":
        return Dataset(data.name, Graph(edges, features=x + (x == x.max())), labels)
    return Dataset(data.name, data.graph, (labels + (np.arange(len(labels)) == 7)) % 3)


@pytest.mark.parametrize("part", ["edge", "feature", "label"])
def test_cached_logits_of_other_data_are_not_used(generated, tmp_path, monkeypatch, part):
    source, task = TrainedLogits(tmp_path), Task("Texas", "gcn", 0)
    source.prepare(task)
    assert source.is_ready(task)
    other = with_a_changed(part, generated)
    monkeypatch.setattr(logits_module, "load", lambda name, root=None: other)
    logits_module.load_dataset.cache_clear()
    assert not source.is_ready(task)


def test_cached_logits_of_other_settings_are_not_used(generated, tmp_path, monkeypatch):
    source, task = TrainedLogits(tmp_path), Task("Texas", "gcn", 0)
    source.prepare(task)
    monkeypatch.setitem(SETTINGS, "G1", TrainingSettings(max_epochs=201))
    assert not source.is_ready(task)


def test_perturbation_runs_once_and_fills_its_table(generated, tmp_path, monkeypatch):
    monkeypatch.setattr(perturbation, "RATES", (0.0, 0.5))
    arguments = ("perturb", "--datasets", "Texas", "--seeds", 1, "--out", tmp_path)
    assert run(*arguments).stdout.startswith("1 classifiers perturbed, 0 before")
    assert run(*arguments).stdout.startswith("0 classifiers perturbed, 1 before")
    found = perturbation.read_perturbation(tmp_path)
    assert list(found) == [("gcn", "paper"), ("gcn", "converged")]
    entries = [entry for part in found.values() for entry in part]
    assert len(entries) == 2 * 2 * 2 * 2  # changes, rates, methods, protocols
    unchanged = [e["metrics"] for e in entries if e["rate"] == 0 and e["method"] == "ts"]
    assert unchanged[0] == unchanged[1]  # nothing added is nothing removed
    run(
        "run",
        "--datasets",
        "Texas",
        "--backbones",
        "gcn",
        "--seeds",
        1,
        "--methods",
        "ts",
        "--out",
        tmp_path,
    )
    files = json.loads(run("tables", tmp_path, "--reference", "ts", "--json").stdout)["files"]
    assert "perturbation-converged.md" in files


def test_a_perturbed_classifier_with_a_damaged_line_is_run_again(generated, tmp_path, monkeypatch):
    monkeypatch.setattr(perturbation, "RATES", (0.0,))
    arguments = ("perturb", "--datasets", "Texas", "--seeds", 1, "--out", tmp_path)
    run(*arguments)
    path = tmp_path / "perturbation.jsonl"
    path.write_text(path.read_text().replace("ece", "ecf", 1))
    assert run(*arguments).stdout.startswith("1 classifiers perturbed, 0 before")
    found = perturbation.read_perturbation(tmp_path)
    assert [len(entries) for entries in found.values()] == [4, 4]  # nothing twice


def test_a_classifier_that_cannot_be_perturbed_stops_no_other(generated, tmp_path, monkeypatch):
    monkeypatch.setattr(perturbation, "RATES", (0.0,))
    whole = perturbation._run_task

    def fails_once(root, task):
        if task.seed == 0:
            raise RuntimeError("no such luck")
        return whole(root, task)

    monkeypatch.setattr(perturbation, "_run_task", fails_once)
    result = run("perturb", "--datasets", "Texas", "--seeds", 2, "--out", tmp_path)
    assert result.exit_code == 1
    expected = (
        "1 of 2 classifiers failed, the first of them Texas gcn 0: RuntimeError: no such luck"
    )
    assert expected in " ".join(result.stderr.split())
    assert len(perturbation.read_perturbation(tmp_path)) == 2  # protocols


def test_paper_prints_the_published_row_next_to_the_records(tmp_path):
    write_bundles(tmp_path / "bundles", datasets=("Cora",), backbones=("gcn", "gat"))
    given = ("--methods", "uncalibrated,ts", "--protocol", "paper", "--out", tmp_path / "out")
    assert run("run", "--bundles", tmp_path / "bundles", *given).exit_code == 0
    lines = run("paper", tmp_path / "out", "--datasets", "Cora").stdout.splitlines()
    assert [line.split()[:2] for line in lines[2:]] == [["Cora", "Uncal"], ["Cora", "TS"]]
    assert lines[3].endswith("3.14 ± 0.82")
    entries = json.loads(run("paper", tmp_path / "out", "--json").stdout)["rows"][0]["entries"]
    assert f"{entries[1]['value']:.2f} ± {entries[1]['spread']:.2f}" in lines[3]


def test_paper_needs_records_of_the_papers_protocol(tmp_path):
    write_bundles(tmp_path / "bundles", datasets=("Cora",), backbones=("gcn", "gat"))
    given = ("--methods", "ts", "--protocol", "converged", "--out", tmp_path / "out")
    run("run", "--bundles", tmp_path / "bundles", *given)
    failed = run("paper", tmp_path / "out")
    assert failed.exit_code == 2
    assert "no records of the paper's protocol" in failed.stderr
