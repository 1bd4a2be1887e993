"""What strangers wrote never controls the terminal: names of classes, files, columns, members."""

import re

import numpy as np
import pytest

from tests.cli.terminal import run
from tests.test_bundles import write_npz

BAD = "\x1b]0;owned\x07\x1b[31m\x9b2J\u202eevil\u2066\r"
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
NAMES = [f"cat{BAD}", "dog", "eel"]


def assert_harmless(result, *, exit_code, shows="owned"):
    assert result.exit_code == exit_code, result.output
    said = result.stdout + result.stderr
    assert CONTROL.search(said) is None, repr(said)
    assert shows in said


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    place = tmp_path_factory.mktemp("names")
    source = write_npz(place / "in.npz", class_names=np.array(NAMES))
    done = run("calibrate", source, "--out", place / "out", "--positive", "0")
    assert_harmless(done, exit_code=0)
    return place


def test_names_of_classes(fitted, tmp_path):
    calibrator = fitted / "out" / "calibrator.safetensors"
    other = write_npz(tmp_path / "other.npz")
    assert_harmless(run("apply", calibrator, other, "--out", tmp_path / "a"), exit_code=2)
    assert_harmless(run("evaluate", fitted / "in.npz", "--positive", "0"), exit_code=0)
    given = ("--accuracy", "0.5", "--out", tmp_path / "d")
    assert run("decide", fitted / "in.npz", *given).exit_code in (0, 3)
    log = tmp_path / "log.csv"
    log.write_text("p0,p1,p2,label\n0.2,0.5,0.3,1\n")
    watched = run("watch", calibrator, log, "--positive", "0")
    assert_harmless(watched, exit_code=0)
    log.write_text("p0,p1,p2,label\n0.2,0.5,0.3,ox\n")
    again = run("watch", calibrator, log, "--state", tmp_path / "s.json")
    assert_harmless(again, exit_code=2)


def test_names_of_files(fitted, tmp_path):
    folder = tmp_path / BAD
    done = run("calibrate", fitted / "in.npz", "--out", folder)
    assert_harmless(done, exit_code=0)
    assert len(list(tmp_path.iterdir())) == 1
    calibrator = tmp_path / f"[b]{BAD}.safetensors"
    calibrator.write_bytes((fitted / "out" / "calibrator.safetensors").read_bytes())
    assert_harmless(run("apply", calibrator, folder / "no.npz", "--out", tmp_path), exit_code=2)
    done = run("apply", calibrator, fitted / "in.npz", "--out", tmp_path / "x")
    assert_harmless(done, exit_code=0, shows="written to")
    assert_harmless(run("calibrate", tmp_path / BAD / "no", "--out", tmp_path), exit_code=2)


def test_members_and_logs(fitted, tmp_path):
    np.savez(tmp_path / "in.npz", **{BAD: np.zeros(3)})
    done = run("calibrate", tmp_path / "in.npz", "--out", tmp_path / "o")
    assert_harmless(done, exit_code=2)
    log = tmp_path / "log.csv"
    log.write_text(f"{BAD.strip()},p0\n")
    calibrator = fitted / "out" / "calibrator.safetensors"
    assert_harmless(run("watch", calibrator, log), exit_code=2)


def test_json_stays_json_and_harmless(fitted, tmp_path):
    done = run("calibrate", fitted / "in.npz", "--out", tmp_path / "o", "--json")
    assert_harmless(done, exit_code=0)
