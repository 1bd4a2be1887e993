"""The report in a real browser: it opens, it answers, it fits, and text stays text."""

import csv

import pytest

import gnncal

from ..reporting.tasks import task
from .conftest import violations

pytestmark = pytest.mark.slow

HOSTILE = [
    "<script>document.title='taken'</script>",
    "<img src=x onerror=\"document.title='taken'\">",
    "</script><b>bold</b> & \"quotes\" 'single' `tick` ${x} %{y}",
    "🦉" * 3 + "é<a href='javascript:alert(1)'>link</a>",
    "long " * 2000,
]


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    data, splits = task(900, n_classes=5)
    ids = [f"{HOSTILE[i % len(HOSTILE)]} {i}" for i in range(len(data[0]))]
    made = gnncal.report(
        *data,
        **splits,
        methods=["ts", "hots", "structural", "structural-free"],
        class_names=HOSTILE,
        node_ids=ids,
        focus=[ids[7]],
        title="<i>My</i> model",
    )
    return made.save(tmp_path_factory.mktemp("report") / "report.html")


def test_it_opens_from_disk_without_complaint_or_request(visit, page_file):
    opened = visit(page_file)
    opened.draw_everything()
    assert opened.complaints == []
    assert opened.requests == [page_file.as_uri()]


def test_the_method_switch_changes_diagram_verdict_and_tables(visit, page_file):
    opened = visit(page_file)
    opened.draw_everything()
    page = opened.page
    drawn = "document.getElementById('after-chart').data[1].y.join()"
    before = page.evaluate(drawn)
    verdict = page.text_content("#verdict-text")
    page.select_option("#method", "ts")
    opened.wait_until(f"{drawn} !== '{before}'")
    assert page.text_content("#verdict-text") != verdict
    assert "ts" in page.text_content("#reliability .method-name")
    uncalibrated = "document.getElementById('before-chart').data[1].y.join()"
    page.select_option("#method", "uncalibrated")
    opened.wait_until(f"{drawn} === {uncalibrated}")


def test_the_slider_changes_the_answer(visit, page_file):
    opened = visit(page_file)
    page = opened.page
    answers = set()
    for position in (0, 20, 58):
        page.locator("#target").fill(str(position))
        answers.add(page.text_content("#target-answer"))
    assert len(answers) == 3
    page.locator("#target").focus()
    before = page.text_content("#target-value")
    page.keyboard.press("ArrowLeft")
    assert page.text_content("#target-value") != before


def test_the_table_sorts_and_filters(visit, page_file):
    opened = visit(page_file)
    page = opened.page

    def degrees():
        cells = page.locator("#node-table tbody tr:visible td:nth-child(9)").all_text_contents()
        return [int(cell.replace(",", "")) for cell in cells]

    page.click("#node-table thead th:nth-child(9) button")
    assert degrees() == sorted(degrees())
    page.click("#node-table thead th:nth-child(9) button")
    assert degrees() == sorted(degrees(), reverse=True)
    heading = page.locator("#node-table thead th:nth-child(9)")
    assert heading.get_attribute("aria-sort") == "descending"
    n_all = len(degrees())
    page.fill("#node-search", "calibration")
    splits = page.locator("#node-table tbody tr:visible td:nth-child(2)").all_text_contents()
    assert 0 < len(splits) < n_all
    assert set(splits) == {"calibration"}


def test_a_node_is_chosen_by_keyboard(visit, page_file):
    page = visit(page_file).page
    third = page.locator("#node-table tbody tr:nth-child(3) button")
    name = third.text_content()
    third.focus()
    page.keyboard.press("Enter")
    assert page.text_content("#node-title") == f"Node {name}"


def test_a_node_that_was_asked_for_stands_first(visit, page_file):
    page = visit(page_file).page
    assert page.text_content("#node-table tbody tr:first-child button").startswith(HOSTILE[2])


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1200])
def test_nothing_overflows_the_screen(visit, page_file, width, dark):
    opened = visit(page_file, width=width, dark=dark)
    opened.draw_everything()
    assert opened.overflow() <= 0
    background = opened.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(int(x) for x in background[4:-1].split(",")) < 200) == dark


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_axe_finds_no_serious_violation(visit, page_file, dark):
    opened = visit(page_file, dark=dark)
    opened.draw_everything()
    assert violations(opened.page) == []


def test_hostile_text_is_shown_as_text(visit, page_file):
    opened = visit(page_file)
    opened.draw_everything()
    page = opened.page
    page.select_option("#grouping", "class")
    opened.wait_until("document.getElementById('group-chart').textContent.includes('<script>')")
    assert page.title() == "<i>My</i> model"
    assert (
        page.locator("main img, main b:not(td b), main a[href^='javascript'], main i").count() == 0
    )
    for name in HOSTILE[:4]:
        assert name in page.text_content("#calibrated tbody")


def test_printing_draws_every_chart(visit, page_file):
    opened = visit(page_file)
    page = opened.page
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    opened.wait_until("[...document.querySelectorAll('.chart')].every(e => e.dataset.drawn)")


def test_the_theme_button_changes_the_theme(visit, page_file):
    page = visit(page_file).page
    page.click("#theme")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


@pytest.fixture(scope="module")
def plain_page(tmp_path_factory):
    data, splits = task(400, n_classes=3)
    made = gnncal.report(
        *data, **splits, methods=["structural-free"], class_names=["one", "two", "other"]
    )
    return made, made.save(tmp_path_factory.mktemp("plain") / "report.html")


def test_the_groups_open_where_the_worst_one_is(visit, plain_page):
    page = visit(plain_page[1]).page
    first = page.locator("#group-table tbody tr").first.locator("td").first.inner_text()
    assert page.locator("#grouping option:checked").inner_text() == first


def test_groups_have_their_gaps_before_and_after(visit, plain_page):
    made, path = plain_page
    rows = visit(path).page.locator("#group-table tbody tr").all()
    shown = [[cell.inner_text() for cell in row.locator("th, td").all()] for row in rows]
    gaps = {}
    for name in ("uncalibrated", "structural-free"):
        found = next(g for g in made.findings.methods[name].groups if g["name"] == "class")
        values = zip(found["group"].tolist(), found["confidence"] - found["accuracy"], strict=True)
        gaps[name] = {group: f"{100 * gap:+.1f}".replace("-", "−") for group, gap in values}
    expected = {(gaps["structural-free"][group], gaps["uncalibrated"][group]) for group in range(3)}
    assert {(row[5], row[6]) for row in shown if row[1] == "predicted class"} == expected


def test_a_method_without_temperatures_says_so_and_draws_none(visit, tmp_path):
    data, splits = task(400, n_classes=3)
    path = gnncal.report(*data, **splits, methods=["isotonic"]).save(tmp_path / "report.html")
    opened = visit(path)
    opened.draw_everything()
    assert opened.complaints == []
    assert opened.page.text_content("#temperature-note") == "This method has no temperatures."
    charts = opened.page.locator("#temperature .chart:visible")
    assert charts.count() == 0
    opened.page.select_option("#method", "uncalibrated")
    opened.draw_everything()
    assert charts.count() == 2
    opened.page.select_option("#method", "isotonic")
    assert charts.count() == 0
    assert opened.complaints == []


def test_temperatures_over_a_wide_range_are_written_in_full(visit, plain_page):
    opened = visit(plain_page[1])
    opened.draw_everything()
    assert "0.5" in opened.page.locator("#temperature-entropy-chart .ytick").all_text_contents()


def test_paper_is_white_also_when_the_screen_is_dark(visit, plain_page):
    page = visit(plain_page[1], dark=True).page
    theme = "document.documentElement.dataset.theme"
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate(theme) == "light"
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(theme) == "dark"


@pytest.fixture(scope="module")
def class_page(tmp_path_factory):
    data, splits = task(900, n_classes=5)
    made = gnncal.report(
        *data, **splits, methods=["ts", "structural-free"], class_names=HOSTILE, positive=1
    )
    return made.save(tmp_path_factory.mktemp("class") / "report.html")


def test_the_class_in_view_opens_without_complaint(visit, class_page):
    opened = visit(class_page)
    opened.draw_everything()
    assert opened.complaints == []
    assert opened.requests == [class_page.as_uri()]
    assert violations(opened.page) == []


def test_the_threshold_budget_costs_and_guarantees_answer(visit, class_page):
    page = visit(class_page).page
    for place, values, answer in (
        ("#class-threshold", ("3", "60"), "#class-threshold-answer"),
        ("#class-budget", ("5", "80"), "#class-budget-answer"),
        ("#cost-missed", ("1", "5000"), "#cost-answer"),
        ("#cost-review", ("0.1", "90"), "#cost-answer"),
    ):
        answers = set()
        for value in values:
            page.locator(place).fill(value)
            answers.add(page.text_content(answer))
        assert len(answers) == 2, place
    first = page.text_content("#guarantee-table tbody")
    page.select_option("#guarantee-kind", "recall")
    assert page.text_content("#guarantee-table tbody") != first


def test_costs_add_up_by_hand(visit, class_page):
    page = visit(class_page).page
    for place, value in (("missed", 7), ("false-alarm", 3), ("review", 2)):
        page.locator(f"#cost-{place}").fill(str(value))
    rows = page.locator("#cost-table tbody tr").all()
    cells = {
        row.locator("th").text_content(): [
            int(cell.replace(",", "").partition(" ")[0])
            for cell in row.locator("td").all_text_contents()
        ]
        for row in rows
    }
    n_nodes = sum(cells["clear all"][:3])
    n_positive = page.evaluate("Page.data.methods[Page.data.shown].one_class.n_positive")
    assert cells["clear all"][-1] == 7 * n_positive
    assert cells["act on all"][-1] == 3 * (n_nodes - n_positive)
    assert cells["review all"][-1] == 2 * n_nodes
    assert cells["lowest expected cost"][3] <= min(
        cells[rule][3] for rule in ("clear all", "act on all", "review all")
    )


def test_the_review_list_has_the_most_probable_nodes_without_those_of_the_fit(visit, class_page):
    opened = visit(class_page)
    page = opened.page
    page.locator("#class-budget").fill("7")
    page.locator("summary", has_text="Review list").click()
    shown = page.locator("#review-table tbody th").all_text_contents()
    _, splits = task(900, n_classes=5)
    fitted = {str(node) for name in ("calibration_nodes", "train_nodes") for node in splits[name]}
    assert len(shown) == 7
    assert not set(shown) & fitted
    with page.expect_download() as saved:
        page.click("#review-csv")
    rows = list(csv.reader(saved.value.path().read_text("utf-8-sig").splitlines()))
    assert rows[0][:2] == ["rank", "node"]
    assert [row[1] for row in rows[1:]] == shown
    shares = [float(row[2]) for row in rows[1:]]
    assert shares == sorted(shares, reverse=True)
    assert opened.complaints == []


def test_numbers_that_make_no_sense_are_refused(visit, class_page):
    page = visit(class_page).page
    for place, answer in (("class-budget", "1 or more"), ("cost-review", "0 or more")):
        page.locator(f"#{place}").fill("-1")
        name = "class-budget" if place == "class-budget" else "cost"
        assert answer in page.text_content(f"#{name}-answer")
        assert page.get_attribute(f"#{place}", "aria-invalid") == "true"


def test_the_slider_of_the_threshold_runs_upwards(visit, class_page):
    page = visit(class_page).page
    last = page.get_attribute("#class-threshold", "max")
    counts = []
    for position in ("0", last):
        page.locator("#class-threshold").fill(position)
        counts.append(page.text_content("#class-threshold-answer").split(": ")[1].split(" of ")[0])
    assert counts == ["450", "1"]


@pytest.mark.parametrize(
    ("share", "digits", "text"),
    [(1, 1, "100.0%"), (0.99996, 1, ">99.9%"), (0.99996, 2, ">99.99%"), (1e-9, 1, "<0.1%")],
)
def test_no_probability_is_rounded_to_certainty(visit, class_page, share, digits, text):
    assert visit(class_page).page.evaluate(f"Charts.percent({share}, {digits})") == text


def test_new_nodes_are_drawn_beside_what_chance_shows(visit, tmp_path):
    (logits, labels, graph), splits = task(900, n_classes=5)
    made = gnncal.report(
        *(logits, labels, graph),
        **splits,
        methods=["ts", "structural-free"],
        class_names=HOSTILE,
        positive=1,
        new=(logits / 4, graph),
    )
    path = made.save(tmp_path / "report.html")
    opened = visit(path, width=390, dark=True)
    opened.draw_everything()
    assert (opened.complaints, opened.requests) == ([], [path.as_uri()])
    assert opened.overflow() <= 0
    assert violations(opened.page) == []
    page, found = opened.page, made.findings.new_nodes
    drawn = page.evaluate("document.getElementById('moves-chart').data[0].x")
    assert drawn == pytest.approx([100 * m.distance for m in reversed(found.check.moves)], rel=1e-4)
    rows = page.locator("#new-guarantee-table tbody tr").all()
    assert len(rows) == len(found.guarantees) > 0
    last = rows[-1].locator("td").all_text_contents()[-1]
    assert last.startswith(f"{found.guarantees[-1]['n_new']:,} (")
    assert "do not hold" in page.text_content("#guarantees-verdict")
    before = page.text_content("#new-nodes")
    page.select_option("#method", "ts")  # the section stays with the method that it names
    assert page.text_content("#new-nodes") == before
