"""A parsed graph is kept, and never believed when the raw files have changed."""

import os

import numpy as np
import pytest
from scipy import sparse

from gnncal.graph.graph import Graph
from gnncal_lab.datasets import Dataset, cache, load
from tests.gnncal_lab.datasets import files

X = np.array([[0.5, -1], [2, 0.1], [3, 3]], dtype=np.float32)


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    write(tmp_path, [2, 0, 1])
    return tmp_path


def write(root, labels):
    files.write_heterophilous(root, "tolokers", X, labels, np.array([[0, 1]]))


def forbid_parsing(monkeypatch):
    monkeypatch.setattr("gnncal_lab.datasets.loading._parse", lambda *_: pytest.fail("was parsed"))


def stored(root):
    return root / "xdg/gnncal/parsed/tolokers.npz"


def same(one, other):
    np.testing.assert_array_equal(one.labels, other.labels)
    np.testing.assert_array_equal(one.graph.edge_index, other.graph.edge_index)
    np.testing.assert_array_equal(one.graph.features, other.graph.features)


def test_the_second_load_reads_the_cache_and_gives_the_same_graph(root, monkeypatch):
    first = load("tolokers", root)
    forbid_parsing(monkeypatch)
    same(load("tolokers", root), first)


def test_sparse_features_survive_the_cache(root, monkeypatch):
    rows = [(0, "0,0,0,3", 0), (1, "0,1,0,0", 1)]
    files.write_geom_gcn(root, "Squirrel", rows, [(0, 1)])
    first = load("Squirrel", root)
    forbid_parsing(monkeypatch)
    again = load("Squirrel", root)
    assert (again.graph.features != first.graph.features).nnz == 0
    assert again.fingerprint == first.fingerprint


def test_a_fingerprint_covers_features_and_labels_but_not_the_width_of_indices():
    edges, x = np.array([[0, 1], [1, 0]]), sparse.csr_array(np.array([[0.0, 2.0], [3.0, 0.0]]))
    wide = x.copy()
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)

    def fingerprint(features, labels):
        return Dataset("mine", Graph(edges, 2, features), np.array(labels)).fingerprint

    assert fingerprint(x, [0, 1]) == fingerprint(wide, [0, 1])
    different = [(x, [0, 1]), (x, [1, 1]), (2 * x, [0, 1]), (x.toarray(), [0, 1]), (None, [0, 1])]
    assert len({fingerprint(*parts) for parts in different}) == len(different)


def test_changed_raw_files_are_parsed_again(root):
    load("tolokers", root)
    write(root, [1, 1, 0])
    os.utime(root / "tolokers/raw/tolokers.npz", ns=(1, 1))
    assert load("tolokers", root).labels.tolist() == [1, 1, 0]


@pytest.mark.parametrize("keep", [0, 10, 200, -20])
def test_a_damaged_cache_is_parsed_again_and_mended(root, monkeypatch, keep):
    first = load("tolokers", root)
    payload = stored(root).read_bytes()
    stored(root).write_bytes(payload[:keep])
    same(load("tolokers", root), first)
    forbid_parsing(monkeypatch)
    same(load("tolokers", root), first)


def test_a_cache_that_cannot_be_written_is_no_reason_to_fail(root, monkeypatch):
    (root / "xdg").write_text("a file where the folder should be")
    assert load("tolokers", root).labels.tolist() == [2, 0, 1]


def test_a_change_of_format_invalidates_the_cache(root, monkeypatch):
    load("tolokers", root)
    paths = [root / "tolokers/raw/tolokers.npz"]
    before = cache.identity(paths)
    monkeypatch.setattr(cache, "FORMAT", cache.FORMAT + 1)
    assert cache.identity(paths) != before
    assert cache.read(stored(root), cache.identity(paths)) is None


def test_the_root_comes_from_the_environment(root, monkeypatch):
    monkeypatch.setenv("GNNCAL_DATA", str(root))
    assert load("tolokers").labels.tolist() == [2, 0, 1]
