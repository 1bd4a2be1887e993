"""``gnncal scale`` as it is typed."""

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import gnncal
import gnncal_lab
from gnncal.__main__ import app
from gnncal.scale import calibrate, spark
from gnncal.scale import run as runs
from gnncal.scale.local import size_of
from tests.fraud import fraud_task
from tests.scale.graphs import Example, make_example

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture
def files(tmp_path):
    return [str(file) for file in make_example(n_nodes=200).write(tmp_path)]


def run(*arguments):
    return CliRunner().invoke(app, ["scale", *map(str, arguments)])


def test_it_prints_the_metrics_and_writes_three_things(files, tmp_path):
    found = run(*files, "--out", tmp_path / "out", "--memory-limit", "1GiB", "--threads", 1)
    assert found.exit_code == 0, found.stderr
    assert "structural on duckdb" in found.stdout
    assert "if perfectly calibrated" in found.stdout
    assert "joining the edges" in found.stderr
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == [
        ".gnncal.json",
        "calibrator.safetensors",
        "metrics.json",
        "probabilities",
    ]


def test_json_on_stdout_is_the_summary_alone(files, tmp_path):
    found = run(*files, "--out", tmp_path / "out", "--method", "hots", "--json")
    assert json.loads(found.stdout)["method"] == "hots"


def test_a_saved_calibrator_is_applied(files, tmp_path):
    run(*files, "--out", tmp_path / "first", "--method", "hots")
    saved = tmp_path / "first" / "calibrator.safetensors"
    found = run(*files, "--out", tmp_path / "second", "--calibrator", saved, "--json")
    first = json.loads((tmp_path / "first" / "metrics.json").read_text())
    assert json.loads(found.stdout)["after"]["nll"] == pytest.approx(first["after"]["nll"])
    assert run(*files, "--out", tmp_path / "x", "--calibrator", saved, "--method", "ts").exit_code


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--method", "gats"], "gats needs the graph in memory, at least for a fit; at scale use"),
        (["--engine", "postgres"], "engine is 'postgres'"),
        (["--master", "local[2]"], "add --engine spark"),
        (["--memory-limit", "1MB"], "the memory limit is 1MB; nothing can be computed in less"),
        (["--memory-limit", "lots"], "expected a size such as 4GiB"),
        (["--memory-limit", "9" * 400 + "GiB"], "999...; expected a size such as 4GiB"),
        (["--memory-limit", "٣GiB"], "expected a size such as 4GiB"),
        (["--threads", "9" * 30], "expected a whole number from 1 to 1024"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(arguments, message, files, tmp_path):
    found = run(*files, "--out", tmp_path / "out", *arguments)
    assert found.exit_code == 2
    assert message in found.stderr
    assert not (tmp_path / "out").exists()


def test_missing_files_are_named(tmp_path):
    found = run(tmp_path / "a.parquet", tmp_path / "b.parquet", "--out", tmp_path / "out")
    assert found.exit_code == 2
    assert "found no Parquet files for nodes" in found.stderr


def test_a_spark_that_does_not_start_is_one_sentence(files, tmp_path, monkeypatch):
    class Builder:
        def __getattr__(self, name):
            if name == "getOrCreate":
                raise RuntimeError("[JAVA_GATEWAY_EXITED] Java ended.\n" + "at java.base\n" * 30)
            return lambda *_, **__: self

    session = SimpleNamespace(builder=Builder(), getActiveSession=lambda: None)
    fake = SimpleNamespace(sql=SimpleNamespace(SparkSession=session))
    monkeypatch.setattr(spark, "require", lambda *_, **__: fake)
    with pytest.raises(
        gnncal.InputError,
        match=r"Spark did not start .*Java ended.*check that Java 17 is installed",
    ):
        calibrate(*files, tmp_path / "out", engine="spark", master="local[1]")


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (gnncal.HoTS(homophily="predictor"), "needs the graph in memory"),
        (gnncal.HoTS(protocol="paper"), "needs the graph in memory, at least for a fit"),
        (gnncal_lab.RatioBinnedScaling(merge_duplicate_edges=True), "needs the graph in memory"),
    ],
)
def test_parameters_that_need_memory_are_refused(method, message, files, tmp_path):
    with pytest.raises(gnncal.InputError, match=message):
        calibrate(*files, tmp_path / "out", method=method)


@pytest.mark.parametrize(
    ("text", "size"),
    [("4GiB", 4 << 30), ("4 GB", 4 * 10**9), ("2g", 2 << 30), ("1.5MiB", 3 << 19), ("9k", 9216)],
)
def test_sizes_are_read_as_people_write_them(text, size):
    assert size_of(text) == size


@pytest.mark.parametrize("threads", [100_000_000, 0, True, "4"])
def test_no_engine_is_asked_for_a_number_of_threads_that_it_cannot_have(threads):
    # Only the check runs here: a hundred million threads would take the machine down.
    with pytest.raises(
        gnncal.InputError, match=r"threads is .*expected a whole number from 1 to 1"
    ):
        runs._check_settings("duckdb", None, None, threads)


def test_a_damaged_file_is_refused_in_one_line(files, tmp_path):
    content = bytearray(Path(files[1]).read_bytes())
    content[100:4000] = bytes(3900)
    Path(files[1]).write_bytes(content)
    found = run(*files, "--out", tmp_path / "out")
    assert found.exit_code == 2
    assert found.stderr.splitlines()[-1].startswith("error: ")


def test_a_class_weighted_model_gets_the_advice_of_calibrate_and_positive_follows_it(tmp_path):
    (logits, labels, graph), splits = fraud_task(is_weighted=True, n_nodes=800, n_calibration=400)
    split = np.where(np.arange(800) < 400, "val", "test")
    example = Example(np.arange(800), logits, labels, split, graph.edge_index)
    files = example.write(tmp_path)
    price = gnncal.calibrate(
        logits, labels, graph, calibration_nodes=splits["calibration_nodes"]
    ).price
    for method in ("structural", "hots"):
        found = run(*files, "--out", tmp_path / method, "--method", method, "--json")
        notes = json.loads(found.stdout)
        (advice,) = [note for note in notes["notes"] if "Keeping predictions costs" in note]
        way_out = "(--free" if method == "structural" else "method='structural-free'"
        assert way_out in advice
        assert method == "hots" or advice == price.advice()
    found = run(*files, "--out", tmp_path / "free", "--positive", 1, "--json")
    summary = json.loads(found.stdout)
    assert summary["method"] == "structural-free"
    assert not any("Keeping predictions" in note for note in summary["notes"])
    refused = run(*files, "--out", tmp_path / "x", "--positive", 2)
    assert refused.exit_code == 2


def test_positive_adds_the_probability_of_the_class(files, tmp_path):
    found = run(*files, "--out", tmp_path / "out", "--positive", 2, "--probabilities")
    assert found.exit_code == 0, found.stderr
    table = pq.read_table(tmp_path / "out" / "probabilities")
    assert table["probability"].to_pylist() == table["p2"].to_pylist()


@pytest.fixture
def decided(tmp_path):
    """A saved calibrator and a policy that was certified with it, and the example of both."""
    example = make_example(n_nodes=2000, seed=3)
    rows = example.nodes_of("val")
    fitted = gnncal.calibrators.TemperatureScaling()
    fitted.fit(example.logits, example.labels, calibration_nodes=rows[::2])
    probs = fitted.predict_proba(example.logits)
    policy = gnncal.decisions.Policy(accuracy=0.8)
    policy.fit(probs, example.labels, calibration_nodes=rows[1::2], calibrator=fitted)
    fitted.save(tmp_path / "calibrator.safetensors")
    policy.save(tmp_path / "policy.safetensors")
    return example, probs, policy


def test_a_policy_says_what_to_do_with_nodes_outside_training_and_calibration(decided, tmp_path):
    example, probs, policy = decided
    files = example.write(tmp_path / "in")
    saved = ["--calibrator", tmp_path / "calibrator.safetensors"]
    saved += ["--policy", tmp_path / "policy.safetensors"]
    found = run(*files, "--out", tmp_path / "out", *saved, "--json")
    assert found.exit_code == 0, found.stderr
    table = pq.read_table(tmp_path / "out" / "probabilities").sort_by("id")
    outside = ~np.isin(example.split, ["train", "val"])
    actions = np.array(table["action"].to_pylist())
    assert actions[outside].tolist() == policy.decide(probs)[outside].tolist()
    assert set(actions[~outside]) == {""}
    summary = json.loads(found.stdout)
    notes, made = summary["notes"], summary["provenance"]
    assert json.loads(table.schema.metadata[b"gnncal"]) == made
    assert {"calibrator", "policy"} <= made.keys()
    assert str(gnncal.load(tmp_path / "policy.safetensors")) in notes
    assert any(note.startswith("Actions: decide ") for note in notes)


def test_a_policy_that_certifies_nothing_ends_with_three(decided, tmp_path):
    example, probs, _ = decided
    fitted = gnncal.load(tmp_path / "calibrator.safetensors")
    nodes = example.nodes_of("val")[1::2]
    with pytest.warns(gnncal.GnncalWarning, match="No threshold certifies"):
        hopeless = gnncal.decisions.Policy(accuracy=0.9999).fit(
            probs, example.labels, calibration_nodes=nodes, calibrator=fitted
        )
    hopeless.save(tmp_path / "hopeless.safetensors")
    saved = ["--calibrator", tmp_path / "calibrator.safetensors"]
    saved += ["--policy", tmp_path / "hopeless.safetensors"]
    found = run(*example.write(tmp_path / "in"), "--out", tmp_path / "out", *saved)
    assert found.exit_code == 3, found.stderr


def test_a_policy_of_another_calibrator_guarantees_nothing_and_needs_one(decided, tmp_path):
    example, _, _ = decided
    files = example.write(tmp_path / "in")
    policy = ["--policy", tmp_path / "policy.safetensors"]
    other = example.in_memory("ts")
    other.save(tmp_path / "other.safetensors")
    found = run(
        *files, "--out", tmp_path / "out", "--calibrator", tmp_path / "other.safetensors", *policy
    )
    assert found.exit_code == 3
    assert "guarantees nothing" in found.stderr
    refused = run(*files, "--out", tmp_path / "x", *policy)
    assert refused.exit_code == 2
    assert "pass --calibrator" in refused.stderr


@pytest.mark.parametrize("method", ["ts", "hots", "structural"])
def test_check_knows_the_nodes_of_a_fit_at_scale_as_it_does_in_memory(method, files, tmp_path):
    example = make_example(n_nodes=200)
    calibrate(*files, tmp_path / "out", method=method)
    at_scale = gnncal.load(tmp_path / "out" / "calibrator.safetensors").fitted_on_
    in_memory = gnncal.get_calibrator(method).fit(
        example.logits,
        example.labels,
        example.graph,
        calibration_nodes=example.nodes_of("val"),
        train_nodes=example.nodes_of("train"),
    )
    for found, expected in (
        (at_scale, in_memory.fitted_on_),
        (at_scale.all_nodes, in_memory.fitted_on_.all_nodes),
    ):
        assert found.predicted.tolist() == expected.predicted.tolist()
        missing = {"support"} if method == "ts" else set()
        assert set(found.bins) == set(expected.bins) - missing
        for name, bins in found.bins.items():
            np.testing.assert_allclose(bins.cuts, expected.bins[name].cuts, atol=1e-6)
            assert bins.counts.tolist() == expected.bins[name].counts.tolist()


def test_progress_is_the_share_of_a_stage_and_ends_with_all_of_it(files, tmp_path):
    seen = {}

    @contextmanager
    def watched(name, share):
        before = share()
        yield
        seen[name] = before, share()

    calibrate(*files, tmp_path / "out", method="structural", progress=watched)
    assert list(seen) == [
        *("checking the nodes", "joining the edges", "fitting", "calibrating the nodes")
    ]
    assert all(0 <= share <= 1 for pair in seen.values() for share in pair)
    assert seen["joining the edges"][1] == seen["calibrating the nodes"][1] == 1


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv.pop(1)) << 20, resource.RLIM_INFINITY))
from gnncal.__main__ import main
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("mebibytes", [600, 1200])
def test_too_little_address_space_is_one_sentence_before_any_work(tmp_path, mebibytes):
    done = run_limited(tmp_path, mebibytes)
    assert done.returncode == 2
    assert done.stderr.startswith("error: there is not enough memory for this"), done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["edges.parquet", "nodes.parquet"]


@pytest.mark.slow
def test_threads_and_memory_follow_the_address_space(tmp_path):
    done = run_limited(tmp_path, 2600, "--threads", "64", "--memory-limit", "64GiB")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "metrics.json").is_file()


def run_limited(folder, mebibytes, *more):
    """Run the command in a process that may take so much address space."""
    files = make_example(n_nodes=200).write(folder)
    words = ["scale", *map(str, files), "--method", "ts", "--out", str(folder / "out"), *more]
    return subprocess.run(
        [sys.executable, "-c", LIMITED, str(mebibytes), *words],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # each thread takes space too
    )


@pytest.mark.parametrize(
    "error",
    [
        ImportError("_duckdb.so: failed to map segment from shared object"),
        ImportError("libduckdb.so: cannot open shared object file: Cannot allocate memory"),
        RuntimeError("can't start new thread"),
    ],
)
def test_a_library_that_memory_does_not_suffice_to_load_is_not_called_missing(
    tmp_path, monkeypatch, error
):
    def fail(name):
        raise error

    files = make_example(n_nodes=50).write(tmp_path)
    monkeypatch.setattr("gnncal.data.errors.import_module", fail)
    done = run(*files, "--method", "ts", "--out", tmp_path / "out")
    assert done.exit_code == 2
    assert done.stderr.splitlines()[-1].startswith("error: there is not enough memory"), done.stderr
    assert "pip install" not in done.stderr
    assert not list(tmp_path.glob(".gnncal-*"))
