"""What is computed from files equals what is computed in memory, to 1e-6."""

import numpy as np
import pyarrow.parquet as pq
import pytest

from gnncal.scale import calibrate
from tests.scale.graphs import METHODS, make_example

pytest.importorskip("duckdb")
pytest.importorskip("ibis")
pytestmark = [
    pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning"),
    pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning"),
]


def result(folder):
    """The written table, in the order of the ids."""
    table = pq.read_table(folder / "probabilities").sort_by("id")
    return {name: table[name].to_numpy() for name in table.column_names}


def assert_same(found, calibrator, example):
    probs = calibrator.predict_proba(example.logits, example.graph)
    temperature = calibrator.predict_temperature(example.logits, example.graph)
    assert np.array_equal(found["id"], example.ids)
    assert np.array_equal(found["prediction"], example.logits.argmax(axis=1))
    np.testing.assert_allclose(found["temperature"], temperature, rtol=1e-6)
    np.testing.assert_allclose(found["confidence"], probs.max(axis=1), atol=1e-6)
    columns = [found[f"p{k}"] for k in range(probs.shape[1])]
    np.testing.assert_allclose(np.stack(columns, axis=1), probs, atol=1e-6)


@pytest.mark.parametrize("directed", [True, False], ids=["directed", "undirected"])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_equals_its_calibrator_in_memory(method, directed, tmp_path):
    example = make_example(directed=directed)
    nodes, edges = example.write(tmp_path)
    summary = calibrate(nodes, edges, tmp_path / "out", method=method, all_probabilities=True)
    assert_same(result(tmp_path / "out"), example.in_memory(method), example)
    if method in ("structural", "rbs"):
        assert summary.is_undirected is not directed
    assert summary.n_edges == example.edge_index.shape[1]
