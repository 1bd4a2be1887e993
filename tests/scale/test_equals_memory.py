"""What is computed from files equals what is computed in memory, to 1e-6."""

from dataclasses import replace
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gnncal
from gnncal.calibrators.base import TemperatureMixin
from gnncal.calibrators.homophily import Support
from gnncal.scale import calibrate
from tests.methods import each_of
from tests.scale.graphs import METHODS, ON_SPARK, make_example

pytestmark = [
    pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


def result(folder):
    """The written table, in the order of the ids."""
    table = pq.read_table(folder / "probabilities").sort_by("id")
    return {name: table[name].to_numpy() for name in table.column_names}


def assert_same(found, calibrator, example, rtol=1e-6):
    probs = calibrator.predict_proba(example.logits, example.graph)
    assert np.array_equal(found["id"], example.ids)
    assert np.array_equal(found["prediction"], probs.argmax(axis=1))
    if calibrator.preserves_predictions:
        assert np.array_equal(found["prediction"], example.logits.argmax(axis=1))
    if isinstance(calibrator, TemperatureMixin):
        temperature = calibrator.predict_temperature(example.logits, example.graph)
        np.testing.assert_allclose(found["temperature"], temperature, rtol=rtol)
    np.testing.assert_allclose(found["confidence"], probs.max(axis=1), atol=1e-6)
    columns = [found[f"p{k}"] for k in range(probs.shape[1])]
    np.testing.assert_allclose(np.stack(columns, axis=1), probs, atol=1e-6)


@pytest.fixture(scope="module")
def run_of(tmp_path_factory):
    """A function that runs a method at scale, at most once: the example, summary and result."""

    @cache
    def run(method, directed):
        folder = tmp_path_factory.mktemp(method)
        example = make_example(directed=directed)
        nodes, edges = example.write(folder)
        summary = calibrate(nodes, edges, folder / "out", method=method, all_probabilities=True)
        return example, summary, folder / "out"

    return run


@pytest.mark.parametrize("directed", [True, False], ids=["directed", "undirected"])
@pytest.mark.parametrize("method", each_of(METHODS))
def test_every_method_equals_its_calibrator_in_memory(method, directed, run_of):
    example, summary, out = run_of(method, directed)
    assert_same(result(out), example.in_memory(method), example)
    if method.startswith("structural"):
        assert summary.is_undirected is not directed
    assert summary.n_edges == example.edge_index.shape[1]


@pytest.mark.parametrize("directed", [True, False], ids=["directed", "undirected"])
def test_a_fit_at_scale_remembers_whether_every_edge_had_its_reverse(directed, run_of):
    pytest.importorskip("torch")
    module = gnncal.load(run_of("structural", directed)[2] / "calibrator.safetensors").to_torch()
    assert module.metadata["graph"] == ("edges" if directed else "undirected edges")


@pytest.mark.engines
@pytest.mark.parametrize("method", ON_SPARK)
def test_every_kind_of_method_on_spark_equals_its_calibrator_in_memory(method, spark, tmp_path):
    example = make_example(n_nodes=300, ids="text" if method.startswith("structural") else "huge")
    nodes, edges = example.write(tmp_path, as_list=method in ("hots", "structural"))
    calibrate(nodes, edges, tmp_path / "out", method=method, all_probabilities=True, engine="spark")
    assert_same(result(tmp_path / "out"), example.in_memory(method), example)


@pytest.mark.parametrize("as_list", [False, True], ids=["columns", "list"])
@pytest.mark.parametrize("ids", ["huge", "text"])
def test_ids_may_be_any_numbers_or_text_and_logits_columns_or_a_list(ids, as_list, tmp_path):
    example = make_example(ids=ids)
    nodes, edges = example.write(tmp_path, as_list=as_list)
    calibrate(nodes, edges, tmp_path / "out", method="structural", all_probabilities=True)
    assert_same(result(tmp_path / "out"), example.in_memory("structural"), example)


@pytest.mark.parametrize("side", ["in", "out", "both"])
def test_hots_takes_the_support_of_any_side(side, tmp_path):
    example, method = make_example(), gnncal.HoTS(homophily=Support(side=side))
    nodes, edges = example.write(tmp_path)
    summary = calibrate(nodes, edges, tmp_path / "out", method=method, all_probabilities=True)
    assert_same(result(tmp_path / "out"), example.in_memory(method), example)
    assert summary.n_edges == example.edge_index.shape[1]


@pytest.mark.parametrize("method", ["hots", "structural", "structural-free"])
def test_float32_logits_and_narrow_ids_are_read_as_they_are(method, tmp_path):
    example = make_example()
    nodes = pa.table(example.node_columns(dtype=np.float32))
    edges = pa.table({n: v.astype(np.int32) for n, v in example.edge_columns().items()})
    pq.write_table(nodes, tmp_path / "nodes.parquet")
    pq.write_table(edges, tmp_path / "edges.parquet")
    files = tmp_path / "nodes.parquet", tmp_path / "edges.parquet"
    narrow = replace(example, logits=example.logits.astype(np.float32))
    in_memory = narrow.in_memory(method)
    calibrate(*files, tmp_path / "applied", calibrator=in_memory, all_probabilities=True)
    # Memory adds up float32 numbers; the temperatures here span four powers of ten.
    assert_same(result(tmp_path / "applied"), in_memory, narrow, rtol=3e-6)
    if method == "structural-free":
        return  # its fit ends after a number of steps, and so magnifies the rounding of its input
    calibrate(*files, tmp_path / "fitted", method=method, all_probabilities=True)
    found = result(tmp_path / "fitted")
    probs = np.stack([found[f"p{k}"] for k in range(4)], axis=1)
    expected = in_memory.predict_proba(narrow.logits, narrow.graph)
    np.testing.assert_allclose(probs, expected, atol=1e-6)


def test_folders_with_partitions_and_globs_are_read_as_one_table(tmp_path):
    example = make_example()
    nodes, edges = pa.table(example.node_columns()), pa.table(example.edge_columns())
    pq.write_to_dataset(nodes, tmp_path / "nodes", partition_cols=["split"])
    for part in range(3):
        pq.write_table(edges.slice(part * 1000, 1000), tmp_path / f"edges-{part}.parquet")
    pq.write_table(edges.slice(3000), tmp_path / "edges-3.parquet")
    summary = calibrate(
        tmp_path / "nodes",
        tmp_path / "edges-*.parquet",
        tmp_path / "out",
        method="hots",
        all_probabilities=True,
    )
    assert summary.n_edges == len(edges)
    assert_same(result(tmp_path / "out"), example.in_memory("hots"), example)


def test_weights_of_edges_are_ignored_with_the_warning_of_memory(tmp_path):
    example = make_example(n_nodes=200)
    nodes, edges = example.write(tmp_path)
    table = pq.read_table(edges)
    pq.write_table(table.append_column("weight", pa.array(np.ones(len(table)))), edges)
    for read in (
        lambda: calibrate(nodes, edges, tmp_path / "out", method="ts"),
        lambda: gnncal.read_bundle(tmp_path),
    ):
        with pytest.warns(gnncal.GnncalWarning, match=r"edge weights \(weight\) are ignored"):
            read()


def test_degrees_are_counted_with_compiled_loops_too(tmp_path, monkeypatch):
    pytest.importorskip("numba")
    example = make_example()
    files = example.write(tmp_path)
    expected = calibrate(*files, tmp_path / "numpy", method="hots", all_probabilities=True)
    monkeypatch.setattr("gnncal.graph.compiled.SMALLEST_GRAPH", 1)
    found = calibrate(*files, tmp_path / "compiled", method="hots", all_probabilities=True)
    assert found.n_edges == expected.n_edges
    assert found.is_undirected == expected.is_undirected
    np.testing.assert_allclose(found.after.nll, expected.after.nll, rtol=1e-6)
    assert_same(result(tmp_path / "compiled"), example.in_memory("hots"), example)


@pytest.mark.parametrize("method", each_of(METHODS))
def test_a_calibrator_fitted_at_scale_serves_in_memory_and_the_other_way_round(
    method, run_of, tmp_path
):
    example, _, out = run_of(method, True)
    at_scale = gnncal.load(out / "calibrator.safetensors")
    in_memory = example.in_memory(method)
    assert at_scale.get_params() == in_memory.get_params()
    np.testing.assert_allclose(
        at_scale.predict_proba(example.logits, example.graph),
        in_memory.predict_proba(example.logits, example.graph),
        atol=1e-6,
    )
    other = make_example(seed=5)
    in_memory.save(tmp_path / "saved")
    there = other.write(tmp_path / "other")
    calibrate(*there, tmp_path / "out", calibrator=tmp_path / "saved", all_probabilities=True)
    assert_same(result(tmp_path / "out"), in_memory, other)


def test_extreme_and_tied_logits_give_what_memory_gives(tmp_path):
    example = make_example()
    logits = example.logits.copy()
    logits[:20] = 0.0
    logits[20:40] *= 1e6
    logits[40:50, :2] = 700.0
    extreme = type(example)(example.ids, logits, example.labels, example.split, example.edge_index)
    nodes, edges = extreme.write(tmp_path)
    for method in ("structural", "structural-free", "hots"):
        calibrate(nodes, edges, tmp_path / "out", method=method, all_probabilities=True)
        # Where logits are a million times too large, the last bit of a sum decides about a fit.
        fitted = gnncal.load(tmp_path / "out" / "calibrator.safetensors")
        assert_same(result(tmp_path / "out"), fitted, extreme)


def test_auto_saves_what_it_chose_as_any_other_method(tmp_path):
    nodes, edges = make_example(n_nodes=300).write(tmp_path)
    auto = gnncal.calibrators.Auto(candidates=["ts", "hts"], n_folds=2)
    summary = calibrate(nodes, edges, tmp_path / "out", method=auto)
    loaded = gnncal.load(tmp_path / "out" / "calibrator.safetensors")
    assert summary.method in auto.candidates
    assert summary.learned["converged"]
    assert loaded.fitted_on_.all_nodes is not None
