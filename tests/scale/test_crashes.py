"""Output appears under its name only when complete, whatever kills a run."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow.parquet as pq
import pytest

import gnncal
from gnncal import InputError
from gnncal.files.output import read_marker, result_folder
from gnncal.scale import calibrate
from tests.scale.graphs import make_example

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
N_KILLS = 10
FORKING_SERVER = """
import os, sys, warnings
from gnncal import InputError
from gnncal.files.output import read_marker
from gnncal.scale import calibrate
import duckdb, pyarrow
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
    with result_folder(out, "scale") as result:
        assert [file.name for file in result.parent.iterdir()] == ["result"]
        raise StopError


def whole_result(folder):
    """The method of a result that is complete and of one piece."""
    summary = json.loads((folder / "metrics.json").read_text())
    table = pq.read_table(folder / "probabilities")
    assert sorted(table["id"].to_pylist()) == list(range(summary["n_nodes"]))
    temperature = table["temperature"].to_numpy()
    assert (np.ptp(temperature) == 0) == (summary["method"] == "ts")  # no file of another run
    assert (folder / "calibrator.safetensors").is_file()
    return summary["method"]


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
            if read_marker(out).finished:
                whole_result(out)
            else:  # killed while it exchanged the files, which the readers say
                with pytest.raises(InputError, match="unfinished"):
                    gnncal.load(out / "calibrator.safetensors")
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


LIMITED = """
import resource, sys
from gnncal.__main__ import app
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
app(sys.argv[2:])
"""


@pytest.mark.parametrize("limit", [1000, 60_000])  # of the ids, and of what is averaged
def test_a_file_limit_ends_a_run_in_one_sentence_and_leaves_nothing(tmp_path, limit):
    files = make_example(n_nodes=2000).write(tmp_path / "in")
    command = [
        sys.executable,
        "-c",
        LIMITED,
        str(limit),
        "scale",
        *files,
        "--out",
        tmp_path / "out",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert done.stderr.splitlines()[-1].startswith("error: ")
    assert "Traceback" not in done.stderr
    assert sorted(file.name for file in tmp_path.iterdir()) == ["in"]
