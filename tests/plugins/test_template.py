"""The template is a package whose calibrator gnncal treats as its own, from list to report."""

import json
import re

import pytest

from tests.gnncal_lab.bench.graphs import frozen_bundle, write_bundle, write_bundles
from tests.plugins.packages import TEMPLATE, install_template, python

pytestmark = pytest.mark.slow

# Every command in one interpreter: what it prints, and how it ends.
COMMANDS = """
import json, sys
from typer.testing import CliRunner
from gnncal.__main__ import app

done = [CliRunner().invoke(app, words) for words in json.loads(sys.argv[1])]
print(json.dumps([[one.exit_code, one.stdout, one.stderr] for one in done]))
"""
REPORT = ("report", "task.npz", "--methods", "ts,degree", "--out", "page.html", "--json")
STORY = {
    "list": ("methods",),
    "one": ("methods", "Degree", "--json"),
    "calibrate": ("calibrate", "task.npz", "--method", "degree", "--out", "made"),
    "apply": ("apply", "made/calibrator.safetensors", "task.npz", "--out", "served", "--json"),
    "run": ("bench", "run", "--bundles", "bundles", "--out", "out", "--methods", "ts,degree"),
    "again": ("bench", "run", "--bundles", "bundles", "--out", "out", "--methods", "degree"),
    "tables": ("bench", "tables", "out", "--reference", "ts"),
    "report": REPORT,
}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    install_template(folder)
    return folder


@pytest.fixture(scope="module")
def story(site, tmp_path_factory):
    """The folder in which all commands were run, and what each of them printed."""
    folder = tmp_path_factory.mktemp("work")
    write_bundles(folder / "bundles", seeds=(0,))
    write_bundle(folder / "task.npz", frozen_bundle(0))
    printed = json.loads(python(site, COMMANDS, json.dumps(list(STORY.values())), cwd=folder))
    for name, (code, _, error) in zip(STORY, printed, strict=True):
        assert code == 0, (name, error)
    return folder, {name: out for name, (_, out, _) in zip(STORY, printed, strict=True)}


def test_it_passes_its_own_tests(site):
    tests = (TEMPLATE / "tests" / "test_degree.py").read_text()
    calls = "\n".join(
        f"{line.removeprefix('def ').rstrip(':')}"
        for line in tests.splitlines()
        if line.startswith("def ")
    )
    python(site, f"{tests}\n{calls}")


def test_the_code_of_the_page_on_plugins_runs(site):
    page = (TEMPLATE.parents[1] / "docs" / "plugins.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 4
    python(site, "\n".join(blocks))
    entry, _ = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)  # the second is of a verb
    assert entry in (TEMPLATE / "pyproject.toml").read_text()


def test_methods_lists_it_with_its_package(story):
    _, said = story
    assert "gnncal-degree 0.1.0" in " ".join(said["list"].split())
    described = json.loads(said["one"])
    assert (described["name"], described["package"]) == ("degree", "gnncal-degree 0.1.0")
    assert described["summary"].startswith("Divide a node's logits by a temperature")
    (ridge,) = described["parameters"]
    assert (ridge["name"], ridge["default"]) == ("ridge", 0.001)
    assert ridge["expected"]


def test_it_calibrates_is_saved_and_serves(story):
    folder, said = story
    assert json.loads((folder / "made" / "summary.json").read_text())["method"] == "degree"
    assert json.loads(said["apply"])["method"] == "degree"


def test_it_is_benchmarked_and_its_records_are_kept(story):
    folder, said = story
    assert said["run"].startswith(
        "6 cells computed, 0 recorded before, 0 failed"
    )  # ts has 2 protocols
    assert said["again"].startswith("0 cells computed, 2 recorded before, 0 failed")
    assert "degree" in (folder / "out" / "tables" / "README.md").read_text()
    run = json.loads((folder / "out" / "runs.jsonl").read_text().splitlines()[0])
    assert run["versions"]["gnncal-degree"] == "0.1.0"


def test_it_is_in_the_report(story):
    folder, said = story
    assert set(json.loads(said["report"])["methods"]) == {
        *("uncalibrated", "ts", "degree", "structural-free"),
    }
    assert '"degree"' in (folder / "page.html").read_text()
