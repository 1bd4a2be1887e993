"""Output appears under its name only when complete, whatever kills a run."""

import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow.parquet as pq
import pytest

from gnncal import InputError
from gnncal.scale import calibrate, read_summary
from gnncal.scale.staging import staged_result
from tests.scale.graphs import make_example

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
N_KILLS = 10
FORKING_SERVER = """
import os, sys, warnings
from gnncal.scale import calibrate
import duckdb, ibis.backends.duckdb
warnings.simplefilter("ignore")
for line in sys.stdin:  # each line asks for a process that calibrates again and again
    child = os.fork()
    if child == 0:
        while True:
            for method in ("ts", "hots"):
                calibrate(*sys.argv[1:], method=method, threads=1)
    print(child, flush=True)
    os.waitpid(child, 0)
    print("ended", flush=True)
"""


class StopError(Exception):
    """Ends a run in the middle."""


def start_and_stop(out):
    """What the next run does before it starts clean."""
    with staged_result(out) as work:
        assert [file.name for file in work.iterdir()] == ["lock"]
        raise StopError


def whole_result(folder):
    """The method of a result that is complete and of one piece."""
    summary = read_summary(folder)
    table = pq.read_table(folder / "probabilities")
    assert sorted(table["id"].to_pylist()) == list(range(summary.n_nodes))
    temperature = table["temperature"].to_numpy()
    assert (np.ptp(temperature) == 0) == (summary.method == "ts")  # no file of another run
    assert (folder / "calibrator.safetensors").is_file()
    return summary.method


def test_killed_at_ten_random_points_nothing_is_lost_or_mixed(tmp_path):
    nodes, edges = make_example(n_nodes=2000).write(tmp_path / "in")
    out, rng = tmp_path / "out", random.Random(0)
    calibrate(nodes, edges, out, method="ts")
    command = [sys.executable, "-c", FORKING_SERVER, nodes, edges, out]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, bufsize=1, **pipes) as server:
        for _ in range(N_KILLS):
            server.stdin.write("run\n")
            child = int(server.stdout.readline())
            time.sleep(rng.uniform(0.0, 1.0))  # runs follow each other, so any moment will do
            os.kill(child, signal.SIGKILL)
            assert server.stdout.readline() == "ended\n"
            with pytest.raises(StopError):
                start_and_stop(out)
            whole_result(out)
            assert sorted(file.name for file in tmp_path.iterdir()) == ["in", "out"]
        server.stdin.close()


def test_a_run_that_fails_leaves_the_earlier_result_and_nothing_else(tmp_path):
    nodes, edges = make_example(n_nodes=200).write(tmp_path)
    calibrate(nodes, edges, tmp_path / "out", method="ts")
    with pytest.raises(StopError):
        start_and_stop(tmp_path / "out")
    assert whole_result(tmp_path / "out") == "ts"
    left = {file.name for file in tmp_path.iterdir()}
    assert left == {"nodes.parquet", "edges.parquet", "out"}


DIES_WHILE_REPLACING = """
import os, sys
from pathlib import Path
from gnncal.scale.staging import staged_result

def write(text):
    with staged_result(Path(sys.argv[1])) as work:
        (work / "result").mkdir()
        (work / "result" / "metrics.json").write_text(text)

def rename_and_die(*names):
    rename(*names)
    if Path(names[1]).name == "earlier":
        os._exit(9)

write("old")
rename, os.rename = os.rename, rename_and_die
write("new")
"""


def test_an_earlier_result_comes_back_if_a_run_was_killed_while_replacing_it(tmp_path):
    command = [sys.executable, "-c", DIES_WHILE_REPLACING, tmp_path / "out"]
    assert subprocess.run(command, check=False).returncode == 9
    assert not (tmp_path / "out").exists()
    with pytest.raises(StopError):
        start_and_stop(tmp_path / "out")
    assert (tmp_path / "out" / "metrics.json").read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["out"]


DIES_WITHOUT_LOCK = """
import os, sys
from pathlib import Path
from gnncal.scale.staging import staged_result

def unlink_and_die(name, *rest, **more):
    unlink(name, *rest, **more)
    if Path(name).name == "lock" and any(work.iterdir()):
        os._exit(9)

with staged_result(Path(sys.argv[1])) as work:
    for number in range(20):
        (work / f"table{number}").write_text("large")
    (work / "result").mkdir()
    unlink, os.unlink = os.unlink, unlink_and_die
"""


def test_a_run_that_is_killed_while_it_tidies_up_leaves_nothing_for_ever(tmp_path):
    command = [sys.executable, "-c", DIES_WITHOUT_LOCK, tmp_path / "out"]
    subprocess.run(command, check=False)
    with pytest.raises(StopError):
        start_and_stop(tmp_path / "out")
    assert [file.name for file in tmp_path.iterdir()] == ["out"]


def test_two_runs_do_not_write_to_one_folder(tmp_path):
    with staged_result(tmp_path / "out") as work:
        (work / "result").mkdir()
        with pytest.raises(InputError, match="another run"), staged_result(tmp_path / "out"):
            pass
        assert work.is_dir()
    assert (tmp_path / "out").is_dir()


def test_a_folder_with_other_files_is_never_replaced(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="other files"), staged_result(tmp_path / "out"):
        pass
    assert [file.name for file in tmp_path.rglob("*")] == ["out", "thesis.tex"]
