"""Records can grow: fields that a reader does not know and metrics that it lacks do no harm."""

import gzip
import math
import zlib
from dataclasses import asdict, replace

import numpy as np
import pytest
from typer.testing import CliRunner

import gnncal
from gnncal.__main__ import app
from gnncal_lab.bench.measure import measure
from gnncal_lab.bench.plan import Cell, Plan
from gnncal_lab.bench.records import append_lines, read_records
from gnncal_lab.bench.results import read_results
from gnncal_lab.bench.runner import run_plan
from gnncal_lab.bench.tables import comparisons
from gnncal_lab.bench.tables.collection import all_tables
from tests.gnncal_lab.bench.graphs import frozen_bundle, write_bundles
from tests.gnncal_lab.bench.test_tables import record

PLAN = Plan(["A"], ["gcn"], [0], ["ts"], ["converged"])


@pytest.fixture
def source(tmp_path):
    return write_bundles(tmp_path / "bundles", datasets=("A",), seeds=(0,))


def write(folder, *entries):
    append_lines(folder / "records" / "Cora-gcn.jsonl", entries)


def test_fields_of_a_later_version_are_ignored(tmp_path):
    one = record("Cora", "gcn", 0, "ts", 0.1)
    write(tmp_path, {**asdict(one), "colour": "green"})
    assert read_records(tmp_path) == {one.cell: one}


def test_a_line_that_is_no_record_is_passed_over_with_a_note_at_the_users_line(tmp_path):
    write(tmp_path, {"dataset": "Cora", "colour": "green"})
    with pytest.warns(gnncal.GnncalWarning, match="no run of gnncal writes") as caught:
        assert read_records(tmp_path) == {}
    assert {each.filename for each in caught} == {__file__}


def test_a_note_about_a_method_that_nobody_has_is_at_the_users_line(tmp_path):
    known, other = (asdict(record("Cora", "gcn", 0, name, 0.1)) for name in ("ts", "hots"))
    write(tmp_path, known, {**other, "method": "of-a-stranger"})
    with pytest.warns(gnncal.GnncalWarning, match="records of of-a-stranger") as caught:
        read_results(tmp_path)
    assert {each.filename for each in caught} == {__file__}


def test_an_absent_metric_is_not_a_number_and_fills_no_table(tmp_path):
    records = [record("Cora", "gcn", seed, "ts", ece) for seed, ece in ((0, 0.1), (1, 0.3))]
    for name in ("smooth_ece", "selective_accuracy", "prediction_changes", "reliability"):
        del records[1].metrics[name]
    records[0].metrics["aurc"] = None
    write(tmp_path, *map(asdict, records))
    found = read_results(tmp_path)["paper"]
    assert math.isnan(records[1].metric("smooth_ece"))
    assert math.isnan(records[0].metric("aurc"))
    assert found.mean("ece", "Cora", ["gcn"], "ts") == pytest.approx(0.2)
    assert found.mean("smooth_ece", "Cora", ["gcn"], "ts") == pytest.approx(0.1)  # of one seed
    assert math.isnan(found.mean("unheard_of", "Cora", ["gcn"], "ts"))
    columns = comparisons.overview(found).columns
    assert "ECE %" in columns
    assert "smooth ECE %" not in columns  # some records lack it
    assert len([*all_tables(tmp_path, "ts")]) > 5


def test_what_is_not_finite_is_left_out_of_a_record(source, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "gnncal_lab.bench.measure.measures_of", lambda *a, **k: {"ece": 0.5, "nll": math.inf}
    )
    assert run_plan(PLAN, source, tmp_path).failed == 0
    (found,) = read_records(tmp_path).values()
    assert found.metrics["ece"] == 0.5
    assert math.isnan(found.metric("nll"))


def test_published_records_are_read_and_keep_their_numbers(tmp_path):
    """A line as it stands in a file, checksum included."""
    line = (
        b'{"dataset":"Cora","backbone":"gcn","seed":0,"method":"ts","protocol":"converged",'
        b'"parameters":{"protocol":"converged"},"run":"f6e6b0e2","fit_cpu_seconds":0.25,'
        b'"cell_seconds":0.5,"error":null,"learned":{"base_temperature":1.5},'
        b'"metrics":{"n_nodes":4,"ece":0.0625}'
    )
    path = tmp_path / "records" / "Cora-gcn.jsonl.gz"
    path.parent.mkdir()
    path.write_bytes(gzip.compress(line + b',"checksum":"%08x"}\n' % zlib.crc32(line)))
    cell = Cell("Cora", "gcn", 0, "ts", "converged")
    found = read_records(tmp_path)[cell]
    assert (found.metric("ece"), found.fit_cpu_seconds) == (0.0625, 0.25)


@pytest.mark.parametrize("order", ["shuffled", "sorted"])
def test_a_record_averages_over_the_orders_of_nodes_of_equal_degree(order):
    """The same test nodes give the same degree-stratified ECE, however they are listed."""
    bundle = frozen_bundle(0)
    nodes = np.sort(bundle.test_nodes)
    listed = np.random.default_rng(1).permutation(nodes) if order == "shuffled" else nodes
    probs = gnncal.calibrators.softmax(bundle.logits)
    found = measure(probs, replace(bundle, test_nodes=listed))
    in_degree = bundle.graph.in_degree[nodes]
    expected = gnncal.evaluate(bundle.labels[nodes], probs[nodes], in_degree=in_degree)
    assert found["degree_ece"] == pytest.approx(expected.degree_ece, abs=1e-9)
    assert found["degree_ties"] == "averaged"


VERBS = {
    "run": ("--out", "{}", "--bundles", "{}/bundles", "--methods", "ts"),
    "tables": ("{}", "--reference", "ts"),
    "report": ("{}", "--out", "{}/page.html"),
    "figures": ("{}",),
    "diagnose": ("{}", "--bundles", "{}/bundles"),
}


def bench(*arguments):
    found = CliRunner().invoke(app, ["bench", *map(str, arguments)])
    assert found.exception is None or isinstance(found.exception, SystemExit), found.exception
    return found


@pytest.mark.slow
@pytest.mark.parametrize("verb", VERBS)
def test_lines_that_no_run_writes_are_one_note_and_the_others_are_used(tmp_path, verb):
    if verb == "figures":
        pytest.importorskip("matplotlib", reason="figures need the extra plot")
    cells = [(seed, method) for seed in (0, 1) for method in ("uncalibrated", "ts")]
    good = [asdict(record("A", "gcn", *cell, 0.1)) for cell in cells]
    wrong = [{**good[-1], "protocol": "x"}, {**good[-1], "dataset": "../../outside"}, {"seed": 0}]
    write(tmp_path, *wrong, *good)
    write_bundles(tmp_path / "bundles", datasets=("A",), seeds=(0, 1))
    found = bench(verb, *(word.format(tmp_path) for word in VERBS[verb]))
    assert found.exit_code == 0, found.stderr
    notes = [line for line in found.stderr.splitlines() if line.startswith("note: ")]
    assert len(notes) == 1
    assert "passed over (lines 1, 2, 3)" in notes[0]
    assert not (tmp_path.parent / "outside").exists()


@pytest.mark.parametrize("seeds", ["0:10000000000", "10000000000", "9999999999:10000000000"])
@pytest.mark.parametrize("verb", ["run", "tables", "report", "perturb"])
def test_absurd_seeds_are_one_sentence_before_any_work(verb, seeds, tmp_path):
    where = ("--out", tmp_path / "x") if verb in ("run", "perturb") else (tmp_path,)
    found = bench(verb, *where, "--seeds", seeds)
    assert found.exit_code == 2
    assert found.stderr.startswith(f"error: --seeds is '{seeds}'; expected at most 1,000 seeds")
    assert len(found.stderr.splitlines()) == 1
