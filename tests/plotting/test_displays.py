"""What every display promises, and what each chart shows."""

import re
import sys

import numpy as np
import pytest

import gnncal
from gnncal.metrics import clopper_pearson, risk_coverage_curve
from gnncal.metrics.ranking import RiskCoverage
from gnncal.plotting import (
    ReliabilityDisplay,
    RiskCoverageDisplay,
    TemperatureDisplay,
    style,
)
from gnncal.plotting.risk_coverage import draw_risk_coverage
from gnncal.plotting.temperature import draw_temperature
from gnncal.reporting.temperature import temperature_profile
from gnncal_lab import HomophilySplitDisplay, neighbour_support
from gnncal_lab.pages.homophily_split import draw_homophily_split, homophily_groups

matplotlib = pytest.importorskip("matplotlib")


def make_reliability(task, **options):
    return ReliabilityDisplay.from_predictions(
        task[1], gnncal.calibrators.softmax(task[0]), **options
    )


def make_positive_reliability(task, **options):
    return ReliabilityDisplay.from_predictions(
        task[1], gnncal.calibrators.softmax(task[0]), positive=1, log=True, **options
    )


def make_risk_coverage(task, **options):
    return RiskCoverageDisplay.from_predictions(
        task[1], gnncal.calibrators.softmax(task[0]), **options
    )


def make_homophily_split(task, **options):
    logits, labels, graph = task
    support = neighbour_support(logits, graph)
    return HomophilySplitDisplay.from_predictions(
        labels,
        gnncal.calibrators.softmax(logits),
        support,
        before=gnncal.calibrators.softmax(2 * logits),
        **options,
    )


def make_temperature(task, **options):
    calibrator = gnncal.calibrators.EntropyScaling().fit(*task[:2], calibration_nodes=range(150))
    return TemperatureDisplay.from_estimator(calibrator, task[0], **options)


DISPLAYS = [
    make_reliability,
    make_positive_reliability,
    make_risk_coverage,
    make_homophily_split,
    make_temperature,
]


@pytest.mark.parametrize("make", DISPLAYS)
def test_a_display_draws_on_the_axis_it_is_given_and_keeps_it(make, task, ax):
    display = make(task, ax=ax)
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    assert ax.has_data()


@pytest.mark.parametrize("make", DISPLAYS)
def test_a_display_makes_a_figure_of_its_own_and_can_draw_again(make, task):
    display = make(task)
    first = display.figure_
    assert display.ax_.figure is first
    assert display.plot() is display
    assert display.figure_ is not first


@pytest.mark.parametrize("make", DISPLAYS)
def test_drawing_leaves_the_settings_of_matplotlib_alone(make, task, ax):
    before = dict(matplotlib.rcParams)
    make(task)
    make(task, ax=ax)
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize("make", DISPLAYS)
def test_nothing_is_cut_off_and_no_legend_lies_on_data_or_text(make, task):
    display = make(task)
    figure, ax = display.figure_, display.ax_
    figure.canvas.draw()
    drawn, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
    assert drawn.x0 >= 0
    assert drawn.y0 >= 0
    assert drawn.x1 <= width
    assert drawn.y1 <= height
    legend = ax.get_legend().get_window_extent()
    assert not legend.overlaps(ax.get_window_extent())
    assert not legend.overlaps(ax.xaxis.label.get_window_extent())


@pytest.mark.parametrize("make", DISPLAYS)
def test_without_matplotlib_a_display_names_the_extra(make, task, monkeypatch):
    for module in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(gnncal.MissingExtraError, match=re.escape("gnncal[plot]")):
        make(task)


def curves(ax):
    return {line.get_label(): np.array(line.get_data()) for line in ax.lines}


def test_a_risk_coverage_curve_with_its_references_by_hand(ax):
    # Confident first: right, wrong, right, wrong. In the best order the last two are wrong.
    curve = RiskCoverage(np.array([0.25, 0.5, 0.75, 1.0]), np.array([0, 1 / 2, 1 / 3, 1 / 2]), 4)
    draw_risk_coverage(curve, ax=ax, label="ours")
    drawn = curves(ax)
    np.testing.assert_allclose(drawn["ours"], [[25, 50, 75, 100], [0, 50, 100 / 3, 50]])
    np.testing.assert_allclose(drawn["best possible order"][1], [0, 0, 100 / 3, 50])
    np.testing.assert_allclose(drawn["random order"][1], 50)
    low, high = clopper_pearson([0, 1, 1, 2], [1, 2, 3, 4], level=0.95)
    (band,) = ax.collections
    heights = {round(float(y), 9) for y in band.get_paths()[0].vertices[:, 1]}
    assert heights == {round(float(100 * y), 9) for y in (*low, *high)}


def test_a_risk_coverage_display_is_the_curve_thinned(task, ax):
    logits, labels, _ = task
    display = make_risk_coverage(task, ax=ax)
    full = risk_coverage_curve(labels, gnncal.calibrators.softmax(logits))
    np.testing.assert_array_equal(display.curve.risk, full.risk)  # few nodes: all of them
    aurc = gnncal.metrics.METRICS["aurc"](labels, gnncal.calibrators.softmax(logits))
    assert display.title == f"AURC {100 * aurc:.2f}%"
    thin = full.thinned(7)
    assert (len(thin.risk), thin.n_nodes, thin.coverage[-1]) == (7, 300, 1.0)
    assert set(zip(thin.coverage, thin.risk, strict=True)) <= set(
        zip(full.coverage, full.risk, strict=True)
    )


def test_a_second_curve_on_an_axis_looks_different_and_has_no_references_of_its_own(task, ax):
    make_risk_coverage(task, ax=ax, name="raw")
    make_risk_coverage(task, ax=ax, name="again")
    assert [line.get_label() for line in ax.lines][::3] == ["raw", "again"]
    assert len(ax.lines) == 4
    assert ax.lines[0].get_linestyle() != ax.lines[3].get_linestyle()
    assert ax.get_title() == ""


def test_each_side_of_a_homophily_split_has_its_gaps_and_intervals(task, ax):
    logits, labels, graph = task
    sides = {
        "before": gnncal.calibrators.softmax(2 * logits),
        "after": gnncal.calibrators.softmax(logits),
    }
    groups = homophily_groups(labels, sides, neighbour_support(logits, graph), n_groups=3)
    draw_homophily_split(groups, ax=ax)
    for container, (name, cells) in zip(ax.containers, groups.sides.items(), strict=True):
        marks, _, (lines,) = container.lines
        assert container.get_label() == name
        np.testing.assert_allclose(marks.get_ydata(), 100 * cells.gap)
        high, low = cells.confidence - np.array(cells.accuracy_interval())
        drawn = np.array([[end[1] for end in segment] for segment in lines.get_segments()])
        np.testing.assert_allclose(drawn, 100 * np.stack([low, high], axis=1))
    names = [tick.get_text() for tick in ax.get_xticklabels()]
    edges = zip(groups.lower, groups.upper, strict=True)
    assert names == [f"{low:.2f}\nto {high:.2f}" for low, high in edges]


@pytest.mark.parametrize("against", ["homophily", "entropy"])
def test_every_temperature_and_every_curve_is_drawn(against, task, ax):
    logits, labels, graph = task
    calibrator = gnncal.HoTS().fit(logits, labels, graph, calibration_nodes=range(150))
    profile = temperature_profile(calibrator, logits, graph)
    draw_temperature(profile, ax=ax, against=against)
    (points,) = ax.collections
    x = profile.homophily if against == "homophily" else profile.entropy
    expected = np.stack([x, profile.temperature], axis=1)
    np.testing.assert_allclose(np.asarray(points.get_offsets()), expected)
    drawn = curves(ax)
    for curve in profile.by_homophily if against == "homophily" else profile.by_entropy:
        np.testing.assert_allclose(drawn[curve.label], [curve.x, curve.temperature])


def test_temperatures_on_a_graph_need_two_axes_and_share_the_label(task, ax):
    logits, labels, graph = task
    calibrator = gnncal.calibrators.EntropyScaling().fit(
        logits, labels, calibration_nodes=range(150)
    )
    display = TemperatureDisplay.from_estimator(calibrator, logits, graph)
    assert [place.get_ylabel() for place in display.ax_] == ["temperature", ""]
    assert display.ax_[0].figure is display.figure_
    with pytest.raises(gnncal.InputError, match="this chart needs 2"):
        display.plot(ax)


def test_lines_of_one_chart_differ_without_colour():
    assert len({line.dashes for line in style.LINES}) == len(style.LINES)
    assert len({line.marker for line in style.LINES}) == len(style.LINES)


def test_two_axes_of_the_user_keep_the_users_sizes(task):
    axes = matplotlib.figure.Figure().subplots(1, 2)
    logits, labels, graph = task
    calibrator = gnncal.calibrators.EntropyScaling().fit(
        logits, labels, calibration_nodes=range(150)
    )
    TemperatureDisplay.from_estimator(calibrator, logits, graph, ax=axes)
    sizes = {ax.get_legend().get_texts()[0].get_size() for ax in axes}
    assert sizes == {matplotlib.rcParams["font.size"]}
