"""Whatever metrics.json holds, `gnncal report` makes a page of it or says one sentence."""

import json

import numpy as np
import pytest

import gnncal
from gnncal.metrics.evaluation import Difference
from gnncal.reporting import summary as rendering
from gnncal.scale.summary import FILE, FORMAT, read_summary
from tests.fuzz.documents import ODD, changes_of, get
from tests.reporting.test_summary import made_up_summary

pytestmark = pytest.mark.slow

pytest.importorskip("jinja2", reason="pages need the extra report")
# What may be anything that JSON can say, or any text.
FREE = {"learned", "skipped", "notes", "method", "engine", "is_undirected", "class_names"}
NEVER_A_NUMBER = set(ODD) - {"null", "fraction", "negative", "huge float", "larger than 64 bits"}


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    folder = tmp_path_factory.mktemp("summary")
    made_up_summary().write(folder)
    found = json.loads((folder / FILE).read_text())
    found["class_names"] = ["a", "b", "c"]
    found["skipped"] = [{"table": "edges", "reason": "x", "rows": 3}]
    found["is_undirected"] = True
    return found


@pytest.fixture(scope="module")
def outcomes(document, tmp_path_factory):
    """What came of every change: (change, place, page or sentence or something worse)."""
    path = tmp_path_factory.mktemp("changed") / FILE
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gnncal.reporting.page._packed_plotly", lambda: "")
        return [
            (name, place, outcome_of(path, changed))
            for name, place, changed in changes_of(document)
        ]


def outcome_of(path, document):
    path.write_text(json.dumps(document))
    try:
        return "page", rendering.summary_page(read_summary(path), title="t")
    except gnncal.InputError as error:
        return "refused", str(error)
    except Exception as error:
        return "failed", repr(error)


def test_every_change_ends_in_a_page_or_in_a_sentence(outcomes):
    assert len(outcomes) > 1500
    assert [(n, p, what) for n, p, (kind, what) in outcomes if kind == "failed"] == []


def test_a_refusal_is_one_short_line_that_names_the_file_or_what_to_do(outcomes):
    for name, place, (kind, text) in outcomes:
        if kind == "refused":
            assert "\n" not in text, (name, place)
            assert len(text) < 500, (name, place)
            assert FILE in text or "label some and run gnncal scale again" in text


def test_what_no_run_can_write_is_refused(outcomes, document):
    for name, place, (kind, _) in outcomes:
        if place[0] not in FREE and isinstance(get(document, place), int | float):
            may_be_absent = name == "removed" and place[0] == "seconds"
            assert kind == "refused" or may_be_absent or name not in NEVER_A_NUMBER, (name, place)


def test_no_page_shows_something_that_is_not_a_number(outcomes):
    for name, place, (kind, page) in outcomes:
        if kind == "page":
            shown = page.partition('<section id="verdict"')[2].partition("</section>")[0]
            assert "nan" not in shown.lower(), (name, place)


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff\xfe", b"[" * 100_000, b'{"format": 1', b"[]", b"3", b"null", b'{"format": NaN}'],
)
def test_what_is_no_summary_at_all_is_one_sentence(content, tmp_path):
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(gnncal.InputError, match="is not a summary of gnncal scale"):
        read_summary(tmp_path)


def test_a_file_that_is_far_too_large_is_not_read(tmp_path):
    with (tmp_path / FILE).open("wb") as file:
        file.truncate(10**12)  # takes no room on the disk
    with pytest.raises(gnncal.InputError, match="has more than 67,108,864 bytes"):
        read_summary(tmp_path)


def test_what_is_written_is_read_again_infinite_intervals_included(tmp_path):
    """A single test node has no interval."""
    summary = made_up_summary()
    summary.differences["nll"] = Difference(-0.4, -np.inf, np.inf)
    summary.write(tmp_path)
    assert json.loads((tmp_path / FILE).read_text())["format"] == FORMAT
    again = read_summary(tmp_path)
    assert again.differences == summary.differences
    assert "[-inf, +inf]" in rendering.summary_page(again, title="t")
