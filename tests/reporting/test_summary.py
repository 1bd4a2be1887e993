"""The page of a run at scale, from its summary alone."""

from dataclasses import replace

import numpy as np
import pytest

from gnncal.data.errors import InputError
from gnncal.keeping_cost import KeepingCost, OverpredictedClass
from gnncal.metrics.binning import ReliabilityBins
from gnncal.metrics.evaluation import Difference
from gnncal.reporting.summary import summary_page, summary_verdict
from gnncal.scale.summary import (
    DegreeBlocks,
    Measured,
    ScaleSummary,
    read_summary,
    write_summary,
)


def side(ece, nll):
    count = np.array([0, 40, 60])
    confidence, accuracy = np.array([np.nan, 0.5, 0.9]), np.array([np.nan, 0.5, 0.9 - ece])
    bins = ReliabilityBins(count, confidence, accuracy, np.arange(3) / 3, np.arange(1, 4) / 3)
    ends = np.array([0.0, 1.0]), np.array([1.0, 9.0])
    blocks = DegreeBlocks(count[1:], confidence[1:], accuracy[1:], *ends)
    return Measured(100, 0.7, ece, 0.02, 0.005, ece, 0.02, 0.005, nll, nll / 2, bins, blocks)


@pytest.fixture
def summary():
    return made_up_summary()


def made_up_summary():
    return ScaleSummary(
        method="<b>ts</b>",
        engine="duckdb",
        n_nodes=1000,
        n_edges=5000,
        n_classes=3,
        n_calibration_nodes=200,
        n_test_nodes=100,
        is_undirected=None,
        class_names=None,
        before=side(0.2, 1.5),
        after=side(0.021, 1.1),
        differences={"nll": Difference(-0.4, -0.5, -0.3), "brier": Difference(-0.2, -0.3, -0.1)},
        learned={"base_temperature_": 2.0},
        skipped=[],
        notes=["a & b"],
        seconds={"fit": 1.0},
        prediction_change_rate=0.0,
        provenance={"gnncal": "1"},
    )


def test_the_page_shows_metrics_verdict_and_notes_as_text(summary):
    page = summary_page(summary, title="At scale")
    for text in ("You can act on this confidence", "20.00", "&lt;b&gt;ts&lt;/b&gt;", "a &amp; b"):
        assert text in page
    assert "<b>ts</b>" not in page


def test_an_error_far_above_its_floor_is_not_honest(summary):
    worse = replace(summary, after=replace(summary.after, ece=0.1))
    assert summary_verdict(summary).grade == "good"
    assert summary_verdict(worse).label == "Better, not perfect"


def test_what_keeping_predictions_costs_is_in_the_verdict_as_in_memory(summary, tmp_path):
    given = OverpredictedClass(number=1, mean=0.4, rate=0.1)
    price = KeepingCost(0.2, 0.01, 200, 0.3, given, "structural-free", has_free_variant=True)
    write_summary(replace(summary, price=price), tmp_path)
    again = read_summary(tmp_path)
    assert again.price == price
    assert summary_verdict(again).label == "Do not use these probabilities"
    assert "Pass keep_predictions=False (--free" in summary_verdict(again).text


def test_without_test_labels_there_is_no_page(summary):
    with pytest.raises(InputError, match="no metrics, because no test node has a label"):
        summary_page(replace(summary, before=None, after=None), title="At scale")
