"""Runs that are killed, damaged or partly failing end up with the same records."""

import gzip
import json
import os
import sys
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from time import process_time
from unittest.mock import MagicMock

import joblib
import numpy as np
import pytest
from joblib._parallel_backends import ThreadingBackend
from joblib.externals.loky import get_reusable_executor

import gnncal
from gnncal import metrics
from gnncal.calibrators.homophily import Predictor, to_plain
from gnncal.calibrators.registry import every_calibrator
from gnncal.data.errors import InputError
from gnncal.data.nodes import Nodes
from gnncal_lab.bench import engines, measure
from gnncal_lab.bench.engines import workers
from gnncal_lab.bench.logits import BundledLogits
from gnncal_lab.bench.measure import selective_accuracy_of
from gnncal_lab.bench.plan import (
    Cell,
    Plan,
    choose_methods,
    list_methods,
    make_calibrator,
    predictor_of,
)
from gnncal_lab.bench.provenance import note_run
from gnncal_lab.bench.records import append_lines, append_records, read_lines, read_records
from gnncal_lab.bench.runner import run_plan
from gnncal_lab.bench.source import package_source
from gnncal_lab.homophily import Shared
from tests.gnncal_lab.bench.deadly import double_unless_deadly, process_of
from tests.gnncal_lab.bench.graphs import frozen_bundle, write_bundles

CALIBRATORS = every_calibrator()

METHODS = ["uncalibrated", "ts", "hts"]
PLAN = Plan(["A", "B"], ["gcn"], [0, 1], METHODS, ["paper", "converged"])
SMALL_PLAN = Plan(["A"], ["gcn"], [0, 1], METHODS, ["converged"])


@pytest.fixture
def source(tmp_path):
    return write_bundles(tmp_path / "bundles")


def results(folder):
    """Everything but clocks and run names."""
    return {
        cell: replace(record, run="", fit_cpu_seconds=0, cell_seconds=0)
        for cell, record in read_records(folder).items()
    }


# --- the plan


def test_a_method_without_protocols_is_one_cell_and_the_others_two():
    cells = list(PLAN.cells())
    by_task = 1 + 2 + 2
    assert len(cells) == len(set(cells)) == 2 * 2 * by_task
    only_paper = Plan(["A"], ["gcn"], [0], METHODS, ["paper"])
    assert [cell[3:] for cell in only_paper.cells()] == [
        ("uncalibrated", "converged"),
        ("ts", "paper"),
        ("hts", "paper"),
    ]


def test_paper_cells_of_hots_are_the_papers_presets():
    text = make_calibrator(Cell("A", "gcn", 3, "hots", "paper"))
    release = make_calibrator(Cell("A", "gcn", 3, "hots-release", "paper"))
    assert text.get_params() == gnncal.HoTS.paper("text", random_state=3).get_params()
    assert release.get_params() == gnncal.HoTS.paper("release", random_state=3).get_params()


def test_groups_of_methods_name_known_ones_once():
    assert choose_methods(["all"]) == list_methods()
    # hots-paper is hots by the protocol "paper".
    assert set(gnncal.list_calibrators()) - {"hots-paper"} < set(choose_methods(["all"]))
    chosen = choose_methods(["ts", "few", "paper"])
    assert chosen[0] == "ts"
    assert len(chosen) == len(set(chosen))
    with pytest.raises(InputError, match="unknown method 'tz'"):
        choose_methods(["tz"])


# --- one cell


def test_a_record_holds_the_metrics_of_the_library(source, tmp_path):
    run_plan(Plan(["A"], ["gcn"], [0], ["ts"], ["converged"]), source, tmp_path)
    (record,) = read_records(tmp_path).values()
    bundle = frozen_bundle(0)
    calibrator = gnncal.calibrators.TemperatureScaling().fit(
        bundle.logits,
        bundle.labels,
        calibration_nodes=bundle.calibration_nodes,
        train_nodes=bundle.train_nodes,
    )
    probs = calibrator.predict_proba(bundle.logits)[bundle.test_nodes]
    labels = bundle.labels[bundle.test_nodes]
    degree = bundle.graph.in_degree[bundle.test_nodes]
    expected = gnncal.evaluate(labels, probs, in_degree=degree)
    found = record.metrics
    assert found["ece"] == pytest.approx(expected.ece.value, abs=1e-12)
    assert found["ece_floor"] == pytest.approx(expected.ece.floor, abs=0.005)
    assert not any(
        metrics.METRICS[name].needs_positive for name in found if name in metrics.METRICS
    )
    for name in expected.values.keys() - {"ece", "mce"}:
        assert found[name] == pytest.approx(expected.values[name], abs=1e-12), name
    assert record.learned["base_temperature"] == calibrator.base_temperature_
    assert found["prediction_changes"] == 0
    kept = selective_accuracy_of(metrics.Outcomes(labels, probs), measure.COVERAGES)
    np.testing.assert_array_equal(found["selective_accuracy"], kept)
    bins = metrics.reliability_bins(labels, probs, n_bins=10)
    assert found["reliability"]["count"] == bins.count.tolist()
    assert sum(found["reliability"]["correct"]) == round(expected.accuracy * len(labels))
    total = probs.max(axis=1).astype(float).sum()
    assert sum(found["reliability"]["confidence"]) == pytest.approx(total, abs=1e-4)


def test_cells_of_a_task_share_one_predictor_and_record_what_each_alone_would(source, tmp_path):
    methods = ["hots", "homophily-only", "hots-alpha1", "hots-predictor", "hots-release"]
    plan = Plan(["A"], ["gcn"], [0], methods, ["paper", "converged"])
    trained, train = [], Predictor._train

    def counted(self, *arguments):
        trained.append(self)
        return train(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Predictor, "_train", counted)
        run_plan(plan, source, tmp_path / "together")
        assert len(trained) == 2  # the text's and the release's
        for cell in plan.cells():
            one = Plan(["A"], ["gcn"], [0], [cell.method], [cell.protocol])
            run_plan(one, source, tmp_path / "alone")
        assert len(trained) == 2 + 5
    assert results(tmp_path / "together") == results(tmp_path / "alone")
    seconds = {
        cell.method: record.fit_cpu_seconds
        for cell, record in read_records(tmp_path / "together").items()
        if predictor_of(cell) == predictor_of(Cell("A", "gcn", 0, "hots", "paper"))
    }
    assert len(seconds) == 4
    training = Predictor(random_state=0)
    shared = Shared(training)
    started = process_time()
    bundle = frozen_bundle(0)
    nodes = Nodes(bundle.logits, bundle.graph).with_labels(
        bundle.labels, calibration_nodes=bundle.calibration_nodes, train_nodes=bundle.train_nodes
    )
    shared.learn(nodes)
    assert 0 < shared.cpu_seconds <= process_time() - started
    assert min(seconds.values()) > 0.2 * shared.cpu_seconds  # each as if it had trained alone


# --- resuming


def test_a_second_run_computes_nothing(source, tmp_path):
    first = run_plan(PLAN, source, tmp_path / "out")
    files = {p: p.read_bytes() for p in (tmp_path / "out").rglob("*.jsonl")}
    second = run_plan(PLAN, source, tmp_path / "out")
    assert (first.computed, first.recorded_before) == (20, 0)
    assert (second.computed, second.recorded_before) == (0, 20)
    assert files == {p: p.read_bytes() for p in (tmp_path / "out").rglob("*.jsonl")}


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.filterwarnings("ignore:.* tasks")  # of joblib, whose results nobody waits for
def test_a_killed_run_continues_where_it_was(source, tmp_path, jobs):
    run_plan(PLAN, source, tmp_path / "whole")

    class KilledError(BaseException):
        pass

    def kill_halfway(progress):
        if progress.done >= 7:
            raise KilledError

    with pytest.raises(KilledError):
        run_plan(PLAN, source, tmp_path / "killed", jobs=jobs, watch=kill_halfway)
    survived = len(read_records(tmp_path / "killed"))
    assert 0 < survived < 20
    resumed = run_plan(PLAN, source, tmp_path / "killed", jobs=jobs)
    assert (resumed.computed, resumed.recorded_before) == (20 - survived, survived)
    assert results(tmp_path / "killed") == results(tmp_path / "whole")


def test_a_line_that_was_cut_off_is_computed_again(source, tmp_path):
    run_plan(PLAN, source, tmp_path)
    expected = results(tmp_path)
    path = tmp_path / "records" / "B-gcn.jsonl"
    path.write_bytes(path.read_bytes()[:-50])
    assert len(read_records(tmp_path)) == 19
    assert run_plan(PLAN, source, tmp_path).computed == 1
    assert results(tmp_path) == expected


def test_a_record_with_a_changed_digit_is_computed_again(source, tmp_path):
    run_plan(PLAN, source, tmp_path)
    expected = results(tmp_path)
    path = tmp_path / "records" / "A-gcn.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    at = lines[3].index(b'"nll":0.') + len(b'"nll":0.')
    digit = (lines[3][at] - ord("0") + 1) % 10
    lines[3] = lines[3][:at] + b"%d" % digit + lines[3][at + 1 :]
    path.write_bytes(b"".join(lines))
    assert run_plan(PLAN, source, tmp_path).computed == 1
    assert results(tmp_path) == expected


def test_lines_are_json_and_come_back_as_they_were(tmp_path):
    entries = [{"x": 0.1 + 0.2, "name": 'a "checksum":"'}, {"x": -0.0, "list": [1, None]}]
    path = tmp_path / "folder" / "lines.jsonl"
    append_lines(path, entries[:1])
    append_lines(path, entries[1:])
    assert list(read_lines(path)) == entries
    assert [json.loads(line)["x"] for line in path.read_text().splitlines()] == [0.1 + 0.2, 0.0]


def test_records_of_other_parameters_do_not_count(source, tmp_path):
    plan = Plan(["A"], ["gcn"], [0], ["ts"], ["converged"])
    run_plan(plan, source, tmp_path)
    (record,) = read_records(tmp_path).values()
    append_records(tmp_path, [replace(record, parameters={"tolerance": 1.0})])
    assert run_plan(plan, source, tmp_path).computed == 1


def test_a_changed_default_makes_records_stale(source, tmp_path, monkeypatch):
    plan = Plan(["A"], ["gcn"], [0], ["ts", "spline"], ["converged"])
    run_plan(plan, source, tmp_path)
    assert run_plan(plan, source, tmp_path).computed == 0
    monkeypatch.setitem(CALIBRATORS["spline"].__init__.__kwdefaults__, "n_knots", 5)
    assert run_plan(plan, source, tmp_path).computed == 1
    assert run_plan(plan, source, tmp_path).computed == 0


def test_a_record_has_every_parameter_of_the_constructor(source, tmp_path):
    run_plan(Plan(["A"], ["gcn"], [1], ["hots-release"], ["paper"]), source, tmp_path)
    (record,) = read_records(tmp_path).values()
    expected = gnncal.HoTS.paper("release", random_state=1).get_params()
    expected["homophily"] = to_plain(expected["homophily"])
    assert record.parameters == expected | {"temperature_range": [0.05, 50.0]}


def test_again_computes_what_is_recorded(source, tmp_path):
    plan = Plan(["A"], ["gcn"], [0], ["ts"], ["converged"])
    run_plan(plan, source, tmp_path)
    assert run_plan(plan, source, tmp_path, again=True).computed == 1
    assert len((tmp_path / "records" / "A-gcn.jsonl").read_text().splitlines()) == 2
    assert len(read_records(tmp_path)) == 1


@pytest.mark.parametrize("damage", ["cut", "overwritten", "no gzip at all"])
def test_what_a_damaged_compressed_file_still_holds_is_read(source, tmp_path, damage):
    run_plan(PLAN, source, tmp_path)
    expected = results(tmp_path)
    path = tmp_path / "records" / "A-gcn.jsonl"
    packed = bytearray(gzip.compress(path.read_bytes()))
    path.unlink()
    half = len(packed) // 2
    if damage == "cut":
        packed = packed[:half]
    elif damage == "overwritten":
        packed[half : half + 100] = bytes(range(100))
    else:
        packed = packed[half:]
    path.with_name("A-gcn.jsonl.gz").write_bytes(packed)
    survived = len(read_records(tmp_path)) - 10
    assert 0 < survived < 10 if damage == "cut" else 0 <= survived < 10
    assert run_plan(PLAN, source, tmp_path).computed == 10 - survived
    assert results(tmp_path) == expected


# --- failing


def test_a_failure_never_replaces_a_success(source, tmp_path, monkeypatch):
    plan = Plan(["A"], ["gcn"], [0], ["ts"], ["converged"])
    run_plan(plan, source, tmp_path)
    expected = results(tmp_path)
    with monkeypatch.context() as broken:
        broken.setattr(gnncal.calibrators.TemperatureScaling, "fit", None)
        assert run_plan(plan, source, tmp_path, again=True).failed == 1
    assert len((tmp_path / "records" / "A-gcn.jsonl").read_text().splitlines()) == 2
    assert results(tmp_path) == expected
    again = run_plan(plan, source, tmp_path, again=True)  # a later success does
    assert {record.run for record in read_records(tmp_path).values()} == {again.run}


def test_a_failing_method_is_recorded_and_stops_nothing(source, tmp_path, monkeypatch):
    def fail(self, data):
        raise RuntimeError("no such luck")

    monkeypatch.setattr(gnncal.calibrators.EntropyScaling, "_fit", fail)
    outcome = run_plan(PLAN, source, tmp_path)
    assert (outcome.computed, outcome.failed) == (20, 8)
    records = read_records(tmp_path)
    failed = {cell for cell, record in records.items() if record.error}
    assert failed == {cell for cell in PLAN.cells() if cell.method == "hts"}
    assert {records[cell].error for cell in failed} == {"RuntimeError: no such luck"}
    assert all(records[cell].metrics for cell in PLAN.cells() if cell not in failed)
    monkeypatch.undo()
    assert run_plan(PLAN, source, tmp_path).computed == 8  # failures are tried again
    assert not any(record.error for record in read_records(tmp_path).values())


class WithoutTorch:
    """Refuses to find torch, as on a machine that does not have it."""

    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name=name)


def test_a_missing_package_fails_its_cells_and_not_the_run(source, tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="gats needs the extra neural")
    plan = Plan(["A"], ["gcn"], [0, 1], ["ts", "gats"], ["converged"])
    run_plan(replace(plan, seeds=[0]), source, tmp_path)
    # None in its place would not do: old versions of SciPy import any torch that has an entry.
    monkeypatch.delitem(sys.modules, "torch")
    monkeypatch.setattr(sys, "meta_path", [WithoutTorch(), *sys.meta_path])
    outcome = run_plan(plan, source, tmp_path)
    assert (outcome.recorded_before, outcome.computed, outcome.failed) == (2, 2, 1)
    record = read_records(tmp_path)[Cell("A", "gcn", 1, "gats", "converged")]
    assert record.error.startswith("MissingExtraError: gats needs torch: pip install")


def test_a_task_without_logits_fails_alone(source, tmp_path):
    plan = Plan(["A"], ["gcn"], [0, 7], ["ts"], ["converged"])
    outcome = run_plan(plan, source, tmp_path)
    assert (outcome.computed, outcome.failed) == (2, 1)
    record = read_records(tmp_path)[Cell("A", "gcn", 7, "ts", "converged")]
    assert record.error.startswith("no logits: InputError: file or folder not found")


def test_datasets_without_bundles_fail_alone(source, tmp_path):
    write_bundles(tmp_path / "bundles", datasets=("A-B",))  # not a file of A
    plan = replace(PLAN, datasets=["C", "A", "A-B", "B-gcn"])
    outcome = run_plan(plan, source, tmp_path)
    assert (outcome.computed, outcome.failed) == (40, 20)
    for cell, record in read_records(tmp_path).items():
        if cell.dataset in ("A", "A-B"):
            assert record.error is None
        else:
            expected = f"has no files {cell.dataset}-BACKBONE-SEED.npz."
            assert record.error.startswith("no logits: InputError: ")
            assert record.error.endswith(expected)


HTS_FIT = gnncal.calibrators.EntropyScaling._fit


@dataclass(frozen=True)
class Elsewhere:
    """Bundles that are fetched, trained and read, each of which may go wrong."""

    bundles: BundledLogits
    notes: Path  # a folder
    unreachable: str = ""  # a dataset
    deadly: str = ""  # "training" or "method hts" of seed 1, in another process
    deaths: int = 1 << 30  # before it goes well

    def fetch(self, dataset):
        self._note(f"fetched {dataset} {os.getpid()}")
        if dataset == self.unreachable:
            raise OSError("no route to host")

    def is_ready(self, task):
        return bool(self.times(f"trained {task}"))

    def seems_ready(self, task):
        return self.is_ready(task)

    def prepare(self, task):
        if self.deadly == "training" and task.seed == 1:
            self._die()
        self._note(f"trained {task}")

    def load(self, task):
        def fit(calibrator, data):
            self._die()
            HTS_FIT(calibrator, data)

        deadly = self.deadly == "method hts" and task.seed == 1
        gnncal.calibrators.EntropyScaling._fit = fit if deadly else HTS_FIT
        return self.bundles.load(task)

    def size(self, dataset):
        return self.bundles.size(dataset)

    def times(self, what):
        path = self.notes / "notes"
        return path.read_text().count(what + "\n") if path.exists() else 0

    def _note(self, what):
        with (self.notes / "notes").open("a") as file:
            file.write(what + "\n")

    def _die(self):
        if self.times("died") < self.deaths:
            self._note("died")
            os._exit(1)


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_dataset_is_fetched_once_and_its_failure_is_that_of_its_cells(source, tmp_path, jobs):
    elsewhere = Elsewhere(source, tmp_path, unreachable="A")
    plan = replace(PLAN, backbones=["gcn", "gat"])
    assert run_plan(plan, elsewhere, tmp_path, jobs=jobs).failed == 20 + 10  # all of A, B's gat
    for dataset in "AB":
        assert elsewhere.times(f"fetched {dataset} {os.getpid()}") == 1
    assert (tmp_path / "notes").read_text().count("fetched") == 2
    errors = {cell: record.error for cell, record in read_records(tmp_path).items()}
    reasons = {error for cell, error in errors.items() if cell.dataset == "A"}
    assert reasons == {"no logits: OSError: no route to host"}
    assert not any(error for cell, error in errors.items() if cell[:2] == ("B", "gcn"))


# --- several processes


@pytest.fixture
def fresh_processes():
    """None that a test has changed lives on."""
    yield
    get_reusable_executor().shutdown(wait=True, kill_workers=True)


@pytest.mark.slow
@pytest.mark.usefixtures("fresh_processes")
@pytest.mark.parametrize("deadly", ["training", "method hts"])
def test_a_process_that_dies_once_costs_nothing(source, tmp_path, deadly):
    run_plan(SMALL_PLAN, source, tmp_path / "whole")
    elsewhere = Elsewhere(source, tmp_path, deadly=deadly, deaths=1)
    outcome = run_plan(SMALL_PLAN, elsewhere, tmp_path / "out", jobs=2)
    assert (outcome.computed, outcome.failed, elsewhere.times("died")) == (6, 0, 1)
    assert results(tmp_path / "out") == results(tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.usefixtures("fresh_processes")
def test_a_cell_that_kills_its_process_fails_alone(source, tmp_path):
    run_plan(SMALL_PLAN, source, tmp_path / "whole")
    elsewhere = Elsewhere(source, tmp_path, deadly="method hts")
    outcome = run_plan(SMALL_PLAN, elsewhere, tmp_path / "out", jobs=2)
    found, expected = results(tmp_path / "out"), results(tmp_path / "whole")
    failed = found.pop(Cell("A", "gcn", 1, "hts", "converged"))
    assert failed.error == "its process died, perhaps because memory ran out"
    assert outcome.failed == 1
    assert found == {cell: expected[cell] for cell in found}
    assert len(found) == 5


@pytest.mark.slow
@pytest.mark.usefixtures("fresh_processes")
def test_a_classifier_whose_training_kills_its_process_fails_alone(source, tmp_path):
    elsewhere = Elsewhere(source, tmp_path, deadly="training")
    assert run_plan(SMALL_PLAN, elsewhere, tmp_path, jobs=2).failed == 3
    errors = {cell: record.error for cell, record in read_records(tmp_path).items()}
    reasons = {error for cell, error in errors.items() if cell.seed == 1}
    assert reasons == {"no logits: its process died, perhaps because memory ran out"}
    assert not any(error for cell, error in errors.items() if cell.seed == 0)


def test_only_what_was_under_way_in_a_death_is_done_one_by_one(monkeypatch):
    alone, by_itself = [], engines._Pool.alone

    def counted(self, work, item, lost):
        alone.append(item)
        return by_itself(self, work, item, lost)

    monkeypatch.setattr(engines._Pool, "alone", counted)
    with workers(2) as each:
        done = list(each(double_unless_deadly, list(range(60)), lambda item: -1))
    assert sorted(done) == sorted(-1 if item == 3 else 2 * item for item in range(60))
    assert 3 in alone
    assert len(alone) < 30  # two under way, and what waits for them
    with workers(2) as each, pytest.raises(BrokenProcessPool):
        list(each(double_unless_deadly, [3]))


def test_two_processes_record_what_one_does(source, tmp_path):
    run_plan(PLAN, source, tmp_path / "one")
    run_plan(PLAN, source, tmp_path / "two", jobs=2)
    assert results(tmp_path / "one") == results(tmp_path / "two")


@pytest.mark.engines
@pytest.mark.parametrize(("engine", "package"), [("dask", "distributed"), ("ray", "ray")])
def test_a_local_cluster_records_what_one_process_does(source, tmp_path, engine, package):
    if os.environ.get("GNNCAL_ENGINES") == "required":
        import_module(package)
    pytest.importorskip(package, reason=f"pip install 'gnncal[{engine}]' to test this engine")
    run_plan(PLAN, source, tmp_path / "here")
    run_plan(PLAN, source, tmp_path / "cluster", jobs=2, engine=engine)
    assert results(tmp_path / "here") == results(tmp_path / "cluster")


@pytest.mark.engines
@pytest.mark.parametrize(("engine", "package"), [("dask", "distributed"), ("ray", "ray")])
def test_a_cluster_does_all_the_work_and_survives_a_death(tmp_path, engine, package):
    if os.environ.get("GNNCAL_ENGINES") == "required":
        import_module(package)
    pytest.importorskip(package, reason=f"pip install 'gnncal[{engine}]' to test this engine")
    with workers(engine=engine) as each:
        assert each.count > 1
        assert os.getpid() not in set(each(process_of, list(range(20))))
        done = list(each(double_unless_deadly, list(range(9)), lambda item: -1))
        assert sorted(done) == [-1, 0, 2, 4, 8, 10, 12, 14, 16]


class FiveThreads(ThreadingBackend):
    """What a cluster of five looks like to joblib."""

    def effective_n_jobs(self, n_jobs):
        return 5 if n_jobs == -1 else n_jobs


@pytest.mark.parametrize(("jobs", "count"), [(None, 5), (3, 3)])
def test_ray_uses_its_whole_cluster_unless_told_otherwise(monkeypatch, jobs, count):
    stub = MagicMock(exceptions=MagicMock(RayError=RuntimeError))
    monkeypatch.setattr(engines, "require", lambda module, **more: stub)
    monkeypatch.setitem(joblib.parallel.BACKENDS, "ray", FiveThreads)
    with workers(jobs, "ray") as each:
        assert each.count == count
        assert sorted(each(double_unless_deadly, [5] * 70)) == [10] * 70


class Cluster(MagicMock):
    """Dask's module and client: two machines; item 3 is what they die of."""

    KilledWorker = type("KilledWorker", (Exception,), {})

    def __enter__(self):
        return self

    def ncores(self):
        return {"one": 4, "other": 1}

    def wait(self, futures, timeout, return_when):
        assert return_when == "FIRST_COMPLETED"
        last = max(futures, key=lambda future: future.item)
        return MagicMock(done={last}, not_done=set(futures) - {last})

    def submit(self, work, item, pure):
        assert pure is False
        dies = {"side_effect": self.KilledWorker} if item == 3 else {"return_value": work(item)}
        return MagicMock(result=MagicMock(**dies), item=item)


@pytest.mark.parametrize(
    ("address", "size"), [(None, {"n_workers": 7, "threads_per_worker": 1}), ("tcp://x:1", {})]
)
def test_dask_counts_its_workers_and_starts_them_with_one_thread(monkeypatch, address, size):
    cluster = Cluster()
    cluster.get.return_value = address  # of its configuration
    cluster.Client.return_value = cluster
    monkeypatch.setattr(engines, "require", lambda module, **more: cluster)
    with workers(7, "dask") as each:
        cluster.Client.assert_called_once_with(**size)
        assert each.count == 5
        assert list(each(double_unless_deadly, [2, 3, 5], lambda item: -item)) == [10, 4, -3]
        assert each.alone(double_unless_deadly, 3, lambda item: -item) == -3
        with pytest.raises(cluster.KilledWorker):
            list(each(double_unless_deadly, [3]))


@pytest.mark.parametrize("jobs", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in (None, 2))])
def test_the_time_left_is_shared_by_the_workers(source, tmp_path, jobs):
    plan = Plan(["A"], ["gcn"], [0, 1], ["ts", "hts"], ["paper"])
    run_plan(plan, source, tmp_path)
    timed = [replace(record, cell_seconds=3.0) for record in read_records(tmp_path).values()]
    (tmp_path / "records" / "A-gcn.jsonl").unlink()
    append_records(tmp_path, timed)
    seen = []
    run_plan(plan, source, tmp_path, jobs=jobs, again=True, watch=seen.append)
    calibrating = next(p for p in seen if p.doing.endswith("calibrating"))
    assert calibrating.seconds_left == pytest.approx(4 * 3.0 / (jobs or 1))


def test_unusable_workers_are_refused(source, tmp_path):
    with pytest.raises(InputError, match="jobs is 0"):
        run_plan(PLAN, source, tmp_path, jobs=0)
    with pytest.raises(InputError, match="engine is 'spark'"):
        run_plan(PLAN, source, tmp_path, engine="spark")
    assert not list(tmp_path.rglob("*.jsonl"))


def test_the_time_left_shrinks_to_nothing(source, tmp_path):
    seen = []
    run_plan(PLAN, source, tmp_path, watch=seen.append)
    assert seen[0].seconds_left is None  # nothing measured, nothing claimed
    halfway = next(p for p in seen if p.done == 10)
    assert halfway.seconds_left is None or halfway.seconds_left > 0
    assert (seen[-1].done, seen[-1].total, seen[-1].seconds_left) == (20, 20, 0)
    assert [p.done for p in seen] == sorted(p.done for p in seen)


def test_no_time_is_announced_before_every_kind_of_work_was_measured(source, tmp_path):
    run_plan(replace(SMALL_PLAN, methods=["ts"]), source, tmp_path)
    slow = [replace(record, cell_seconds=3600.0) for record in read_records(tmp_path).values()]
    append_records(tmp_path, slow)
    seen = []
    plan = replace(SMALL_PLAN, methods=["ts", "hts"])
    run_plan(plan, source, tmp_path, again=True, watch=seen.append)
    unmeasured = [p for p in seen if p.done < 2]  # no cell of hts is done
    assert unmeasured
    assert {p.seconds_left for p in unmeasured} == {None}


def test_every_record_names_the_run_that_made_it(source, tmp_path):
    run_plan(PLAN, source, tmp_path, command="gnncal bench run")
    (about,) = read_lines(tmp_path / "runs.jsonl")
    assert {record.run for record in read_records(tmp_path).values()} == {about["run"]}
    assert about["command"] == "gnncal bench run"
    assert about["versions"]["numpy"] == np.__version__
    assert about["source"] == package_source()
    assert about["source"]["version"] == about["versions"]["gnncal"]


def test_runs_of_the_same_second_have_names_of_their_own(tmp_path):
    names = [note_run(tmp_path, "gnncal bench run") for _ in range(20)]
    assert len(set(names)) == 20
    assert [about["run"] for about in read_lines(tmp_path / "runs.jsonl")] == names


def test_compressed_records_count_and_later_ones_go_beside_them(source, tmp_path):
    run_plan(PLAN, source, tmp_path)
    (path, *_) = sorted((tmp_path / "records").glob("*.jsonl"))
    with gzip.open(f"{path}.gz", "wb") as packed:
        packed.write(path.read_bytes())
    path.unlink()
    assert run_plan(PLAN, source, tmp_path).computed == 0
    again = run_plan(PLAN, source, tmp_path, again=True)
    assert again.computed == len(list(PLAN.cells()))
    assert path.exists()
    assert {record.run for record in read_records(tmp_path).values()} == {again.run}


def test_hots_of_the_paper_fails_on_a_bundle_without_features_instead_of_using_support(tmp_path):
    source = write_bundles(tmp_path / "bundles", datasets=("A",), seeds=(0,))
    file = tmp_path / "bundles" / "A-gcn-0.npz"
    with np.load(file) as arrays:
        kept = {name: arrays[name] for name in arrays if not name.startswith("x")}
    np.savez(file, **kept)
    run_plan(Plan(["A"], ["gcn"], [0], ["hots"], ["paper", "converged"]), source, tmp_path / "out")
    errors = {
        cell.protocol: record.error for cell, record in read_records(tmp_path / "out").items()
    }
    assert "homophily='predictor' needs node features" in errors["paper"]
    assert errors["converged"] is None
