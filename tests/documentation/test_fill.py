"""Filled parts of README and docs are what their sources say; `python docs/fill.py` fills them."""

import gzip
import re

import pytest

import fill
from gnncal_lab.bench.records import read_lines
from tests.documentation.outputs import differences

PAGES = [page for page in fill.PAGES if fill.PART.search(page.read_text())]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_has_what_its_sources_say(page):
    text = page.read_text()
    assert differences(text, fill.filled(text)) == []


def test_the_output_below_the_first_example_of_the_readme_is_what_it_prints():
    text = (fill.ROOT / "README.md").read_text()
    assert differences(text, fill.filled(text, only={"readme-output"})) == []


def test_a_changed_figure_is_put_right():
    text = "a <!-- fill: speed -->\n| 12 |\n<!-- end --> b"
    assert fill.filled(text) == f"a <!-- fill: speed -->\n{fill.FILLS['speed']()}\n<!-- end --> b"


MEASURED = ("README", "benchmark", "evidence", "paper", "rare_classes", "reproduction", "results")
MEASURED += ("structural", "theory", "typed_nodes")


@pytest.mark.parametrize("page", [page for page in fill.PAGES if page.stem in MEASURED])
def test_no_table_of_results_is_typed_by_hand(page):
    own = re.sub(r"`[^`]*`", "", fill.PART.sub("", page.read_text()))
    assert not re.findall(r"^\|.*(?:\d\.\d\d|\[[-+]?\d).*$", own, flags=re.M)


def test_llms_txt_lists_the_pages_as_they_are():
    assert (fill.ROOT / "llms.txt").read_text() == fill.llms()


def test_every_stored_record_is_read():
    for path in sorted((fill.ROOT / "results").rglob("records/*.jsonl.gz")):
        with gzip.open(path, "rt") as lines:
            assert sum(1 for _ in lines) == sum(1 for _ in read_lines(path)), path
