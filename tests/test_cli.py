"""The program end to end: results on stdout, one line for what is wrong, nothing left behind."""

import errno
import json
import os
import re
import shlex
import subprocess
import sys
from contextlib import chdir
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import gnncal
from gnncal.__main__ import app
from gnncal.calibration import DEFAULT_METHOD
from gnncal.files.output import MARKER
from gnncal.reporting.input import DEFAULT_METHODS
from tests.methods import each_of
from tests.test_bundles import (
    BAD_ARRAYS,
    BAD_TABLES,
    CSR_PARTS,
    NAMES,
    N,
    example,
    write_npz,
    write_parquet,
)

PROGRAM = Path(sys.executable).with_name("gnncal")
OUTPUTS = {"probabilities.npz", "calibrator.safetensors", "summary.json"}


def run(*arguments):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def run_process(*arguments, cwd, columns=80):
    environment = {**os.environ, "COLUMNS": str(columns), "OMP_NUM_THREADS": "1"}
    command = [str(PROGRAM), *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)


def run_in(folder, *arguments):
    """Run the program as if it was started in a folder."""
    with chdir(folder):
        return run(*arguments)


def listing(folder):
    """Every file below a folder with its bytes, hidden ones included."""
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


# --- demo


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("digits")
    return folder, run_in(folder, "demo", "--out", "here")


def test_the_first_minute_fits_a_terminal_and_names_every_file(digits):
    folder, done = digits
    assert (done.exit_code, done.stderr) == (0, "")
    said = done.stdout.splitlines()
    written = next(line for line in said if line.startswith("written to here: "))
    there = [p.name for p in (folder / "here").iterdir()]
    assert sorted([*written.removeprefix("written to here: ").split(", "), MARKER]) == sorted(there)
    lines = [line.rstrip() for line in said if line != written]
    assert max(map(len, lines)) <= 80
    assert re.search(r"the log loss\s+changes by -0\.\d{4} \[-0\.\d{4}, -0\.\d{4}\]", done.stdout)
    methods = ("uncalibrated", "ts", "hots", "structural", "structural-free")
    assert [line.split()[0] for line in said if line.split()[:1] and line.split()[0] in methods][
        :5
    ] == list(methods)


def test_the_commands_that_the_first_minute_ends_with_run_as_they_stand(digits, monkeypatch):
    pytest.importorskip("plotly")
    folder, done = digits
    monkeypatch.chdir(folder)
    lines = [line for line in done.stdout.splitlines() if "here/bundle.npz" in line]
    commands = [shlex.split(line) for line in lines]
    assert [command[0] for command in commands] == ["gnncal"] * 3
    assert [command[1] for command in commands] == ["calibrate", "report", "decide"]
    for command in commands:
        assert run(*command[1:]).exit_code == 0


def test_help_shows_what_each_verb_does_in_full():
    assert "..." not in run("--help").stdout.partition("Commands:")[2]


def test_help_lists_the_verbs_in_the_order_of_the_work():
    order = ["calibrate", "evaluate", "report", "decide", "check", "watch", "update", "apply"]
    listed = re.findall(r"^  (\w+) ", run("-h").stdout, flags=re.M)
    assert [name for name in listed if name in order] == order


def test_the_first_minutes_files_give_its_figures_again(digits):
    files = digits[0] / "here"
    results = json.loads((files / "results.json").read_text())["methods"]
    calibrated = ("--probabilities", files / "probabilities.npz", "--json")
    metrics = json.loads(run("evaluate", files / "bundle.npz", *calibrated).stdout)
    assert metrics["before"] == results["uncalibrated"]
    assert metrics["after"] == results["structural"]
    assert gnncal.load(files / "policy.safetensors").positive_ == 8


# --- calibrate and evaluate


SPLITS = {name: np.flatnonzero(mask) for name, mask in example().items() if "_mask" in name}


@pytest.mark.parametrize(
    "changes",
    [{}, SPLITS, {"x": None, **CSR_PARTS}, {"x": None}, {"test_mask": None}],
    ids=["dense", "indices", "csr", "no features", "no test mask"],
)
def test_a_file_gives_probabilities_calibrator_and_summary(tmp_path, changes):
    source, out = write_npz(tmp_path / "in.npz", **changes), tmp_path / "out"
    result = run("calibrate", source, "--out", out, "--json")
    assert result.exit_code == 0
    summary = json.loads(result.stdout)
    assert summary == json.loads((out / "summary.json").read_text())
    assert set(summary["files"]) == OUTPUTS
    assert {p.name for p in out.iterdir()} == OUTPUTS | {MARKER}
    arrays, bundle = np.load(out / "probabilities.npz"), gnncal.read_bundle(source)
    saved = gnncal.load(out / "calibrator.safetensors")
    probs = saved.predict_proba(bundle.logits, bundle.graph)
    np.testing.assert_array_equal(arrays["probs"], probs)
    np.testing.assert_array_equal(arrays["prediction"], probs.argmax(axis=1))
    np.testing.assert_array_equal(arrays["confidence"], probs.max(axis=1))
    temperature = saved.predict_temperature(bundle.logits, bundle.graph)
    np.testing.assert_array_equal(arrays["temperature"], temperature)
    np.testing.assert_array_equal(arrays["node_ids"], bundle.node_ids)
    assert list(arrays["class_names"]) == summary["class_names"] == saved.class_names_ == NAMES
    assert summary["test"]["after"]["n_nodes"] == N // 2
    assert summary["notes"] == [line.removeprefix("note: ") for line in result.stderr.splitlines()]


def test_a_folder_gives_parquet(tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    source, out = write_parquet(tmp_path / "in"), tmp_path / "out"
    assert run("calibrate", source, "--out", out).exit_code == 0
    table = pq.read_table(out / "probabilities.parquet")
    assert table.column_names == ["id", "prediction", "confidence", "temperature", "p0", "p1", "p2"]
    assert json.loads(table.schema.metadata[b"class_names"]) == NAMES
    bundle = gnncal.read_bundle(source)
    saved = gnncal.load(out / "calibrator.safetensors")
    probs = saved.predict_proba(bundle.logits, bundle.graph)
    assert table["id"].to_pylist() == bundle.node_ids.tolist()
    np.testing.assert_array_equal(table["p1"].to_numpy(), probs[:, 1])
    assert saved.class_names_ == NAMES
    metrics = run("evaluate", source, "--probabilities", out / "probabilities.parquet", "--json")
    summary = json.loads((out / "summary.json").read_text())
    assert json.loads(metrics.stdout) == summary["test"]


@pytest.mark.parametrize("method", each_of(gnncal.list_calibrators()))
def test_every_method_calibrates_and_evaluates(tmp_path, method):
    source, out = write_npz(tmp_path / "in.npz"), tmp_path / "out"
    assert run("calibrate", source, "--method", method, "--out", out).exit_code == 0
    result = run("evaluate", source, "--probabilities", out / "probabilities.npz", "--json")
    metrics, summary = json.loads(result.stdout), json.loads((out / "summary.json").read_text())
    assert metrics == summary["test"]
    assert method in (summary["method"], "auto")  # which is what it chose
    if summary["preserves_predictions"]:
        assert metrics["difference"]["prediction_change_rate"] == 0


def test_evaluating_logits_alone_shows_the_model(tmp_path):
    source = write_npz(tmp_path / "in.npz")
    metrics = json.loads(run("evaluate", source, "--json").stdout)
    assert metrics["before"]["n_nodes"] == N // 2
    assert metrics["after"] is metrics["difference"] is None
    table = run("evaluate", source).stdout
    assert "model" in table
    assert not {"before", "after"} & set(table.split())


@pytest.mark.parametrize("method", ["hots", "vs"])
def test_labels_of_test_nodes_cannot_change_probabilities(tmp_path, method):
    arrays = example()
    others = np.where(arrays["test_mask"], (arrays["labels"] + 1) % 3, arrays["labels"])
    unknown = np.where(arrays["test_mask"], -1, arrays["labels"])
    written = []
    for name, labels in (("a", arrays["labels"]), ("b", others), ("c", unknown)):
        source, out = write_npz(tmp_path / f"{name}.npz", labels=labels), tmp_path / name
        assert run("calibrate", source, "--method", method, "--out", out).exit_code == 0
        probs = np.load(out / "probabilities.npz")["probs"].tobytes()
        written.append((probs, (out / "calibrator.safetensors").read_bytes()))
    assert written[0] == written[1] == written[2]


def test_warnings_are_notes_on_stderr_and_stand_once(tmp_path):
    probs = gnncal.calibrators.softmax(example()["logits"])
    source = write_npz(tmp_path / "in.npz", logits=probs)
    result = run("calibrate", source, "--method", "ts", "--out", tmp_path / "out", "--json")
    notes = [line for line in result.stderr.splitlines() if "look like probabilities" in line]
    assert len(notes) == 1
    assert all(line.startswith("note: ") for line in result.stderr.splitlines())
    assert notes[0].removeprefix("note: ") in json.loads(result.stdout)["notes"]
    assert "note" not in run("evaluate", source).stdout


def test_results_replace_their_like_and_leave_other_files_alone(tmp_path):
    source, out = write_npz(tmp_path / "in.npz"), tmp_path / "out"
    assert run("calibrate", source, "--method", "ts", "--out", out).exit_code == 0
    (out / "mine.txt").write_text("mine")
    assert run("calibrate", source, "--out", out).exit_code == 0
    assert {p.name for p in out.iterdir()} == OUTPUTS | {"mine.txt", MARKER}
    assert (out / "mine.txt").read_text() == "mine"
    assert json.loads((out / "summary.json").read_text())["method"] == "structural"
    assert sorted(os.listdir(tmp_path)) == ["in.npz", "out"]


def test_an_existing_folder_may_be_a_volume_of_its_own(tmp_path, monkeypatch):
    source, out = write_npz(tmp_path / "in.npz"), tmp_path / "out"
    out.mkdir()
    rename = os.replace

    def rename_within_the_volume(old, new):
        if Path(old).is_relative_to(out) != Path(new).is_relative_to(out):
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        rename(old, new)

    monkeypatch.setattr(os, "replace", rename_within_the_volume)
    assert run("calibrate", source, "--method", "ts", "--out", out).exit_code == 0
    assert {p.name for p in out.iterdir()} == OUTPUTS | {MARKER}


def test_paths_are_printed_as_they_are(tmp_path):
    source, out = write_npz(tmp_path / "in.npz"), tmp_path / "[bold] :warning: [" / "x]"
    out.parent.mkdir()
    result = run("calibrate", source, "--method", "ts", "--out", out)
    assert f"written to {out}: " in result.stdout


def test_output_honours_the_umask(tmp_path):
    source, out = write_npz(tmp_path / "in.npz"), tmp_path / "out"
    before = os.umask(0o077)
    try:
        assert run("calibrate", source, "--method", "ts", "--out", out).exit_code == 0
    finally:
        os.umask(before)
    assert all(p.stat().st_mode & 0o077 == 0 for p in (out, *out.iterdir()))


def test_the_installed_program_calibrates_quietly(tmp_path):
    write_npz(tmp_path / "in.npz", node_ids=None)
    done = run_process("calibrate", "in.npz", "--method", "ts", "--out", "out", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert "…" not in done.stdout
    assert max(len(line.rstrip()) for line in done.stdout.splitlines()) <= 80


def test_the_installed_program_fails_in_one_line(tmp_path):
    done = run_process("calibrate", "absent.npz", "--out", "out", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: file or folder not found: absent.npz.\n"
    assert os.listdir(tmp_path) == []


def test_the_program_knows_its_version():
    assert run("--version").stdout == f"{gnncal.__version__}\n"


# --- sad paths


def assert_refused(result, message):
    assert result.exit_code == 2
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")
    assert message in line


@pytest.mark.parametrize("existing", [False, True])
@pytest.mark.parametrize("case", BAD_ARRAYS)
def test_a_bad_file_leaves_one_line_and_nothing_else(tmp_path, case, existing):
    changes, message = BAD_ARRAYS[case]
    source, out = write_npz(tmp_path / "in.npz", **changes), tmp_path / "out"
    if existing:
        out.mkdir()
    before = listing(tmp_path)
    assert_refused(run("calibrate", source, "--out", out, "--json"), message)
    assert_refused(run("evaluate", source), message)
    assert listing(tmp_path) == before
    assert out.exists() == existing


@pytest.mark.parametrize("case", BAD_TABLES)
def test_a_bad_folder_leaves_one_line_and_nothing_else(tmp_path, case):
    changes, message = BAD_TABLES[case]
    source, out = write_parquet(tmp_path / "in", **changes), tmp_path / "out"
    assert_refused(run("calibrate", source, "--out", out), message)
    assert os.listdir(tmp_path) == ["in"]


def test_a_bad_request_leaves_one_line_and_nothing_else(tmp_path):
    source, out = write_npz(tmp_path / "in.npz"), tmp_path / "out"
    (tmp_path / "short.npz").write_bytes(source.read_bytes()[:-200])
    labels = example()["labels"]
    labels[1] = -1
    hidden = write_npz(tmp_path / "hidden.npz", labels=labels)
    before = listing(tmp_path)
    for arguments, message in [
        ((tmp_path / "short.npz", "--out", out), "cannot be read as .npz"),
        ((hidden, "--out", out), "node 1 has -1"),
        ((source, "--out", out, "--method", "magic"), "unknown calibrator 'magic'"),
        ((source, "--out", source), "is a file"),
        ((source, "--out", tmp_path / "no" / "where"), "folder not found"),
        ((source, "--out", source / "below"), "folder not found"),
    ]:
        assert_refused(run("calibrate", *arguments), message)
        assert listing(tmp_path) == before
        assert not out.exists()


def test_evaluating_the_wrong_thing_leaves_one_line(tmp_path):
    source, other = write_npz(tmp_path / "in.npz"), write_npz(tmp_path / "b.npz", node_ids=None)
    probs = gnncal.calibrators.softmax(example()["logits"])
    np.savez(tmp_path / "short.npz", probs=probs[:-1])
    np.savez(tmp_path / "narrow.npz", probs=np.full((N, 2), 0.5))
    np.savez(tmp_path / "others.npz", probs=probs, node_ids=np.arange(N).astype(str))
    untested = write_npz(tmp_path / "untested.npz", test_mask=np.zeros(N, bool))
    for arguments, message in [
        ((source, "--probabilities", tmp_path / "short.npz"), "shape (119, 3) but"),
        ((other, "--probabilities", tmp_path / "narrow.npz"), "shape (120, 2) but"),
        ((source, "--probabilities", tmp_path / "others.npz"), "is not the id of a node"),
        ((source, "--probabilities", source), "no array 'probs'"),
        ((source, "--probabilities", tmp_path / "absent"), "file not found"),
        ((untested,), "no labelled test nodes"),
    ]:
        assert_refused(run("evaluate", *arguments), message)


def test_a_failure_while_writing_leaves_the_old_results(tmp_path, monkeypatch):
    source, out = write_npz(tmp_path / "in.npz"), tmp_path / "out"
    assert run("calibrate", source, "--method", "ts", "--out", out).exit_code == 0
    before = listing(tmp_path)

    def full_disk(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("gnncal.files.format.to_bytes", full_disk)
    assert_refused(run("calibrate", source, "--out", out), "No space left on device")
    assert listing(tmp_path) == before


def test_without_pyarrow_a_folder_leaves_one_line(tmp_path, monkeypatch):
    source = write_parquet(tmp_path / "in")
    for module in ("pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, module, None)
    assert_refused(run("calibrate", source, "--out", tmp_path / "out"), "gnncal[parquet]")
    assert os.listdir(tmp_path) == ["in"]


@pytest.mark.parametrize(
    ("verb", "default"),
    [(verb, DEFAULT_METHOD) for verb in ("calibrate", "decide", "scale")]
    + [("report", ",".join(DEFAULT_METHODS))],
)
def test_the_help_names_the_default_method(verb, default, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    shown = " ".join(run(verb, "--help").stdout.split())
    assert f"[default: {default}]" in shown
    assert "{" not in shown
