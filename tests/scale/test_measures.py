"""Metrics from sums equal the metrics of gnncal.metrics."""

import json

import numpy as np
import pytest

from gnncal import load, metrics
from gnncal.calibrators import softmax
from gnncal.scale import calibrate
from gnncal.scale.summary import Degrees, Sums, terms_of
from tests.metrics.outcomes import degree_blocks
from tests.scale.graphs import make_example

pytestmark = [
    pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture(scope="module", params=["hots", "structural", "structural-free"])
def judged(request, tmp_path_factory):
    """An example large enough for the normal floor, its summary, probabilities and folder.

    The probabilities are those of the saved calibrator: a second fit in memory, on input that
    differs by rounding, ends up to 1e-5 away.
    """
    folder = tmp_path_factory.mktemp("judged")
    example = make_example(n_nodes=4000)
    summary = calibrate(*example.write(folder), folder / "out", method=request.param)
    calibrator = load(folder / "out" / "calibrator.safetensors")
    after = calibrator.predict_proba(example.logits, example.graph)
    return example, summary, after, folder / "out"


def test_every_metric_equals_that_of_the_metrics_module(judged):
    example, summary, after, _ = judged
    test = example.nodes_of("test")
    labels = example.labels[test]
    for found, probs in ((summary.before, softmax(example.logits)), (summary.after, after)):
        chosen = probs[test]
        assert found.n_nodes == test.size
        assert found.accuracy == pytest.approx(metrics.METRICS["accuracy"](labels, chosen))
        assert found.nll == pytest.approx(metrics.METRICS["nll"](labels, chosen))
        assert found.brier == pytest.approx(metrics.METRICS["brier"](labels, chosen))
        ece = metrics.expected_calibration_error(labels, chosen)
        assert found.ece == pytest.approx(ece, abs=1e-9)
        degree = example.graph.in_degree[test]
        by_degree = metrics.METRICS["degree_ece"](labels, chosen, degree)
        assert found.degree_ece == pytest.approx(by_degree, abs=1e-6)
        floor = metrics.calibration_floor(chosen)
        assert found.ece_floor == pytest.approx(floor.mean, rel=1e-4)
        assert found.ece_floor_spread == pytest.approx(floor.spread, rel=1e-4)
        bins = metrics.reliability_bins(labels, chosen)
        assert found.reliability.count.tolist() == bins.count.tolist()
        np.testing.assert_allclose(found.reliability.confidence, bins.confidence)
        np.testing.assert_allclose(found.reliability.accuracy, bins.accuracy)


def test_the_paired_difference_is_that_of_compare(judged):
    from gnncal import compare

    example, summary, after, _ = judged
    test = example.nodes_of("test")
    expected = compare(example.labels[test], softmax(example.logits)[test], after[test])
    assert summary.prediction_change_rate == pytest.approx(expected.prediction_change_rate)
    for name in ("nll", "brier"):
        found = summary.differences[name]
        assert found.mean == pytest.approx(expected.differences[name].mean)
        assert found.low == pytest.approx(expected.differences[name].low)
        assert found.high == pytest.approx(expected.differences[name].high)


def test_a_summary_is_written_as_json(judged):
    _, summary, _, folder = judged
    written = json.loads((folder / "metrics.json").read_text())
    assert written["after"]["ece"] == summary.after.ece
    assert written["after"]["reliability"]["count"] == summary.after.reliability.count.tolist()


def blocks_of(degree, confidence, hit):
    """The degree blocks of nodes with these numbers, added up in two batches."""
    degree, confidence, hit = map(np.asarray, (degree, confidence, hit))
    probs = np.stack([confidence, 1 - confidence], axis=1)
    labels = np.where(hit == 1, probs.argmax(axis=1), probs.argmin(axis=1))
    found = [Sums(Degrees(*np.unique(degree, return_counts=True))) for _ in range(2)]
    for part, rows in zip(found, np.array_split(np.arange(degree.size), 2), strict=True):
        part.add(degree[rows], terms_of(labels[rows], [probs[rows]] * 2))
    found[0].merge(found[1].totals)
    return found[0].measured(1).degree_blocks


def test_degree_blocks_equal_those_in_memory_where_no_block_splits_a_degree():
    rng = np.random.default_rng(0)
    degree, confidence = np.repeat(np.arange(20), 10), rng.uniform(0.5, 1.0, 200)
    hit = (rng.random(200) < 0.5).astype(float)
    blocks = blocks_of(degree, confidence, hit)
    expected = degree_blocks(degree)
    for block in range(10):
        rows = expected == block
        assert blocks.count[block] == rows.sum()
        assert blocks.confidence[block] == pytest.approx(confidence[rows].mean())
        assert blocks.accuracy[block] == pytest.approx(hit[rows].mean())
        assert blocks.lowest[block] == degree[rows].min()
        assert blocks.highest[block] == degree[rows].max()


def test_a_degree_at_the_border_of_two_blocks_counts_for_both_by_share():
    blocks = blocks_of([0] * 15 + [1] * 85, [0.7] * 100, [1] * 15 + [0] * 85)
    assert blocks.accuracy[:3].tolist() == pytest.approx([1.0, 0.5, 0.0])


def test_floors_of_few_and_of_very_sure_nodes_equal_those_in_memory(tmp_path):
    example = make_example(n_nodes=300)
    example.logits[::2] *= 12  # misses are rare: the number of hits in the last bin is not normal
    summary = calibrate(*example.write(tmp_path), tmp_path / "out", method="ts")
    test = example.nodes_of("test")
    after = example.in_memory("ts").predict_proba(example.logits, example.graph)
    degree = example.graph.in_degree[test]
    for found, probs in ((summary.before, softmax(example.logits)), (summary.after, after)):
        floor = metrics.calibration_floor(probs[test])
        assert found.ece_floor == pytest.approx(floor.mean, rel=1e-4)
        assert found.ece_floor_spread == pytest.approx(floor.spread, rel=1e-4)
        judged = metrics.Outcomes(example.labels[test], probs[test], degree)
        by_degree = metrics.METRICS["degree_ece"]
        assert found.degree_ece == pytest.approx(by_degree.of(judged), abs=1e-6)
        assert found.degree_ece_floor == pytest.approx(by_degree.floor(judged).mean, rel=1e-4)
