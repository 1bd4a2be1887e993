"""The compiled loops over the edges (the extra ``fast``) against SciPy's products."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

import gnncal
from gnncal.graph import compiled
from gnncal.graph.neighbours import neighbour_class_share

needs_numba = pytest.mark.skipif(
    not compiled._is_installed(), reason="numba is not installed (the extra 'fast')"
)
PRECISION = {np.float32: 1e-6, np.float64: 1e-12}


def random_edges(n_nodes, n_edges, seed=0):
    """Edges with loops, multi-edges, a hub, and some nodes without any."""
    generator = np.random.default_rng(seed)
    edges = generator.integers(0, n_nodes - 3, size=(2, n_edges))
    edges[1, : n_edges // 4] = 5  # the hub
    edges[:, -7:] = edges[0, -7:]
    return edges


def both_directions(edges):
    return np.concatenate([edges, edges[::-1]], axis=1)


EDGES = {
    "directed": random_edges(300, 4000),
    "undirected": both_directions(random_edges(300, 2000)),
    "int32": random_edges(300, 2000).astype(np.int32),
    "uint8, strided": np.ascontiguousarray(random_edges(200, 900).astype(np.uint8).T).T,
    "one edge": np.array([[0], [1]]),
    "only loops": np.array([[1, 1, 2], [1, 1, 2]]),
}


def everything_about(edges, n_nodes, dtype):
    """All that the seam computes, by name."""
    generator = np.random.default_rng(1)
    values = generator.random((n_nodes, 21)).astype(dtype)
    classes = generator.integers(-1, 21, size=n_nodes)
    votes = generator.integers(-1, 21, size=n_nodes)
    graph = gnncal.Graph(edges, n_nodes)
    found = {
        name: getattr(graph, name)
        for name in ("indptr", "indices", "in_degree", "out_degree", "self_loops", "fingerprint")
    }
    found["is_undirected"] = graph.is_undirected
    for side in ("in", "out", "both"):
        found[f"mean {side}"] = graph.neighbour_mean(values, side=side)
        found[f"mean of one {side}"] = graph.neighbour_mean(values[:, 0], side=side)
        found[f"class {side}"] = neighbour_class_share(graph, classes, values, side=side)
        found[f"votes {side}"] = neighbour_class_share(graph, classes, votes, side=side)
        found[f"counted {side}"] = neighbour_class_share(
            graph, classes, votes, side=side, counted=votes >= 0
        )
    return found


@pytest.fixture
def always_compiled(monkeypatch):
    monkeypatch.setattr(compiled, "SMALLEST_GRAPH", 0)
    monkeypatch.setattr(compiled, "EDGES_PER_PIECE", 16)
    monkeypatch.setattr(compiled, "EDGES_PER_BUCKET", 64)


@needs_numba
@pytest.mark.parametrize("dtype", list(PRECISION))
@pytest.mark.parametrize("kind", list(EDGES))
def test_compiled_loops_give_the_numbers_of_scipy(kind, dtype, monkeypatch):
    edges = EDGES[kind]
    n_nodes = 300 if edges.shape[1] > 10 else 4
    expected = everything_about(edges, n_nodes, dtype)
    monkeypatch.setattr(compiled, "SMALLEST_GRAPH", 0)
    monkeypatch.setattr(compiled, "EDGES_PER_PIECE", 16)
    monkeypatch.setattr(compiled, "EDGES_PER_BUCKET", 64)
    found = everything_about(edges, n_nodes, dtype)
    for name, value in expected.items():
        if isinstance(value, np.ndarray):
            assert found[name].dtype == value.dtype, name
            np.testing.assert_allclose(
                found[name], value, rtol=0, atol=PRECISION[dtype], err_msg=name
            )
        else:
            assert found[name] == value, name


@needs_numba
@pytest.mark.usefixtures("always_compiled")
def test_the_number_of_threads_changes_no_bit(monkeypatch):
    monkeypatch.setattr(compiled, "n_threads", lambda: 1)
    expected = everything_about(EDGES["directed"], 300, np.float32)
    for count in (2, 7):
        monkeypatch.setattr(compiled, "n_threads", lambda count=count: count)
        found = everything_about(EDGES["directed"], 300, np.float32)
        for name, value in expected.items():
            np.testing.assert_array_equal(found[name], value, err_msg=name)


@needs_numba
def test_a_large_graph_uses_them_and_a_small_one_does_not():
    assert compiled.kernels_for(compiled.SMALLEST_GRAPH - 1) is None
    assert compiled.kernels_for(compiled.SMALLEST_GRAPH) is not None


@needs_numba
@pytest.mark.usefixtures("always_compiled")
def test_threads_may_call_them_at_the_same_time():
    expected = everything_about(EDGES["undirected"], 300, np.float64)
    with ThreadPoolExecutor(4) as pool:
        jobs = [
            pool.submit(everything_about, EDGES["undirected"], 300, np.float64) for _ in range(8)
        ]
        for job in jobs:
            np.testing.assert_array_equal(job.result()["mean both"], expected["mean both"])


def in_a_child(pipe):
    pipe.send(everything_about(EDGES["directed"], 300, np.float64)["mean both"])


@needs_numba
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of forks beside idle BLAS threads
@pytest.mark.usefixtures("always_compiled")
def test_a_forked_process_may_call_them():
    expected = everything_about(EDGES["directed"], 300, np.float64)["mean both"]
    here, there = get_context("fork").Pipe()
    child = get_context("fork").Process(target=in_a_child, args=(there,))
    child.start()
    assert here.poll(60), "the child does not answer"
    np.testing.assert_array_equal(here.recv(), expected)
    child.join()


ALWAYS = """
import numpy as np, gnncal
from gnncal.graph import compiled
compiled.SMALLEST_GRAPH = 0
print(gnncal.Graph([[0, 1], [1, 2]]).neighbour_mean([1.0, 2.0, 3.0]).tolist())
"""


def answer_of(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@needs_numba
def test_they_work_where_nothing_can_be_kept(tmp_path):
    # A file in place of the folder: it cannot be written to, not even by root.
    (tmp_path / "file").write_text("")
    answer = answer_of(ALWAYS, NUMBA_CACHE_DIR=str(tmp_path / "file"))
    assert answer == "[nan, 1.0, 2.0]"


def test_they_are_left_out_where_numba_may_not_compile():
    code = "from gnncal.graph import compiled; print(compiled.kernels_for(1 << 40))"
    assert answer_of(code, NUMBA_DISABLE_JIT="1") == "None"


def test_a_small_graph_never_imports_numba():
    code = (
        "import sys, numpy as np, gnncal; g = gnncal.Graph([[0, 1], [1, 0]]); g.is_undirected;"
        "g.neighbour_mean(np.ones(2)); print('numba' in sys.modules)"
    )
    assert answer_of(code) == "False"


@pytest.mark.parametrize(("given", "limit"), [("1", 1), ("1,4", 1), ("", None), ("many", None)])
def test_threads_are_limited_as_other_libraries_are(monkeypatch, given, limit):
    from joblib import cpu_count

    monkeypatch.setenv("OMP_NUM_THREADS", given)
    assert compiled.n_threads() == (limit or cpu_count())
