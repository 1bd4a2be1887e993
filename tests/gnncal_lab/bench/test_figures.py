"""What is drawn is what was recorded."""

import numpy as np
import pytest

from gnncal_lab.bench.records import append_records
from gnncal_lab.bench.results import read_results
from tests.gnncal_lab.bench.test_tables import record

figures = pytest.importorskip("gnncal_lab.pages.bench.figures")
pytest.importorskip("matplotlib", reason="figures need the extra plot")


def test_bins_of_all_seeds_are_added_before_they_are_averaged(tmp_path):
    records = [record("Cora", "gcn", seed, "ts", 0.1) for seed in (0, 1)]
    for found, count, correct in zip(records, ([0, 4], [1, 12]), ([0, 1], [1, 9]), strict=True):
        found.metrics["reliability"] = {
            "count": count,
            "confidence": [0.3 * count[0], 0.75 * count[1]],
            "correct": correct,
        }
    append_records(tmp_path, records)
    bins = figures.pooled_bins(read_results(tmp_path)["paper"], "Cora", "gcn", "ts")
    np.testing.assert_array_equal(bins.count, [1, 16])
    np.testing.assert_allclose(bins.confidence, [0.3, 0.75])
    np.testing.assert_allclose(bins.accuracy, [1.0, 10 / 16])
    np.testing.assert_allclose(bins.upper, [0.5, 1.0])


def test_the_titles_of_a_split_say_its_gap():
    split = {"confidence": [0.2, 0.8], "accuracy": [[0.1, 0.5], [0.6, 0.9]], "gap": 0.35}
    figure = figures.homophily_grid("GCN", {"Cora": {"splits": {"2": split}}}, 2)
    (ax,) = figure.axes
    assert ax.get_title() == "Cora  +35.0"
    lines = {line.get_label(): line.get_ydata() for line in ax.lines[1:]}
    np.testing.assert_array_equal(lines["low h"], [0.1, 0.6])
    np.testing.assert_array_equal(lines["high h"], [0.5, 0.9])
