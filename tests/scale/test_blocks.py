"""Blocks of nodes and chunks of edges cover everything, fit in memory and change no result."""

from itertools import product

import numpy as np
import pytest

from gnncal import InputError
from gnncal.scale import calibrate, passes
from gnncal.scale.batches import parallel
from gnncal.scale.passes import EdgeFile, Neighbourhoods, RowFile, add_rows
from tests.scale.graphs import make_example
from tests.scale.test_equals_memory import assert_same, result

pytestmark = [
    pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture
def in_blocks(monkeypatch):
    """Seven blocks of 300 nodes, and chunks of a few hundred of their edges."""
    monkeypatch.setattr(Neighbourhoods, "plan", lambda *_, **__: (47, 7))
    monkeypatch.setattr(passes, "MOST_EDGES", 300)


@pytest.mark.parametrize("directed", [True, False], ids=["directed", "undirected"])
@pytest.mark.parametrize("method", ["hots", "structural", "structural-free"])
def test_blocks_of_nodes_change_nothing(method, directed, in_blocks, tmp_path):
    example = make_example(n_nodes=300, n_classes=6, directed=directed, ids="text")
    nodes, edges = example.write(tmp_path)
    summary = calibrate(nodes, edges, tmp_path / "out", method=method, all_probabilities=True)
    assert_same(result(tmp_path / "out"), example.in_memory(method), example)
    assert summary.n_edges == example.edge_index.shape[1]


def planned(n_nodes, row_bytes, memory, *, sums, folder):
    found = Neighbourhoods(1, memory, folder, 1)
    found.n_nodes = n_nodes
    return found.plan(row_bytes, sums=sums)


def test_everything_is_one_block_where_it_fits(tmp_path):
    for sums in (False, True):
        one = planned(10**6, 48, 4 << 30, sums=sums, folder=tmp_path)
        assert one == (10**6, 1)


@pytest.mark.parametrize("sums", [False, True])
@pytest.mark.parametrize("n_nodes", [1, 7, 5 * 10**6, 111 * 10**6])
def test_blocks_cover_every_node_once_and_fit(n_nodes, sums, tmp_path):
    memory, row_bytes = 16 << 30, 4 * 174
    block, n_blocks = planned(n_nodes, row_bytes, memory, sums=sums, folder=tmp_path)
    assert (n_blocks - 1) * block < n_nodes <= n_blocks * block
    left = memory - n_nodes * passes.BYTES_PER_NODE
    assert block * row_bytes * (2 if sums else 1) <= passes.SHARE_OF_BLOCKS * left


def test_more_nodes_than_the_memory_has_room_for_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"111,000,000 nodes on 1 threads need 7.1 GiB"):
        planned(111 * 10**6, 4 * 174, 4 << 30, sums=False, folder=tmp_path)


@pytest.mark.parametrize("n_blocks", [1, 3, 300])
def test_edges_come_back_from_the_cells_of_their_blocks(n_blocks, tmp_path):
    rng = np.random.default_rng(0)
    senders, receivers = rng.integers(300, size=(2, 5000)).astype(np.int32)
    block = -(-300 // n_blocks)
    edges = EdgeFile(tmp_path / "edges", block, n_blocks, 700)
    parts = np.array_split(np.arange(5000), 4)
    edges.fill((senders[part], receivers[part]) for part in parts)
    found = []
    for cell in product(range(n_blocks), repeat=2):
        for s, r in edges.pairs(*cell, "in"):
            assert (r // block == cell[0]).all()
            assert (s // block == cell[1]).all()
            found += zip(s.tolist(), r.tolist(), strict=True)
    assert sorted(found) == sorted(zip(senders.tolist(), receivers.tolist(), strict=True))


@pytest.mark.parametrize("compiled", [False, True])
def test_rows_are_added_to_those_of_their_neighbours(compiled, monkeypatch):
    if compiled:
        pytest.importorskip("numba")
        monkeypatch.setattr("gnncal.graph.compiled.SMALLEST_GRAPH", 1)
    rng = np.random.default_rng(0)
    values = rng.random((50, 3), dtype=np.float32)
    others, nodes = rng.integers(50, size=2000), rng.integers(20, size=2000)
    sums, expected = np.ones((20, 3)), np.ones((20, 3))
    add_rows(values, others, nodes, sums)
    np.add.at(expected, nodes, values[others].astype(np.float64))
    np.testing.assert_allclose(sums, expected, rtol=1e-6)


def test_rows_of_a_file_are_read_in_blocks_and_from_anywhere(tmp_path):
    rows = np.arange(30.0).reshape(10, 3)
    file = RowFile(tmp_path / "rows", 3, np.float32)
    file.append(rows[:4])
    file.append(rows[4:])
    file.finish()
    assert np.array_equal(file.read(3, 99), rows[3:])
    assert np.array_equal(file.read(10, 12), rows[10:])
    assert np.array_equal(file.take(np.array([9, 0])), rows[[9, 0]])


def test_few_items_are_ahead_of_what_is_taken_and_their_order_stays():
    made = []

    def items():
        for number in range(100):
            made.append(number)
            yield number

    for taken, value in enumerate(parallel(lambda x: 2 * x, items(), 3)):
        assert value == 2 * taken
        assert len(made) <= taken + 5
