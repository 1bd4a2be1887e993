"""The program ends quietly when its reader leaves, and speaks in any encoding."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_bundles import write_npz

PROGRAM = [sys.executable, "-m", "gnncal"]
ASCII_LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def environment(**changes):
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONIOENCODING", "PYTHONUTF8")}
    return {**kept, "OMP_NUM_THREADS": "1", **changes}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return write_npz(tmp_path_factory.mktemp("streams") / "in.npz")


def words(text, source, tmp_path):
    return [
        w.replace("INPUT", str(source)).replace("OUT", str(tmp_path / "o")) for w in text.split()
    ]


@pytest.mark.parametrize(
    "text",
    [
        "--help",
        "--version",
        "methods",
        "methods --json",
        "evaluate INPUT",
        "evaluate INPUT --json",
        "calibrate INPUT --method ts --out OUT",
        "decide INPUT --method ts --target 0.6 --out OUT",
        "decide INPUT --method ts --target 0.6 --out OUT --json",
    ],
)
def test_a_reader_that_leaves_ends_the_program_quietly(text, source, tmp_path):
    reader, writer = os.pipe()
    os.close(reader)  # before the first byte, as `| true` does
    try:
        done = subprocess.run(
            [*PROGRAM, *words(text, source, tmp_path)],
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        )
    finally:
        os.close(writer)
    assert done.stderr == "" or done.stderr.startswith("note: ")
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr
    assert done.returncode == 128 + signal.SIGPIPE  # what a shell says of `yes | head -1`
    if "OUT" in text:
        assert (tmp_path / "o" / "summary.json").is_file()


@pytest.mark.parametrize("setting", [{"PYTHONIOENCODING": "ascii"}, ASCII_LOCALE])
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("evaluate INPUT", "------"),
        ("csbm attenuation --quick --seeds 2 --out OUT", "tau"),
        ("decide INPUT --method ts --target 0.3 --confidence-level 0.5 --out OUT", "naive fish"),
    ],
)
def test_an_ascii_terminal_gets_plain_signs(text, shown, setting, source, tmp_path):
    with (tmp_path / "stdout").open("wb") as stdout:
        done = subprocess.run(
            [*PROGRAM, *words(text, source, tmp_path)],
            stdout=stdout,
            stderr=subprocess.PIPE,
            env=environment(**setting),
        )
    assert done.returncode == 0, done.stderr.decode()
    printed = (tmp_path / "stdout").read_bytes()
    assert printed.isascii()
    assert shown in printed.decode()


def test_a_name_that_is_no_text_is_printed_with_its_numbers(source, tmp_path):
    out = os.fsencode(tmp_path) + b"/caf\xe9"
    command = [*PROGRAM, "calibrate", str(source), "--method", "ts", "--out", out]
    done = subprocess.run(command, capture_output=True, env=environment(PYTHONUTF8="1"))
    assert done.returncode == 0, done.stderr.decode()
    assert rb"caf\udce9" in done.stdout
    assert os.path.exists(out + b"/summary.json")


def test_known_signs_have_an_ascii_form_and_others_their_number():
    from gnncal.cli.streams import write_plainly

    assert "h̃ ± 0.5 ≤ √K², ĥ – Γ(σ)".encode("ascii", write_plainly.__name__) == (
        b"h~ +- 0.5 <= sqrt K^2, h - Gamma(sigma)"
    )
    assert "½ 猫 \udce9".encode("ascii", write_plainly.__name__) == rb"\xbd \u732b \udce9"


@pytest.mark.parametrize("way", ["file", "pipe"])
def test_a_page_on_stdout_is_the_only_thing_there(way, source, tmp_path):
    command = [*PROGRAM, "report", str(source), "--methods", "ts", "--out", "/dev/stdout"]
    if not Path("/dev/stdout").exists():
        pytest.skip("this system has no /dev/stdout")
    pipes = {"stderr": subprocess.PIPE, "env": environment()}
    if way == "pipe":
        done = subprocess.run(command, stdout=subprocess.PIPE, **pipes)
        page = done.stdout
    else:
        with (tmp_path / "page.html").open("wb") as file:
            file.write(b"before\n")
            file.flush()
            done = subprocess.run(command, stdout=file, **pipes)
            file.write(b"after\n")
        page = (tmp_path / "page.html").read_bytes()
        assert page.startswith(b"before\n")
        assert page.endswith(b"after\n")
        page = page[7:-6]
    assert done.returncode == 0
    assert page.startswith(b"<!doctype html>")
    assert page.rstrip().endswith(b"</html>")
    assert b"written to /dev/stdout" in done.stderr
