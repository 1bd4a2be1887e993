"""Small fits use one thread of BLAS and torch, and leave both as they were."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import gnncal
from gnncal.calibrators import FitReport, softmax


def blas_threads():
    return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}


class Spy(gnncal.Calibrator):
    """A calibrator that looks at the threads during its fit."""

    preserves_predictions = True

    def _fit(self, nodes):
        self.seen_ = blas_threads()
        if nodes.n_classes == 3:
            raise gnncal.InputError("three classes")
        self.fit_report_ = FitReport.of(nodes, loss_after=float("nan"))

    def _predict(self, nodes):
        return softmax(nodes.logits)


@pytest.fixture(autouse=True)
def three_threads():
    if not blas_threads():
        pytest.skip("no BLAS whose threads can be told")
    with threadpool_limits(3, user_api="blas"):
        yield


def task(n_nodes, n_classes=2):
    labels = np.arange(n_nodes) % n_classes
    return 4 * np.eye(n_classes, dtype=np.float32)[labels], labels


def test_a_small_fit_uses_one_thread_and_gives_the_others_back():
    before = blas_threads()
    assert Spy().fit(*task(100)).seen_ == {1}
    assert blas_threads() == before == {3}


def test_a_fit_that_fails_gives_the_threads_back():
    with pytest.raises(gnncal.InputError):
        Spy().fit(*task(99, 3))
    assert blas_threads() == {3}


@pytest.mark.slow
def test_a_large_fit_keeps_its_threads():
    assert Spy().fit(*task(1_100_000)).seen_ == {3}


def test_features_count_for_the_size():
    logits, labels = task(11_000)
    edges = np.array([[0], [1]])
    large = gnncal.Graph(edges, len(labels), features=np.ones((11_000, 200), dtype=np.float32))
    chosen = {"calibration_nodes": np.arange(100)}
    assert Spy().fit(logits, labels, large, **chosen).seen_ == {3}
    small = gnncal.Graph(edges, len(labels), features=large.features[:, :9])
    assert Spy().fit(logits, labels, small, **chosen).seen_ == {1}


@pytest.mark.parametrize("leaves_first", [True, False])
def test_fits_that_overlap_give_the_threads_back_together(leaves_first):
    inside, one_is_done = Barrier(2), Barrier(2)

    class Waits(Spy):
        def _fit(self, nodes):
            inside.wait(30)
            super()._fit(nodes)
            if not self.leaves_first:
                one_is_done.wait(30)

    def fit(leaves_first):
        calibrator = Waits()
        calibrator.leaves_first = leaves_first
        calibrator.fit(*task(100))
        if leaves_first:
            one_is_done.wait(30)

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(fit, not leaves_first)
        fit(leaves_first)
        other.result(timeout=30)
    assert blas_threads() == {3}


def test_a_fit_inside_a_fit_does_not_end_the_limit():
    class Outer(Spy):
        def _fit(self, nodes):
            Spy().fit(*task(100))
            super()._fit(nodes)

    assert Outer().fit(*task(100)).seen_ == {1}
    assert blas_threads() == {3}


@pytest.mark.slow
def test_torch_has_one_thread_during_a_small_fit_and_its_own_after():
    torch = pytest.importorskip("torch")

    class Neural(Spy):
        needs_torch = True

        def _fit(self, nodes):
            super()._fit(nodes)
            self.seen_ = torch.get_num_threads()

    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        assert Neural().fit(*task(100)).seen_ == 1
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_predictions_do_not_depend_on_the_threads_outside():
    generator = np.random.default_rng(0)
    labels, edges = generator.integers(4, size=300), generator.integers(300, size=(2, 1500))
    logits = generator.normal(size=(300, 4)) + 2 * np.eye(4)[labels]
    features = generator.normal(size=(300, 16)).astype(np.float32)
    graph, found = gnncal.Graph(edges, 300, features=features), []
    for threads in (1, 3):
        with threadpool_limits(threads, user_api="blas"):
            fitted = gnncal.calibrators.HoTS(homophily="predictor")
            fitted.fit(logits, labels, graph, calibration_nodes=np.arange(100))
        found.append((fitted.alpha_, fitted.beta_, fitted.base_temperature_))
    assert found[0] == found[1]
