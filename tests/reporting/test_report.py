"""The report as a file: complete without a script, escaped, written whole."""

import json
import re
from datetime import date
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest

import gnncal
from gnncal.data.errors import InputError, MissingExtraError
from gnncal.files.saved_calibrators import checksum
from tests.fraud import NAMES, fraud_task

from .tasks import task

HOSTILE = ["<script>alert(1)</script>", "a & b", '"quoted"', "🦉 \ud800 lone"]


class Reader(HTMLParser):
    """Collects the text outside scripts and styles, every tag, and every address."""

    def __init__(self):
        super().__init__()
        self.text, self.tags, self.addresses, self.inside = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.inside.append(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag):
        while self.inside and self.inside.pop() != tag:
            pass

    def handle_data(self, data):
        if not {"script", "style"} & set(self.inside):
            self.text.append(data)


@pytest.fixture(scope="module")
def made():
    data, splits = task()
    return gnncal.report(
        *data, **splits, methods=["ts", "structural"], class_names=HOSTILE, title="A <b>title</b>"
    )


@pytest.fixture(scope="module")
def read(made):
    reader = Reader()
    reader.feed(made.html)
    return reader


def test_it_asks_for_nothing_outside_itself(read):
    assert all(address.startswith("#") for address in read.addresses)
    assert not {"link", "iframe", "img", "object"} & set(read.tags)


def test_tables_are_there_without_a_script(made, read):
    text = " ".join(" ".join(read.text).split())
    evaluation = made.findings.methods["structural"].evaluation
    assert f"{100 * evaluation.ece.value:.2f}" in text
    assert f"floor {100 * evaluation.ece.floor:.2f}" in text
    assert made.findings.verdict.text in text
    assert "structural" in text


def test_hostile_names_are_text(made, read):
    text = "".join(read.text)
    assert all(name in text for name in HOSTILE[:3])
    assert "A <b>title</b>" in text
    assert "alert(1)</script>" not in made.html


def test_headings_come_in_order_and_every_section_has_one(read):
    levels = [int(tag[1]) for tag in read.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert levels.count(2) == read.tags.count("section")


def test_the_same_input_gives_the_same_page():
    data, splits = task(300)
    pages = [gnncal.report(*data, **splits, methods=["ts"]).html for _ in range(2)]
    without_times = [re.sub(r"<td>\d+\.\d\d</td>", "", page) for page in pages]
    assert without_times[0] == without_times[1]


def test_saving_writes_the_whole_page_or_nothing(made, tmp_path):
    path = made.save(tmp_path / "deep" / "report.html")
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert [file.name for file in path.parent.iterdir()] == ["report.html"]


def test_a_notebook_shows_the_page_in_a_frame(made):
    frame = made._repr_html_()
    assert frame.startswith("<iframe srcdoc=")
    assert "<script" not in frame
    assert repr(made).startswith("Report: ")


def test_missing_plotly_names_the_extra(monkeypatch):
    from gnncal.reporting import page

    def missing(module, *, extra, purpose):
        raise MissingExtraError(f"{purpose} needs {module}: pip install 'gnncal[{extra}]'.")

    monkeypatch.setattr(page, "require", missing)
    data, splits = task(300)
    with pytest.raises(MissingExtraError, match=r"gnncal\[report\]"):
        gnncal.report(*data, **splits, methods=["ts"])


def test_few_calibration_nodes_still_give_a_report():
    data, splits = task(300)
    made = gnncal.report(
        *data, **{**splits, "calibration_nodes": splits["calibration_nodes"][:1]}, methods=["ts"]
    )
    thresholds = made.findings.methods["ts"].selective.threshold
    assert np.isinf(thresholds).all()


def test_without_a_graph_the_page_has_no_place_for_neighbours():
    (logits, labels, graph), splits = task(300)
    made = gnncal.report(logits, labels, **splits, class_names=HOSTILE)
    for name in ("temperature-homophily", "neighbourhood-chart"):
        assert f'id="{name}' not in made.html
    assert "This report was made without a graph" in made.html
    assert "0 edges" not in made.html
    whole = gnncal.report(logits, labels, graph, **splits, methods=["ts"]).html
    assert 'id="neighbourhood-chart' in whole
    assert "without a graph" not in whole


def test_bad_input_is_refused_before_any_fit():
    data, splits = task(300)
    steps = []
    with pytest.raises(InputError):
        gnncal.report(*data, **splits, methods=["no-such-method"], progress=steps.append)
    assert steps == []


def test_what_the_methods_have_in_common_is_written_once(made):
    data = json.loads(re.search(r'id="data">(.*?)</script>', made.html, re.DOTALL)[1])
    profiles = {name: each["temperature"] for name, each in data["methods"].items()}
    assert len({profile["entropy"] for profile in profiles.values()}) == 1
    for name, found in made.findings.methods.items():
        for axis in ("homophily", "entropy"):
            written = np.array(data["columns"][profiles[name][axis]], dtype=np.float64)
            np.testing.assert_allclose(written, getattr(found.temperature, axis), rtol=1e-5)
        assert "nodes" not in profiles[name]


def test_the_page_says_when_it_was_made_from_which_data_and_by_which_calibrator():
    (logits, labels, graph), splits = task(300)
    page = gnncal.report(logits, labels, graph, **splits, methods=["ts"])
    other = gnncal.report(logits + 1, labels, graph, **splits, methods=["ts"])
    again = gnncal.report(logits, labels, graph, **splits, methods=["ts"])

    def made(page):
        return re.search(r"Made on ([-0-9]+) .*?; data (\w+), calibrator (\w+)", page.html).groups()

    assert made(page) == made(again)
    assert made(page)[1] != made(other)[1]
    assert made(page)[0] == date.today().isoformat()
    assert checksum(page.findings.methods["ts"].calibrator).startswith(made(page)[2])


def test_with_a_class_in_view_the_verdict_and_the_table_begin_with_its_probability():
    (logits, labels, graph), splits = fraud_task(is_weighted=True)
    page = gnncal.report(
        logits, labels, graph, **splits, class_names=NAMES, positive="fraud", methods=["ts"]
    )
    test = list(splits["test_nodes"])
    mean = 100 * gnncal.calibrators.softmax(logits)[test, 1].mean()
    raw = page.findings.methods["uncalibrated"]
    begins = f"Mean P(fraud) is {mean:.1f}%, and {100 * labels[test].mean():.1f}% of the test"
    assert raw.verdict.text.startswith(begins)
    assert raw.verdict.grade == "bad"
    heads = re.findall(r'class="sort">([^<]*)<', page.html[page.html.index("method-table") :])
    assert heads[:3] == ["Method", "Mean P %", "ECE of P %"]
    assert page.html.index('<section id="one-class"') < page.html.index('<section id="methods"')


def test_a_fitted_calibrator_is_reported_on_as_it_is():
    (logits, labels, graph), splits = task(300)
    fitted = gnncal.calibrate(logits, labels, graph, **splits, method="hts").calibrator
    page = gnncal.report(logits, labels, graph, **splits, calibrator=fitted)
    found = page.findings
    assert (list(found.methods), found.shown) == (["uncalibrated", "hts"], "hts")
    assert found.methods["hts"].calibrator is fitted
    other = task(400)[0]
    elsewhere = gnncal.report(*other, **task(400)[1], calibrator=fitted).findings
    expected = fitted.predict_temperature(other[0], other[2])
    np.testing.assert_array_equal(
        elsewhere.drawn["temperature"]["hts"], expected[elsewhere.drawn["node"]]
    )
    with pytest.raises(InputError, match="pass one of them"):
        gnncal.report(logits, labels, graph, **splits, calibrator=fitted, methods=["ts"])


def test_a_calibrator_of_other_classes_is_refused(tmp_path):
    task = gnncal.example()
    names = [f"digit {c}" for c in range(10)]
    calibrator = gnncal.calibrators.TemperatureScaling().fit(
        task.logits, task.labels, calibration_nodes=task.calibration_nodes
    )
    calibrator.save(tmp_path / "c.safetensors", class_names=names)
    with pytest.raises(gnncal.InputError, match="in the same order"):
        gnncal.report(
            *(task.logits, task.labels, task.graph),
            **task.splits,
            calibrator=gnncal.load(tmp_path / "c.safetensors"),
            class_names=names[::-1],
        )
