"""One calibration and one report: what they check and compute, and how often."""

import sys
from collections import Counter

import numpy as np
import pytest

import gnncal

COUNTED = {
    *("check_logits", "describe_neighbourhoods", "check_labels", "check_graph", "support_of"),
    *("quantities_of", "losses_of_scaling"),
}


def task(n=240):
    generator = np.random.default_rng(0)
    labels = generator.integers(4, size=n)
    logits = 2 * np.eye(4)[labels] + 1.5 * generator.normal(size=(n, 4))
    graph = gnncal.Graph(generator.integers(n, size=(2, 5 * n)), n)
    splits = {
        "calibration_nodes": range(80),
        "train_nodes": range(80, 100),
        "test_nodes": range(100, n),
    }
    return (logits, labels, graph), splits


def calls_of(work):
    """How often each function of the package is called, by its name, once all is loaded."""
    work()
    calls = Counter()

    def count(frame, event, _):
        if event == "call" and frame.f_globals.get("__name__", "").startswith("gnncal."):
            calls[frame.f_code.co_name] += 1

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return {name: calls[name] for name in COUNTED}


@pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning")
@pytest.mark.parametrize(
    "method", ["structural", "structural-temperature", "structural-free", "auto", "hots", "ts"]
)
def test_a_calibration_checks_each_array_once_and_describes_neighbourhoods_once(method):
    arrays, splits = task()
    calls = calls_of(lambda: gnncal.calibrate(*arrays, **splits, method=method))
    assert calls["check_logits"] == calls["check_graph"] == 1
    assert calls["check_labels"] == 2  # those of the test nodes, and those that a fit may see
    assert calls["describe_neighbourhoods"] == (method.startswith("structural") or method == "auto")
    assert calls["support_of"] == (method == "hots")


@pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning")
def test_a_report_checks_the_logits_once_and_describes_neighbourhoods_once():
    arrays, splits = task()
    calls = calls_of(lambda: gnncal.report(*arrays, **splits))
    assert calls["check_logits"] == 1
    assert calls["describe_neighbourhoods"] == 1
    assert calls["support_of"] == 2  # of senders for HoTS, of all neighbours for the page
    assert calls["losses_of_scaling"] == 1  # several methods are compared with it
    assert calls["quantities_of"] == 2  # all calibration nodes, and those that are not held out


@pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning")
def test_a_record_that_several_methods_share_is_never_checked_again():
    (logits, labels, graph), splits = task()
    nodes = gnncal.Nodes(logits, graph)

    def work():
        for method in ("structural", "hots", "ts"):
            gnncal.calibrate(nodes, labels, **splits, method=method)

    calls = calls_of(work)
    assert calls["check_logits"] == calls["check_graph"] == calls["describe_neighbourhoods"] == 0


@pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning")
@pytest.mark.parametrize("method", ["structural", "hots"])
def test_logits_that_were_changed_in_place_are_looked_at_again(method):
    (logits, labels, graph), splits = task()
    fitted = gnncal.get_calibrator(method).fit(
        logits, labels, graph, calibration_nodes=splits["calibration_nodes"]
    )
    before = fitted.predict_proba(logits, graph)
    kept = logits.copy()
    logits[:] = logits[::-1].copy()
    assert not np.array_equal(fitted.predict_proba(logits, graph), before)
    np.testing.assert_array_equal(fitted.predict_proba(kept, graph), before)
