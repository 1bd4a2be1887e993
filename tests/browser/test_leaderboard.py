"""The benchmark's page in a real browser: its numbers are those of the tables."""

import numpy as np
import pytest

from gnncal_lab.bench.leaderboard import make_leaderboard
from gnncal_lab.bench.records import append_records
from gnncal_lab.bench.results import Selection, read_results
from gnncal_lab.bench.summary import critical_difference
from gnncal_lab.bench.tables import comparisons
from gnncal_lab.pages.leaderboard.contents import render_leaderboard
from tests.gnncal_lab.bench.test_leaderboard import write_results
from tests.gnncal_lab.bench.test_tables import record

from .conftest import violations

pytestmark = pytest.mark.slow

HOSTILE = "<img src=x onerror=\"document.title='taken'\"> & 🦉 </b>".replace("/", "\\")


def save(folder, place, **options):
    page = place / "leaderboard.html"
    page.write_text(render_leaderboard(make_leaderboard(folder), title="Bench", **options))
    return page


@pytest.fixture(scope="module")
def results_folder(tmp_path_factory):
    return write_results(tmp_path_factory.mktemp("results"))


@pytest.fixture(scope="module")
def page_file(results_folder, tmp_path_factory):
    return save(results_folder, tmp_path_factory.mktemp("page"), command="gnncal bench report")


def table(page, name):
    """Cells of each row by its first one, floors and stars left out."""
    rows = page.locator(f"#{name} tbody tr:visible").all()
    found = [[cell.text_content() for cell in row.locator("th, td").all()] for row in rows]
    return {row[0]: [text.split("floor")[0].strip() for text in row[1:]] for row in found}


def choose(page, group, wanted):
    """Tick these boxes of a group and no others."""
    for label in page.locator(f"#{group} label").all():
        label.locator("input").set_checked(label.text_content().strip() in wanted)


def expected(results):
    """Mean rank, ECE, NLL, pairs and records of each method, as the tables print them."""
    overview = comparisons.overview(results)
    ranks = {row.name: row.entries[0].value for row in comparisons.ranks(results, "ece").rows}
    lines = {}
    for row in overview.rows:
        value = dict(zip(overview.columns, (entry.value for entry in row.entries), strict=True))
        lines[row.name] = (
            f"{ranks[row.name]:.2f}" if row.name in ranks else "–",
            f"{value['ECE %']:.2f}",
            f"{value['NLL']:.4f}",
            f"{value['pairs']:.0f}",
            f"{value['records']:.0f}",
        )
    return lines


def shown(page):
    heads = page.locator("#board thead th").all_text_contents()
    wanted = [heads.index(head) - 1 for head in ("Mean rank", "ECE %", "NLL", "Pairs", "Fits")]
    return {name: tuple(row[i] for i in wanted) for name, row in table(page, "board").items()}


def test_it_opens_from_disk_without_complaint_or_request(visit, page_file):
    opened = visit(page_file)
    opened.draw_everything()
    assert opened.complaints == []
    assert opened.requests == [page_file.as_uri()]


@pytest.mark.parametrize("protocol", ["paper", "converged"])
def test_averages_and_ranks_are_those_of_the_tables(visit, page_file, results_folder, protocol):
    page = visit(page_file).page
    page.select_option("#protocol", index=["paper", "converged"].index(protocol))
    results = read_results(results_folder)[protocol]
    assert shown(page) == expected(results)
    tests = {row.name: row.entries[0].value for row in comparisons.ranks(results, "ece").rows}
    text = page.text_content("#rank-text")
    assert f"more than {tests['critical difference']:.2f} apart" in text
    assert f"p = {tests['p of equal ranks']:.3f}" in text
    assert "3 independent graphs" in text


def test_the_browser_computes_friedmans_test_as_scipy_does(visit, page_file):
    page = visit(page_file).page
    generator = np.random.default_rng(0)
    for n, k in ((3, 3), (13, 27), (5, 8), (40, 4)):
        rows = generator.integers(6, size=(n, k)).astype(float)  # many ties
        found = page.evaluate(
            "([rows, q]) => Ranking.friedman(rows, q)", [rows.tolist(), [1.0] * (k + 1)]
        )
        expected = critical_difference(rows)
        np.testing.assert_allclose(found["meanRanks"], expected.mean_rank)
        assert found["p"] == pytest.approx(expected.p_value, rel=1e-9)


def test_methods_that_are_not_told_apart_form_the_longest_runs(visit, page_file):
    page = visit(page_file).page
    cliques = page.evaluate("Ranking.cliques([1, 2, 2.5, 4, 7], 2)")
    assert cliques == [[0, 2], [1, 3]]


def test_filters_change_what_is_averaged_and_ranked(visit, page_file, results_folder):
    page = visit(page_file).page
    page.click("text=Graphs: ")
    choose(page, "backbones", ["GCN"])
    choose(page, "graphs", ["Cora", "CiteSeer", "Cornell"])
    page.click("text=Methods: ")
    choose(page, "methods", ["ts", "hts", "hots", "uncalibrated"])
    wanted = Selection(
        ("Cora", "CiteSeer", "Cornell"), ("gcn",), ("ts", "hts", "hots", "uncalibrated")
    )
    assert shown(page) == expected(read_results(results_folder, wanted)["paper"])


def test_a_button_chooses_the_graphs_of_a_regime_or_the_papers_methods(visit, page_file):
    page = visit(page_file).page
    page.click("text=Graphs: ")
    page.click("#graphs button:text('Heterophilic')")
    assert page.text_content("#graph-count") == "2 of 4"
    page.click("text=Methods: ")
    page.click("#methods button:text('HoTS paper')")
    assert set(table(page, "board")) == {"uncalibrated", "ts", "hts", "hots"}


def test_without_scripts_the_opening_table_is_there(chromium, page_file, results_folder):
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(page_file.as_uri())
    assert shown(page) == expected(read_results(results_folder)["paper"])
    context.close()


def test_agreement_with_the_paper_is_that_of_the_table(visit, page_file, results_folder):
    page = visit(page_file).page
    results = read_results(results_folder)["paper"]
    rows = [row for row in comparisons.reproduction(results).rows if row.group == "ECE %"]
    wanted = {
        row.name: [*(f"{e.value:.0f}" for e in row.entries[:4]), f"{row.entries[4].value:.2f}"]
        for row in rows
    }
    assert table(page, "agreement") == wanted
    page.select_option("#metric", label="Brier score")
    assert page.is_visible("#paper-none")
    assert not page.is_visible("#paper-some")


def test_another_metric_stands_first_and_is_ranked_by(visit, page_file, results_folder):
    page = visit(page_file).page
    page.select_option("#metric", label="NLL")
    assert page.locator("#board thead th").nth(2).text_content() == "NLL"
    ranks = comparisons.ranks(read_results(results_folder)["paper"], "nll").rows
    by_table = {row.name: f"{row.entries[0].value:.2f}" for row in ranks if not row.group}
    assert {n: row[0] for n, row in table(page, "board").items() if row[0] != "–"} == by_table


def test_the_table_sorts_and_filters(visit, page_file):
    page = visit(page_file).page

    def values():
        return [float(row[1]) for row in table(page, "board").values()]

    heading = page.locator("#board thead th").nth(2)
    heading.locator("button").click()
    assert values() == sorted(values())
    heading.locator("button").focus()
    page.keyboard.press("Enter")
    assert values() == sorted(values(), reverse=True)
    assert heading.get_attribute("aria-sort") == "descending"
    page.fill("#method-search", "hots")
    assert list(table(page, "board")) == ["hots"]


def test_charts_follow_the_filters(visit, page_file):
    opened = visit(page_file)
    opened.draw_everything()
    page = opened.page
    assert page.evaluate("document.getElementById('rank-chart').data[0].x.length") == 4
    seeds = "document.getElementById('seed-chart').data"
    assert page.evaluate(f"{seeds}[0].x.length") == 5 * 3
    choose(page, "backbones", ["GAT", "GIN"])
    opened.wait_until(f"{seeds}[0].name === 'GAT' && {seeds}[1].name === 'GIN'")
    before = page.evaluate(f"{seeds}[0].x.join()")
    page.select_option("#graph", label="Texas")
    opened.wait_until(f"{seeds}[0].x.join() !== '{before}'")


def test_nothing_chosen_says_so(visit, page_file):
    opened = visit(page_file)
    opened.draw_everything()
    opened.page.click("#backbones button[data-pick=none]")
    assert "Nothing is left" in opened.page.text_content("#verdict-text")
    assert opened.complaints == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1200])
def test_nothing_overflows_the_screen(visit, page_file, width, dark):
    opened = visit(page_file, width=width, dark=dark)
    opened.draw_everything()
    assert opened.overflow() <= 0


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_axe_finds_no_serious_violation(visit, page_file, dark):
    opened = visit(page_file, dark=dark)
    opened.draw_everything()
    opened.page.click("text=Graphs: ")
    opened.page.click("text=Methods: ")
    assert violations(opened.page) == []


def test_hostile_names_are_shown_as_text(visit, tmp_path):
    append_records(
        tmp_path,
        [
            record(HOSTILE, HOSTILE, seed, m, 0.1 + seed / 10)
            for seed in (0, 1)
            for m in ("ts", "hots")
        ],
    )
    opened = visit(save(tmp_path, tmp_path))
    opened.draw_everything()
    page = opened.page
    assert page.title() == "Bench"
    assert page.locator("main img").count() == 0
    assert HOSTILE in page.text_content("#backbones")
    assert HOSTILE in page.text_content("#graph")
    assert "<img src=x" in page.text_content("#seed-chart")
