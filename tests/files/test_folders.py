"""What a list of files says about a folder, and what killed or simultaneous runs leave."""

import os
import subprocess
import sys

import pytest

from gnncal import GnncalWarning, InputError
from gnncal.files.folders import extended_folder, replaced_folder
from gnncal.files.markers import (
    MARKER,
    Made,
    describe,
    foreign_files,
    foreign_names,
    marker_text,
    read_marker,
)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def write(folder, text="ours", name="metrics.json"):
    with replaced_folder(folder) as work:
        (work / "result").mkdir()
        (work / "result" / name).write_text(text)


def test_a_folder_is_ours_by_its_listing_and_its_marker():
    made = {Made("a/part-0.parquet", 10, "0" * 64), Made("b.json", 2, None)}
    read = read_marker(marker_text(made).encode())
    assert read == made
    listing = {MARKER: 300, "a/part-0.parquet": 10, "b.json": 2}
    assert foreign_names(read, listing) == []
    assert foreign_names(read, {MARKER: 300, "b.json": 2}) == []  # a deleted file is no loss
    assert foreign_names(read, {**listing, "b.json": 3}) == ["b.json"]
    assert foreign_names(read, {**listing, "weights/model.pt": 9}) == ["weights/model.pt"]
    assert foreign_names(None, listing) == sorted(listing)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b"\xff",
        b'{"files": 1}',
        b"[" * 100_000,
        b'{"made_by": "gnncal"}',
    ],
)
def test_what_is_no_marker_is_read_as_none(content):
    assert read_marker(content) is None


def test_a_marker_that_was_changed_is_none():
    text = marker_text([Made("b.json", 2, None)])
    assert read_marker(text.encode()) is not None
    assert read_marker(text.replace("b.json", "c.json").encode()) is None


def test_links_pipes_and_empty_folders_are_never_ours(tmp_path):
    (tmp_path / "file").write_text("x")
    (tmp_path / MARKER).write_text(marker_text(describe(tmp_path)))
    assert foreign_files(tmp_path) == []
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "empty").mkdir()
    os.mkfifo(tmp_path / "pipe")
    assert foreign_files(tmp_path) == ["empty", "link", "pipe"]


def test_what_comes_into_a_folder_during_a_run_is_kept(tmp_path):
    write(tmp_path / "out", "old")

    def write_and_interfere():
        with replaced_folder(tmp_path / "out") as work:
            (work / "result").mkdir()
            (work / "result" / "metrics.json").write_text("new")
            (tmp_path / "out" / "mine.txt").write_text("mine")

    with pytest.warns(GnncalWarning, match=r"mine\.txt came into"):
        write_and_interfere()
    assert (tmp_path / "out" / "metrics.json").read_text() == "new"
    (kept,) = tmp_path.glob("out.earlier-*")
    assert (kept / "mine.txt").read_text() == "mine"


def test_the_mode_of_a_folder_stays(tmp_path):
    (tmp_path / "out").mkdir(mode=0o700)
    write(tmp_path / "out")
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o700


DIES = """
import os, sys
from pathlib import Path
from gnncal.files.folders import extended_folder, replaced_folder
kind = {"extended": extended_folder, "replaced": replaced_folder}[sys.argv[1]]
with kind(Path(sys.argv[2])) as work:
    (work / "half").write_text("half")
    os._exit(9)
"""


@pytest.mark.parametrize("kind", ["extended", "replaced"])
def test_what_a_killed_run_left_is_removed_and_nothing_of_the_same_name(tmp_path, kind):
    command = [sys.executable, "-c", DIES, kind, tmp_path / "out"]
    assert subprocess.run(command, check=False).returncode == 9
    (left,) = tmp_path.iterdir()
    for mine in (".out.partial", ".gnncal-mine", ".gnncal-0123456789abcdef"):
        (tmp_path / mine).mkdir()
        (tmp_path / mine / "lock").write_text("mine")
    with {"extended": extended_folder, "replaced": replaced_folder}[kind](tmp_path / "out") as work:
        assert not left.exists()
        (work / "result").mkdir()
    assert names(tmp_path) == [".gnncal-0123456789abcdef", ".gnncal-mine", ".out.partial", "out"]


KILLED_WHILE_MOVING = """
import os, sys
from pathlib import Path
from gnncal.files.folders import extended_folder

def write(text):
    with extended_folder(Path(sys.argv[1])) as staging:
        for name in ("a", "b"):
            (staging / name).write_text(text)

def replace_and_die(old, new):
    replace(old, new)
    if Path(new).name == "a":
        os._exit(9)

write("old")
replace, os.replace = os.replace, replace_and_die
write("new result")
"""


def test_files_that_a_killed_run_had_moved_still_count_as_ours(tmp_path):
    command = [sys.executable, "-c", KILLED_WHILE_MOVING, tmp_path / "out"]
    assert subprocess.run(command, check=False).returncode == 9
    assert (tmp_path / "out" / "a").read_text() == "new result"
    assert (tmp_path / "out" / "b").read_text() == "old"
    with extended_folder(tmp_path / "out", writes=("a", "b")) as staging:
        for name in ("a", "b"):
            (staging / name).write_text("newest")
    assert names(tmp_path / "out") == [MARKER, "a", "b"]
    assert foreign_files(tmp_path / "out") == []


def test_two_verbs_may_add_to_one_folder_at_the_same_time(tmp_path):
    with extended_folder(tmp_path / "out") as first, extended_folder(tmp_path / "out") as second:
        (first / "a").write_text("a")
        (second / "b").write_text("b")
    assert names(tmp_path / "out") == [MARKER, "a", "b"]
    assert foreign_files(tmp_path / "out") == []


def test_a_marker_of_somebody_else_is_not_replaced(tmp_path):
    (tmp_path / MARKER).write_text("mine")
    with pytest.raises(InputError, match=r"has \.gnncal\.json, which"), extended_folder(tmp_path):
        pass
    assert (tmp_path / MARKER).read_text() == "mine"
