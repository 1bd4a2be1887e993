"""The program as a process: stopped in one line, quiet when its reader leaves, any encoding."""

import json
import os
import shlex
import signal
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from gnncal.__main__ import app
from gnncal.cli import terminal
from gnncal.cli.main import VERBS
from gnncal.decisions.scores import SCORES
from tests.scale.graphs import make_example
from tests.test_bundles import write_npz

PROGRAM = [sys.executable, "-m", "gnncal"]


def test_ctrl_c_ends_a_verb_with_one_line(capsys):
    def verb():
        raise KeyboardInterrupt

    with pytest.raises(typer.Exit) as ended:
        terminal.with_error_messages(verb)()
    assert ended.value.exit_code == 130
    assert capsys.readouterr() == ("", "stopped: interrupted\n")


@pytest.fixture(scope="module")
def program():
    return typer.main.get_command(app)


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_is_in_the_list_and_says_errors_in_one_line(name, program):
    context = typer.Context(program)
    listed = program.get_command(context, name)
    _, verb, _ = program.resolve_command(context, [name])
    assert verb.help.startswith(listed.help)
    assert len(f"  block-model  {listed.help}") <= 100
    wrapper = verb.callback.__wrapped__  # in that of Typer
    assert wrapper.__code__ is terminal.with_error_messages(lambda: None).__code__


@pytest.mark.parametrize("name", VERBS)
def test_the_examples_of_a_help_can_be_typed_and_fit(name, program):
    _, *examples = VERBS[name]
    for example in examples:
        typed, *words = shlex.split(example)
        assert typed == name
        assert len(f"    gnncal {example}") <= 100
        _, verb, rest = program.resolve_command(typer.Context(program), [name, *words])
        verb.make_context(name, rest)  # refuses options and arguments that are not there
        shown = CliRunner().invoke(app, [name, "-h"], env={"COLUMNS": "100"}).stdout
        assert f"gnncal {example}" in shown
        assert max(map(len, shown.splitlines())) <= 100


def test_only_the_document_is_on_stdout_with_json():
    program = typer.Typer()

    @program.command()
    @terminal.with_error_messages
    def verb(json: bool = False) -> None:
        print("from a calibrator")
        terminal.print_json({"a": 1})

    ended = CliRunner().invoke(program, ["--json"])
    assert json.loads(ended.stdout) == {"a": 1}
    assert ended.stderr == "from a calibrator\n"
    assert CliRunner().invoke(program, []).stderr == ""


def test_the_help_of_sets_names_every_score():
    text = CliRunner().invoke(app, ["sets", "--help"], terminal_width=200).stdout
    assert all(name in text for name in SCORES)


@pytest.mark.parametrize("words", [["methods"], ["methods", "--json"]])
def test_a_reader_that_leaves_ends_the_program_quietly(words):
    reader, writer = os.pipe()
    os.close(reader)  # before the first byte, as `| true` does
    try:
        done = subprocess.run(
            [*PROGRAM, *words], stdout=writer, stderr=subprocess.PIPE, text=True, timeout=300
        )
    finally:
        os.close(writer)
    assert done.stderr == ""
    assert done.returncode != 0


def test_what_an_encoding_lacks_is_printed_with_its_number(tmp_path):
    source = write_npz(tmp_path / "in.npz")
    out = os.fsencode(tmp_path) + b"/caf\xe9"
    done = subprocess.run(
        [*PROGRAM, "calibrate", str(source), "--method", "ts", "--out", out],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert rb"caf\udce9" in done.stdout


WITHOUT_UNIX = """
import signal
for name in ("SIGPIPE", "SIGHUP", "SIGALRM", "SIGKILL"):
    delattr(signal, name)
import gnncal.__main__
"""


def test_the_command_line_imports_where_unix_signals_are_missing():
    subprocess.run([sys.executable, "-c", WITHOUT_UNIX], check=True, timeout=300)


SCALE = """
import os, signal, threading
from gnncal.__main__ import main
from gnncal.scale.local import DuckDB

LONG = "SELECT sum(sqrt(range)) AS s FROM range(1000000000000)"

def load(self, *_, **__):  # the signal comes in the middle of a query without an end
    threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGTERM)).start()
    return self._fetch(LONG)

DuckDB.load = load
main()
"""


@pytest.mark.slow
def test_a_query_is_stopped_and_the_work_folder_removed(tmp_path):
    pytest.importorskip("duckdb", reason="pip install 'gnncal[scale]' to test this")
    files = make_example(n_nodes=100).write(tmp_path)
    command = [sys.executable, "-c", SCALE, "scale", *map(str, files), "--out", tmp_path / "out"]
    ended = subprocess.run(
        [*command, "--threads", "1"],
        capture_output=True,
        text=True,
        timeout=300,
        preexec_fn=lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL),  # whatever ours is
    )
    assert ended.stderr == "stopped: interrupted\n"
    assert ended.returncode == 130
    assert sorted(file.name for file in tmp_path.iterdir()) == ["edges.parquet", "nodes.parquet"]
