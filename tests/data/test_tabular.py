"""Records of results show themselves as text, as HTML and as pandas frames."""

import sys

import numpy as np
import pytest

import gnncal
from gnncal.calibrators.fit_report import FitReport
from gnncal.data.tables import Cell, Table, Tabular, number_cell, text_cell, value_cell
from gnncal.metrics import calibration_by_group
from gnncal.metrics.binning import ReliabilityBins

LABELS = np.array([0, 1, 1, 0])
PROBS = np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.7, 0.3]])
RECORDS = {
    "evaluation": gnncal.evaluate(LABELS, PROBS, in_degree=[1, 2, 3, 4]),
    "comparison": gnncal.compare(LABELS, PROBS, PROBS),
    "bins": gnncal.metrics.reliability_bins(LABELS, PROBS),
    "groups": calibration_by_group(LABELS, PROBS, ["a", "a", "b", "b"]),
    "fit report": FitReport(1.25, 0.75, ("alpha",), (3, 4)),
}


class Shown(Tabular):
    def _tables(self):
        rows = [
            [text_cell("nll", "<b>NLL</b>"), number_cell(0.5, 2), value_cell(1200)],
            [text_cell("ece", "ECE %"), Cell(0.04, "4.0 & more"), number_cell(float("nan"), 1)],
        ]
        return [Table("two rows", ("metric", "value", "nodes"), rows)]


def test_text_is_aligned_names_left_and_values_right():
    assert repr(Shown()).splitlines() == [
        "two rows",
        "metric           value  nodes",
        "─────────────────────────────",
        "<b>NLL</b>        0.50  1,200",
        "ECE %       4.0 & more",
    ]


def test_a_row_of_one_cell_is_a_heading():
    rows = [
        [text_cell("a"), value_cell(1)],
        [text_cell("part", "the <other> part")],
        [text_cell("b"), value_cell(2)],
    ]
    table = Table("", ("name", "value"), rows)
    assert table.as_text().splitlines()[2:] == [
        "a         1",
        "",
        "the <other> part",
        "b         2",
    ]


def test_a_long_text_is_wrapped_under_its_own_beginning():
    text = "a sentence that says at length what became of the parameters of a fit and why"
    table = Table(
        "",
        ("name", "value"),
        [[text_cell("n"), value_cell(1)], [text_cell("s"), text_cell("", text)]],
    )
    rule, number, *lines = table.as_text().splitlines()[1:]
    assert number.endswith(" 1")
    assert len(number) == len(rule) <= 79
    assert [line.index(word) for line, word in zip(lines, ("a sent", "param"), strict=True)] == [
        6,
        6,
    ]
    assert " ".join(" ".join(lines).split()) == f"s {text}"


def test_a_frame_holds_the_values_and_not_their_text():
    pytest.importorskip("pandas")
    frame = Shown().to_frame()
    assert list(frame.index) == ["nll", "ece"]
    assert list(frame["value"]) == [0.5, 0.04]


def test_without_pandas_a_frame_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(gnncal.MissingExtraError, match=r"gnncal\[report\]"):
        Shown().to_frame()


def test_long_lists_are_cut():
    assert value_cell(()).text == "none"
    assert value_cell(range(12)).text == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11"
    assert value_cell(range(13)).text == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ..."


@pytest.mark.parametrize("name", RECORDS)
def test_every_record_shows_itself_within_80_columns(name):
    record = RECORDS[name]
    lines = str(record).splitlines()
    assert max(map(len, lines)) <= 80
    assert repr(record) == str(record)


@pytest.mark.parametrize("name", RECORDS)
def test_every_record_becomes_a_frame(name):
    pytest.importorskip("pandas")
    assert len(RECORDS[name].to_frame()) >= 2


def test_the_evaluation_shows_every_metric_in_its_unit():
    shown = str(RECORDS["evaluation"])
    assert "4 test nodes" in shown
    for metric in gnncal.metrics.METRICS.values():
        assert (metric.heading in shown) == (not metric.needs_positive)
    # Node 1 is wrong: three of four are right.
    (line,) = (line for line in shown.splitlines() if line.startswith("accuracy"))
    assert line.split() == ["accuracy", "%", "75.00"]


def test_the_frame_of_an_evaluation_is_unscaled():
    pytest.importorskip("pandas")
    evaluation = RECORDS["evaluation"]
    frame = evaluation.to_frame()
    assert frame.loc["accuracy", "value"] == 0.75
    assert frame.loc["ece", "value"] == evaluation.ece.value
    assert frame.loc["ece_high", "value"] == evaluation.ece.high
    assert frame.loc["degree_ece_floor", "value"] == evaluation.floors["degree_ece"]


def test_bins_show_empty_ones_as_blank():
    bins = ReliabilityBins(
        count=np.array([0, 10]),
        confidence=np.array([np.nan, 0.75]),
        accuracy=np.array([np.nan, 0.5]),
        lower=np.array([0.0, 0.5]),
        upper=np.array([0.5, 1.0]),
    )
    rows = [line.split() for line in str(bins).splitlines()[-2:]]
    assert rows == [
        ["0.0000", "0.5000", "0"],
        ["0.5000", "1.0000", "10", "0.7500", "0.5000", "0.2500"],
    ]


def test_a_fit_report_shows_losses_bounds_and_nodes():
    shown = str(RECORDS["fit report"])
    for part in ("fit on 7 calibration nodes", "1.2500", "0.7500", "alpha", "3, 4"):
        assert part in shown
