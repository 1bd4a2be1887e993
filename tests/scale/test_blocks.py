"""Blocks of classes and nodes cover everything, fit in memory and change no result."""

import pytest
from gnncal.scale.blocks import Blocks, blocks_of_sums, blocks_of_values

from gnncal.scale import blocks, calibrate
from gnncal.scale.engines import DuckDB
from tests.scale.graphs import make_example
from tests.scale.test_equals_memory import assert_same, result

pytestmark = [
    pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


def in_blocks(monkeypatch):
    """Memory for two of six classes and for a fifth of the sums of 300 nodes at a time."""
    monkeypatch.setattr(blocks, "FEWEST_CLASSES", 2)
    monkeypatch.setattr(DuckDB, "memory", 20_000)
    assert len(blocks_of_values(300, 6, 8, 20_000).classes) == 3
    assert blocks_of_sums(300, 6, 8, 20_000).parts == 5


@pytest.mark.parametrize("directed", [True, False], ids=["directed", "undirected"])
@pytest.mark.parametrize("method", ["hots", "structural", "structural-free"])
def test_blocks_of_classes_and_nodes_change_nothing(method, directed, monkeypatch, tmp_path):
    in_blocks(monkeypatch)
    example = make_example(n_nodes=300, n_classes=6, directed=directed, ids="text")
    nodes, edges = example.write(tmp_path)
    summary = calibrate(nodes, edges, tmp_path / "out", method=method, all_probabilities=True)
    assert_same(result(tmp_path / "out"), example.in_memory(method), example)
    assert summary.n_edges == example.edge_index.shape[1]


def test_everything_is_one_block_where_it_fits():
    assert blocks_of_values(10**6, 10, 4, 3 << 30).is_one
    assert blocks_of_sums(10**6, 10, 4, 3 << 30).is_one
    assert blocks_of_sums(10**9, 1000, 8, None) == Blocks((range(1000),))


def test_blocks_cover_every_class_once_and_fit():
    blocks = blocks_of_sums(5 * 10**6, 172, 4, 3 << 30)
    assert [k for classes in blocks.classes for k in classes] == list(range(172))
    widest = max(len(classes) for classes in blocks.classes)
    assert 5 * 10**6 * (4 * widest + 16 * widest / blocks.parts) < 3 << 30
