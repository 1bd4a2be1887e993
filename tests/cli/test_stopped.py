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
