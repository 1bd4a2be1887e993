"""A command that is told to stop, or has no room, says one sentence and leaves nothing behind."""

import os
import signal
import subprocess
import sys

import pytest

from tests.cli.terminal import run
from tests.test_bundles import example, write_npz

WAITING = """
import time
from pathlib import Path
from gnncal.__main__ import app, main
from gnncal.cli.terminal import with_error_messages
from gnncal.files.output import result_folder

def wait(target: Path):
    with result_folder(target, "wait") as result:
        (result / "summary.json").write_text("half")
        print("ready", flush=True)
        time.sleep(60)

app.command()(with_error_messages(wait))
main()
"""


@pytest.mark.parametrize("exists", [True, False])
def test_sigterm_leaves_nothing_behind(tmp_path, exists):
    target = tmp_path / "out"
    if exists:
        target.mkdir()
    command = [sys.executable, "-c", WAITING, "wait", str(target)]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL),  # ours may be ignored
    ) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 130
    assert [path.name for path in tmp_path.iterdir()] == (["out"] if exists else [])
    assert not exists or list(target.iterdir()) == []


FITTING = """
import os, signal, sys
from gnncal.__main__ import main
from gnncal.calibrators import TemperatureScaling

fit = TemperatureScaling._fit

def _fit(self, nodes):
    print("ready", flush=True)
    sys.stdin.readline()
    fit(self, nodes)

TemperatureScaling._fit = _fit
main()
"""


def fitting(inputs, target):
    """Start a command that waits for a line in the middle of its fit."""
    words = ["calibrate", str(inputs / "in.npz"), "--method", "ts", "--out", str(target)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process = subprocess.Popen([sys.executable, "-c", FITTING, *words], **pipes)
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.slow
@pytest.mark.parametrize("exists", [True, False])
def test_the_next_run_removes_the_empty_folders_of_killed_runs_only(tmp_path, inputs, exists):
    target = tmp_path / "out"
    words = ("calibrate", inputs / "in.npz", "--method", "ts", "--out", target)
    if exists:
        assert run(*words).exit_code == 0
    killed, busy = fitting(inputs, target), fitting(inputs, target)
    with killed, busy:
        killed.kill()
        killed.wait(timeout=30)
        assert len(left_in(tmp_path)) == 2
        assert run(*words).exit_code == 0
        assert len(left_in(tmp_path)) == 1
        busy.communicate("\n", timeout=60)
        assert busy.returncode == 0
    assert left_in(tmp_path) == []
    assert run(*words).exit_code == 0


def test_folders_that_killed_runs_did_not_make_or_fill_stay(tmp_path, inputs):
    for name in (".gnncal-mine", ".gnncal-0123456789abcdef"):
        (tmp_path / name).mkdir()
    (tmp_path / ".gnncal-aaaaaaaa" / "result").mkdir(parents=True)
    (tmp_path / ".gnncal-aaaaaaaa" / "temp").mkdir()
    (tmp_path / ".gnncal-aaaaaaaa" / "temp" / "edges").touch()
    (tmp_path / ".gnncal-bbbbbbbb").symlink_to(".gnncal-mine")
    (tmp_path / ".gnncal-cccccccc").touch()
    before = left_in(tmp_path)
    (tmp_path / ".gnncal-dddddddd" / "result" / "probabilities").mkdir(parents=True)
    (tmp_path / ".gnncal-eeeeeeee").mkdir()
    words = ("calibrate", inputs / "in.npz", "--method", "ts", "--out", tmp_path / "out")
    for _ in range(2):
        assert run(*words).exit_code == 0
        assert left_in(tmp_path) == before
    assert (tmp_path / ".gnncal-aaaaaaaa" / "result").is_dir()


def left_in(folder):
    return sorted(path.relative_to(folder) for path in folder.rglob(".gnncal-*"))


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    place = tmp_path_factory.mktemp("inputs")
    source = write_npz(place / "in.npz")
    write_npz(place / "new.npz", logits=2 * example()["logits"], node_ids=None)
    assert run("calibrate", source, "--method", "ts", "--out", place / "cal").exit_code == 0
    (place / "log.csv").write_text("prediction,confidence,label\n0,0.9,0\n")
    return place


VERBS = {
    "calibrate": "calibrate IN/in.npz --method ts --out OUT/o",
    "evaluate": "evaluate IN/in.npz",
    "report": "report IN/in.npz --methods ts --out OUT/o.html",
    "decide": "decide IN/in.npz --method ts --out OUT/o",
    "check": "check IN/cal/calibrator.safetensors IN/in.npz --page OUT/o.html",
    "watch": "watch IN/cal/calibrator.safetensors IN/log.csv --state OUT/o.json",
    "update": "update IN/cal/calibrator.safetensors IN/new.npz --out OUT/o",
    "apply": "apply IN/cal/calibrator.safetensors IN/in.npz --out OUT/o",
}
WRITES = [name for name in VERBS if name != "evaluate"]


def typed(verb, inputs, out):
    return VERBS[verb].replace("IN/", f"{inputs}/").replace("OUT/", f"{out}/").split()


def assert_one_sentence(result):
    assert result.exit_code == 2, result.output
    assert len([line for line in result.stderr.splitlines() if line]) == 1, result.stderr
    assert result.stderr.startswith("error: ")


@pytest.mark.parametrize("verb", VERBS)
def test_too_little_memory_is_one_sentence_in_every_verb(verb, inputs, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise MemoryError("Unable to allocate 4.5 GiB")

    out = tmp_path / "made"
    out.mkdir()
    reads = "gnncal.shift.log._new_rows" if verb == "watch" else "gnncal.files.bundle._read_arrays"
    monkeypatch.setattr(reads, fail)
    result = run(*typed(verb, inputs, out))
    assert_one_sentence(result)
    assert "not enough memory" in result.stderr
    assert list(out.iterdir()) == []


def test_a_mistake_of_the_program_is_not_hidden(inputs, monkeypatch):
    def fail(*_, **__):
        raise ZeroDivisionError

    monkeypatch.setattr("gnncal.files.bundle._read_arrays", fail)
    with pytest.raises(AssertionError):
        run("evaluate", inputs / "in.npz")


@pytest.mark.parametrize("verb", WRITES)
def test_a_read_only_folder_is_one_sentence_before_any_work(verb, inputs, tmp_path, monkeypatch):
    out = tmp_path / "made"
    out.mkdir()

    def work(*_, **__):
        raise AssertionError("it works already")

    monkeypatch.setattr("os.access", lambda path, mode: not mode & os.W_OK)
    reads = "gnncal.shift.log._new_rows" if verb == "watch" else "gnncal.files.bundle._read_arrays"
    monkeypatch.setattr(reads, work)
    result = run(*typed(verb, inputs, out))
    assert_one_sentence(result)
    assert "cannot be written to" in result.stderr
    assert list(out.iterdir()) == []


@pytest.mark.parametrize("verb", WRITES)
def test_a_full_disk_is_one_sentence(verb, inputs, tmp_path, monkeypatch):
    out = tmp_path / "made"
    out.mkdir()

    def full(self, content):
        self.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_bytes", full)
    result = run(*typed(verb, inputs, out))
    assert_one_sentence(result)
    assert "No space left on device" in result.stderr
    assert list(out.iterdir()) == []
