"""The graphs themselves against the paper's table of data sets."""

import os
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from gnncal_lab.datasets import FACTS, list_datasets, load

TOLERANCE = 0.001


def dataset(name):
    root = os.environ.get("GNNCAL_DATA")
    if root is None:
        pytest.skip("GNNCAL_DATA names no folder with raw files")
    facts = FACTS[name]
    if not all((Path(root) / facts.folder / file).exists() for file in facts.files):
        pytest.skip(f"the raw files of {name} are not in GNNCAL_DATA")
    return load(name, root)


def out_homophily(data):
    """Share of a node's own class among those it sends to, itself included; 0 where none."""
    senders, receivers = data.graph.edge_index
    same = np.bincount(senders, data.labels[senders] == data.labels[receivers])
    count = np.bincount(senders, minlength=data.graph.n_nodes)
    padded = np.pad(same, (0, len(count) - len(same)))
    return padded / np.maximum(count, 1)


@pytest.mark.parametrize("name", list_datasets())
def test_counts_are_those_of_the_paper(name):
    data, facts = dataset(name), FACTS[name]
    counts = data.graph.n_nodes, data.graph.n_edges, data.n_classes, data.graph.features.shape[1]
    assert counts == (facts.n_nodes, facts.n_edges, facts.n_classes, facts.n_features)
    assert data.labels.min() == 0


@pytest.mark.parametrize("name", list_datasets())
def test_homophily_is_that_of_the_paper(name):
    data, facts = dataset(name), FACTS[name]
    if facts.note:
        pytest.skip(facts.note)
    h = out_homophily(data)
    assert h.mean() == pytest.approx(facts.homophily, abs=TOLERANCE)
    assert h.std(ddof=1) == pytest.approx(facts.homophily_std, abs=TOLERANCE)


@pytest.mark.parametrize("name", list_datasets())
def test_features_are_as_sparse_as_their_file(name):
    features = dataset(name).graph.features
    assert features.dtype == np.float32
    if not sparse.issparse(features):
        assert np.count_nonzero(features) >= 0.3 * features.size


def test_the_table_has_the_papers_eighteen_graphs_by_regime():
    by_regime = {regime: [] for regime in ("homophilic", "heterophilic", "large")}
    for name, facts in FACTS.items():
        by_regime[facts.regime].append(name)
    assert [len(names) for names in by_regime.values()] == [8, 8, 2]
    groups = {g: [n for n in FACTS if FACTS[n].group == g] for g in ("G1", "G2", "G3")}
    assert groups["G2"] == ["CoraFull", "Computers", "Photo", "CS", "Physics"]
    assert groups["G3"] == ["ogbn-arxiv"]
