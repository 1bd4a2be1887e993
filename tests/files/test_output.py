"""Results never take the place of what is not ours, and a folder of results changes as one."""

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import gnncal
from gnncal import InputError
from gnncal.files import output
from gnncal.files.output import (
    MARKER,
    check_finished,
    is_own_file,
    is_sealed,
    read_marker,
    result_folder,
    seal,
    write_file,
)
from tests.gnncal_lab.bench.graphs import frozen_bundle

OURS = seal("<!doctype html>\n")
PRECIOUS = b"years of work, made by gnncal"


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def write(folder, text, files=("calibrator.safetensors", "summary.json"), command="c", **options):
    with result_folder(folder, command, **options) as result:
        for name in files:
            (result / name).parent.mkdir(exist_ok=True)
            (result / name).write_text(text)


def contents(folder):
    files = (path for path in folder.iterdir() if path.is_file() and path.name != MARKER)
    return {path.name: path.read_bytes().decode(errors="replace") for path in files}


# Single files


@pytest.mark.parametrize("plain", ['{"a": 1}', "<p>a page</p>"])
def test_a_seal_proves_the_content_and_every_changed_byte_breaks_it(plain, tmp_path):
    sealed = seal(plain)
    assert is_sealed(sealed)
    (tmp_path / "file").write_bytes(sealed)
    assert is_own_file(tmp_path / "file")
    for place in range(len(plain) - 1):
        broken = sealed[:place] + bytes([sealed[place] ^ 1]) + sealed[place + 1 :]
        assert not is_sealed(broken)
    assert not is_sealed(sealed + b"mine")


def test_sealed_json_is_still_read():
    assert json.loads(seal('{"a": 1}'))["a"] == 1


@pytest.mark.slow
def test_a_model_for_onnx_or_torch_is_replaced_only_if_that_is_asked_for(tmp_path):
    torch = pytest.importorskip("torch")
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxscript")
    from gnncal.torch import export

    bundle = frozen_bundle(0)
    module = gnncal.calibrators.TemperatureScaling().fit(bundle.logits, bundle.labels).to_torch()
    for name in ("c.onnx", "c.pt2"):
        export(module, tmp_path / name)
        with pytest.raises(InputError, match="does not replace it"):
            export(module, tmp_path / name)
        export(module, tmp_path / name, overwrite=True)
    assert "gnncal" in {prop.key for prop in onnx.load(tmp_path / "c.onnx").metadata_props}
    torch.export.load(tmp_path / "c.pt2")


def test_a_users_file_that_speaks_of_gnncal_is_not_replaced(tmp_path):
    bundle = frozen_bundle(0)
    fitted = gnncal.calibrators.TemperatureScaling().fit(bundle.logits, bundle.labels)
    path = tmp_path / "model.safetensors"
    fitted.save(path)
    fitted.save(path)
    for mine in (
        PRECIOUS,
        b'{"__metadata__":{"gnncal":',
        b'<meta name="generator" content="gnncal ',
    ):
        path.write_bytes(mine)
        with pytest.raises(InputError, match="does not replace it"):
            fitted.save(path)
        assert path.read_bytes() == mine
    write_file(path, OURS, overwrite=True)
    assert names(tmp_path) == ["model.safetensors"]


def test_an_empty_file_is_filled_a_link_followed_and_a_device_refused(tmp_path):
    (tmp_path / "real").touch()
    (tmp_path / "link").symlink_to("real")
    write_file(tmp_path / "link", OURS)
    assert (tmp_path / "real").read_bytes() == OURS
    assert (tmp_path / "link").is_symlink()
    for overwrite in (False, True):
        with pytest.raises(InputError, match="is a pipe or a device"):
            write_file(Path(os.devnull), OURS, overwrite=overwrite)


def test_modes_of_new_and_of_replaced_files(tmp_path):
    before = os.umask(0o027)
    try:
        write_file(tmp_path / "new", OURS)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    (tmp_path / "new").chmod(0o604)
    write_file(tmp_path / "new", OURS)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o604


def test_a_tilde_and_a_folder_are_no_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="begins with a tilde"):
        write_file(Path("~/report.html"), OURS)
    with pytest.raises(InputError, match="is a folder; pass the file to write"):
        write_file(tmp_path, OURS)
    assert names(tmp_path) == []


# Folders


def test_a_folder_is_new_or_empty_or_ours(tmp_path):
    (tmp_path / "empty").mkdir(mode=0o700)
    for folder in ("new", "empty", "new", "empty"):
        write(tmp_path / folder, "x")
        assert names(tmp_path / folder) == [MARKER, "calibrator.safetensors", "summary.json"]
    assert stat.S_IMODE((tmp_path / "empty").stat().st_mode) == 0o700
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_bytes(PRECIOUS)
    with pytest.raises(InputError, match=r"has thesis\.tex and no \.gnncal\.json of gnncal"):
        write(tmp_path / "mine", "x")
    assert names(tmp_path / "mine") == ["thesis.tex"]


def test_a_folder_holds_one_result_and_what_the_user_put_beside_it(tmp_path):
    write(
        tmp_path / "out", "old", ("decisions.npz", "summary.json", "probabilities/part-1.parquet")
    )
    (tmp_path / "out" / "notes.md").write_bytes(PRECIOUS)
    write(tmp_path / "out", "new", ("summary.json", "probabilities.npz"))
    assert names(tmp_path / "out") == [MARKER, "notes.md", "probabilities.npz", "summary.json"]
    assert set(read_marker(tmp_path / "out").files) == {"summary.json", "probabilities.npz"}


def test_the_result_of_another_command_is_replaced_only_if_that_is_asked_for(tmp_path):
    write(tmp_path / "out", "old", command="calibrate")
    with pytest.raises(InputError, match=r"has the result of gnncal 'calibrate'; .* --overwrite"):
        write(tmp_path / "out", "new", command="decide")
    write(tmp_path / "out", "new", ("decisions.npz",), command="decide", overwrite=True)
    assert contents(tmp_path / "out") == {"decisions.npz": "new"}


def test_a_result_that_changed_since_is_replaced_only_if_that_is_asked_for(tmp_path):
    write(tmp_path / "out", "xxx", ("probabilities.npz",))
    (tmp_path / "out" / "probabilities.npz").write_text("yxx")
    with pytest.raises(InputError, match=r"probabilities\.npz, which gnncal did not write or"):
        write(tmp_path / "out", "new", ("probabilities.npz",))
    assert contents(tmp_path / "out") == {"probabilities.npz": "yxx"}
    write(tmp_path / "out", "new", ("probabilities.npz",), overwrite=True)
    assert contents(tmp_path / "out") == {"probabilities.npz": "new"}


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "file"])
@pytest.mark.parametrize("name", ["summary.json", "probabilities", "probabilities/mine.txt"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_what_stands_in_the_way_of_a_result_stays(tmp_path, kind, name, overwrite):
    write(tmp_path / "out", "old", ("metrics.json",))
    path = tmp_path / "out" / name
    path.parent.mkdir(exist_ok=True)
    if kind == "folder" and name == "probabilities":
        path /= "inner"
    {
        "link": lambda: path.symlink_to(tmp_path),
        "pipe": lambda: os.mkfifo(path),
        "folder": lambda: path.mkdir(parents=True),
        "file": lambda: path.write_bytes(PRECIOUS),
    }[kind]()
    files = ("summary.json", "probabilities/part-0.parquet")
    with pytest.raises(InputError, match="which gnncal did not write"):
        write(tmp_path / "out", "new", files, overwrite=overwrite)
    assert os.path.lexists(path)
    assert (tmp_path / "out" / "metrics.json").read_text() == "old"


def test_a_marker_authorises_nothing_outside_its_folder_and_nothing_that_changed(tmp_path):
    write(tmp_path / "out", "old")
    for path in (tmp_path / "x", tmp_path / "out" / "thesis.tex"):
        path.write_bytes(PRECIOUS)
    marker = read_marker(tmp_path / "out")
    marker.files["../x"] = output.digest_of(tmp_path / "x")
    (tmp_path / "out" / MARKER).write_bytes(marker.to_bytes())
    write(tmp_path / "out", "new", ("metrics.json",))
    assert names(tmp_path / "out") == [MARKER, "metrics.json", "thesis.tex"]
    assert (tmp_path / "x").read_bytes() == PRECIOUS
    marker = read_marker(tmp_path / "out")
    marker.files["thesis.tex"] = marker.files["metrics.json"]
    (tmp_path / "out" / MARKER).write_bytes(marker.to_bytes())
    with pytest.raises(InputError, match=r"thesis\.tex, which gnncal did not write or"):
        write(tmp_path / "out", "newer")


FORGED = {
    "nothing": b"",
    "no object": b"[]",
    "no Unicode": b"\xff",
    "deep": b"[" * 100_000,
    "no state": b'{"made_by": "gnncal", "files": {}}',
    "an infinite size": b'{"made_by": "gnncal", "command": "c", "state": "finished", '
    b'"files": {"summary.json": Infinity}}',
    "a number of files": b'{"made_by": "gnncal", "command": "c", "state": "x", "files": 1e999}',
    "a list of files": b'{"made_by": "gnncal", "command": "c", "state": "finished", "files": [[]]}',
    "another program": b'{"made_by": "x", "command": "c", "state": "finished", "files": {}}',
}


@pytest.mark.parametrize("content", FORGED.values(), ids=FORGED)
def test_a_forged_marker_is_none(tmp_path, content):
    (tmp_path / MARKER).write_bytes(content)
    assert read_marker(tmp_path) is None
    with pytest.raises(InputError, match=r"no \.gnncal\.json of gnncal"):
        write(tmp_path, "x")
    assert (tmp_path / MARKER).read_bytes() == content


def test_a_marker_that_is_a_pipe_hangs_nobody(tmp_path):
    os.mkfifo(tmp_path / MARKER)
    check_finished(tmp_path / "summary.json")
    with pytest.raises(InputError, match=r"no \.gnncal\.json of gnncal"):
        write(tmp_path, "x")


class KilledError(BaseException):
    """What stands for a kill: nothing is tidied up."""


@pytest.mark.parametrize("moment", range(5))
def test_killed_between_two_renames_readers_notice_and_the_next_run_repairs(
    tmp_path, monkeypatch, moment
):
    bundle = frozen_bundle(0)
    fitted = gnncal.calibrators.TemperatureScaling().fit(bundle.logits, bundle.labels)
    out, own = tmp_path / "out", {"old": "policy.safetensors", "new": "conformal.safetensors"}

    def save(text):
        with result_folder(out, "c") as result:
            fitted.save(result / "calibrator.safetensors")
            for name in ("probabilities.npz", "summary.json", own[text]):
                (result / name).write_text(text)

    save("old")
    replace, moves = os.replace, []

    def dies(source, target):
        if Path(target).parent == out:
            if len(moves) == moment + 1:
                raise KilledError
            moves.append(target)
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(output.os, "replace", dies)
        with pytest.raises(KilledError):
            save("new")
    assert moves
    with pytest.raises(InputError, match="belongs to a result that is unfinished"):
        gnncal.load(out / "calibrator.safetensors")
    save("new")
    gnncal.load(out / "calibrator.safetensors")
    assert contents(out).keys() == {
        *("calibrator.safetensors", own["new"], "probabilities.npz", "summary.json")
    }
    assert contents(out)["summary.json"] == "new"
    assert names(tmp_path) == ["out"]


DIES = """
import os, signal, sys
from pathlib import Path
from gnncal.files.output import result_folder
with result_folder(Path(sys.argv[1]), "c") as result:
    (result / "summary.json").write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("exists", [False, True])
def test_what_a_killed_run_left_is_no_result_and_the_next_run_names_it(tmp_path, exists):
    if exists:
        write(tmp_path / "out", "old")
    command = [sys.executable, "-c", DIES, tmp_path / "out"]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert not exists or contents(tmp_path / "out")["summary.json"] == "old"
    (left,) = tmp_path.rglob(f"{output.WORK}*")
    with pytest.warns(gnncal.GnncalWarning, match=left.name):
        write(tmp_path / "out", "new")
    assert contents(tmp_path / "out")["summary.json"] == "new"
    assert (left / "result" / "summary.json").read_text() == "half"


def test_a_block_that_fails_leaves_the_earlier_result_and_nothing_else(tmp_path):
    write(tmp_path / "out", "old")

    def fail(folder):
        with result_folder(folder, "c") as result:
            (result / "summary.json").write_text("half")
            raise ZeroDivisionError

    for folder in ("out", "new"):
        with pytest.raises(ZeroDivisionError):
            fail(tmp_path / folder)
    assert names(tmp_path) == ["out"]
    assert names(tmp_path / "out") == [MARKER, "calibrator.safetensors", "summary.json"]
    check_finished(tmp_path / "out" / "summary.json")


def test_a_full_disk_is_said_of_the_folder_that_was_asked_for(tmp_path):
    def fill(name):
        with result_folder(tmp_path / "out", "c") as result:
            raise OSError(28, "No space left on device", name and str(result / name))

    for name in (None, "summary.json"):
        with pytest.raises(OSError, match="No space left") as caught:
            fill(name)
        assert str(tmp_path / "out") in str(caught.value.filename)
        assert ".gnncal" not in str(caught.value)


def test_a_marker_says_which_files_a_command_wrote(tmp_path):
    write(tmp_path / "out", "x")
    marker = json.loads((tmp_path / "out" / MARKER).read_text())
    assert (marker["made_by"], marker["command"], marker["state"]) == ("gnncal", "c", "finished")
    assert marker["files"] == read_marker(tmp_path / "out").files
