"""A standalone Spark cluster gives what DuckDB gives, also if it loses a worker on the way."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from gnncal.scale import calibrate
from tests.scale.graphs import make_example
from tests.scale.test_equals_memory import result

pytestmark = [
    pytest.mark.engines,
    pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
PATIENCE = 300  # seconds for anything that must happen at all
SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.cores.max": "2",  # one on each worker
    "spark.executor.cores": "1",
    "spark.sql.shuffle.partitions": "4",
    # Edges move between the workers, so that the death of one loses some.
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.adaptive.enabled": "false",
    "spark.ui.enabled": "false",
}


class Cluster:
    """A master and two workers on this machine, each a process group of its own."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder, self.home = folder, home
        self.environment = os.environ | {
            "SPARK_HOME": str(home),
            "SPARK_CONF_DIR": str(folder),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_NO_DAEMONIZE": "1",
        }
        lines = [f"{name} {value}\n" for name, value in SETTINGS.items()]
        (folder / "spark-defaults.conf").write_text("".join(lines))
        self.port = _free_port()
        self.address = f"spark://127.0.0.1:{self.port}"
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        self._run("master", "master.Master", "--port", self.port)
        _wait_for(lambda: _is_open(self.port), "the master")
        for name in ("first", "second"):
            place = ["--cores", 1, "--memory", "1g", "--work-dir", self.folder / f"work-{name}"]
            self._run(name, "worker.Worker", *place, self.address)
        log = self.folder / "master.log"
        _wait_for(lambda: log.read_text().count("Registering worker") == 2, "both workers")

    def scratch(self, name: str) -> Path:
        """The folder in which the executor of a worker keeps what it sends to others."""
        return self.folder / f"scratch-{name}"

    def kill_worker(self, number: int) -> None:
        """End a worker and its executor, as if their machine had lost power."""
        os.killpg(self.processes[number].pid, signal.SIGKILL)

    def stop(self) -> None:
        for process in self.processes:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            finally:
                process.wait()

    def _run(self, name: str, what: str, *arguments: object) -> None:
        starter = [self.home / "bin" / "spark-class", f"org.apache.spark.deploy.{what}"]
        place = ["--host", "127.0.0.1", "--webui-port", 0]
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [str(part) for part in [*starter, *place, *arguments]],
                env=self.environment | {"SPARK_LOCAL_DIRS": str(self.scratch(name))},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.processes.append(process)


@pytest.fixture
def cluster(pyspark, tmp_path):
    """A cluster that is gone after the test, whatever happens in it."""
    folder = tmp_path / "cluster"
    folder.mkdir()
    made = Cluster(folder, Path(pyspark.__file__).parent)
    try:
        made.start()
        yield made
    finally:
        made.stop()


def test_a_cluster_that_loses_a_worker_during_the_join_gives_what_duckdb_gives(cluster, tmp_path):
    nodes, edges = make_example(n_nodes=400).write(tmp_path / "in")
    command = [sys.executable, "-m", "gnncal", "scale", nodes, edges, "--method", "hots"]
    command += ["--out", tmp_path / "spark", "--probabilities"]
    command += ["--engine", "spark", "--master", cluster.address]
    said: list[str] = []
    with subprocess.Popen(
        [str(part) for part in command],
        env=cluster.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as run:
        listener = threading.Thread(target=lambda: said.extend(run.stderr), daemon=True)
        listener.start()
        try:
            _wait_for(lambda: _has(said, "checking the nodes:"), "the first stage", run)
            before = _shuffled(cluster.scratch("second"))
            _wait_for(lambda: _shuffled(cluster.scratch("second")) - before, "the join", run)
            cluster.kill_worker(2)
            assert not _has(said, "joining the edges:"), "".join(said)
            assert run.wait(PATIENCE) == 0, "".join(said)
        finally:
            if run.poll() is None:
                os.killpg(run.pid, signal.SIGKILL)
        listener.join()
    assert any("Lost executor" in line for line in said), "".join(said)
    calibrate(nodes, edges, tmp_path / "duckdb", method="hots", all_probabilities=True)
    found, expected = result(tmp_path / "spark"), result(tmp_path / "duckdb")
    assert sorted(found) == sorted(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-9, atol=1e-12, err_msg=name)


def _shuffled(scratch: Path) -> set[Path]:
    """The files that an executor has ready for others."""
    return set(scratch.rglob("shuffle_*.data"))


def _has(lines: list[str], beginning: str) -> bool:
    return any(line.startswith(beginning) for line in list(lines))


def _wait_for(condition, what, run=None):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"{what} did not come"
        assert run is None or run.poll() is None, f"the run ended before {what}"
        time.sleep(0.02)


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def _is_open(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0
