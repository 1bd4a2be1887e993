"""The pages that are made of the code say what the code and the records say."""

import inspect
import pkgutil
import re
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

import gnncal
from gnncal.calibrators.registry import describe, resolve
from gnncal.decisions.scores import SCORES
from gnncal_lab.bench.summary import PairedComparison
from site_pages import members, methods, outside, reference
from site_pages.results import Line, MethodResults, better_on, difference
from tests.plugins.packages import install_template, python

DOCS = Path(__file__).parents[2] / "docs"
OF_EVERY_PACKAGE = pytest.mark.skipif(
    find_spec("torchmetrics") is None, reason="the reference imports gnncal.torch.Metric"
)


def line(metric, mean, *, win_rate=0.75):
    return Line(
        metric, 0.5 + mean, 0.5, PairedComparison(4, mean, mean - 0.01, mean + 0.01, 0.1, win_rate)
    )


@pytest.mark.parametrize("name", gnncal.list_calibrators())
def test_a_docstring_says_when_to_use_the_method(name):
    assert describe(name).advice.startswith("Use it ")


def test_advice_links_to_the_methods_and_pages_that_it_names():
    text = "Use it where structural-vector is too much (docs/evidence.md), or ts."
    assert methods.linked(text) == (
        "Use it where [`structural-vector`](structural-vector.md) is too much "
        "([Benchmark results](../evidence.md)), or [`ts`](ts.md)."
    )


@pytest.mark.parametrize("name", gnncal.list_calibrators())
def test_the_names_in_advice_are_methods_that_are_there(name):
    documentation = (
        inspect.getdoc(resolve(name)[1].kind).partition("Notes\n-----")[2].partition("\n\n")[0]
    )
    for other in re.findall(r"``([a-z][a-z0-9-]*)``", documentation):
        assert other in gnncal.list_calibrators()


def test_a_difference_has_its_interval_in_the_unit_of_the_metric():
    assert difference(line("nll", -0.02)).split() == ["-0.0200", "[-0.0300,", "-0.0100]"]
    assert difference(line("ece", -0.02)).split() == ["-2.00", "[-3.00,", "-1.00]"]


def test_better_is_lower_for_losses_and_higher_for_accuracy():
    assert better_on(line("nll", -0.02)) == "3 of 4"
    assert better_on(line("accuracy", -0.02)) == "1 of 4"


@pytest.mark.parametrize("name", gnncal.list_calibrators())
def test_a_page_has_class_advice_results_and_formula(name):
    lines = tuple(line(metric, -0.02) for metric in ("nll", "ece", "accuracy"))
    page = methods.method_page(describe(name), MethodResults(lines, lines))
    assert page.startswith(f"# {name}\n")
    (path,) = re.findall(r"^\.\. autoclass:: (.+)$", page, re.M)
    assert pkgutil.resolve_name(path) is resolve(name)[1].kind
    assert methods.linked(describe(name).advice) in page
    shows_accuracy = "accuracy %" in page
    assert shows_accuracy == (name != "ts" and not describe(name).preserves_predictions)
    assert ("[-0.0300,\N{NO-BREAK SPACE}-0.0100]" in page) == (name != "ts")


def test_a_method_without_records_says_so():
    assert methods.NO_RESULTS in methods.method_page(describe("auto"), None)


@OF_EVERY_PACKAGE
def test_the_reference_has_every_public_name():
    text = "".join(reference.section(module) for module in reference.public_modules())
    listed = set(re.findall(r"^   (\w+)$", text, flags=re.M))
    for module in reference.public_modules():
        assert set(reference.public_names(module)) <= listed
    assert {"HoTS", "calibrate", "expected_calibration_error", "Policy"} <= listed


SITE = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from site_pages import methods, reference
import gnncal
assert "degree" in gnncal.list_calibrators()  # the plug-in is installed
methods.write_pages(Path("methods"), Path(sys.argv[1]).parent / "results")
print("pages", *(path.name for path in Path("methods").iterdir()))
print("estimators", *reference.estimators())
print("linked", methods.linked("ts or degree"))
"""


@pytest.mark.slow
def test_the_site_documents_no_method_of_an_installed_plug_in(tmp_path):
    site = tmp_path / "site"
    install_template(site)
    package = site / "stranger-1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1\n")
    (package / "entry_points.txt").write_text("[gnncal.homophily]\nodd = stranger:Odd\n")
    (tmp_path / "work").mkdir()
    printed = python(site, SITE, methods.DOCS, cwd=tmp_path / "work")
    pages, estimators, linked = (line.split() for line in printed.splitlines())
    assert "hots.md" in pages
    assert "beta.md" in pages  # of the laboratory
    assert "degree.md" not in pages
    assert "odd" not in estimators
    assert linked[-1] == "degree"
    assert "degree" not in (tmp_path / "work" / "methods" / "table.txt").read_text().split("`")


@OF_EVERY_PACKAGE
def test_the_table_of_metrics_is_made_of_the_code(tmp_path):
    reference.write_index(tmp_path)
    table = (tmp_path / "metrics_table.txt").read_text()
    assert "```{include} api/metrics_table.txt\n```" in (DOCS / "reference.md").read_text()
    assert "| `ece` | ECE % | lower | yes | no |" in table
    assert "| `nll` | NLL | lower | no | yes |" in table
    assert table.count("\n| `") == len(gnncal.metrics.METRICS)


@OF_EVERY_PACKAGE
def test_every_public_value_has_a_line_of_its_own():
    values = {
        f"{module.__name__}.{name}"
        for module in reference.public_modules()
        for name in reference.public_names(module)
        if isinstance(getattr(module, name), dict | tuple | int | str)
    }
    assert set(members.VALUES) == values


@OF_EVERY_PACKAGE
@pytest.mark.parametrize(
    ("page", "file", "kinds"),
    [
        ("decisions.md", "scores_table.txt", SCORES),
        ("methods.md", "homophily_table.txt", reference.estimators()),
    ],
)
def test_a_page_has_a_table_of_all_names_made_of_the_code(page, file, kinds, tmp_path):
    reference.write_index(tmp_path)
    table = (tmp_path / file).read_text()
    assert f"```{{include}} api/{file}\n```" in (DOCS / page).read_text()
    assert re.findall(r'^\| `"([\w-]+)"` \| `\w+\(', table, flags=re.M) == list(kinds)


def test_the_table_of_extras_has_every_extra():
    project = tomllib.loads((DOCS.parent / "pyproject.toml").read_text())["project"]
    listed = re.findall(r"^\| `(\w+)` ", (DOCS / "get_started.md").read_text(), flags=re.M)
    assert sorted(listed) == sorted(project["optional-dependencies"])


def test_the_page_of_commands_has_every_command_and_option():
    page = reference.cli_page()
    assert "### gnncal bench paper" in page
    assert "| `--fail-if METRIC>NUMBER` |" in page
    assert page.count("\n### ") > 20


def test_links_out_of_the_docs_lead_to_pages_or_copies():
    text = "[a](../CHANGELOG.md#x) [b](../results/r.md) [c](cli.md) [d](../results) ![e](../f.png)"
    expected = (
        "[a](development.md#x) {download}`b <../results/r.md>` [c](cli.md) `d` ![e](../f.png)"
    )
    assert outside.redirected(text) == expected


def test_links_of_included_files_are_those_of_the_root():
    text = "[a](docs/cli.md) [b](CHANGELOG.md) [c](https://x.org) [d](#here) [e](src/x.py)"
    assert outside.moved_to_docs(text) == (
        "[a](cli.md) [b](development.md) [c](https://x.org) [d](#here) {download}`e <../src/x.py>`"
    )


def test_an_anchor_of_an_included_file_is_one_that_pages_can_link_to():
    assert outside.moved_to_docs('[a](#x-y)\n<a id="x-y"></a>') == "[a](#x-y)\n(x-y)="


def test_every_page_of_the_docs_is_in_the_contents():
    listed = set()
    for page in DOCS.glob("*.md"):
        for block in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text(), flags=re.S):
            listed |= {row for row in block.split() if not row.startswith(":")}
    pages = {page.stem for page in DOCS.glob("*.md")} - {"index"}
    assert pages == {name for name in listed if "/" not in name}


def test_the_prose_of_a_guide_page_is_short():
    contents = re.findall(r"```\{toctree\}\n(.*?)```", (DOCS / "get_started.md").read_text(), re.S)
    for name in (row for row in contents[0].split() if not row.startswith(":")):
        text = re.sub(
            r"<!-- fill.*?<!-- end -->", "", (DOCS / f"{name}.md").read_text(), flags=re.S
        )
        words = re.sub(r"```.*?```|^(?: {4}|\|).*?$", "", text, flags=re.S | re.M).split()
        assert len(words) <= 1_200, (name, len(words))
