"""What is stored of a run is true on every day and machine."""

import base64
import json
import re

import pytest

import fill
from tests.documentation.outputs import differences, unstable

NOTEBOOKS = sorted((fill.ROOT / "notebooks").glob("*.ipynb"))
PAGES = [*fill.PAGES, *sorted((fill.ROOT / "examples").rglob("*.md"))]
PICTURES = sorted((fill.ROOT / "docs" / "images").glob("*.png"))


def stored(notebook):
    """What the outputs of a notebook hold, by kind."""
    for cell in json.loads(notebook.read_text())["cells"]:
        for output in cell.get("outputs", []):
            yield from {"text/plain": output.get("text", ""), **output.get("data", {})}.items()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_outputs_on_a_page_hold_nothing_that_another_run_changes(page):
    outputs = re.findall(r"```text\n(.*?)```", page.read_text(), flags=re.S)
    assert [found for output in outputs for found in unstable(output)] == []


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_of_a_notebook_hold_nothing_that_another_run_changes(notebook):
    texts = ["".join(text) for kind, text in stored(notebook) if kind.startswith("text/")]
    assert [found for text in texts for found in unstable(text)] == []


def test_pictures_do_not_name_the_version_that_drew_them():
    drawn = {path.name: path.read_bytes() for path in PICTURES}
    for notebook in NOTEBOOKS:
        for kind, data in stored(notebook):
            if kind == "image/png":
                drawn[f"{notebook.name}, picture {len(drawn)}"] = base64.b64decode(data)
    assert [name for name, picture in drawn.items() if b"tEXt" in picture] == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Update(date='2026-11-18')", "date: 2026-11-18"),
        ("fitted on 18 November", "date: 18 November"),
        ("at 09:30", "time: 09:30"),
        ("saved: /tmp/abc/x.npz", "path: /tmp/"),
        ("gnncal 0.1.0", "version: 0.1.0"),
        ("done in 2.5 s", "duration: 2.5 s"),
        ("took 12 minutes", "duration: 12 minutes"),
        ("tau=0.26213", "number: 0.26213"),
        ("costs 53,058", "number: 53,058"),
        ("1.2345e-05", "number: 1.2345e-05"),
    ],
)
def test_the_tests_above_see_what_another_run_changes(text, found):
    assert found in list(unstable(text))


def test_what_every_run_prints_may_be_stored():
    assert list(unstable("ECE 16.93, 0.2955, 100.00%\n1,097 nodes, 1/K and/or 2: 41, 10: 50")) == []


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("log loss 0.936", "log loss 0.935"),
        ("confidence 49%, accuracy 38%", "confidence 50%, accuracy 38%"),
        ("ECE %   9.99  1.00", "ECE %  10.00  1.00"),
        ("mean +0.0000", "mean -0.0000"),
        ("at least 0.5169:", "at least 0.517:"),
    ],
)
def test_the_last_digit_of_a_measured_number_may_change(one, two):
    assert differences(one, two) == []


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("log loss 0.936", "log loss 0.934"),
        ("1,089 decided", "1,088 decided"),
        ("confidence 49%", "confidence 49.0"),
        ("ECE 5.5", "NLL 5.5"),
        ("ECE 5.5", "  ECE 5.5"),
        ("ECE 5.5", "ECE 5.5\nNLL 0.1"),
        ("2026-11-18", "2026-11-19"),
    ],
)
def test_nothing_else_may_change(one, two):
    assert differences(one, two) != []
