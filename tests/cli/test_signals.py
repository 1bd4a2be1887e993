"""Ctrl-C and SIGTERM end every verb with one line, the usual status, and nothing half-written."""

import os
import signal
import subprocess
import sys

import pytest
import typer

from gnncal.__main__ import app
from gnncal.cli import terminal
from gnncal.cli.signals import ending_on_signals, stopped_in_one_line
from gnncal_lab.commands import bench
from tests.scale.graphs import make_example

ENDINGS = [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]


@pytest.mark.parametrize(("number", "status", "word"), ENDINGS)
def test_a_signal_ends_a_verb_with_one_line_whatever_it_was_turned_into(
    number, status, word, capsys
):
    def verb():
        try:
            os.kill(os.getpid(), number)
        except BaseException:
            raise RuntimeError("Query interrupted") from None  # as DuckDB does

    with pytest.raises(typer.Exit) as ended:
        terminal.friendly(verb)()
    assert ended.value.exit_code == status
    assert capsys.readouterr().err == f"stopped: {word}\n"


def test_an_interruption_that_another_handler_raised_is_one_too(capsys):
    with pytest.raises(typer.Exit) as ended, stopped_in_one_line():
        raise KeyboardInterrupt  # Spark has a handler of its own
    assert ended.value.exit_code == 130


def test_errors_without_a_signal_pass(capsys):
    with pytest.raises(ZeroDivisionError), stopped_in_one_line():
        raise ZeroDivisionError
    assert capsys.readouterr().err == ""


def test_every_verb_is_stopped_in_one_line():
    verbs = [*app.registered_commands, *bench.app.registered_commands]
    assert len(verbs) > 10
    for verb in verbs:
        assert verb.callback.__wrapped__ is not None  # made by `friendly`
        assert verb.callback.__code__ is terminal.friendly(lambda: None).__code__


def test_handlers_are_put_back_and_those_of_others_stay():
    def own(number, frame):
        """A handler of the program that uses this one."""

    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGTERM, own)
    try:
        with ending_on_signals():
            assert signal.getsignal(signal.SIGTERM) is own
            assert signal.getsignal(signal.SIGINT) is not before[1]
    finally:
        signal.signal(signal.SIGTERM, before[0])
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


SCALE = """
import os, signal, sys, threading
# A shell starts what runs in the background with SIGINT ignored, and programs heed that.
signal.signal(signal.SIGINT, signal.default_int_handler)
from gnncal.__main__ import app
from gnncal.scale.engines import DuckDB

number = int(sys.argv.pop())
LONG = "SELECT sum(sqrt(range)) AS s FROM range(1000000000000)"

def keep(self, name, expression):  # the signal comes in the middle of a query without an end
    threading.Timer(0.2, lambda: os.kill(os.getpid(), number)).start()
    return self.fetch(self.connection.sql(LONG, schema={"s": "float64"}))

DuckDB.keep = keep
app()
"""


@pytest.mark.parametrize(("number", "status", "word"), ENDINGS)
def test_a_query_is_stopped_and_the_work_folder_removed(number, status, word, tmp_path):
    pytest.importorskip("duckdb", reason="pip install 'gnncal[scale]' to test this")
    files = make_example(n_nodes=100).write(tmp_path)
    command = [sys.executable, "-c", SCALE, "scale", *files, "--out", tmp_path / "out"]
    ended = subprocess.run(
        [*map(str, command), "--threads", "1", str(int(number))],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.stderr == f"stopped: {word}\n"
    assert ended.returncode == status
    assert sorted(file.name for file in tmp_path.iterdir()) == ["edges.parquet", "nodes.parquet"]
