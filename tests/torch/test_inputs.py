"""A module uses the edges it gets, refuses values it cannot use, and spreads no NaN."""

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import gnncal
from tests.strategies import small_task

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning", "ignore:Sparse")
WITH_HOPS = ("hots", "rbs", "structural-temperature", "structural")


def module_of(name):
    return small_task().fit(gnncal.get_calibrator(name)).to_torch()


def random_inputs(n_nodes=60, n_edges=240, seed=0):
    generator = np.random.default_rng(seed)
    logits = 2 * generator.normal(size=(n_nodes, 3))
    return torch.from_numpy(logits), torch.from_numpy(
        generator.integers(n_nodes, size=(2, n_edges))
    )


@pytest.mark.parametrize("name", WITH_HOPS)
def test_edges_changed_in_place_are_the_edges_that_count(name):
    module, (logits, edges) = module_of(name), random_inputs()
    memory = edges.numpy()
    before = module(logits, edges)
    memory[1] = np.roll(memory[1], 7)  # torch does not count this change
    after = module(logits, edges)
    assert not torch.allclose(before, after)
    assert torch.equal(after, module_of(name)(logits, edges.clone()))
    edges.copy_(edges.roll(1))  # this one it counts
    assert torch.equal(module(logits, edges), module_of(name)(logits, edges.clone()))


def test_threads_with_different_graphs_share_a_module():
    module = module_of("hots")
    cases = [random_inputs(60, 240, seed) for seed in (1, 2)]
    expected = [module(*case) for case in cases]

    def is_right(turn):
        return torch.equal(module(*cases[turn % 2]), expected[turn % 2])

    interval = sys.getswitchinterval()
    try:
        sys.setswitchinterval(1e-6)  # threads take turns as often as they can
        with ThreadPoolExecutor(4) as pool:
            assert all(pool.map(is_right, range(800)))
    finally:
        sys.setswitchinterval(interval)


@pytest.mark.parametrize("name", WITH_HOPS)
def test_a_list_of_edges_and_a_graph_give_the_same_numbers(name):
    module, (logits, edges) = module_of(name), random_inputs(500, 3000)
    both_directions = torch.cat([edges, edges.flip(0)], dim=1)
    for each in (edges, both_directions, edges[:, :0]):
        found = module(logits, gnncal.Graph(each, 500))
        assert torch.allclose(module(logits, each), found, atol=1e-12)
        assert torch.allclose(module(logits, each.int()), found, atol=1e-12)


@pytest.mark.parametrize("name", ["ts", "vs", *WITH_HOPS])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_logits_that_are_not_finite_are_refused(name, value):
    module, (logits, edges) = module_of(name), random_inputs(2000, 20_000)
    logits[7, 1] = value
    with pytest.raises(gnncal.InputError, match="NaN or infinity in 1 of 2000 rows"):
        module(logits, edges)


@pytest.mark.parametrize("name", ["ts", "vs", *WITH_HOPS])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_without_the_check_such_a_node_gets_nan_and_no_other_changes(name, value):
    module, (logits, edges) = module_of(name), random_inputs(2000, 20_000)
    without = edges[:, (edges != 7).all(dim=0)]
    expected = module(logits, without)
    logits[7, 1] = value
    module.checks_values = False
    for given in (edges, gnncal.Graph(edges, 2000)):
        found = module(logits, given)
        assert found[7].isnan().all()
        others = torch.arange(2000) != 7
        assert torch.allclose(found[others], expected[others], atol=1e-12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda z, e: (z.numpy(), e), "is a ndarray, not a dense tensor"),
        (lambda z, e: (z.to(torch.complex64), e), "complex64, which would lose its imaginary part"),
        (lambda z, e: (z, e.to("meta")), "on the device meta has a shape and no values"),
        (lambda z, e: (z, e.to(torch.complex64)), "complex64 that gnncal cannot read as edges"),
        (lambda z, e: (z, e > 3), "bool that gnncal cannot read as edges"),
        (lambda z, e: (z, e.T), r"expected \(2, n_edges\).* Transpose it"),
        (lambda z, e: (z, e - 1), "names node -1; nodes are numbered from 0"),
        (lambda z, e: (z, e + 1), r"names node 60 but there are 60 nodes \(0\.\.59\)"),
        (lambda z, e: (z, torch.ones(60, 61).to_sparse()), r"shape \(60, 61\); expected a square"),
        (lambda z, e: (z, torch.ones(60, 61).to_sparse_csr()), "expected a square"),
        (lambda z, e: (z, torch.ones(50, 50).to_sparse()), r"shape \(50, 50\); .* the 60 nodes"),
    ],
)
def test_inputs_that_cannot_be_read_are_told_in_a_sentence(change, message):
    logits, edges = random_inputs()
    edges[:, 0] = torch.tensor([0, 59])
    with pytest.raises(gnncal.InputError, match=message):
        module_of("hots")(*change(logits, edges))


def test_the_neighbours_of_a_hub_are_added_without_losing_digits():
    module, n_nodes = module_of("hots"), 400_000
    logits = torch.tensor([[0.3, 0.0, -0.1]]).repeat(n_nodes, 1)
    to_hub = torch.stack([torch.arange(1, n_nodes), torch.zeros(n_nodes - 1, dtype=torch.long)])
    exact = module(logits.double(), to_hub)[0]
    assert torch.allclose(module(logits, to_hub)[0].double(), exact, atol=1e-6)
