"""Regions of a graph, on graphs small enough to draw."""

import networkx
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gnncal import Graph
from gnncal.reporting.groups import find_hubs, nearest_source


def path(n_nodes):
    """0 - 1 - 2 - ..., listed in one direction only."""
    return Graph(np.stack([np.arange(n_nodes - 1), np.arange(1, n_nodes)]), n_nodes)


def test_on_a_path_nodes_belong_to_the_nearer_end():
    found = nearest_source(path(7), np.array([0, 6]))
    assert found.hops.tolist() == [0, 1, 2, 3, 2, 1, 0]
    assert found.source.tolist() == [0, 0, 0, 0, 1, 1, 1]  # the middle takes the first source


def test_nodes_in_another_component_are_out_of_reach():
    found = nearest_source(Graph([[0, 2], [1, 3]], 5), np.array([0]))
    assert found.hops.tolist() == [0, 1, -1, -1, -1]
    assert found.source.tolist() == [0, 0, -1, -1, -1]


@settings(deadline=None)
@given(st.integers(2, 12), st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=30))
def test_hops_are_the_shortest_paths_of_networkx(n_nodes, pairs):
    edges = np.array([(a % n_nodes, b % n_nodes) for a, b in pairs], dtype=np.int64).reshape(-1, 2)
    sources = np.arange(min(2, n_nodes))
    found = nearest_source(Graph(edges.T, n_nodes), sources)
    network = networkx.Graph()
    network.add_nodes_from(range(n_nodes))
    network.add_edges_from(edges.tolist())
    distances = [networkx.single_source_shortest_path_length(network, s) for s in sources.tolist()]
    for node in range(n_nodes):
        away = [reached.get(node, np.inf) for reached in distances]
        nearest = min(away)
        assert found.hops[node] == (-1 if np.isinf(nearest) else nearest)
        assert found.source[node] == (-1 if np.isinf(nearest) else away.index(nearest))


def test_hubs_are_not_neighbours_of_each_other():
    # Two stars around 0 and 5, joined by an edge; 1 has the third degree.
    pairs = [(0, 1), (0, 2), (0, 3), (0, 4), (5, 6), (5, 7), (5, 8), (0, 5), (6, 7)]
    hubs = find_hubs(Graph(np.array(pairs).T, 9), n_hubs=3)
    assert hubs[0] == 0
    assert 5 not in hubs
    assert hubs.tolist() == [0, 6, 8]
