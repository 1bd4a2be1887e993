"""Ids may be UUIDs, on both engines, and come back as UUIDs."""

from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gnncal import InputError
from gnncal.scale import calibrate
from tests.scale.graphs import make_example

pytestmark = [
    pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
ENGINES = ["duckdb", pytest.param("spark", marks=pytest.mark.engines)]
EXAMPLE = make_example(n_nodes=150)
IDS = [UUID(int=(i * 0x9E3779B97F4A7C15F39CC0605CEDC835) % 2**128) for i in range(150)]


def uuids(values):
    storage = pa.array([value.bytes for value in values], pa.binary(16))
    return pa.ExtensionArray.from_storage(pa.uuid(), storage)


def write(folder, *, edges=uuids):
    nodes = pa.table(EXAMPLE.node_columns() | {"id": uuids(IDS)})
    src, dst = ([IDS[i] for i in end] for end in EXAMPLE.edge_index)
    pq.write_table(nodes, folder / "nodes.parquet")
    pq.write_table(pa.table({"src": edges(src), "dst": edges(dst)}), folder / "edges.parquet")
    return folder / "nodes.parquet", folder / "edges.parquet"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("method", ["hots", "structural"])
def test_uuids_are_ids_and_come_back_as_they_were(method, engine, tmp_path, request):
    if engine == "spark":
        request.getfixturevalue("spark")
    calibrate(*write(tmp_path), tmp_path / "out", method=method, engine=engine)
    written = pq.read_table(tmp_path / "out" / "probabilities")
    assert written.schema.field("id").type == pa.uuid()
    found = dict(zip(written["id"].to_pylist(), written["confidence"].to_pylist(), strict=True))
    probs = EXAMPLE.in_memory(method).predict_proba(EXAMPLE.logits, EXAMPLE.graph)
    assert sorted(found) == sorted(IDS)
    np.testing.assert_allclose([found[i] for i in IDS], probs.max(axis=1), atol=1e-6)


def test_uuids_and_their_texts_are_two_types(tmp_path):
    files = write(tmp_path, edges=lambda values: [str(value) for value in values])
    with pytest.raises(InputError, match="use one type, whole numbers, text or UUIDs"):
        calibrate(*files, tmp_path / "out", method="ts")


def test_a_bad_row_is_shown_by_its_uuid(tmp_path):
    nodes, edges = write(tmp_path)
    table = pq.read_table(nodes)
    broken = pa.array([np.nan, *table["z0"].to_pylist()[1:]])
    pq.write_table(table.set_column(3, "z0", broken), nodes)
    with pytest.raises(InputError, match=f"ids {IDS[0]}"):
        calibrate(nodes, edges, tmp_path / "out", method="ts")
