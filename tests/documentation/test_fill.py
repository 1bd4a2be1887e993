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


def numbers_of(name):
    """The numbers in each line of a filled table, behind the line's first cell."""
    lines = [line.strip("| ").split(" | ") for line in fill.FILLS[name]().splitlines()]
    return {line[0]: re.findall(r"[-+]?\d+\.?\d*", " ".join(line[1:])) for line in lines[2:]}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning")
def test_what_the_pages_say_of_hots_follows_from_their_tables():
    page = (fill.ROOT / "docs" / "reproduction.md").read_text()
    assert "With none of the four backbones is HoTS distinguishable" in page
    for low, high in (map(float, each[1:3]) for each in numbers_of("rivals").values()):
        assert low < 0 < high

    assert "`entropy-only` is not worse than HoTS, and `homophily-only` is worse than α = 1" in page
    for title, values in numbers_of("components").items():
        _, entropy, homophily, fixed, hots = map(float, values[-5:])
        if "published" not in title:
            assert entropy < hots, title
            assert homophily > fixed, title

    assert "Most of the lead comes from Texas, Cornell and Wisconsin" in page
    lead = {name: list(map(float, values)) for name, values in numbers_of("lead").items()}
    for who, rivals in (("published", slice(1, 4)), ("ours", slice(2, 5))):  # not entropy-only
        gaps = [min(lead[n][rivals]) - lead[n][0] for n in (who, f"{who}, without the three")]
        assert gaps[1] < gaps[0] / 2


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning")
def test_the_table_of_agreement_says_that_rules_for_tied_nodes_differ():
    assert "order of the nodes of equal degree" in fill.FILLS["agreement-table"]()


def test_llms_txt_lists_the_pages_as_they_are():
    assert (fill.ROOT / "llms.txt").read_text() == fill.llms()


def test_every_stored_record_is_read():
    for path in sorted((fill.ROOT / "results").rglob("records/*.jsonl.gz")):
        with gzip.open(path, "rt") as lines:
            assert sum(1 for _ in lines) == sum(1 for _ in read_lines(path)), path
