"""Reliability of a rare class: drawn near zero, beside what an honest probability would show."""

from itertools import pairwise

import numpy as np
import pytest

import gnncal
from gnncal.plotting import ReliabilityDisplay
from tests.metrics.test_positive import rare, two_columns

pytest.importorskip("matplotlib")
NAMES = ["fine", "fraud"]


def display_of(labels, probs, **options):
    return ReliabilityDisplay.from_predictions(
        labels, probs, positive="fraud", class_names=NAMES, **{"log": True, **options}
    )


def points(ax, marker):
    found = [line.get_xydata() for line in ax.get_lines() if line.get_marker() == marker]
    return np.vstack(found) if found else np.empty((0, 2))


def test_both_axes_are_logarithmic_and_every_bin_is_a_point():
    labels, _, weighted = rare()
    display = display_of(labels, weighted, name="raw")
    ax, bins = display.ax_, display.bins
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("P(fraud)", "share that is fraud")
    drawn = np.vstack([points(ax, "o"), points(ax, "v")])
    np.testing.assert_allclose(np.sort(drawn[:, 0]), bins.confidence)
    some = bins.accuracy > 0
    order = np.argsort(points(ax, "o")[:, 0])
    np.testing.assert_allclose(points(ax, "o")[order, 1], bins.accuracy[some])
    lowest = ax.get_ylim()[0]
    np.testing.assert_allclose(points(ax, "v")[:, 1], lowest)  # bins without fraud
    assert len(points(ax, "v")) == (~some).sum()
    np.testing.assert_allclose(points(ax, "*"), [[weighted[:, 1].mean(), labels.mean()]])


def test_an_honest_probability_stays_in_its_band_and_a_weighted_one_leaves_it():
    labels, honest, weighted = rare(6000)
    fair, skewed = (display_of(labels, probs) for probs in (honest, weighted))
    outside = [
        ((d.bins.accuracy < d.band.low) | (d.bins.accuracy > d.band.high)).sum()
        for d in (fair, skewed)
    ]
    assert outside[0] <= 3  # of 15, each with 5%
    assert outside[1] >= 12


def test_probabilities_of_exactly_zero_or_one_can_be_drawn():
    probs = two_columns([0.0] * 20 + [0.5] * 20 + [1.0] * 20)
    labels = np.repeat([0, 1, 1], 20)
    ax = display_of(labels, probs).ax_
    ax.figure.canvas.draw()
    assert np.isfinite(points(ax, "v")).all()
    nobody = display_of(np.zeros(60, dtype=int), two_columns(np.zeros(60))).ax_
    nobody.figure.canvas.draw()


def test_without_log_the_axes_are_linear_from_zero_to_one():
    labels, _, weighted = rare()
    ax = display_of(labels, weighted, log=False).ax_
    assert (ax.get_xscale(), ax.get_yscale()) == ("linear", "linear")
    assert (ax.get_xlim(), ax.get_ylim()) == ((0.0, 1.0), (0.0, 1.0))


def test_logarithmic_axes_are_for_one_class():
    labels, honest, _ = rare(100)
    with pytest.raises(gnncal.InputError, match="pass positive"):
        ReliabilityDisplay.from_predictions(labels, honest, log=True)


def test_a_class_without_a_name_is_the_positive_one():
    labels, honest, _ = rare(300)
    display = ReliabilityDisplay.from_predictions(labels, honest, positive=1)
    assert display.ax_.get_xlabel() == "P(positive)"


def test_what_cannot_be_drawn_gets_a_sentence():
    labels, honest, _ = rare(100)
    with pytest.raises(gnncal.InputError, match="n_bins is 0"):
        display_of(labels, honest, n_bins=0)


@pytest.mark.parametrize("width", [2.2, 3.0, 6.0])
def test_labels_of_the_lower_axis_do_not_overlap(width):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    labels, _, weighted = rare()
    weighted[: len(weighted) // 3] = [1 - 1e-6, 1e-6]
    figure, ax = pyplot.subplots(figsize=(width, width))
    display_of(labels, weighted, ax=ax)
    figure.canvas.draw()
    boxes = [label.get_window_extent() for label in ax.get_xticklabels() if label.get_text()]
    boxes = sorted((box for box in boxes if box.width), key=lambda box: box.x0)
    pyplot.close(figure)
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))
