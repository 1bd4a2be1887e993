"""A reliability diagram shows the record it is given."""

import re
import sys

import numpy as np
import pytest

import gnncal
from gnncal.metrics import (
    calibration_floor,
    clopper_pearson,
    expected_calibration_error,
    reliability_bins,
)
from gnncal.metrics.binning import ReliabilityBins
from gnncal.plotting import ReliabilityDisplay
from gnncal.plotting.reliability import draw_reliability
from gnncal.plotting.style import BAR, GAP, GREY
from gnncal_lab.pages.reliability import save_reliability

BINS = ReliabilityBins(
    count=np.array([0, 10, 0, 30]),
    confidence=np.array([np.nan, 0.4, np.nan, 0.9]),
    accuracy=np.array([np.nan, 0.3, np.nan, 1.0]),
    lower=np.array([0.0, 0.25, 0.5, 0.75]),
    upper=np.array([0.25, 0.5, 0.75, 1.0]),
)


@pytest.fixture
def ax():
    return pytest.importorskip("matplotlib.figure").Figure().subplots()


def boxes(ax, label):
    """(left, right, bottom, top) of every bar that the legend gives this name."""
    (bars,) = (bars for bars in ax.containers if bars.get_label() == label)
    extents = [bar.get_bbox() for bar in bars]
    return np.array([sorted((e.x0, e.x1)) + sorted((e.y0, e.y1)) for e in extents])


def test_a_reliability_diagram_has_one_bar_a_filled_bin_and_none_for_empty_ones(ax):
    draw_reliability(BINS, ax=ax, title="hots")
    accuracy = [[0.25, 0.5, 0, 0.3], [0.75, 1.0, 0, 1.0]]
    np.testing.assert_allclose(boxes(ax, "accuracy"), accuracy)
    gaps = [[0.25, 0.5, 0.3, 0.4], [0.75, 1.0, 0.9, 1.0]]  # over- and underconfident
    np.testing.assert_allclose(boxes(ax, "gap to mean confidence"), gaps)
    shares = boxes(ax, "share of nodes")
    np.testing.assert_allclose(shares[0, 2] / shares[1, 2], 10 / 30)
    assert len(ax.patches) == 6
    assert ax.get_title() == "hots"


def intervals(ax):
    """(x, low, high) of every interval that is drawn."""
    (container,) = (c for c in ax.containers if str(c.get_label()).endswith("interval"))
    (lines,) = container.lines[2]
    return np.array([[x, low, high] for (x, low), (_, high) in lines.get_segments()])


def test_intervals_are_those_of_clopper_and_pearson_and_empty_bins_have_none(ax):
    draw_reliability(BINS, ax=ax, level=0.9)
    low, high = clopper_pearson([3, 30], [10, 30], level=0.9)
    expected = np.stack([[0.375, 0.875], low, high], axis=1)
    np.testing.assert_allclose(intervals(ax), expected)


def test_without_a_level_there_are_no_intervals(ax):
    draw_reliability(BINS, ax=ax, level=None)
    assert "interval" not in " ".join(str(c.get_label()) for c in ax.containers)


def test_a_display_draws_the_records_that_one_would_compute_oneself(ax):
    generator = np.random.default_rng(1)
    labels = generator.integers(3, size=200)
    probs = gnncal.calibrators.softmax(generator.normal(size=(200, 3)))
    display = ReliabilityDisplay.from_predictions(labels, probs, n_bins=7, name="raw", ax=ax)
    bins = reliability_bins(labels, probs, n_bins=7)
    filled = bins.count > 0
    np.testing.assert_array_equal(display.bins.accuracy, bins.accuracy)
    np.testing.assert_allclose(boxes(ax, "accuracy")[:, 3], bins.accuracy[filled])
    np.testing.assert_allclose(intervals(ax)[:, 1], bins.accuracy_interval()[0][filled])
    ece = 100 * expected_calibration_error(labels, probs, n_bins=7)
    floor = 100 * calibration_floor(probs, n_bins=7).mean
    assert ax.get_title() == f"raw: ECE {ece:.2f} % (floor {floor:.2f} %)"


def test_a_record_alone_is_drawn_without_a_title(ax):
    assert ReliabilityDisplay(BINS).plot(ax).ax_.get_title() == ""


def test_the_picture_is_written_with_one_titled_panel_a_method(tmp_path, monkeypatch):
    figure_module = pytest.importorskip("matplotlib.figure")
    figures = []
    savefig = figure_module.Figure.savefig

    def remember(figure, *args, **kwargs):
        figures.append(figure)
        return savefig(figure, *args, **kwargs)

    monkeypatch.setattr(figure_module.Figure, "savefig", remember)
    path = tmp_path / "reliability.png"
    save_reliability({"all nodes": {"ts: ECE 4.15 %": BINS, "hots: ECE 4.10 %": BINS}}, path)
    assert path.read_bytes().startswith(b"\x89PNG")
    (figure,) = figures
    assert [ax.get_title() for ax in figure.axes] == ["ts: ECE 4.15 %", "hots: ECE 4.10 %"]
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["accuracy", "gap to mean confidence", "95% interval", "share of nodes"]


def test_diagrams_of_real_probabilities_have_no_empty_bars(ax):
    generator = np.random.default_rng(0)
    bins = reliability_bins(
        generator.integers(3, size=50), gnncal.calibrators.softmax(generator.normal(size=(50, 3)))
    )
    draw_reliability(bins, ax=ax)
    assert len(boxes(ax, "accuracy")) == (bins.count > 0).sum() < len(bins.count)


def luminance(colour):
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_bars_and_gaps_differ_in_lightness_so_that_hue_need_not_be_seen():
    assert luminance(BAR) - luminance(GAP) > 0.3
    assert luminance(GREY) - luminance(GAP) > 0.3


def test_without_matplotlib_drawing_names_the_extra(tmp_path, monkeypatch):
    for module in ("matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(gnncal.MissingExtraError, match=re.escape("gnncal[plot]")):
        save_reliability({"all nodes": {"ts": BINS}}, tmp_path / "reliability.png")
