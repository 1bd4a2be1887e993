"""A folder of results holds one result, whole, and nothing that was only on the way."""

import errno
import os
import signal
import subprocess
import sys

import pytest

from gnncal import InputError
from gnncal.cli.terminal import staged_folder
from gnncal.files.atomic import write_atomically
from gnncal.files.markers import MARKER
from tests.test_bundles import write_npz, write_parquet
from tests.test_cli import run


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_second_result_in_another_format_replaces_the_first(tmp_path):
    out, tables = tmp_path / "out", write_parquet(tmp_path / "in")
    arrays = write_npz(tmp_path / "in.npz")
    for source, written in ((arrays, "npz"), (tables, "parquet"), (arrays, "npz")):
        assert run("calibrate", source, "--method", "ts", "--out", out).exit_code == 0
        expected = [MARKER, "calibrator.safetensors", f"probabilities.{written}", "summary.json"]
        assert names(out) == expected
    assert run("apply", out / "calibrator.safetensors", tables, "--out", out).exit_code == 0
    assert names(out) == [MARKER, "calibrator.safetensors", "probabilities.parquet", "summary.json"]


def test_what_the_user_keeps_in_the_folder_stays(tmp_path):
    with staged_folder(tmp_path) as staging:
        (staging / "old.npz").write_text("old")
    (tmp_path / "mine.txt").write_text("mine")
    with staged_folder(tmp_path, removes=("old.npz",)) as staging:
        (staging / "new.npz").write_text("new")
    assert names(tmp_path) == [MARKER, "mine.txt", "new.npz"]


WAITING = """
import time
from pathlib import Path
from gnncal.__main__ import app, main
from gnncal.cli.terminal import friendly, staged_folder

def wait(target: Path):
    with staged_folder(target) as staging:
        (staging / "half.npz").write_text("half")
        print("ready", flush=True)
        time.sleep(60)

app.command()(friendly(wait))
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
    assert names(tmp_path) == (["out"] if exists else [])
    assert not exists or names(target) == []


def test_errors_name_the_folder_that_was_asked_for(tmp_path):
    with (
        pytest.raises(OSError, match="No space left") as caught,
        staged_folder(tmp_path) as staging,
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(staging / "summary.json"))
    assert caught.value.filename == str(tmp_path / "summary.json")
    assert ".gnncal-" not in str(caught.value)


def test_a_place_that_cannot_be_written_is_named_without_what_lies_on_the_way(tmp_path):
    source = write_npz(tmp_path / "in.npz")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "summary.json").mkdir()  # in the way of a file
    result = run("calibrate", source, "--method", "ts", "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "Errno" not in result.stderr
    assert "gnncal-" not in result.stderr
    assert f"{tmp_path / 'out'} has summary.json, which gnncal did not write" in result.stderr


def test_a_report_is_not_written_over_a_folder(tmp_path):
    with pytest.raises(InputError, match="is a folder; pass the file to write"):
        write_atomically(tmp_path, b"")
